//! Every bench runs and reports figures. No test checks how fast anything is.
//!
//! The benches start the program `chorus` in the folder of `chorus-bench`. `cargo test --workspace` builds both.

use serde_json::Value;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const SHORT: [&str; 9] =
    ["--seconds", "0.2", "--rounds", "1", "--senders", "4", "--receivers", "2", "--json"];

fn bench(dir: &Path, figure: &str) -> Command {
    let mut command = program(Path::new(env!("CARGO_BIN_EXE_chorus-bench")));
    command.args([figure, "--dir"]).arg(dir);
    command
}

fn chorus_path() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_chorus-bench")).with_file_name("chorus")
}

/// Returns a command without settings from the environment.
fn program(path: &Path) -> Command {
    let mut command = Command::new(path);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CHORUS_")) {
        command.env_remove(name);
    }
    command
}

/// A running hub. Dropping it kills it.
struct Hub {
    process: Child,
    url: String,
}

impl Hub {
    fn start(data: &Path) -> Self {
        let mut command = program(&chorus_path());
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data);
        command.env("CHORUS_RATE_LIMIT", "off").env("CHORUS_LOG", "warn").stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim_end().strip_prefix("chorus listening on ").unwrap().to_owned();
        Self { process, url }
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        // Both fail only if the hub has ended already.
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// Runs a bench, checks that it succeeds and leaves nothing behind, and returns its section.
#[track_caller]
fn found(mut command: Command, dir: &Path) -> Value {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(fs::read_dir(dir).unwrap().count(), 0, "nothing is left behind");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    document["benches"][0].clone()
}

#[track_caller]
fn positive(value: &Value) {
    assert!(value.as_f64().is_some_and(|number| number > 0.0), "{value}");
}

#[test]
fn relay_in_a_moment() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = bench(dir.path(), "relay");
    command.args(SHORT);
    let relay = found(command, dir.path());
    assert_eq!(relay["bench"], "relay");
    positive(&relay["exactly_once"]);
    let phases = relay["phases"].as_array().unwrap();
    let names: Vec<_> = phases.iter().map(|phase| phase["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["echo", "relay", "store alone", "disk"]);
    for phase in phases {
        positive(&phase["count"]);
        positive(&phase["per_second"]["median"]);
        for time in ["p50", "p90", "p99", "p99.9", "max"] {
            positive(&phase["answered_ms"][time]["median"]);
        }
    }
    positive(&phases[1]["received_ms"]["p99"]["median"]);
    let figures = relay["figures"].as_array().unwrap();
    assert_eq!(figures.len(), 3);
    for figure in figures {
        positive(&figure["median"]);
        assert!(figure["reached"].is_boolean() && figure["goal"].is_object(), "{figure}");
    }
}

/// Measures a version of `chorus` against itself.
#[test]
fn an_earlier_version_is_measured_beside_this_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = bench(dir.path(), "relay");
    command.args(SHORT).arg("--before").arg(chorus_path());
    let relay = found(command, dir.path());
    let names = relay["figures"].as_array().unwrap().iter().map(|figure| figure["name"].as_str().unwrap());
    assert!(names.clone().any(|name| name == "relay/before"), "{:?}", names.collect::<Vec<_>>());
    assert_eq!(relay["phases"][2]["name"], "relay, before");
    positive(&relay["figures"][1]["median"]);
}

/// Measures a server that the bench did not start. It must be named as an argument; a variable in the
/// environment is not enough.
#[test]
fn another_relay_is_measured_when_it_is_named() {
    let (data, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let hub = Hub::start(data.path());
    let mut command = bench(dir.path(), "relay");
    command.args(SHORT).args(["--url", &hub.url]);
    let relay = found(command, dir.path());
    assert!(relay["setup"].as_str().unwrap().ends_with(&hub.url), "{relay}");
    assert_eq!(relay["phases"].as_array().unwrap().len(), 3, "there is no store to look at");
    let agents = program(&chorus_path()).args(["agents", "--json", "--url", &hub.url]).output().unwrap();
    assert_eq!(agents.stdout, b"[]\n", "the agents of the load are gone");

    let mut command = bench(dir.path(), "relay");
    command.args(SHORT).env("CHORUS_URL", &hub.url);
    assert!(!found(command, dir.path())["setup"].as_str().unwrap().contains("http://"));
}

#[test]
fn history_and_start_in_a_moment() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = bench(dir.path(), "history");
    command.args(SHORT).args(["--messages", "1000"]);
    let history = found(command, dir.path());
    positive(&history["figures"][0]["median"]);
    positive(&history["exactly_once"]);
    let mut command = bench(dir.path(), "start");
    command.args(SHORT).args(["--messages", "1000"]);
    let start = found(command, dir.path());
    positive(&start["figures"][0]["median"]);
    positive(&start["figures"][1]["median"]);
}

#[test]
fn inboxes_and_size_in_a_moment() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = bench(dir.path(), "inboxes");
    command.args(["--count", "20", "--json"]);
    assert_eq!(found(command, dir.path())["bench"], "inboxes");
    let mut command = bench(dir.path(), "size");
    command.arg("--json");
    let size = found(command, dir.path());
    positive(&size["figures"][0]["median"]);
    positive(&size["figures"][1]["median"]);
}

