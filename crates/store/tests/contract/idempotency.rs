//! Repeated requests.

use crate::support::{
    Fixture, LEASE_END, NOW, agent, count, deliver, entries, fresh, message, on_both, post, posted, send,
    webhook, write,
};
use chorus_protocol::ids::TraceId;
use chorus_protocol::relay::Outcome;
use chorus_protocol::words::DeliveryState;
use chorus_store::deliveries::Lease;
use chorus_store::directory::Agent;
use chorus_store::idempotency::{self, Answer, Key, Known};
use chorus_store::relay::{self, NumberedEnvelope, SendError, Sent};
use chorus_store::{Kind, Store, Tx};
use tokio::task::JoinSet;

on_both![
    the_same_request_gets_the_same_answer,
    another_request_under_the_key_is_a_conflict,
    a_posting_is_in_progress_until_its_lease_ends,
    a_delivered_posting_is_remembered,
    a_failed_posting_is_forgotten,
    a_late_outcome_leaves_the_next_attempt_alone,
    a_turn_is_sent_once,
    a_turn_is_known_for_thirty_days,
    what_a_receiver_said_is_kept_for_a_day,
    turns_differ_by_everything_that_places_them,
    a_retry_with_a_new_key_is_known_by_its_turn,
    a_refused_request_reserves_nothing,
    a_new_process_frees_only_what_nobody_can_finish,
    a_key_expires,
    expired_keys_are_removed,
    expired_keys_are_removed_in_steps,
    many_at_once_are_stored_once,
    many_at_once_are_posted_once,
];

const DAY: i64 = 24 * 60 * 60 * 1000;

/// Returns the same key for the same `word`, valid until `NOW + 100`.
fn keyed(word: &str, request: &str) -> Key {
    Key::new("test", &[word.as_bytes()], request.as_bytes(), Some(NOW + 100))
}

fn turn(number: i64, content: &str) -> NumberedEnvelope {
    NumberedEnvelope { conversation: "talk".into(), number, content: content.into() }
}

async fn again(store: &Store, message: relay::Send) -> Answer {
    match send(store, message).await.unwrap() {
        Sent::Again(answer) => answer,
        other => panic!("sent once more: {other:?}"),
    }
}

async fn events(store: &Store) -> i64 {
    count(store, "SELECT COUNT(*) AS count FROM events").await
}

async fn pair(store: &Store) -> (Agent, Agent) {
    (agent(store, "anna").await, agent(store, "bob").await)
}

async fn the_same_request_gets_the_same_answer(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob) = pair(store).await;
    let message = || relay::Send { keys: vec![keyed("k", "r")], ..message(&anna, &bob) };
    let Sent::Stored { outcome, .. } = send(store, message()).await.unwrap() else { panic!("not stored") };
    for now in [NOW, NOW + 99] {
        let answer = again(store, relay::Send { now, ..message() }).await;
        assert_eq!(answer.status, 202);
        let told: Outcome = serde_json::from_str(&answer.body).unwrap();
        assert_eq!((told.delivery, told.trace_id), (DeliveryState::Queued, outcome.trace_id.clone()));
    }
    assert_eq!(entries(store, bob.id).await.len(), 1);
}

async fn another_request_under_the_key_is_a_conflict(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob) = pair(store).await;
    let message = |word, request| relay::Send { keys: vec![keyed(word, request)], ..message(&anna, &bob) };
    deliver(store, message("k", "r")).await;
    assert!(matches!(send(store, message("k", "other")).await, Err(SendError::Conflict)));
    assert_eq!(events(store).await, 1);
    deliver(store, message("another", "other")).await;
    again(store, message("k", "r")).await;
}

async fn a_posting_is_in_progress_until_its_lease_ends(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob) = (agent(store, "anna").await, webhook(store, "bob").await);
    let message = |request, now| relay::Send {
        keys: vec![Key::new("test", &[b"k"], request, None)],
        lease: Lease { until: now + 1_000, ..message(&anna, &bob).lease },
        now,
        ..message(&anna, &bob)
    };
    post(store, message(b"r", NOW)).await;
    for now in [NOW, LEASE_END - 1] {
        assert!(matches!(send(store, message(b"r", now)).await, Err(SendError::InProgress)));
        assert!(matches!(send(store, message(b"other", now)).await, Err(SendError::Conflict)));
    }
    // The node died with an unknown outcome, so even other content may reuse the key.
    post(store, message(b"other", LEASE_END)).await;
    assert!(matches!(send(store, message(b"other", LEASE_END + 999)).await, Err(SendError::InProgress)));
    assert_eq!(events(store).await, 2);
}

