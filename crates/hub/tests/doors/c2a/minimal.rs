//! "Minimal Viable C2A", point by point, over a real WebSocket. Point 5, the assembly of turns, concerns the
//! harness.

use super::harness::{Harness, text};
use super::sessions::member;
use crate::channel_fixture::ChannelFixture;
use crate::support::eventually;
use serde_json::{Value, json};

/// A channel with lead and worker, both connected.
struct Two {
    fixture: ChannelFixture,
    lead: Harness,
    worker: Harness,
}

impl Two {
    async fn start() -> Self {
        let fixture = ChannelFixture::start().await;
        let lead = member(&fixture, "lead", &json!({"roles": ["ops"]})).await;
        let worker = member(&fixture, "worker", &json!({"roles": ["ops"]})).await;
        let lead = Harness::connect(&fixture.hub, &lead).await;
        let worker = Harness::connect(&fixture.hub, &worker).await;
        Self { fixture, lead, worker }
    }

    /// Posts a message with further fields and returns the response.
    async fn post(&self, body: Value) -> Value {
        let path = format!("/api/v1/channels/{}/messages", self.fixture.channel);
        let said = self.fixture.hub.post(&path, Some(&self.fixture.anna), &body).await;
        assert_eq!(said.status, 201, "{}", said.text);
        said.body
    }

    /// Returns a message to the channel, as a harness sends it.
    fn send(&self, key: &str, text: &str, more: &Value) -> Value {
        let mut arguments = json!({"target": {"conversationId": self.fixture.channel}, "idempotencyKey": key,
            "visibility": "channel", "directedness": "to_me", "text": text});
        for (name, value) in more.as_object().unwrap() {
            arguments[name] = value.clone();
        }
        arguments
    }

    async fn disposition(&self, event: &str, handle: &str) -> Value {
        let ladder = self.fixture.get(&format!("/api/v1/events/{event}")).await;
        let deliveries = ladder.body["deliveries"].as_array().unwrap();
        let found = deliveries.iter().find(|one| one["recipient"]["handle"] == handle);
        found.map_or(Value::Null, |one| one["disposition"].clone())
    }
}

/// Points 1 and 2: the envelope, and the defaults of directedness: `to_me` injects, `to_my_role` knocks,
/// `ambient` is for tools only.
#[tokio::test]
async fn directedness_decides_what_is_shown() {
    let mut two = Two::start().await;
    two.post(json!({"content": "@lead is the deploy blocked?"})).await;
    let params = two.lead.delivered().await;
    assert_eq!(
        (&params["target"]["directedness"], &params["injection"]["mode"]),
        (&json!("to_me"), &json!("buffered"))
    );
    assert!(params["content"].is_array());

    let said = two.post(json!({"content": "@ops who can look at the secret-word rollback?"})).await;
    let knocked = said["attention"]["knocked"].as_array().unwrap().clone();
    assert_eq!((knocked.len(), &said["attention"]["woken"]), (1, &json!([])), "one of the role is asked");
    let asked = if knocked[0] == "lead" { &mut two.lead } else { &mut two.worker };
    let params = asked.delivered().await;
    assert_eq!(params["target"]["directedness"], "to_my_role");
    assert_eq!(
        (&params["attention"]["policy"], &params["injection"]["mode"]),
        (&json!("may_respond"), &json!("notify"))
    );
    assert!(params.get("content").is_none(), "a knock holds nothing of it");
    assert!(!params.to_string().contains("secret-word"), "{params}");
    assert_eq!(
        (&params["knock"]["from"], &params["knock"]["pullWith"]),
        (&json!("human:anna"), &json!("chat.read_thread"))
    );

    two.post(json!({"content": "lunch is at noon"})).await;
    two.lead.assert_quiet().await;
    two.worker.assert_quiet().await;
    let page = two.lead.done("chat.list_events", json!({"conversationId": two.fixture.channel})).await;
    let last = page["events"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(text(&last), "lunch is at noon");
    assert_eq!(
        (&last["target"]["directedness"], &last["attention"]["policy"]),
        (&json!("ambient"), &json!("must_not_respond"))
    );
}

/// Point 3: the four policies.
#[tokio::test]
async fn the_four_policies() {
    let mut two = Two::start().await;
    two.post(json!({"content": "@lead thank you!"})).await;
    let thanks = two.lead.delivered().await;
    assert_eq!(
        (&thanks["attention"]["policy"], &thanks["attention"]["reason"]),
        (&json!("ack_only"), &json!("thanks"))
    );
    let event = &thanks["eventId"];
    let long = two.send("k1", &"you are welcome ".repeat(20), &json!({"inReplyTo": event}));
    assert_eq!(two.lead.refused("chat.send_message", long).await, "policy_forbidden");
    let mentions = two.send("k2", "@worker did it", &json!({"inReplyTo": event}));
    assert_eq!(two.lead.refused("chat.send_message", mentions).await, "policy_forbidden");
    two.lead.done("chat.send_message", two.send("k3", "welcome", &json!({"inReplyTo": event}))).await;

    let ambient = two.post(json!({"content": "lunch is at noon"})).await;
    let reply = two.send("k4", "enjoy", &json!({"inReplyTo": ambient["event_id"]}));
    assert_eq!(two.lead.refused("chat.send_message", reply).await, "policy_forbidden");
    let others = two.post(json!({"content": "@worker please check the disk"})).await;
    let reply = two.send("k5", "I did", &json!({"inReplyTo": others["event_id"]}));
    assert_eq!(two.lead.refused("chat.send_message", reply).await, "policy_forbidden");
    // The same at every other door.
    let key = two.fixture.hub.register("third").await;
    let path = format!("/api/v1/channels/{}/members", two.fixture.channel);
    two.fixture.hub.post(&path, Some(&two.fixture.anna), &json!({"agent": "third"})).await;
    let path = format!("/api/v1/channels/{}/messages", two.fixture.channel);
    let body = json!({"content": "so did I", "reply_to": others["event_id"]});
    let refused = two.fixture.hub.post(&path, Some(&key), &body).await;
    assert_eq!(
        (refused.status, &refused.body["error"]["code"]),
        (403, &json!("POLICY_FORBIDDEN")),
        "{}",
        refused.text
    );
}

/// Point 4: a notification, and the content on demand.
#[tokio::test]
async fn a_knock_is_answered_by_reading() {
    let mut two = Two::start().await;
    let said = two.post(json!({"content": "@ops which disk is full?"})).await;
    let lead_asked = said["attention"]["knocked"][0] == "lead";
    let asked = if lead_asked { &mut two.lead } else { &mut two.worker };
    let knock = asked.delivered().await;
    let page = asked.done("chat.read_thread", json!({"conversationId": knock["conversation"]["id"]})).await;
    let last = page["events"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&last["eventId"], text(&last)), (&knock["eventId"], "@ops which disk is full?"));
    let claimed = asked.done("chat.claim", json!({"eventId": knock["eventId"]})).await;
    assert_eq!(text(&claimed["event"]), "@ops which disk is full?", "a claim brings the whole event");
    assert_eq!(claimed["state"], "held");
}

