//! A channel with `history: joined`: a member cannot read, by any route, what was posted before joining, while
//! away, or after leaving.

use crate::support::{Inbox, Setup, TestHub, mcp_tool};
use chorus_protocol::code::Code;
use serde_json::{Value, json};

struct JoinedFixture {
    hub: TestHub,
    channel: String,
    anna: String,
    bob: String,
    /// The message ids by their texts.
    said: Vec<(&'static str, String)>,
}

impl JoinedFixture {
    fn id(&self, text: &str) -> &str {
        &self.said.iter().find(|(said, _)| *said == text).unwrap().1
    }

    async fn say(&mut self, text: &'static str, more: Value) {
        let mut body = json!({"content": text});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let said = self.hub.say(&self.channel, &self.anna, &body).await;
        self.said.push((text, said["event_id"].as_str().unwrap().to_owned()));
    }

    async fn edit(&self, text: &str, new: &str) {
        let path = format!("{}/messages/{}", self.channel, self.id(text));
        let edited = self.hub.ask("PATCH", &path, Some(&self.anna), &json!({"content": new})).await;
        assert_eq!(edited.status, 200, "{}", edited.text);
    }

    async fn react(&self, text: &str) {
        let path = format!("{}/messages/{}/reactions", self.channel, self.id(text));
        assert_eq!(self.hub.post(&path, Some(&self.anna), &json!({"signal": "done"})).await.status, 201);
    }

    async fn come(&self) {
        self.hub.add(&self.channel, &self.anna, &json!({"agent": "bob"})).await;
    }

