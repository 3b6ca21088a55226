//! Rules that a channel owner can change: the loop guard, and the glyphs of signals.

use crate::channel_fixture::ChannelFixture;
use crate::market::trader;
use crate::market_jobs::{hire, job, result, success};
use crate::support::{Answer, Setup};
use chorus_protocol::code::Code;
use serde_json::{Value, json};

struct Room {
    fixture: ChannelFixture,
    keys: [String; 2],
}

impl Room {
    async fn on(setup: &Setup) -> Self {
        let fixture = ChannelFixture::on(setup).await;
        let keys = [fixture.hub.register("ada").await, fixture.hub.register("bob").await];
        for (name, key) in ["ada", "bob"].into_iter().zip(&keys) {
            fixture.join(&fixture.channel, name).await;
            // The guard is looser for agents of the channel's owner.
            fixture.hub.post("/api/v1/agents/claim", Some(&fixture.anna), &json!({"api_key": key})).await;
        }
        Self { fixture, keys }
    }

    async fn change(&self, key: &str, body: Value) -> Answer {
        let path = format!("/api/v1/channels/{}", self.fixture.channel);
        self.fixture.hub.ask("PATCH", &path, Some(key), &body).await
    }

    /// Posts a message of ada to bob. Returns whether it wakes him.
    async fn wakes(&self, content: &str) -> bool {
        let path = format!("/api/v1/channels/{}/messages", self.fixture.channel);
        let said = self.fixture.hub.post(&path, Some(&self.keys[0]), &json!({"content": content})).await;
        assert_eq!(said.status, 201, "{}", said.text);
        said.body["attention"]["woken"] == json!(["bob"])
    }

    /// Returns how many of twenty messages wake bob.
    async fn turns(&self, what: &str) -> usize {
        let mut turns = 0;
        for n in 0..20 {
            turns += usize::from(self.wakes(&format!("@bob what about {what} number {n}?")).await);
        }
        turns
    }
}

async fn loops(setup: &Setup) {
    let room = Room::on(setup).await;
    let anna = &room.fixture.anna;
    assert_eq!(room.turns("table").await, 8);
    let changed = room.change(anna, json!({"loop_guard": 3})).await;
    assert_eq!((changed.status, &changed.body["loop_guard"]), (200, &json!(3)), "{}", changed.text);
    room.fixture.say("go on").await;
    assert_eq!(room.turns("column").await, 3);
    assert_eq!(room.change(anna, json!({"loop_guard": 0})).await.body["loop_guard"], 0);
    assert_eq!(room.turns("index").await, 20, "it is off");
    room.change(&room.keys[0], json!({"loop_guard": 0})).await.own_failure(Code::Forbidden);
    for wrong in [json!(-1), json!(1001), json!("off")] {
        room.change(anna, json!({"loop_guard": wrong})).await.own_failure(Code::Validation);
    }
}

#[tokio::test]
async fn a_channel_says_how_long_agents_talk_among_themselves() {
    loops(&Setup::new()).await;
}

#[tokio::test]
async fn a_channel_says_how_long_agents_talk_among_themselves_on_postgres() {
    loops(&Setup::postgres()).await;
}

/// An agent may talk about a task that a person gave it as long as it works, but not repeat itself, and not for ever.
async fn progress(setup: &Setup) {
    let room = Room::on(setup).await;
    let asked = room.fixture.say("@ada please move the tables").await;
    let path = format!("/api/v1/channels/{}/messages", room.fixture.channel);
    let reactions = format!("{path}/{asked}/reactions");
    let working = room.fixture.hub.post(&reactions, Some(&room.keys[0]), &json!({"signal": "working"})).await;
    assert_eq!(working.status, 201, "{}", working.text);
    assert_eq!(room.turns("table").await, 20);
    assert!(!room.wakes("@bob what about table number 19?").await, "that was said");
    assert_eq!((room.turns("column").await, room.turns("index").await), (20, 0), "forty turns are enough");
    let done = room.fixture.hub.post(&reactions, Some(&room.keys[0]), &json!({"signal": "done"})).await;
    assert_eq!(done.status, 201, "{}", done.text);
    assert!(!room.wakes("@bob is there anything else to do?").await, "it is done by now");
    room.fixture.say("go on").await;
    assert_eq!(room.turns("view").await, 8, "without a task it is a loop like any other");
}

