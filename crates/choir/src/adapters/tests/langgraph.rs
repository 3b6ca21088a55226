use super::*;
use serde_json::json;

fn stream(trace: &Value) -> Bundle {
    bundle(Format::LangGraph, trace)
}

fn message(id: &str) -> Value {
    json!({"type": "ai", "content": "", "id": "m1", "name": null, "tool_calls": [{"name": "look", "args": {}, "id": id}]})
}

#[test]
fn one_call_in_every_envelope() {
    let update = json!({"triage": {"messages": [message("c1")]}});
    let pair = json!([message("c1"), {"langgraph_node": "triage", "langgraph_checkpoint_ns": "triage:1"}]);
    let task = json!({"id": "t", "name": "triage", "error": null, "result": {"messages": [message("c1")]}, "interrupts": []});
    let debug =
        json!({"step": 1, "timestamp": "2026-11-15T00:00:00Z", "type": "task_result", "payload": task});
    let event = json!({"event": "on_chain_end", "name": "triage", "run_id": "r", "metadata": {"langgraph_node": "triage"},
        "data": {"output": {"messages": [message("c1")]}}});
    for record in [
        update.clone(),
        json!([[], update]),
        json!([["sub:1"], "updates", update]),
        json!(["updates", update]),
        json!({"type": "updates", "ns": [], "data": update}),
        json!({"event": "updates", "data": update}),
        json!({"event": "updates|sub:1", "data": update}),
        pair.clone(),
        json!(["messages", pair]),
        json!([[], pair]),
        json!({"event": "messages", "data": pair}),
        task.clone(),
        json!(["tasks", task]),
        debug.clone(),
        json!(["debug", debug]),
        event,
        json!({"triage": [{"messages": [message("c1")]}, {"note": "x"}]}),
        json!({"triage": message("c1")}),
        json!({"id": "t", "name": "triage", "error": null, "interrupts": [], "result": [["messages", [message("c1")]]]}),
        json!({"triage": {"messages": {"lc": 1, "type": "constructor", "kwargs": message("c1")}}}),
    ] {
        for trace in [json!([record]), json!([record, record, record, record])] {
            assert_eq!(told(&stream(&trace)), ["tool_call triage look c1"], "{trace}");
        }
        // A value by itself, as a line of NDJSON is.
        assert_eq!(told(&stream(&record)), ["tool_call triage look c1"], "{record}");
    }
}

#[test]
fn states_name_no_node() {
    let state = json!({"messages": [message("c1")], "question": "?"});
    let bundle = stream(&json!([state, state]));
    assert_eq!(told(&bundle), ["tool_call - look c1"]);
    assert_eq!(codes(&bundle), ["snapshots_only", "no_voice"]);
    // Without any id, the place in the list tells calls apart.
    let call = json!({"type": "ai", "content": "", "tool_calls": [{"name": "look"}]});
    let bundle = stream(&json!([["values", {"messages": [call]}], ["values", {"messages": [call, call]}]]));
    assert_eq!(bundle.events.len(), 2);
}

#[test]
fn the_same_arguments_twice_are_two_calls() {
    let bundle = stream(&json!([{"a": {"messages": [message("c1")]}}, {"a": {"messages": [message("c2")]}}]));
    assert_eq!(told(&bundle), ["tool_call a look c1", "tool_call a look c2"]);
}

#[test]
fn guards_by_name_and_flag() {
    for (name, output, expected) in [
        ("policy_guard", json!({"flagged": true, "reason": "r"}), true),
        ("policy_guard", json!({"flagged": false, "blocked": false}), false),
        ("OpenAIModerationMiddleware.before_model", json!({"results": [{"flagged": true}]}), true),
        ("safety", json!({"status": "BLOCKED"}), true),
        ("safety", json!({"refusal": ""}), false),
        ("safety", json!({"refusal": "no"}), true),
        ("ContentFilter", json!({"a": {"b": {"flagged": true}}}), false),
        ("safety", json!({"note": "blocked"}), false),
        ("safety", json!({"messages": [{"type": "ai", "content": "x", "status": "blocked"}]}), false),
        ("answer", json!({"blocked": true}), false),
    ] {
        let bundle = stream(&json!([{name: output}]));
        assert_eq!(bundle.events.len(), usize::from(expected), "{name} {output}");
        assert!(bundle.events.iter().all(|event| event.event_type.as_str() == "warning"));
    }
}

