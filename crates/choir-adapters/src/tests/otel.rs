use super::*;
use serde_json::json;

fn spans(trace: Value) -> Bundle {
    bundle(Format::Otel, &trace)
}

fn span(id: u32, parent: u32, start: u32, attributes: Value) -> Value {
    json!({"name": format!("span {id}"), "context": {"span_id": format!("0x{id:016x}")}, "parent_id": format!("0x{parent:016x}"),
        "start_time": format!("2026-11-15T00:00:{start:02}.000000Z"), "attributes": attributes})
}

#[test]
fn tools_in_the_order_in_which_they_began_and_by_whom() {
    let bundle = spans(json!([
        span(
            3,
            2,
            5,
            json!({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "late", "gen_ai.tool.call.id": "c"})
        ),
        span(4, 2, 3, json!({"openinference.span.kind": "TOOL", "tool.name": "early"})),
        span(
            5,
            2,
            6,
            json!({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "late", "gen_ai.tool.call.id": "c"})
        ),
        span(2, 1, 2, json!({"gen_ai.operation.name": "chat"})),
        span(1, 0, 1, json!({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "Triage"})),
    ]));
    assert_eq!(told(&bundle), ["tool_call Triage early 0000000000000004", "tool_call Triage late c"]);
    assert_eq!(bundle.events[0].occurred_at.as_deref(), Some("2026-11-15T00:00:03.000000Z"));
    // Times may have no fraction of a second.
    let tool = |id: u32, time: &str| {
        json!({"name": "t", "span_id": format!("{id:016x}"), "start_time": time,
        "attributes": {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t"}})
    };
    let bundle = spans(json!([tool(2, "2026-11-15T00:00:03Z"), tool(1, "2026-11-15T00:00:02.5Z")]));
    assert_eq!(told(&bundle), ["tool_call - t 0000000000000001", "tool_call - t 0000000000000002"]);
}

#[test]
fn otlp_with_its_lists_in_lists() {
    let attribute = |key: &str, value: Value| json!({"key": key, "value": value});
    let span = json!({"name": "execute_tool look", "spanId": "00000000000000aa", "startTimeUnixNano": "1763164800000000000", "attributes": [
        attribute("gen_ai.operation.name", json!({"stringValue": "execute_tool"})),
        attribute("gen_ai.agent.name", json!({"stringValue": "A"}))]});
    let chat = json!({"name": "chat", "spanId": "00000000000000ab", "startTimeUnixNano": "1763164801000000000", "attributes": [
        attribute("gen_ai.operation.name", json!({"stringValue": "chat"})),
        attribute("gen_ai.response.finish_reasons", json!({"arrayValue": {"values": [{"stringValue": "content_filter"}]}}))]});
    let whole =
        json!({"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": [chat, span]}]}]});
    let expected = ["tool_call A look 00000000000000aa", "warning - - 00000000000000ab"];
    assert_eq!(told(&spans(whole.clone())), expected);
    let line = format!("{whole}\n{}\n", json!({"resourceSpans": []}));
    let bundle = adapt(None, line.as_bytes(), &About::default()).unwrap();
    assert_eq!(told(&bundle), expected);
    assert_eq!(bundle.events[0].occurred_at.as_deref(), Some("2025-11-15T00:00:00.000Z"));
}

#[test]
fn documents_handoffs_guardrails_and_refusals() {
    let documents = json!([{"id": "a"}, {"id": "b"}]).to_string();
    let refusal = json!([{"role": "assistant", "parts": [{"type": "refusal", "content": "no"}], "finish_reason": "content_filter"}]).to_string();
    let bundle = spans(json!([
        span(1, 0, 1, json!({"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.documents": documents})),
        span(
            2,
            0,
            2,
            json!({"openinference.span.kind": "RETRIEVER", "retrieval.documents.1.document.id": "d",
            "retrieval.documents.0.document.id": "c", "retrieval.documents.0.document.content": "x"})
        ),
        span(
            3,
            0,
            3,
            json!({"traceloop.span.kind": "handoff", "gen_ai.handoff.from_agent": "A", "gen_ai.handoff.to_agent": "B"})
        ),
        span(4, 0, 4, json!({"openinference.span.kind": "GUARDRAIL", "output.value": "{\"passed\": false}"})),
        span(5, 0, 5, json!({"openinference.span.kind": "GUARDRAIL", "output.value": "{\"passed\": true}"})),
        span(6, 0, 6, json!({"openinference.span.kind": "GUARDRAIL", "output.value": "blocked"})),
        span(7, 0, 7, json!({"gen_ai.operation.name": "chat", "gen_ai.output.messages": refusal})),
        span(8, 0, 8, json!({"gen_ai.operation.name": "execute_task"})),
        span(9, 0, 9, json!({})),
    ]));
    let kinds: Vec<_> = bundle.events.iter().map(|event| event.event_type.as_str()).collect();
    assert_eq!(kinds, [&["evidence_cited"; 4][..], &["escalation"], &["warning"; 3]].concat());
    let references: Vec<_> =
        bundle.events[..4].iter().map(|event| event.reference.as_deref().unwrap()).collect();
    assert_eq!(references, ["a", "b", "c", "d"]);
    assert_eq!(bundle.events[4].target_voice.as_deref(), Some("B"));
    assert_eq!(codes(&bundle), ["unmapped_span", "no_voice"]);
    assert_eq!(bundle.adapter_warnings[0].message, "spans called \"span\" are no events (2 times)");
}

