//! Choice of the next deliveries and their transport, while the transports of an agent change.

use crate::push::{
    ROOM, attempt, connected, conversation, finish, ids, lease, lease_in, next_due, record, say, say_at,
    taken,
};
use crate::support::{Fixture, NOW, agent, entries, on_both, read, webhook, write};
use chorus_protocol::ids::{AgentId, DeliveryId};
use chorus_protocol::words::DeliveryState;
use chorus_store::deliveries::{self, Transport, Way};
use chorus_store::directory::{self, Record};
use chorus_store::push::{self, Outcome, Room};
use chorus_store::{Store, access, inboxes};
use uuid::Uuid;

on_both!(
    those_that_hang_hold_up_nobody,
    a_busy_agent_with_much_to_come_holds_up_nobody,
    what_waits_takes_the_way_there_is,
    what_waits_goes_into_an_inbox_that_opens,
    what_waits_goes_before_what_is_new,
    another_way_is_found_although_nothing_is_due,
    who_has_no_better_way_waits_on,
    what_waits_for_its_owner_is_not_tried,
    every_way_is_found_and_taken,
    what_came_to_nothing_without_a_try_has_a_reason,
);

async fn failed(store: &Store, to: AgentId) -> DeliveryId {
    let id = say(store, to, conversation()).await;
    let due = lease(store, NOW).await.remove(0);
    assert_eq!(due.id, id);
    assert!(finish(store, &due, Some(attempt(None, Some("timeout"))), Outcome::Again(NOW + 1), NOW).await);
    id
}

/// Replaces an agent's endpoint.
async fn set_endpoint(store: &Store, id: AgentId, endpoint: Option<&'static str>) {
    write(store, move |tx| {
        let agent = directory::by_id(tx, id)?.unwrap();
        let record = Record { name: agent.name.clone(), endpoint: endpoint.map(Into::into), card: None };
        directory::update(tx, agent, &record, None, NOW).map(drop)
    })
    .await;
}

async fn set_connection(store: &Store, id: AgentId, connection: Option<&'static [u8]>) {
    write(store, move |tx| directory::set_connection(tx, id, connection, NOW)).await;
}

async fn open_inbox(store: &Store, id: AgentId, until: i64) {
    let open = move |tx: &mut dyn chorus_store::Tx| {
        inboxes::open(tx, id, Uuid::from_u128(1), Uuid::from_u128(2), until)
    };
    write(store, open).await.unwrap();
}

/// Returns the entries of an inbox, oldest first: number, event and state.
async fn streamed(store: &Store, id: AgentId) -> Vec<(i64, chorus_protocol::ids::EventId, DeliveryState)> {
    let entries = entries(store, id).await.into_iter().filter(chorus_store::deliveries::Entry::is_streamed);
    entries.map(|entry| (entry.seq, entry.event, entry.state)).collect()
}

async fn those_that_hang_hold_up_nobody(fixture: Fixture) {
    let (store, node) = (&fixture.store, Uuid::from_u128(1));
    for n in 0..3 {
        let hangs = webhook(store, &format!("hangs-{n}")).await.id;
        for _ in 0..4 {
            failed(store, hangs).await;
        }
    }
    let room = Room { tries: 8, retries: 4, per_agent: 4 };
    let (one, other) = (webhook(store, "one").await.id, webhook(store, "other").await.id);
    let first = say_at(store, one, conversation(), NOW + 5).await;
    let leased = ids(&lease_in(store, node, NOW + 10, room).await);
    assert!(leased.contains(&first), "although the others have waited longer");
    assert_eq!(leased.len(), 5, "what failed before has a part of the room");
    assert_eq!(lease_in(store, node, NOW + 10, room).await, []);
    let second = say_at(store, other, conversation(), NOW + 11).await;
    assert_eq!(ids(&lease_in(store, node, NOW + 11, room).await), [second], "there is room for what is new");
}

async fn a_busy_agent_with_much_to_come_holds_up_nobody(fixture: Fixture) {
    let store = &fixture.store;
    let (busy, idle) = (webhook(store, "busy").await.id, webhook(store, "idle").await.id);
    for _ in 0..600 {
        say(store, busy, conversation()).await;
    }
    let last = say_at(store, idle, conversation(), NOW + 1).await;
    let leased = ids(&lease(store, NOW + 1).await);
    assert_eq!(leased.len(), 5);
    assert!(leased.contains(&last));
}

