//! A hub and a terminal: commands with a key, and their output.

use crate::hub::{Hub, OPERATOR, chorus};
use serde_json::Value;
use std::io::Write;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// A separate hub, in a temporary folder.
pub(crate) struct Terminal {
    pub(crate) hub: Hub,
    pub(crate) folder: TempDir,
}

/// The result of a command.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Checks that the command failed like this, without standard output.
    #[track_caller]
    pub(crate) fn failed(&self, code: i32, said: &str) {
        assert!(self.code == code && self.out.is_empty() && self.err.contains(said), "{said}: {self:?}");
    }
}

impl Terminal {
    pub(crate) fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { hub: Hub::start(&folder.path().join("hub"), None), folder }
    }

    /// Returns a command with this key; an empty one means no key.
    fn command(&self, key: &str, args: &[&str]) -> Command {
        let mut command = chorus();
        command.args(args).env("CHORUS_URL", &self.hub.url).current_dir(self.folder.path());
        if !key.is_empty() {
            command.env("CHORUS_KEY", key);
        }
        command
    }

    pub(crate) fn run(&self, key: &str, args: &[&str]) -> Ran {
        Ran::of(self.command(key, args).output().unwrap())
    }

    /// Runs a command with this standard input.
    pub(crate) fn fed(&self, key: &str, args: &[&str], input: &str) -> Ran {
        let mut command = self.command(key, args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        Ran::of(child.wait_with_output().unwrap())
    }

    /// Runs a command that must succeed, and returns its output.
    #[track_caller]
    pub(crate) fn good(&self, key: &str, args: &[&str]) -> String {
        let ran = self.run(key, args);
        assert_eq!(ran.code, 0, "{args:?}: {ran:?}");
        ran.out
    }

    /// Runs a command with `--json` and returns the parsed output.
    #[track_caller]
    pub(crate) fn json(&self, key: &str, args: &[&str]) -> Value {
        let out = self.good(key, &[args, &["--json"]].concat());
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{args:?}: {error}: {out:?}"))
    }

    /// Creates an account and returns its token.
    pub(crate) fn person(&self, name: &str) -> String {
        text(&self.json(OPERATOR, &["account", "create", &format!("{name}@example.org")])["api_token"])
    }

    /// Registers an agent and returns its key.
    pub(crate) fn agent(&self, name: &str) -> String {
        text(&self.json("", &["register", name])["api_key"])
    }
}

#[track_caller]
pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("not a text: {value}")).to_owned()
}
