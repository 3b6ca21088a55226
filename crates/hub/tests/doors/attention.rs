//! The agents that a message wakes, those that only find it, and the end of exchanges between agents.

use crate::channel_fixture::ChannelFixture;
use crate::support::SOON;
use chorus_protocol::code::Code;
use chorus_testkit::receiver::FakeAgent;
use serde_json::{Value, json};

/// A channel with ada and bob, each with a connection string.
struct Two {
    fixture: ChannelFixture,
    receivers: [FakeAgent; 2],
    keys: [String; 2],
}

const NAMES: [&str; 2] = ["ada", "bob"];

impl Two {
    async fn start() -> Self {
        let fixture = ChannelFixture::start().await;
        let receivers = [FakeAgent::start().await, FakeAgent::start().await];
        let mut keys = [String::new(), String::new()];
        for ((name, receiver), key) in NAMES.into_iter().zip(&receivers).zip(&mut keys) {
            let made = fixture.connected(name, receiver).await;
            made["api_key"].as_str().unwrap().clone_into(key);
        }
        Self { fixture, receivers, keys }
    }

    /// Posts a message and returns the response.
    async fn say(&self, key: &str, body: &Value) -> Value {
        let path = format!("/api/v1/channels/{}/messages", self.fixture.channel);
        let said = self.fixture.hub.post(&path, Some(key), body).await;
        assert_eq!(said.status, 201, "{}", said.text);
        said.body
    }

    /// Posts a message as the person.
    async fn ask(&self, body: &Value) -> Value {
        self.say(&self.fixture.anna, body).await
    }

    /// Answers the agent's last delivery and returns the event of the answer.
    async fn answer(&self, agent: usize, requests: usize, text: impl Fn(&str) -> String) -> String {
        let requests = self.receivers[agent].wait_for(requests, SOON).await;
        let sent = &requests.last().unwrap().body;
        let content = text(sent["message"]["content"].as_str().unwrap());
        let answer = json!({"type": "message", "content": content});
        let answer = self.fixture.call_back(&sent["callback"], &answer).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        answer.body["events"][0].as_str().unwrap().to_owned()
    }

    /// Returns the recipients of an event with the reasons.
    async fn went_to(&self, event: &str) -> Vec<(String, String)> {
        let ladder = self.fixture.get(&format!("/api/v1/events/{event}")).await;
        let deliveries = ladder.body["deliveries"].as_array().unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        deliveries.iter().map(|one| (text(&one["recipient"]["handle"]), text(&one["reason"]))).collect()
    }

    async fn messages_of_agents(&self) -> usize {
        let is_agents = |event: &&Value| event["kind"] == "message" && event["author"]["kind"] == "agent";
        self.fixture.log().await.iter().filter(is_agents).count()
    }
}

fn woken(said: &Value) -> &Value {
    &said["attention"]["woken"]
}

fn pair(handle: &str, reason: &str) -> Vec<(String, String)> {
    vec![(handle.to_owned(), reason.to_owned())]
}

#[tokio::test]
async fn thanks_wake_nobody_and_their_author_is_told() {
    let two = Two::start().await;
    for text in ["@bob thanks!", "@bob 👍", "@bob ok, got it", "@bob danke schön"] {
        let said = two.ask(&json!({"content": text})).await;
        let expected = json!({"woken": [], "knocked": [], "stored_for": ["bob"], "stored_count": 1});
        assert_eq!(said["attention"], expected, "{text}");
        assert_eq!(two.went_to(said["event_id"].as_str().unwrap()).await, []);
    }
    // A thanks followed by a request wakes. An intent declared by the author is taken as declared.
    let said = two.ask(&json!({"content": "@bob thanks! Can you do the rest too?"})).await;
    assert_eq!(woken(&said), &json!(["bob"]));
    let said = two.ask(&json!({"content": "@bob the rest is done", "intent": "status"})).await;
    assert_eq!((woken(&said), &said["attention"]["stored_for"]), (&json!([]), &json!(["bob"])));
    let said = two.say(&two.keys[0], &json!({"content": "@bob status update: half of it is built"})).await;
    assert_eq!((woken(&said), &said["attention"]["stored_for"]), (&json!([]), &json!(["bob"])));
}

#[tokio::test]
async fn a_dry_run_tells_why_somebody_is_not_woken() {
    let two = Two::start().await;
    let path = format!("/api/v1/channels/{}/messages?dry_run=true", two.fixture.channel);
    let body = json!({"content": "@bob thank you"});
    let answer = two.fixture.hub.post(&path, Some(&two.fixture.anna), &body).await;
    let expected = json!({"handle": "bob", "directedness": "to_me", "policy": "ack_only", "mode": "tool_mailbox",
        "reason": "thanks", "priority": "low", "deadline_ms": 300_000});
    assert_eq!(answer.body["attention"], json!([expected]));
}