#[test]
fn reviewers_by_name_and_flag() {
    for (name, output, expected, warned) in [
        ("critic", json!({"verdict": "rejected"}), true, false),
        ("critic", json!({"disagree": true}), true, false),
        ("CodeReview", json!({"objection": "no tests"}), true, false),
        ("peer_reviewer", json!({"review": {"decision": "disagree"}}), true, false),
        ("peer_reviewer", json!({"objections": []}), false, false),
        ("peer_reviewer", json!({"objections": ["", null]}), false, false),
        ("reviewer", json!({"approved": true, "objections": ["but"]}), false, true),
        ("reviewer", json!({"approved": false}), false, true),
        ("reviewer", json!("rejected"), false, true),
        ("preview", json!({"rejected": true}), false, false),
        ("editor", json!({"rejected": true}), false, false),
    ] {
        let bundle = stream(&json!([["updates", {name: output}]]));
        let found: Vec<_> = bundle.events.iter().map(|event| event.event_type.as_str()).collect();
        assert_eq!(found, vec!["dissent"; usize::from(expected)], "{name} {output}");
        assert_eq!(
            !bundle.adapter_warnings.is_empty(),
            warned,
            "{name} {output} {:?}",
            bundle.adapter_warnings
        );
    }
}

#[test]
fn escalations_that_fired_and_that_did_not() {
    for (name, output, expected) in [
        ("escalate_to_human", json!({"escalation": {"to": "desk", "reason": "too much"}}), true),
        ("escalate_to_human", json!({"messages": [{"type": "ai", "content": "on it"}]}), true),
        ("HandOff", json!({"to": "Bob"}), true),
        ("hand_off", json!({"to": "Bob"}), true),
        ("escalate", json!(null), false),
        ("escalate", json!({}), false),
        ("escalate", json!({"escalated": false, "note": "checked"}), false),
        ("escalate", json!({"escalation": null, "messages": []}), false),
        ("escalate", json!({"note": "no escalation needed"}), false),
        ("escalate", json!({"escalation": "No escalation needed"}), false),
        ("worker", json!({"escalation": {"to": "desk"}}), false),
    ] {
        let bundle = stream(&json!([["updates", {name: output}]]));
        assert_eq!(bundle.events.len(), usize::from(expected), "{name} {output}");
        if !expected && name != "worker" {
            assert_eq!(codes(&bundle), ["empty_escalation"], "{name} {output}");
        }
    }
}

#[test]
fn interrupts_are_escalations_once() {
    let interrupt = json!({"value": {"question": "Approve?"}, "id": "i1"});
    let task = json!({"id": "t", "name": "ask", "error": null, "result": {}, "interrupts": [interrupt]});
    let bundle = stream(
        &json!([["updates", {"__interrupt__": [interrupt]}], ["tasks", task], ["values", {"__interrupt__": [interrupt]}]]),
    );
    assert_eq!(told(&bundle), ["escalation - - i1"]);
    assert_eq!(bundle.events[0].detail.as_deref(), Some("Approve?"));
    let bundle = stream(&json!([["tasks", task]]));
    assert_eq!(told(&bundle), ["escalation ask - i1"]);
    let part = json!({"type": "values", "ns": [], "data": {"x": 1}, "interrupts": [interrupt]});
    assert_eq!(told(&stream(&json!([part, part]))), ["escalation - - i1"]);
    // It stopped before a node: nobody asked, but it stopped.
    assert_eq!(stream(&json!([{"a": {"x": []}}, {"__interrupt__": []}])).events.len(), 1);
    assert_eq!(stream(&json!([{"__interrupt__": ["Interrupt(value='x')"]}])).events.len(), 1);
}

