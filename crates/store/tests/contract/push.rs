//! Pushing: leases, order, and that every delivery gets its turn.

use crate::attention::MENTIONED;
use crate::support::{Fixture, NOW, agent, count, fresh, on_both, read, soon, webhook, write};
use chorus_protocol::ids::{AgentId, ConversationId, DeliveryId, EventId, TraceId};
use chorus_protocol::words::{DeliveryState, Disposition, EntryKind};
use chorus_store::conversation::{self, Act};
use chorus_store::conversations::{self, NewEvent};
use chorus_store::deliveries::{self, Bringing, GIVE_UP_MS, Lease};
use chorus_store::push::{self, Attempt, Due, Filter, Outcome, Room};
use chorus_store::{Store, Tx, directory, obligations, retention};
use std::collections::BTreeSet;
use uuid::Uuid;

on_both!(
    only_the_first_of_a_conversation_is_due,
    a_lease_is_one_nodes,
    a_lease_that_ran_out_is_leased_again,
    a_try_is_recorded_and_made_again,
    what_was_not_tried_goes_back_as_it_was,
    so_many_to_one_agent_and_no_more,
    a_broken_connection_holds_everything_until_it_is_mended,
    what_an_old_connection_did_does_not_break_the_new_one,
    after_a_dead_letter_the_next_proceeds_even_when_broken,
    replay_waits_for_its_turn,
    a_window_is_replayed_in_order,
    nobody_is_left_without_a_turn,
    dispositions,
    lists_are_filtered_and_paged,
    retention_takes_the_tries_along,
);

const LEASE_MS: i64 = 45_000;

pub(crate) fn conversation() -> ConversationId {
    ConversationId(fresh())
}

fn store_one(tx: &mut dyn Tx, to: AgentId, act: &Act) -> Result<DeliveryId, chorus_store::StoreError> {
    let event = NewEvent {
        id: act.event,
        conversation: act.conversation,
        author: act.author,
        trace: act.trace,
        thread: None,
        target: None,
    };
    conversations::append_foreign(tx, &event, "{}", act.now)?;
    let id = DeliveryId { agent: to, seq: tx.next_seq(to.into())? };
    conversation::deliver(tx, act, id, EntryKind::Channel, MENTIONED, Bringing::FIRST)?;
    Ok(id)
}

/// Posts a message to an agent in a conversation.
pub(crate) async fn say_at(store: &Store, to: AgentId, conversation: ConversationId, now: i64) -> DeliveryId {
    let (event, trace) = (EventId(fresh()), TraceId(fresh()));
    let act = Act { conversation, author: to.into(), event, trace, now };
    write(store, move |tx| store_one(tx, to, &act)).await
}

pub(crate) async fn say(store: &Store, to: AgentId, conversation: ConversationId) -> DeliveryId {
    say_at(store, to, conversation, NOW).await
}

/// Creates an agent with only a connection string.
pub(crate) async fn connected(store: &Store, name: &str) -> AgentId {
    let id = agent(store, name).await.id;
    write(store, move |tx| directory::set_connection(tx, id, Some(b"sealed"), NOW)).await;
    id
}

pub(crate) const ROOM: Room = Room { tries: 100, retries: 50, per_agent: 4 };

/// Finds and leases deliveries as a node does.
pub(crate) async fn lease_in(store: &Store, owner: Uuid, now: i64, room: Room) -> Vec<Due> {
    let lease = Lease { owner, until: now + LEASE_MS };
    let found = read(store, move |tx| push::find_due(tx, owner, now, &room, &BTreeSet::new())).await;
    write(store, move |tx| push::lease(tx, &found, now, lease)).await
}

async fn lease_by(store: &Store, owner: Uuid, now: i64) -> Vec<Due> {
    lease_in(store, owner, now, ROOM).await
}

pub(crate) async fn lease(store: &Store, now: i64) -> Vec<Due> {
    lease_by(store, Uuid::from_u128(1), now).await
}

pub(crate) fn ids(leased: &[Due]) -> Vec<DeliveryId> {
    leased.iter().map(|due| due.id).collect()
}

pub(crate) fn attempt(status: Option<i64>, error: Option<&str>) -> Attempt {
    Attempt { at: NOW, status, latency_ms: 3, error: error.map(Into::into) }
}

