//! A hub with people, a channel and agents, for tests of pushes to agents and their callbacks.

use crate::support::{Answer, SOON, Setup, TestHub, eventually};
use chorus_testkit::clock::ManualClock;
use chorus_testkit::receiver::{FakeAgent, Received};
use reqwest::Method;
use serde_json::{Value, json};

/// The start time of tests with a manual clock.
pub(crate) const BEGIN: i64 = 1_774_000_800_000;
pub(crate) const MINUTE: i64 = 60 * 1000;
pub(crate) const HOUR: i64 = 60 * MINUTE;

/// A hub with one channel of anna. See the [module](self).
pub(crate) struct ChannelFixture {
    pub(crate) hub: TestHub,
    /// The token of the channel's owner.
    pub(crate) anna: String,
    /// The id of the channel.
    pub(crate) channel: String,
}

impl ChannelFixture {
    pub(crate) async fn start() -> Self {
        Self::on(&Setup::new()).await
    }

    /// Starts a fixture with a manual clock.
    pub(crate) async fn with_clock() -> (Self, ManualClock) {
        let clock = ManualClock::new(BEGIN);
        (Self::on(&Setup::new().clock(&clock)).await, clock)
    }

    pub(crate) async fn on(setup: &Setup) -> Self {
        let hub = setup.start();
        let anna = hub.account("anna@example.org").await;
        let body = json!({"name": "ops", "context": "We keep things running.", "handle": "anna"});
        let channel = hub.post("/api/v1/channels", Some(&anna), &body).await;
        assert_eq!(channel.status, 201, "{}", channel.text);
        let channel = channel.body["id"].as_str().unwrap().to_owned();
        Self { hub, anna, channel }
    }

    /// Creates another channel of the same owner.
    pub(crate) async fn another_channel(&self, name: &str) -> String {
        let body = json!({"name": name, "handle": "anna"});
        let channel = self.hub.post("/api/v1/channels", Some(&self.anna), &body).await;
        assert_eq!(channel.status, 201, "{}", channel.text);
        channel.body["id"].as_str().unwrap().to_owned()
    }

    /// Creates an agent of the owner and returns the response.
    pub(crate) async fn agent(&self, body: &Value) -> Value {
        let made = self.hub.post("/api/v1/agents", Some(&self.anna), body).await;
        assert_eq!(made.status, 201, "{}", made.text);
        made.body
    }

    /// Adds an agent to a channel.
    pub(crate) async fn join(&self, channel: &str, name: &str) {
        let path = format!("/api/v1/channels/{channel}/members");
        let joined = self.hub.post(&path, Some(&self.anna), &json!({"agent": name, "handle": name})).await;
        assert_eq!(joined.status, 201, "{}", joined.text);
    }

    /// Adds an agent to the channel that has only a connection string.
    pub(crate) async fn connected(&self, name: &str, receiver: &FakeAgent) -> Value {
        let made = self.agent(&json!({"name": name, "connection_string": inbox_of(receiver)})).await;
        self.join(&self.channel, name).await;
        made
    }

    /// Posts in the channel and returns the event id.
    pub(crate) async fn say(&self, content: &str) -> String {
        self.say_in(&self.channel, content).await
    }

    pub(crate) async fn say_in(&self, channel: &str, content: &str) -> String {
        let path = format!("/api/v1/channels/{channel}/messages");
        let said = self.hub.post(&path, Some(&self.anna), &json!({"content": content})).await;
        assert_eq!(said.status, 201, "{}", said.text);
        said.body["event_id"].as_str().unwrap().to_owned()
    }

    /// Returns the channel's log without joins and leaves.
    pub(crate) async fn log(&self) -> Vec<Value> {
        let path = format!("/api/v1/channels/{}/events?limit=200", self.channel);
        let page = self.hub.get(&path, Some(&self.anna)).await;
        assert_eq!(page.status, 200, "{}", page.text);
        let events = page.body["items"].as_array().unwrap().clone();
        events.into_iter().filter(|event| event["kind"] != "join" && event["kind"] != "leave").collect()
    }

    /// Returns the delivery of an event to its only recipient. A reminder would be another delivery.
    pub(crate) async fn delivery(&self, event: &str) -> Value {
        let ladder = self.hub.get(&format!("/api/v1/events/{event}"), Some(&self.anna)).await;
        assert_eq!(ladder.status, 200, "{}", ladder.text);
        let deliveries = ladder.body["deliveries"].as_array().unwrap();
        let to_whom = |delivery: &Value| delivery["recipient"].clone();
        assert!(deliveries.iter().all(|other| to_whom(other) == to_whom(&deliveries[0])), "{}", ladder.text);
        deliveries[0].clone()
    }

    /// Waits until the delivery of an event is in this state.
    pub(crate) async fn delivery_is(&self, event: &str, state: &str) -> Value {
        eventually(async || self.delivery(event).await, |delivery| delivery["state"] == state).await
    }

    /// Advances the clock until the unavailable agent was tried `n` times more.
    pub(crate) async fn tried(&self, clock: &ManualClock, receiver: &FakeAgent, n: usize) {
        for _ in 0..n {
            let before = receiver.requests().len();
            clock.set(self.recorded(clock).await);
            receiver.wait_for(before + 1, SOON).await;
        }
    }

    /// Returns the time of the next attempt, once the last one is recorded. A clock that moves earlier would
    /// move the next attempt too.
    pub(crate) async fn recorded(&self, clock: &ManualClock) -> i64 {
        let next = async || self.next_try().await;
        eventually(next, |next| next.is_some_and(|next| next > clock.now())).await.unwrap()
    }

    /// Returns the time of the next attempt; `None` while one is in progress.
    async fn next_try(&self) -> Option<i64> {
        let list = self.hub.get("/api/v1/deliveries?state=waiting", Some(&self.anna)).await;
        let items = list.body["items"].as_array().unwrap();
        // A delivery queued behind another has no time either, but was not tried.
        if items.iter().any(|item| item["next_try"].is_null() && item["attempts"] != 0) {
            return None;
        }
        let times = items.iter().filter_map(|item| item["next_try"].as_str());
        times.filter_map(chorus_protocol::time::parse_rfc3339).min()
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.hub.get(path, Some(&self.anna)).await
    }

    /// Posts to a callback without a key.
    pub(crate) async fn call_back(&self, callback: &Value, event: &Value) -> Answer {
        Answer::of(self.hub.client.post(callback.as_str().unwrap()).json(event)).await
    }

    pub(crate) async fn put_connection(&self, name: &str, key: &str, url: &str) -> Answer {
        let path = format!("/api/v1/agents/{name}/connection");
        let body = json!({"connection_string": url});
        Answer::of(self.hub.request(Method::PUT, &path, Some(key)).json(&body)).await
    }
}

/// Returns a connection string of this receiver.
pub(crate) fn inbox_of(receiver: &FakeAgent) -> String {
    format!("http://{}/inbox/sk_secret", receiver.addr())
}

/// Returns the message texts of these requests.
pub(crate) fn contents(requests: &[Received]) -> Vec<&str> {
    requests.iter().map(|request| request.body["message"]["content"].as_str().unwrap()).collect()
}
