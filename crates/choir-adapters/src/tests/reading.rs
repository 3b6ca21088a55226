use super::*;
use crate::node::{self, Budget, Keep, Node};
use crate::reader::Reader;
use proptest::prelude::*;
use serde::de::IgnoredAny;
use serde_json::json;

fn read(text: &[u8], buffer: usize) -> Result<Node, String> {
    let mut reader = Reader::with_buffer(text, buffer);
    let node = node::read(&mut reader, &mut Budget::new(), |parent, _, _| parent, Keep::All, 0);
    let node = node.map_err(|error| error.to_string())?;
    match reader.peek() {
        Ok(None) => Ok(node),
        Ok(Some(_)) => Err("trailing".into()),
        Err(error) => Err(error.to_string()),
    }
}

fn skip(text: &[u8]) -> bool {
    let mut reader = Reader::with_buffer(text, 64);
    reader.skip().is_ok() && matches!(reader.peek(), Ok(None))
}

#[test]
fn what_is_no_json_says_why_and_where() {
    for (text, why) in [
        (
            "{\"a\": NaN}",
            "NaN and Infinity are no JSON; Python writes them unless allow_nan=False (line 1, byte 6)",
        ),
        ("[1,\n 2,]", "a comma is followed by something (line 2, byte 7)"),
        ("{'a': 1}", "a member begins with its name in quotes"),
        ("['a']", "is this Python's repr instead of json.dumps?"),
        ("[1 2]", "a list goes on with ',' or ends with ']'"),
        ("{\"a\" 1}", "a name is followed by ':'"),
        ("[\"a\nb\"]", "a text holds a control character that is not escaped"),
        ("[\"\\x\"]", "a text holds an escape that JSON does not know"),
        ("[01]", "this is no number as JSON writes them"),
        ("[1", "it ends in the middle"),
        ("[\"a", "a text does not end"),
        ("<html>", "a value was expected"),
    ] {
        for format in Format::ALL {
            let told = error(Some(format), text).to_string();
            assert!(told.contains(why) && told.starts_with("this is not JSON: "), "{text}: {told}");
        }
        assert!(!skip(text.as_bytes()), "{text}");
    }
    let deep = "[".repeat(200);
    assert!(error(Some(Format::CrewAi), &deep).to_string().contains("deeper than 128 levels"));
    let bytes = adapt(Some(Format::OpenAi), b"[\"\xff\"]".as_slice(), &About::default()).unwrap_err();
    assert!(bytes.to_string().contains("not UTF-8"), "{bytes}");
}

#[test]
fn wrong_shapes_say_so() {
    assert!(matches!(error(None, " \n"), AdaptError::Empty));
    assert!(matches!(error(Some(Format::OpenAi), "42"), AdaptError::Scalar("a number")));
    assert!(matches!(error(Some(Format::OpenAi), "\"x\""), AdaptError::Scalar("a text")));
    assert!(matches!(error(None, "{\"hello\": [1]}"), AdaptError::Unknown));
    let spans = json!([{"name": "x", "context": {"span_id": "0x1"}, "attributes": {}}]).to_string();
    let other = error(Some(Format::LangGraph), &spans.replace("{}", "{\"gen_ai.operation.name\": \"chat\"}"));
    assert_eq!(other.to_string(), "this is no langgraph trace: it looks like one of otel");
}

#[test]
fn texts_are_cut_at_whole_signs_and_surrogates_are_read() {
    let long = format!("[\"{}\"]", "é".repeat(5000));
    let Node::List(items) = read(long.as_bytes(), 64).unwrap() else { panic!() };
    let Node::Text(text) = &items[0] else { panic!() };
    assert!(!text.whole && text.text.chars().all(|sign| sign == 'é') && text.text.len() == 4000);
    for (written, meant) in [
        ("\\ud83c\\udfb5", "🎵"),
        ("\\ud83c", "\u{fffd}"),
        ("\\ud83c\\n", "\u{fffd}\n"),
        ("\\udfb5x", "\u{fffd}x"),
        ("\\u0041\\u00e9", "Aé"),
    ] {
        let Node::List(items) = read(format!("[\"{written}\"]").as_bytes(), 64).unwrap() else { panic!() };
        assert_eq!(items[0].text(), Some(meant));
    }
}

