use super::*;
use serde_json::json;

fn items(items: Value) -> Bundle {
    bundle(Format::OpenAi, &items)
}

#[test]
fn calls_of_every_type() {
    for kind in ["function_call", "custom_tool_call", "mcp_call", "tool_call"] {
        assert_eq!(
            told(&items(json!([{"type": kind, "name": "look", "call_id": "c"}]))),
            ["tool_call - look c"],
            "{kind}"
        );
        assert_eq!(codes(&items(json!([{"type": kind}]))), ["nameless_call"], "{kind}");
    }
    for (kind, name) in [
        ("file_search_call", "file_search"),
        ("web_search_call", "web_search"),
        ("computer_call", "computer"),
        ("code_interpreter_call", "code_interpreter"),
        ("local_shell_call", "local_shell"),
        ("image_generation_call", "image_generation"),
        ("apply_patch_call", "apply_patch"),
    ] {
        assert_eq!(told(&items(json!([{"type": kind, "id": "i"}]))), [format!("tool_call - {name} i")]);
    }
    for kind in ["function_call_output", "shell_call_output", "reasoning", "message"] {
        let bundle = items(json!([{"type": kind, "content": "x", "output": "y"}]));
        assert!(bundle.events.is_empty() && codes(&bundle) == ["no_events"], "{kind}");
    }
    for kind in [
        "mcp_list_tools",
        "mcp_approval_request",
        "mcp_approval_response",
        "tool_search_call",
        "compaction",
        "quantum_call",
    ] {
        let bundle = items(json!([{"type": kind}]));
        assert!(bundle.events.is_empty() && bundle.adapter_warnings.len() == 1, "{kind}");
    }
    let checks =
        items(json!([{"type": "computer_call", "call_id": "c", "pending_safety_checks": [{"id": "s"}]}]));
    assert!(codes(&checks).contains(&"safety_checks"));
}

#[test]
fn a_call_told_twice_counts_once() {
    let call = json!({"type": "function_call", "name": "transfer_to_x", "call_id": "c"});
    assert_eq!(
        told(&items(json!([{"output": [call]}, {"output": [call]}]))),
        ["tool_call - transfer_to_x c"]
    );
}

#[test]
fn a_stream_says_everything_three_times() {
    let call = json!({"type": "function_call", "name": "look", "call_id": "c"});
    let cited = json!({"type": "message", "role": "assistant", "content": [
        {"type": "output_text", "text": "x", "annotations": [{"type": "url_citation", "url": "https://x", "title": "X", "start_index": 1, "end_index": 2}]}]});
    let done = |item: &Value| json!({"type": "response.output_item.done", "item": item});
    let begun =
        json!({"type": "response.created", "response": {"id": "r", "status": "in_progress", "output": []}});
    let end = json!({"type": "response.completed", "response": {"id": "r", "object": "response", "status": "completed", "output": [call, cited]}});
    let bundle = items(json!([begun, done(&call), done(&cited), end, end]));
    assert_eq!(told(&bundle), ["tool_call - look c", "evidence_cited - - 1-2@https://x"]);
    // The stream was cut; the finished items count.
    let bundle = items(json!([begun, done(&call), done(&cited)]));
    assert_eq!(bundle.events.len(), 2);
    assert!(codes(&bundle).contains(&"stream_broken_off"));
}

#[test]
fn a_stream_whose_last_word_is_empty() {
    let trace = json!([
        {"type": "response.created", "response": {"id": "r"}},
        {"type": "response.output_item.done", "item": {"type": "function_call", "id": "f", "call_id": "c", "name": "look"}},
        {"type": "response.completed", "response": {"id": "r", "object": "response", "status": "completed", "output": []}},
    ]);
    let bundle = items(trace);
    assert_eq!(told(&bundle), ["tool_call - look c"]);
    assert_eq!(codes(&bundle), ["empty_output", "no_voice"]);
}