pub(crate) async fn finish(
    store: &Store,
    due: &Due,
    tried: Option<Attempt>,
    outcome: Outcome,
    now: i64,
) -> bool {
    let due = due.clone();
    write(store, move |tx| push::finish(tx, &due, tried.as_ref(), None, outcome, now)).await.held
}

/// Records that the receiver accepted the delivery.
pub(crate) async fn taken(store: &Store, due: &Due, now: i64) -> bool {
    finish(store, due, Some(attempt(Some(200), None)), Outcome::Delivered, now).await
}

pub(crate) async fn record(store: &Store, id: DeliveryId) -> push::Record {
    read(store, move |tx| push::get(tx, id)).await.unwrap()
}

pub(crate) async fn next_due(store: &Store) -> Option<i64> {
    read(store, |tx| push::next_due(tx)).await
}

async fn only_the_first_of_a_conversation_is_due(fixture: Fixture) {
    let store = &fixture.store;
    let (bob, one, other) = (webhook(store, "bob").await.id, conversation(), conversation());
    assert_eq!(next_due(store).await, None);
    let first = say(store, bob, one).await;
    let second = say(store, bob, one).await;
    let third = say(store, bob, one).await;
    let elsewhere = say(store, bob, other).await;
    assert_eq!(next_due(store).await, Some(NOW));
    assert_eq!(ids(&lease(store, NOW - 1).await), [], "not yet");
    let leased = lease(store, NOW).await;
    assert_eq!(ids(&leased), [first, elsewhere]);
    assert_eq!(next_due(store).await, Some(NOW + LEASE_MS), "somebody has them");
    assert!(taken(store, &leased[0], NOW + 1).await);
    let next = lease(store, NOW + 1).await;
    assert_eq!(ids(&next), [second]);
    assert!(finish(store, &next[0], Some(attempt(Some(400), None)), Outcome::Refused, NOW + 2).await);
    assert_eq!(ids(&lease(store, NOW + 2).await), [third]);
    let (first, second) = (record(store, first).await, record(store, second).await);
    assert_eq!((first.state, first.handed_at, first.handed), (DeliveryState::Delivered, Some(NOW + 1), true));
    assert_eq!((second.state, second.handed_at, second.updated_at), (DeliveryState::Dead, None, NOW + 2));
}

async fn a_lease_is_one_nodes(fixture: Fixture) {
    let store = &fixture.store;
    let mut all = BTreeSet::new();
    for n in 0..10 {
        let to = webhook(store, &format!("agent-{n}")).await.id;
        for _ in 0..4 {
            all.insert(say(store, to, conversation()).await);
        }
    }
    let mut nodes = tokio::task::JoinSet::new();
    for node in 0..8 {
        let store = store.clone();
        nodes.spawn(async move {
            let mut leased = vec![];
            for round in 1..=8 {
                let room = Room { tries: 5 * round, ..ROOM };
                leased.extend(ids(&lease_in(&store, Uuid::from_u128(100 + node), NOW, room).await));
            }
            leased
        });
    }
    let mut leased = vec![];
    while let Some(some) = soon(nodes.join_next()).await {
        leased.extend(some.unwrap());
    }
    assert_eq!(leased.len(), all.len(), "nothing is leased twice");
    assert_eq!(leased.into_iter().collect::<BTreeSet<_>>(), all);
}

async fn a_lease_that_ran_out_is_leased_again(fixture: Fixture) {
    let store = &fixture.store;
    let (bob, one) = (webhook(store, "bob").await.id, conversation());
    let id = say(store, bob, one).await;
    let died = lease(store, NOW).await.remove(0);
    assert_eq!(died.attempt, 1);
    assert_eq!(lease_by(store, Uuid::from_u128(2), NOW + LEASE_MS - 1).await, []);
    let again = lease_by(store, Uuid::from_u128(2), NOW + LEASE_MS).await.remove(0);
    assert_eq!((again.id, again.event, again.attempt), (id, died.event, 2), "the same message once more");
    assert!(!taken(store, &died, NOW + LEASE_MS).await, "it is not the dead one's any more");
    assert_eq!(record(store, id).await.state, DeliveryState::Waiting);
    assert!(taken(store, &again, NOW + LEASE_MS + 1).await);
    assert_eq!(record(store, id).await.state, DeliveryState::Delivered);
    assert_eq!(read(store, move |tx| push::attempts(tx, id, 10)).await.len(), 2, "both are remembered");
    assert_eq!(next_due(store).await, None);
    let abandoned = write(store, |tx| deliveries::fail_abandoned(tx, NOW + 10 * LEASE_MS)).await;
    assert_eq!(abandoned, 0, "what is pushed is never abandoned");
}

