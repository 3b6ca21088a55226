//! The chat tools show what each message asks of their caller, as C2A does, under both kinds of names.

use super::{Client, McpFixture};
use crate::channel_fixture::{BEGIN, ChannelFixture, MINUTE};
use crate::support::Setup;
use chorus_protocol::time::rfc3339;
use chorus_testkit::clock::ManualClock;
use serde_json::{Value, json};

fn events(result: &Value) -> &Vec<Value> {
    result["events"].as_array().unwrap()
}

/// Returns a tool's refusal in machine-readable form, and checks that the text equals its `message`.
async fn refusal(client: &Client<'_>, name: &str, arguments: Value) -> Value {
    let result = client.result("tools/call", json!({"name": name, "arguments": arguments})).await;
    assert_eq!(result["isError"], true, "{name}: {result}");
    let refusal = &result["structuredContent"];
    assert_eq!(refusal["message"], result["content"][0]["text"], "{name}");
    refusal.clone()
}

/// Returns C2A's response to the same call.
async fn at_c2a(client: &Client<'_>, name: &str, arguments: &Value) -> Value {
    let params = json!({"name": name, "arguments": arguments});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let answer = client.hub.post("/c2a", Some(&client.key), &call).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.body["result"]["structuredContent"].clone()
}

#[tokio::test]
async fn every_reader_is_told_what_a_message_asks() {
    let fixture = McpFixture::start().await;
    let (ben, cora) = (fixture.ben(), fixture.cora());
    let anna = Client::new(&fixture.base.hub, &fixture.base.channel, &fixture.base.anna);
    let begin = ben.tool("wait_for_events", json!({"wait_ms": 0})).await["next"].clone();
    let asked = fixture.base.say("@ben is the build green?").await;
    let wait = json!({"after": begin, "wait_ms": 60_000});
    for (client, policy, directedness, reason, disposition) in [
        (&ben, "must_respond", "to_me", "direct_mention", Value::Null),
        (&cora, "must_not_respond", "to_other", "addressed_to_other", json!("ignored")),
    ] {
        for (tool, arguments) in [
            ("wait_for_events", wait.clone()),
            ("chat_list_events", json!({"kind": "message"})),
            ("chat_read_thread", json!({"thread": asked})),
            ("chat_read_thread", json!({"thread_id": asked, "conversation_id": client.channel})),
        ] {
            let page = client.tool(tool, arguments).await;
            let [event] = &**events(&page) else { panic!("{tool}: {page}") };
            let attention = &event["attention"];
            assert_eq!(
                (&attention["policy"], &attention["directedness"], &attention["reason"]),
                (&json!(policy), &json!(directedness), &json!(reason)),
                "{tool}: {event}"
            );
            assert!(attention["mode"].is_string() && attention["priority"].is_string(), "{event}");
            assert_eq!(attention["deadline_ms"].is_i64(), policy == "must_respond", "{event}");
            assert_eq!(event["disposition"], disposition, "{tool}: {event}");
        }
    }
    // The result equals C2A's.
    let arguments = json!({"conversationId": ben.channel});
    let told = at_c2a(&ben, "chat.list_events", &arguments).await;
    assert_eq!(told["events"][0]["attention"]["policy"], "must_respond", "{told}");
    assert_eq!(ben.tool("chat.list_events", arguments).await, told);

    ben.tool("chat_send_message", json!({"text": "it is", "in_reply_to": asked})).await;
    let page = ben.tool("chat_list_events", json!({"kind": "message"})).await;
    assert_eq!(events(&page)[0]["disposition"], "responded", "{page}");
    assert_eq!(events(&page)[1]["attention"]["policy"], "must_not_respond", "its own: {page}");
    let page = ben.tool("chat_list_events", json!({"kind": "join"})).await;
    assert!(events(&page).iter().all(|event| event.get("attention").is_none()), "{page}");
    // Nothing is asked of people.
    let page = anna.tool("chat_list_events", json!({"kind": "message"})).await;
    assert!(events(&page).iter().all(|event| event.get("attention").is_none()), "{page}");
    let why = refusal(&anna, "chat_list_events", json!({"policy": "must_respond"})).await;
    assert_eq!(why["code"], "invalid_arguments", "{why}");
}

