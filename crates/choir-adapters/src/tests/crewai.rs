use super::*;
use serde_json::json;

fn events(trace: Value) -> Bundle {
    bundle(Format::CrewAi, &trace)
}

#[test]
fn a_call_is_two_events_and_counts_once() {
    let started = json!({"type": "tool_usage_started", "tool_name": "Look It Up", "agent_role": "Support", "event_id": "e1", "timestamp": "2026-11-15T00:00:00Z"});
    let finished = json!({"type": "tool_usage_finished", "tool_name": "look_it_up", "agent_role": "Support", "event_id": "e2", "started_event_id": "e1"});
    let anonymous = json!({"type": "tool_usage_finished", "tool_name": "look_it_up", "agent_role": "Support", "event_id": "e3"});
    let failed = json!({"type": "mcp_tool_execution_failed", "tool_name": "x", "agent_role": "Support", "event_id": "e5", "started_event_id": "e4"});
    let once = ["tool_call Support Look It Up e1"];
    assert_eq!(told(&events(json!([started, finished]))), once);
    assert_eq!(told(&events(json!([started, anonymous]))), once);
    assert_eq!(
        events(json!([started, finished])).events[0].occurred_at.as_deref(),
        Some("2026-11-15T00:00:00Z")
    );
    // The beginning was not reported.
    assert_eq!(told(&events(json!([failed, failed]))), ["tool_call Support x e5"]);
    let traced = json!([{"type": "tool_usage_started", "event_id": "e1", "event_data": {"tool_name": "x", "agent_role": "CEO"}}]);
    assert_eq!(told(&events(traced)), ["tool_call CEO x e1"]);
    for name in ["tool_call", "tool_use", "tool_execution", "ToolUsageStartedEvent"] {
        assert_eq!(
            told(&events(json!({"events": [{"type": name, "tool": "x", "id": "1"}]}))),
            ["tool_call - x 1"],
            "{name}"
        );
    }
}

#[test]
fn giving_work_away_is_an_escalation() {
    for tool in ["Delegate work to coworker", "delegate_work_to_coworker", "Delegate Work to Co-worker"] {
        let bundle = events(
            json!([{"type": "tool_usage_started", "tool_name": tool, "agent_role": "CEO", "event_id": "1", "tool_args": {"coworker": "Writer", "task": "t"}}]),
        );
        assert_eq!(bundle.events[0].event_type.as_str(), "escalation", "{tool}");
        assert_eq!(bundle.events[0].target_voice.as_deref(), Some("Writer"));
    }
    let ask = events(
        json!([{"type": "tool_usage_started", "tool_name": "Ask question to coworker", "event_id": "1"}]),
    );
    assert_eq!(ask.events[0].event_type.as_str(), "tool_call");
    for (asked, answered) in [
        ("human_feedback_requested", "human_feedback_received"),
        ("a2a_delegation_started", "a2a_delegation_completed"),
    ] {
        let bundle = events(
            json!([{"type": asked, "event_id": "1", "message": "Approve?"}, {"type": answered, "event_id": "2", "feedback": "rejected"}]),
        );
        assert_eq!(told(&bundle), ["escalation - - 1"], "{asked}");
    }
    for kind in ["delegation", "handoff", "manager_allocation", "human_in_the_loop"] {
        assert_eq!(
            told(&events(json!([{"type": kind, "agent": "Boss", "id": "1"}]))),
            ["escalation Boss - 1"],
            "{kind}"
        );
    }
}

