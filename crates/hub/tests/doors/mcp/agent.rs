//! The server of an agent in all its conversations.

use super::{Client, McpFixture, WITH_SESSIONS};
use crate::support::SOON;
use chorus_protocol::c2a::ChatTool;
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Instant;

fn texts(page: &Value) -> Vec<&str> {
    page["events"].as_array().unwrap().iter().map(|event| event["text"].as_str().unwrap()).collect()
}

/// Returns a tool's refusal.
async fn refusal(client: &Client<'_>, name: &str, arguments: Value) -> Value {
    let result = client.result("tools/call", json!({"name": name, "arguments": arguments})).await;
    assert_eq!(result["isError"], true, "{name}: {result}");
    result["structuredContent"].clone()
}

#[tokio::test]
async fn only_an_agent_with_its_key_is_let_in() {
    let fixture = McpFixture::start().await;
    let hub = &fixture.base.hub;
    for (key, status) in [("", 401), ("ca_wrong", 401), ("mt_wrong", 401), (&*fixture.base.anna, 403)] {
        let answer = Client::new(hub, "", key).initialize(WITH_SESSIONS).await;
        assert_eq!(answer.status, status, "{key}: {}", answer.text);
    }
    let ben = fixture.ben_himself().with_session().await;
    assert_eq!(ben.request(Method::GET).send().await.unwrap().status(), 405);
    let foreign = Client { key: fixture.cora.clone(), ..ben.clone() };
    assert_eq!(foreign.rpc("tools/list", json!({})).await.status, 404, "the session is ben's");
}