#[tokio::test]
async fn lists_are_picked_from_as_in_c2a() {
    let clock = ManualClock::new(BEGIN);
    let fixture = McpFixture::with(ChannelFixture::on(&Setup::new().clock(&clock)).await).await;
    let (ben, base) = (fixture.ben(), &fixture.base);
    base.say("@ben the first?").await;
    clock.advance(MINUTE);
    base.say("for everybody").await;
    let stream =
        json!({"name": "migration", "conversations": [base.channel], "owners": ["cora"], "lead": "cora"});
    let made = base.hub.post("/api/v1/streams", Some(&base.anna), &stream).await;
    let stream = made.body["id"].as_str().unwrap_or_else(|| panic!("{}", made.text)).to_owned();
    clock.advance(MINUTE);
    base.say("@ben the last?").await;
    let (first, last) = (json!("@ben the first?"), json!("@ben the last?"));
    let (middle, minute) = (json!("for everybody"), rfc3339(BEGIN + MINUTE));
    for (snake, camel, wanted) in [
        (json!({"policy": "must_respond"}), json!({"policy": "must_respond"}), vec![&first, &last]),
        (json!({"policy": "must_not_respond"}), json!({"policy": "must_not_respond"}), vec![&middle]),
        (json!({"stream_id": stream}), json!({"streamId": stream}), vec![&last]),
        (json!({"since": minute}), json!({"since": minute}), vec![&middle, &last]),
        (json!({"until": minute}), json!({"until": minute}), vec![&first]),
        (
            json!({"since": minute, "policy": "must_respond", "conversation_id": base.channel}),
            json!({"since": minute, "policy": "must_respond", "conversationId": base.channel}),
            vec![&last],
        ),
    ] {
        let mut asked = snake;
        asked["kind"] = json!("message");
        let page = ben.tool("chat_list_events", asked).await;
        assert_eq!(events(&page).iter().map(|event| &event["content"]).collect::<Vec<_>>(), wanted, "{page}");
        let page = ben.tool("chat.list_events", camel.clone()).await;
        let texts: Vec<_> = events(&page).iter().map(|event| &event["content"][0]["text"]).collect();
        assert_eq!(texts, wanted, "{camel}: {page}");
        // C2A lists all conversations unless one is named.
        let mut there = camel;
        there["conversationId"] = json!(base.channel);
        assert_eq!(at_c2a(&ben, "chat.list_events", &there).await, page);
    }
    // A page continues after the last examined event, whether or not it matched.
    let mut asked = json!({"policy": "must_respond", "kind": "message", "after": 0, "limit": 1});
    let (mut found, mut pages) = (vec![], 0);
    loop {
        let page = ben.tool("chat_list_events", asked.clone()).await;
        found.extend(events(&page).iter().map(|event| event["content"].clone()));
        pages += 1;
        if page["more"] == false {
            break;
        }
        asked["after"] = page["next"].clone();
    }
    assert_eq!((found, pages), (vec![first.clone(), last], 3));
    let page = ben.tool("chat.list_events", json!({"limit": 1})).await;
    assert_eq!((&events(&page)[0]["content"][0]["text"], &page["more"]), (&first, &json!(true)));
    let page = ben.tool("chat.list_events", json!({"limit": 1, "after": page["next"]})).await;
    assert_eq!(events(&page)[0]["content"][0]["text"], middle);
    for (tool, arguments) in [
        ("chat.list_events", json!({"kind": "message"})),
        ("chat_list_events", json!({"streamId": stream})),
        ("chat_list_events", json!({"policy": "may"})),
        ("chat_list_events", json!({"since": "yesterday"})),
    ] {
        assert_eq!(refusal(&ben, tool, arguments.clone()).await["code"], "invalid_arguments", "{arguments}");
    }
}

#[tokio::test]
async fn a_claim_brings_the_event() {
    let fixture = McpFixture::start().await;
    let ben = fixture.ben();
    let event = fixture.base.say("can somebody look at the build?").await;
    let held = ben.tool("chat_claim", json!({"event_id": event})).await;
    assert_eq!((&held["state"], &held["event"]["event_id"]), (&json!("held"), &json!(event)), "{held}");
    assert_eq!(held["event"]["content"], "can somebody look at the build?");
    assert!(held["event"]["attention"]["policy"].is_string(), "{held}");
    let renewed = ben.tool("chat.claim", json!({"eventId": event})).await;
    assert_eq!(renewed["event"]["content"][0]["text"], "can somebody look at the build?", "{renewed}");
    let given_back = ben.tool("chat_claim", json!({"event_id": event, "release": true})).await;
    assert_eq!((&given_back["state"], given_back.get("event")), (&json!("released"), None), "{given_back}");
}

