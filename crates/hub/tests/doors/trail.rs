//! The records beside the audit log: decisions, claims, tool calls, messages and dispositions, with their
//! visibility and pages.

use crate::channel_fixture::ChannelFixture;
use crate::support::{OPERATOR, Setup, TestHub, eventually, mcp_tool};
use serde_json::{Value, json};

async fn trail(hub: &TestHub, key: &str, query: &str) -> Vec<Value> {
    let answer = hub.get(&format!("/api/v1/audit?{query}"), Some(key)).await;
    assert_eq!(answer.status, 200, "{query}: {}", answer.text);
    answer.body["items"].as_array().unwrap().clone()
}

/// Bob is asked, claims the message, uses a tool and answers.
async fn story(setup: &Setup) -> (ChannelFixture, String, String) {
    let fixture = ChannelFixture::on(setup).await;
    let bob = fixture.hub.register("bob").await;
    fixture.join(&fixture.channel, "bob").await;
    let event = fixture.say("@bob is the deploy blocked?").await;
    mcp_tool(&fixture.hub, &fixture.channel, &bob, "chat_claim", json!({"event_id": event})).await;
    let reply = json!({"content": "it is not", "reply_to": event});
    mcp_tool(&fixture.hub, &fixture.channel, &bob, "chat_send_message", reply).await;
    (fixture, bob, event)
}

#[tokio::test]
async fn everything_is_found_where_it_is_kept() {
    found(&Setup::new()).await;
}

#[tokio::test]
async fn the_same_on_postgres() {
    found(&Setup::postgres()).await;
}

async fn found(setup: &Setup) {
    let (fixture, bob, event) = story(setup).await;
    let (hub, channel) = (&fixture.hub, &fixture.channel);
    let me = hub.get("/api/v1/me", Some(&bob)).await.body["id"].clone();
    let scopes = [format!("channel={channel}"), "actor=bob".to_owned(), format!("event={event}")];
    for (key, scope) in
        [(OPERATOR, &scopes[0]), (OPERATOR, &scopes[1]), (OPERATOR, &scopes[2]), (&*fixture.anna, &scopes[0])]
    {
        let decisions = trail(hub, key, &format!("kind=decision&{scope}")).await;
        let decision = decisions.iter().find(|one| one["detail"]["event_id"] == json!(event)).unwrap();
        assert_eq!(
            (&decision["action"], &decision["subject"]["id"]),
            (&json!("must_respond"), &me),
            "{decision}"
        );
        assert_eq!(decision["detail"]["reason"], "direct_mention");
        let claims = trail(hub, key, &format!("kind=claim&{scope}")).await;
        assert_eq!(
            (claims.len(), &claims[0]["actor"]["id"], &claims[0]["subject"]["id"]),
            (1, &me, &json!(event))
        );
        let dispositions = trail(hub, key, &format!("kind=disposition&{scope}")).await;
        let made = dispositions.iter().find(|one| one["subject"]["id"] == json!(event)).unwrap();
        assert_eq!((&made["action"], &made["actor"]["id"]), (&json!("responded"), &me));
        let sends = trail(hub, key, &format!("kind=send&{scope}")).await;
        assert!(!sends.is_empty() && sends.iter().all(|one| one["action"] == "message"), "{sends:?}");
        let all = json!([decisions, claims, dispositions, sends]).to_string();
        assert!(!all.contains("blocked") && !all.contains("it is not"), "never what was said: {all}");
    }
    let mine = trail(hub, OPERATOR, &format!("kind=send&channel={channel}&actor=bob")).await;
    assert_eq!((mine.len(), &mine[0]["actor"]["id"]), (1, &me));
}

/// Without a kind, an event returns its whole history in chronological order, page by page.
#[tokio::test]
async fn an_event_tells_its_whole_story() {
    whole_story(&Setup::new()).await;
}

#[tokio::test]
async fn an_event_tells_its_whole_story_on_postgres() {
    whole_story(&Setup::postgres()).await;
}

async fn whole_story(setup: &Setup) {
    let (fixture, _, event) = story(setup).await;
    let (hub, channel) = (&fixture.hub, &fixture.channel);
    let query = format!("event={event}");
    // Tool calls are recorded a moment later.
    let all = eventually(async || trail(hub, OPERATOR, &query).await, |all| all.len() == 6).await;
    let told = |one: &Value| (one["kind"].clone(), one["action"].clone());
    let mut kinds: Vec<_> = all.iter().map(told).collect();
    let is_first = |kind: &str, action: &str| (json!(kind), json!(action));
    assert_eq!(kinds[0], is_first("send", "message"));
    assert_eq!(kinds[1], is_first("decision", "must_respond"));
    assert!(all.windows(2).all(|two| two[0]["at"].as_str() <= two[1]["at"].as_str()), "{all:?}");
    kinds.sort_by_key(|(kind, action)| format!("{kind}{action}"));
    let mut wanted = [
        ("send", "message"),
        ("decision", "must_respond"),
        ("claim", "resolved"),
        ("tool_call", "chat_claim"),
        ("tool_call", "chat_send_message"),
        ("disposition", "responded"),
    ]
    .map(|(kind, action)| is_first(kind, action));
    wanted.sort_by_key(|(kind, action)| format!("{kind}{action}"));
    assert_eq!(kinds, wanted, "{all:?}");
    for (key, query) in [(OPERATOR, query), (&*fixture.anna, format!("event={event}&channel={channel}"))] {
        let (mut found, mut after) = (vec![], String::new());
        loop {
            let page = hub.get(&format!("/api/v1/audit?{query}&limit=2{after}"), Some(key)).await;
            let items = page.body["items"].as_array().unwrap_or_else(|| panic!("{}", page.text)).clone();
            assert!(items.len() <= 2);
            found.extend(items);
            let Some(next) = page.body["next"].as_str() else { break };
            after = format!("&after={next}");
        }
        assert_eq!(found, all, "page by page it is the same");
    }
    let by_bob = trail(hub, OPERATOR, &format!("event={event}&actor=bob&kind=tool_call")).await;
    assert_eq!(trail(hub, OPERATOR, &format!("event={event}&actor=bob")).await.len(), by_bob.len() + 3);
    let other = fixture.another_channel("other").await;
    assert!(trail(hub, &fixture.anna, &format!("channel={other}&event={event}")).await.is_empty());
}