async fn what_waits_takes_the_way_there_is(fixture: Fixture) {
    let store = &fixture.store;
    let (bob, one) = (connected(store, "bob").await, conversation());
    let (first, second) = (say(store, bob, one).await, say(store, bob, one).await);
    set_connection(store, bob, None).await;
    set_endpoint(store, bob, Some("https://agent.example/")).await;
    let due = lease(store, NOW).await.remove(0);
    assert_eq!((due.id, due.transport), (first, Transport::Webhook));
    assert_eq!(record(store, first).await.transport, Transport::Webhook);
    assert!(finish(store, &due, Some(attempt(Some(400), None)), Outcome::Refused, NOW).await);
    set_connection(store, bob, Some(b"sealed")).await;
    set_endpoint(store, bob, None).await;
    let due = lease(store, NOW).await.remove(0);
    assert_eq!((due.id, due.transport), (second, Transport::Channel));
    assert!(taken(store, &due, NOW).await);
    assert!(write(store, move |tx| push::replay(tx, first, NOW)).await);
    let due = lease(store, NOW).await.remove(0);
    assert_eq!((due.id, due.transport), (first, Transport::Channel), "also what is replayed");
}

async fn what_waits_goes_into_an_inbox_that_opens(fixture: Fixture) {
    let store = &fixture.store;
    let (bob, one) = (webhook(store, "bob").await.id, conversation());
    let first = failed(store, bob).await;
    let (second, third) = (say(store, bob, one).await, say(store, bob, one).await);
    let mut events = vec![];
    for id in [first, second, third] {
        events.push(record(store, id).await.event);
    }
    // A reader has passed their numbers, so they need new ones to be seen.
    write(store, move |tx| inboxes::hand_through(tx, bob, third.seq, 0)).await;
    set_endpoint(store, bob, None).await;
    open_inbox(store, bob, NOW + 2).await;
    assert_eq!(lease(store, NOW + 1).await, [], "there is nothing to post");
    let got = streamed(store, bob).await;
    let expected: Vec<_> =
        (third.seq + 1..).zip(events).map(|(seq, event)| (seq, event, DeliveryState::DeliveredSse)).collect();
    assert_eq!(got, expected, "in order, and new for the reader");
    let moved = DeliveryId { agent: bob, seq: got[0].0 };
    assert_eq!(read(store, move |tx| push::attempts(tx, moved, 10)).await.len(), 1, "its tries are kept");
    assert_eq!((record(store, moved).await.transport, next_due(store).await), (Transport::Inbox, None));
}

async fn what_waits_goes_before_what_is_new(fixture: Fixture) {
    let store = &fixture.store;
    let (bob, one) = (webhook(store, "bob").await.id, conversation());
    let waits = say(store, bob, one).await;
    let due = lease(store, NOW).await.remove(0);
    open_inbox(store, bob, NOW + 1000).await;
    let behind = say_at(store, bob, one, NOW + 1).await;
    let elsewhere = say_at(store, bob, conversation(), NOW + 1).await;
    let event = record(store, elsewhere).await.event;
    assert_eq!(streamed(store, bob).await, [(elsewhere.seq, event, DeliveryState::DeliveredSse)]);
    assert_eq!(lease(store, NOW + 1).await, [], "the first is being tried");
    let again = Outcome::Again(NOW + 500);
    assert!(finish(store, &due, Some(attempt(Some(503), None)), again, NOW + 2).await);
    assert_eq!(lease(store, NOW + 2).await, []);

    // The next message does not wait for the next attempt.
    let last = say_at(store, bob, one, NOW + 3).await;
    let mut events = vec![event];
    for id in [waits, behind, last] {
        events.push(record(store, id).await.event);
    }
    assert_eq!(lease(store, NOW + 3).await, [], "nothing is posted");
    let got = streamed(store, bob).await;
    assert_eq!(got.iter().map(|(_, event, _)| *event).collect::<Vec<_>>(), events, "in order");
    assert!(got.iter().all(|(_, _, state)| *state == DeliveryState::DeliveredSse));
    assert_eq!(next_due(store).await, None);
}

