//! Tests of completeness and silence: a partial trace is not complete, and a voice that took part is not
//! missed.

use super::*;
use chorus_choir::{Evidence, Taken, read_score, rehearse};
use chorus_protocol::choir::receipt::VerificationStatus;
use chorus_protocol::choir::score::Score;
use serde_json::json;

fn score() -> Score {
    let voice = |name: &str| json!({"name": name});
    read_score(json!({
        "title": "t", "voices": [voice("policy"), voice("drafter")],
        "scenarios": [{"id": "s", "severity": "high", "required_voices": ["policy", "drafter"]}],
    }))
    .unwrap()
}

fn complete(format: Format, trace: &Value) -> Bundle {
    let score = score();
    let about =
        About { complete: true, scenario_id: Some("s".into()), voices: &score.voices, ..About::default() };
    adapt(Some(format), trace.to_string().as_bytes(), &about).unwrap()
}

/// Returns the voices with a missed entry in the resulting receipt.
fn missed(bundle: &Bundle) -> Vec<String> {
    let taken = Taken::read(json!(bundle)).unwrap();
    let evidence = Evidence::new(VerificationStatus::UserAsserted, vec![taken]);
    let payload = rehearse(&score(), Some(&evidence)).unwrap();
    let missed = payload.voices.into_iter().filter(|voice| !voice.missed_entries.is_empty());
    missed.map(|voice| voice.name).collect()
}

#[test]
fn section_16_no_voice_that_took_part_missed_its_entry() {
    let call = json!({"type": "ai", "content": "", "tool_calls": [{"name": "look", "id": "1"}]});
    let said = json!({"type": "ai", "content": "Dear customer"});
    let span = |id: &str, attributes: Value| json!({"name": "x", "context": {"span_id": id}, "attributes": attributes});
    for (format, trace, who) in [
        (
            Format::LangGraph,
            json!([{"policy": {"messages": [call]}}, {"drafter": {"messages": [said]}}]),
            vec![],
        ),
        (Format::LangGraph, json!([{"policy": {"messages": [said]}}, {"drafter": null}]), vec![]),
        // Exactly the voices that do not appear are missed.
        (Format::LangGraph, json!([{"drafter": {"messages": [said]}}]), vec!["policy"]),
        (
            Format::CrewAi,
            json!([
                {"type": "tool_usage_started", "tool_name": "look", "event_id": "1", "agent_role": "policy"},
                {"type": "agent_execution_started", "agent_role": "drafter"},
                {"type": "agent_execution_completed", "agent_role": "drafter"},
            ]),
            vec![],
        ),
        (
            Format::CrewAi,
            json!([{"event_type": "missed_entry", "voice_name": "drafter"}, {"event_type": "voice_entry", "voice_name": "policy"}]),
            vec!["drafter"],
        ),
        (
            Format::Otel,
            json!([
                span("0x1", json!({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "policy"})),
                span("0x2", json!({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "drafter"})),
            ]),
            vec![],
        ),
    ] {
        let bundle = complete(format, &trace);
        assert!(bundle.complete, "{trace}: {:?}", bundle.adapter_warnings);
        assert_eq!(missed(&bundle), who, "{trace}");
        assert_eq!(bundle.present.is_some(), codes(&bundle).contains(&"no_event_of_voice"), "{trace}");
    }
}

#[test]
fn section_16_nobodys_events_may_be_anybodys() {
    let said = json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hello"}]});
    let call = json!({"type": "function_call", "name": "x", "call_id": "1"});
    for output in [vec![said.clone()], vec![call.clone()], vec![call.clone(), said.clone()]] {
        let trace = json!({"object": "response", "status": "completed", "output": output});
        let bundle = complete(Format::OpenAi, &trace);
        assert!(!bundle.complete && codes(&bundle).contains(&"not_complete"), "{trace}");
        assert_eq!(missed(&bundle), Vec::<String>::new());
        // The caller may know the voice of these events.
        let score = score();
        let about = About {
            complete: true,
            voice: Some("drafter".into()),
            voices: &score.voices,
            ..About::default()
        };
        let bundle = adapt(Some(Format::OpenAi), trace.to_string().as_bytes(), &about).unwrap();
        assert!(bundle.complete, "{:?}", bundle.adapter_warnings);
    }
}

#[test]
fn streams_that_tell_a_part_are_not_complete() {
    let state = json!({"messages": [{"type": "human", "content": "x"}]});
    let interrupt = json!({"id": "i1", "value": {"reason": "over the limit"}});
    let message = json!([{"type": "ai", "content": "", "tool_calls": [{"name": "x", "id": "1"}]}, {"langgraph_node": "policy"}]);
    for (trace, code) in [
        (
            json!([["values", state], ["values", {"messages": [], "__interrupt__": [interrupt]}], ["values", state]]),
            "snapshots_only",
        ),
        (json!([["messages", message], ["messages", message]]), "messages_only"),
        (json!([message, message]), "messages_only"),
        (json!([{"event": "messages/complete", "data": [message[0]]}]), "messages_only"),
    ] {
        let bundle = complete(Format::LangGraph, &trace);
        assert!(!bundle.complete && codes(&bundle).contains(&code), "{trace}: {:?}", bundle.adapter_warnings);
    }
    let both = json!([["messages", message], ["updates", {"policy": {"messages": [message[0]]}}]]);
    assert!(complete(Format::LangGraph, &both).complete);
}