#[test]
fn guardrails_must_say_how_they_ended() {
    for (record, expected, warned) in [
        (json!({"type": "llm_guardrail_completed", "success": false, "error": "no"}), true, false),
        (json!({"type": "llm_guardrail_completed", "success": true}), false, false),
        (
            json!({"type": "llm_guardrail_started", "guardrail": "def f(): return (False, 'Blocked')"}),
            false,
            false,
        ),
        (json!({"type": "safety_check", "blocked": true}), true, false),
        (json!({"type": "safety_check", "blocked": false}), false, false),
        (json!({"type": "policy_check"}), false, true),
        (json!({"type": "refusal", "message": "no"}), true, false),
        (json!({"type": "unsafe_output"}), true, false),
    ] {
        let bundle = events(json!([record]));
        assert_eq!(bundle.events.len(), usize::from(expected), "{record}");
        let warned_of = codes(&bundle).into_iter().any(|code| !matches!(code, "no_voice" | "no_events"));
        assert_eq!(warned_of, warned, "{record}: {:?}", bundle.adapter_warnings);
    }
}

#[test]
fn outputs_of_tasks() {
    let output = |agent: &str, structured: Value| json!({"description": "d", "name": "n", "raw": "{}", "pydantic": structured, "json_dict": null, "agent": agent});
    let cited = json!({"citations": [{"title": "A", "url": "https://a"}, "{'title': 'B'}"], "sources": ["c.pdf", null]});
    for trace in [
        json!([{"type": "task_completed", "event_id": "1", "output": output("Researcher", cited.clone())}]),
        json!({"raw": "x", "pydantic": null, "tasks_output": [output("Researcher", cited.clone())]}),
    ] {
        let bundle = events(trace);
        let found: Vec<_> = bundle
            .events
            .iter()
            .map(|event| (event.voice_name.as_deref(), event.detail.as_deref()))
            .collect();
        let who = Some("Researcher");
        // Python's repr is not a name and is not copied.
        assert_eq!(found, [(who, Some("https://a")), (who, None), (who, Some("c.pdf"))]);
        assert!(codes(&bundle).contains(&"odd_source"));
    }
    let rejected = json!({"verdict": "rejected", "objections": ["'no date'"], "approved": false});
    let dissent = |agent: &str| {
        events(json!([{"type": "task_completed", "output": output(agent, rejected.clone())}])).events.len()
    };
    assert_eq!((dissent("Fact-Check Reviewer"), dissent("Publisher")), (1, 0));
    let lost = json!({"raw": "x", "tasks_output": [{"raw": "{}", "pydantic": {}, "output_format": "pydantic", "agent": "R"}]});
    assert_eq!(codes(&events(lost)), ["lost_fields", "results_only"]);
}

#[test]
fn what_a_caller_attests_passes_through() {
    let bundle = events(json!([
        {"event_type": "suppressed_dissent", "voice_name": "Policy", "id": "1", "detail": "d"},
        {"event_type": "WARNING", "crew_agent": "Policy", "id": "2", "reached_output": false, "disposition": "ignored"},
        {"event_type": "tool_call", "agent": {"role": "Policy"}, "id": "3", "reached_output": true, "tool": "x"},
    ]));
    assert_eq!(
        told(&bundle),
        ["suppressed_dissent Policy - 1", "warning Policy - 2", "tool_call Policy x 3"]
    );
    assert_eq!(bundle.events[1].reached_output, Some(false));
    assert_eq!(bundle.events[2].reached_output, None);
    assert_eq!(codes(&bundle), ["spelling", "unread_member"]);
    // Members that are not used cause a warning.
    for (member, value) in
        [("refers_to", json!(0)), ("disposition", json!("Ignored")), ("reached_output", json!("false"))]
    {
        let bundle = events(json!([{"event_type": "warning", "agent": "Policy", "id": "1", member: value}]));
        assert_eq!((bundle.events.len(), codes(&bundle)), (1, vec!["unread_member"]), "{member}");
        assert!(bundle.adapter_warnings[0].message.contains(member), "{member}");
    }
    let bundle = events(
        json!([{"event_type": "tool_call", "agent": "Boss", "id": "1", "tool_name": "Delegate work to coworker"}]),
    );
    assert_eq!(told(&bundle), ["escalation Boss Delegate work to coworker 1"]);
}

