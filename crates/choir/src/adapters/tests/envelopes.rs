//! What LangGraph's SDK, protocol and threads put its modes into.

use super::*;
use serde_json::json;

fn chunks(trace: Value) -> Bundle {
    bundle(Format::LangGraph, &trace)
}

fn call() -> Value {
    json!({"type": "ai", "id": "m", "content": "", "name": "payer", "tool_calls": [{"name": "pay", "id": "c"}]})
}

#[test]
fn parts_of_the_sdk_are_tuples_of_three() {
    let update = json!({"critic": {"verdict": "rejected"}});
    let bundle = chunks(json!([
        ["metadata", {"run_id": "r"}, null],
        ["updates", update, "1-0"],
        ["updates|team:1", {"payer": {"messages": [call()]}}, null],
        ["end", null, null],
    ]));
    assert_eq!(told(&bundle), ["dissent critic - $[1].critic", "tool_call payer pay c"]);
    assert!(codes(&bundle).is_empty(), "{:?}", bundle.adapter_warnings);
    assert_eq!(told(&chunks(json!(["updates", update, null]))), ["dissent critic - $.critic"]);
}

#[test]
fn events_of_the_protocol() {
    let event = |method: &str, namespace: Value, data: Value| json!({"type": "event", "seq": 1, "method": method, "params": {"namespace": namespace, "timestamp": 1, "data": data}});
    let block = json!({"event": "content-block-finish", "index": 0, "content": {"type": "tool_call", "id": "c", "name": "pay", "args": {}}});
    let metadata = json!({"langgraph_node": "model", "langgraph_checkpoint_ns": "model:1"});
    let mut state = event("values", json!([]), json!({"messages": [call()]}));
    state["params"]["interrupts"] = json!([{"id": "i", "value": "Pay?"}]);
    let bundle = chunks(json!([
        event("lifecycle", json!(["team:1"]), json!({"event": "started"})),
        event("messages", json!([]), json!([{"event": "message-start", "role": "ai", "id": "m"}, metadata])),
        event("messages", json!([]), json!([block, metadata])),
        state,
        event("input.requested", json!(["team:1"]), json!({"interrupt_id": "i", "payload": "Pay?"})),
        event(
            "tools",
            json!([]),
            json!({"event": "tool-started", "tool_call_id": "c", "tool_name": "pay", "input": {}})
        ),
        event("tools", json!([]), json!({"event": "tool-finished", "tool_call_id": "c", "output": call()})),
        event("tools", json!([]), json!({"event": "tool-started", "tool_call_id": "d", "tool_name": "look"})),
        event("updates", json!(["team:1"]), json!({"policy_guard": {"flagged": true}})),
        event("custom:mine", json!([]), json!({"flagged": true})),
    ]));
    assert_eq!(
        told(&bundle),
        [
            "tool_call model pay c",
            "escalation - - i",
            "tool_call - look d",
            "warning policy_guard - $[8].policy_guard"
        ]
    );
    assert_eq!(codes(&bundle), ["custom_data", "no_voice"]);
    let failed = json!([event("lifecycle", json!([]), json!({"event": "failed", "error": "x"}))]);
    assert!(!is_complete(Format::LangGraph, &failed));
}

#[test]
fn a_threads_history_begins_with_the_newest_state() {
    let state = |messages: Value, next: Value, tasks: Value, interrupts: Value| json!([{"messages": messages}, next, {"configurable": {}}, {"step": 1}, "2026-11-15T00:00:00Z", null, tasks, interrupts]);
    let task =
        |name: &str, result: Value| json!(["id", name, ["__pregel_pull", name], null, [], null, result]);
    let history = json!([
        state(json!([call()]), json!([]), json!([]), json!([])),
        state(
            json!([call()]),
            json!(["tools"]),
            json!([task("tools", json!({"messages": []}))]),
            json!([{"value": "Pay?", "id": "i"}])
        ),
        state(json!([]), json!(["model"]), json!([task("model", json!({"messages": [call()]}))]), json!([])),
        state(json!([]), json!(["critic"]), json!([task("critic", json!({"rejected": true}))]), json!([])),
    ]);
    assert_eq!(
        told(&chunks(history.clone())),
        ["escalation - - i", "tool_call model pay c", "dissent critic - $[3].critic"]
    );
    assert!(is_complete(Format::LangGraph, &history));
    let waiting =
        json!([state(json!([call()]), json!(["tools"]), json!([]), json!([{"value": "Pay?", "id": "i"}]))]);
    assert!(!is_complete(Format::LangGraph, &waiting));
}

#[test]
fn tools_that_a_models_server_ran() {
    let message = |content: Value, more: Value| json!([{"model": {"messages": [{"type": "ai", "id": "m", "content": content, "additional_kwargs": more, "tool_calls": []}]}}]);
    let search = json!({"type": "web_search_call", "id": "ws", "status": "completed", "action": {"query": "Confidential"}});
    for trace in [message(json!([search]), json!({})), message(json!("x"), json!({"tool_outputs": [search]}))]
    {
        assert_eq!(told(&chunks(trace)), ["tool_call model web_search ws"]);
    }
    let mcp = json!([{"type": "mcp_call", "id": "1", "name": "look", "arguments": "{}"}]);
    assert_eq!(told(&chunks(message(mcp, json!({})))), ["tool_call model look 1"]);
    // A refusal is no guard's warning, and is not passed over either.
    for trace in [
        message(json!([{"type": "refusal", "refusal": "Confidential"}]), json!({})),
        message(json!(""), json!({"refusal": "Confidential"})),
    ] {
        let bundle = chunks(trace);
        assert!(bundle.events.is_empty() && codes(&bundle) == ["refusal"], "{:?}", codes(&bundle));
        assert!(!serde_json::to_string(&bundle).unwrap().contains("Confidential"));
    }
    assert_eq!(codes(&chunks(message(json!("x"), json!({"refusal": null})))), ["no_events"]);
    // Middleware that ends a run says nothing more.
    let filtered = json!([{"content_filter.before_model": {"messages": [], "jump_to": "end"}}]);
    assert_eq!(codes(&chunks(filtered)), ["unclear_guard"]);
}
