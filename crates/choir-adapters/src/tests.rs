//! Tests of the adapters' rules one by one. Whole traces are in `tests/traces.rs`.

mod agents_sdk;
mod crewai;
mod envelopes;
mod hostile;
mod langgraph;
mod openai;
mod otel;
mod otel_logs;
mod reading;
mod run_log;
mod silence;

use super::{About, AdaptError, Format, adapt};
use chorus_protocol::choir::evidence::{Bundle, Event};
use serde_json::Value;

fn bundle(format: Format, trace: &Value) -> Bundle {
    adapt(Some(format), trace.to_string().as_bytes(), &About::default()).unwrap()
}

/// Returns the events as `type voice action ref`, in order. Positions are shown without the trace's digest.
fn told(bundle: &Bundle) -> Vec<String> {
    let word = |text: &Option<String>| text.clone().unwrap_or("-".into());
    let line = |event: &Event| {
        let [voice, action, mut reference] = [&event.voice_name, &event.action, &event.reference].map(word);
        if reference.starts_with(['$', 'l']) {
            reference.truncate(reference.rfind('@').unwrap_or(reference.len()));
        }
        format!("{} {voice} {action} {reference}", event.event_type)
    };
    bundle.events.iter().map(line).collect()
}

/// Adapts a trace that is declared complete and returns whether it is accepted as such.
fn is_complete(format: Format, trace: &Value) -> bool {
    // The caller names the voice of events without one.
    let about = About { complete: true, voice: Some("Somebody".into()), ..About::default() };
    let bundle = adapt(Some(format), trace.to_string().as_bytes(), &about).unwrap();
    assert_eq!(bundle.complete, !codes(&bundle).contains(&"not_complete"), "{trace}");
    bundle.complete
}

fn codes(bundle: &Bundle) -> Vec<&str> {
    bundle.adapter_warnings.iter().map(|warning| warning.code.as_str()).collect()
}

fn error(format: Option<Format>, trace: &str) -> AdaptError {
    adapt(format, trace.as_bytes(), &About::default()).unwrap_err()
}