async fn a_try_is_recorded_and_made_again(fixture: Fixture) {
    let store = &fixture.store;
    let (bob, one) = (webhook(store, "bob").await.id, conversation());
    let id = say(store, bob, one).await;
    let due = lease(store, NOW).await.remove(0);
    assert_eq!(due.give_up_at, NOW + GIVE_UP_MS);
    let failed = attempt(Some(503), Some("receiver answered HTTP 503"));
    assert!(finish(store, &due, Some(failed.clone()), Outcome::Again(NOW + 900), NOW + 5).await);
    assert_eq!(next_due(store).await, Some(NOW + 900));
    let kept = record(store, id).await;
    assert_eq!((kept.state, kept.attempt, kept.due_at), (DeliveryState::Waiting, 1, Some(NOW + 900)));
    assert_eq!(kept.detail, failed.error);
    let due = lease(store, NOW + 900).await.remove(0);
    assert_eq!(due.attempt, 2);
    // The receiver's requested pause is capped.
    let long = Outcome::Again(NOW + 9 * GIVE_UP_MS);
    assert!(finish(store, &due, Some(attempt(None, Some("timeout"))), long, NOW + 900).await);
    assert_eq!(record(store, id).await.due_at, Some(NOW + GIVE_UP_MS));
    let attempts = read(store, move |tx| push::attempts(tx, id, 10)).await;
    assert_eq!(attempts, [failed, attempt(None, Some("timeout"))]);
}

async fn what_was_not_tried_goes_back_as_it_was(fixture: Fixture) {
    let store = &fixture.store;
    let (bob, one) = (webhook(store, "bob").await.id, conversation());
    let id = say(store, bob, one).await;
    let due = lease(store, NOW).await.remove(0);
    assert!(finish(store, &due, None, Outcome::Again(NOW), NOW).await);
    let kept = record(store, id).await;
    assert_eq!((kept.state, kept.attempt, kept.detail), (DeliveryState::Waiting, 0, None));
    assert_eq!(lease(store, NOW).await.remove(0).attempt, 1);
    assert_eq!(count(store, "SELECT COUNT(*) AS count FROM attempts").await, 0);
}

async fn so_many_to_one_agent_and_no_more(fixture: Fixture) {
    let store = &fixture.store;
    let (busy, idle) = (webhook(store, "busy").await.id, webhook(store, "idle").await.id);
    for _ in 0..10 {
        say(store, busy, conversation()).await;
    }
    let last = say_at(store, idle, conversation(), NOW + 1).await;
    let now = NOW + 1;
    let leased = lease(store, now).await;
    let of_busy: Vec<_> = leased.iter().filter(|due| due.id.agent == busy).collect();
    assert_eq!(of_busy.len(), 4);
    assert!(ids(&leased).contains(&last), "the others do not wait for it");
    assert_eq!(lease(store, now).await, [], "it has enough to do");
    assert!(taken(store, of_busy[0], now).await && taken(store, of_busy[1], now).await);
    assert_eq!(lease(store, now).await.len(), 2);
    let elsewhere = lease_by(store, Uuid::from_u128(2), now).await;
    assert_eq!(elsewhere.len(), 4, "another node counts for itself");
}

