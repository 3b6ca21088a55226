//! Reconciling steps of the database.

use crate::channel::{act, join, post_of, room};
use crate::support::{
    Fixture, LEASE_END, NODE, NOW, agent, count, deliver, entries, fresh, message, on_both, post, posted,
    read, record, webhook, write,
};
use chorus_protocol::ids::AgentId;
use chorus_protocol::words::DeliveryState;
use chorus_store::conversations::History;
use chorus_store::deliveries;
use chorus_store::directory::{self, Agent};
use chorus_store::inboxes::Opened;
use chorus_store::relay;
use chorus_store::{Store, Tx, TxExt, inboxes, retention};

on_both![
    only_abandoned_postings_fail,
    an_outcome_that_comes_too_late_changes_nothing,
    only_what_is_old_and_handed_is_removed,
    removing_is_bounded,
    an_inbox_knows_its_oldest_entry,
    what_waits_is_not_skipped_for_what_was_posted,
    what_is_being_posted_stays,
    large_bodies_go_with_their_events,
    what_never_arrives_keeps_nothing_else,
];

async fn fail_abandoned(store: &Store, now: i64) -> u64 {
    write(store, move |tx: &mut dyn Tx| deliveries::fail_abandoned(tx, now)).await
}

/// Returns the numbers of removed deliveries and events. The quota tests check their bytes.
async fn remove_before(store: &Store, cutoff: i64, limit: i64) -> (u64, u64) {
    let removed = write(store, move |tx: &mut dyn Tx| retention::remove_before(tx, cutoff, limit)).await;
    (removed.deliveries, removed.events)
}

fn removed(count: u64) -> (u64, u64) {
    (count, count)
}

async fn hand(store: &Store, agent: AgentId, seq: i64) {
    write(store, move |tx| inboxes::hand_through(tx, agent, seq, 0)).await;
}

async fn opened(store: &Store, agent: AgentId) -> Opened {
    let open = move |tx: &mut dyn Tx| inboxes::open(tx, agent, fresh(), NODE, 0);
    write(store, open).await.unwrap()
}

async fn places(store: &Store, agent: AgentId) -> Vec<i64> {
    entries(store, agent).await.into_iter().map(|entry| entry.seq).collect()
}

/// Sends messages at these times.
async fn deliver_at(store: &Store, from: &Agent, to: &Agent, times: impl IntoIterator<Item = i64>) {
    for now in times {
        deliver(store, relay::Send { now, ..message(from, to) }).await;
    }
}

async fn only_abandoned_postings_fail(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob, carl) =
        (agent(store, "anna").await, webhook(store, "bob").await, agent(store, "carl").await);
    post(store, message(&anna, &bob)).await;
    let done = post(store, message(&anna, &bob)).await;
    posted(store, done, DeliveryState::Delivered, NOW).await;
    let mut young = message(&anna, &bob);
    young.lease.until = LEASE_END + 500;
    post(store, young).await;
    deliver(store, message(&anna, &carl)).await;

    assert_eq!(fail_abandoned(store, LEASE_END).await, 0);
    assert_eq!(fail_abandoned(store, LEASE_END + 1).await, 1);
    assert_eq!(fail_abandoned(store, LEASE_END + 1).await, 0);
    let states: Vec<DeliveryState> = entries(store, bob.id).await.iter().map(|entry| entry.state).collect();
    assert_eq!(states, [DeliveryState::Failed, DeliveryState::Delivered, DeliveryState::Sending]);
    let why = read(store, |tx| {
        let sql = "SELECT error_code, detail, updated_at FROM deliveries WHERE state = 'failed'";
        let mut row = tx.first(sql, &[])?.unwrap();
        Ok((row.text("error_code")?, row.text("detail")?.is_empty(), row.int("updated_at")?))
    });
    assert_eq!(why.await, ("ERR_AGENT_UNREACHABLE".into(), false, LEASE_END + 1));
    assert_eq!(entries(store, carl.id).await[0].state, DeliveryState::Queued);
    assert_eq!(fail_abandoned(store, i64::MAX).await, 1);
}

async fn an_outcome_that_comes_too_late_changes_nothing(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob) = (agent(store, "anna").await, webhook(store, "bob").await);
    let posting = post(store, message(&anna, &bob)).await;
    fail_abandoned(store, LEASE_END + 1).await;
    posted(store, posting, DeliveryState::Delivered, LEASE_END + 2).await;
    assert_eq!(entries(store, bob.id).await[0].state, DeliveryState::Failed);
}

async fn only_what_is_old_and_handed_is_removed(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob, carl) =
        (agent(store, "anna").await, agent(store, "bob").await, agent(store, "carl").await);
    deliver_at(store, &anna, &bob, [1, 2, 3, 4, 5]).await;
    deliver_at(store, &anna, &carl, [1, 2]).await;
    assert_eq!(remove_before(store, 99, 100).await, removed(0), "nobody was handed anything");
    hand(store, bob.id, 4).await;
    assert_eq!(remove_before(store, 1, 100).await, removed(0));
    assert_eq!(remove_before(store, 4, 100).await, removed(3), "what is of the cutoff itself stays");
    assert_eq!(places(store, bob.id).await, [4, 5]);
    assert_eq!(remove_before(store, 99, 100).await, removed(1));
    assert_eq!(remove_before(store, 99, 100).await, removed(0));
    assert_eq!(places(store, bob.id).await, [5]);
    assert_eq!(places(store, carl.id).await, [1, 2]);
    assert_eq!(count(store, "SELECT COUNT(*) AS count FROM events").await, 3);
    // The stream continues where it was.
    deliver_at(store, &anna, &bob, [6]).await;
    assert_eq!(places(store, bob.id).await, [5, 6]);
}