#[tokio::test]
async fn the_tools_are_listed_without_dots_and_called_under_every_name() {
    let fixture = McpFixture::start().await;
    let ben = fixture.ben_himself();
    let listed = ben.result("tools/list", json!({})).await;
    let names: Vec<_> =
        listed["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert!(names.iter().all(|name| !name.contains('.')), "{names:?}");
    for tool in ChatTool::ALL {
        assert!(names.contains(&&*tool.underscored()), "{tool}");
    }
    for name in ["inbox", "wait_for_events", "artifact_read", "market_hire", "approval_ask", "my_status"] {
        assert!(names.contains(&name), "{name}");
    }
    let said = fixture.base.say("@ben hello").await;
    let (channel, event) = (&fixture.base.channel, json!(said));
    for (name, thread) in [
        ("chat_read_thread", json!({"conversation_id": channel, "thread_id": event})),
        ("read_thread", json!({"conversation_id": channel, "thread_id": event})),
    ] {
        assert_eq!(texts(&ben.tool(name, thread).await), ["@ben hello"], "{name}");
    }
    let whole = ben.tool("chat.read_thread", json!({"conversationId": channel, "threadId": event})).await;
    assert_eq!(whole["events"][0]["eventId"], event, "the dotted name answers as C2A does");
    assert_eq!(whole["events"][0]["content"][0]["text"], "@ben hello");
}

#[tokio::test]
async fn the_inbox_holds_what_waits_in_all_conversations_until_it_is_answered() {
    let fixture = McpFixture::start().await;
    let ben = fixture.ben_himself().with_session().await;
    let other = fixture.base.another_channel("other").await;
    fixture.base.join(&other, "ben").await;
    let first = fixture.base.say("@ben one, please?").await;
    fixture.base.say("nothing for anybody").await;
    let second = fixture.base.say_in(&other, "@ben two, please?").await;
    let inbox = ben.tool("inbox", json!({})).await;
    assert_eq!(texts(&inbox), ["@ben one, please?", "@ben two, please?"]);
    let [one, two] = &inbox["events"].as_array().unwrap()[..] else { panic!("{inbox}") };
    assert_eq!((&one["event_id"], &one["conversation_id"]), (&json!(first), &json!(fixture.base.channel)));
    assert_eq!((&two["event_id"], &two["conversation"]), (&json!(second), &json!("other")));
    assert_eq!((&one["policy"], &one["detail"]), (&json!("must_respond"), &Value::Null), "compact");
    let detailed = ben.tool("inbox", json!({"detail": true, "limit": 1})).await;
    assert_eq!(detailed["events"][0]["detail"]["attention"]["policy"], "must_respond");
    assert_eq!(detailed["more"], true);

    let answer = json!({"conversation_id": fixture.base.channel, "in_reply_to": first, "text": "done"});
    let sent = ben.tool("chat_send_message", answer).await;
    assert_eq!(sent["woken"], json!([]), "people are not woken");
    assert_eq!(texts(&ben.tool("inbox", json!({})).await), ["@ben two, please?"]);
    let put_off = ben.tool("chat_defer", json!({"event_id": second, "reason": "after lunch"})).await;
    assert_eq!(put_off["disposition"], "deferred");
    assert_eq!(ben.tool("inbox", json!({})).await["events"][0]["disposition"], "deferred");
    ben.tool("chat_resolve", json!({"event_id": second})).await;
    assert_eq!(texts(&ben.tool("inbox", json!({})).await), [""; 0]);
}

#[tokio::test]
async fn a_wait_ends_with_what_waits_and_with_nothing_else() {
    let fixture = McpFixture::start().await;
    let ben = fixture.ben_himself();
    fixture.base.say("@ben before").await;
    let begin = ben.tool("wait_for_events", json!({"wait_ms": 0})).await;
    assert_eq!(texts(&begin), [""; 0], "it begins now");
    let begun = Instant::now();
    let wait = json!({"after": begin["next"], "wait_ms": 60_000});
    let waiting = ben.tool("wait_for_events", wait);
    let speaking = async {
        fixture.base.say("for nobody").await;
        fixture.base.say("@cora for cora").await;
        fixture.base.say("@ben now").await;
    };
    let (found, ()) = tokio::join!(waiting, speaking);
    assert_eq!(texts(&found), ["@ben now"]);
    assert!(begun.elapsed() < SOON);
    let again = ben.tool("wait_for_events", json!({"after": found["next"], "wait_ms": 0})).await;
    assert_eq!(texts(&again), [""; 0], "nothing comes twice");
}

#[tokio::test]
async fn a_wait_ends_when_the_key_is_replaced() {
    let fixture = McpFixture::start().await;
    let ben = fixture.ben_himself();
    let call = json!({"name": "wait_for_events", "arguments": {"wait_ms": 60_000}});
    let waiting = ben.rpc("tools/call", call);
    let replacing = async {
        let path = "/api/v1/agents/ben/key/reset";
        let made = fixture.base.hub.post(path, Some(&fixture.base.anna), &json!({})).await;
        assert_eq!(made.status, 200, "{}", made.text);
    };
    let (answer, ()) = tokio::join!(tokio::time::timeout(SOON, waiting), replacing);
    assert_eq!(answer.unwrap().status, 401);
}

#[tokio::test]
async fn a_conversation_of_others_is_the_refusal_of_one_call() {
    let fixture = McpFixture::start().await;
    let ben = fixture.ben_himself();
    let other = fixture.base.another_channel("other").await;
    let message = json!({"conversation_id": other, "text": "hello"});
    assert_eq!(refusal(&ben, "chat_send_message", message).await["code"], "not_a_member");
    let roster = json!({"conversation_id": other});
    assert_eq!(refusal(&ben, "get_roster", roster).await["code"], "not_a_member");
    let missing = refusal(&ben, "get_roster", json!({})).await;
    assert_eq!(missing["code"], "invalid_arguments");
    assert!(missing["message"].as_str().unwrap().contains("conversation_id: is required"), "{missing}");
    let unknown = refusal(&ben, "inbox", json!({"nonsense": 1})).await;
    assert!(unknown["message"].as_str().unwrap().contains("nonsense"), "{unknown}");
}

#[tokio::test]
async fn a_key_says_a_message_once_over_mcp_and_c2a() {
    let fixture = McpFixture::start().await;
    let ben = fixture.ben_himself();
    let message = json!({"conversation_id": fixture.base.channel, "text": "once", "idempotency_key": "k1"});
    let first = ben.tool("chat_send_message", message.clone()).await;
    assert_eq!(ben.tool("chat_send_message", message).await, first);
    let same = json!({"target": {"conversationId": fixture.base.channel}, "text": "once",
        "idempotencyKey": "k1", "visibility": "channel", "directedness": "to_me"});
    assert_eq!(ben.tool("chat.send_message", same).await["eventId"], first["event_id"]);
}

#[tokio::test]
async fn documents_approvals_and_the_own_status() {
    let fixture = McpFixture::start().await;
    let ben = fixture.ben_himself();
    let place = &fixture.base.channel;
    let listed = ben.tool("channel_list", json!({})).await;
    assert_eq!(listed["channels"][0]["conversation_id"], json!(place));
    let new = json!({"conversation_id": place, "slug": "plan", "content": "# Plan"});
    ben.tool("artifact_create", new).await;
    let read = ben.tool("artifact_read", json!({"conversation_id": place, "slug": "plan"})).await;
    assert_eq!(read["content"], "# Plan");
    let held = json!({"conversation_id": place, "text": "deploy?", "requires_approval": true});
    let held = ben.tool("chat_send_message", held).await;
    assert_eq!(held["awaits_approval"], true);
    let waiting = ben.tool("approval_list", json!({})).await;
    assert_eq!(waiting["approvals"][0]["id"], held["event_id"]);
    ben.tool("approval_withdraw", json!({"id": held["event_id"]})).await;
    assert_eq!(ben.tool("approval_list", json!({})).await["approvals"], json!([]));
    let question = json!({"conversation_id": place, "to": "anna", "text": "May I deploy?"});
    assert!(ben.tool("approval_ask", question).await["event_id"].is_string());
    let status = ben.tool("my_status", json!({})).await;
    assert_eq!((&status["name"], &status["detail"]), (&json!("ben"), &Value::Null));
    assert!(ben.tool("my_status", json!({"detail": true})).await["detail"]["quotas"].is_object());
    assert_eq!(ben.tool("market_discover", json!({"skill": "none"})).await["agents"], json!([]));
    assert_eq!(ben.tool("market_jobs", json!({})).await["jobs"], json!([]));
}