async fn another_way_is_found_although_nothing_is_due(fixture: Fixture) {
    let store = &fixture.store;
    let rerouted = |now: i64| read(store, move |tx| push::find_rerouted(tx, now, 100));
    let bob = connected(store, "bob").await;
    let first = say(store, bob, conversation()).await;
    let due = lease(store, NOW).await.remove(0);
    let epoch = read(store, move |tx| directory::by_id(tx, bob)).await.unwrap().epoch;
    assert!(finish(store, &due, Some(attempt(Some(404), None)), Outcome::Broken(epoch), NOW).await);
    let second = say_at(store, bob, conversation(), NOW + 1).await;
    assert_eq!(rerouted(NOW + 2).await, [], "both wait for the owner");

    open_inbox(store, bob, NOW + 100).await;
    assert_eq!(rerouted(NOW + 2).await, [second, first]);
    assert_eq!(rerouted(NOW + 100).await, [], "it is closed again");
    set_endpoint(store, bob, Some("https://agent.example/")).await;
    let found = rerouted(NOW + 200).await;
    assert_eq!(found, [second, first]);
    write(store, move |tx| push::reroute(tx, &found, NOW + 200)).await;
    let leased = lease(store, NOW + 200).await;
    assert_eq!(ids(&leased), [first, second]);
    assert!(leased.iter().all(|due| due.transport == Transport::Webhook));
    assert_eq!(rerouted(NOW + 201).await, [], "they are on their way");
}

/// A delivery found because of another transport, which is gone by its turn, keeps waiting for the failed one.
async fn who_has_no_better_way_waits_on(fixture: Fixture) {
    let store = &fixture.store;
    let again = Outcome::Again(NOW + 500);
    let (bob, one) = (webhook(store, "bob").await.id, conversation());
    let first = say(store, bob, one).await;
    let due = lease(store, NOW).await.remove(0);
    assert!(finish(store, &due, Some(attempt(Some(503), None)), again, NOW).await);
    open_inbox(store, bob, NOW + 10).await;
    let behind = say_at(store, bob, one, NOW + 3).await;
    assert_eq!(next_due(store).await, Some(NOW + 3), "it could go into the inbox");
    assert_eq!(lease(store, NOW + 10).await, [], "which is closed by now");
    let kept = record(store, first).await;
    assert_eq!((kept.due_at, kept.attempt, kept.state), (Some(NOW + 500), 1, DeliveryState::Waiting));
    assert_eq!(next_due(store).await, Some(NOW + 500), "and nothing else is due");
    let due = lease(store, NOW + 500).await.remove(0);
    assert_eq!((due.id, due.attempt), (first, 2));
    assert!(taken(store, &due, NOW + 500).await);
    assert_eq!(ids(&lease(store, NOW + 500).await), [behind]);

    let carol = connected(store, "carol").await;
    let id = say(store, carol, conversation()).await;
    let due = lease(store, NOW).await.remove(0);
    assert!(finish(store, &due, Some(attempt(Some(503), None)), again, NOW).await);
    set_endpoint(store, carol, Some("https://agent.example/")).await;
    write(store, move |tx| push::reroute(tx, &[id], NOW + 5)).await;
    set_endpoint(store, carol, None).await;
    assert_eq!(lease(store, NOW + 5).await, []);
    assert_eq!(record(store, id).await.due_at, Some(NOW + 500));
    set_endpoint(store, carol, Some("https://agent.example/")).await;
    write(store, move |tx| push::reroute(tx, &[id], NOW + 6)).await;
    let due = lease(store, NOW + 6).await.remove(0);
    assert_eq!((due.id, due.transport), (id, Transport::Webhook), "another way need not rest");
}

async fn what_waits_for_its_owner_is_not_tried(fixture: Fixture) {
    let store = &fixture.store;
    let bob = connected(store, "bob").await;
    let id = say(store, bob, conversation()).await;
    let due = lease(store, NOW).await.remove(0);
    let epoch = read(store, move |tx| directory::by_id(tx, bob)).await.unwrap().epoch;
    assert!(finish(store, &due, Some(attempt(Some(404), None)), Outcome::Broken(epoch), NOW).await);
    write(store, move |tx| push::reroute(tx, &[id], NOW + 5)).await;
    assert_eq!(lease(store, NOW + 5).await, []);
    assert_eq!(record(store, id).await.due_at, Some(due.give_up_at));
    assert_eq!(ids(&lease(store, due.give_up_at).await), [id], "at its end it is looked at once more");

    // A disabled agent is not called, and catches up when it is enabled.
    let carol = webhook(store, "carol").await.id;
    write(store, move |tx| access::disable_agent(tx, carol, NOW)).await;
    let id = say(store, carol, conversation()).await;
    assert_eq!(lease(store, NOW + 5).await, []);
    write(store, move |tx| access::enable_agent(tx, carol, NOW + 6)).await;
    assert_eq!(ids(&lease(store, NOW + 6).await), [id]);
}

