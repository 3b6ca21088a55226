//! Sent envelopes as their senders find them, the same before and after sorting.

use crate::support::{Fixture, NOW, agent, count, deliver, entries, message, on_both, read, write};
use chorus_protocol::ids::{AgentId, TraceId};
use chorus_store::directory::Agent;
use chorus_store::sent::{self, Place};
use chorus_store::{Kind, Store, Tx, conversations, inboxes, push, relay, retention};
use uuid::Uuid;

on_both![
    what_was_sent_is_found_in_any_order,
    what_is_kept_no_longer_is_not_found,
    what_is_kept_no_longer_is_not_brought_in_order,
    many_are_brought_in_order,
    a_delivery_is_found_by_its_envelope,
];

fn trace(n: u128) -> TraceId {
    TraceId(Uuid::from_u128(n))
}

async fn send_as(store: &Store, from: &Agent, to: &Agent, n: u128) {
    deliver(store, relay::Send { trace: trace(n), ..message(from, to) }).await;
}

/// Returns the traces of a page, by number.
async fn page(store: &Store, sender: AgentId, after: Option<Place>, limit: i64) -> Vec<u128> {
    let page = read(store, move |tx| sent::page(tx, sender, after, limit)).await;
    page.iter().map(|sent| sent.trace.0.as_u128()).collect()
}

/// Sorts the first `first` rows, if there are that many. Returns whether there were.
async fn sort(store: &Store, first: usize) -> bool {
    let found = read(store, move |tx| sent::find_unsorted(tx, first, first)).await;
    let sorted = !found.is_empty();
    // Doing it twice is harmless.
    for _ in 0..2 {
        let found = found.clone();
        write(store, move |tx| sent::sort(tx, &found)).await;
    }
    sorted
}

async fn what_was_sent_is_found_in_any_order(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob) = (agent(store, "anna").await, agent(store, "bob").await);
    for n in [3, 1, 5, 2, 4] {
        send_as(store, &anna, &bob, n).await;
    }
    send_as(store, &bob, &anna, 6).await;
    // PostgreSQL needs no sorting.
    for sorted in [false, store.kind() == Kind::Sqlite] {
        if sorted {
            assert!(!sort(store, 7).await, "there are fewer");
            assert!(sort(store, 3).await);
            assert_eq!(count(store, "SELECT COUNT(*) AS count FROM sent").await, 3);
            assert_eq!(count(store, "SELECT COUNT(*) AS count FROM sent_lately").await, 3);
        }
        assert_eq!(page(store, anna.id, None, 9).await, [5, 4, 3, 2, 1]);
        assert_eq!(page(store, anna.id, None, 4).await, [5, 4, 3, 2]);
        let fourth = read(store, {
            let anna = anna.id;
            move |tx| sent::one(tx, anna, trace(4))
        });
        let fourth = fourth.await.unwrap();
        assert_eq!((fourth.receiver.as_str(), fourth.seq), ("bob", 5));
        assert_eq!(page(store, anna.id, Some((fourth.trace, fourth.seq)), 2).await, [3, 2]);
        assert_eq!(page(store, bob.id, None, 9).await, [6]);
        let (anna, foreign) = (anna.id, trace(6));
        assert_eq!(read(store, move |tx| sent::one(tx, anna, foreign)).await, None, "it is bob's");
    }
    send_as(store, &anna, &bob, 7).await;
    assert_eq!(page(store, anna.id, None, 2).await, [7, 5], "what comes later is there at once");
}

async fn what_is_kept_no_longer_is_not_found(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob) = (agent(store, "anna").await, agent(store, "bob").await);
    for n in 1..=4 {
        send_as(store, &anna, &bob, n).await;
    }
    sort(store, 2).await;
    let bob = bob.id;
    write(store, move |tx| inboxes::hand_through(tx, bob, 3, NOW)).await;
    write(store, move |tx| retention::remove_before(tx, NOW + 1, 100)).await;
    assert_eq!(page(store, anna.id, None, 9).await, [4], "wherever the others were");
    let left = "SELECT (SELECT COUNT(*) FROM sent) + (SELECT COUNT(*) FROM sent_lately) AS count";
    assert_eq!(count(store, left).await, 1);
}

async fn what_is_kept_no_longer_is_not_brought_in_order(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob) = (agent(store, "anna").await, agent(store, "bob").await);
    for n in 1..=2 {
        send_as(store, &anna, &bob, n).await;
    }
    let found = read(store, |tx| sent::find_unsorted(tx, 1, 9)).await;
    let bob = bob.id;
    write(store, move |tx| inboxes::hand_through(tx, bob, 1, NOW)).await;
    write(store, move |tx| retention::remove_before(tx, NOW + 1, 100)).await;
    write(store, move |tx| sent::sort(tx, &found)).await;
    assert_eq!(page(store, anna.id, None, 9).await, [2]);
    assert_eq!(count(store, "SELECT COUNT(*) AS count FROM sent").await, 1);
}

async fn many_are_brought_in_order(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob) = (agent(store, "anna").await, agent(store, "bob").await);
    let sends: Vec<_> = (1..=600).map(|n| relay::Send { trace: trace(n), ..message(&anna, &bob) }).collect();
    let send_all = move |tx: &mut dyn Tx| {
        for send in &sends {
            relay::send(tx, send).unwrap();
        }
        Ok(())
    };
    write(store, send_all).await;
    let first = (anna.id, bob.id);
    // A row that is already by sender.
    let by_sender = move |tx: &mut dyn Tx| {
        tx.execute(
            "INSERT INTO sent (sender_id, trace_id, seq, agent_id) VALUES ($1, $2, 1, $3) ON CONFLICT DO NOTHING",
            &[(&first.0).into(), (&trace(1)).into(), (&first.1).into()],
        )
    };
    write(store, by_sender).await;
    assert!(!sent::sort_a_lot(store).await.unwrap(), "there are no more");
    assert_eq!(count(store, "SELECT COUNT(*) AS count FROM sent_lately").await, 0);
    assert_eq!(page(store, anna.id, None, 600).await, (1..=600).rev().collect::<Vec<_>>());
    send_as(store, &anna, &bob, 601).await;
    assert!(!sent::sort_a_lot(store).await.unwrap());
    assert_eq!(page(store, anna.id, None, 1).await, [601], "a few stay where they are");
}

/// Before its receiver acts on it, nothing is stored of it but that it was sent.
async fn a_delivery_is_found_by_its_envelope(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob) = (agent(store, "anna").await, agent(store, "bob").await);
    send_as(store, &anna, &bob, 1).await;
    let event = entries(store, bob.id).await.remove(0).event;
    let find = move |tx: &mut dyn Tx| {
        let envelope = conversations::event_by_id(tx, event)?.unwrap();
        Ok((push::of_envelope(tx, &envelope)?.unwrap(), envelope))
    };
    let (found, envelope) = read(store, find).await;
    assert_eq!((found.event, found.conversation), (envelope.id, envelope.conversation));
    assert_eq!((found.agent.as_str(), found.trace, found.sent), ("bob", trace(1), 1));
}
