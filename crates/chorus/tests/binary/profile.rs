//! `chorus init`, `login`, `whoami` and `logout`: a hub from a written file, and commands without two exports.

use crate::hub::{Hub, OPERATOR, chorus};
use crate::terminal::{Terminal, text};
use serde_json::Value;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

/// A user with a configuration folder and no variables.
struct User(PathBuf);

impl User {
    fn of(at: &Terminal) -> Self {
        Self(at.folder.path().join("config"))
    }

    fn run(&self, args: &[&str], variables: &[(&str, &str)], input: &str) -> Output {
        let mut command = chorus();
        command.args(args).env("XDG_CONFIG_HOME", &self.0).envs(variables.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A command that fails early does not read its input.
        child.stdin.take().unwrap().write_all(input.as_bytes()).ok();
        child.wait_with_output().unwrap()
    }

    #[track_caller]
    fn good(&self, args: &[&str]) -> String {
        let output = self.run(args, &[], "");
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    #[track_caller]
    fn fails(&self, args: &[&str], variables: &[(&str, &str)], code: i32, said: &str) {
        let output = self.run(args, variables, "");
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(code) && told.contains(said), "{args:?}: {told}");
    }

    #[track_caller]
    fn login(&self, url: &str, args: &[&str], key: &str) {
        let output = self.run(&[&["login", url], args].concat(), &[], &format!("{key}\n"));
        assert!(output.status.success(), "{output:?}");
        let told = [output.stdout, output.stderr].concat();
        assert!(!String::from_utf8(told).unwrap().contains(key), "the key is not shown");
    }

    fn file(&self, profile: &str) -> PathBuf {
        self.0.join(format!("chorus/profiles/{profile}.json"))
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn one_login_is_enough_for_all_commands() {
    let at = Terminal::open();
    let (user, url) = (User::of(&at), at.hub.url.clone());
    let anna = at.person("anna");
    user.fails(&["whoami"], &[], 2, "nobody is logged in at http://127.0.0.1:8787");
    user.login(&url, &[], &anna);
    assert_eq!((mode(&user.file("default")), mode(user.file("").parent().unwrap())), (0o600, 0o700));
    assert!(user.good(&["channel", "create", "ops"]).contains("ops"));
    let me: Value = serde_json::from_str(&user.good(&["whoami", "--json"])).unwrap();
    assert_eq!((text(&me["url"]), text(&me["profile"])), (url.clone(), "default".to_owned()));
    assert_eq!(me["me"]["email"], "anna@example.org");
    // An agent that is registered now is anna's.
    let bob: Value = serde_json::from_str(&user.good(&["register", "bob", "--json"])).unwrap();
    let key = text(&bob["api_key"]);
    // What is given wins.
    let output = user.run(&["whoami"], &[("CHORUS_KEY", key.as_str())], "");
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.starts_with(&url) && told.contains("bob@"), "{told}");
    // A second profile, by name.
    user.login(&url, &["--profile", "work"], &key);
    assert!(user.good(&["whoami", "--profile", "work"]).contains("bob@"));
    assert!(user.good(&["whoami"]).contains("anna@"));
    user.good(&["logout", "--profile", "work"]);
    user.fails(&["whoami", "--profile", "work"], &[], 2, "there is no profile work");
    user.good(&["logout"]);
    assert!(!user.file("default").exists());
    user.fails(&["whoami"], &[], 2, "nobody is logged in");
    user.fails(&["logout"], &[], 2, "there is no profile default");
    user.good(&["account", "show", "--url", &url, "--key", &anna]);
}

#[test]
fn a_key_stays_with_its_hub_and_its_user() {
    let (at, other) = (Terminal::open(), Terminal::open());
    let (user, url) = (User::of(&at), at.hub.url.clone());
    let refused = user.run(&["login", &url], &[], "ct_00000000000000000000000000000000\n");
    assert_eq!((refused.status.code(), user.file("default").exists()), (Some(3), false), "{refused:?}");
    user.fails(&["login", &url], &[], 2, "there is no key");
    user.fails(&["login", &url, "--profile", "../x"], &[], 2, "is no name for a profile");
    let anna = at.person("anna");
    user.login(&url, &[], &anna);
    let elsewhere = [("CHORUS_URL", other.hub.url.as_str())];
    user.fails(&["whoami"], &elsewhere, 2, "nobody is logged in at");
    user.fails(&["whoami", "--profile", "default"], &elsewhere, 2, "the profile default is for");
    // A revoked token: the hint names the profile.
    let tokens: Vec<Value> = serde_json::from_str(&user.good(&["token", "list", "--json"])).unwrap();
    user.good(&["token", "revoke", &text(&tokens[0]["id"])]);
    user.fails(&["channel", "list"], &[], 3, "`chorus login URL` keeps another");
    fs::set_permissions(user.file("default"), fs::Permissions::from_mode(0o644)).unwrap();
    user.fails(&["channel", "list"], &[], 1, "can be read by others");
}

#[test]
fn a_hub_from_a_written_file() {
    let folder = tempfile::tempdir().unwrap();
    let init = |args: &[&str]| {
        let mut command = chorus();
        command.arg("init").args(args).current_dir(folder.path());
        command.output().unwrap()
    };
    let output = init(&["--listen", "127.0.0.1:0", "--signup", "closed"]);
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && told.contains("1. chorus serve --config "), "{told}");
    let file = folder.path().join("chorus/chorus.toml");
    assert_eq!(mode(&file), 0o600);
    let again = init(&[]);
    assert!(String::from_utf8(again.stderr).unwrap().contains("is there already"));
    let wrong = init(&["--dir", "other", "--mail", "pigeon", "--public-url", "hub.example"]);
    let told = String::from_utf8(wrong.stderr).unwrap();
    assert!(wrong.status.code() == Some(2) && told.contains("CHORUS_MAIL"), "{told}");
    assert!(told.contains("CHORUS_PUBLIC_URL") && !folder.path().join("other").exists(), "{told}");

    let mut serve = chorus();
    serve.arg("serve").arg("--config").arg(&file).env("CHORUS_OPERATOR_KEY", OPERATOR);
    let hub = Hub::run(serve);
    let mut register = chorus();
    let output = register.args(["register", "bob", "--url", &hub.url]).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "sign-up is closed: {output:?}");
    assert!(folder.path().join("chorus/data/chorus.db").exists());
}