async fn removing_is_bounded(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob, carl) =
        (agent(store, "anna").await, agent(store, "bob").await, agent(store, "carl").await);
    for to in [&bob, &carl] {
        deliver_at(store, &anna, to, [1, 2, 3, 4]).await;
        hand(store, to.id, 4).await;
    }
    for expected in [3, 3, 2, 0] {
        assert_eq!(remove_before(store, 99, 3).await, removed(expected));
        for agent in [bob.id, carl.id] {
            // An inbox and its mark agree at every point.
            let (places, opened) = (places(store, agent).await, opened(store, agent).await);
            assert_eq!(places, (opened.oldest..=opened.head).collect::<Vec<_>>());
        }
    }
}

async fn an_inbox_knows_its_oldest_entry(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob) = (agent(store, "anna").await, agent(store, "bob").await);
    deliver_at(store, &anna, &bob, [1, 2, 3]).await;
    hand(store, bob.id, 2).await;
    assert_eq!(opened(store, bob.id).await, Opened { handed_through: 2, oldest: 1, head: 3 });
    remove_before(store, 99, 100).await;
    assert_eq!(opened(store, bob.id).await, Opened { handed_through: 2, oldest: 3, head: 3 });
    hand(store, bob.id, 3).await;
    remove_before(store, 99, 100).await;
    assert_eq!(opened(store, bob.id).await, Opened { handed_through: 3, oldest: 4, head: 3 });
}

/// A message waits in the inbox, and younger ones went to the agent's newer endpoint. Those may be removed;
/// the waiting one must be neither skipped by its reader nor left behind.
async fn what_waits_is_not_skipped_for_what_was_posted(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob) = (agent(store, "anna").await, agent(store, "bob").await);
    deliver_at(store, &anna, &bob, [1]).await;
    let before = bob.clone();
    write(store, move |tx| {
        let record = record("bob", Some("https://bob.example/"));
        directory::update(tx, before.clone(), &record, None, NOW)
    })
    .await;
    for now in [2, 3] {
        let posting = post(store, relay::Send { now, ..message(&anna, &bob) }).await;
        posted(store, posting, DeliveryState::Delivered, now).await;
    }
    assert_eq!(remove_before(store, 99, 100).await, removed(2));
    assert_eq!(places(store, bob.id).await, [1]);
    assert_eq!(opened(store, bob.id).await, Opened { handed_through: 0, oldest: 1, head: 3 });
    hand(store, bob.id, 1).await;
    assert_eq!(remove_before(store, 99, 100).await, removed(1));
    assert_eq!(opened(store, bob.id).await, Opened { handed_through: 1, oldest: 2, head: 3 });
}

async fn what_is_being_posted_stays(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob) = (agent(store, "anna").await, webhook(store, "bob").await);
    let posting = post(store, relay::Send { now: 1, ..message(&anna, &bob) }).await;
    assert_eq!(remove_before(store, 99, 100).await, removed(0));
    posted(store, posting, DeliveryState::Failed, 2).await;
    assert_eq!(remove_before(store, 99, 100).await, removed(1), "it was final, nobody has to see it");
    assert_eq!(places(store, bob.id).await, [0; 0]);
}

async fn large_bodies_go_with_their_events(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob) = (agent(store, "anna").await, agent(store, "bob").await);
    for now in [1, 2] {
        let envelope = "x".repeat(100_000);
        deliver(store, relay::Send { envelope, now, ..message(&anna, &bob) }).await;
    }
    hand(store, bob.id, 1).await;
    assert_eq!(remove_before(store, 99, 100).await, removed(1));
    assert_eq!(count(store, "SELECT COUNT(*) AS count FROM large_bodies").await, 1);
    assert_eq!(entries(store, bob.id).await[0].body.len(), 100_000);
}

/// Many conversations begin with undeliverable messages; old messages of others are removed nevertheless.
async fn what_never_arrives_keeps_nothing_else(fixture: Fixture) {
    let store = &fixture.store;
    let bob = agent(store, "bob").await;
    let mut rooms = vec![];
    for _ in 0..25 {
        let room = room(store, History::All).await;
        join(store, room, bob.id.into(), "bob").await;
        rooms.push(room);
    }
    rooms.sort_by_key(|room| room.id.0);
    let (last, stuck) = rooms.split_last().unwrap();
    let first_of_each = "UPDATE conversations SET oldest = (SELECT MAX(seq) FROM events WHERE conversation_id = conversations.id)";
    for room in &rooms {
        let to: &[&str] = if room.id == last.id { &[] } else { &["bob"] };
        crate::channel::post(store, act(*room, room.owner), post_of("hello", to, None)).await.unwrap();
    }
    write(store, move |tx| tx.execute(first_of_each, &[])).await;
    assert_eq!(
        count(store, "SELECT COUNT(*) AS count FROM chats WHERE next_at IS NOT NULL").await,
        stuck.len() as i64
    );
    let step = |tx: &mut dyn Tx| retention::remove_said(tx, NOW + 1000, Some(1), 100);
    assert_eq!(write(store, step).await.events, 1, "of the last one");
    assert_eq!(write(store, step).await.events, 0);
}