/// The names with underscores accept the document's arguments as well as the original ones.
#[tokio::test]
async fn underscored_names_know_the_documents_arguments() {
    let fixture = McpFixture::start().await;
    let (ben, cora) = (fixture.ben(), fixture.cora());
    let said = json!({"text": "@cora the build is green", "target": {"conversation_id": ben.channel}, "visibility": "channel",
        "directedness": "ambient", "idempotency_key": "k", "requires_approval": false});
    let said = ben.tool("chat_send_message", said).await;
    assert_eq!(said["woken"], json!([]), "its directedness lowers it");
    let same = json!({"content": "@cora the build is green", "directedness": "ambient", "visibility": "channel",
        "idempotency_key": "k"});
    assert_eq!(ben.tool("chat_send_message", same).await, said, "the same in other words");
    let thread =
        json!({"text": "since when?", "target": {"thread_id": said["event_id"]}, "visibility": "thread"});
    assert_eq!(ben.tool("chat_send_message", thread).await["thread"], said["event_id"]);
    let reply = json!({"text": "and where?", "in_reply_to": said["event_id"], "visibility": "thread"});
    assert_eq!(ben.tool("chat_send_message", reply).await["thread"], said["event_id"]);
    let passing = cora.tool("chat_send_message", json!({"text": "hm", "visibility": "ephemeral"})).await;
    assert_eq!((&passing["status"], &passing["sequence"]), (&json!("ephemeral"), &Value::Null));
    cora.tool("chat_react", json!({"in_reply_to": said["event_id"], "signal": "seen"})).await;
    let asked = fixture.base.say("@cora can you look?").await;
    cora.tool("chat_defer", json!({"event_id": asked, "reason": "busy", "eta": "in an hour"})).await;
    let elsewhere = fixture.base.another_channel("elsewhere").await;
    for (tool, arguments, named) in [
        ("chat_send_message", json!({}), "content"),
        ("chat_send_message", json!({"content": "x", "text": "y"}), "text"),
        ("chat_send_message", json!({"text": "x", "visibility": "thread"}), "thread"),
        ("chat_send_message", json!({"text": "x", "visibility": "dm"}), "visibility"),
        ("chat_send_message", json!({"text": "x", "target": {"channel": "x"}}), "channel"),
        ("chat_send_message", json!({"text": "x", "target": {"conversation_id": elsewhere}}), "one channel"),
        ("chat_send_message", json!({"text": "x", "inReplyTo": asked}), "inReplyTo"),
        ("chat_list_events", json!({"conversation_id": elsewhere}), "one channel"),
        ("chat_read_thread", json!({"thread": asked, "conversation_id": elsewhere}), "one channel"),
        ("chat_react", json!({"signal": "seen"}), "event_id"),
    ] {
        let why = refusal(&ben, tool, arguments.clone()).await;
        assert_eq!(why["code"], "invalid_arguments", "{tool} {arguments}: {why}");
        assert!(why["message"].as_str().unwrap().contains(named), "{tool} {arguments}: {why}");
    }
}

