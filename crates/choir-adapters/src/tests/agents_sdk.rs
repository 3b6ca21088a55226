//! The Agents SDK: approvals, streamed items of a run, and both exports of its spans. And what is read of names
//! and arguments elsewhere.

use super::{bundle, codes, error};
use crate::Format;
use chorus_protocol::choir::evidence::Bundle;
use serde_json::{Value, json};

fn told(bundle: &Bundle) -> Vec<String> {
    let events = bundle.events.iter();
    let told = events.map(|event| {
        let parts = [&event.voice_name, &event.action, &event.target_voice].into_iter().flatten();
        parts.fold(event.event_type.to_string(), |line, part| format!("{line} {part}"))
    });
    told.collect()
}

#[test]
fn a_call_that_waits_for_a_person_is_told_and_not_made() {
    let item = json!({"type": "tool_approval_item", "agent": {"name": "Refunds"},
        "raw_item": {"type": "function_call", "name": "refund", "call_id": "c1", "arguments": "{}"}});
    let bundle = bundle(Format::OpenAi, &json!([item]));
    assert!(bundle.events.is_empty());
    assert_eq!(bundle.adapter_warnings[0].code, "approval_request");
    assert_eq!(
        bundle.adapter_warnings[0].message,
        "a call of refund waits for a person's approval: it is not made yet"
    );
}

#[test]
fn streamed_items_of_a_run_name_their_agent() {
    let call =
        json!({"type": "function_call", "name": "look_up", "call_id": "c1", "id": "fc1", "arguments": "{}"});
    let response = json!({"type": "response.completed", "response": {"id": "r1", "object": "response", "status": "completed", "output": [call]}});
    let raw = json!({"type": "raw_response_event", "data": response});
    let item = json!({"type": "run_item_stream_event", "name": "tool_called",
        "item": {"type": "tool_call_item", "agent": {"name": "Triage"}, "raw_item": call}});
    for trace in [json!([raw, item]), json!([item, raw]), json!([item])] {
        let bundle = bundle(Format::OpenAi, &trace);
        assert_eq!(told(&bundle), ["tool_call Triage look_up"], "{trace}");
        assert!(!codes(&bundle).contains(&"no_voice"));
    }
}

/// Spans come in the order in which they end, children first.
fn spans() -> Value {
    let span = |id: &str, parent: Value, at: u8, data: Value| {
        json!({"object": "trace.span", "id": id, "trace_id": "trace_1", "parent_id": parent,
            "started_at": format!("2026-11-15T00:00:0{at}+00:00"), "ended_at": null, "span_data": data, "error": null})
    };
    json!([
        {"object": "trace", "id": "trace_1", "workflow_name": "w", "group_id": null, "metadata": null},
        span("s3", json!("s2"), 3, json!({"type": "function", "name": "look_up", "input": "secret", "output": "secret"})),
        span("s4", json!("s2"), 4, json!({"type": "handoff", "from_agent": "Triage", "to_agent": "Refunds"})),
        span("s2", Value::Null, 2, json!({"type": "agent", "name": "Triage", "handoffs": ["Refunds"], "tools": ["look_up"]})),
        span("s6", json!("s5"), 6, json!({"type": "guardrail", "name": "no_refunds", "triggered": true})),
        span("s7", json!("s5"), 7, json!({"type": "guardrail", "name": "tone", "triggered": false})),
        span("s8", json!("s5"), 8, json!({"type": "function", "name": "refund"})),
        span("s5", Value::Null, 5, json!({"type": "agent", "name": "Refunds"})),
    ])
}

#[test]
fn both_exports_of_spans() {
    let lines: Vec<_> = spans().as_array().unwrap().iter().map(ToString::to_string).collect();
    let lines = lines.join("\n");
    let traces = [spans().to_string(), json!({"data": spans()}).to_string(), lines];
    for (format, trace) in traces.iter().flat_map(|trace| [(Some(Format::OpenAi), trace), (None, trace)]) {
        let bundle = crate::adapt(format, trace.as_bytes(), &crate::About::default()).unwrap();
        assert_eq!(
            told(&bundle),
            ["tool_call Triage look_up", "warning no_refunds", "tool_call Refunds refund"],
            "{trace}"
        );
        let handoff = bundle.adapter_warnings.iter().find(|warning| warning.code == "handoff").unwrap();
        assert!(handoff.message.starts_with("Triage handed over to Refunds"), "{}", handoff.message);
        assert!(!json!(bundle).to_string().contains("secret"));
    }
}

#[test]
fn a_delegation_whose_arguments_are_a_text() {
    for args in
        [json!({"coworker": "Writer", "task": "x"}), json!("{\"coworker\": \"Writer\", \"task\": \"x\"}")]
    {
        let started = json!([{"type": "tool_usage_started", "event_id": "1", "tool_name": "Delegate work to coworker",
            "tool_args": args, "agent_role": "Manager"}]);
        let bundle = bundle(Format::CrewAi, &started);
        assert_eq!(told(&bundle), ["escalation Manager Delegate work to coworker Writer"], "{args}");
    }
    let broken = json!([{"type": "tool_usage_started", "event_id": "1", "tool_name": "Delegate work to coworker",
        "tool_args": "Writer, please", "agent_role": "Manager"}]);
    assert!(codes(&bundle(Format::CrewAi, &broken)).contains(&"delegation_without_target"));
}

#[test]
fn traceloop_names_agents_of_langgraph() {
    let span = json!([{"name": "execute_tool look_up", "context": {"span_id": "0x1", "trace_id": "0xa"}, "attributes": {
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look_up",
        "traceloop.entity.name": "LangGraph", "traceloop.association.properties.lc_agent_name": "orders"}}]);
    assert_eq!(told(&bundle(Format::Otel, &span)), ["tool_call orders look_up"]);
}

#[test]
fn a_format_that_nobody_knows_is_an_error() {
    for trace in [json!([{"run": 1, "steps": ["a", "b"]}]), json!({"observations": [{"level": "DEFAULT"}]})] {
        for format in [Format::OpenAi, Format::Otel] {
            let error = error(Some(format), &trace.to_string()).to_string();
            assert!(error.starts_with("nothing in this trace is of "), "{trace}: {error}");
        }
    }
}

#[test]
fn malformed_entries_are_warned_about_one_by_one() {
    let call = json!({"type": "function_call", "name": "x", "call_id": "1"});
    let bundle = bundle(Format::OpenAi, &json!([null, call, null, 7]));
    let told: Vec<_> = bundle
        .adapter_warnings
        .iter()
        .filter(|one| one.code == "unmapped_item")
        .map(|one| one.path.clone())
        .collect();
    assert_eq!(told.len(), 3);
    assert!(told[0] != told[1] && told[1] != told[2], "{told:?}");
}
