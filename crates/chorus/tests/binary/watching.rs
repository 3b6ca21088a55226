//! `chorus fleet --watch`: prints again when something changes, and only then.

use crate::hub::chorus;
use crate::terminal::{Terminal, text};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);

/// A running command and its output lines.
struct Watching {
    child: Child,
    lines: Receiver<String>,
}

impl Watching {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (said, lines) = mpsc::channel();
        std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| said.send(line)));
        Self { child, lines }
    }

    fn next(&self) -> String {
        self.lines.recv_timeout(SOON).expect("it says something")
    }

    fn assert_quiet(&self, time: Duration) {
        assert_eq!(self.lines.recv_timeout(time).ok(), None, "nothing has changed");
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

#[test]
fn the_fleet_is_shown_again_when_it_changes() {
    let at = Terminal::open();
    let anna = at.person("anna");
    at.json(&anna, &["register", "marl"]);
    let watch = |args: &[&str]| {
        let mut command = chorus();
        command.args(["fleet", "--watch"]).args(args).env("CHORUS_URL", &at.hub.url).env("CHORUS_KEY", &anna);
        Watching::start(command)
    };
    let (people, programs) = (watch(&[]), watch(&["--json"]));
    assert!(people.next().contains("STATE"));
    assert!(people.next().contains("marl@"));
    let first: Value = serde_json::from_str(&programs.next()).unwrap();
    people.assert_quiet(Duration::from_secs(5));

    at.json(&anna, &["register", "olga"]);
    assert_eq!(people.next(), "", "a line between");
    assert!(people.next().contains("STATE"));
    let both = [people.next(), people.next()].concat();
    assert!(both.contains("marl@") && both.contains("olga@"), "{both}");
    let second: Value = serde_json::from_str(&programs.next()).unwrap();
    let names =
        |shown: &Value| shown.as_array().unwrap().iter().map(|one| text(&one["address"])).collect::<Vec<_>>();
    assert_eq!((names(&first).len(), names(&second).len()), (1, 2));
}
