//! `chorus adapt`: converts a trace in a file or on standard input to a bundle on standard output, or fails
//! without output.

use serde_json::{Value, json};
use std::io::Write as _;
use std::process::{Command, Output, Stdio};

fn adapt(args: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chorus"));
    command.arg("adapt").args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that refuses its arguments does not read its input.
    child.stdin.take().unwrap().write_all(input.as_bytes()).ok();
    child.wait_with_output().unwrap()
}

fn bundle(args: &[&str], input: &Value) -> Value {
    let output = adapt(args, &input.to_string());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[track_caller]
fn fails(args: &[&str], input: &str, code: i32, said: &str) {
    let output = adapt(args, input);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {stderr}");
    assert!(output.stdout.is_empty() && stderr.contains(said), "{args:?}: {stderr}");
}

#[test]
fn a_trace_becomes_a_bundle_with_the_scores_voices() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("score.json");
    let score = json!({"title": "t", "voices": [{"name": "Triage", "aliases": ["model"]}], "scenarios": [{"id": "s", "severity": "low"}]});
    std::fs::write(&file, score.to_string()).unwrap();
    let trace = json!([{"MODEL": {"tool_calls": [{"name": "look", "id": "c1"}]}}, {"critic": {"verdict": "rejected"}}]);
    let score = ["--score", file.to_str().unwrap()];
    let bundle = bundle(&[&["langgraph", "-", "--run-id", "r1", "--complete"], &score[..]].concat(), &trace);
    assert_eq!(bundle["schema"], "choir.evidence.v1");
    assert_eq!(bundle["adapter"], json!({"id": "langgraph.stream.v1", "version": "1.0.0"}));
    assert_eq!((&bundle["run_id"], &bundle["complete"]), (&json!("r1"), &json!(true)));
    let voices: Vec<_> =
        bundle["events"].as_array().unwrap().iter().map(|event| &event["voice_name"]).collect();
    assert_eq!(voices, ["Triage", "critic"]);
    assert_eq!(bundle["adapter_warnings"][0]["code"], "unknown_voice");
}

#[test]
fn what_a_trace_cannot_say_is_said_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("score.json");
    let score = json!({"title": "t", "voices": [{"name": "Drafter"}, {"name": "Policy"}], "scenarios": [{"id": "refund", "severity": "low"}]});
    std::fs::write(&file, score.to_string()).unwrap();
    let score = ["--score", file.to_str().unwrap()];
    let trace = json!([
        {"type": "tool_usage_started", "tool_name": "x", "event_id": "1", "agent_role": "Senior Writer"},
        {"type": "tool_usage_started", "tool_name": "y", "event_id": "2"},
    ]);
    let said =
        ["crewai", "-", "--scenario", "refund", "--voice", "Senior Writer=Drafter", "--voice", "policy"];
    let bundle = bundle(&[&said[..], &score[..]].concat(), &trace);
    assert_eq!(bundle["scenario_id"], "refund");
    let voices: Vec<_> =
        bundle["events"].as_array().unwrap().iter().map(|event| &event["voice_name"]).collect();
    assert_eq!(voices, ["Drafter", "Policy"]);
    for (wrong, why) in [
        (["--voice", "Nobody"], "the Score has no voice \"Nobody\""),
        (["--voice", "x=Nobody"], "the Score has no voice \"Nobody\""),
        (["--scenario", "elsewhere"], "the Score has no scenario \"elsewhere\""),
        (["--voice", "=x"], "says no voice"),
    ] {
        fails(&[&["crewai", "-"], &wrong[..], &score[..]].concat(), "[]", 2, why);
    }
    fails(&["crewai", "-", "--voice", "a", "--voice", "b"], "[]", 2, "one more for those that name nobody");
}

#[test]
fn every_format_by_name_and_guessed() {
    let spans = json!([{"name": "execute_tool x", "context": {"span_id": "0x1"}, "attributes": {"gen_ai.operation.name": "execute_tool"}}]);
    for (format, trace) in [
        (
            "openai",
            json!({"object": "response", "status": "completed", "output": [{"type": "function_call", "name": "x", "call_id": "1"}]}),
        ),
        ("langgraph", json!([["updates", {"a": {"tool_calls": [{"name": "x", "id": "1"}]}}]])),
        (
            "crewai",
            json!([{"type": "tool_usage_started", "tool_name": "x", "event_id": "1", "agent_role": "A"}]),
        ),
        ("otel", spans),
    ] {
        for asked in [format, "auto"] {
            let bundle = bundle(&[asked], &trace);
            assert_eq!(bundle["events"][0]["action"], "x", "{asked} {trace}");
            assert!(bundle["adapter"]["id"].as_str().unwrap().starts_with(format));
        }
    }
}

#[test]
fn what_is_wrong_is_said_and_nothing_is_printed() {
    fails(&["fortran"], "[]", 2, "must be openai, langgraph, crewai, otel or auto");
    fails(&["openai"], "", 1, "the trace is empty");
    fails(&["crewai"], "[{\"a\": NaN}]", 1, "NaN and Infinity are no JSON");
    fails(&["crewai"], "{'a': 1}", 1, "this is not JSON");
    fails(&["langgraph"], "[1, 2", 1, "it ends in the middle (line 1");
    fails(&["langgraph"], "42", 1, "the trace is a number");
    fails(&["auto"], "{\"hello\": [1]}", 1, "nothing in the trace says which framework wrote it");
    fails(
        &["openai"],
        "[{\"type\": \"tool_usage_started\", \"agent_role\": \"A\"}]",
        1,
        "looks like one of crewai",
    );
    fails(&["openai", "/nowhere/trace.json"], "", 1, "cannot read /nowhere/trace.json");
    fails(&["openai", "/"], "", 1, "error: /: the trace cannot be read");
    fails(&["openai", "--score", "/nowhere/score.json"], "[]", 1, "cannot read /nowhere/score.json");
}