#[test]
fn reviews_step_logs_and_odd_records() {
    let review = events(
        json!([{"type": "review", "agent_name": "Critic", "verdict": "rejected", "id": "1", "reason": "r"}]),
    );
    assert_eq!(told(&review), ["dissent Critic - 1"]);
    let steps = events(json!([
        {"tool": "x", "tool_input": "{}", "thought": "t", "text": "t", "result": "r"},
        {"result": "r", "result_as_answer": false},
        {"thought": "t", "output": "o", "text": "t"},
    ]));
    assert_eq!(told(&steps), ["tool_call - x $[0]"]);
    assert_eq!(codes(&steps), ["no_voice"]);
    for odd in [
        json!([1]),
        json!(["x"]),
        json!([{"type": ["x"]}]),
        json!([{"type": "novelty"}]),
        json!({"hello": 1}),
    ] {
        let bundle = events(odd);
        assert!(bundle.events.is_empty() && bundle.adapter_warnings.len() == 1);
    }
}

#[test]
fn whoever_asks_a_person_escalates_once() {
    // The method pauses, and the flow with it, at `ask()` in a flow and at feedback by an asynchronous
    // provider.
    let of = |kind: &str, id: &str| json!({"type": kind, "event_id": id, "flow_name": "F", "method_name": "review", "message": "Approve?"});
    let asked = json!([
        of("flow_started", "1"),
        of("flow_input_requested", "2"),
        of("flow_input_received", "3"),
        of("flow_finished", "4")
    ]);
    assert_eq!(told(&events(asked.clone())), ["escalation review - 2"]);
    assert_eq!(events(asked).events[0].detail, None, "what somebody is asked is a prompt");
    let paused = json!([of("flow_started", "1"), of("method_execution_paused", "2"), of("flow_paused", "3")]);
    assert_eq!(told(&events(paused)), ["escalation review - 2"]);
    let alone = json!([of("flow_paused", "3")]);
    assert_eq!(told(&events(alone)), ["escalation review - 3"]);
    let again = json!([
        of("method_execution_paused", "2"),
        of("flow_paused", "3"),
        of("human_feedback_received", "4"),
        of("method_execution_paused", "5"),
        of("flow_paused", "6"),
    ]);
    assert_eq!(told(&events(again)), ["escalation review - 2", "escalation review - 5"]);
}

#[test]
fn knowledge_and_answers_that_were_kept_back() {
    let knowledge = |found: Value| {
        events(
            json!([{"type": "knowledge_search_query_completed", "event_id": "1", "agent_role": "R", "query": "q", "retrieved_knowledge": found}]),
        )
    };
    assert_eq!(codes(&knowledge(json!("one long text"))), ["nameless_knowledge"]);
    assert_eq!(codes(&knowledge(json!(""))), ["no_events"]);
    assert_eq!(
        told(&knowledge(json!([{"source": "a.pdf", "content": "x"}]))),
        ["evidence_cited R - a.pdf#0"]
    );
    for (reason, kept_back) in [
        ("content_filter", true),
        ("SAFETY", true),
        ("FinishReason.PROHIBITED_CONTENT", true),
        ("guardrail_intervened", true),
        ("refusal", true),
        ("stop", false),
        ("tool_calls", false),
        ("length", false),
    ] {
        let bundle = events(
            json!([{"type": "llm_call_completed", "event_id": "1", "agent_role": "R", "finish_reason": reason, "response": "blocked"}]),
        );
        let found: &[&str] = if kept_back { &["warning R - 1"] } else { &[] };
        assert_eq!(told(&bundle), found, "{reason}");
    }
}

#[test]
fn a_crews_end_tells_of_tasks_that_nobody_told_of() {
    let output = json!({"description": "d", "raw": "{}", "pydantic": {"citations": [{"url": "https://a"}]}, "json_dict": null, "agent": "R"});
    let end = json!({"type": "crew_kickoff_completed", "event_id": "9", "crew_name": "c", "output": {"raw": "x", "pydantic": null, "tasks_output": [output, output]}});
    let alone = events(json!([end]));
    assert_eq!(told(&alone), ["evidence_cited R - https://a#0"; 2]);
    assert_eq!(codes(&alone), ["results_only"]);
    let task = |id: &str| json!({"type": "task_completed", "event_id": id, "output": output});
    assert_eq!(events(json!([task("1"), task("2"), end])).events.len(), 2);
}

