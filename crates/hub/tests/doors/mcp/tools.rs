//! The tools: what each does, and its errors.

use super::{Client, McpFixture};
use crate::channel_fixture::ChannelFixture;
use crate::support::Setup;
use chorus_testkit::clock::ManualClock;
use serde_json::{Value, json};

/// Returns the contents of a result's events.
fn contents(result: &Value) -> Vec<&str> {
    result["events"].as_array().unwrap().iter().filter_map(|event| event["content"].as_str()).collect()
}

#[tokio::test]
async fn messages_are_said_and_read() {
    let fixture = McpFixture::start().await;
    let (ben, cora) = (fixture.ben(), fixture.cora().with_session().await);
    let said = ben.say("@cora can you look? cc @anna and @nobody").await;
    assert_eq!(said["woken"], json!(["cora"]), "people are not woken, nor is who is not there");
    assert_eq!((&said["knocked"], &said["stored_for"]), (&json!([]), &json!([])));
    let question = said["event_id"].clone();
    assert_eq!(cora.say("ambient").await["woken"], json!([]));
    let answer =
        json!({"content": "done", "thread": question, "reply_to": question, "to": ["ben"], "intent": "chat"});
    let answer = cora.tool("chat_send_message", answer).await;
    assert_eq!((&answer["woken"], &answer["thread"]), (&json!(["ben"]), &question));

    let messages = ben.tool("chat_list_events", json!({"kind": "message"})).await;
    assert_eq!(contents(&messages), ["@cora can you look? cc @anna and @nobody", "ambient", "done"]);
    assert_eq!(messages["events"][0]["author"]["handle"], "ben");
    let newest = ben.tool("chat_list_events", json!({"limit": 1})).await;
    assert_eq!((contents(&newest), &newest["more"]), (vec!["done"], &json!(true)));
    let older = ben.tool("chat_list_events", json!({"limit": 1, "before": newest["next"]})).await;
    assert_eq!(contents(&older), ["ambient"]);
    let after = ben.tool("chat_list_events", json!({"after": said["sequence"]})).await;
    assert_eq!(
        (contents(&after), &after["next"], &after["more"]),
        (vec!["ambient", "done"], &answer["sequence"], &json!(false))
    );
    let first = ben.tool("chat_list_events", json!({"after": 0, "limit": 1})).await;
    assert_eq!((&first["events"][0]["kind"], &first["next"]), (&json!("join"), &json!(1)));

    for named in [&question, &answer["event_id"]] {
        let thread = ben.tool("chat_read_thread", json!({"thread": named})).await;
        assert_eq!(contents(&thread).last(), Some(&"done"));
        assert_eq!(thread["events"].as_array().unwrap().len(), 2);
    }
    let page = ben.tool("chat_read_thread", json!({"thread": question, "limit": 1})).await;
    let rest = ben.tool("chat_read_thread", json!({"thread": question, "after": page["next"]})).await;
    assert_eq!((&page["more"], contents(&rest)), (&json!(true), vec!["done"]));
}

#[tokio::test]
async fn the_same_key_says_it_once() {
    let fixture = McpFixture::start().await;
    let (ben, cora) = (fixture.ben(), fixture.cora());
    let message = json!({"content": "@cora once", "idempotency_key": "k1"});
    let first = ben.tool("chat_send_message", message.clone()).await;
    let again = ben.with_session().await.tool("chat_send_message", message.clone()).await;
    assert_eq!(first, again);
    let other = ben.fault("chat_send_message", json!({"content": "twice", "idempotency_key": "k1"})).await;
    assert!(other.contains("idempotency_key"), "{other}");
    assert_ne!(
        cora.tool("chat_send_message", message).await["event_id"],
        first["event_id"],
        "everybody has his own keys"
    );
    let told = ben.tool("chat_send_message", json!({"content": "once more", "idempotency_key": "k2"})).await;
    assert_ne!(told["event_id"], first["event_id"]);
    let messages = ben.tool("chat_list_events", json!({"kind": "message"})).await;
    assert_eq!(contents(&messages), ["@cora once", "@cora once", "once more"]);

    let document = json!({"slug": "plan", "content": "x", "idempotency_key": "k1"});
    let made = ben.tool("artifact_create", document.clone()).await;
    assert_eq!(ben.tool("artifact_create", document).await, made, "keys of other tools are others");
}