#[test]
fn one_value_per_line_and_streams_of_events() {
    let lines = "{\"a\": {\"tool_calls\": [{\"name\": \"x\", \"id\": \"1\"}]}}\n{\"b\": null}\n";
    let bundle = adapt(None, lines.as_bytes(), &About::default()).unwrap();
    assert_eq!(told(&bundle), ["tool_call a x 1"]);
    let lines = "[\"updates\", {\"a\": {\"tool_calls\": [{\"name\": \"x\"}]}}]\n[\"custom\", 1]\n";
    let bundle = adapt(Some(Format::LangGraph), lines.as_bytes(), &About::default()).unwrap();
    assert_eq!(told(&bundle), ["tool_call a x $#0"]);
    assert_eq!(bundle.adapter_warnings[0].path.as_deref(), Some("line 2: $"));
    let stream = ": hi\nevent: metadata\ndata: {\"run_id\": 1}\n\nid: 7\nevent: updates|sub:1\n\
                  data: {\"a\": {\"tool_calls\": [{\"name\": \"x\", \"id\": \"1\"}]}}\n\n";
    let bundle = adapt(None, stream.as_bytes(), &About::default()).unwrap();
    assert_eq!(told(&bundle), ["tool_call a x 1"]);
    // The data of an event may span several lines, with one or several values; a blank line ends it together
    // with its name.
    let stream = "event: updates\r\ndata: {\"a\":\r\ndata:   {\"tool_calls\": [\ndata: {\"name\": \"x\",\ndata: \"id\":\ndata: \"1\"}]}\n\
                  data: }\ndata: {\"b\": {\"tool_calls\": [{\"name\": \"y\", \"id\": \"2\"}]}}\n\n\
                  data: {\"event\": \"values\", \"data\": {\"messages\": []}}\n\n";
    let bundle = adapt(Some(Format::LangGraph), stream.as_bytes(), &About::default()).unwrap();
    assert_eq!(told(&bundle), ["tool_call a x 1", "tool_call b y 2"]);
    assert!(codes(&bundle).is_empty(), "{:?}", bundle.adapter_warnings);
    // Outside of a stream this is not JSON.
    assert!(error(Some(Format::LangGraph), "[1,\ndata: 2]").to_string().contains("a value was expected"));
    let stream = "event: response.completed\ndata: {\"type\": \"response.completed\", \"response\": {\"id\": \"r\", \
                  \"output\": [{\"type\": \"function_call\", \"name\": \"x\", \"call_id\": \"1\"}]}}\n\ndata: [DONE]\n";
    let bundle = adapt(None, stream.as_bytes(), &About::default()).unwrap();
    assert_eq!(told(&bundle), ["tool_call - x 1"]);
}

#[test]
fn a_bundle_is_bounded_and_says_what_was_left_out() {
    let calls: Vec<_> =
        (0..700).map(|id| json!({"type": "function_call", "name": "x", "call_id": id.to_string()})).collect();
    let bundle = bundle(Format::OpenAi, &json!(calls));
    assert_eq!(bundle.events.len(), 500);
    let last = bundle.adapter_warnings.last().unwrap();
    assert_eq!(last.message, "200 events were left out: a bundle holds 500");

    let odd: Vec<_> = (0..300).map(|kind| json!({"type": format!("odd_{kind}")})).collect();
    let bundle = super::bundle(Format::OpenAi, &json!(odd));
    assert!(bundle.adapter_warnings.len() <= 100);
    assert_eq!(bundle.adapter_warnings.last().unwrap().message, "208 further warnings were left out");

    // Repetitions of a warning are counted; malformed entries are told one by one.
    let calls = json!([{"type": "function_call"}, {"type": "function_call"}]);
    let bundle = super::bundle(Format::OpenAi, &calls);
    assert_eq!(bundle.adapter_warnings[0].message, "a function_call names no tool (2 times)");
    let bundle = super::bundle(Format::OpenAi, &json!([null, null, null]));
    assert_eq!(
        bundle.adapter_warnings.iter().filter(|one| one.message == "an output item is null").count(),
        3
    );
}

