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
        json!([[], task]),
        json!([["sub:1"], task]),
        json!([[], debug]),
        json!([["sub:1"], debug]),
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
        // The record stands alone, like a line of NDJSON.
        assert_eq!(told(&stream(&record)), ["tool_call triage look c1"], "{record}");
    }
}

#[test]
fn states_name_no_node() {
    let state = json!({"messages": [message("c1")], "question": "?"});
    let bundle = stream(&json!([state, state]));
    assert_eq!(told(&bundle), ["tool_call - look c1"]);
    assert_eq!(codes(&bundle), ["snapshots_only", "no_voice"]);
    let checkpoint = json!({"values": {"messages": [message("c1")]}, "next": [], "config": {}});
    let elsewhere = json!({"history": [message("c1")], "question": "?"});
    for record in
        [json!([["sub:1"], state]), json!([["sub:1"], checkpoint]), json!([[], checkpoint]), elsewhere]
    {
        let bundle = stream(&json!([record, record]));
        assert_eq!(bundle.events.len(), 1, "{record}");
        assert!(!codes(&bundle).contains(&"unmapped_record"), "{record}");
    }
    // Without an id, calls are distinguished by their position in the list.
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
        ("safety", json!({"refusal": "I cannot do that"}), true),
        ("ContentFilter", json!({"moderation": {"flagged": true}}), true),
        ("ContentFilter", json!({"a": {"b": {"flagged": true}}}), false),
        ("safety", json!({"flagged": "Yes"}), false),
        ("safety", json!({"flagged": 1}), false),
        ("filter_documents", json!({"documents": [{"page_content": "x", "status": "blocked"}]}), false),
        ("policy_search", json!({"metadata": {"status": "blocked"}}), false),
        ("safety", json!({"flagged": "no", "refusal": "n/a"}), false),
        ("safety", json!({"status": "unblocked", "unflagged": true}), false),
        ("safety", json!({"note": "blocked"}), false),
        ("safety", json!({"messages": [{"type": "ai", "content": "x", "status": "blocked"}]}), false),
        ("answer", json!({"blocked": true}), false),
    ] {
        let bundle = stream(&json!([{name: output}]));
        assert_eq!(bundle.events.len(), usize::from(expected), "{name} {output}");
        assert!(bundle.events.iter().all(|event| event.event_type.as_str() == "warning"));
    }
    // Words that the protocol does not define cause a warning.
    for output in [
        json!({"safe": false}),
        json!({"result": {"allowed": false}}),
        json!({"decision": "DENIED"}),
        json!({"tripwire_triggered": true}),
        json!({"flagged": 1}),
        json!({"blocked": "yes"}),
        json!({"moderation": {"response": {"results": [{"flagged": true}]}}}),
    ] {
        let bundle = stream(&json!([{"input_guard": output}]));
        assert_eq!((told(&bundle).len(), codes(&bundle)), (0, vec!["unclear_guard"]), "{output}");
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
        ("peer_reviewer", json!({"objections": "None"}), false, false),
        ("peer_reviewer", json!({"objection": "n/a", "dissent": "no"}), false, false),
        ("peer_reviewer", json!({"dissent": ""}), false, false),
        ("peer_reviewer", json!({"dissent": {"text": "none"}}), false, false),
        ("peer_reviewer", json!({"dissent": "the sources are old"}), true, false),
        ("peer_reviewer", json!({"dissent": true}), true, false),
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
            codes(&bundle).into_iter().any(|code| code != "no_events"),
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
        // The text of a message is prose and is not read.
        ("escalate_to_human", json!({"messages": [{"type": "ai", "content": "on it"}]}), false),
        (
            "escalate",
            json!({"messages": [{"type": "ai", "content": "No escalation needed.", "id": "m"}]}),
            false,
        ),
        // Numbers do not count.
        ("escalate", json!({"escalated": 0}), false),
        ("escalate", json!({"needed": 0}), false),
        ("escalate", json!({"escalation": {"needed": false, "score": 0.1}}), false),
        ("escalate", json!({"escalation": {"level": 0}}), false),
        ("escalation", json!({"needed": false, "score": 0.1}), false),
        ("handoff_check", json!({"retry_count": 2}), false),
        ("handoff_check", json!({"time_to_live": "short", "escalation_level": "low"}), false),
        ("escalate", json!({"escalation": {"needed": true, "score": 0.9}}), true),
        ("escalate", json!({"ticket_id": 42}), true),
        ("escalate", json!({"status": "escalated"}), true),
        ("escalate", json!({"result": {"assignee": "Ann"}}), true),
        ("HandOff", json!({"to": "Bob"}), true),
        ("hand_off", json!({"to": "Bob"}), true),
        ("escalate", json!(null), false),
        ("escalate", json!({}), false),
        ("escalate", json!({"escalated": false, "note": "checked"}), false),
        ("escalate", json!({"escalation": null, "messages": []}), false),
        ("escalate", json!({"note": "no escalation needed"}), false),
        ("escalate", json!({"escalation": "No escalation needed"}), false),
        // Prose does not count, whatever words it contains.
        ("escalate", json!({"note": "I checked whether to escalate; all is well"}), false),
        ("escalate", json!({"escalation": "An escalation is unnecessary in this case"}), false),
        ("escalate", json!({"done": "yes"}), false),
        ("escalate", json!({"escalated_to": "desk"}), true),
        ("escalate", json!({"escalated": true, "note": "none"}), true),
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
    assert_eq!(bundle.events[0].detail, None, "what somebody is asked is a prompt");
    let bundle = stream(&json!([["tasks", task]]));
    assert_eq!(told(&bundle), ["escalation ask - i1"]);
    let part = json!({"type": "values", "ns": [], "data": {"x": 1}, "interrupts": [interrupt]});
    assert_eq!(told(&stream(&json!([part, part]))), ["escalation - - i1"]);
    // The node's report after the answer is the same escalation; a later one of another node is not.
    let resumed = json!([["updates", {"__interrupt__": [interrupt]}], ["values", {"x": 1}],
        ["updates", {"human_escalation": {"escalated": true}}]]);
    assert_eq!(told(&stream(&resumed)), ["escalation - - i1"]);
    let later = json!([["updates", {"__interrupt__": [interrupt]}], ["updates", {"ask": {"approved": true}}],
        ["updates", {"human_escalation": {"escalated": true}}]]);
    assert_eq!(stream(&later).events.len(), 2);
    // The graph stopped before a node, without a question.
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
    // A graph is nested in a node: what the inner node found is also the outer node's output.
    let found = json!({"documents": [{"id": "a"}, {"id": "b"}]});
    let bundle =
        stream(&json!([[["search_graph:1"], {"vector_search": found}], [[], {"search_graph": found}]]));
    assert_eq!(told(&bundle), ["evidence_cited vector_search - a", "evidence_cited vector_search - b"]);
    // Passages are identified by their hash; nothing of them is copied.
    let found = json!({"documents": ["A passage of some words", "Another one"]});
    let bundle =
        stream(&json!([[["search_graph:1"], {"vector_search": found}], [[], {"search_graph": found}]]));
    assert_eq!(bundle.events.len(), 2);
    // The surrounding graph keeps the flag without the reason.
    let inside = json!([["safety_team:1"], {"moderation": {"flagged": true, "reason": "violence"}}]);
    let bundle = stream(&json!([inside, [[], {"safety_team": {"flagged": true}}]]));
    assert_eq!(told(&bundle), ["warning moderation - $[0].moderation"]);
    // The same node ran twice and is reported in two modes: two outputs, not four.
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
fn one_approval_takes_nothing_from_anothers_dissent() {
    for (output, expected) in [
        (
            json!({"reviews": [{"reviewer": "Ann", "approved": true}, {"reviewer": "Ben", "verdict": "rejected"}]}),
            vec!["Ben"],
        ),
        (
            json!({"approved": true, "reviews": [{"reviewer": "Ben", "objection": "no"}, {"reviewer": "Cem", "objection": "too long"}]}),
            vec!["Cem"],
        ),
        (
            json!({"approved": true, "reviews": [{"reviewer": "Ben", "rejected": true}, {"reviewer": "Cem", "rejected": true}]}),
            vec!["Ben", "Cem"],
        ),
        (json!({"style": {"verdict": "approved"}, "facts": {"verdict": "rejected"}}), vec!["critic"]),
        (json!({"reviews": [{"approved": true}, {"rejected": true}, {"rejected": true}]}), vec!["critic"]),
        (json!({"approved": true, "review": {"objections": ["but"]}}), vec![]),
        (json!({"reviews": [{"reviewer": "Ann", "approved": true, "objections": ["but"]}]}), vec![]),
    ] {
        let bundle = stream(&json!([["updates", {"critic": output}]]));
        let who: Vec<_> = bundle.events.iter().map(|event| event.voice_name.as_deref().unwrap()).collect();
        assert_eq!(who, expected, "{output}");
    }
}

#[test]
fn tasks_of_the_functional_api() {
    let call = json!({"name": "look", "args": {"q": 1}, "id": "c2", "type": "tool_call"});
    let records = [
        ("policy_guard", json!({"flagged": true, "reason": "r"})),
        ("call_model", message("c1")),
        ("answer", json!("some text that mentions escalation")),
        ("reviewer", json!({"verdict": "rejected"})),
        ("calls", json!([call])),
        ("retrieve", json!([{"page_content": "x", "metadata": {"source": "a.md"}}])),
        ("count", json!(3)),
        ("escalation_flow", json!({"done": "yes"})),
    ];
    let expected = [
        "warning policy_guard",
        "tool_call call_model",
        "dissent reviewer",
        "tool_call calls",
        "evidence_cited retrieve",
    ];
    let short = |bundle: &Bundle| {
        told(bundle)
            .iter()
            .map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" "))
            .collect::<Vec<_>>()
    };
    let updates: Vec<_> = records.iter().map(|(name, output)| json!({*name: output})).collect();
    let bundle = stream(&json!(updates));
    assert_eq!(short(&bundle), expected);
    assert_eq!(codes(&bundle), ["empty_escalation"]);
    // The tasks mode reports a start and a result; a resumed task is started again.
    let mut tasks = vec![];
    for (name, output) in &records {
        let start =
            json!({"id": name, "name": name, "input": [[{"a": 1}], {}], "triggers": ["__pregel_push"]});
        let end = json!({"id": name, "name": name, "error": null, "result": {"__return__": output}, "interrupts": []});
        tasks.extend([start.clone(), end, start]);
    }
    assert_eq!(short(&stream(&json!(tasks))), expected);
    assert!(is_complete(Format::LangGraph, &json!(tasks)));
    assert!(!is_complete(Format::LangGraph, &json!(tasks[..1])));
}