async fn a_delivered_posting_is_remembered(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob) = (agent(store, "anna").await, webhook(store, "bob").await);
    let message =
        || relay::Send { keys: vec![keyed("k", "r")], turn: Some(turn(1, "c")), ..message(&anna, &bob) };
    let posting = post(store, message()).await;
    posted(store, posting, DeliveryState::Delivered, NOW).await;
    let answer = again(store, message()).await;
    assert_eq!(answer.status, 200);
    let told: Outcome = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(told.delivery, DeliveryState::Delivered);
    again(store, relay::Send { keys: vec![], ..message() }).await;
    assert_eq!(events(store).await, 1);
}

async fn a_failed_posting_is_forgotten(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob) = (agent(store, "anna").await, webhook(store, "bob").await);
    let message =
        || relay::Send { keys: vec![keyed("k", "r")], turn: Some(turn(1, "c")), ..message(&anna, &bob) };
    let first = post(store, message()).await;
    posted(store, first, DeliveryState::Failed, NOW).await;
    assert_eq!(count(store, "SELECT COUNT(*) AS count FROM idempotency").await, 0);
    let second = post(store, message()).await;
    assert_eq!(second.seq, 2);
    posted(store, second, DeliveryState::Delivered, NOW).await;
    again(store, message()).await;
}

/// A node that exceeded its lease must not disturb the next holder of the key.
async fn a_late_outcome_leaves_the_next_attempt_alone(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob) = (agent(store, "anna").await, webhook(store, "bob").await);
    let message = |now| relay::Send {
        keys: vec![Key::new("test", &[b"k"], b"r", None)],
        turn: Some(turn(1, "c")),
        lease: Lease { until: now + 1_000, ..message(&anna, &bob).lease },
        now,
        ..message(&anna, &bob)
    };
    for late in [DeliveryState::Failed, DeliveryState::Delivered] {
        let first = post(store, message(NOW)).await;
        let second = post(store, message(LEASE_END)).await;
        posted(store, first, late, NOW).await;
        assert!(matches!(send(store, message(LEASE_END)).await, Err(SendError::InProgress)), "{late:?}");
        posted(store, second, DeliveryState::Failed, NOW).await;
    }
}

async fn a_turn_is_sent_once(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob) = pair(store).await;
    let message = |turn| relay::Send { turn, ..message(&anna, &bob) };
    deliver(store, message(Some(turn(1, "c")))).await;
    assert_eq!(again(store, message(Some(turn(1, "c")))).await.status, 202);
    assert!(matches!(send(store, message(Some(turn(1, "other")))).await, Err(SendError::Conflict)));
    deliver(store, message(Some(turn(2, "c")))).await;
    // The retry comes much later.
    let late = relay::Send { now: NOW + 29 * DAY, ..message(Some(turn(1, "c"))) };
    again(store, late).await;
    assert_eq!(events(store).await, 2);
}

async fn turns_differ_by_everything_that_places_them(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob) = pair(store).await;
    let carl = agent(store, "carl").await;
    let with = |turn, from, to| relay::Send { turn, ..message(from, to) };
    deliver(store, with(Some(turn(1, "c")), &anna, &bob)).await;
    deliver(store, with(Some(turn(2, "c")), &anna, &bob)).await;
    deliver(store, with(Some(turn(1, "c")), &bob, &anna)).await;
    deliver(store, with(Some(turn(1, "c")), &anna, &carl)).await;
    deliver(store, with(Some(turn(1, "c")), &carl, &bob)).await;
    let elsewhere = NumberedEnvelope { conversation: "other".into(), number: 1, content: "c".into() };
    deliver(store, with(Some(elsewhere), &anna, &bob)).await;
    assert_eq!(events(store).await, 6);
    let loud = relay::Send { receiver: "BOB".into(), ..with(Some(turn(1, "c")), &anna, &bob) };
    again(store, loud).await;
}

async fn a_retry_with_a_new_key_is_known_by_its_turn(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob) = pair(store).await;
    let message = |keys: &[&str], turn| relay::Send {
        keys: keys.iter().map(|word| keyed(word, "r")).collect(),
        turn,
        ..message(&anna, &bob)
    };
    deliver(store, message(&["k1"], Some(turn(1, "c")))).await;
    let first = again(store, message(&["k1"], Some(turn(1, "c")))).await;
    assert_eq!(again(store, message(&["k2"], Some(turn(1, "c")))).await, first);
    assert_eq!(
        again(store, message(&["k2"], None)).await,
        first,
        "the new key is known as well from then on"
    );
    assert_eq!(again(store, message(&[], Some(turn(1, "c")))).await, first);

    // The same while the first one is still being posted.
    let carl = webhook(store, "carl").await;
    let to_carl = |keys, turn| relay::Send { receiver: carl.name.clone(), ..message(keys, turn) };
    let posting = post(store, to_carl(&["k3"], Some(turn(1, "c")))).await;
    assert!(matches!(send(store, to_carl(&["k4"], Some(turn(1, "c")))).await, Err(SendError::InProgress)));
    posted(store, posting, DeliveryState::Delivered, NOW).await;
    let second = again(store, to_carl(&["k4"], Some(turn(1, "c")))).await;
    assert_ne!(second, first);
    assert_eq!(again(store, to_carl(&["k3"], None)).await, second);
    assert_eq!(events(store).await, 2);
}