    async fn go(&self) {
        assert_eq!(
            self.hub.delete(&format!("{}/members/bob", self.channel), Some(&self.anna)).await.status,
            204
        );
    }
}

/// Posts messages before, during the first stay, while away, and during the second stay.
async fn start(hub: TestHub) -> JoinedFixture {
    let (anna, bob) = (hub.account("anna@example.org").await, hub.register("bob").await);
    let channel = hub.channel(&anna, &json!({"name": "c", "history": "joined"})).await;
    let mut fixture = JoinedFixture { hub, channel, anna, bob, said: vec![] };
    fixture.say("apple before", json!({})).await;
    let root = fixture.id("apple before").to_owned();
    fixture.come().await;
    fixture.say("apple first", json!({})).await;
    fixture.say("apple kept", json!({})).await;
    fixture.say("apple gone", json!({})).await;
    fixture.say("apple reply first", json!({"thread": root})).await;
    fixture.go().await;
    fixture.say("apple away", json!({})).await;
    fixture.say("apple reply away", json!({"thread": root})).await;
    let first = fixture.id("apple first").to_owned();
    fixture.say("apple reply to first", json!({"thread": first})).await;
    fixture.edit("apple first", "pear, said while away").await;
    fixture.react("apple kept").await;
    let gone = format!("{}/messages/{}", fixture.channel, fixture.id("apple gone"));
    assert_eq!(fixture.hub.delete(&gone, Some(&fixture.anna)).await.status, 204);
    fixture.come().await;
    fixture.say("apple second", json!({})).await;
    fixture
}

fn texts(events: &[Value]) -> Vec<&str> {
    events
        .iter()
        .filter(|event| event["kind"] == "message")
        .map(|event| event["content"].as_str().unwrap_or("-"))
        .collect()
}

async fn what_is_closed(hub: TestHub) {
    let fixture = start(hub).await;
    let JoinedFixture { hub, channel, anna, bob, .. } = &fixture;
    let mine = ["-", "apple kept", "-", "apple reply first", "apple second"];
    for query in ["", "before=end", "kind=message", "limit=200"] {
        let log = hub.log(channel, bob, query).await;
        assert_eq!(texts(&log), mine, "{query}");
        assert!(!format!("{log:?}").contains("away") && !format!("{log:?}").contains("before"), "{log:?}");
    }
    let log = hub.log(channel, bob, "kind=message").await;
    // An edit made while away is shown neither with its new nor its old text; a deletion applies to everybody.
    assert!(log[0].get("edited_at").is_some() && log[0].get("replies").is_none(), "{}", log[0]);
    assert!(log[1].get("reactions").is_none(), "{}", log[1]);
    assert_eq!(log[2]["deleted"], true);
    assert_eq!(hub.log(channel, bob, "kind=edit").await, [] as [Value; 0]);
    let hers = hub.log(channel, anna, "kind=message").await;
    assert_eq!(hers.len(), 9);
    assert_eq!((&hers[1]["content"], &hers[1]["replies"]), (&json!("pear, said while away"), &json!(1)));

    // Page by page the result is the same, although sequence numbers are missing in between.
    let (mut seen, mut query) = (vec![], String::new());
    loop {
        let page = hub.get(&format!("{channel}/events?limit=2{query}"), Some(bob)).await.body;
        seen.extend(page["items"].as_array().unwrap().clone());
        let Some(next) = page["next"].as_str() else { break };
        query = format!("&after={next}");
    }
    assert_eq!(seen, hub.log(channel, bob, "").await);

    // Threads.
    let thread = format!("thread={}", fixture.id("apple before"));
    assert_eq!(texts(&hub.log(channel, bob, &thread).await), ["apple reply first"]);
    assert_eq!(texts(&hub.log(channel, bob, &format!("thread={}", fixture.id("apple first"))).await), ["-"]);

    // The stream.
    let mut stream: Inbox = hub.follow(channel, bob, Some("0")).await;
    let mut streamed = vec![];
    while streamed.len() < seen.len() {
        let event = stream.sse.next(crate::support::SOON).await.unwrap();
        streamed.push(serde_json::from_str::<Value>(&event.data).unwrap());
    }
    assert_eq!(streamed, seen);
    stream.assert_quiet().await;

    // Search.
    let found = async |key: &str, word: &str| {
        let page = hub.get(&format!("/api/v1/search?q={word}"), Some(key)).await.body;
        let items = page["items"].as_array().unwrap().clone();
        items.iter().map(|item| item["event"]["content"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(found(bob, "apple").await, ["apple second", "apple reply first", "apple kept"]);
    for word in ["pear", "before", "away"] {
        assert_eq!(found(bob, word).await, [] as [&str; 0], "{word}");
        assert!(!found(anna, word).await.is_empty(), "{word}");
    }

    // Ids.
    for text in ["apple before", "apple away", "apple reply away"] {
        let id = fixture.id(text);
        for body in [json!({"content": "x", "thread": id}), json!({"content": "x", "reply_to": id})] {
            hub.post(&format!("{channel}/messages"), Some(bob), &body).await.own_failure(Code::NotFound);
            let dry = format!("{channel}/messages?dry_run=true");
            hub.post(&dry, Some(bob), &body).await.own_failure(Code::NotFound);
        }
        let reaction = format!("{channel}/messages/{id}/reactions");
        hub.post(&reaction, Some(bob), &json!({"signal": "seen"})).await.own_failure(Code::NotFound);
        hub.delete(&format!("{channel}/messages/{id}"), Some(bob)).await.own_failure(Code::NotFound);
    }
    let inside = json!({"content": "x", "thread": fixture.id("apple reply first")});
    assert_eq!(
        hub.say(channel, bob, &inside).await["thread"],
        fixture.id("apple before"),
        "an id says nothing"
    );
}

#[tokio::test]
async fn what_was_said_without_somebody_is_closed_to_it() {
    what_is_closed(TestHub::start()).await;
    what_is_closed(TestHub::postgres()).await;
}

/// A former member can no longer read anything of the conversation, not even delivered messages.
#[tokio::test]
async fn an_inbox_shows_nothing_of_where_its_agent_has_left() {
    for history in ["all", "joined"] {
        let hub = TestHub::start();
        let (anna, bob) = (hub.account("anna@example.org").await, hub.register("bob").await);
        let channel = hub.channel(&anna, &json!({"name": "c", "history": history})).await;
        hub.add(&channel, &anna, &json!({"agent": "bob"})).await;
        let said = hub.say(&channel, &anna, &json!({"content": "@bob one"})).await;
        let one = format!("{channel}/messages/{}", said["event_id"].as_str().unwrap());
        hub.ask("PATCH", &one, Some(&anna), &json!({"content": "@bob two"})).await;
        let content = async || hub.history(&bob).await[0]["data"]["event"]["content"].clone();
        assert_eq!(content().await, "@bob two");
        hub.delete(&format!("{channel}/members/bob"), Some(&anna)).await;
        hub.ask("PATCH", &one, Some(&anna), &json!({"content": "now that he is gone"})).await;
        assert_eq!(hub.history(&bob).await, [] as [Value; 0], "{history}");
    }
}

/// Opening a channel's history applies to later messages only; earlier ones stay with those who were members.
async fn opening_shows_nothing_from_before(hub: TestHub) {
    let fixture = start(hub).await;
    let JoinedFixture { hub, channel, anna, bob, .. } = &fixture;
    let plan = |text: &str| json!({"slug": "plan", "title": "Plan", "content": text});
    let documents = format!("{channel}/artifacts");
    assert_eq!(hub.post(&documents, Some(anna), &plan("secret draft")).await.status, 201);
    let newer = json!({"content": "the plan", "base_version": 1});
    let changed = hub.ask("PUT", &format!("{documents}/plan"), Some(anna), &newer).await;
    assert!(changed.status < 300, "{}", changed.text);
    let mine = ["-", "apple kept", "-", "apple reply first", "apple second"];
    assert_eq!(texts(&hub.log(channel, bob, "").await), mine);
    hub.ask("PATCH", channel, Some(anna), &json!({"history": "all"})).await;
    assert_eq!(texts(&hub.log(channel, bob, "").await), mine, "a member keeps its own start");

    hub.say(channel, anna, &json!({"content": "apple open"})).await;
    let late = hub.register("late").await;
    hub.add(channel, anna, &json!({"agent": "late"})).await;
    hub.say(channel, anna, &json!({"content": "apple last"})).await;
    let bobs = [&mine[..], &["apple open", "apple last"]].concat();
    for query in ["", "before=end", "kind=message", "limit=200"] {
        assert_eq!(texts(&hub.log(channel, bob, query).await), bobs, "{query}");
        assert_eq!(texts(&hub.log(channel, &late, query).await), ["apple open", "apple last"], "{query}");
    }
    let found = async |key: &str, word: &str| {
        let page = hub.get(&format!("/api/v1/search?q={word}"), Some(key)).await.body;
        let items = page["items"].as_array().unwrap().clone();
        items.iter().map(|item| item["event"]["content"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(found(&late, "apple").await, ["apple last", "apple open"]);
    assert_eq!(found(bob, "apple").await.len(), 5);
    assert_eq!(found(bob, "pear").await, [] as [&str; 0]);
    let id = channel.rsplit('/').next().unwrap();
    let listed = mcp_tool(hub, id, &late, "chat_list_events", json!({"limit": 50})).await.to_string();
    assert!(listed.contains("apple open") && !listed.contains("apple second"), "{listed}");
    let mut stream = hub.follow(channel, &late, Some("0")).await;
    stream.event("change").await;
    assert_eq!(stream.event("message").await["content"], "apple open");
    // Ids and threads from before are not readable.
    let thread = format!("thread={}", fixture.id("apple before"));
    assert_eq!(texts(&hub.log(channel, &late, &thread).await), [] as [&str; 0]);
    let body = json!({"content": "x", "reply_to": fixture.id("apple second")});
    hub.post(&format!("{channel}/messages"), Some(&late), &body).await.own_failure(Code::NotFound);
    // The version current at that time is readable; earlier ones are not.
    for (version, status) in [("", 200), ("?version=2", 200), ("?version=1", 404)] {
        let read = hub.get(&format!("{documents}/plan{version}"), Some(&late)).await;
        assert_eq!(read.status, status, "{version}: {}", read.text);
    }

    // Closing and opening starts over; streams continue.
    let mut stream = hub.follow(channel, bob, None).await;
    hub.ask("PATCH", channel, Some(anna), &json!({"history": "joined"})).await;
    stream.event("change").await;
    hub.say(channel, anna, &json!({"content": "closed"})).await;
    assert_eq!(stream.event("message").await["content"], "closed", "it is a member");
    assert_eq!(texts(&hub.log(channel, &late, "").await), ["apple last", "closed"]);
    hub.ask("PATCH", channel, Some(anna), &json!({"history": "all"})).await;
    let later = hub.register("later").await;
    hub.add(channel, anna, &json!({"agent": "later"})).await;
    assert_eq!(texts(&hub.log(channel, &later, "").await), [] as [&str; 0]);
    assert_eq!(hub.log(channel, &later, "kind=change").await.len(), 1, "the change itself");
    assert_eq!(texts(&hub.log(channel, &late, "").await), ["apple last", "closed"]);
}

#[tokio::test]
async fn opening_a_history_shows_nothing_from_before() {
    opening_shows_nothing_from_before(TestHub::start()).await;
}

#[tokio::test]
async fn opening_a_history_shows_nothing_from_before_on_postgres() {
    opening_shows_nothing_from_before(TestHub::postgres()).await;
}

/// An edit holds the whole text of a message, so one of a message from before shows nothing.
#[tokio::test]
async fn a_later_edit_of_an_earlier_message_shows_nothing() {
    for setup in [Setup::new(), Setup::postgres()] {
        let fixture = start(setup.start()).await;
        fixture.edit("apple before", "plum before").await;
        fixture.edit("apple second", "plum second").await;
        let log = fixture.hub.log(&fixture.channel, &fixture.bob, "").await;
        let edits: Vec<_> = log.iter().filter(|event| event["kind"] == "edit").collect();
        assert_eq!(edits.len(), 2, "{log:?}");
        assert_eq!(
            (&edits[0]["content"], &edits[1]["content"]),
            (&Value::Null, &json!("plum second")),
            "{edits:?}"
        );
        assert!(!format!("{log:?}").contains("before"), "{log:?}");
    }
}
