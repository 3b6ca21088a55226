//! The system clock is set back or forward by an hour: every cache, lease and limit still works, on both
//! databases.

use crate::channel_fixture::{BEGIN, ChannelFixture, HOUR};
use crate::market::trader_at;
use crate::support::{Answer, SOON, Setup, TestHub, eventually};
use chorus_hub::{Config, Mail};
use chorus_protocol::code::Code;
use chorus_store::{StoreError, Tx, TxExt};
use chorus_testkit::clock::ManualClock;
use chorus_testkit::receiver::{FakeAgent, Reply};
use serde_json::json;

/// Returns every combination of database and clock change.
fn everywhere() -> impl Iterator<Item = (Setup, ManualClock, i64)> {
    [-HOUR, HOUR].into_iter().flat_map(|step| {
        [Setup::new(), Setup::postgres()].map(|setup| {
            let clock = ManualClock::new(BEGIN);
            (setup.clock(&clock), clock, step)
        })
    })
}

async fn used_up(hub: &TestHub, key: Option<&str>, path: &str) {
    for _ in 0..100 {
        let answer = hub.get(path, key).await;
        if answer.status == 429 {
            assert!(answer.header("retry-after").parse::<u32>().unwrap() <= 60, "{:?}", answer.headers);
            return;
        }
    }
    panic!("there is no limit at {path}");
}

/// Limits last neither longer nor shorter than usual.
#[tokio::test]
async fn limits_last_as_long_as_they_should() {
    for (setup, clock, step) in everywhere() {
        let limits = |config: &mut Config| {
            (config.rate_limit, config.rate_limit_anonymous) = (Some(60), Some(60));
            config.quotas.registrations = 2;
        };
        let hub = setup.config(limits).start();
        let (alice, wrong) = (hub.register("alice").await, "ca_00000000000000000000000000000000");
        hub.register("bob").await;
        used_up(&hub, Some(&alice), "/agents").await;
        used_up(&hub, Some(wrong), "/agents").await;
        used_up(&hub, None, "/agents").await;
        let statuses = async || {
            let mut statuses = vec![];
            for key in [Some(&*alice), Some(wrong), None] {
                statuses.push(hub.get("/agents", key).await.status);
            }
            statuses.push(hub.post("/register", None, &json!({"agent_id": "carol"})).await.status);
            statuses
        };
        clock.step(step);
        assert_eq!(statuses().await, [429, 429, 429, 429], "{step}");
        clock.advance(2000);
        assert_eq!(statuses().await, [200, 401, 200, 429], "{step}");
        clock.advance(30_000);
        assert_eq!(statuses().await, [200, 401, 200, 201], "{step}");
        let uptime = hub.get("/health", None).await.data()["uptime_s"].clone();
        assert_eq!(uptime, 32, "{step}");
    }
}

/// A token is cached for a second, and not for an hour.
#[tokio::test]
async fn what_was_revoked_elsewhere_ends() {
    for (setup, clock, step) in everywhere() {
        let hub = setup.start();
        let ann = hub.account("ann@mail.example").await;
        assert_eq!(hub.get("/api/v1/me", Some(&ann)).await.status, 200);
        clock.step(step);
        assert_eq!(hub.get("/api/v1/me", Some(&ann)).await.status, 200, "nobody is thrown out by it");
        let revoke = |tx: &mut dyn Tx| tx.execute("DELETE FROM credentials", &[]);
        hub.store().write::<_, StoreError, _>(revoke).await.unwrap();
        clock.advance(1000);
        assert_eq!(hub.get("/api/v1/me", Some(&ann)).await.status, 401, "{step}");
    }
}

/// The limit on an agent's messages in a conversation.
#[tokio::test]
async fn an_agent_that_said_enough() {
    for (setup, clock, step) in everywhere() {
        let fixture = ChannelFixture::on(&setup.config(|config| config.rate_limit = Some(6000))).await;
        let made = fixture.agent(&json!({"name": "timber"})).await;
        fixture.join(&fixture.channel, "timber").await;
        let path = format!("/api/v1/channels/{}/messages", fixture.channel);
        let say = async || fixture.hub.post(&path, made["api_key"].as_str(), &json!({"content": "x"})).await;
        for _ in 0..30 {
            assert_eq!(say().await.status, 201);
        }
        clock.step(step);
        say().await.own_failure(Code::RateLimited);
        clock.advance(2000);
        assert_eq!(say().await.status, 201, "{step}");
    }
}