#[test]
fn secrets_are_masked_and_named_nowhere() {
    let key = format!("sk-proj-{}", "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3z".repeat(2));
    let trace = json!([
        {"policy_guard": {"flagged": true, "reason": format!("the reply holds {key}")}},
        {"agent": {"messages": [], "llm": {"api_key": "not-a-known-form"}}},
    ]);
    let bundle = bundle(Format::LangGraph, &trace);
    let written = serde_json::to_string(&bundle).unwrap();
    assert!(!written.contains(&key[..20]) && !written.contains("not-a-known-form"), "{written}");
    assert_eq!(codes(&bundle), ["secret_in_trace"]);
    // A value that the trace names as a key is masked everywhere, before and after.
    let known = json!([
        {"policy_guard": {"flagged": true, "reason": "401: plainsecret99 is no key"}},
        {"agent": {"llm": {"headers": {"Authorization": "Bearer plainsecret99"}}}},
        {"safety": {"flagged": true, "reason": "again plainsecret99"}},
    ]);
    let bundle = super::bundle(Format::LangGraph, &known);
    let details: Vec<_> = bundle.events.iter().map(|event| event.detail.as_deref().unwrap()).collect();
    assert_eq!(details, ["401: [redacted] is no key", "again [redacted]"]);
    let masked = json!([{"policy_guard": {"flagged": false, "api_key": "**********"}}]);
    assert_eq!(codes(&super::bundle(Format::LangGraph, &masked)), ["no_events"]);
}

#[test]
fn voices_are_found_by_any_name_and_case() {
    let score = json!({"title": "t", "voices": [{"name": "Prüfer", "aliases": ["critic", "QA"]}, {"name": "Support"}],
        "scenarios": [{"id": "s", "severity": "low"}]});
    let score = chorus_choir::read_score(score).unwrap();
    let about =
        About { run_id: Some("r1".into()), complete: true, voices: &score.voices, ..About::default() };
    let trace = json!([
        {"CRITIC": {"verdict": "rejected"}},
        {"pru\u{308}fer": {"tool_calls": [{"name": "x", "id": "1"}]}},
        {"model": {"messages": [{"type": "ai", "content": "", "name": "SUPPORT", "tool_calls": [{"name": "y", "id": "2"}]}]}},
        {"other": {"tool_calls": [{"name": "z", "id": "3"}]}},
    ]);
    let bundle = adapt(Some(Format::LangGraph), trace.to_string().as_bytes(), &about).unwrap();
    assert_eq!(bundle.run_id.as_deref(), Some("r1"));
    assert!(bundle.complete);
    let voices: Vec<_> = bundle.events.iter().map(|event| event.voice_name.as_deref().unwrap()).collect();
    assert_eq!(voices, ["Prüfer", "Prüfer", "Support", "other"]);
    assert_eq!(codes(&bundle), ["unknown_voice"]);
}

