//! The fleet: who sees which agents, their activity, and what stays hidden.

use crate::channel_fixture::{ChannelFixture, inbox_of};
use crate::support::{OPERATOR, SOON, Setup, TestHub, eventually, mcp_tool};
use chorus_testkit::receiver::FakeAgent;
use chorus_testkit::sse::SseClient;
use serde_json::{Value, json};

/// Returns the fleet as this caller sees it.
async fn fleet(hub: &TestHub, key: &str) -> Vec<Value> {
    let answer = hub.get("/api/v1/fleet", Some(key)).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.body["items"].as_array().unwrap().clone()
}

fn one<'a>(fleet: &'a [Value], name: &str) -> &'a Value {
    fleet.iter().find(|agent| agent["name"] == name).unwrap_or_else(|| panic!("no {name} in {fleet:?}"))
}

fn names(fleet: &[Value]) -> Vec<&str> {
    fleet.iter().map(|agent| agent["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn who_is_seen_by_whom() {
    seen_by(&Setup::new()).await;
}

#[tokio::test]
async fn the_same_on_postgres() {
    seen_by(&Setup::postgres()).await;
}

async fn seen_by(setup: &Setup) {
    let fixture = ChannelFixture::on(setup).await;
    let hub = &fixture.hub;
    let (bob, cora) = (hub.register("bob").await, hub.register("cora").await);
    fixture.join(&fixture.channel, "bob").await;
    fixture.agent(&json!({"name": "ada"})).await;
    assert_eq!(names(&fleet(hub, &fixture.anna).await), ["ada", "bob"], "hers, and whom she meets");
    assert_eq!(names(&fleet(hub, &bob).await), ["bob"], "ada is in no conversation of his");
    assert_eq!(names(&fleet(hub, &cora).await), ["cora"]);
    assert_eq!(names(&fleet(hub, OPERATOR).await), ["ada", "bob", "cora"]);
    let seen = fleet(hub, &fixture.anna).await;
    let (ada, bob) = (one(&seen, "ada"), one(&seen, "bob"));
    assert_eq!((&ada["mine"], &bob["mine"]), (&json!(true), &json!(false)));
    assert_eq!((&ada["state"], &ada["reached_by"]), (&json!("offline"), &json!("waits")));
    assert_eq!(ada["last_hour"].as_array().unwrap().len(), 60);
    // Pages continue where the previous one ended, whatever the states are.
    let mut found = vec![];
    let mut after = String::new();
    loop {
        let page = hub.get(&format!("/api/v1/fleet?limit=1{after}"), Some(OPERATOR)).await;
        found.push(page.body["items"][0]["name"].as_str().unwrap().to_owned());
        let Some(next) = page.body["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    assert_eq!(found, ["ada", "bob", "cora"]);
    let wrong = hub.get("/api/v1/fleet?after=a~b", Some(&fixture.anna)).await;
    assert_eq!(wrong.status, 400, "{}", wrong.text);
}

#[tokio::test]
async fn what_an_agent_does_is_told_where_one_may_look() {
    let fixture = ChannelFixture::start().await;
    let hub = &fixture.hub;
    let (bob, eve) = (hub.register("bob").await, hub.account("eve@example.org").await);
    let secret = fixture.another_channel("secret").await;
    for channel in [&fixture.channel, &secret] {
        fixture.join(channel, "bob").await;
    }
    let path = format!("/api/v1/channels/{}/members", fixture.channel);
    let added =
        hub.post(&path, Some(OPERATOR), &json!({"account": "eve@example.org", "handle": "eve"})).await;
    assert_eq!(added.status, 201, "{}", added.text);

    mcp_tool(hub, &fixture.channel, &bob, "set_status", json!({"status": "reading logs"})).await;
    for key in [&fixture.anna, &eve] {
        let seen = fleet(hub, key).await;
        let doing = &one(&seen, "bob")["doing"];
        assert_eq!((&doing["what"], &doing["text"]), (&json!("status"), &json!("reading logs")));
        assert_eq!(doing["channel"], json!({"id": fixture.channel, "name": "ops"}));
        assert_eq!(one(&seen, "bob")["state"], "working");
    }
    let seen = fleet(hub, OPERATOR).await;
    let doing = &one(&seen, "bob")["doing"];
    assert_eq!((&doing["channel"]["name"], &doing["text"]), (&json!("ops"), &Value::Null), "where, not what");

    mcp_tool(hub, &secret, &bob, "set_status", json!({"status": "plotting"})).await;
    let seen = fleet(hub, &fixture.anna).await;
    assert_eq!(one(&seen, "bob")["doing"]["text"], "plotting");
    let answer = hub.get("/api/v1/fleet", Some(&eve)).await;
    assert!(!answer.text.contains("plotting") && !answer.text.contains("secret"), "{}", answer.text);
    assert!(!answer.text.contains(&secret), "{}", answer.text);
    let doing = &answer.body["items"][0]["doing"];
    assert_eq!(doing["text"], "reading logs", "not even that it is busy elsewhere");
    let hour =
        |seen: &Value| seen["last_hour"].as_array().unwrap().iter().map(|n| n.as_i64().unwrap()).sum::<i64>();
    assert!(
        hour(&answer.body["items"][0]) < hour(one(&seen, "bob")),
        "what is done elsewhere does not count"
    );

    // Its message ends the activity.
    for channel in [&secret, &fixture.channel] {
        hub.say(&format!("/api/v1/channels/{channel}"), &bob, &json!({"content": "done"})).await;
    }
    for key in [&fixture.anna, &eve] {
        assert_eq!(one(&fleet(hub, key).await, "bob")["doing"], Value::Null);
    }
}

/// An agent's owner sees the work that strangers give it.
#[tokio::test]
async fn an_owner_sees_all_that_its_agent_spends() {
    let fixture = ChannelFixture::start().await;
    let hub = &fixture.hub;
    let (bob, mallory) = (hub.register("bob").await, hub.register("mallory").await);
    let elsewhere = hub.channel(&mallory, &json!({"name": "elsewhere"})).await;
    hub.add(&elsewhere, &mallory, &json!({"agent": "bob"})).await;
    hub.post("/api/v1/agents/claim", Some(&fixture.anna), &json!({"api_key": bob})).await;
    for n in 0..3 {
        hub.say(&elsewhere, &mallory, &json!({"content": format!("@bob what about number {n}?")})).await;
    }
    let spent = async |key: &str| one(&fleet(hub, key).await, "bob")["turns_today"]["spent"].clone();
    assert_eq!((spent(&fixture.anna).await, spent(OPERATOR).await), (json!(3), json!(3)));
}

#[tokio::test]
async fn turns_are_spent_and_saved() {
    let fixture = ChannelFixture::start().await;
    let hub = &fixture.hub;
    let bob = hub.register("bob").await;
    hub.register("cora").await;
    for name in ["bob", "cora"] {
        fixture.join(&fixture.channel, name).await;
    }
    fixture.say("nobody in particular").await;
    fixture.say("@bob look").await;
    let seen = fleet(hub, &fixture.anna).await;
    assert_eq!(one(&seen, "bob")["turns_today"], json!({"spent": 1, "saved": 1}));
    assert_eq!(one(&seen, "cora")["turns_today"], json!({"spent": 0, "saved": 2}));
    // The operator's total is the sum over the fleet.
    let total = async || {
        let text = hub.get("/metrics", Some(OPERATOR)).await.text;
        let line = text.lines().find_map(|line| line.strip_prefix("chorus_model_turns_saved_total "));
        line.unwrap().parse::<i64>().unwrap()
    };
    let sum = async || {
        let seen = fleet(hub, OPERATOR).await;
        ["bob", "cora"]
            .map(|name| one(&seen, name)["turns_today"]["saved"].as_i64().unwrap())
            .iter()
            .sum::<i64>()
    };
    assert_eq!(eventually(total, |total| *total == 3).await, sum().await);
    // An agent's own messages save nothing. A reminder or an edit counts as the same message.
    let path = format!("/api/v1/channels/{}", fixture.channel);
    let asked = hub.say(&path, &bob, &json!({"content": "@cora can you help?"})).await;
    let edit = format!("{path}/messages/{}", asked["event_id"].as_str().unwrap());
    let edited = hub.ask("PATCH", &edit, Some(&bob), &json!({"content": "@cora could you help?"})).await;
    assert_eq!(edited.status, 200, "{}", edited.text);
    fixture.say("thanks").await;
    assert_eq!(eventually(total, |total| *total == 5).await, sum().await);
}

#[tokio::test]
async fn what_needs_somebody_comes_first_and_is_its_owners_to_know() {
    let fixture = ChannelFixture::start().await;
    let hub = &fixture.hub;
    hub.register("ada").await;
    fixture.join(&fixture.channel, "ada").await;
    let receiver = FakeAgent::start().await;
    fixture.agent(&json!({"name": "zoe", "connection_string": inbox_of(&receiver)})).await;
    fixture.join(&fixture.channel, "zoe").await;
    assert_eq!(one(&fleet(hub, &fixture.anna).await, "zoe")["reached_by"], "connection_string");
    receiver.set(chorus_testkit::receiver::Reply::Text(404, String::new()));
    fixture.say("@zoe look").await;
    eventually(
        || async { fleet(hub, &fixture.anna).await[0]["state"].clone() },
        |state| *state == json!("failing"),
    )
    .await;
    let seen = fleet(hub, &fixture.anna).await;
    assert_eq!(names(&seen), ["zoe", "ada"]);
    assert!(seen[0]["why"].as_str().unwrap().contains("connection string is broken"), "{}", seen[0]);
    let eve = hub.account("eve@example.org").await;
    let path = format!("/api/v1/channels/{}/members", fixture.channel);
    hub.post(&path, Some(OPERATOR), &json!({"account": "eve@example.org", "handle": "eve"})).await;
    let seen = fleet(hub, &eve).await;
    let zoe = one(&seen, "zoe");
    assert_eq!((&zoe["why"], &zoe["dead"], &zoe["waiting"]), (&Value::Null, &json!(0), &json!(0)));
    assert_ne!(zoe["state"], "failing");
}

#[tokio::test]
async fn the_stream_tells_what_changes() {
    let fixture = ChannelFixture::start().await;
    let hub = &fixture.hub;
    let bob = hub.register("bob").await;
    fixture.join(&fixture.channel, "bob").await;
    let url = format!("{}/api/v1/fleet/stream", hub.url);
    let mut stream = SseClient::open(&url, &fixture.anna, None).await.unwrap();
    let first = stream.next(SOON).await.unwrap();
    let data: Value = serde_json::from_str(&first.data).unwrap();
    assert_eq!((first.event.as_str(), &data["items"][0]["name"]), ("fleet", &json!("bob")));
    mcp_tool(hub, &fixture.channel, &bob, "set_status", json!({"status": "reading"})).await;
    let changed = loop {
        let event = stream.next(SOON).await.unwrap();
        let data: Value = serde_json::from_str(&event.data).unwrap();
        if data["doing"]["text"] == json!("reading") {
            break event;
        }
    };
    assert_eq!(changed.event, "agent");
    hub.delete("/agents/bob", Some(&bob)).await;
    let gone = loop {
        let event = stream.next(SOON).await.unwrap();
        if event.event == "gone" {
            break event;
        }
    };
    assert!(gone.data.contains("agent_id"), "{gone:?}");
    let operator = SseClient::open(&url, OPERATOR, None).await;
    assert_eq!(operator.unwrap().next(SOON).await.unwrap().event, "fleet");
}
