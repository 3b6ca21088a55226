//! Log records that are events of the GenAI conventions.

use super::*;
use serde_json::json;

/// Returns a record as printed by an SDK.
fn log(name: &str, span: u32, second: u32, body: Value) -> Value {
    json!({"body": body, "severity_number": 9, "severity_text": "INFO", "attributes": {"gen_ai.system": "openai"}, "event_name": name,
        "timestamp": format!("2026-11-15T00:00:{second:02}.000000Z"), "observed_timestamp": "2026-11-15T00:01:00.000000Z",
        "trace_id": "0x0102", "span_id": format!("0x{span:016x}"), "trace_flags": 1, "resource": {"attributes": {}}})
}

fn typed(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let values: Vec<_> =
                members.iter().map(|(key, value)| json!({"key": key, "value": typed(value)})).collect();
            json!({"kvlistValue": {"values": values}})
        }
        Value::Array(items) => json!({"arrayValue": {"values": items.iter().map(typed).collect::<Vec<_>>()}}),
        Value::Number(number) => json!({"intValue": number.to_string()}),
        Value::Bool(value) => json!({"boolValue": value}),
        other => json!({"stringValue": other}),
    }
}

/// Returns the same records as a collector writes them to a file, with the event's name where newer and older
/// versions put it.
fn otlp(records: &[Value], in_attributes: bool) -> Value {
    let record = |record: &Value| {
        let mut attributes = vec![json!({"key": "gen_ai.system", "value": {"stringValue": "openai"}})];
        let mut log = json!({"observedTimeUnixNano": "1794700860000000000", "severityNumber": 9, "body": typed(&record["body"]),
            "timeUnixNano": "1794700801000000000", "traceId": "0102", "spanId": record["span_id"].as_str().unwrap()[2..], "flags": 1});
        if in_attributes {
            attributes.push(json!({"key": "event.name", "value": {"stringValue": record["event_name"]}}));
        } else {
            log["eventName"] = record["event_name"].clone();
        }
        log["attributes"] = json!(attributes);
        log
    };
    let records: Vec<_> = records.iter().map(record).collect();
    json!({"resourceLogs": [{"resource": {}, "scopeLogs": [{"scope": {"name": "x"}, "logRecords": records}]}]})
}

fn in_all_shapes(records: &[Value]) -> [Value; 4] {
    [json!(records), otlp(records, false), otlp(records, true), records.first().cloned().unwrap()]
}

fn logs(trace: &Value) -> Bundle {
    let bundle = bundle(Format::Otel, trace);
    let guessed = adapt(None, trace.to_string().as_bytes(), &About::default()).unwrap();
    assert_eq!(guessed.events, bundle.events, "{trace}");
    bundle
}

#[test]
fn answers_that_were_kept_back() {
    let choice = json!({"index": 0, "finish_reason": "content_filter", "message": {"role": "assistant", "content": "Confidential"}});
    for trace in in_all_shapes(&[log("gen_ai.choice", 1, 1, choice.clone())]) {
        let bundle = logs(&trace);
        assert_eq!(told(&bundle), ["warning - - 0000000000000001"], "{trace}");
        assert_eq!(bundle.events[0].detail.as_deref(), Some("content_filter"));
        assert!(bundle.events[0].occurred_at.as_deref().unwrap().starts_with("2026-11-15T00:00:01"));
        assert!(!serde_json::to_string(&bundle).unwrap().contains("Confidential"));
        assert!(!is_complete(Format::Otel, &trace), "there are no spans");
    }
    // The messages are JSON in a text, in the newer event, or absent.
    let messages = json!([{"role": "assistant", "parts": [{"type": "refusal", "content": "no"}], "finish_reason": "stop"}]);
    let mut details = log("gen_ai.client.inference.operation.details", 2, 1, Value::Null);
    details["attributes"]["gen_ai.output.messages"] = json!(messages.to_string());
    let fine =
        json!({"index": 0, "finish_reason": "stop", "message": {"content": "content_filter, refused"}});
    for (record, expected) in [
        (log("gen_ai.choice", 1, 1, json!(choice.to_string())), Some("content_filter")),
        (details, Some("no")),
        (log("gen_ai.choice", 1, 1, fine), None),
    ] {
        let bundle = bundle(Format::Otel, &json!([record]));
        let found: Vec<_> = bundle.events.iter().map(|event| event.detail.as_deref()).collect();
        assert_eq!(found, expected.map(Some).into_iter().collect::<Vec<_>>(), "{record}");
    }
}