#[test]
fn what_a_trace_cannot_say_its_caller_says() {
    let score = json!({"title": "t", "voices": [{"name": "Drafter"}, {"name": "Policy"}], "scenarios": [{"id": "refund", "severity": "low"}]});
    let score = chorus_choir::read_score(score).unwrap();
    let mut about = About {
        scenario_id: Some("Refund".into()),
        names: vec![("Senior Writer".into(), "drafter".into())],
        voice: Some("policy".into()),
        voices: &score.voices,
        ..About::default()
    };
    about.check(&score).unwrap();
    let trace = json!([
        {"type": "tool_usage_started", "tool_name": "x", "event_id": "1", "agent_role": "senior writer"},
        {"type": "tool_usage_started", "tool_name": "y", "event_id": "2"},
        {"type": "tool_usage_started", "tool_name": "z", "event_id": "3", "agent_role": "Stranger"},
    ]);
    let bundle = adapt(Some(Format::CrewAi), trace.to_string().as_bytes(), &about).unwrap();
    assert_eq!(told(&bundle), ["tool_call Drafter x 1", "tool_call Policy y 2", "tool_call Stranger z 3"]);
    assert_eq!(bundle.scenario_id.as_deref(), Some("Refund"));
    assert_eq!(codes(&bundle), ["unknown_voice"]);
    // A Responses object names no voice.
    let response = json!({"object": "response", "status": "completed", "output": [{"type": "function_call", "name": "x", "call_id": "1"}]});
    let bundle = adapt(Some(Format::OpenAi), response.to_string().as_bytes(), &about).unwrap();
    assert_eq!(told(&bundle), ["tool_call Policy x 1"]);
    assert!(bundle.adapter_warnings.is_empty());
    about.voice = Some("Nobody".into());
    assert_eq!(about.check(&score).unwrap_err().to_string(), "the Score has no voice \"Nobody\"");
    about.voice = None;
    about.scenario_id = Some("elsewhere".into());
    assert_eq!(about.check(&score).unwrap_err().to_string(), "the Score has no scenario \"elsewhere\"");
}

#[test]
fn the_same_place_in_two_runs_is_two_events() {
    let run = |note: &str| json!([{"policy_guard": {"flagged": true}}, {"answer": {"note": note}}]);
    let [one, other] = ["a", "b"].map(|note| bundle(Format::LangGraph, &run(note)));
    assert_eq!(told(&one), told(&other));
    assert_eq!(chorus_choir::merge(&[one.clone(), other]).events.len(), 2);
    assert_eq!(chorus_choir::merge(&[one.clone(), bundle(Format::LangGraph, &run("a"))]), one);
    let streamed = ["a", "b"].map(|note| {
        let text = format!(
            "event: updates\ndata: {{\"policy_guard\": {{\"flagged\": true}}}}\n\nevent: updates\ndata: {{\"answer\": {{\"note\": \"{note}\"}}}}\n\n"
        );
        adapt(Some(Format::LangGraph), text.as_bytes(), &About::default()).unwrap()
    });
    assert_eq!(chorus_choir::merge(&streamed).events.len(), 2, "{:?}", streamed[0].events);
}

