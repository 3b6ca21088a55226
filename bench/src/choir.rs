//! `choir`: adapting large traces and verifying receipts, against reading the same JSON.

use crate::progress::Progress;
use crate::report::{Figure, Goal, Rounds, Section, Unit};
use anyhow::Context;
use chorus_choir::verify::verify;
use chorus_choir::{Evidence, Taken, library, read_score, receipt, rehearse};
use chorus_choir_adapters::{About, Format, adapt};
use chorus_protocol::canonical;
use chorus_protocol::choir::receipt::VerificationStatus;
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const ROUNDS: usize = 5;
/// Receipts that are verified in one round.
const RECEIPTS: usize = 2000;
/// Bytes of a receipt.
const RECEIPT: usize = 10_000;

pub(crate) async fn measure(folder: &Path, megabytes: usize, progress: &Progress) -> anyhow::Result<Section> {
    let size = megabytes * 1_000_000;
    let mut figures = Vec::new();
    for (format, speed, memory) in [
        (Format::LangGraph, "adapting LangGraph / reading it as a Value", "memory of adapting LangGraph"),
        (Format::CrewAi, "adapting CrewAI / reading it as a Value", "memory of adapting CrewAI"),
    ] {
        progress.done(&format!("adapting {megabytes} MB of {}", format.as_str()));
        let trace = trace(format, size);
        let ratios = rounds(|| adapted(format, &trace)).await?;
        figures.push(Figure::ratio(speed, ratios, Goal::AtLeast(0.5)));
        let file = folder.join("trace.json");
        std::fs::write(&file, &trace)?;
        let highest = highest_memory(format, &file)? as f64 / 1e6;
        figures.push(Figure::new(memory, Unit::Megabytes, Rounds::of([highest]), Goal::AtMost(50.0)));
        std::fs::remove_file(&file)?;
    }
    progress.done("verifying receipts");
    let issued = issued()?;
    let ratios = rounds(|| verified(&issued)).await?;
    let name = "verifying a receipt / reading it as a Value";
    figures.push(Figure::ratio(name, ratios, Goal::AtLeast(0.5)));
    Ok(Section {
        bench: "choir",
        setup: format!("traces of {megabytes} MB, receipts of {} bytes, one core", issued.len()),
        phases: vec![],
        figures,
        exactly_once: None,
    })
}

/// Runs all rounds. The run can be interrupted between them.
async fn rounds(round: impl Fn() -> anyhow::Result<f64>) -> anyhow::Result<Rounds> {
    let mut ratios = Vec::new();
    for _ in 0..ROUNDS {
        ratios.push(round()?);
        tokio::task::yield_now().await;
    }
    Ok(Rounds::of(ratios))
}

/// Returns the time of reading divided by the time of adapting; above 1, adapting is faster.
fn adapted(format: Format, trace: &[u8]) -> anyhow::Result<f64> {
    let reading = timed(|| serde_json::from_slice::<Value>(trace).map(drop))?;
    let adapting = timed(|| adapt(Some(format), trace, &About::default()).map(drop))?;
    Ok(reading.as_secs_f64() / adapting.as_secs_f64())
}

fn verified(receipt: &[u8]) -> anyhow::Result<f64> {
    let reading =
        timed(|| (0..RECEIPTS).try_for_each(|_| serde_json::from_slice::<Value>(receipt).map(drop)))?;
    let verifying = timed(|| (0..RECEIPTS).try_for_each(|_| verify_one(receipt)))?;
    Ok(reading.as_secs_f64() / verifying.as_secs_f64())
}

fn verify_one(receipt: &[u8]) -> anyhow::Result<()> {
    verify(&canonical::parse(receipt)?, None)?;
    Ok(())
}

fn timed<E>(work: impl FnOnce() -> Result<(), E>) -> Result<Duration, E> {
    let begun = Instant::now();
    work()?;
    Ok(begun.elapsed())
}

