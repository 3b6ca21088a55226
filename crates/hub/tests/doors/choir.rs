//! Choir's doors: Scores and their visibility, asserted and signed evidence, receipts and public verification.

mod answers;
pub(crate) mod ingest;
mod pages;
mod receipts;
mod scores;

use crate::support::TestHub;
use serde_json::{Value, json};

pub(crate) const SCORES: &str = "/api/v1/scores";

/// Returns a small Score: two voices, one scenario of high severity.
pub(crate) fn score() -> Value {
    let voice = |name: &str, last: bool| {
        json!({
            "name": name, "role": "does its part", "entry": !last, "final_voice": last,
            "reviewed_by": if last { json!("Policy") } else { Value::Null },
            "authority": {"limits": ["nothing above 100"], "forbidden_actions": ["refund"]},
            "escalation_triggers": [{"id": "stuck", "condition": "stuck", "to": "human:desk"}],
            "evidence_requirement": "cite", "may_dissent": true, "dissent_must_reach_output": true,
            "handoffs": if last { json!([]) } else { json!([{"to": "Drafter", "carries": ["case"], "acknowledged": true}]) },
        })
    };
    json!({
        "title": "Refunds", "voices": [voice("Policy", false), voice("Drafter", true)],
        "scenarios": [{"id": "over-limit", "severity": "high", "prompt": "500 please", "required_voices": ["Policy", "Drafter"]}],
    })
}

/// Returns a bundle with one event on the scenario.
pub(crate) fn bundle(event: &Value) -> Value {
    json!({"schema": "choir.evidence.v1", "run_id": "r1", "scenario_id": "over-limit", "events": [event]})
}

pub(crate) fn warned() -> Value {
    bundle(&json!({"event_type": "ignored_warning", "voice_name": "Policy"}))
}

/// Returns a run as LangGraph streams it.
pub(crate) fn trace() -> Value {
    let call = json!({"name": "look_up", "args": {"key": "hunter2-secret"}, "id": "call_1"});
    json!([{"policy": {"messages": [{"type": "ai", "content": "", "tool_calls": [call]}]}}])
}

/// Creates a Score and returns its path.
pub(crate) async fn made(hub: &TestHub, key: &str) -> String {
    let answer = hub.post(SCORES, Some(key), &score()).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    format!("{SCORES}/{}", answer.body["score_id"].as_str().unwrap())
}

/// Creates a signing secret. Returns the secret and its ingest path.
pub(crate) async fn secret(hub: &TestHub, score: &str, key: &str) -> (String, String) {
    let answer = hub.post(&format!("{score}/signing-secrets"), Some(key), &json!({})).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    let text = |name: &str| answer.body[name].as_str().unwrap().to_owned();
    (text("secret"), text("ingest_url").strip_prefix(&hub.url).unwrap().to_owned())
}

/// Issues a receipt and returns it.
pub(crate) async fn issued(hub: &TestHub, score: &str, key: &str) -> Value {
    let answer = hub.post(&format!("{score}/receipts"), Some(key), &json!({})).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    answer.body
}
