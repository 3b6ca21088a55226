//! Background work continues past a broken row, and runs once for all nodes.

use crate::channel_fixture::{BEGIN, ChannelFixture, MINUTE};
use crate::market::{balance, trader};
use crate::market_jobs::{ended, hire, job};
use crate::support::{Setup, TestHub, eventually};
use chorus_store::{StoreError, Tx};
use chorus_testkit::clock::ManualClock;
use serde_json::json;
use std::collections::BTreeSet;

async fn spoil(hub: &TestHub, sql: &'static str) {
    let write = move |tx: &mut dyn Tx| tx.execute(sql, &[]);
    assert_eq!(hub.store().write::<_, StoreError, _>(write).await.unwrap(), 1);
}

/// Adds an agent that does not answer, and a lead who gets the escalation.
async fn silent_and_lead(fixture: &ChannelFixture) {
    for (name, leads) in [("silent", false), ("chief", true)] {
        fixture.hub.register(name).await;
        let path = format!("/api/v1/channels/{}/members", fixture.channel);
        let body = json!({"agent": name, "handle": name, "lead": leads});
        let added = fixture.hub.post(&path, Some(&fixture.anna), &body).await;
        assert_eq!(added.status, 201, "{}", added.text);
    }
}

/// Returns the escalated events, one entry per escalation.
async fn escalated(fixture: &ChannelFixture) -> Vec<String> {
    let log = fixture.log().await;
    let escalations = log.into_iter().filter(|event| event["kind"] == "escalation");
    escalations.map(|event| event["target"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn one_broken_row_keeps_no_other_deadline() {
    let (fixture, clock) = ChannelFixture::with_clock().await;
    silent_and_lead(&fixture).await;
    fixture.say("@silent is one done?").await;
    let second = fixture.say("@silent is two done?").await;
    spoil(&fixture.hub, "UPDATE chats SET policy = 'nonsense' WHERE seq = (SELECT MIN(seq) FROM chats)")
        .await;
    for _ in 0..2 {
        clock.set(clock.now() + 5 * MINUTE);
        fixture.hub.background_round().await;
    }
    let told = eventually(async || escalated(&fixture).await, |told| !told.is_empty()).await;
    assert_eq!(told, [second]);
}

#[tokio::test]
async fn one_broken_job_keeps_no_other_from_its_refund() {
    let clock = ManualClock::new(BEGIN);
    let hub = Setup::new().clock(&clock).start();
    let (boss, worker) = (trader(&hub, "boss", 1).await, trader(&hub, "worker", 0).await);
    let jobs = [(1, 60_000), (2, 120_000)].map(|(n, deadline)| {
        let mut job = job(n, &worker.id);
        job["deadline_ms"] = json!(deadline);
        job
    });
    for job in &jobs {
        hire(&hub, &boss.key, job).await;
    }
    let first = "UPDATE jobs SET agent_id = substr(agent_id, 2) WHERE deadline_at = (SELECT MIN(deadline_at) FROM jobs)";
    spoil(&hub, first).await;
    clock.advance(120_000);
    assert_eq!(ended(&hub, &boss.key, &jobs[1]).await["status"], "FAILURE");
    assert_eq!(balance(&hub, &boss.owner).await.1, 0.15, "of the broken one");
}

/// Two nodes process the same deadlines at the same moments.
#[tokio::test]
async fn what_is_due_on_two_nodes_is_escalated_once() {
    let clock = ManualClock::new(BEGIN);
    let setup = Setup::postgres().clock(&clock);
    let fixture = ChannelFixture::on(&setup).await;
    let _other = setup.start();
    silent_and_lead(&fixture).await;
    let mut said = BTreeSet::new();
    for n in 0..40 {
        said.insert(fixture.say(&format!("@silent is number {n} done?")).await);
    }
    clock.set(clock.now() + 5 * MINUTE);
    let reminded = "SELECT COUNT(*) AS count FROM chats WHERE reminded_at IS NULL";
    eventually(async || crate::catch_up::number(&fixture.hub, reminded).await, |left| *left == 0).await;
    clock.set(clock.now() + 5 * MINUTE);
    let told = eventually(async || escalated(&fixture).await, |told| told.len() >= 40).await;
    assert_eq!(told.len(), 40, "each once");
    assert_eq!(told.into_iter().collect::<BTreeSet<_>>(), said);
}