/// An open inbox stays open, and messages to it arrive.
#[tokio::test]
async fn an_open_inbox_stays_open() {
    for (setup, clock, step) in everywhere() {
        let hub = setup.start();
        let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
        let mut inbox = hub.inbox(&bob, None).await;
        hub.send(&alice, "alice", "bob", "before").await;
        clock.step(step);
        hub.send(&alice, "alice", "bob", "at once").await;
        eventually(async || hub.online("bob").await, |online| *online).await;
        assert_eq!(hub.send(&alice, "alice", "bob", "after").await.outcome(), (200, "delivered_sse"));
        assert_eq!(inbox.texts(3).await, ["before", "at once", "after"], "{step}");
        drop(inbox);
        eventually(async || hub.online("bob").await, |online| !*online).await;
    }
}

/// A delivery that waits for its next attempt is neither postponed by an hour nor lost.
#[tokio::test]
async fn what_is_pushed_arrives() {
    for (setup, clock, step) in everywhere() {
        let (fixture, timber) = (ChannelFixture::on(&setup).await, FakeAgent::start().await);
        fixture.connected("timber", &timber).await;
        timber.set(Reply::Json(503, json!({})));
        let event = fixture.say("@timber hello").await;
        timber.wait_for(1, SOON).await;
        fixture.recorded(&clock).await;
        timber.set(Reply::Json(200, json!({})));
        clock.step(step);
        fixture.delivery_is(&event, "delivered").await;
        let event = fixture.say("@timber again").await;
        fixture.delivery_is(&event, "delivered").await;
    }
}

/// A relay send in progress when the clock is set is recorded with its real outcome.
#[tokio::test]
async fn what_is_on_its_way_is_recorded_as_it_ended() {
    for (setup, clock, step) in everywhere() {
        let (hub, receiver) = (setup.start(), FakeAgent::start().await);
        let alice = hub.register("alice").await;
        hub.register_webhook("hook", &receiver.url()).await;
        receiver.set(Reply::Slow(std::time::Duration::from_secs(2), Box::new(Reply::Json(200, json!({})))));
        let sent = async {
            let sent = hub.send(&alice, "alice", "hook", "hi").await;
            assert_eq!(sent.outcome(), (200, "delivered"), "{step}");
        };
        let set = async {
            receiver.wait_for(1, SOON).await;
            clock.step(step);
        };
        tokio::join!(sent, set);
        let state = |tx: &mut dyn Tx| {
            let row = tx.first("SELECT state FROM deliveries", &[])?;
            row.map(|mut row| row.text("state")).transpose()
        };
        let state = hub.store().read::<_, StoreError, _>(state).await.unwrap();
        assert_eq!(state.as_deref(), Some("delivered"), "{step}");
    }
}

/// Sign-in links can be requested; earlier ones may have expired.
#[tokio::test]
async fn people_can_sign_in() {
    for (setup, clock, step) in everywhere() {
        let folder = tempfile::tempdir().unwrap();
        let set = |config: &mut Config| {
            config.rate_limit = Some(6000);
            config.quotas.mails_address = 50;
            config.mail = Mail::Folder(folder.path().into());
        };
        let hub = setup.config(set).start();
        let count = || std::fs::read_dir(folder.path()).unwrap().count();
        let ask = async |wanted: usize| {
            let asked = hub.post("/api/v1/signin", None, &json!({"email": "ann@mail.example"})).await;
            assert_eq!(asked.status, 202);
            eventually(async || count(), |count| *count == wanted).await;
        };
        for n in 1..=10 {
            ask(n).await;
        }
        clock.step(step);
        ask(11).await;
        let page: Answer = hub.get("/signin", None).await;
        assert_eq!(page.status, 200);
    }
}

/// A silent endpoint is probed again after a while.
#[tokio::test]
async fn who_was_silent_is_asked_again() {
    for (setup, clock, step) in everywhere() {
        let (hub, receiver) = (setup.start(), FakeAgent::start().await);
        receiver.set(Reply::Json(503, json!({})));
        trader_at(&hub, "worker", 0, Some(&receiver.url())).await;
        clock.advance(HOUR);
        let found = async || hub.get("/market/discover?skill=analyze_text", None).await.body["total"].clone();
        assert_eq!(found().await, 0, "{step}");
        clock.step(step);
        receiver.set(Reply::Json(200, json!({})));
        clock.advance(20_000);
        assert_eq!(found().await, 1, "{step}");
    }
}
