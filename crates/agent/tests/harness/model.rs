//! A model as an agent: streaming, tools, and all kinds of failures. The channel always ends idle.

use crate::hub::{Agent, Hub, Place, kinds, messages_of};
use crate::mcp::FakeMcp;
use chorus_agent::Backoff;
use chorus_agent::harness::{Activity, AgentOptions, Driver, OpenAi};
use chorus_testkit::openai::{Completion, FakeModel};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(crate) fn options(hub: &Hub, place: &Place, model: &FakeModel) -> AgentOptions {
    options_with(hub, place, model, |_| ())
}

fn options_with(
    hub: &Hub,
    place: &Place,
    model: &FakeModel,
    change: impl FnOnce(&mut OpenAi),
) -> AgentOptions {
    let mut openai = OpenAi::new(&model.url, "m1", Some("sk-secret")).unwrap();
    openai.backoff = Backoff { base_ms: 10, max_ms: 20 };
    openai.idle_limit = Duration::from_millis(500);
    change(&mut openai);
    place.options(hub, Driver::OpenAi(Box::new(openai)))
}

/// Mentions the agent, with a tool server.
fn mention(hub: &Hub, mcp: &FakeMcp) {
    let mut data = hub.chat("evt_1", "@echo what is 1 + 2?");
    data["mcp"] = json!({"url": mcp.url, "headers": {"Authorization": "Bearer eyJ"}});
    hub.put("chat", data);
}

/// Runs a model's script, with tools, to its end.
async fn played(script: Vec<Completion>) -> (Vec<Value>, FakeModel, FakeMcp) {
    let (hub, place, mcp) = (Hub::start().await, Place::new(), FakeMcp::start(false).await);
    let model = FakeModel::start(script).await;
    mention(&hub, &mcp);
    let agent = Agent::start(options(&hub, &place, &model));
    let seen = hub.idle(1).await;
    agent.stop().await;
    (seen, model, mcp)
}

#[tokio::test]
async fn a_streamed_answer_with_history_and_without_the_key_on_the_wire_elsewhere() {
    let (hub, place) = (Hub::start().await, Place::new());
    let model = FakeModel::start([Completion::Text(vec!["Hel", "lo ", "Anna"])]).await;
    hub.mention("evt_1", "@echo hello");
    let agent = Agent::start(options(&hub, &place, &model));
    let seen = hub.idle(1).await;
    let mut grown = kinds(&seen);
    // The number of pieces depends on timing.
    grown.dedup();
    assert_eq!(grown, ["processing", "status", "chunk", "message", "idle"]);
    assert_eq!(messages_of(&seen), ["Hello Anna"]);
    agent.stop().await;
    let asked = &model.asked()[0];
    assert_eq!(asked.authorization.as_deref(), Some("Bearer sk-secret"));
    assert_eq!(
        (&asked.body["model"], &asked.body["stream"], &asked.body["max_tokens"]),
        (&json!("m1"), &json!(true), &json!(2048))
    );
    let messages = asked.body["messages"].as_array().unwrap();
    let roles: Vec<_> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "user"]);
    assert!(messages[1]["content"].as_str().unwrap().starts_with("----- earlier "));
    assert_eq!(messages[2]["content"], "indeed");
    assert!(messages[3]["content"].as_str().unwrap().contains("\n@echo hello\n----- end "));
    assert!(asked.body.get("tools").is_none());
    assert!(!format!("{seen:?}").contains("sk-secret"));
}