/// A claim of one agent on the other's message is no task.
#[tokio::test]
async fn what_agents_ask_of_each_other_is_no_task() {
    let room = Room::on(&Setup::new()).await;
    let path = format!("/api/v1/channels/{}/messages", room.fixture.channel);
    let asked = json!({"content": "@ada please move the tables"});
    let asked = room.fixture.hub.post(&path, Some(&room.keys[1]), &asked).await;
    let reactions = format!("{path}/{}/reactions", asked.body["event_id"].as_str().unwrap());
    let working = room.fixture.hub.post(&reactions, Some(&room.keys[0]), &json!({"signal": "working"})).await;
    assert_eq!(working.status, 201, "{}", working.text);
    assert_eq!(room.turns("table").await, 7, "the request was the first turn");
}

#[tokio::test]
async fn progress_on_what_was_taken_on_is_no_loop() {
    progress(&Setup::new()).await;
}

#[tokio::test]
async fn progress_on_what_was_taken_on_is_no_loop_on_postgres() {
    progress(&Setup::postgres()).await;
}

#[tokio::test]
async fn a_channel_shows_signals_its_own_way() {
    let room = Room::on(&Setup::new()).await;
    let anna = &room.fixture.anna;
    let changed = room.change(anna, json!({"glyphs": {"done": "🎉"}})).await;
    assert_eq!(changed.status, 200, "{}", changed.text);
    assert_eq!(
        (&changed.body["glyphs"]["done"], &changed.body["glyphs"]["seen"]),
        (&json!("🎉"), &json!("👀")),
        "{}",
        changed.text
    );
    let path = format!("/api/v1/channels/{}", room.fixture.channel);
    let seen = room.fixture.hub.get(&path, Some(&room.keys[0])).await;
    assert_eq!(seen.body["glyphs"]["done"], "🎉", "agents see it too");
    // Two signals cannot share a glyph.
    let alike = room.change(anna, json!({"glyphs": {"done": "👀"}})).await;
    alike.own_failure(Code::Validation);
    room.change(anna, json!({"glyphs": {"done": ""}})).await.own_failure(Code::Validation);
    let usual = room.change(anna, json!({"glyphs": {}})).await;
    assert_eq!((usual.status, usual.body.get("glyphs")), (200, None), "{}", usual.text);
}

/// An agent may report progress on another's job as long as the job is open.
async fn at_work_on_a_job(setup: &Setup) {
    let fixture = ChannelFixture::on(setup).await;
    let (boss, worker) = (trader(&fixture.hub, "ada", 1).await, trader(&fixture.hub, "bob", 0).await);
    for name in ["ada", "bob"] {
        fixture.join(&fixture.channel, name).await;
    }
    let room = Room { fixture, keys: [boss.key, worker.key] };
    let one = job(1, &worker.id);
    hire(&room.fixture.hub, &room.keys[0], &one).await;
    assert_eq!(room.turns("table").await, 20);
    let done = result(&room.fixture.hub, &room.keys[1], &one, &success(&one)).await;
    assert_eq!(done.status, 200, "{}", done.text);
    assert!(!room.wakes("@bob is there anything else to do?").await, "it is done by now");
}

#[tokio::test]
async fn talk_about_an_open_job_is_no_loop() {
    at_work_on_a_job(&Setup::new()).await;
}

#[tokio::test]
async fn talk_about_an_open_job_is_no_loop_on_postgres() {
    at_work_on_a_job(&Setup::postgres()).await;
}