#[test]
fn c2a_in_a_moment() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = bench(dir.path(), "c2a");
    command.args(SHORT).args(["--throng", "30"]);
    let c2a = found(command, dir.path());
    positive(&c2a["exactly_once"]);
    let figures = c2a["figures"].as_array().unwrap();
    assert_eq!(figures.len(), 3);
    for figure in figures {
        positive(&figure["median"]);
    }
    assert!(c2a["phases"][1]["received_ms"].is_object(), "deliveries by sessions were looked at: {c2a}");
}

#[test]
fn market_in_a_moment() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = bench(dir.path(), "market");
    command.args(SHORT).args(["--agents", "1000"]);
    let market = found(command, dir.path());
    positive(&market["exactly_once"]);
    let phases = market["phases"].as_array().unwrap();
    assert_eq!(phases.len(), 6);
    for phase in phases {
        positive(&phase["count"]);
    }
    let figures = market["figures"].as_array().unwrap();
    assert_eq!(figures.len(), 4);
    // The number of writes may be zero.
    assert!(figures.iter().all(|figure| figure["median"].is_number()), "{market}");
}

#[test]
fn page_in_a_moment() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = bench(dir.path(), "page");
    command.args(["--seconds", "0.2", "--rounds", "1", "--viewers", "5", "--said", "300", "--json"]);
    let page = found(command, dir.path());
    positive(&page["exactly_once"]);
    let figures = page["figures"].as_array().unwrap();
    assert_eq!(figures.len(), 4);
    assert!(figures.iter().all(|figure| figure["median"].is_number()), "{page}");
    // The size of a page is the same on every machine.
    assert_eq!(figures[1]["reached"], true, "{page}");
}

#[test]
fn choir_in_a_moment() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = bench(dir.path(), "choir");
    command.args(["--megabytes", "1", "--json"]);
    let choir = found(command, dir.path());
    let figures = choir["figures"].as_array().unwrap();
    assert_eq!(figures.len(), 5);
    for figure in figures {
        positive(&figure["median"]);
    }
}

#[test]
fn wrong_usage_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = bench(dir.path(), "size");
    let output = command.args(["--url", "http://127.0.0.1:1"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let mut command = bench(dir.path(), "relay");
    let output = command.args(["--url", "https://hub.example"]).output().unwrap();
    assert_ne!(output.status.code(), Some(0));
    let mut command = bench(Path::new("/nowhere"), "size");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot make a folder in /nowhere"));
}

/// Acknowledged messages arrive under attack as well.
#[test]
fn a_short_siege() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = bench(dir.path(), "siege");
    command.args(["--seconds", "1", "--json"]);
    let siege = found(command, dir.path());
    positive(&siege["exactly_once"]);
    assert_eq!(siege["figures"].as_array().unwrap().len(), 3);
}