/// Starts a model's server that answers with these statuses and bodies, and records the requests.
async fn bodies(script: Vec<(u16, Value)>) -> (String, Arc<Mutex<Vec<Value>>>) {
    let (script, asked) = (Mutex::new(script.into_iter()), Arc::new(Mutex::new(vec![])));
    let (script, kept) = (Arc::new(script), Arc::clone(&asked));
    let answer = async move |body: axum::Json<Value>| {
        kept.lock().unwrap().push(body.0);
        let (status, body) = script.lock().unwrap().next().unwrap();
        (axum::http::StatusCode::from_u16(status).unwrap(), axum::Json(body))
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let app = axum::Router::new().route("/v1/chat/completions", axum::routing::post(answer));
    tokio::spawn(async move { axum::serve(listener, app).await });
    (url, asked)
}

fn whole(text: &str, reason: &str) -> (u16, Value) {
    (200, json!({"choices": [{"message": {"content": text}, "finish_reason": reason}]}))
}

#[tokio::test]
async fn an_answer_that_was_cut_off_shows_it_and_one_that_was_withheld_is_a_failure() {
    let (hub, place) = (Hub::start().await, Place::new());
    let script = vec![whole("half an", "length"), whole("", "length"), whole("bad", "content_filter")];
    let (url, _) = bodies(script).await;
    let openai = OpenAi::new(&url, "m1", None).unwrap();
    let agent = Agent::start(place.options(&hub, Driver::OpenAi(Box::new(openai))));
    for n in 1..=3 {
        hub.mention(&format!("evt_{n}"), "@echo hello");
        hub.idle(n).await;
    }
    let seen = hub.world().seen;
    assert_eq!(messages_of(&seen), ["half an…"]);
    let errors: Vec<_> = seen.iter().filter(|event| event["type"] == "error").collect();
    assert_eq!(errors[0]["message"], "the model used up its tokens before it said anything");
    assert_eq!(errors[1]["message"], "the model's server withheld the answer (content filter)");
    let cut = |one: &Activity| matches!(one, Activity::Answered { cut: true, .. });
    assert!(agent.stop().await.iter().any(cut));
}

#[tokio::test]
async fn a_model_that_wants_the_new_name_of_the_limit_is_told_it_from_then_on() {
    let (hub, place) = (Hub::start().await, Place::new());
    let told = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.";
    let refused = (400, json!({"error": {"message": told, "param": "max_tokens"}}));
    let (url, asked) = bodies(vec![refused, whole("one", "stop"), whole("two", "stop")]).await;
    let openai = OpenAi::new(&url, "m1", None).unwrap();
    let agent = Agent::start(place.options(&hub, Driver::OpenAi(Box::new(openai))));
    for n in 1..=2 {
        hub.mention(&format!("evt_{n}"), "@echo hello");
        hub.idle(n).await;
    }
    assert_eq!(messages_of(&hub.world().seen), ["one", "two"]);
    agent.stop().await;
    let limits: Vec<_> = asked
        .lock()
        .unwrap()
        .iter()
        .map(|body| (body["max_tokens"].as_u64(), body["max_completion_tokens"].as_u64()))
        .collect();
    assert_eq!(limits, [(Some(2048), None), (None, Some(2048)), (None, Some(2048))]);
}

#[tokio::test]
async fn tools_are_called_and_shown() {
    let call = Completion::Calls(vec![("add", r#"{"a":1,"b":2}"#), ("chat_send_message", "{}")]);
    for streams in [false, true] {
        let (hub, place, mcp) = (Hub::start().await, Place::new(), FakeMcp::start(streams).await);
        let model = FakeModel::start([call.clone(), Completion::Whole("It is 3.")]).await;
        mcp.forget();
        mention(&hub, &mcp);
        let agent = Agent::start(options(&hub, &place, &model));
        let seen = hub.idle(1).await;
        agent.stop().await;
        let expected = [
            "processing",
            "status",
            "tool_call",
            "tool_result",
            "tool_call",
            "tool_result",
            "message",
            "idle",
        ];
        assert_eq!(kinds(&seen), expected);
        assert_eq!(
            seen[2],
            json!({"type": "tool_call", "name": "add", "args": {"a": 1, "b": 2}, "id": "tc_1"})
        );
        assert_eq!(seen[3], json!({"type": "tool_result", "id": "tc_1", "content": "3"}));
        assert_eq!(messages_of(&seen), ["It is 3."]);
        let second = &model.asked()[1].body;
        let told: Vec<_> = second["messages"].as_array().unwrap().iter().rev().take(3).collect();
        assert_eq!(told[0], &json!({"role": "tool", "tool_call_id": "call_1", "content": "said"}));
        assert_eq!(told[1], &json!({"role": "tool", "tool_call_id": "call_0", "content": "3"}));
        assert_eq!(told[2]["tool_calls"][0]["function"]["arguments"], r#"{"a":1,"b":2}"#);
        assert_eq!(second["tools"][0]["function"]["name"], "add");
        let greeting = ["initialize", "notifications/initialized"];
        let calls = ["tools/call add", "tools/call chat_send_message"];
        assert_eq!(
            mcp.calls(),
            [&greeting[..], &["tools/list"], &greeting, &calls].concat(),
            "a lost session is opened anew"
        );
    }
}

#[tokio::test]
async fn calls_that_make_no_sense_are_answered_to_the_model() {
    let script = vec![
        Completion::Calls(vec![("add", "{\"a\":")]),
        Completion::Calls(vec![("no_such_tool", "{}")]),
        Completion::Text(vec!["Sorry."]),
    ];
    let (seen, model, mcp) = played(script).await;
    assert_eq!(messages_of(&seen), ["Sorry."]);
    let results: Vec<_> = seen.iter().filter(|event| event["type"] == "tool_result").collect();
    assert!(results[0]["content"].as_str().unwrap().starts_with("error: the arguments are no JSON object"));
    assert_eq!(results[1]["content"], "error: there is no tool no_such_tool");
    let last = &model.asked()[2].body["messages"];
    let arguments: Vec<_> = last
        .as_array()
        .unwrap()
        .iter()
        .filter(|message| message["role"] == "assistant" && message["tool_calls"].is_array())
        .collect();
    assert_eq!(
        arguments[0]["tool_calls"][0]["function"]["arguments"], "{}",
        "what is no JSON is not sent back"
    );
    assert!(!mcp.calls().iter().any(|call| call.starts_with("tools/call")));
}

#[tokio::test]
async fn the_third_one_ends_the_turn() {
    let wrong = Completion::Calls(vec![("add", "nonsense")]);
    let (seen, model, _) = played(vec![wrong.clone(), wrong.clone(), wrong]).await;
    let error = &seen[seen.len() - 2];
    assert_eq!((&error["type"], &error["code"]), (&json!("error"), &json!("tool_error")));
    assert!(messages_of(&seen).is_empty());
    assert_eq!(model.asked().len(), 3);
}

#[tokio::test]
async fn tool_calls_are_bounded() {
    let six = Completion::Calls(vec![("add", r#"{"a":1,"b":1}"#); 6]);
    let script = vec![six.clone(), six.clone(), six, Completion::Text(vec!["enough"])];
    let (seen, model, mcp) = played(script).await;
    assert_eq!(messages_of(&seen), ["enough"]);
    assert_eq!(mcp.calls().iter().filter(|call| call.starts_with("tools/call")).count(), 16);
    assert_eq!(model.asked()[3].body["tool_choice"], "none");
    // A model that still calls tools is stopped.
    let one = Completion::Calls(vec![("add", r#"{"a":1,"b":1}"#)]);
    let (seen, _, _) = played(vec![one; 20]).await;
    assert_eq!(seen[seen.len() - 2]["code"], "tool_limit");
}

#[tokio::test]
async fn what_may_pass_is_tried_again() {
    let script = vec![
        Completion::Status(429, Some(1)),
        Completion::Status(503, None),
        Completion::Broken(vec!["half an "]),
        Completion::Stuck(vec!["half an "]),
        Completion::Text(vec!["whole"]),
    ];
    let begun = std::time::Instant::now();
    let (seen, model, _) = played(script).await;
    assert_eq!(messages_of(&seen), ["whole"], "nothing of what broke off is said");
    assert!(begun.elapsed() >= Duration::from_millis(1500), "Retry-After, and the silence");
    assert_eq!(model.asked().len(), 5);
}

#[tokio::test]
async fn what_does_not_pass_ends_as_an_error() {
    for (script, requests, told) in [
        (vec![Completion::Status(401, None)], 1, "the model's server answered HTTP 401: not now"),
        (vec![Completion::Status(500, None); 9], 5, "the model's server answered HTTP 500: not now"),
        (vec![Completion::Broken(vec!["half"]); 9], 5, "the model's answer broke off"),
        (vec![Completion::Hang; 9], 5, "the model's server does not answer"),
    ] {
        let (seen, model, _) = played(script).await;
        assert_eq!(seen[seen.len() - 2], json!({"type": "error", "code": "model_error", "message": told}));
        assert_eq!((model.asked().len(), messages_of(&seen).len()), (requests, 0));
    }
}

#[tokio::test]
async fn the_whole_turn_is_bounded_in_time() {
    let (hub, place) = (Hub::start().await, Place::new());
    let model = FakeModel::start(vec![Completion::Hang; 9]).await;
    hub.mention("evt_1", "@echo hello");
    let agent = Agent::start(options_with(&hub, &place, &model, |openai| {
        openai.turn_limit = Duration::from_millis(700);
    }));
    let seen = hub.idle(1).await;
    assert_eq!(
        seen[seen.len() - 2],
        json!({"type": "error", "code": "timeout", "message": "no answer after 0.7 s"})
    );
    agent.stop().await;
}

#[tokio::test]
async fn nothing_said_is_silence_and_tools_that_are_away_are_left_out() {
    let (hub, place) = (Hub::start().await, Place::new());
    let model = FakeModel::start([Completion::Text(vec!["", "\n"])]).await;
    let mut data = hub.chat("evt_1", "@echo hello");
    data["mcp"] = json!({"url": "http://127.0.0.1:1/mcp"});
    hub.put("chat", data);
    let agent = Agent::start(options(&hub, &place, &model));
    assert_eq!(kinds(&hub.idle(1).await), ["processing", "status", "idle"]);
    assert!(model.asked()[0].body.get("tools").is_none());
    agent.stop().await;
}

#[tokio::test]
async fn a_tool_that_may_have_acted_is_not_called_again_after_a_crash() {
    let (hub, place, mcp) = (Hub::start().await, Place::new(), FakeMcp::start(false).await);
    mention(&hub, &mcp);
    let script = [Completion::Calls(vec![("chat_send_message", "{}")]), Completion::Hang];
    let model = FakeModel::start(script).await;
    let agent = Agent::start(options_with(&hub, &place, &model, |openai| {
        openai.idle_limit = Duration::from_mins(1);
    }));
    model.wait_for(2).await;
    agent.kill().await;
    let again = FakeModel::start([Completion::Calls(vec![("chat_send_message", "{}")])]).await;
    let agent = Agent::start(options(&hub, &place, &again));
    let seen = hub.idle(1).await;
    assert_eq!(seen[seen.len() - 2]["code"], "interrupted");
    agent.stop().await;
    assert!(again.asked().is_empty());
    assert_eq!(mcp.calls().iter().filter(|call| call.starts_with("tools/call")).count(), 1);
}

#[tokio::test]
async fn a_stop_after_a_tool_that_may_have_acted_ends_the_turn() {
    let (hub, place, mcp) = (Hub::start().await, Place::new(), FakeMcp::start(false).await);
    mention(&hub, &mcp);
    let script = [Completion::Calls(vec![("chat_send_message", "{}")]), Completion::Hang];
    let model = FakeModel::start(script).await;
    let agent = Agent::start(options_with(&hub, &place, &model, |openai| {
        openai.idle_limit = Duration::from_mins(1);
    }));
    model.wait_for(2).await;
    agent.stop().await;
    let seen = hub.idle(1).await;
    let error = json!({"type": "error", "code": "stopped",
        "message": "stopped after calling chat_send_message; it is not called again"});
    assert_eq!(seen[seen.len() - 2], error);
    // The message is done: the next start continues after it.
    let agent = Agent::start(options(&hub, &place, &model));
    hub.until("an inbox", |world| world.resumed.len() == 2).await;
    assert_eq!(hub.world().resumed[1].as_deref(), Some("1"));
    agent.stop().await;
}

#[tokio::test]
async fn words_go_on_to_a_sender_that_listens_as_they_come() {
    let (hub, place) = (Hub::start().await, Place::new());
    let model = FakeModel::start([Completion::Text(vec!["Hel", "lo ", "Alice"])]).await;
    let envelope = json!({"chorus_version": "0.4", "sender_id": "alice@x", "original_text": "hi", "sender_culture": "en"});
    hub.put(
        "message",
        json!({"trace_id": "t-1", "sender_id": "alice@x", "envelope": envelope,
            "reply_stream": format!("{}/streams/1", hub.url)}),
    );
    let agent = Agent::start(options(&hub, &place, &model));
    let world = hub.until("the last word", |world| world.streamed.len() >= 4).await;
    let chunk = |text: &str| json!({"type": "chunk", "text": text});
    let done = json!({"type": "done", "result": "Hello Alice"});
    assert_eq!(world.streamed, [chunk("Hel"), chunk("lo "), chunk("Alice"), done]);
    assert!(world.sent.is_empty(), "and nothing else");
    agent.stop().await;
}

#[tokio::test]
async fn words_that_were_seen_are_not_said_differently() {
    let (hub, place) = (Hub::start().await, Place::new());
    let model = FakeModel::start([Completion::Broken(vec!["Hel"]), Completion::Text(vec!["Bye"])]).await;
    let envelope = json!({"chorus_version": "0.4", "sender_id": "alice@x", "original_text": "hi", "sender_culture": "en"});
    hub.put(
        "message",
        json!({"trace_id": "t-1", "sender_id": "alice@x", "envelope": envelope,
            "reply_stream": format!("{}/streams/1", hub.url)}),
    );
    let agent = Agent::start(options(&hub, &place, &model));
    let world = hub.until("the end", |world| world.streamed.len() >= 2).await;
    assert_eq!(world.streamed[0], json!({"type": "chunk", "text": "Hel"}));
    assert_eq!(world.streamed[1]["type"], "error");
    assert_eq!(model.asked().len(), 1, "the model is not asked again");
    agent.stop().await;
}
