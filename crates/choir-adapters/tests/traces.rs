//! Real traces, compared with what happened in their runs. Small traces made for this test are in `fixtures`.
//! All others belong to other projects and are read from the folder named by `CHORUS_TRACES`, by default
//! `shared/traces` beside the project.

#![cfg(test)]

use chorus_choir_adapters::{About, Format, adapt};
use chorus_protocol::choir::evidence::Bundle;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn folder() -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let folder = std::env::var_os("CHORUS_TRACES").map_or_else(beside, PathBuf::from);
    folder.join("expect.json").is_file().then_some(folder)
}

fn counts(bundle: &Bundle) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for event in &bundle.events {
        *counts.entry(event.event_type.to_string()).or_default() += 1;
    }
    counts
}

fn wanted(value: &Value) -> BTreeMap<String, u64> {
    serde_json::from_value(value.clone()).expect("counts of events")
}

/// Returns which of the allowed outcomes a bundle matches, or the reason why it matches none.
fn judge(bundle: &Bundle, expected: &Value) -> Result<&'static str, String> {
    let (events, warnings) = (counts(bundle), bundle.adapter_warnings.len() as u64);
    let enough = |least: &Value| warnings >= least.as_u64().unwrap_or(0);
    let preferred = &expected["preferred"];
    if preferred.is_null() || (wanted(preferred) == events && enough(&expected["min_adapter_warnings"])) {
        return Ok("preferred");
    }
    let alternatives = expected["alternatives"].as_array().into_iter().flatten();
    for alternative in alternatives {
        if wanted(&alternative["events"]) == events && enough(&alternative["aw_min"]) {
            return Ok("alternative");
        }
    }
    Err(format!("{events:?} with {warnings} warnings; {:#?}", bundle.adapter_warnings))
}

#[test]
fn every_fixture_gives_what_happened() {
    every_trace_of(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures"));
}

#[test]
fn every_trace_gives_what_happened() {
    match folder() {
        Some(folder) => every_trace_of(&folder),
        None => eprintln!("NOT RUN: there is no folder ../shared/traces, and CHORUS_TRACES names none"),
    }
}

fn every_trace_of(folder: &Path) {
    let expected = fs::read(folder.join("expect.json")).unwrap();
    let expected: BTreeMap<String, Value> = serde_json::from_slice(&expected).unwrap();
    let mut wrong = Vec::new();
    for (name, expected) in &expected {
        let trace = fs::read(folder.join(format!("{name}.json"))).unwrap();
        let format = Format::parse(name.split('-').next().unwrap()).unwrap();
        let bundle = match adapt(Some(format), trace.as_slice(), &About::default()) {
            Ok(bundle) => bundle,
            Err(error) if expected["input_error_expected"] == true => {
                assert!(!error.to_string().is_empty());
                continue;
            }
            Err(error) => {
                wrong.push(format!("{name}: {error}"));
                continue;
            }
        };
        match judge(&bundle, expected) {
            Ok("preferred") => {}
            Ok(other) => eprintln!("{name}: {other}"),
            Err(why) => wrong.push(format!("{name}: {why}")),
        }
        let written = serde_json::to_string(&bundle).unwrap();
        for secret in ["sk-FAKE", "fake-api-key", "encrypted_content", "base64"] {
            assert!(!written.contains(secret), "{name} copies {secret}");
        }
        assert!(written.len() < 256 * 1024, "{name}: {} bytes", written.len());
        Bundle::read(serde_json::from_str(&written).unwrap())
            .unwrap_or_else(|faults| panic!("{name}: {faults}"));
        guessed(name, format, &trace, &mut wrong);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Checks the guess of a format. Traces without any marker cannot be guessed; all others are.
fn guessed(name: &str, format: Format, trace: &[u8], wrong: &mut Vec<String>) {
    let shapeless = ["crewai-null", "crewai-wrong-shape", "crewai-output-log-file"];
    match adapt(None, trace, &About::default()) {
        Ok(bundle) if bundle.adapter.as_ref().is_some_and(|made| made.id.starts_with(format.as_str())) => {}
        Ok(bundle) => wrong.push(format!("{name} was taken for {:?}", bundle.adapter)),
        Err(_) if shapeless.contains(&name) => {}
        Err(error) => wrong.push(format!("{name}: {error}")),
    }
}