async fn a_broken_connection_holds_everything_until_it_is_mended(fixture: Fixture) {
    let store = &fixture.store;
    let (bob, one, other) = (connected(store, "bob").await, conversation(), conversation());
    let (first, second) = (say(store, bob, one).await, say(store, bob, one).await);
    let elsewhere = say(store, bob, other).await;
    let hook = webhook(store, "hook").await.id;
    let hooked = say(store, hook, one).await;
    let leased = lease(store, NOW).await;
    assert_eq!(ids(&leased).len(), 3);
    let place = |id| ids(&leased).iter().position(|leased| *leased == id).unwrap();
    let again = Outcome::Again(NOW + 10);
    assert!(finish(store, &leased[place(elsewhere)], Some(attempt(Some(503), None)), again, NOW).await);
    assert!(finish(store, &leased[place(hooked)], Some(attempt(Some(503), None)), again, NOW).await);
    let epoch = read(store, move |tx| directory::by_id(tx, bob)).await.unwrap().epoch;
    let not_found = attempt(Some(404), Some("receiver answered HTTP 404"));
    assert!(finish(store, &leased[place(first)], Some(not_found), Outcome::Broken(epoch), NOW + 1).await);
    let broken = read(store, move |tx| directory::by_id(tx, bob)).await.unwrap().broken;
    assert_eq!(broken, Some(("receiver answered HTTP 404".into(), NOW + 1)));

    let later = say_at(store, bob, conversation(), NOW + 2).await;
    assert_eq!(ids(&lease(store, NOW + 3600).await), [hooked], "nothing is tried, but to others");
    for (id, since) in [(first, NOW), (elsewhere, NOW), (later, NOW + 2)] {
        let kept = record(store, id).await;
        assert_eq!((kept.state, kept.due_at), (DeliveryState::Waiting, Some(since + GIVE_UP_MS)));
    }
    assert_eq!(record(store, second).await.due_at, None);

    let now = NOW + 5 * 3600 * 1000;
    assert_eq!(write(store, move |tx| push::mend(tx, bob, now)).await, 3);
    assert_eq!(read(store, move |tx| directory::by_id(tx, bob)).await.unwrap().broken, None);
    let leased = lease(store, now).await;
    let of_bob: BTreeSet<_> = ids(&leased).into_iter().filter(|id| id.agent == bob).collect();
    assert_eq!(of_bob, BTreeSet::from([first, elsewhere, later]));
    let due = leased.iter().find(|due| due.id == first).unwrap();
    assert!(taken(store, due, now).await);
    assert_eq!(ids(&lease(store, now).await), [second], "in order");
}

async fn what_an_old_connection_did_does_not_break_the_new_one(fixture: Fixture) {
    let store = &fixture.store;
    let (bob, one) = (connected(store, "bob").await, conversation());
    let id = say(store, bob, one).await;
    let old = read(store, move |tx| directory::by_id(tx, bob)).await.unwrap().epoch;
    let due = lease(store, NOW).await.remove(0);
    write(store, move |tx| {
        directory::set_connection(tx, bob, Some(b"new"), NOW + 1)?;
        push::mend(tx, bob, NOW + 1)
    })
    .await;
    assert!(finish(store, &due, Some(attempt(Some(410), Some("gone"))), Outcome::Broken(old), NOW + 2).await);
    assert_eq!(read(store, move |tx| directory::by_id(tx, bob)).await.unwrap().broken, None);
    assert_eq!(record(store, id).await.due_at, Some(NOW + 2), "the new one is tried at once");
}

async fn after_a_dead_letter_the_next_proceeds_even_when_broken(fixture: Fixture) {
    let store = &fixture.store;
    let (bob, one) = (connected(store, "bob").await, conversation());
    let (first, second) = (say(store, bob, one).await, say_at(store, bob, one, NOW + 7).await);
    let over = NOW + GIVE_UP_MS;
    let due = lease(store, over).await.remove(0);
    assert!(finish(store, &due, None, Outcome::Dead, over).await);
    assert_eq!(record(store, first).await.state, DeliveryState::Dead);
    let due = lease(store, over).await.remove(0);
    assert_eq!(due.id, second);
    let epoch = read(store, move |tx| directory::by_id(tx, bob)).await.unwrap().epoch;
    let third = say_at(store, bob, one, NOW + 9).await;
    assert!(finish(store, &due, Some(attempt(Some(401), None)), Outcome::Broken(epoch), over).await);
    let due = lease(store, over + 8).await.remove(0);
    assert_eq!(due.id, second, "at its end it is looked at once more");
    assert!(finish(store, &due, None, Outcome::Dead, over + 7).await);
    assert_eq!(
        record(store, third).await.due_at,
        Some(over + 9),
        "the next waits for its own end, or a mender"
    );
}