#[tokio::test]
async fn reactions_and_statuses_wake_nobody() {
    let fixture = McpFixture::start().await;
    let (ben, cora) = (fixture.ben(), fixture.cora());
    let said = ben.say("who does it?").await;
    let reacted = cora
        .tool("chat_react", json!({"event_id": said["event_id"], "signal": "working", "eta": "soon"}))
        .await;
    let working = json!({"event_id": said["event_id"], "signal": "working"});
    let first = cora.tool("chat_react", working.clone()).await;
    assert_eq!(cora.tool("chat_react", working).await, first, "the same again changes nothing");
    assert!(reacted["sequence"].as_i64() > said["sequence"].as_i64());
    let message = ben.tool("chat_list_events", json!({"kind": "message"})).await;
    assert_eq!(message["events"][0]["reactions"], json!([{"signal": "working", "by": ["cora"]}]));
    cora.tool("chat_react", json!({"event_id": said["event_id"], "signal": "working", "removed": true}))
        .await;
    let message = ben.tool("chat_list_events", json!({"kind": "message"})).await;
    assert_eq!(message["events"][0].get("reactions"), None);

    cora.tool("set_status", json!({"status": "reading ca_0f4c1d9b7a3e5f60718293a4b5c6d7e8"})).await;
    let status = ben.tool("chat_list_events", json!({"kind": "status"})).await;
    assert_eq!(status["events"][0]["status"], "reading [redacted: agent key]");
    assert_eq!(status["events"][0]["author"]["handle"], "cora");
}

/// Under its dotted name a tool is C2A's: it takes the document's arguments and returns its result.
#[tokio::test]
async fn dotted_names_take_the_documents_arguments() {
    let fixture = McpFixture::start().await;
    let (ben, cora) = (fixture.ben(), fixture.cora());
    let message = json!({"target": {"conversationId": ben.channel}, "idempotencyKey": "k", "visibility": "channel",
        "directedness": "ambient", "text": "@cora the build is green"});
    let said = ben.tool("chat.send_message", message.clone()).await;
    assert_eq!(said["attention"]["woken"], json!([]), "its directedness lowers it");
    assert_eq!(ben.tool("chat.send_message", message.clone()).await, said);
    let seen = cora.tool("chat.react", json!({"inReplyTo": said["eventId"], "signal": "seen"})).await;
    assert_eq!(seen["eventId"], said["eventId"]);
    let listed = cora.tool("chat.list_events", json!({"conversationId": ben.channel, "after": "0"})).await;
    assert!(listed.to_string().contains("the build is green"), "{listed}");
    let thread = json!({"conversationId": ben.channel, "threadId": said["eventId"]});
    let thread = cora.tool("chat.read_thread", thread).await;
    assert_eq!(thread["events"][0]["content"][0]["text"], "@cora the build is green");
    // The address belongs to one channel.
    let mut elsewhere = message;
    elsewhere["target"]["conversationId"] = json!(fixture.base.another_channel("elsewhere").await);
    let refused = ben.fault("chat.send_message", elsewhere).await;
    assert!(refused.contains("one channel"), "{refused}");
    assert!(ben.fault("chat.claim", json!({"eventID": "x"})).await.contains("eventId"));
}

#[tokio::test]
async fn the_roster_tells_who_is_there() {
    let fixture = McpFixture::start().await;
    let roster = fixture.ben().tool("get_roster", json!({})).await;
    assert_eq!(roster["channel"]["name"], "ops");
    let members: Vec<_> = roster["members"]
        .as_array()
        .unwrap()
        .iter()
        .map(|member| (&member["handle"], &member["kind"]))
        .collect();
    let (anna, ben, cora) = (json!("anna"), json!("ben"), json!("cora"));
    let (account, agent) = (json!("account"), json!("agent"));
    assert_eq!(members, [(&anna, &account), (&ben, &agent), (&cora, &agent)]);
    let page = fixture.ben().tool("get_roster", json!({"limit": 2})).await;
    assert_eq!(page["next"], "ben");
    let rest = fixture.ben().tool("get_roster", json!({"after": "ben"})).await;
    assert_eq!((rest["members"].as_array().unwrap().len(), &rest["next"]), (1, &Value::Null));
}

#[tokio::test]
async fn search_stays_in_the_channel() {
    let fixture = McpFixture::start().await;
    let elsewhere = fixture.base.another_channel("elsewhere").await;
    fixture.base.join(&elsewhere, "ben").await;
    let there = Client { channel: elsewhere, ..fixture.ben() };
    let ben = fixture.ben();
    ben.say("the blue whale").await;
    for n in 0..3 {
        there.say(&format!("a blue bird {n}")).await;
    }
    ben.say("the blue sky").await;
    let found = ben.tool("search", json!({"query": "BLUE"})).await;
    assert_eq!((contents(&found), &found["next"]), (vec!["the blue sky", "the blue whale"], &Value::Null));
    let first = ben.tool("search", json!({"query": "blue", "limit": 1})).await;
    assert_eq!(contents(&first), ["the blue sky"]);
    let second = ben.tool("search", json!({"query": "blue", "limit": 1, "before": first["next"]})).await;
    assert_eq!(contents(&second), ["the blue whale"]);
    assert_eq!(contents(&ben.tool("search", json!({"query": "blue green"})).await), Vec::<&str>::new());
    assert_eq!(contents(&there.tool("search", json!({"query": "whale"})).await), Vec::<&str>::new());
}