/// Point 6: reactions are dispositions without a turn.
#[tokio::test]
async fn reactions_are_dispositions() {
    let mut two = Two::start().await;
    for (signal, disposition) in
        [("seen", "acknowledged"), ("queued", "deferred"), ("done", "responded"), ("declined", "ignored")]
    {
        let event = two.fixture.say("@lead please look").await;
        two.lead.delivered().await;
        // The document's own example.
        let arguments = json!({"inReplyTo": event, "signal": signal, "eta": "after the deploy completes"});
        let recorded = two.lead.done("chat.react", arguments).await;
        assert_eq!(recorded, json!({"eventId": event, "disposition": disposition}));
        assert_eq!(two.disposition(&event, "lead").await, disposition);
    }
    let event = two.fixture.say("@lead please look again").await;
    two.lead.delivered().await;
    let recorded = two.lead.done("chat.react", json!({"inReplyTo": event, "signal": "unclear"})).await;
    assert_eq!(recorded, json!({"eventId": event}), "it stays open");
    two.worker.assert_quiet().await;
}

/// Point 7: a message is sent once, with its intended directedness.
#[tokio::test]
async fn a_message_is_sent_once_and_lowers_what_it_implies() {
    let mut two = Two::start().await;
    let event = two.fixture.say("@lead is it blocked?").await;
    two.lead.delivered().await;
    let reply = two.send("reply-1", "No, it runs.", &json!({"inReplyTo": event, "visibility": "thread"}));
    let first = two.lead.done("chat.send_message", reply.clone()).await;
    let again = two.lead.done("chat.send_message", reply.clone()).await;
    assert_eq!(first, again);
    assert_eq!(first["threadId"], json!(event));
    let mut other = reply;
    other["text"] = json!("Yes.");
    assert_eq!(two.lead.refused("chat.send_message", other).await, "idempotency_conflict");
    let said = two.fixture.log().await;
    assert_eq!(said.iter().filter(|one| one["content"] == "No, it runs.").count(), 1);
    assert_eq!(two.disposition(&event, "lead").await, "responded");

    // An ambient mention wakes nobody; without `ambient` it obliges.
    let aside = two.send("k2", "@worker has done it", &json!({"directedness": "ambient"}));
    let sent = two.lead.done("chat.send_message", aside).await;
    assert_eq!(sent["attention"]["woken"], json!([]));
    two.worker.assert_quiet().await;
    let sent =
        two.lead.done("chat.send_message", two.send("k3", "@worker please check it", &json!({}))).await;
    assert_eq!(sent["attention"]["woken"], json!(["worker"]));
    assert_eq!(two.worker.delivered().await["attention"]["policy"], "must_respond");

    // A message that cannot be sent gets an error.
    let nowhere = two.send("k4", "x", &json!({"target": {"conversationId": "ch_nowhere"}}));
    assert_eq!(two.lead.refused("chat.send_message", nowhere).await, "not_a_member");
    let no_key = json!({"target": {"conversationId": two.fixture.channel}, "text": "x"});
    assert_eq!(two.lead.refused("chat.send_message", no_key).await, "invalid_arguments");
    let dm = two.send("k5", "x", &json!({"visibility": "dm"}));
    assert_eq!(two.lead.refused("chat.send_message", dm).await, "invalid_arguments");
}