#[test]
fn citations_and_refusals() {
    let message = |part: Value| json!([{"type": "message", "role": "assistant", "content": [part]}]);
    let text =
        |annotation: Value| message(json!({"type": "output_text", "text": "t", "annotations": [annotation]}));
    let cited =
        items(text(json!({"type": "file_citation", "file_id": "f", "filename": "a.pdf", "index": 7})));
    assert_eq!(told(&cited), ["evidence_cited - - f@7"]);
    assert_eq!(cited.events[0].detail.as_deref(), Some("a.pdf"));
    for odd in [
        json!({"type": "url_citation"}),
        json!({"type": "file_path", "file_id": "f"}),
        json!(null),
        json!({"type": "container_file_citation"}),
    ] {
        let bundle = items(text(odd));
        assert!(bundle.events.is_empty() && bundle.adapter_warnings.len() == 1);
    }
    let refusal = items(message(json!({"type": "refusal", "refusal": "I can't."})));
    assert_eq!(refusal.events[0].event_type.as_str(), "warning");
    assert_eq!(refusal.events[0].detail.as_deref(), Some("I can't."));
    let prose = items(json!([{"role": "user", "content": [{"type": "refusal", "refusal": "x"}]}]));
    assert!(prose.events.is_empty() && codes(&prose) == ["no_events"]);
}

#[test]
fn responses_in_wrappings() {
    let response = json!({"object": "response", "id": "r", "status": "completed", "output": [{"type": "function_call", "name": "look", "call_id": "c"}]});
    for trace in [
        response.clone(),
        json!([response]),
        json!({"custom_id": "1", "response": {"status_code": 200, "body": response}}),
        json!({"object": "list", "data": [response]}),
        json!([{"type": "raw_response_event", "data": {"type": "response.completed", "response": response}}]),
    ] {
        assert_eq!(told(&items(trace.clone())), ["tool_call - look c"], "{trace}");
    }
    let item =
        json!([{"type": "tool_call_item", "agent": {"name": "Triage"}, "raw_item": response["output"][0]}]);
    assert_eq!(told(&items(item)), ["tool_call Triage look c"]);
    for (status, code) in [("failed", "response_not_completed"), ("incomplete", "response_not_completed")] {
        assert_eq!(codes(&items(json!({"object": "response", "status": status, "output": []}))), [code]);
    }
    let chat = items(json!({"object": "chat.completion", "choices": []}));
    assert_eq!(codes(&chat), ["wrong_api"]);
    let chat = items(json!([{"role": "assistant", "content": null, "tool_calls": [{"id": "1"}]}]));
    assert_eq!(codes(&chat), ["wrong_api"]);
}

#[test]
fn nothing_is_silently_empty() {
    let created =
        json!({"type": "response.created", "response": {"id": "r", "status": "in_progress", "output": []}});
    let delta = json!({"type": "response.output_text.delta", "delta": "x", "item_id": "m"});
    for (trace, code) in [
        (json!({"object": "response", "status": "completed", "output": []}), "no_events"),
        (json!([created]), "stream_broken_off"),
        (json!([delta]), "stream_broken_off"),
        (json!({"object": "response", "status": "in_progress", "output": []}), "response_not_completed"),
        (json!({"object": "response", "status": "queued", "output": null}), "no_output"),
        (
            json!([{"type": "error", "sequence_number": 1, "code": "server_error", "message": "m"}]),
            "run_error",
        ),
        (json!({"object": "list", "data": []}), "no_events"),
    ] {
        let bundle = items(trace.clone());
        assert!(bundle.events.is_empty(), "{trace}");
        assert!(codes(&bundle).contains(&code), "{trace} {:?}", codes(&bundle));
    }
}

#[test]
fn refusals_wherever_they_are_told() {
    let created = json!({"type": "response.created", "response": {"id": "r"}});
    let told_early = json!({"type": "response.refusal.done", "item_id": "m", "refusal": "I can't."});
    let item = json!({"type": "message", "id": "m", "role": "assistant", "content": [{"type": "refusal", "refusal": "I can't."}]});
    let done = json!({"type": "response.output_item.done", "item": item});
    let end = |status: &str| json!({"type": format!("response.{status}"), "response": {"id": "r", "object": "response", "status": status, "output": [item]}});
    for trace in [
        json!([created, told_early]),
        json!([created, told_early, done]),
        json!([created, told_early, done, end("completed")]),
        json!([created, told_early, end("incomplete")]),
        json!({"object": "response", "status": "incomplete", "incomplete_details": {"reason": "content_filter"}, "output": [item]}),
        json!([{"role": "assistant", "content": null, "refusal": "I can't."}]),
    ] {
        let bundle = items(trace.clone());
        let found: Vec<_> = bundle.events.iter().map(|event| event.event_type.as_str()).collect();
        assert_eq!(found, ["warning"], "{trace}");
        assert_eq!(bundle.events[0].detail.as_deref(), Some("I can't."));
    }
}