fn asks() -> Value {
    let call = json!({"id": "c", "type": "function", "function": {"name": "look", "arguments": "{\"key\": \"Confidential\"}"}});
    log(
        "gen_ai.choice",
        1,
        1,
        json!({"index": 0, "finish_reason": "tool_calls", "message": {"tool_calls": [call]}}),
    )
}

fn answered() -> Value {
    log("gen_ai.tool.message", 2, 3, json!({"id": "c", "content": "Confidential"}))
}

/// A call that a model requested was made if its result was reported to the model.
#[test]
fn calls_and_their_results() {
    for (records, expected, found) in [
        (vec![asks(), answered()], &["tool_call - look c"][..], &["no_voice"][..]),
        // Every request repeats the whole conversation.
        (vec![asks(), answered(), asks(), answered()], &["tool_call - look c"], &["no_voice"]),
        (vec![asks()], &[], &["calls_without_spans"]),
        (vec![answered()], &[], &["nameless_call"]),
    ] {
        for trace in &in_all_shapes(&records)[..3] {
            let bundle = logs(trace);
            assert_eq!(
                (told(&bundle).as_slice(), codes(&bundle).as_slice()),
                (&expected.iter().map(ToString::to_string).collect::<Vec<_>>()[..], found),
                "{trace}"
            );
            assert!(!serde_json::to_string(&bundle).unwrap().contains("Confidential"));
        }
    }
}

/// Spans know the voice and the time of a call. A call that both report counts once.
#[test]
fn beside_the_spans_in_which_they_were_written() {
    let span = |id: u32, parent: u32, start: u32, attributes: Value| {
        json!({"name": "s", "context": {"span_id": format!("0x{id:016x}")}, "parent_id": if parent == 0 { json!(null) } else { json!(format!("0x{parent:016x}")) },
            "start_time": format!("2026-11-15T00:00:{start:02}.000000Z"), "attributes": attributes})
    };
    let agent =
        span(9, 0, 0, json!({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "Triage"}));
    let chat = |id, start, reason: &str| {
        span(
            id,
            9,
            start,
            json!({"gen_ai.operation.name": "chat", "gen_ai.response.finish_reasons": [reason]}),
        )
    };
    let tool = span(
        3,
        9,
        2,
        json!({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look", "gen_ai.tool.call.id": "c"}),
    );
    let filtered = log("gen_ai.choice", 2, 4, json!({"index": 0, "finish_reason": "content_filter"}));
    let all = [
        asks(),
        chat(1, 1, "tool_calls"),
        answered(),
        filtered,
        chat(2, 3, "content_filter"),
        agent.clone(),
        tool,
    ];
    let expected = ["tool_call Triage look c", "warning Triage - 0000000000000002"];
    for trace in [json!(all), json!(all.iter().rev().collect::<Vec<_>>())] {
        let bundle = logs(&trace);
        assert_eq!((told(&bundle), codes(&bundle)), (expected.map(String::from).to_vec(), vec![]), "{trace}");
        assert_eq!(
            bundle.events[0].occurred_at.as_deref(),
            Some("2026-11-15T00:00:02.000000Z"),
            "the span's"
        );
        assert!(is_complete(Format::Otel, &trace));
    }
    // A call without a span belongs to the surrounding agent.
    let bundle = logs(&json!([asks(), answered(), chat(1, 1, "tool_calls"), chat(2, 3, "stop"), agent]));
    assert_eq!(told(&bundle), ["tool_call Triage look c"]);
}

#[test]
fn what_is_asked_is_silent_and_everything_else_is_said() {
    for (name, code) in [
        ("gen_ai.user.message", None),
        ("gen_ai.system.message", None),
        ("gen_ai.assistant.message", None),
        ("gen_ai.evaluation.result", None),
        ("exception", Some("unmapped_log")),
        ("gen_ai.something.new", Some("unmapped_log")),
    ] {
        let record = log(name, 1, 1, json!({"content": "blocked, refused, Confidential", "role": "user"}));
        let bundle = bundle(Format::Otel, &json!([record, record]));
        assert!(bundle.events.is_empty(), "{name}");
        assert_eq!(codes(&bundle), [code.unwrap_or("no_events")], "{name}");
        assert!(!serde_json::to_string(&bundle).unwrap().contains("Confidential"));
    }
    let plain = json!({"timeUnixNano": "1", "body": {"stringValue": "a line of a log"}, "severityNumber": 9});
    assert_eq!(codes(&bundle(Format::Otel, &json!([plain]))), ["unmapped_log"]);
    let long = log("gen_ai.choice", 1, 1, json!(format!("{{\"x\": \"{}\"}}", "x".repeat(70_000))));
    assert_eq!(codes(&bundle(Format::Otel, &json!([long]))), ["long_output"]);
}