#[tokio::test]
async fn what_comes_next_in_a_thread_reaches_whom_it_was_about() {
    let two = Two::start().await;
    let asked = two.ask(&json!({"content": "@bob which parser is the fastest?"})).await;
    let thread = &asked["event_id"];
    // The agent was asked and has not answered yet.
    let correction = two.ask(&json!({"content": "I meant the one for dates", "thread": thread})).await;
    assert_eq!(woken(&correction), &json!(["bob"]));
    two.answer(1, 2, |_| "the first one".into()).await;
    let question = two.ask(&json!({"content": "and the second fastest?", "thread": thread})).await;
    let event = question["event_id"].as_str().unwrap();
    assert_eq!(two.went_to(event).await, pair("bob", "thread_question"));
    let ladder = two.fixture.delivery(event).await;
    assert_eq!((&ladder["policy"], &ladder["directedness"]), (&json!("must_respond"), &json!("to_me")));
    for silent in ["thanks", "ok"] {
        let said = two.ask(&json!({"content": silent, "thread": thread})).await;
        assert_eq!(woken(&said), &json!([]), "{silent}");
    }
    for weak in ["status update: we take the first one", "ERROR: no such file", "thanks, works now"] {
        let said = two.ask(&json!({"content": weak, "thread": thread})).await;
        let ladder = two.fixture.delivery(said["event_id"].as_str().unwrap()).await;
        assert_eq!(
            (&ladder["policy"], &ladder["mode"]),
            (&json!("may_respond"), &json!("buffered")),
            "{weak}"
        );
    }
    // A named agent takes over the thread; a reply addresses the author of the message it answers.
    let named = two.ask(&json!({"content": "@ada do you agree?", "thread": thread})).await;
    assert_eq!(woken(&named), &json!(["ada"]));
    let adas = two.answer(0, 1, |_| "I do not: it is wrong about leap years".into()).await;
    assert_eq!(two.went_to(&adas).await, []);
    let question = two.ask(&json!({"content": "in which years?", "thread": thread})).await;
    assert_eq!(woken(&question), &json!(["ada"]));
    let to_bob = json!({"content": "what do you say to that?", "reply_to": correction["event_id"]});
    let person_to_person = two.ask(&to_bob).await;
    assert_eq!(woken(&person_to_person), &json!(["ada"]), "it answers a person, and ada is the last");
    // Outside of threads, only named agents are addressed.
    let aside = two.ask(&json!({"content": "which parser do we have?"})).await;
    assert_eq!(woken(&aside), &json!([]));
}

/// In a thread, as in a direct conversation, a person answers what the agent asked last there.
#[tokio::test]
async fn a_yes_in_a_thread_is_heard() {
    let two = Two::start().await;
    let asked = two.ask(&json!({"content": "@bob fix the parser"})).await;
    let thread = &asked["event_id"];
    let asked_back = two.answer(1, 1, |_| "Fixed. Shall I also update the changelog?".into()).await;
    for (content, thread, reason) in [
        ("ok", Some(thread), "approval"),
        ("sure, thanks!", Some(thread), "approval"),
        ("👍", Some(thread), "approval"),
        ("ja, danke", Some(thread), "thread_question"),
        ("never mind", Some(thread), "thread_question"),
        ("@bob ok thanks", Some(thread), "approval"),
        ("@bob ok", None, "approval"),
    ] {
        let said = two.ask(&json!({"content": content, "thread": thread})).await;
        let ladder = two.fixture.delivery(said["event_id"].as_str().unwrap()).await;
        let found = (&ladder["policy"], &ladder["reason"]);
        assert_eq!(found, (&json!("must_respond"), &json!(reason)), "{content}");
    }
    // The dry run, the explanation and the audit log say how the message was understood.
    let path = format!("/api/v1/channels/{}/messages", two.fixture.channel);
    let body = json!({"content": "ok", "thread": thread});
    let preview = two.fixture.hub.post(&format!("{path}?dry_run=true"), Some(&two.fixture.anna), &body).await;
    let said = two.ask(&body).await;
    let ladder = two.fixture.get(&format!("/api/v1/events/{}", said["event_id"].as_str().unwrap())).await;
    let taken_for = json!({"intent": "approval", "confidence": "high", "layer": "structure"});
    assert_eq!((&preview.body["classification"], &ladder.body["classification"]), (&taken_for, &taken_for));
    assert_eq!(ladder.body["event"]["answers"], json!(asked_back), "{}", ladder.text);
    let event = said["event_id"].as_str().unwrap();
    let audit = format!("/api/v1/audit?kind=decision&channel={}&event={event}", two.fixture.channel);
    let decisions = two.fixture.get(&audit).await;
    assert_eq!(decisions.body["items"][0]["detail"]["classification"], taken_for, "{}", decisions.text);
    // What one person asks another waits for no agent.
    let question = two.ask(&json!({"content": "is that right?", "thread": thread})).await;
    two.answer(1, 10, |_| "It is.".into()).await;
    for answer in [
        json!({"content": "ok", "reply_to": question["event_id"]}),
        json!({"content": "ok", "thread": thread}),
        json!({"content": "@bob ok"}),
    ] {
        assert_eq!(woken(&two.ask(&answer).await), &json!([]), "{answer}");
    }
}

