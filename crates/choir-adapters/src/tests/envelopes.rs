//! The envelopes of LangGraph's SDK, protocol and threads.

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
    // A refusal is not a guard's warning, but it is reported.
    for trace in [
        message(json!([{"type": "refusal", "refusal": "Confidential"}]), json!({})),
        message(json!(""), json!({"refusal": "Confidential"})),
    ] {
        let bundle = chunks(trace);
        assert!(bundle.events.is_empty() && codes(&bundle) == ["refusal"], "{:?}", codes(&bundle));
        assert!(!serde_json::to_string(&bundle).unwrap().contains("Confidential"));
    }
    assert_eq!(codes(&chunks(message(json!("x"), json!({"refusal": null})))), ["no_events"]);
    // Middleware that ends a run reports nothing else.
    let filtered = json!([{"content_filter.before_model": {"messages": [], "jump_to": "end"}}]);
    assert_eq!(codes(&chunks(filtered)), ["unclear_guard"]);
}

/// `json.dumps(default=str)` writes an interrupt as Python's repr in one mode and leaves it an object in
/// another.
#[test]
fn an_interrupt_is_the_same_in_every_mode_and_spelling() {
    let repr =
        |id: &str| format!("Interrupt(value={{'kind': 'k', 'id': 'no'}}, id='{id}', response_schema=None)");
    let of = |name: &str, id: &str| json!({"id": id, "name": name, "error": null, "result": {}, "interrupts": [{"value": "?", "id": id}]});
    let bundle = chunks(json!([
        {"type": "updates", "ns": [], "data": {"__interrupt__": [repr("a1")]}},
        {"type": "values", "ns": [], "data": {"messages": []}, "interrupts": [repr("a1")]},
        {"type": "tasks", "ns": [], "data": of("legal", "a1")},
        {"type": "tasks", "ns": [], "data": of("finance", "b2")},
        {"type": "values", "ns": [], "data": {"messages": []}, "interrupts": [repr("b2")]},
    ]));
    assert_eq!(told(&bundle), ["escalation - - a1", "escalation finance - b2"]);
    // Without an id, interrupts are distinguished by their positions.
    let bundle = chunks(
        json!([{"__interrupt__": ["Interrupt(value='?')"]}, {"__interrupt__": ["Interrupt(value='?')"]}]),
    );
    assert_eq!(bundle.events.len(), 2);
}

/// A tool that hands off or fails does not name its call; it counts as the requested one.
#[test]
fn a_tool_that_was_run_is_the_call_that_was_asked_for() {
    let event = |kind: &str, name: &str, run: &str, data: Value| {
        let metadata = json!({"langgraph_node": "tools", "langgraph_checkpoint_ns": "tools:1"});
        json!({"event": kind, "name": name, "run_id": run, "metadata": metadata, "data": data})
    };
    let asked = json!({"type": "ai", "id": "m", "content": "", "tool_calls": [{"name": "transfer", "id": "t"}, {"name": "pay", "id": "p"}]});
    let bundle = chunks(json!([
        event("on_chat_model_end", "model", "0", json!({"output": asked})),
        event(
            "on_tool_end",
            "transfer",
            "1",
            json!({"output": "Command(graph='__parent__', goto='billing')"})
        ),
        event("on_tool_error", "pay", "2", json!({"error": "no"})),
        event("on_tool_end", "transfer", "3", json!({"output": "done"})),
        event("on_tool_end", "look", "4", json!({"output": "nobody asked, a node ran it"})),
    ]));
    let expected = [
        "tool_call tools transfer t",
        "tool_call tools pay p",
        "tool_call tools transfer 3",
        "tool_call tools look 4",
    ];
    assert_eq!(told(&bundle), expected);
}

/// The actions of subgraphs may be visible only in their results.
#[test]
fn a_result_without_its_call_is_told() {
    let result = json!({"type": "tool", "name": "transfer", "tool_call_id": "t", "content": "done"});
    let called = json!({"type": "ai", "content": "", "tool_calls": [{"name": "transfer", "id": "t"}]});
    let bundle = chunks(json!([{"triage": {"messages": [result]}}, {"billing": {"messages": [result]}}]));
    assert!(bundle.events.is_empty());
    assert_eq!(codes(&bundle), ["result_without_call"]);
    assert!(bundle.adapter_warnings[0].message.contains("1 in all"), "{:?}", bundle.adapter_warnings);
    // The call may be reported anywhere in the trace.
    for trace in [
        json!([{"a": {"messages": [called, result]}}]),
        json!([{"b": {"messages": [result]}}, {"a": {"messages": [called]}}]),
    ] {
        assert!(codes(&chunks(trace)).is_empty());
    }
    assert!(!is_complete(Format::LangGraph, &json!([{"triage": {"messages": [result]}}])));
}

/// Tasks of the functional API may return lists.
#[test]
fn a_list_that_a_retriever_found_is_not_lost() {
    let bundle = chunks(json!([{"retrieve_docs": [{"id": "d", "source": "kb"}]}, {"draft": [{"id": "x"}]}]));
    assert!(bundle.events.is_empty());
    assert_eq!(codes(&bundle), ["unclear_sources"]);
    let documents = json!([{"retrieve_docs": [{"page_content": "x", "metadata": {"source": "kb/1"}}]}]);
    assert_eq!(chunks(documents).events.len(), 1);
    assert!(
        codes(&chunks(json!([{"retriever": [{"documents": [{"id": "d"}]}, {"messages": []}]}]))).is_empty()
    );
}