/// An address belongs to one channel, under every tool name and whatever the caller may do elsewhere.
#[tokio::test]
async fn dotted_names_stay_in_the_channel() {
    let fixture = McpFixture::start().await;
    let (ben, base) = (fixture.ben(), &fixture.base);
    let elsewhere = base.another_channel("elsewhere").await;
    base.join(&elsewhere, "ben").await;
    let there = base.say_in(&elsewhere, "@ben what is the secret?").await;
    base.say("@ben what is here?").await;
    let listed = ben.tool("chat.list_events", json!({})).await;
    let texts: Vec<_> = events(&listed).iter().map(|event| &event["content"][0]["text"]).collect();
    assert_eq!(texts, [&json!("@ben what is here?")]);
    let message = json!({"target": {"conversationId": elsewhere}, "idempotencyKey": "k", "visibility": "channel",
        "directedness": "to_other", "text": "x"});
    for (tool, arguments, code) in [
        ("chat.list_events", json!({"conversationId": elsewhere}), "invalid_arguments"),
        ("chat.read_thread", json!({"conversationId": elsewhere}), "invalid_arguments"),
        ("chat.send_message", message, "invalid_arguments"),
        ("chat.react", json!({"inReplyTo": there, "signal": "seen"}), "not_found"),
        ("chat.claim", json!({"eventId": there}), "not_found"),
        ("chat.defer", json!({"eventId": there, "reason": "later"}), "not_found"),
        ("chat.resolve", json!({"eventId": there}), "not_found"),
        ("chat_claim", json!({"event_id": there}), "not_found"),
    ] {
        assert_eq!(refusal(&ben, tool, arguments).await["code"], code, "{tool}");
    }
    let said = json!({"conversationId": elsewhere});
    assert_eq!(events(&at_c2a(&ben, "chat.list_events", &said).await).len(), 1, "nothing was said there");
    // C2A is for agents; for people the dotted names are aliases of the same tools.
    let anna = Client::new(&base.hub, &base.channel, &base.anna);
    let said = json!({"target": {"conversationId": base.channel}, "idempotencyKey": "k", "visibility": "channel",
        "text": "as a person"});
    let said = anna.tool("chat.send_message", said).await;
    anna.tool("chat.react", json!({"inReplyTo": said["event_id"], "signal": "agree"})).await;
    assert_eq!(refusal(&anna, "chat.claim", json!({"eventId": said["event_id"]})).await["code"], "forbidden");
}

#[tokio::test]
async fn refusals_have_codes() {
    let clock = ManualClock::new(BEGIN);
    let setup = Setup::new().clock(&clock).config(|config| config.rate_limit = Some(6000));
    let fixture = McpFixture::with(ChannelFixture::on(&setup).await).await;
    let (ben, cora, base) = (fixture.ben(), fixture.cora(), &fixture.base);
    let status = base.say("@cora is the build green?").await;
    let forbidden = refusal(&ben, "chat_send_message", json!({"content": "Good.", "reply_to": status})).await;
    assert_eq!(forbidden["code"], "policy_forbidden", "{forbidden}");
    let open = base.say("can somebody look at the build?").await;
    ben.tool("chat_claim", json!({"event_id": open})).await;
    for (tool, name) in [("chat_claim", "event_id"), ("chat.claim", "eventId")] {
        assert_eq!(refusal(&cora, tool, json!({name: open})).await["code"], "claimed_by_other", "{tool}");
    }
    assert_eq!(
        refusal(&cora, "chat_claim", json!({"event_id": status, "release": true})).await["code"],
        "not_claimed"
    );
    let gone = format!("evt_{}", "0".repeat(32));
    assert_eq!(refusal(&ben, "chat_resolve", json!({"event_id": gone})).await["code"], "not_found");
    ben.tool("artifact_create", json!({"slug": "plan", "content": "x"})).await;
    for (tool, arguments, code) in [
        ("artifact_create", json!({"slug": "plan", "content": "x"}), "conflict"),
        ("artifact_edit", json!({"slug": "plan", "content": "x", "base_version": 9}), "conflict"),
        ("artifact_read", json!({"slug": "none"}), "not_found"),
        ("search", json!({}), "invalid_arguments"),
    ] {
        assert_eq!(refusal(&ben, tool, arguments).await["code"], code, "{tool}");
    }
    let said = json!({"content": "again"});
    let call = json!({"name": "chat_send_message", "arguments": said});
    for _ in 0..30 {
        if ben.result("tools/call", call.clone()).await["isError"] == true {
            break;
        }
    }
    let limited = refusal(&ben, "chat_send_message", said).await;
    assert_eq!(limited["code"], "rate_limited", "{limited}");
    assert!(limited["retry_after_ms"].as_i64().is_some_and(|ms| ms > 0), "{limited}");
    let path = format!("/api/v1/channels/{}", base.channel);
    assert_eq!(base.hub.delete(&path, Some(&base.anna)).await.status, 204);
    assert_eq!(refusal(&cora, "chat_send_message", json!({"content": "x"})).await["code"], "archived");
}