/// Returns the peak memory of `chorus adapt` for this file, as the system counts it while it runs.
fn highest_memory(format: Format, file: &Path) -> anyhow::Result<u64> {
    let mut command = Command::new(crate::child::chorus_path()?);
    command.args(["adapt", format.as_str()]).arg(file).stdout(Stdio::null());
    let mut child = command.spawn()?;
    let status = format!("/proc/{}/status", child.id());
    let mut highest = 0;
    loop {
        let ended = child.try_wait()?;
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kibibytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
        highest = highest.max(kibibytes.unwrap_or(0) * 1024);
        match ended {
            Some(status) if status.success() => return Ok(highest),
            Some(status) => anyhow::bail!("adapting ended with {status}"),
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    }
}

/// Returns a trace of about this size: rounds of one ensemble, each with calls of its own.
fn trace(format: Format, size: usize) -> Vec<u8> {
    let round = if format == Format::CrewAi { crewai_round() } else { langgraph_round() };
    let round: Vec<String> = round.iter().map(Value::to_string).collect();
    let round = round.join(",\n");
    let mut trace = String::from("[");
    while trace.len() < size {
        if trace.len() > 1 {
            trace.push_str(",\n");
        }
        trace.push_str(&round.replace("NUMBER", &trace.len().to_string()));
    }
    trace.push(']');
    trace.into_bytes()
}

const PROSE: &str = "The customer asks for a refund; \"order R-2291\" was delivered late, says the log.\nAbove 250 € a person decides. ";

fn message(kind: &str, more: &Value) -> Value {
    let mut message = json!({
        "content": PROSE.repeat(4), "additional_kwargs": {}, "response_metadata": {"model": "canned", "finish_reason": "stop"},
        "type": kind, "name": null, "id": "lc_run--NUMBER", "usage_metadata": {"input_tokens": 212, "output_tokens": 18},
    });
    if let (Value::Object(message), Value::Object(more)) = (&mut message, more) {
        message.extend(more.clone());
    }
    message
}

fn langgraph_round() -> Vec<Value> {
    let calls = json!([{"name": "lookup_order", "args": {"order_id": "R-2291", "note": PROSE}, "id": "call_NUMBER", "type": "tool_call"}]);
    let documents: Vec<_> = (0..4)
        .map(|n| json!({"id": format!("d{n}"), "metadata": {"source": format!("kb/{n}.md"), "score": 0.87}, "page_content": PROSE.repeat(5), "type": "Document"}))
        .collect();
    vec![
        json!({"triage": {"messages": [message("ai", &json!({"tool_calls": calls, "invalid_tool_calls": []}))]}}),
        json!({"tools": {"messages": [message("tool", &json!({"tool_call_id": "call_NUMBER", "status": "success"}))]}}),
        json!({"retriever": {"documents": documents}}),
        json!({"policy_guard": {"flagged": false, "blocked": false, "scores": {"violence": 0.01, "self_harm": 0.0}}}),
        json!({"critic": {"verdict": "approved", "objections": [], "comments": PROSE}}),
        json!({"finalize": {"final": PROSE, "messages": [message("ai", &json!({"tool_calls": [], "invalid_tool_calls": []}))]}}),
    ]
}

fn crewai_round() -> Vec<Value> {
    let agent = json!({
        "id": "NUMBER", "role": "Support", "goal": PROSE, "backstory": PROSE.repeat(3), "max_iter": 25, "verbose": false,
        "llm": {"model": "canned", "temperature": 0.2, "api_key": "", "stop": []},
        "tools": [{"name": "lookup_order", "description": PROSE, "args_schema": {"type": "object", "properties": {"order_id": {"type": "string"}}}}],
        "tools_results": [{"tool_name": "lookup_order", "result": PROSE}],
    });
    let event = |kind: &str, id: &str, more: Value| {
        let mut event = json!({
            "timestamp": "2026-11-15T00:17:27.274801Z", "type": kind, "source_fingerprint": null, "source_type": "agent",
            "task_id": "t", "task_name": "reply", "agent_id": "a", "agent_role": "Support", "event_id": id, "parent_event_id": "p",
            "previous_event_id": "q", "emission_sequence": 8,
        });
        if let (Value::Object(event), Value::Object(more)) = (&mut event, more) {
            event.extend(more);
        }
        event
    };
    let call = json!({"tool_name": "lookup_order", "tool_args": {"order_id": "R-2291"}, "run_attempts": 0, "agent": null});
    let mut finished = call.clone();
    finished["started_event_id"] = "s-NUMBER".into();
    finished["output"] = PROSE.into();
    let messages: Vec<_> = (0..6).map(|_| json!({"role": "user", "content": PROSE.repeat(4)})).collect();
    vec![
        event(
            "agent_execution_started",
            "b-NUMBER",
            json!({"agent": agent, "task_prompt": PROSE, "tools": agent["tools"]}),
        ),
        event("llm_call_started", "c-NUMBER", json!({"messages": messages, "model": "canned"})),
        event("tool_usage_started", "s-NUMBER", call),
        event("tool_usage_finished", "e-NUMBER", finished),
        event(
            "llm_guardrail_completed",
            "g-NUMBER",
            json!({"success": true, "result": PROSE, "error": null}),
        ),
        event("agent_execution_completed", "d-NUMBER", json!({"agent": agent, "output": PROSE})),
    ]
}

/// Returns a receipt of about 10 KB, from a rehearsal of built-in scenarios with some evidence.
fn issued() -> anyhow::Result<Vec<u8>> {
    let voices = [
        json!({"name": "Drafter", "role": "writes", "entry": true, "final_voice": true, "handoffs": [{"to": "Policy", "carries": ["draft"]}]}),
        json!({"name": "Policy", "role": "warns", "may_dissent": true, "authority": {"limits": ["none above 250"], "allowed_actions": ["lookup_order"]}}),
    ];
    let mut scenarios = serde_json::to_value(library::scenarios())?;
    let scenarios = scenarios.as_array_mut().context("scenarios are a list")?;
    scenarios.truncate(2);
    let score = read_score(json!({"title": "Refunds", "voices": voices, "scenarios": scenarios}))
        .map_err(|faults| anyhow::anyhow!("{faults}"))?;
    let mut last = Vec::new();
    for count in 1..200 {
        let events: Vec<_> = (0..count)
            .map(|n| json!({"event_type": "tool_call", "voice_name": "Policy", "action": "lookup_order", "ref": format!("call_{n}"), "detail": PROSE}))
            .collect();
        let bundle = json!({"schema": "choir.evidence.v1", "run_id": "r", "events": events});
        let bundle = Taken::read(bundle).map_err(|faults| anyhow::anyhow!("{faults}"))?;
        let evidence = Evidence::new(VerificationStatus::UserAsserted, vec![bundle]);
        last = serde_json::to_vec(&receipt(&rehearse(&score, Some(&evidence))?))?;
        if last.len() >= RECEIPT {
            break;
        }
    }
    Ok(last)
}
