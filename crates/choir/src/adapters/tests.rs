//! The adapters' rules one by one. Whole traces are in `tests/traces.rs`.

mod crewai;
mod langgraph;
mod openai;
mod otel;
mod reading;

use super::{About, AdaptError, Format, adapt};
use chorus_protocol::choir::evidence::{Bundle, Event};
use serde_json::Value;

fn bundle(format: Format, trace: &Value) -> Bundle {
    adapt(Some(format), trace.to_string().as_bytes(), &About::default()).unwrap()
}

/// Events as `type voice action ref`, in order.
fn told(bundle: &Bundle) -> Vec<String> {
    let word = |text: &Option<String>| text.clone().unwrap_or("-".into());
    let line = |event: &Event| {
        let [voice, action, reference] = [&event.voice_name, &event.action, &event.reference].map(word);
        format!("{} {voice} {action} {reference}", event.event_type)
    };
    bundle.events.iter().map(line).collect()
}

fn codes(bundle: &Bundle) -> Vec<&str> {
    bundle.adapter_warnings.iter().map(|warning| warning.code.as_str()).collect()
}

fn error(format: Option<Format>, trace: &str) -> AdaptError {
    adapt(format, trace.as_bytes(), &About::default()).unwrap_err()
}