#[test]
fn ids_that_are_used_again() {
    let call = |tool: &str| json!({"type": "tool_call", "id": "call_0", "tool_name": tool, "agent": "A"});
    assert_eq!(
        told(&events(json!([call("x"), call("y"), call("x")]))),
        ["tool_call A x call_0", "tool_call A y call_0#2"]
    );
}

#[test]
fn one_approval_takes_nothing_from_anothers_dissent() {
    let review = |output: Value| {
        events(
            json!([{"type": "task_completed", "event_id": "1", "output": {"raw": "{}", "pydantic": output, "json_dict": null, "agent": "Review Board"}}]),
        )
    };
    let both = review(json!({"approved": true, "reviews": [
        {"reviewer": "Ann", "approved": true}, {"reviewer": "Ben", "verdict": "rejected", "reason": "no source"}]}));
    assert_eq!(told(&both), ["dissent Ben - 1.Ben"]);
    let split = review(json!([{"approved": true}, {"rejected": true}]));
    assert_eq!(told(&split), ["dissent Review Board - 1"]);
}

#[test]
fn prose_is_no_type() {
    for kind in
        ["Escalation was discussed with the customer", "the draft was blocked", "please delegate this"]
    {
        let bundle = events(json!([{"event": kind, "id": "1", "agent": "A"}]));
        assert!(bundle.events.is_empty(), "{kind}");
        assert_eq!(codes(&bundle), ["unmapped_record"], "{kind}");
    }
}

#[test]
fn a_run_that_did_not_end_is_not_complete() {
    let of = |kind: &str| json!({"type": kind, "event_id": kind, "crew_name": "c", "flow_name": "f", "method_name": "m"});
    let call = json!({"type": "tool_usage_started", "tool_name": "x", "event_id": "1"});
    for (trace, complete) in [
        (json!([call]), true),
        (json!([of("crew_kickoff_started"), call, of("crew_kickoff_completed")]), true),
        (json!([of("crew_kickoff_started"), call]), false),
        (json!([of("crew_kickoff_started"), call, of("crew_kickoff_failed")]), false),
        (json!([of("flow_started"), call, of("flow_finished")]), true),
        (json!([of("flow_started"), call]), false),
        (json!([call, of("method_execution_paused"), of("flow_paused")]), false),
        (json!([call, of("flow_paused"), of("human_feedback_received"), of("flow_finished")]), true),
        (json!([call, "ToolUsageFinishedEvent(…)"]), false),
        (json!({"raw": "x", "tasks_output": [{"raw": "x", "pydantic": null, "agent": "R"}]}), false),
    ] {
        assert_eq!(is_complete(Format::CrewAi, &trace), complete, "{trace}");
    }
}

#[test]
fn embedded_agents_hold_no_records() {
    let bundle = events(
        json!([{"type": "agent_execution_completed", "agent": {"role": "R", "llm": {"api_key": "hunter2"},
        "tools_results": [{"tool_name": "x", "type": "tool_call"}]}, "output": "blocked, rejected"}]),
    );
    assert!(bundle.events.is_empty());
    assert_eq!(codes(&bundle), ["no_events", "secret_in_trace"]);
}

/// A flow has methods and no tasks: their results are no events, which causes a warning.
#[test]
fn sources_of_a_flows_method_are_told() {
    let method = |result: Value| json!({"type": "method_execution_finished", "method_name": "retrieve", "flow_name": "f", "result": result});
    let bundle = events(json!([method(json!({"citations": ["https://a"]}))]));
    assert!(bundle.events.is_empty());
    assert_eq!(codes(&bundle), ["method_output"]);
    for nothing in [json!("citations: none"), json!({"answer": "x"}), Value::Null] {
        assert_eq!(codes(&events(json!([method(nothing)]))), ["no_events"]);
    }
}