#[test]
fn sources_one_by_one_capped_and_once() {
    let documents: Vec<_> = (0..60)
        .map(|n| json!({"id": null, "page_content": "x", "metadata": {"source": format!("{n}.md")}}))
        .collect();
    let bundle = stream(&json!([{"retriever": {"documents": documents}}]));
    assert_eq!(bundle.events.len(), 50);
    assert_eq!(bundle.events[1].detail.as_deref(), Some("1.md"));
    assert_eq!(codes(&bundle), ["citations_left_out"]);
    for (name, output, expected) in [
        ("kb_lookup", json!({"citations": [{"title": "H"}, null, "", 42]}), 1),
        ("rag", json!({"sources": "one.pdf"}), 1),
        ("VectorSearch", json!({"context": {"a": "b"}}), 1),
        ("fetcher", json!({"documents": []}), 0),
        ("storage", json!({"documents": ["a"]}), 0),
        ("research", json!({"documents": ["a"]}), 0),
    ] {
        assert_eq!(stream(&json!([{name: output}])).events.len(), expected, "{name}");
    }
    // A graph inside a node: what the inner node found is the outer node's output.
    let found = json!({"documents": [{"id": "a"}, {"id": "b"}]});
    let bundle =
        stream(&json!([[["search_graph:1"], {"vector_search": found}], [[], {"search_graph": found}]]));
    assert_eq!(told(&bundle), ["evidence_cited vector_search - a", "evidence_cited vector_search - b"]);
    // The same node twice, in two modes: twice, not four times.
    let task = json!({"id": "t", "name": "search", "error": null, "result": {"documents": [{"id": "a"}]}, "interrupts": []});
    let update = json!({"search": {"documents": [{"id": "a"}]}});
    let bundle = stream(&json!([["updates", update], ["tasks", task], ["updates", update], ["tasks", task]]));
    assert_eq!(bundle.events.len(), 2);
    let debug = json!({"step": 1, "type": "task_result", "payload": task});
    let bundle = stream(&json!([["debug", debug], ["tasks", task], ["updates", update]]));
    assert_eq!(bundle.events.len(), 1);
}

#[test]
fn events_of_astream_events() {
    let metadata = json!({"langgraph_node": "agent", "langgraph_checkpoint_ns": "agent:1"});
    let event = |kind: &str, name: &str, data: Value| json!({"event": kind, "name": name, "run_id": "r9", "metadata": metadata, "data": data});
    let bundle = stream(&json!([
        event("on_chain_start", "agent", json!({"input": {}})),
        event("on_chat_model_end", "Fake", json!({"output": message("c1")})),
        event(
            "on_tool_end",
            "look",
            json!({"output": {"type": "tool", "content": "x", "tool_call_id": "c1"}})
        ),
        event("on_tool_end", "direct", json!({"output": "42"})),
        event(
            "on_retriever_end",
            "VectorStoreRetriever",
            json!({"output": [{"page_content": "x", "metadata": {"source": "a.md"}}]})
        ),
        event("on_chain_end", "route", json!({"output": "x"})),
        event("on_chain_end", "agent", json!({"output": {"messages": [message("c1")]}})),
        event("on_custom_event", "x", json!({})),
    ]));
    assert_eq!(
        told(&bundle),
        ["tool_call agent look c1", "tool_call agent direct r9", "evidence_cited agent - a.md#0"]
    );
}

#[test]
fn what_cannot_be_read_is_said() {
    for (trace, code) in [
        (json!([{"model": {"messages": ["content='' tool_calls=[…]"]}}]), "text_message"),
        (json!(["updates={'a': 1}", "x", "y", "z"]), "text_record"),
        (json!([{"a": {"tool_calls": "3"}}]), "odd_tool_calls"),
        (json!([{"a": {"tool_calls": [{"args": {}}]}}]), "nameless_call"),
        (
            json!([{"a": {"messages": [{"type": "ai", "content": "", "invalid_tool_calls": [{"name": "x", "id": "1"}], "tool_calls": []}]}}]),
            "invalid_call",
        ),
        (json!([{"error": "RuntimeError()"}]), "unmapped_record"),
        (json!([["custom", {"tool_calls": "3"}]]), "custom_data"),
        (json!([{"event": "error", "data": {}}]), "run_error"),
        (json!([{"type": "novel", "ns": [], "data": {}}]), "unknown_mode"),
        (json!([[1, 2, 3, 4]]), "unmapped_record"),
        (json!([]), "empty_input"),
        (json!(null), "null_input"),
    ] {
        let bundle = stream(&trace);
        assert!(bundle.events.is_empty(), "{trace}");
        assert!(codes(&bundle).contains(&code), "{trace}: {:?}", codes(&bundle));
    }
}
