//! A clock that was set back by an hour, with leases of a node that died meanwhile.

use crate::push::{ROOM, attempt};
use crate::push::{connected, conversation, finish, ids, lease, lease_in, next_due, record, say_at};
use crate::support::{Fixture, NOW, agent, fresh, message, on_both, post, read, webhook, write};
use chorus_store::clock::{self, Longest, MAX_SKEW_MS};
use chorus_store::deliveries::Lease;
use chorus_store::idempotency::{self, Key, Known};
use chorus_store::push::{self, Outcome};
use chorus_store::relay::Send;
use chorus_store::{Store, deliveries, directory, inboxes};
use uuid::Uuid;

on_both!(
    what_a_dead_node_held_ends,
    a_living_node_keeps_what_it_holds,
    what_was_put_off_is_tried,
    what_waits_for_its_owner_waits_on,
    a_reservation_is_over,
    a_sign_of_life_is_news,
);

const HOUR: i64 = 3_600_000;
/// The time before the clock was set back.
const BEFORE: i64 = NOW + HOUR;
/// The time after the clock was set back.
const THEN: i64 = NOW;
const LONGEST: Longest = Longest { lease_ms: 45_000, presence_ms: 90_000 };
const DEAD: Uuid = Uuid::from_u128(1);
const ALIVE: Uuid = Uuid::from_u128(2);

async fn finds(store: &Store, node: Uuid, now: i64) -> bool {
    read(store, move |tx| clock::finds_ahead(tx, node, now, &LONGEST)).await
}

async fn pull_back(store: &Store, node: Uuid, now: i64) {
    write(store, move |tx| clock::pull_back(tx, node, now, &LONGEST)).await;
}

async fn what_a_dead_node_held_ends(fixture: Fixture) {
    let store = &fixture.store;
    let (alice, bob, carol) =
        (agent(store, "alice").await, webhook(store, "bob").await.id, agent(store, "carol").await.id);
    let dora = webhook(store, "dora").await;
    say_at(store, bob, conversation(), BEFORE).await;
    let leased = lease_in(store, DEAD, BEFORE, ROOM).await;
    write(store, move |tx| inboxes::open(tx, carol, fresh(), DEAD, BEFORE + 90_000)).await;
    let lease = Lease { owner: DEAD, until: BEFORE + 45_000 };
    post(store, Send { lease, now: BEFORE, ..message(&alice, &dora) }).await;
    assert!(!finds(store, ALIVE, BEFORE).await, "these are as they should be");
    assert!(!finds(store, ALIVE, BEFORE - MAX_SKEW_MS).await, "and clocks differ a little");

    assert!(finds(store, ALIVE, THEN).await);
    pull_back(store, ALIVE, THEN).await;
    assert!(!finds(store, ALIVE, THEN).await);
    let found = read(store, move |tx| directory::by_id(tx, carol)).await.unwrap();
    assert!(found.open_until <= THEN, "{found:?}");
    assert_eq!(write(store, |tx| deliveries::fail_abandoned(tx, THEN + 1)).await, 1);
    assert_eq!(leased.len(), 1);
    assert_eq!(ids(&lease_in(store, ALIVE, THEN, ROOM).await), ids(&leased));
}

async fn a_living_node_keeps_what_it_holds(fixture: Fixture) {
    let store = &fixture.store;
    let (bob, carol) = (webhook(store, "bob").await.id, agent(store, "carol").await.id);
    say_at(store, bob, conversation(), BEFORE).await;
    let leased = lease_in(store, ALIVE, BEFORE, ROOM).await;
    write(store, move |tx| inboxes::open(tx, carol, fresh(), ALIVE, BEFORE + 90_000)).await;
    assert!(!finds(store, ALIVE, THEN).await);
    pull_back(store, ALIVE, THEN).await;
    let found = read(store, move |tx| directory::by_id(tx, carol)).await.unwrap();
    assert_eq!(found.open_until, BEFORE + 90_000);
    assert!(finish(store, &leased[0], None, Outcome::Delivered, THEN).await, "its lease holds");
}

async fn late(store: &Store, now: i64) -> Vec<chorus_protocol::ids::DeliveryId> {
    read(store, move |tx| clock::find_late(tx, now, 100)).await
}

async fn what_was_put_off_is_tried(fixture: Fixture) {
    let store = &fixture.store;
    let bob = webhook(store, "bob").await.id;
    let (first, _) =
        (say_at(store, bob, conversation(), BEFORE).await, say_at(store, bob, conversation(), BEFORE).await);
    let leased = lease(store, BEFORE).await;
    let again = Outcome::Again(BEFORE + 2 * HOUR);
    assert!(finish(store, &leased[0], Some(attempt(Some(503), None)), again, BEFORE).await);
    let taken = Outcome::Delivered;
    assert!(finish(store, &leased[1], Some(attempt(Some(200), None)), taken, BEFORE).await);
    assert_eq!(late(store, BEFORE).await, [], "so long a receiver may ask for");
    let fresh = say_at(store, bob, conversation(), BEFORE).await;

    assert_eq!(late(store, THEN).await, [fresh, first], "new ones too");
    write(store, move |tx| push::hurry(tx, &[first, fresh], THEN)).await;
    assert_eq!(next_due(store).await, Some(THEN));
    assert_eq!(ids(&lease(store, THEN).await).len(), 2);
}

async fn what_waits_for_its_owner_waits_on(fixture: Fixture) {
    let store = &fixture.store;
    let bob = connected(store, "bob").await;
    let waiting = say_at(store, bob, conversation(), BEFORE).await;
    let leased = lease(store, BEFORE).await;
    let epoch = read(store, move |tx| directory::by_id(tx, bob)).await.unwrap().epoch;
    assert!(finish(store, &leased[0], Some(attempt(Some(404), None)), Outcome::Broken(epoch), BEFORE).await);
    assert_eq!(late(store, THEN).await, []);
    assert_eq!(record(store, waiting).await.due_at, Some(leased[0].give_up_at));
}

async fn a_reservation_is_over(fixture: Fixture) {
    let store = &fixture.store;
    let reserve = |now: i64| {
        let key = Key::new("test", &[b"a"], b"", Some(BEFORE + 24 * HOUR));
        write(store, move |tx| idempotency::reserve(tx, &key, now, now + 45_000))
    };
    assert_eq!(reserve(BEFORE).await, Known::New);
    assert_eq!(reserve(BEFORE).await, Known::InProgress);
    assert_eq!(reserve(BEFORE - 2 * MAX_SKEW_MS).await, Known::InProgress, "it may be one that lasts longer");
    assert_eq!(reserve(THEN).await, Known::New, "whoever made it is an hour ahead");
    assert_eq!(reserve(THEN).await, Known::InProgress);
}

async fn a_sign_of_life_is_news(fixture: Fixture) {
    let store = &fixture.store;
    let bob = agent(store, "bob").await.id;
    let seen = async |now: i64| {
        write(store, move |tx| inboxes::seen(tx, bob, now)).await;
        read(store, move |tx| directory::by_id(tx, bob)).await.unwrap().seen_at
    };
    assert_eq!(seen(BEFORE).await, BEFORE);
    assert_eq!(seen(BEFORE - 1).await, BEFORE, "another node was faster");
    assert_eq!(seen(THEN).await, THEN);
}