async fn replay_waits_for_its_turn(fixture: Fixture) {
    let store = &fixture.store;
    let (bob, one) = (webhook(store, "bob").await.id, conversation());
    let (first, second) = (say(store, bob, one).await, say(store, bob, one).await);
    let now = NOW + 5;
    assert!(!write(store, move |tx| push::replay(tx, first, now)).await, "it is not over yet");
    let due = lease(store, NOW).await.remove(0);
    assert!(finish(store, &due, Some(attempt(Some(400), None)), Outcome::Refused, NOW).await);
    let due = lease(store, NOW).await.remove(0);
    assert_eq!(due.id, second);
    assert!(write(store, move |tx| push::replay(tx, first, now)).await);
    let replayed = record(store, first).await;
    assert_eq!((replayed.state, replayed.due_at), (DeliveryState::Waiting, None), "another is on its way");
    assert!(taken(store, &due, now).await);
    let due = lease(store, now).await.remove(0);
    assert_eq!((due.id, due.attempt, due.give_up_at), (first, 1, now + GIVE_UP_MS), "as if it were new");
    assert!(taken(store, &due, now).await);
    assert_eq!(read(store, move |tx| push::attempts(tx, first, 10)).await.len(), 2, "all its tries are kept");
    assert!(!write(store, move |tx| push::replay(tx, first, now)).await, "it has arrived");
    let nobody = DeliveryId { agent: bob, seq: 99 };
    assert!(!write(store, move |tx| push::replay(tx, nobody, now)).await);
}

async fn a_window_is_replayed_in_order(fixture: Fixture) {
    let store = &fixture.store;
    let (bob, one) = (webhook(store, "bob").await.id, conversation());
    let mut all = vec![];
    for n in 0..5 {
        all.push(say_at(store, bob, one, NOW + n).await);
    }
    for n in 0..5 {
        let due = lease(store, NOW + 10).await.remove(0);
        let outcome = if n == 1 { Outcome::Refused } else { Outcome::Dead };
        assert!(finish(store, &due, None, outcome, NOW + 10).await);
    }
    let now = NOW + 20;
    let window = |filter: Filter, limit: i64| async move {
        let (found, more) = read(store, move |tx| push::find_replayable(tx, &filter, limit)).await;
        (write(store, move |tx| push::replay_all(tx, &found, now)).await, more)
    };
    let refused = Filter { since: NOW + 1, until: Some(NOW + 2), ..Filter::default() };
    let elsewhere = Filter { conversation: Some(conversation()), ..Filter::default() };
    assert_eq!(window(elsewhere, 10).await, (0, false));
    assert_eq!(window(refused, 10).await, (1, false));
    let middle = Filter { since: NOW + 2, until: Some(NOW + 4), ..Filter::default() };
    assert_eq!(window(middle.clone(), 1).await, (1, true));
    assert_eq!(window(middle.clone(), 1).await, (1, false));
    assert_eq!(window(middle, 1).await, (0, false));
    for expected in [all[1], all[2], all[3]] {
        let leased = lease(store, now).await;
        assert_eq!(ids(&leased), [expected]);
        assert!(taken(store, &leased[0], now).await);
    }
    assert_eq!(record(store, all[0]).await.state, DeliveryState::Dead);
    assert_eq!(record(store, all[4]).await.state, DeliveryState::Dead);
}

/// The last delivery ends while another is stored: whichever is second sees the first, so the new one gets its
/// turn.
async fn nobody_is_left_without_a_turn(fixture: Fixture) {
    let store = &fixture.store;
    let (bob, one) = (webhook(store, "bob").await.id, conversation());
    let mut expected = say(store, bob, one).await;
    for round in 0..60 {
        let leased = lease(store, NOW).await;
        assert_eq!(ids(&leased), [expected], "round {round}: it is due, and nothing else");
        let (ended, next) = tokio::join!(taken(store, &leased[0], NOW), say(store, bob, one));
        assert!(ended);
        expected = next;
    }
}