#[tokio::test]
async fn an_agents_question_to_a_person_wakes_no_other_agent() {
    let two = Two::start().await;
    two.ask(&json!({"content": "@ada @bob what is missing?"})).await;
    for agent in [0, 1] {
        let answer = two.answer(agent, 1, |_| format!("which release do you mean, says {agent}?")).await;
        assert_eq!(two.went_to(&answer).await, []);
    }
}

/// Two programs that echo their input, and one message that names both, produce two answers.
#[tokio::test]
async fn two_that_print_what_they_read_answer_once_each() {
    let two = Two::start().await;
    let prompt = |text: &str| format!("Channel: ops\nFrom: anna\n----- message d1\n{text}\n----- end d1\n");
    let cat: &(dyn Fn(&str) -> String + Sync) = &prompt;
    for (echo, text) in [(cat, "hello"), (&str::to_owned, "hello again"), (&str::to_owned, "stop!")] {
        let before = (two.messages_of_agents().await, two.receivers[0].requests().len() + 1);
        two.ask(&json!({"content": format!("@ada @bob {text}")})).await;
        for agent in [0, 1] {
            let answer = two.answer(agent, before.1, echo).await;
            assert_eq!(two.went_to(&answer).await, [], "what repeats is damped");
        }
        assert_eq!(two.messages_of_agents().await, before.0 + 2);
        assert!(two.receivers.iter().all(|receiver| receiver.requests().len() == before.1));
    }
}

#[tokio::test]
async fn two_agents_that_thank_each_other_stop() {
    let two = Two::start().await;
    two.ask(&json!({"content": "@ada please thank bob for his work"})).await;
    let thanks = two.answer(0, 1, |_| "@bob thank you so much!".into()).await;
    assert_eq!(two.went_to(&thanks).await, []);

    // The same holds when their words differ each time.
    let mut turns = 0;
    for n in 0..20 {
        let (from, to) = (n % 2, NAMES[1 - n % 2]);
        let content = format!("@{to} your idea number {n} was a great one, I am grateful for it");
        let said = two.say(&two.keys[from], &json!({"content": content})).await;
        if woken(&said) == &json!([]) {
            assert_eq!(said["attention"]["stored_for"], json!([to]));
            break;
        }
        turns += 1;
    }
    assert_eq!(turns, 8);
    let path = format!("/api/v1/channels/{}/messages?dry_run=true", two.fixture.channel);
    let body = json!({"content": "@bob is there another one?"});
    let previewed = two.fixture.hub.post(&path, Some(&two.keys[0]), &body).await;
    let decision = &previewed.body["attention"][0];
    assert_eq!(
        (&decision["policy"], &decision["reason"]),
        (&json!("must_not_respond"), &json!("loop_guard"))
    );
    // Any message of a person resets the loop guard.
    two.ask(&json!({"content": "go on"})).await;
    let said = two.say(&two.keys[0], &body).await;
    assert_eq!(woken(&said), &json!(["bob"]));
}

/// One agent of a role is asked. A paused agent is passed over while another one is available.
#[tokio::test]
async fn who_is_paused_is_not_asked_first() {
    for paused in NAMES {
        let fixture = ChannelFixture::start().await;
        let receiver = FakeAgent::start().await;
        for name in NAMES {
            let connection = format!("{}/inbox/{name}", receiver.url());
            fixture.agent(&json!({"name": name, "connection_string": connection})).await;
            let path = format!("/api/v1/channels/{}/members", fixture.channel);
            let body = json!({"agent": name, "handle": name, "roles": ["ops"]});
            assert_eq!(fixture.hub.post(&path, Some(&fixture.anna), &body).await.status, 201);
        }
        let path = format!("/api/v1/agents/{paused}");
        let answer = fixture.hub.ask("PATCH", &path, Some(&fixture.anna), &json!({"paused": true})).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        let event = fixture.say("@ops please restart the cache").await;
        let ladder = fixture.get(&format!("/api/v1/events/{event}")).await;
        let asked = &ladder.body["deliveries"][0]["recipient"]["handle"];
        assert_ne!(asked, paused, "{}", ladder.text);
        assert_eq!(ladder.body["deliveries"].as_array().unwrap().len(), 1, "{}", ladder.text);
    }
}

/// A found message is judged by everything its author declared, like a delivered one.
#[tokio::test]
async fn what_is_declared_for_nobody_is_answered_by_nobody() {
    let two = Two::start().await;
    let told = json!({"content": "@bob looks after the builds now", "directedness": "ambient"});
    let event = two.ask(&told).await["event_id"].clone();
    assert!(two.went_to(event.as_str().unwrap()).await.is_empty());
    let path = format!("/api/v1/channels/{}/messages", two.fixture.channel);
    let reply = json!({"content": "I do", "reply_to": event});
    let refused = two.fixture.hub.post(&path, Some(&two.keys[1]), &reply).await;
    refused.own_failure(Code::PolicyForbidden);
}