async fn a_refused_request_reserves_nothing(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob) = pair(store).await;
    let message =
        |word, request, turn| relay::Send { keys: vec![keyed(word, request)], turn, ..message(&anna, &bob) };
    deliver(store, message("k1", "r", Some(turn(1, "c")))).await;
    let refused = send(store, message("k2", "other", Some(turn(1, "other")))).await;
    assert!(matches!(refused, Err(SendError::Conflict)));
    let lost = relay::Send { receiver: "nobody".into(), ..message("k2", "other", None) };
    assert!(matches!(send(store, lost).await, Err(SendError::ReceiverNotFound)));
    deliver(store, message("k2", "r", Some(turn(2, "c")))).await;
}

/// A file has one process, so nobody else can finish its work. A server has many: leases decide there.
async fn a_new_process_frees_only_what_nobody_can_finish(fixture: Fixture) {
    let (anna, bob) = (agent(&fixture.store, "anna").await, webhook(&fixture.store, "bob").await);
    let message = |word| relay::Send { keys: vec![keyed(word, "r")], ..message(&anna, &bob) };
    post(&fixture.store, message("left")).await;
    let done = post(&fixture.store, message("done")).await;
    posted(&fixture.store, done, DeliveryState::Delivered, NOW).await;
    let fixture = fixture.reopen();
    again(&fixture.store, message("done")).await;
    let left = send(&fixture.store, message("left")).await;
    match fixture.store.kind() {
        Kind::Sqlite => assert!(matches!(left, Ok(Sent::Pending(_))), "{left:?}"),
        Kind::Postgres => assert!(matches!(left, Err(SendError::InProgress)), "{left:?}"),
    }
}

async fn a_turn_is_known_for_thirty_days(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob) = pair(store).await;
    let at = |now| {
        let lease = Lease { until: now + 1_000, ..message(&anna, &bob).lease };
        relay::Send { turn: Some(turn(1, "c")), now, lease, ..message(&anna, &bob) }
    };
    deliver(store, at(NOW)).await;
    let end = NOW + 30 * DAY;
    again(store, at(end - 1)).await;
    let remove = |now| write(store, move |tx: &mut dyn Tx| idempotency::remove_expired(tx, now, 100));
    assert_eq!((remove(end - 1).await, remove(end).await), (0, 1));
    deliver(store, at(end)).await;
    assert_eq!(events(store).await, 2);
}

/// Afterwards the turn is still a duplicate, but the receiver's response is not repeated under any key.
async fn what_a_receiver_said_is_kept_for_a_day(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob) = (agent(store, "anna").await, webhook(store, "bob").await);
    let at = |now, keys: Vec<Key>| {
        let lease = Lease { until: now + 1_000, ..message(&anna, &bob).lease };
        relay::Send { turn: Some(turn(1, "c")), keys, now, lease, ..message(&anna, &bob) }
    };
    let posting = post(store, at(NOW, vec![])).await;
    let outcome = Outcome {
        delivery: DeliveryState::Delivered,
        receiver_response: Some("a secret".into()),
        error_code: None,
        detail: None,
        trace_id: Some(TraceId(fresh()).into()),
    };
    let told = outcome.clone();
    write(store, move |tx| relay::record_outcome(tx, &posting, &told, NOW)).await;
    let later = Key::new("test", &[b"later"], b"r", None);
    for keys in [vec![], vec![later]] {
        let answer = again(store, at(NOW + DAY - 1, keys)).await;
        assert!(answer.body.contains("a secret"), "{answer:?}");
    }
    let holds = "SELECT COUNT(*) AS count FROM idempotency WHERE answer LIKE '%a secret%'";
    assert_eq!(count(store, holds).await, 2);
    let answer = again(store, at(NOW + DAY, vec![])).await;
    let without = Outcome { receiver_response: None, ..outcome };
    assert_eq!((answer.status, answer.body), (200, serde_json::to_string(&without).unwrap()));
    let shorten = |now| write(store, move |tx: &mut dyn Tx| idempotency::shorten(tx, now, 1));
    assert_eq!(shorten(NOW + DAY - 1).await, 0);
    assert_eq!((shorten(NOW + DAY).await, shorten(NOW + DAY).await, shorten(NOW + DAY).await), (1, 1, 0));
    assert_eq!(count(store, holds).await, 0);
    again(store, at(NOW + DAY, vec![])).await;
    assert_eq!(events(store).await, 1);
}