/// The SQL that finds other transports agrees with `way`.
async fn every_way_is_found_and_taken(fixture: Fixture) {
    let store = &fixture.store;
    let mut n = 0;
    for was in [Transport::Harness, Transport::Webhook, Transport::Channel] {
        for (harness, endpoint, connection, broken) in [
            (true, true, true, true),
            (true, false, true, false),
            (true, false, false, false),
            (false, true, true, true),
            (false, true, true, false),
            (false, true, false, false),
            (false, false, true, true),
            (false, false, true, false),
            (false, false, false, false),
        ] {
            for (disabled, open) in [(false, false), (false, true), (true, false)] {
                n += 1;
                let bob = webhook(store, &format!("bob-{n}")).await.id;
                let id = say(store, bob, conversation()).await;
                let due = lease(store, NOW).await.remove(0);
                let again = Outcome::Again(NOW + 500);
                assert!(finish(store, &due, Some(attempt(Some(503), None)), again, NOW).await);
                set_endpoint(store, bob, endpoint.then_some("https://agent.example/")).await;
                set_connection(store, bob, connection.then_some(b"sealed")).await;
                write(store, move |tx| {
                    let sql = "UPDATE deliveries SET transport = $3 WHERE agent_id = $1 AND seq = $2";
                    tx.execute(sql, &[(&bob).into(), id.seq.into(), was.as_str().into()])?;
                    directory::set_broken(tx, bob, broken.then_some(("gone", NOW)))?;
                    let address = harness.then_some(("https://agent.example/c2a", "notify"));
                    directory::set_harness(tx, bob, address, NOW)?;
                    if disabled { access::disable_agent(tx, bob, NOW).map(drop) } else { Ok(()) }
                })
                .await;
                if open {
                    open_inbox(store, bob, NOW + 100).await;
                }
                let agent = read(store, move |tx| directory::by_id(tx, bob)).await.unwrap();
                let way = deliveries::way(&agent, None, NOW + 1);
                let marked = match (harness, endpoint) {
                    (true, _) => Transport::Harness,
                    (false, true) => Transport::Webhook,
                    (false, false) => Transport::Channel,
                };
                let found = read(store, move |tx| push::find_rerouted(tx, NOW + 1, 100)).await;
                let is_other = way == Way::Session || marked != was;
                assert_eq!(found, if is_other { vec![id] } else { vec![] }, "{was} {agent:?}");
                write(store, move |tx| push::reroute(tx, &[id], NOW + 1)).await;
                let leased = lease(store, NOW + 1).await;
                let transports: Vec<_> = leased.iter().map(|due| due.transport).collect();
                let (expected, waits) = match way {
                    Way::Session => (vec![], false),
                    Way::Harness | Way::Webhook | Way::Connection if is_other => (vec![marked], false),
                    Way::Harness | Way::Webhook | Way::Connection | Way::Inbox | Way::WaitForOwner(_) => {
                        (vec![], true)
                    }
                    Way::WaitBehind(other) => panic!("behind {other}"),
                };
                assert_eq!(transports, expected, "{was} {agent:?}");
                let put_off = read(store, move |tx| push::get(tx, id)).await.and_then(|kept| kept.due_at);
                assert_eq!(put_off.is_some_and(|at| at >= NOW + 500), waits);
                assert_eq!(read(store, move |tx| push::find_rerouted(tx, NOW + 1, 100)).await, []);
                // These are removed from the next case.
                for due in leased {
                    assert!(taken(store, &due, NOW + 1).await);
                }
                write(store, move |tx| {
                    tx.execute("DELETE FROM chats", &[])?;
                    tx.execute("DELETE FROM deliveries", &[])
                })
                .await;
            }
        }
    }
}

async fn what_came_to_nothing_without_a_try_has_a_reason(fixture: Fixture) {
    let store = &fixture.store;
    let id = say(store, webhook(store, "bob").await.id, conversation()).await;
    let due = lease_in(store, Uuid::from_u128(1), NOW, ROOM).await.remove(0);
    let end = move |tx: &mut dyn chorus_store::Tx| {
        push::finish(tx, &due, None, Some("gone"), Outcome::Refused, NOW)
    };
    assert!(write(store, end).await.held);
    let kept = record(store, id).await;
    assert_eq!((kept.state, kept.attempt, kept.detail.as_deref()), (DeliveryState::Dead, 0, Some("gone")));
    let carol = agent(store, "carol").await.id;
    assert_eq!(streamed(store, carol).await, []);
}