#[test]
fn what_is_exported_twice_happened_once() {
    let tool = json!({"name": "execute_tool x", "traceId": "a1", "spanId": "b1", "attributes": [
        {"key": "gen_ai.operation.name", "value": {"stringValue": "execute_tool"}}, {"key": "gen_ai.tool.name", "value": {"stringValue": "x"}}]});
    let guard = json!({"name": "guard", "traceId": "a1", "spanId": "b2", "attributes": [
        {"key": "openinference.span.kind", "value": {"stringValue": "GUARDRAIL"}}, {"key": "output.value", "value": {"stringValue": "{\"blocked\": true}"}}]});
    let mut other = tool.clone();
    other["traceId"] = json!("a2");
    let spans = json!([tool, guard, tool, guard, other]);
    let told: Vec<_> =
        bundle(Format::Otel, &spans).events.into_iter().map(|event| event.event_type.to_string()).collect();
    assert_eq!(told, ["tool_call", "warning", "tool_call"], "a span of another trace is another");

    let guard =
        json!({"type": "llm_guardrail_completed", "event_id": "1", "success": false, "agent_role": "A"});
    let task = json!({"type": "task_completed", "event_id": "2", "output": {"raw": "", "json_dict": {"sources": ["a.pdf"]}, "agent": "A"}});
    let events = json!([guard, task, guard, task]);
    assert_eq!(bundle(Format::CrewAi, &events).events.len(), 2);
}

#[test]
fn interrupts_without_ids_are_told_apart() {
    let interrupt = |value: i32, ns: &str| json!({"value": {"x": value}, "resumable": true, "ns": [ns]});
    let trace = json!([{"__interrupt__": [interrupt(1, "human:1"), interrupt(2, "human:2")]}]);
    let bundle = bundle(Format::LangGraph, &trace);
    assert_eq!(bundle.events.len(), 2);
    assert_eq!(chorus_choir::merge(std::slice::from_ref(&bundle)).events.len(), 2);
}

#[test]
fn what_people_are_asked_is_not_copied() {
    const ASKED: &str = "Approve wire to John Smith?";
    for (format, trace) in [
        (Format::LangGraph, json!([{"__interrupt__": [{"id": "1", "value": ASKED}]}])),
        (
            Format::LangGraph,
            json!([{"__interrupt__": [{"id": "1", "value": {"question": ASKED, "message": ASKED}}]}]),
        ),
        (Format::CrewAi, json!([{"type": "human_feedback_requested", "event_id": "1", "message": ASKED}])),
    ] {
        let bundle = bundle(format, &trace);
        assert_eq!(bundle.events.len(), 1, "{trace}");
        assert!(!json!(bundle).to_string().contains("Smith"), "{trace}");
    }
}

#[test]
fn what_retrievers_and_reviewers_say_in_other_words_is_warned_about() {
    let with = |node: &str, output: Value| {
        let trace = json!([{"a": {"tool_calls": [{"name": "x", "id": "1"}]}}, {node: output}]);
        let bundle = bundle(Format::LangGraph, &trace);
        assert_eq!(bundle.events.len(), 1, "{trace}");
        codes(&bundle).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    for member in ["results", "docs", "retrieved_docs", "chunks", "passages", "hits", "matches", "evidence"] {
        assert_eq!(
            with("web_search", json!({member: [{"url": "https://h/x"}]})),
            ["unclear_sources"],
            "{member}"
        );
    }
    assert!(with("web_search", json!({"documents": [], "results": []})).is_empty());
    assert!(with("web_search", json!({"query": "x"})).is_empty());
    for output in [
        json!({"agree": false}),
        json!({"passed": false}),
        json!({"decision": "revise"}),
        json!({"verdict": "needs_revision"}),
        json!({"objected": true}),
        json!({"vote": "no"}),
        json!({"review": {"status": "changes requested"}}),
        json!({"disagreement": "I think no"}),
    ] {
        assert_eq!(with("critic", output.clone()), ["unclear_review"], "{output}");
    }
    for output in [json!({"agree": true}), json!({"decision": "approve"}), json!({"disagreement": "none"})] {
        assert!(with("critic", output.clone()).is_empty(), "{output}");
    }
}

#[test]
fn what_a_caller_attests_is_cleaned_like_everything_else() {
    let token = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    for scenario in [token.clone(), "x".repeat(900)] {
        let trace = json!([{"event_type": "dissent", "voice_name": "Critic", "scenario_id": scenario}]);
        let bundle = bundle(Format::CrewAi, &trace);
        assert!(!json!(bundle).to_string().contains(&token));
        Bundle::read(json!(bundle)).unwrap();
        assert_eq!(codes(&bundle).contains(&"secret_in_trace"), scenario == token);
    }
    let long = About { run_id: Some("x".repeat(300)), ..About::default() };
    let refused = adapt(Some(Format::CrewAi), "[]".as_bytes(), &long).unwrap_err();
    assert_eq!(refused.to_string(), "run_id: must be at most 200 characters");
}

#[test]
fn where_it_is_no_utf8_and_what_is_too_deep() {
    let mut trace = b"[{\"a\": 1},\n {\"b\": \"".to_vec();
    let place = trace.len();
    trace.extend(b"\xff\"}]");
    let error = adapt(Some(Format::CrewAi), trace.as_slice(), &About::default()).unwrap_err().to_string();
    assert_eq!(error, format!("this is not JSON: it is not UTF-8 (line 2, byte {place})"));
    let deep = format!("{}{}", "[".repeat(129), "]".repeat(129));
    assert!(
        super::error(Some(Format::CrewAi), &deep)
            .to_string()
            .starts_with("the trace is nested deeper than 128 levels")
    );
}
