//! Outages of the hub: open jobs get their time back, and leases of long attempts are renewed.

use crate::attention::MENTIONED;
use crate::market::{agreed, wallet};
use crate::market_agents::listed;
use crate::support::{Fixture, LEASE_END, NODE, NOW, fresh, on_both, read, write};
use chorus_protocol::ids::{AgentId, DeliveryId, JobId, TraceId, WalletId};
use chorus_protocol::market::UncountedReason;
use chorus_store::deliveries::Lease;
use chorus_store::market::agents::{self, NewListing, Skill};
use chorus_store::market::jobs::{self, Agreed, Job};
use chorus_store::market::outages;
use chorus_store::push::{self, Due, Outcome, Room};
use chorus_store::{Store, directory};
use std::collections::BTreeSet;

on_both![
    open_jobs_get_the_time_of_an_outage_back,
    a_lease_is_renewed_until_its_try_ends,
    an_agent_that_answers_many_jobs_gets_other_things,
];

async fn worker(store: &Store, owner: WalletId) -> AgentId {
    let id = listed(store, "worker", owner, &[]).await;
    let skill = Skill {
        name: "sum".into(),
        description: None,
        cost: crate::market::credits(10),
        input_schema: None,
        output_schema: None,
        min_deadline_ms: None,
    };
    let new = NewListing {
        agent: id,
        wallet: owner,
        display_name: "worker".into(),
        endpoint: Some("https://worker.example/".into()),
        skills: vec![skill],
        trace: TraceId(fresh()),
    };
    write(store, move |tx| agents::save(tx, &new, NOW)).await;
    id
}

async fn hand_out(store: &Store, job: Agreed) -> JobId {
    let id = job.id;
    write(store, move |tx| {
        jobs::insert(tx, &job)?;
        let agent = directory::by_id(tx, job.agent)?.unwrap();
        let worker = agents::as_worker(tx, agent)?;
        jobs::hand_out(tx, &job, &worker, worker.id.into(), "{\"job\": 1}", MENTIONED)
    })
    .await;
    id
}

async fn job(store: &Store, id: JobId) -> Job {
    read(store, move |tx| jobs::by_id(tx, id)).await.unwrap()
}

async fn lease(store: &Store, now: i64, until: i64) -> Vec<Due> {
    let room = Room { tries: 10, retries: 10, per_agent: 10 };
    let found = read(store, move |tx| push::find_due(tx, NODE, now, &room, &BTreeSet::new())).await;
    write(store, move |tx| push::lease(tx, &found, now, Lease { owner: NODE, until })).await
}

async fn open_jobs_get_the_time_of_an_outage_back(fixture: Fixture) {
    let store = &fixture.store;
    let (boss, owner) = (wallet(store, "boss", 100).await, wallet(store, "owner", 0).await);
    let worker = worker(store, owner).await;
    assert!(!read(store, outages::has_open_jobs).await);
    let with = |created_at, deadline_at| Agreed { created_at, deadline_at, ..agreed(boss, owner, worker) };
    let before = hand_out(store, with(NOW, NOW + 60_000)).await;
    assert!(read(store, outages::has_open_jobs).await);
    write(store, |tx| outages::tick(tx, NOW + 10_000)).await;
    // Open before the last tick, after it, and ended by then.
    let after = hand_out(store, with(NOW + 11_000, NOW + 71_000)).await;
    let over = hand_out(store, with(NOW, NOW + 10_000)).await;
    assert!(!write(store, |tx| outages::recover(tx, 3000, NOW + 13_000)).await, "too short");
    write(store, |tx| outages::tick(tx, NOW + 10_000)).await;
    assert!(write(store, |tx| outages::recover(tx, 3000, NOW + 110_000)).await);
    let down = Some(UncountedReason::HubDown);
    for (id, deadline, excuse) in
        [(before, NOW + 160_000, down), (after, NOW + 71_000 + 99_000, down), (over, NOW + 10_000, None)]
    {
        let job = job(store, id).await;
        assert_eq!((job.agreed.deadline_at, job.excuse), (deadline, excuse));
    }
    // Its delivery is extended by the same time.
    let due = lease(store, NOW + 110_000, NOW + 120_000).await;
    let mut ends: Vec<_> = due.iter().map(|due| due.give_up_at - NOW).collect();
    ends.sort_unstable();
    assert_eq!(ends, [10_000, 160_000, 170_000]);
    // A second node that starts finds nothing to return.
    assert!(!write(store, |tx| outages::recover(tx, 3000, NOW + 110_000)).await);
}

async fn a_lease_is_renewed_until_its_try_ends(fixture: Fixture) {
    let store = &fixture.store;
    let (boss, owner) = (wallet(store, "boss", 100).await, wallet(store, "owner", 0).await);
    let worker = worker(store, owner).await;
    let id = hand_out(store, Agreed { deadline_at: NOW + 1_000_000, ..agreed(boss, owner, worker) }).await;
    let event = job(store, id).await.agreed.event;
    let due = lease(store, NOW, LEASE_END).await.remove(0);
    let (again, later) = (due.clone(), LEASE_END + 1000);
    write(store, move |tx| push::renew(tx, &again, later)).await;
    assert_eq!(lease(store, LEASE_END + 999, LEASE_END + 5000).await, [], "nobody else has it");
    let finish = async |due: Due| {
        write(store, move |tx| push::finish(tx, &due, None, None, Outcome::Delivered, NOW)).await.held
    };
    // A second attempt after the lease expired: the first one can neither finish nor renew it.
    let second = lease(store, later, later + 5000).await.remove(0);
    let first = due.clone();
    write(store, move |tx| push::renew(tx, &first, later + 9000)).await;
    assert!(!finish(due).await);
    assert!(finish(second).await);
    assert!(read(store, move |tx| jobs::is_open(tx, event)).await);
    write(store, move |tx| jobs::excuse(tx, event, UncountedReason::CutOff, "cut")).await;
    write(store, move |tx| jobs::excuse(tx, event, UncountedReason::AtLimit, "full")).await;
    let job = job(store, id).await;
    assert_eq!((job.excuse, job.note.as_deref()), (Some(UncountedReason::CutOff), Some("full")));
}

async fn an_agent_that_answers_many_jobs_gets_other_things(fixture: Fixture) {
    let store = &fixture.store;
    let (boss, owner) = (wallet(store, "boss", 100).await, wallet(store, "owner", 0).await);
    let worker = worker(store, owner).await;
    hand_out(store, agreed(boss, owner, worker)).await;
    // The result of a job that it requested itself.
    let own = Agreed { orchestrator: Some(worker), ..agreed(boss, owner, worker) };
    write(store, move |tx| jobs::call_back(tx, &own, MENTIONED, NOW)).await;
    let room = Room { tries: 10, retries: 10, per_agent: 10 };
    for (open, expected) in [(0, 2), (15, 2), (16, 1)] {
        let long = (1..=open).map(|n| DeliveryId { agent: worker, seq: 1000 + n }).collect::<BTreeSet<_>>();
        let found = read(store, move |tx| push::find_due(tx, NODE, NOW, &room, &long)).await;
        assert_eq!(found.len(), expected, "{open}");
    }
}