#[test]
fn contents_are_never_copied() {
    let secret = "Confidential: the margin is 40 percent.";
    let long = format!("{secret} ").repeat(20);
    let langgraph = json!([
        {"__interrupt__": [{"id": "i", "value": {"action_requests": [{"name": "pay", "args": {"to": secret},
            "description": format!("Tool execution requires approval\n\nTool: pay\nArgs: {secret}")}]}}]},
        {"ask": {"__interrupt__": [{"value": long}]}},
        {"retriever": {"documents": [secret, {"page_content": secret, "metadata": {"title": long}}]}},
        {"policy_guard": {"flagged": true, "message": secret, "error": secret, "input": secret}},
        {"policy_guard": {"blocked": true, "reason": long}},
        {"a": {"messages": [{"type": "ai", "content": [{"type": "text", "text": secret}, {"type": "tool_use", "id": "t", "name": "x", "input": {"q": secret}}]}]}},
    ]);
    let crewai = json!([
        {"type": "tool_usage_started", "tool_name": "x", "event_id": "1", "tool_args": {"q": secret}, "task_name": long},
        {"type": "tool_usage_started", "tool_name": "Delegate work to coworker", "event_id": "2", "tool_args": {"coworker": "W", "task": secret, "context": secret}},
        {"type": "human_feedback_requested", "event_id": "3", "message": long, "output": secret, "method_name": "m"},
        {"type": "task_completed", "event_id": "4", "output": {"raw": secret, "pydantic": {"sources": [secret]}, "agent": "R"}},
        {"type": "knowledge_search_query_completed", "event_id": "5", "query": secret, "retrieved_knowledge": secret},
        {"type": "llm_guardrail_completed", "event_id": "6", "success": false, "error": long, "guardrail_name": long},
    ]);
    let openai = json!([
        {"type": "function_call", "name": "x", "call_id": "c", "arguments": secret},
        {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": long}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": secret, "annotations": [
            {"type": "file_citation", "file_id": "f", "filename": long, "index": 1}]}]},
    ]);
    for (format, trace) in
        [(Format::LangGraph, langgraph), (Format::CrewAi, crewai), (Format::OpenAi, openai)]
    {
        let bundle = bundle(format, &trace);
        assert!(bundle.events.len() >= 3, "{:?}", told(&bundle));
        let written = serde_json::to_string(&bundle).unwrap();
        assert!(!written.contains("Confidential"), "{written}");
    }
    // A passage may be as short as a title.
    let short = "Confidential Jane Doe is ill";
    for (format, trace) in [
        (Format::LangGraph, json!([{"retriever": {"context": [short, short], "sources": short}}])),
        (Format::LangGraph, json!([{"retriever": {"documents": [{"id": short, "url": "https://h/x"}]}}])),
        (Format::LangGraph, json!([{"type": short, "payload": {}}, {"event": short, "data": {}}])),
        (Format::LangGraph, json!([{short: 1, "Jane Doe": 2}])),
        (Format::CrewAi, json!([{short: 1}, {"type": "Jane@example.org"}])),
        (Format::CrewAi, json!([{"raw": "x", "agent": "R", "json_dict": {"knowledge": [short]}}])),
        (Format::Otel, json!([{"name": short, "span_id": "01", "attributes": {}}])),
        (
            Format::Otel,
            json!([{"name": short, "span_id": "01", "attributes": {"openinference.span.kind": "GUARDRAIL", "output.value": "blocked"}}]),
        ),
        (
            Format::Otel,
            json!([{"name": short, "span_id": "01", "attributes": {"openinference.span.kind": "RETRIEVER"}}]),
        ),
    ] {
        let written = serde_json::to_string(&bundle(format, &trace)).unwrap();
        assert!(!written.to_lowercase().contains("jane"), "{written}");
    }
    let address = json!([{"retriever": {"sources": ["https://u:hunter2@h/a?X-Amz-Signature=deadbeef"]}}]);
    let bundle = bundle(Format::LangGraph, &address);
    assert_eq!(bundle.events[0].detail.as_deref(), Some("https://h/a"));
    assert_eq!(codes(&bundle), ["secret_in_trace"]);
}

/// Returns the number of cases, which is small unless configured.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(64)
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[\\PC\"\\\\\n\u{0}]{0,90}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
            prop::collection::vec(("[a-z_]{1,12}", inner), 0..8)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    /// The result does not depend on the size of the buffer, and everything that serde reads is read.
    #[test]
    fn all_json_is_read_alike_through_every_buffer(value in any_json(), pretty in any::<bool>()) {
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
        let whole = read(text.as_bytes(), text.len() + 64).unwrap();
        prop_assert_eq!(read(text.as_bytes(), 64).unwrap(), whole);
        prop_assert!(skip(text.as_bytes()));
    }

    /// Malformed input is rejected exactly where serde rejects it, skipped or kept.
    #[test]
    fn what_serde_refuses_is_refused(value in any_json(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut text = serde_json::to_vec(&value).unwrap();
        let at = at.index(text.len());
        text[at] = byte;
        let known = std::str::from_utf8(&text).is_ok() && serde_json::from_slice::<IgnoredAny>(&text).is_ok();
        prop_assert_eq!(read(&text, 64).is_ok(), known);
        prop_assert_eq!(skip(&text), known);
    }

    /// No JSON makes an adapter panic, and the result is a valid bundle.
    #[test]
    fn every_adapter_takes_everything(value in any_json()) {
        let text = value.to_string();
        for format in Format::ALL {
            if let Ok(bundle) = adapt(Some(format), text.as_bytes(), &About::default()) {
                prop_assert!(Bundle::read(serde_json::to_value(&bundle).unwrap()).is_ok());
            }
        }
    }
}