#[tokio::test]
async fn documents_have_versions() {
    let fixture = McpFixture::start().await;
    let (ben, cora) = (fixture.ben(), fixture.cora());
    let made = ben.tool("artifact_create", json!({"slug": "plan", "title": "Plan", "content": "one"})).await;
    assert_eq!((&made["version"], &made["content_type"]), (&json!(1), &json!("text/markdown")));
    let taken = cora.fault("artifact_create", json!({"slug": "plan", "content": "mine"})).await;
    assert!(taken.contains("artifact_edit"), "{taken}");
    let edited =
        cora.tool("artifact_edit", json!({"slug": "plan", "base_version": 1, "content": "two"})).await;
    assert_eq!((&edited["version"], &edited["title"]), (&json!(2), &json!("Plan")));
    let stale =
        ben.fault("artifact_edit", json!({"slug": "plan", "base_version": 1, "content": "lost"})).await;
    assert!(stale.contains("version 2"), "{stale}");
    assert_eq!(ben.tool("artifact_read", json!({"slug": "plan"})).await["content"], "two");
    assert_eq!(ben.tool("artifact_read", json!({"slug": "plan", "version": 1})).await["content"], "one");

    ben.tool("artifact_create", json!({"slug": "notes", "content": "n", "content_type": "text/plain"})).await;
    let listed = ben.tool("artifact_list", json!({})).await;
    let slugs: Vec<_> =
        listed["artifacts"].as_array().unwrap().iter().map(|artifact| &artifact["slug"]).collect();
    assert_eq!((slugs, &listed["next"]), (vec![&json!("notes"), &json!("plan")], &Value::Null));
    let page = ben.tool("artifact_list", json!({"limit": 1})).await;
    let rest = ben.tool("artifact_list", json!({"after": page["next"]})).await;
    assert_eq!(rest["artifacts"][0]["slug"], "plan");
    for (tool, arguments) in [
        ("artifact_read", json!({"slug": "nothing"})),
        ("artifact_read", json!({"slug": "plan", "version": 9})),
        ("artifact_edit", json!({"slug": "nothing", "base_version": 1, "content": "x"})),
    ] {
        let missing = ben.fault(tool, arguments).await;
        assert!(missing.contains("no such document"), "{tool}: {missing}");
    }
}

#[tokio::test]
async fn names_of_other_doors_are_understood_but_not_listed() {
    let fixture = McpFixture::start().await;
    let ben = fixture.ben();
    for name in ["send_message", "chat_send_message"] {
        ben.tool(name, json!({"content": name})).await;
    }
    assert_eq!(contents(&ben.tool("list_events", json!({"kind": "message"})).await).len(), 2);
    ben.tool("artifact.list", json!({})).await;
    for name in ["chat_forget", "chat.roster", "claim_all", ""] {
        let unknown = ben.rpc("tools/call", json!({"name": name, "arguments": {}})).await;
        assert_eq!((unknown.status, &unknown.body["error"]["code"]), (200, &json!(-32602)), "{name}");
    }
    let odd = ben.rpc("tools/call", json!({"name": "search", "arguments": ["x"]})).await;
    assert_eq!(odd.body["error"]["code"], -32602);
}

