//! The command line without a hub.

#[cfg(test)]
mod tests {
    use std::process::{Command, Output, Stdio};

    /// Runs the program in an environment without a hub, key or agent.
    fn chorus(args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_chorus"));
        for name in ["CHORUS_URL", "CHORUS_KEY", "CHORUS_AGENT", "CHORUS_WEBHOOK_SECRET"] {
            command.env_remove(name);
        }
        command.env("XDG_CONFIG_HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/no-config"));
        command.args(args).stdin(Stdio::null()).output().unwrap()
    }

    fn text(bytes: &[u8]) -> &str {
        std::str::from_utf8(bytes).unwrap()
    }

    /// Checks the exit code, that standard output is empty, and the texts on standard error.
    #[track_caller]
    fn fails(args: &[&str], code: i32, said: &[&str]) {
        let output = chorus(args);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {stderr}");
        assert_eq!(text(&output.stdout), "", "{args:?}");
        for part in said {
            assert!(stderr.contains(part), "{args:?}: {stderr}");
        }
    }

    /// Returns an address without a listener.
    fn nobody() -> String {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    }

    #[test]
    fn wrong_usage_exits_2() {
        fails(&[], 2, &["Usage:"]);
        fails(&["dance"], 2, &["unrecognized subcommand"]);
        fails(&["send", "bob"], 2, &["TEXT"]);
        fails(
            &["send", "bob", "hi"],
            2,
            &["error: this needs the key of an agent\n\nhint: `chorus register"],
        );
        fails(
            &["send", "bob", "hi", "--key", "ca_x"],
            2,
            &["the sender is not known", "--from", "CHORUS_AGENT"],
        );
        fails(&["send", "bob", "hi", "--turn", "1"], 2, &["--conversation"]);
        fails(&["inbox"], 2, &["hint: `chorus register"]);
        fails(&["inbox", "--key", "k", "--limit", "3"], 2, &["--history"]);
        fails(&["agents", "--url", "nonsense"], 2, &["url: must be the hub's address"]);
        fails(&["completions", "dos"], 2, &["bash"]);
        let direct = ["send", "--to", "http://127.0.0.1:1/receive"];
        fails(&direct, 2, &["there is no TEXT to send"]);
        fails(&[&direct[..], &["hi"]].concat(), 2, &["the sender is not known"]);
        fails(&[&direct[..], &["hi", "--idempotency-key", "x"]].concat(), 2, &["cannot be used with"]);
        fails(
            &["send", "--to", "bob", "hi", "--from", "a@b"],
            2,
            &["url: must be the address where an agent"],
        );
        fails(&["receive", "--secret", "hunter2"], 2, &["secret: must be the webhook_secret", "whsec_"]);
        fails(&["receive", "--path", "inbox"], 2, &["path: must begin with /"]);
        fails(&["receive", "--count", "0"], 2, &["--count"]);
    }

    /// Programs get all failures in the same format.
    #[test]
    fn wrong_usage_as_json() {
        for (args, message, hint) in [
            (&["dance", "--json"][..], "unrecognized subcommand 'dance'", "Usage: chorus"),
            (&["--json", "sned", "bob"], "unrecognized subcommand 'sned'", "'send'"),
            (
                &["agent-url", "unset", "--json"],
                "were not provided: <AGENT>",
                "Usage: chorus agent-url unset",
            ),
            (&["inbox", "--count", "x", "--json"], "invalid value 'x'", ""),
            (&["--json"], "requires a subcommand", "Usage: chorus"),
            (&["channel", "--json"], "'chorus channel' requires a subcommand", "Usage: chorus channel"),
            (&["inbox", "--json"], "this needs the key of an agent", "chorus register"),
        ] {
            let output = chorus(args);
            assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), ""), "{args:?}");
            let said: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
            assert_eq!(text(&output.stderr).lines().count(), 1, "{args:?}");
            let part = |name: &str| said["error"][name].as_str().unwrap_or_default().to_owned();
            assert_eq!(part("code"), "USAGE", "{said}");
            assert!(part("message").contains(message) && part("hint").contains(hint), "{said}");
        }
        // Help is printed as help, and an argument after `--` is no option.
        assert!(text(&chorus(&["send", "--help", "--json"]).stdout).contains("Examples:"));
        fails(&["dance", "--", "--json"], 2, &["error: unrecognized subcommand"]);
    }

    #[test]
    fn what_is_wrong_is_told_before_anything_is_sent() {
        let bad = "must be a BCP 47 language tag";
        fails(&["register", "alice", "--culture", "en_US"], 2, &["agent_card.user_culture: ", bad]);
        fails(&["register", "alice", "--language", "?"], 2, &["supported_languages[0]: ", bad]);
        fails(&["register", "a b"], 2, &["agent_id: must be an address"]);
        let send = ["send", "bob", "hi", "--key", "k", "--from", "alice", "--context", "short"];
        fails(&send, 2, &["cultural_context: must be 10 to 500 characters"]);
        fails(
            &["register", "alice", "--card", "/nowhere.json"],
            1,
            &["cannot read the agent card /nowhere.json"],
        );
    }

    #[test]
    fn unreachable_exits_4() {
        let url = nobody();
        let said =
            ["error: cannot reach the hub at http://127.0.0.1:", "refused", "\n\nhint: start a hub here"];
        for args in [
            &["agents"][..],
            &["register", "alice"],
            &["inbox", "--key", "k"],
            &["inbox", "--history", "--key", "k"],
            &["send", "bob", "hi", "--key", "k", "--from", "alice", "--retry", "1"],
            &["skill"],
        ] {
            fails(&[args, &["--url", &url]].concat(), 4, &said);
        }
        let said =
            ["error: cannot reach the agent at http://127.0.0.1:", "refused", "\n\nhint: is the agent there"];
        fails(&["send", "--to", &url, "hi", "--from", "alice@x", "--retry", "1"], 4, &said);
    }

    #[test]
    fn an_address_that_is_taken() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        fails(&["receive", "--listen", &address], 1, &["cannot listen on 127.0.0.1:", "in use", "--listen"]);
    }

    #[test]
    fn completions_are_printed() {
        for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
            let output = chorus(&["completions", shell]);
            assert!(output.status.success());
            assert!(text(&output.stdout).contains("register"), "{shell}");
        }
    }

    #[test]
    fn every_help_teaches() {
        let all = chorus(&["--help"]);
        let commands = text(&all.stdout).split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
        // The continuation of a description is indented further.
        let names = commands.lines().filter(|line| !line.starts_with("   "));
        let names: Vec<_> = names.filter_map(|line| line.split_whitespace().next()).collect();
        assert!(names.len() > 40 && names.contains(&"register"), "{names:?}");
        for command in names.into_iter().filter(|name| *name != "help") {
            let output = chorus(&[command, "--help"]);
            assert!(output.status.success());
            let help = text(&output.stdout);
            assert!(help.contains("Examples:\n") && help.contains("chorus "), "{help}");
            assert!(!help.contains('\u{1b}'), "colours without a terminal: {help}");
        }
        assert!(text(&chorus(&["--help"]).stdout).contains("Examples:"));
    }

    #[test]
    fn the_help_never_shows_the_key() {
        let mut command = Command::new(env!("CARGO_BIN_EXE_chorus"));
        let output = command.args(["send", "--help"]).env("CHORUS_KEY", "ca_secret").output().unwrap();
        assert!(text(&output.stdout).contains("CHORUS_KEY"));
        assert!(!text(&output.stdout).contains("ca_secret"));
    }
}