/// Point 9: a repeated delivery has the same ids; see also `sessions`. Notifications of a harness are
/// recorded.
#[tokio::test]
async fn what_a_harness_tells_is_recorded() {
    let mut two = Two::start().await;
    let event = two.fixture.say("@lead please look").await;
    two.lead.delivered().await;
    two.lead
        .notify("notifications/injected", json!({"eventIds": [event, "evt_unknown"], "turnId": "t1"}))
        .await;
    two.lead
        .notify(
            "notifications/disposition",
            json!({"eventId": event, "disposition": "failed", "reason": "the model was away"}),
        )
        .await;
    let ladder = async || two.fixture.delivery(&event).await;
    let ladder = eventually(ladder, |ladder| ladder["disposition"] == "failed").await;
    let rungs: Vec<_> =
        ladder["rungs"].as_array().unwrap().iter().map(|rung| rung["rung"].as_str().unwrap()).collect();
    assert!(rungs.contains(&"injected"), "{rungs:?}");
    let why = async || two.fixture.delivery(&event).await["disposition_reason"].clone();
    assert_eq!(why().await, "the model was away");
    // A harness cannot ignore a message that must be answered.
    let event = two.fixture.say("@lead please look again").await;
    two.lead.delivered().await;
    two.lead.notify("notifications/disposition", json!({"eventId": event, "disposition": "ignored"})).await;
    two.lead.ask("tools/list", json!({})).await;
    assert_eq!(two.disposition(&event, "lead").await, Value::Null);
    // "Record that a must-respond event is deferred with a reason": the event shows the reason, with
    // credentials masked.
    let why = async || two.fixture.delivery(&event).await["disposition_reason"].clone();
    let secret = format!("ca_{}", "0".repeat(32));
    let defer =
        json!({"eventId": event, "reason": format!("the key {secret} is locked"), "eta": "after the deploy"});
    let deferred = two.lead.done("chat.defer", defer).await;
    assert_eq!(deferred["disposition"], "deferred");
    let said = why().await;
    let said = said.as_str().unwrap();
    assert!(said.starts_with("the key ") && said.ends_with(" is locked (after the deploy)"), "{said}");
    assert!(!said.contains(&secret), "{said}");
    // The next disposition has its own reason, or none.
    let resolved = two.lead.done("chat.resolve", json!({"eventId": event})).await;
    assert_eq!((&resolved["disposition"], why().await), (&json!("responded"), Value::Null));
    let event = two.fixture.say("@lead and once more").await;
    two.lead.delivered().await;
    two.lead.done("chat.resolve", json!({"eventId": event, "reason": "it was the cache"})).await;
    assert_eq!(two.fixture.delivery(&event).await["disposition_reason"], "it was the cache");
}

/// A harness without an injection mode is given the messages it must answer, and owes the answer.
#[tokio::test]
async fn who_names_no_injection_is_given_what_it_must_answer() {
    let fixture = ChannelFixture::start().await;
    for (name, capabilities) in [("ada", json!({})), ("eve", json!({"injection": {"tool_mailbox": true}}))] {
        let key = member(&fixture, name, &json!({})).await;
        let mut begin = super::harness::initialize();
        begin["params"]["capabilities"] = capabilities;
        let mut harness = Harness::with(&fixture.hub, &key, &begin).await;
        let event = fixture.say(&format!("@{name} are you there?")).await;
        let params = harness.delivered().await;
        assert_eq!((&params["eventId"], &params["injection"]["mode"]), (&json!(event), &json!("immediate")));
        let attention = &params["attention"];
        assert_eq!(attention["policy"], "must_respond");
        assert!(attention["deadlineMs"].is_i64(), "{attention}");
    }
}
