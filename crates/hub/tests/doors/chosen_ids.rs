//! Ids chosen by callers: none collides with another object, and none affects the transparency log.

use crate::channel_fixture::ChannelFixture;
use crate::choir::{issued, made};
use crate::market::{BEGIN, registration, trader};
use crate::support::{Setup, TestHub, envelope, eventually};
use chorus_protocol::code::Code;
use chorus_store::{StoreError, StreamKey, Tx};
use chorus_testkit::clock::ManualClock;
use serde_json::{Value, json};
use uuid::Uuid;

/// The fixed id of the log's stream.
const LOG: &str = "63686f69-7200-4000-8000-6c6f67000001";

async fn register_as(hub: &TestHub, id: &str) -> crate::support::Answer {
    let mut body = registration("mallory", "mallory", "1");
    body["agent_id"] = json!(id);
    hub.post("/market/register", None, &body).await
}

async fn log_is(hub: &TestHub, clock: &ManualClock, size: u64, ok: bool) -> Value {
    // The slower steps of the background work run at the next tick.
    clock.advance(11_000);
    let ask = async || hub.get("/health", None).await.data()["log"].clone();
    eventually(ask, |log| log["size"] == size && log["ok"] == ok).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_takes_the_id_of_the_log() {
    for setup in [Setup::new(), Setup::postgres()] {
        let clock = ManualClock::new(BEGIN);
        let hub = setup.clock(&clock).start();
        let anna = hub.account("anna@example.com").await;
        let score = made(&hub, &anna).await;
        let receipt = issued(&hub, &score, &anna).await;

        let taken = register_as(&hub, LOG).await;
        taken.own_failure(Code::Conflict);
        let key = taken.body["api_key"].as_str().unwrap_or("ca_0");
        hub.send_envelope(key, "mallory@localhost", &envelope("mallory@localhost", "me")).await;

        let receipt = receipt["receipt_id"].as_str().unwrap();
        for path in ["/api/v1/log/checkpoint", &format!("/api/public/verify/{receipt}")] {
            let answer = hub.get(path, None).await;
            assert_eq!(answer.status, 200, "{path}: {}", answer.text);
        }
        issued(&hub, &score, &anna).await;
        log_is(&hub, &clock, 2, true).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_log_is_reported_and_repaired() {
    for setup in [Setup::new(), Setup::postgres()] {
        let clock = ManualClock::new(BEGIN);
        let hub = setup.clock(&clock).start();
        log_is(&hub, &clock, 0, true).await;
        let anna = hub.account("anna@example.com").await;
        let score = made(&hub, &anna).await;
        for _ in 0..3 {
            issued(&hub, &score, &anna).await;
        }
        let before = hub.get("/api/v1/log/checkpoint", None).await.text;
        log_is(&hub, &clock, 3, true).await;

        let damage = |tx: &mut dyn Tx| {
            tx.execute("DELETE FROM log_nodes WHERE level = 1", &[])?;
            tx.next_seq(StreamKey::LOG)
        };
        hub.store().write::<_, StoreError, _>(damage).await.unwrap();
        log_is(&hub, &clock, 3, false).await;
        assert_eq!(hub.get("/api/v1/log/checkpoint", None).await.status, 500);

        let repair = hub.store().write(chorus_hub::repair_log).await.unwrap();
        assert_eq!((repair.former_size, repair.size, repair.added_nodes, repair.removed_nodes), (4, 3, 1, 0));
        let again = hub.store().write(chorus_hub::repair_log).await.unwrap();
        assert_eq!((again.former_size, again.size, again.added_nodes, again.removed_nodes), (3, 3, 0, 0));
        log_is(&hub, &clock, 3, true).await;
        assert_eq!(hub.get("/api/v1/log/checkpoint", None).await.text.lines().nth(2), before.lines().nth(2));
        issued(&hub, &score, &anna).await;
        log_is(&hub, &clock, 4, true).await;

        // A missing or changed leaf cannot be recomputed.
        let change = |tx: &mut dyn Tx| tx.execute("UPDATE log_leaves SET leaf = '{}' WHERE place = 1", &[]);
        hub.store().write::<_, StoreError, _>(change).await.unwrap();
        let refused = hub.store().write(chorus_hub::repair_log).await.unwrap_err();
        assert!(refused.to_string().contains("leaf 1"), "{refused}");
        let remove = |tx: &mut dyn Tx| tx.execute("DELETE FROM log_leaves WHERE place = 1", &[]);
        hub.store().write::<_, StoreError, _>(remove).await.unwrap();
        let refused = hub.store().write(chorus_hub::repair_log).await.unwrap_err();
        assert!(refused.to_string().contains("leaf 1"), "{refused}");
    }
}

/// An agent cannot take an id that is in use, neither that of a left work stream nor any other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_takes_nobody_elses_id() {
    for setup in [Setup::new(), Setup::postgres()] {
        let fixture = ChannelFixture::on(&setup).await;
        let hub = &fixture.hub;
        let new = json!({"name": "migration", "conversations": [fixture.channel]});
        let stream = hub.post("/api/v1/streams", Some(&fixture.anna), &new).await.body["id"].clone();
        let event = fixture.say("the first table is moved").await;
        let score = made(hub, &fixture.anna).await;
        let account = hub.get("/api/v1/me", Some(&fixture.anna)).await.body["id"].clone();
        let boss = trader(hub, "boss", 5).await;
        let worker = trader(hub, "worker", 0).await;
        let transfer = Uuid::from_u128(0x1234_5678_1234_4234_8234_1234_5678_9abc);
        let body = json!({"transfer_id": transfer.to_string(), "from_owner": boss.owner, "to_owner": worker.owner, "amount": 1});
        let moved = hub.post("/market/transfer", Some(&boss.owner_key), &body).await;
        assert_eq!(moved.status, 200, "{}", moved.text);

        let ids = [
            stream.as_str().unwrap(),
            &event,
            &fixture.channel,
            account.as_str().unwrap(),
            score.rsplit_once('/').unwrap().1,
            &transfer.to_string(),
        ];
        for id in ids {
            let uuid = Uuid::try_parse(id.rsplit_once('_').map_or(id, |(_, id)| id)).unwrap();
            let refused = register_as(hub, &uuid.to_string()).await;
            assert_eq!(
                refused.own_failure(Code::Conflict),
                "agent_id: this id was used before; take another one"
            );
        }
        let free = register_as(hub, "1f0c9c5e-7d1b-4c55-9e3b-0d7f3f2a9b11").await;
        assert_eq!(free.status, 201, "{}", free.text);
    }
}