#[test]
fn ids_that_are_used_again() {
    let call =
        |id: &str, name: &str| json!({"type": "function_call", "id": id, "call_id": "call_0", "name": name});
    let trace =
        json!([call("fc_1", "look"), call("fc_1", "look"), call("fc_2", "look"), call("fc_3", "send")]);
    let bundle = items(trace);
    assert_eq!(told(&bundle), ["tool_call - look call_0", "tool_call - send call_0#2"]);
    assert_eq!(codes(&bundle), ["call_told_again", "no_voice"]);
    // Every response makes its own calls, even with repeated ids; a conversation stores them under other ids.
    let response = |id: &str, item: &str| json!({"object": "response", "id": id, "status": "completed", "output": [call(item, "look")]});
    let trace = json!([
        response("r1", "fc_1"),
        response("r1", "fc_1"),
        response("r2", "fc_2"),
        call("item_9", "look")
    ]);
    let bundle = items(trace);
    assert_eq!(told(&bundle), ["tool_call - look call_0", "tool_call - look call_0#2"]);
    assert_eq!(codes(&bundle), ["call_told_again", "no_voice"]);
    // The same holds for streams, whose items some servers rename each time.
    let created = |id: &str| json!({"type": "response.created", "response": {"id": id}});
    let done = |item: &str| json!({"type": "response.output_item.done", "item": call(item, "look")});
    let trace = json!([created("r1"), done("fc_1"), done("fc_2"), created("r2"), done("fc_3")]);
    assert_eq!(told(&items(trace)), ["tool_call - look call_0", "tool_call - look call_0#2"]);
}

#[test]
fn a_run_that_did_not_end_is_not_complete() {
    let call = json!({"type": "function_call", "name": "look", "call_id": "c"});
    let response = |status: &str| json!({"object": "response", "status": status, "output": [call]});
    let created = json!({"type": "response.created", "response": {"id": "r"}});
    let done = json!({"type": "response.output_item.done", "item": call});
    let end = json!({"type": "response.completed", "response": response("completed")});
    for (trace, complete) in [
        (response("completed"), true),
        (response("in_progress"), false),
        (response("incomplete"), false),
        (response("failed"), false),
        (json!([created, done]), false),
        (json!([created, done, end]), true),
        (json!([created, done, end, created]), false),
    ] {
        assert_eq!(is_complete(Format::OpenAi, &trace), complete, "{trace}");
    }
    let many: Vec<_> =
        (0..700).map(|id| json!({"type": "function_call", "name": "x", "call_id": id.to_string()})).collect();
    assert!(!is_complete(Format::OpenAi, &json!(many)));
}

#[test]
fn responses_that_are_polled_and_outputs_in_lists() {
    let call = |id: &str| json!({"type": "function_call", "name": "look", "call_id": id});
    let response = |status: &str, output: Value| json!({"object": "response", "id": "r", "status": status, "background": true, "output": output});
    let queued = [response("queued", json!([])), response("in_progress", json!([]))];
    let done = response("completed", json!([call("c")]));
    let trace = json!([queued[0], queued[1], done]);
    assert_eq!(codes(&items(trace.clone())), ["no_voice"]);
    assert!(is_complete(Format::OpenAi, &trace));
    assert!(!is_complete(Format::OpenAi, &json!(queued)));
    assert_eq!(codes(&items(json!(queued))), ["response_not_completed"]);
    let outputs = json!([[call("c")], [call("d"), {"type": "reasoning"}]]);
    assert_eq!(told(&items(outputs)), ["tool_call - look c", "tool_call - look d"]);
    let failed = json!({"custom_id": "9", "response": null, "error": {"code": "batch_expired"}});
    assert_eq!(codes(&items(json!([failed]))), ["run_error"]);
}

#[test]
fn run_steps_are_deprecated() {
    let step = |details: Value| json!({"object": "thread.run.step", "id": "s", "step_details": details});
    let calls = json!({"type": "tool_calls", "tool_calls": [
        {"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}},
        {"id": "2", "type": "code_interpreter", "code_interpreter": {}},
        {"id": "3", "type": "function"}]});
    let bundle =
        items(json!({"object": "list", "data": [step(calls), step(json!({"type": "message_creation"}))]}));
    assert_eq!(told(&bundle), ["tool_call - look 1", "tool_call - code_interpreter 2"]);
    assert!(bundle.adapter.as_ref().unwrap().id.contains("deprecated"));
    assert!(codes(&bundle).contains(&"deprecated_api") && codes(&bundle).contains(&"nameless_call"));
}