#[tokio::test]
async fn it_is_for_the_operator_and_for_owners_of_channels() {
    let (fixture, bob, event) = story(&Setup::new()).await;
    let (hub, channel) = (&fixture.hub, &fixture.channel);
    let eve = hub.account("eve@example.org").await;
    let ask =
        async |key: &str, query: &str| hub.get(&format!("/api/v1/audit?{query}"), Some(key)).await.status;
    assert_eq!(ask(&fixture.anna, "").await, 403, "all of it");
    assert_eq!(ask(&fixture.anna, "kind=send&actor=bob").await, 403);
    assert_eq!(ask(&bob, &format!("kind=send&channel={channel}")).await, 403, "a member");
    assert_eq!(ask(&eve, &format!("kind=send&channel={channel}")).await, 404, "a stranger");
    assert_eq!(ask(OPERATOR, "kind=send").await, 400, "of nobody in particular");
    assert_eq!(ask(OPERATOR, "kind=send&channel=x").await, 400);
    assert_eq!(ask(OPERATOR, &format!("kind=act&event={event}")).await, 400, "no act is about an event");
    assert_eq!(ask(&fixture.anna, &format!("event={event}")).await, 403, "she names her channel");
    assert_eq!(ask(OPERATOR, &format!("event={event}&after=x")).await, 400);
    assert_eq!(ask(OPERATOR, &format!("kind=send&channel={channel}&after=x")).await, 400);
    let other = fixture.another_channel("other").await;
    assert!(
        trail(hub, &fixture.anna, &format!("kind=decision&channel={other}&event={event}")).await.is_empty()
    );
    let acts = trail(hub, &fixture.anna, &format!("channel={channel}")).await;
    assert!(acts.iter().any(|act| act["action"] == "member.added"), "{acts:?}");
    assert!(acts.iter().all(|act| act["client"] == "" && act["request_id"] == ""), "{acts:?}");
    let acts = trail(hub, OPERATOR, &format!("subject={channel}")).await;
    assert!(acts.iter().all(|act| act["client"] != ""), "{acts:?}");
}

/// A channel owner cannot find out who has an account, since anybody can own a channel.
#[tokio::test]
async fn an_owner_does_not_learn_who_has_an_account() {
    let (fixture, bob, _) = story(&Setup::new()).await;
    let hub = &fixture.hub;
    hub.account("eve@example.org").await;
    let made = hub.post("/api/v1/channels", Some(&bob), &json!({"name": "trap", "handle": "bob"})).await;
    let channel = made.body["id"].as_str().unwrap();
    for kind in ["act", "decision", "disposition", "claim", "tool_call", "send"] {
        let ask = async |actor: &str| {
            hub.get(&format!("/api/v1/audit?kind={kind}&channel={channel}&actor={actor}"), Some(&bob)).await
        };
        let (there, not_there) = (ask("eve@example.org").await, ask("nobody@example.org").await);
        assert_eq!((there.status, not_there.status), (404, 404), "{kind}: {}", there.text);
        assert_eq!(there.body["error"]["message"], not_there.body["error"]["message"], "{kind}");
        assert_eq!(ask("bob").await.status, 200, "{kind}: an agent is in the directory");
        assert_eq!(ask("nobody").await.status, if kind == "act" { 200 } else { 400 }, "{kind}");
    }
    // An account is found by its id, and for the operator also by its address.
    let anna = hub.get("/api/v1/me", Some(&fixture.anna)).await.body["id"].clone();
    let (hers, anna) = (&fixture.channel, anna.as_str().unwrap());
    let acts = trail(hub, &fixture.anna, &format!("channel={hers}&actor={anna}")).await;
    assert!(!acts.is_empty() && acts.iter().all(|act| act["actor"]["id"] == anna), "{acts:?}");
    let same = trail(hub, OPERATOR, &format!("channel={hers}&actor=anna@example.org")).await;
    assert_eq!(same.len(), acts.len());
}

#[tokio::test]
async fn pages_hold_each_entry_once() {
    let fixture = ChannelFixture::start().await;
    let hub = &fixture.hub;
    for name in ["bob", "cora"] {
        hub.register(name).await;
        fixture.join(&fixture.channel, name).await;
    }
    let mut said = vec![];
    for n in 0..5 {
        said.push(fixture.say(&format!("@bob @cora number {n}")).await);
    }
    for (kind, most) in [("send", 5), ("decision", 10)] {
        let (mut found, mut after) = (vec![], String::new());
        loop {
            let path = format!("/api/v1/audit?kind={kind}&channel={}&limit=2{after}", fixture.channel);
            let page = hub.get(&path, Some(&fixture.anna)).await;
            found.extend(page.body["items"].as_array().unwrap().clone());
            let Some(next) = page.body["next"].as_str() else { break };
            after = format!("&after={next}");
        }
        let ids: std::collections::BTreeSet<_> = found.iter().map(|one| one["id"].to_string()).collect();
        assert_eq!((found.len(), ids.len()), (most, most), "{kind}: {found:?}");
    }
}