#[test]
fn guardrails_that_say_it_in_other_words_and_typed_values() {
    for (output, code) in [
        (json!({"unsafe": true}), Some("undecided_guard")),
        (json!({"score": 0.9}), Some("undecided_guard")),
        (json!({"passed": true, "violation": true}), Some("undecided_guard")),
        (json!({"passed": true}), None),
        (json!({"status": "Passed"}), None),
        (json!({"flagged": false}), None),
    ] {
        let attributes = json!({"openinference.span.kind": "GUARDRAIL", "output.value": output.to_string()});
        let bundle = spans(json!([span(1, 0, 1, attributes)]));
        assert!(bundle.events.is_empty(), "{output}");
        assert_eq!(codes(&bundle), [code.unwrap_or("no_events")], "{output}");
    }
    let text = |text: &str| json!({"stringValue": text});
    let part = json!({"kvlistValue": {"values": [{"key": "type", "value": text("refusal")}, {"key": "content", "value": text("no")}]}});
    let message =
        json!({"kvlistValue": {"values": [{"key": "parts", "value": {"arrayValue": {"values": [part]}}}]}});
    let bundle = spans(
        json!({"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "chat", "spanId": "01", "attributes": [
            {"key": "gen_ai.operation.name", "value": text("chat")},
            {"key": "gen_ai.output.messages", "value": {"arrayValue": {"values": [message]}}},
        ]}]}]}]}),
    );
    assert_eq!(told(&bundle), ["warning - - 0000000000000001"]);
    assert_eq!(bundle.events[0].detail.as_deref(), Some("no"));
}

#[test]
fn spans_as_those_who_keep_them_hand_them_out() {
    let tag = |key: &str, value: &str| json!({"key": key, "type": "string", "value": value});
    let jaeger = json!({"data": [{"traceID": "t", "processes": {}, "spans": [
        {"traceID": "t", "spanID": "02", "operationName": "execute_tool look", "startTime": 1_763_164_800_000_000_i64,
            "references": [{"refType": "CHILD_OF", "traceID": "t", "spanID": "01"}], "tags": [tag("gen_ai.operation.name", "execute_tool")]},
        {"traceID": "t", "spanID": "01", "operationName": "invoke_agent A", "startTime": 1_763_164_799_000_000_i64,
            "references": [], "tags": [tag("gen_ai.operation.name", "invoke_agent"), tag("gen_ai.agent.name", "A")]}]}]});
    let bundle = adapt(None, jaeger.to_string().as_bytes(), &About::default()).unwrap();
    assert_eq!(told(&bundle), ["tool_call A look 0000000000000002"]);
    assert_eq!(bundle.events[0].occurred_at.as_deref(), Some("2025-11-15T00:00:00.000Z"));
    let span = json!({"name": "execute_tool look", "spanId": "AAAAAAAAAAE=", "attributes": [
        {"key": "gen_ai.operation.name", "value": {"stringValue": "execute_tool"}}]});
    let tempo = json!({"batches": [{"resource": {}, "scopeSpans": [{"spans": [span]}]}]});
    assert_eq!(spans(tempo).events.len(), 1);
    let nested = json!({"openinference": {"span": {"kind": "TOOL"}}, "tool": {"name": "look"}});
    assert_eq!(
        told(&spans(json!([super::otel::span(1, 0, 1, nested)]))),
        ["tool_call - look 0000000000000001"]
    );
}