async fn a_key_expires(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob) = pair(store).await;
    let message = |request, now| relay::Send {
        keys: vec![Key::new("test", &[b"k"], request, Some(NOW + 100))],
        now,
        ..message(&anna, &bob)
    };
    deliver(store, message(b"r", NOW)).await;
    again(store, message(b"r", NOW + 99)).await;
    deliver(store, message(b"other", NOW + 100)).await;
    assert_eq!(events(store).await, 2);
}

async fn expired_keys_are_removed(fixture: Fixture) {
    let store = &fixture.store;
    let reserve = |word: &'static str, expires_at: Option<i64>| {
        let key = Key::new("test", &[word.as_bytes()], b"r", expires_at);
        write(store, move |tx: &mut dyn Tx| idempotency::reserve(tx, &key, NOW, LEASE_END))
    };
    for (word, expires_at) in [("a", Some(NOW + 1)), ("b", Some(NOW + 2)), ("c", None)] {
        assert_eq!(reserve(word, expires_at).await, Known::New);
    }
    let remove = |now| write(store, move |tx: &mut dyn Tx| idempotency::remove_expired(tx, now, 100));
    assert_eq!(remove(NOW).await, 0);
    assert_eq!(remove(NOW + 1).await, 1);
    assert_eq!(remove(NOW + 1).await, 0);
    assert_eq!(reserve("b", Some(NOW + 2)).await, Known::InProgress);
    assert_eq!(reserve("a", None).await, Known::New);
    assert_eq!(remove(i64::MAX).await, 1);
    assert_eq!(count(store, "SELECT COUNT(*) AS count FROM idempotency").await, 2);
}

async fn expired_keys_are_removed_in_steps(fixture: Fixture) {
    let store = &fixture.store;
    for n in 0..5_i64 {
        let key = Key::new("test", &[&n.to_be_bytes()], b"r", Some(NOW + n));
        write(store, move |tx: &mut dyn Tx| idempotency::reserve(tx, &key, NOW - 1, LEASE_END)).await;
    }
    let remove = || write(store, move |tx: &mut dyn Tx| idempotency::remove_expired(tx, NOW + 3, 3));
    assert_eq!((remove().await, remove().await, remove().await), (3, 1, 0));
    assert_eq!(count(store, "SELECT COUNT(*) AS count FROM idempotency").await, 1);
}

/// Sends 32 identical requests at once.
async fn crowd(store: &Store, message: impl Fn() -> relay::Send) -> Vec<Result<Sent, SendError>> {
    let mut tasks = JoinSet::new();
    for _ in 0..32 {
        let (store, message) = (store.clone(), message());
        tasks.spawn(async move { send(&store, message).await });
    }
    tasks.join_all().await
}

async fn many_at_once_are_stored_once(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob) = pair(store).await;
    let message =
        || relay::Send { keys: vec![keyed("k", "r")], turn: Some(turn(1, "c")), ..message(&anna, &bob) };
    let (mut stored, mut answers) = (vec![], vec![]);
    for result in crowd(store, message).await {
        match result.unwrap() {
            Sent::Stored { outcome, .. } => stored.push(outcome),
            Sent::Again(answer) => answers.push(answer),
            Sent::Pending(posting) => panic!("posted: {posting:?}"),
        }
    }
    assert_eq!((stored.len(), answers.len()), (1, 31));
    let first = serde_json::to_string(&stored[0]).unwrap();
    assert!(answers.iter().all(|answer| answer.body == first && answer.status == 202));
    assert_eq!((events(store).await, entries(store, bob.id).await.len()), (1, 1));
}

async fn many_at_once_are_posted_once(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob) = (agent(store, "anna").await, webhook(store, "bob").await);
    let message = || relay::Send { keys: vec![keyed("k", "r")], ..message(&anna, &bob) };
    let mut posts = 0;
    for result in crowd(store, message).await {
        match result {
            Ok(Sent::Pending(_)) => posts += 1,
            other => assert!(matches!(other, Err(SendError::InProgress)), "{other:?}"),
        }
    }
    assert_eq!((posts, events(store).await), (1, 1));
    // The traces of the others do not exist, and they used no history position.
    let head = write(store, move |tx| tx.head(bob.id.into())).await;
    assert_eq!(head, 1);
}