#[test]
fn calls_in_other_shapes() {
    let function = json!({"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}});
    for message in [
        json!({"type": "ai", "content": "", "tool_calls": [function]}),
        json!({"type": "ai", "content": "", "tool_calls": function}),
        json!({"type": "ai", "content": "", "tool_calls": [], "additional_kwargs": {"tool_calls": [function]}}),
        json!({"role": "assistant", "content": [{"type": "text", "text": "x"}, {"type": "tool_use", "id": "c1", "name": "look", "input": {}}]}),
        json!({"type": "ai", "content": [{"type": "tool_use", "id": "c1", "name": "look", "input": {}}], "tool_calls": [{"name": "look", "args": {}, "id": "c1"}]}),
        json!({"type": "ai", "content": [{"type": "server_tool_use", "id": "c1", "name": "look"}], "tool_calls": []}),
    ] {
        let bundle = stream(&json!([["updates", {"agent": {"messages": [message]}}]]));
        assert_eq!(told(&bundle), ["tool_call agent look c1"], "{message}");
    }
    let old = json!({"type": "ai", "content": "", "additional_kwargs": {"function_call": {"name": "look", "arguments": "{}"}}});
    assert_eq!(stream(&json!([["updates", {"agent": {"messages": [old]}}]])).events.len(), 1);
    let human = json!({"type": "human", "content": [{"type": "tool_use", "id": "c1", "name": "look"}]});
    assert!(stream(&json!([["updates", {"agent": {"messages": [human]}}]])).events.is_empty());
}

#[test]
fn ids_that_are_used_again() {
    let turn = |id: &str, tool: &str| json!({"a": {"messages": [{"type": "ai", "content": "", "id": id, "tool_calls": [{"name": tool, "args": {}, "id": "call_0"}]}]}});
    let trace = json!([
        turn("m1", "look"),
        turn("m1", "look"),
        turn("m2", "look"),
        turn("m3", "send"),
        turn("m3", "send")
    ]);
    // A call is identified by its message and its id, and the same message is told once.
    assert_eq!(
        told(&stream(&trace)),
        ["tool_call a look call_0", "tool_call a look call_0#2", "tool_call a send call_0#3"]
    );
    assert!(codes(&stream(&trace)).is_empty());
    // Two agents whose server counts from 0 in each message: the second call does not vanish.
    let call = |node: &str, id: &str| json!(["updates", {node: {"messages": [{"type": "ai", "content": "", "id": id, "tool_calls": [{"name": "refund", "args": {}, "id": "functions.refund:0"}]}]}}]);
    let both = json!([call("triage", "m1"), call("drafter", "m2")]);
    assert_eq!(
        told(&stream(&both)),
        ["tool_call triage refund functions.refund:0", "tool_call drafter refund functions.refund:0#2"]
    );
    // Another mode tells the same messages with other ids.
    let state = |ids: [&str; 2]| json!(["values", {"messages": ids.map(|id| json!({"type": "ai", "content": "", "id": id, "tool_calls": [{"name": "refund", "args": {}, "id": "functions.refund:0"}]}))}]);
    let modes =
        json!([call("triage", "m1"), call("drafter", "m2"), state(["s1", "s2"]), state(["s1", "s2"])]);
    assert_eq!(stream(&modes).events.len(), 2);
}

#[test]
fn a_run_that_did_not_end_is_not_complete() {
    let update = json!({"a": {"x": []}});
    let interrupt = json!({"__interrupt__": [{"id": "i", "value": "?"}]});
    let begun = json!({"event": "on_chain_start", "name": "LangGraph", "run_id": "r", "data": {}});
    let ended = json!({"event": "on_chain_end", "name": "LangGraph", "run_id": "r", "data": {"output": {}}});
    for (trace, complete) in [
        (json!([["updates", update]]), true),
        (json!([["updates", update], ["updates", interrupt]]), false),
        (json!([["updates", interrupt], ["updates", update]]), true),
        (json!([["values", {"messages": []}]]), false),
        (json!([["updates", update], ["checkpoints", {"values": {}, "next": ["b"]}]]), false),
        (
            json!([["checkpoints", {"values": {}, "next": ["b"]}], ["updates", update], ["checkpoints", {"values": {}, "next": []}]]),
            true,
        ),
        (json!([begun, ended]), true),
        (json!([begun]), false),
        (json!([{"event": "updates", "data": update}, {"event": "error", "data": {}}]), false),
        (json!([["updates", update], "updates={'a': 1}", "x"]), false),
        (
            json!([["tasks", {"id": "t", "name": "a", "error": "RuntimeError()", "result": {}, "interrupts": []}]]),
            false,
        ),
    ] {
        assert_eq!(is_complete(Format::LangGraph, &trace), complete, "{trace}");
    }
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