#[test]
fn tools_and_handoffs_in_other_words() {
    let served = |kind: Value| json!({"name": "tools/call look", "span_id": "01", "kind": kind, "attributes": {"mcp.method.name": "tools/call"}});
    for (trace, expected) in [
        (served(json!("SpanKind.CLIENT")), Some("tool_call - look 0000000000000001")),
        (served(json!("SPAN_KIND_SERVER")), None),
        (served(json!(2)), None),
        (
            span(
                1,
                0,
                1,
                json!({"ai.operationId": "ai.toolCall", "ai.toolCall.name": "look", "ai.toolCall.id": "c"}),
            ),
            Some("tool_call - look c"),
        ),
        (span(1, 0, 1, json!({"ai.operationId": "ai.streamText.doStream"})), None),
        (
            span(1, 0, 1, json!({"gen_ai.tool.name": "look", "gen_ai.tool.call.id": "c"})),
            Some("tool_call - look c"),
        ),
        (
            json!({"name": "handoff to B", "span_id": "01", "attributes": {"openinference.span.kind": "TOOL"}}),
            Some("escalation - - 0000000000000001"),
        ),
    ] {
        let bundle = spans(json!([trace]));
        assert_eq!(told(&bundle), expected.into_iter().collect::<Vec<_>>(), "{trace}");
        assert!(!codes(&bundle).contains(&"unmapped_span"), "{trace}");
    }
}

#[test]
fn what_a_model_said_in_an_event_of_its_span() {
    let refused = json!([{"role": "assistant", "parts": [{"type": "refusal", "content": "no"}]}]).to_string();
    let filtered = json!({"finish_reason": "content_filter", "message": {}}).to_string();
    for (name, attributes, found) in [
        ("gen_ai.client.inference.operation.details", json!({"gen_ai.output.messages": refused}), 1),
        ("gen_ai.choice", json!({"gen_ai.event.content": filtered}), 1),
        ("gen_ai.user.message", json!({"gen_ai.event.content": filtered}), 0),
        ("exception", json!({"exception.message": "Confidential"}), 0),
    ] {
        let mut chat = span(1, 0, 1, json!({"gen_ai.operation.name": "chat"}));
        chat["events"] = json!([{"name": name, "attributes": attributes}]);
        let bundle = spans(json!([chat]));
        assert_eq!(bundle.events.len(), found, "{name}");
        assert!(!serde_json::to_string(&bundle).unwrap().contains("Confidential"));
    }
}

#[test]
fn an_answer_that_was_kept_back_in_every_spelling() {
    for (name, found) in [
        ("llm.finish_reason", 1),
        ("gen_ai.completion.0.finish_reason", 1),
        ("llm.input_messages.0.finish_reason", 0),
    ] {
        let attributes = json!({"openinference.span.kind": "LLM", name: "content_filter"});
        assert_eq!(spans(json!([span(1, 0, 1, attributes)])).events.len(), found, "{name}");
    }
}

#[test]
fn calls_that_only_a_model_tells_of() {
    let asked = json!([{"role": "assistant", "parts": [{"type": "tool_call", "id": "c", "name": "look"}]}])
        .to_string();
    let chat = span(1, 0, 1, json!({"gen_ai.operation.name": "chat", "gen_ai.output.messages": asked}));
    let tool = span(
        2,
        1,
        2,
        json!({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look", "gen_ai.tool.call.id": "c"}),
    );
    assert_eq!(codes(&spans(json!([chat]))), ["calls_without_spans"]);
    for name in
        ["llm.output_messages.0.message.tool_calls.0.tool_call.id", "gen_ai.completion.0.tool_calls.0.id"]
    {
        let flat = span(3, 0, 1, json!({"openinference.span.kind": "LLM", name: "c"}));
        assert_eq!(codes(&spans(json!([flat]))), ["calls_without_spans"], "{name}");
        assert_eq!(codes(&spans(json!([flat, tool]))), ["no_voice"], "{name}");
    }
    let asked = span(
        3,
        0,
        1,
        json!({"openinference.span.kind": "LLM", "llm.input_messages.0.message.tool_calls.0.tool_call.id": "c"}),
    );
    assert_eq!(codes(&spans(json!([asked]))), ["no_events"]);
    for trace in [json!([chat, tool]), json!([tool, chat])] {
        assert_eq!(codes(&spans(trace)), ["no_voice"]);
    }
}

#[test]
fn the_earliest_are_kept_when_there_are_too_many() {
    let tool = json!({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "x"});
    let all: Vec<_> = (0..2600_u32).map(|n| span(5000 - n, 0, 59 - n * 60 / 2600, tool.clone())).collect();
    let bundle = spans(json!(all));
    assert_eq!(bundle.events.len(), 500);
    assert_eq!(bundle.events[0].occurred_at.as_deref(), Some("2026-11-15T00:00:00.000000Z"));
    assert!(
        bundle
            .adapter_warnings
            .iter()
            .any(|warning| warning.message.starts_with("2100 events were left out"))
    );
}

#[test]
fn a_trace_without_its_root_is_not_complete() {
    let tool = |id, parent| {
        span(id, parent, 1, json!({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "x"}))
    };
    let root = span(1, 0, 1, json!({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "A"}));
    assert!(is_complete(Format::Otel, &json!([tool(2, 1), root])));
    assert!(!is_complete(Format::Otel, &json!([tool(2, 1)])));
}