async fn dispositions(fixture: Fixture) {
    let store = &fixture.store;
    let (bob, one) = (webhook(store, "bob").await.id, conversation());
    let id = say(store, bob, one).await;
    let dispose = |what: Option<Disposition>, now: i64| {
        write(store, move |tx| {
            let event = deliveries::event_of(tx, id)?.unwrap();
            let known = obligations::of(tx, event, bob, now)?.unwrap();
            obligations::dispose(tx, &known, what, None, None, now)
        })
    };
    assert_eq!(record(store, id).await.disposition, None);
    dispose(Some(Disposition::Failed), NOW + 1).await;
    dispose(Some(Disposition::Failed), NOW + 2).await;
    assert_eq!(record(store, id).await.disposition, Some((Disposition::Failed, NOW + 1)), "since then");
    dispose(Some(Disposition::Responded), NOW + 3).await;
    assert_eq!(record(store, id).await.disposition, Some((Disposition::Responded, NOW + 3)));
    dispose(None, NOW + 4).await;
    assert_eq!(record(store, id).await.disposition, None);
}

async fn lists_are_filtered_and_paged(fixture: Fixture) {
    let store = &fixture.store;
    let (bob, carol) = (webhook(store, "bob").await.id, agent(store, "carol").await.id);
    let owner = chorus_protocol::ids::AccountId(fresh());
    write(store, move |tx| directory::set_owner(tx, carol, Some(owner), None)).await;
    let (one, other) = (conversation(), conversation());
    let a = say_at(store, bob, one, NOW).await;
    let b = say_at(store, carol, one, NOW).await;
    let c = say_at(store, carol, other, NOW + 1).await;
    write(store, move |tx| chorus_store::inboxes::hand_through(tx, carol, b.seq, 0)).await;
    let list = |filter: Filter, after, limit: i64| async move {
        let found = read(store, move |tx| push::list(tx, &filter, after, limit)).await;
        found.into_iter().map(|record| (record.created_at, record.id)).collect::<Vec<_>>()
    };
    let mut all = vec![(NOW, a), (NOW, b), (NOW + 1, c)];
    all.sort();
    let everything = Filter::default;
    assert_eq!(list(everything(), None, 10).await, all);
    for n in 0..3 {
        let after = (n > 0).then(|| all[n - 1]);
        assert_eq!(list(everything(), after, 1).await, [all[n]], "page {n}");
    }
    assert_eq!(list(everything(), Some(all[2]), 1).await, []);
    for (filter, found) in [
        (Filter { owner: Some(owner), ..everything() }, vec![b, c]),
        (Filter { agent: Some(bob), ..everything() }, vec![a]),
        (Filter { conversation: Some(other), ..everything() }, vec![c]),
        (Filter { since: NOW + 1, ..everything() }, vec![c]),
        (Filter { until: Some(NOW), ..everything() }, vec![]),
        (Filter { state: Some(DeliveryState::Waiting), ..everything() }, vec![a]),
        (Filter { state: Some(DeliveryState::Queued), ..everything() }, vec![c]),
        (Filter { state: Some(DeliveryState::DeliveredSse), ..everything() }, vec![b]),
    ] {
        let shown = format!("{filter:?}");
        let got: Vec<_> = list(filter, None, 10).await.into_iter().map(|(_, id)| id).collect();
        assert_eq!(got, found, "{shown}");
    }
    let handed = record(store, b).await;
    assert_eq!((handed.state, handed.handed, handed.handed_at), (DeliveryState::DeliveredSse, true, Some(0)));
    let event = record(store, a).await.event;
    assert_eq!(read(store, move |tx| deliveries::event_of(tx, a)).await, Some(event));
    let of_event = read(store, move |tx| push::of_event(tx, event, 10)).await;
    assert_eq!(of_event.into_iter().map(|record| record.id).collect::<Vec<_>>(), [a]);
}

async fn retention_takes_the_tries_along(fixture: Fixture) {
    let store = &fixture.store;
    let (bob, one) = (webhook(store, "bob").await.id, conversation());
    say(store, bob, one).await;
    say(store, bob, one).await;
    let due = lease(store, NOW).await.remove(0);
    assert!(taken(store, &due, NOW).await);
    let removed = write(store, |tx| retention::remove_before(tx, NOW + 1, 100)).await;
    assert_eq!((removed.deliveries, removed.events), (1, 1), "what still waits stays");
    assert_eq!(count(store, "SELECT COUNT(*) AS count FROM attempts").await, 0);
}
