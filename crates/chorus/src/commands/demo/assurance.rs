//! The demo's Score: declares the voices, signs evidence taken from the channel's log, and has a receipt
//! issued that everyone can verify.

use super::Pace;
use crate::output;
use anyhow::Context;
use chorus_agent::{Client, Environment, Method, submit_evidence};
use chorus_choir::signing::{self, PREFIX_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER};
use chorus_protocol::api::Items;
use chorus_protocol::api::events::EventView;
use chorus_protocol::canonical;
use chorus_protocol::words::EventKind;
use serde_json::{Value, json};

/// The number of polls for the end of the run, and their interval at normal speed.
const LOOKS: usize = 1200;
const APART_MS: u64 = 1000;
/// The beginnings of honey's objection and of timber's report.
const OBJECTS: &str = "I object";
const DONE: &str = "Done on staging";

fn score() -> Value {
    let escalation =
        |id: &str, condition: &str| json!([{"id": id, "condition": condition, "to": "human:Mara"}]);
    json!({
        "title": "Deploy review",
        "voices": [
            {
                "name": "timber", "role": "takes releases to staging and on", "entry": true, "final_voice": true, "reviewed_by": "honey",
                "authority": {
                    "limits": ["nothing reaches production before honey has read the migration"],
                    "allowed_actions": [
                        "release.read", "migration.plan", "services.diff", "staging.apply", "staging.backfill", "staging.check",
                    ],
                    "forbidden_actions": ["production.apply"],
                },
                "escalation_triggers": escalation("unsure", "the plan is not clean"),
                "evidence_requirement": "cite", "may_dissent": true, "dissent_must_reach_output": true,
            },
            {
                "name": "honey", "role": "reads migrations before they run",
                "authority": {"limits": ["changes nothing"], "allowed_actions": ["sql.explain", "locks.replay"]},
                "escalation_triggers": escalation("long-lock", "a table is locked for more than a second"),
                "evidence_requirement": "required", "may_dissent": true, "dissent_must_reach_output": true,
                "handoffs": [{"to": "timber", "carries": ["the objection"], "acknowledged": true}],
            },
        ],
        "scenarios": [{
            "id": "long-lock", "title": "A migration that locks a table", "severity": "high",
            "prompt": "Take ledger-api 4.18 through review.",
            "required_voices": ["timber", "honey"], "expected_escalations": ["long-lock"],
            "forbidden_actions": ["production.apply"],
        }],
    })
}

/// Returns the channel's events once both messages were sent.
async fn run_of(visitor: &Client, channel: &str, pace: Pace) -> anyhow::Result<Vec<EventView>> {
    for _ in 0..LOOKS {
        let path = ["channels", channel, "events"];
        let found: Items<EventView> = visitor.api_get(&path, &[("limit", "200")]).await?;
        let is_said = |words: &&str| found.items.iter().any(|event| says(event).starts_with(*words));
        if [OBJECTS, DONE].iter().all(is_said) {
            return Ok(found.items);
        }
        pace.wait(APART_MS).await;
    }
    anyhow::bail!("the release did not come to staging in time")
}

fn says(event: &EventView) -> &str {
    event.content.as_deref().filter(|_| event.kind.known() == Some(EventKind::Message)).unwrap_or_default()
}

/// Converts the log of the two voices to evidence. It adds nothing that is not in the log.
fn evidence(log: &[EventView]) -> Value {
    let mut events = vec![];
    for event in log {
        let voice = event.author.handle.as_deref().unwrap_or_default();
        if !["timber", "honey"].contains(&voice) {
            continue;
        }
        let mut add = |kind: &str, more: Value| {
            let mut one = json!({"event_type": kind, "voice_name": voice, "ref": event.event_id, "occurred_at": event.created_at});
            if let (Some(one), Value::Object(more)) = (one.as_object_mut(), more) {
                one.extend(more);
            }
            events.push(one);
        };
        match event.kind.known() {
            Some(EventKind::ToolCall) => add("tool_call", json!({"action": event.more.get("name")})),
            Some(EventKind::ToolResult) => add("evidence_cited", json!({})),
            Some(EventKind::Message) if says(event).starts_with(OBJECTS) => {
                // The objection was sent where all can read it, including Mara, and timber acted on it.
                let used = json!({"target_voice": "timber", "disposition": "used", "reached_output": true});
                add("dissent", used);
                add("escalation", json!({"reached_output": true}));
                add("handoff", json!({"target_voice": "timber", "acknowledged": true}));
            }
            Some(EventKind::Message) if says(event).starts_with(DONE) => add("final_output", json!({})),
            _ => {}
        }
    }
    json!({
        "schema": "choir.evidence.v1", "run_id": "ledger-api-4.18", "complete": true, "scenario_id": "long-lock",
        "events": events,
    })
}

/// Declares the Score, signs the evidence from the channel's log, has the receipt issued, and prints its
/// address.
pub(super) async fn assure(visitor: &Client, url: &str, channel: &str, pace: Pace) -> anyhow::Result<()> {
    let made: Value = visitor.api_write(Method::POST, &["scores"], &[], Some(&score())).await?;
    let id = made["score_id"].as_str().context("a Score has an id")?;
    let path = ["scores", id, "signing-secrets"];
    let secret: Value = visitor.api_write(Method::POST, &path, &[], Some(&json!({}))).await?;
    let text = |name: &str| secret[name].as_str().with_context(|| format!("a signing secret has its {name}"));
    let (secret, ingest) = (text("secret")?, text("ingest_url")?);
    let ingest = ingest.strip_prefix(url).context("evidence goes to this hub")?;

    let body = canonical::text(&evidence(&run_of(visitor, channel, pace).await?));
    let timestamp = (Environment::system().now() / 1000).to_string();
    let headers = [
        (SIGNATURE_HEADER, signing::sign(secret, &timestamp, body.as_bytes())),
        (TIMESTAMP_HEADER, timestamp),
        (PREFIX_HEADER, signing::prefix(secret).to_owned()),
    ];
    submit_evidence(&Client::connect(url, None)?, ingest, body, &headers).await?;
    let path = ["scores", id, "receipts"];
    let receipt: Value = visitor.api_write(Method::POST, &path, &[], Some(&json!({}))).await?;
    let address = receipt["verify_url"].as_str().context("a receipt can be verified")?;
    output::talk(format_args!("a receipt of what they did, from signed evidence: {address}"));
    output::talk(format_args!("check it yourself: chorus verify {address}"));
    Ok(())
}