#[tokio::test]
async fn every_fault_is_told_at_once() {
    let fixture = McpFixture::start().await;
    let ben = fixture.ben();
    let faults = ben
        .fault(
            "chat_send_message",
            json!({"content": "", "intent": "shout", "to": "cora", "color": "red", "thread": "x"}),
        )
        .await;
    for name in ["content", "intent", "to:", "color", "thread"] {
        assert!(faults.contains(name), "{name}: {faults}");
    }
    for (tool, arguments, named) in [
        ("chat_list_events", json!({"limit": 0}), "limit"),
        ("chat_list_events", json!({"limit": 201}), "limit"),
        ("chat_list_events", json!({"after": 1, "before": 2}), "before"),
        ("chat_list_events", json!({"after": "1"}), "after"),
        ("chat_list_events", json!({"kind": "Message"}), "kind"),
        ("chat_read_thread", json!({}), "thread"),
        ("chat_react", json!({"event_id": "x", "signal": "wow"}), "signal"),
        ("wait_for_events", json!({"wait_ms": -1}), "wait_ms"),
        ("get_roster", json!({"limit": 1.5}), "limit"),
        ("set_status", json!({}), "status"),
        ("set_status", json!({"status": "x".repeat(1001)}), "status"),
        ("search", json!({"query": ""}), "query"),
        ("artifact_list", json!({"x": 1}), "x"),
        ("artifact_read", json!({}), "slug"),
        ("artifact_create", json!({"slug": "No", "content": "x"}), "slug"),
        ("artifact_create", json!({"slug": "no"}), "content"),
        ("artifact_edit", json!({"slug": "no", "content": "x"}), "base_version"),
        ("artifact_edit", json!({"slug": "no", "base_version": 0, "content": "x"}), "base_version"),
        ("chat_send_message", json!({"content": "x", "idempotency_key": ""}), "idempotency_key"),
    ] {
        let fault = ben.fault(tool, arguments.clone()).await;
        assert!(fault.contains(named), "{tool} {arguments}: {fault}");
    }
    let nobody = ben.fault("chat_send_message", json!({"content": "x", "to": ["dora"]})).await;
    assert!(nobody.contains("get_roster"), "{nobody}");
    let gone = format!("evt_{}", "0".repeat(32));
    for (tool, arguments) in [
        ("chat_react", json!({"event_id": gone, "signal": "seen"})),
        ("chat_read_thread", json!({"thread": gone})),
        ("chat_send_message", json!({"content": "x", "reply_to": gone})),
    ] {
        let fault = ben.fault(tool, arguments).await;
        assert!(fault.contains("no such message"), "{tool}: {fault}");
    }
    assert_eq!(contents(&ben.tool("chat_list_events", json!({"kind": "message"})).await), Vec::<&str>::new());
}

#[tokio::test]
async fn an_archived_channel_can_be_read() {
    let fixture = McpFixture::start().await;
    let ben = fixture.ben();
    ben.say("before").await;
    let path = format!("/api/v1/channels/{}", fixture.base.channel);
    assert_eq!(fixture.base.hub.delete(&path, Some(&fixture.base.anna)).await.status, 204);
    assert_eq!(contents(&ben.tool("chat_list_events", json!({"kind": "message"})).await), ["before"]);
    let archived = ben.fault("chat_send_message", json!({"content": "after"})).await;
    assert!(archived.contains("archived"), "{archived}");
    ben.fault("artifact_create", json!({"slug": "plan", "content": "x"})).await;
}

#[tokio::test]
async fn who_says_too_much_is_told_to_wait() {
    let clock = ManualClock::new(1_774_000_800_000);
    let setup = Setup::new().clock(&clock).config(|config| config.rate_limit = Some(6000));
    let fixture = McpFixture::with(ChannelFixture::on(&setup).await).await;
    let (ben, said) = (fixture.ben(), json!({"content": "again"}));
    for _ in 0..30 {
        ben.tool("chat_send_message", said.clone()).await;
    }
    let refused = ben.rpc("tools/call", json!({"name": "chat_send_message", "arguments": said})).await;
    let result = &refused.body["result"];
    assert_eq!(result["isError"], true, "{}", refused.text);
    let told = result["content"][0]["text"].as_str().unwrap();
    assert!(told.starts_with("nothing was said") && told.contains("wait 2 s"), "{told}");
    clock.advance(2000);
    ben.tool("chat_send_message", said).await;
}

/// The tools are subject to the same quotas as the API.
#[tokio::test]
async fn quotas_hold_for_the_tools() {
    let setup = Setup::new().config(|config| {
        config.quotas.agent_bytes = 20_000;
        config.quotas.document_bytes = 5_000;
    });
    let fixture = McpFixture::with(ChannelFixture::on(&setup).await).await;
    let ben = fixture.ben();
    let document = |slug: String, size| json!({"slug": slug, "content": "x".repeat(size)});
    let why = ben.fault("artifact_create", document("a".into(), 5_001)).await;
    assert!(why.contains("document_bytes is 5000, and 5001 are used"), "{why}");
    let (mut made, last) = (0, async |n| {
        ben.rpc(
            "tools/call",
            json!({"name": "artifact_create",
        "arguments": document(format!("d{n}"), 4_000)}),
        )
        .await
        .body
    });
    while last(made).await["result"]["isError"] != true {
        made += 1;
        assert!(made < 10, "documents do not count");
    }
    let why = ben.fault("artifact_create", document("e".into(), 4_000)).await;
    assert!(why.contains("the quota agent_bytes is 20000"), "{why}");
    let long = "y".repeat(20_000);
    for (tool, arguments) in [
        ("chat_send_message", json!({"content": long})),
        ("artifact_edit", json!({"slug": "d0", "content": "x".repeat(4_000), "base_version": 1})),
    ] {
        let why = ben.fault(tool, arguments).await;
        assert!(why.contains("agent_bytes"), "{tool}: {why}");
    }
}
