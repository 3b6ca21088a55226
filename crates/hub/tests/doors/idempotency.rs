//! Repeated requests, by key or by turn: one delivery, one response.

use crate::held_receiver::HeldReceiver;
use crate::support::{Answer, OPERATOR, Setup, TestHub, envelope, eventually};
use chorus_protocol::code::Code;
use chorus_store::idempotency::{self, Key};
use chorus_store::{StoreError, Tx, TxExt};
use chorus_testkit::clock::ManualClock;
use chorus_testkit::receiver::{FakeAgent, Reply};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

fn keyed(hub: &TestHub, key: &str, idempotency_key: &str, body: &Value) -> RequestBuilder {
    hub.request(Method::POST, "/messages", Some(key)).header("idempotency-key", idempotency_key).json(body)
}

fn body(to: &str, text: &str) -> Value {
    json!({"receiver_id": to, "envelope": envelope("alice", text)})
}

fn turn(text: &str, conversation: &str, number: i64) -> Value {
    let mut turn = envelope("alice", text);
    (turn["conversation_id"], turn["turn_number"]) = (json!(conversation), json!(number));
    turn
}

fn assert_replayed(answer: &Answer, first: &Answer) {
    assert_eq!((answer.status, answer.data()), (first.status, first.data()));
    assert_eq!(answer.header("idempotent-replayed"), "true");
}

#[tokio::test]
async fn the_same_key_again() {
    let (hub, receiver) = (TestHub::start(), FakeAgent::start().await);
    let alice = hub.register("alice").await;
    let bob = hub.register("bob").await;
    hub.register_webhook("hook", &receiver.url()).await;
    for (to, outcome) in [("bob", (202, "queued")), ("hook", (200, "delivered"))] {
        let first = Answer::of(keyed(&hub, &alice, to, &body(to, "once"))).await;
        assert_eq!(first.outcome(), outcome);
        assert_eq!(first.header("idempotent-replayed"), "");
        for _ in 0..3 {
            assert_replayed(&Answer::of(keyed(&hub, &alice, to, &body(to, "once"))).await, &first);
        }
        let other = Answer::of(keyed(&hub, &alice, to, &body(to, "other"))).await;
        other.failure(Code::IdempotencyConflict);
    }
    assert_eq!((hub.history(&bob).await.len(), receiver.requests().len()), (1, 1));
    let hub = hub.restart(|_| {}).await;
    let again = Answer::of(keyed(&hub, &alice, "hook", &body("hook", "once"))).await;
    assert_eq!(again.header("idempotent-replayed"), "true", "a restart forgets nothing");
    assert_eq!(receiver.requests().len(), 1);
}

/// The first response is repeated, although a new one would differ.
#[tokio::test]
async fn the_answer_is_the_first_one() {
    let hub = TestHub::start();
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    let first = Answer::of(keyed(&hub, &alice, "k", &body("bob", "once"))).await;
    assert_eq!(first.outcome(), (202, "queued"));
    let mut inbox = hub.inbox(&bob, None).await;
    assert_replayed(&Answer::of(keyed(&hub, &alice, "k", &body("bob", "once"))).await, &first);
    assert_eq!(inbox.texts(1).await, ["once"]);
    inbox.assert_quiet().await;
}

#[tokio::test]
async fn a_key_belongs_to_its_sender_for_a_day() {
    let clock = ManualClock::new(1_774_000_800_000);
    let hub = Setup::new().clock(&clock).start();
    let alice = hub.register("alice").await;
    let (carol, bob) = (hub.register("carol").await, hub.register("bob").await);
    let from_carol = json!({"receiver_id": "bob", "envelope": envelope("carol", "mine")});
    assert_eq!(Answer::of(keyed(&hub, &alice, "k", &body("bob", "hers"))).await.outcome(), (202, "queued"));
    assert_eq!(Answer::of(keyed(&hub, &carol, "k", &from_carol)).await.outcome(), (202, "queued"));
    let by_operator = Answer::of(keyed(&hub, OPERATOR, "k", &body("bob", "hers"))).await;
    assert_eq!(by_operator.header("idempotent-replayed"), "true", "the operator speaks as alice");
    clock.advance(DAY_MS - 1);
    Answer::of(keyed(&hub, &alice, "k", &body("bob", "new"))).await.failure(Code::IdempotencyConflict);
    clock.advance(1);
    assert_eq!(Answer::of(keyed(&hub, &alice, "k", &body("bob", "new"))).await.outcome(), (202, "queued"));
    assert_eq!(hub.history(&bob).await.len(), 3);
}

/// While the first request is in progress there is no response to repeat; afterwards there is.
#[tokio::test]
async fn while_a_webhook_hangs() {
    let (hub, receiver) = (TestHub::start(), HeldReceiver::start().await);
    let alice = hub.register("alice").await;
    hub.register_webhook("bob", receiver.url()).await;
    let first = tokio::spawn(Answer::of(keyed(&hub, &alice, "k", &body("bob", "slow"))));
    receiver.wait_for_message().await;
    let meanwhile = Answer::of(keyed(&hub, &alice, "k", &body("bob", "slow"))).await;
    meanwhile.failure(Code::IdempotencyInProgress);
    assert_eq!(meanwhile.header("retry-after"), "1");
    Answer::of(keyed(&hub, &alice, "k", &body("bob", "other"))).await.failure(Code::IdempotencyConflict);
    receiver.release();
    let first = first.await.unwrap();
    assert_eq!(first.outcome(), (200, "delivered"));
    assert_replayed(&Answer::of(keyed(&hub, &alice, "k", &body("bob", "slow"))).await, &first);
    assert_eq!(receiver.count(), 1);
}

/// A failure is not repeated: the same key makes a new attempt.
#[tokio::test]
async fn after_a_failure() {
    let (hub, receiver) = (TestHub::start(), FakeAgent::start().await);
    let alice = hub.register("alice").await;
    let bob = hub.register_webhook("bob", &receiver.url()).await;
    receiver.set(Reply::Json(503, json!({})));
    let mut message = body("bob", "again");
    message["envelope"] = turn("again", "c", 1);
    let send = || Answer::of(keyed(&hub, &alice, "k", &message));
    let failed = send().await;
    assert_eq!(failed.outcome(), (200, "failed"));
    assert_eq!(send().await.outcome(), (200, "failed"));
    receiver.set(Reply::Json(200, json!({"status": "ok"})));
    let delivered = send().await;
    assert_eq!(delivered.outcome(), (200, "delivered"));
    assert_ne!(delivered.data()["trace_id"], failed.data()["trace_id"]);
    assert_replayed(&send().await, &delivered);
    assert_eq!(receiver.requests().len(), 3);
    let history: Vec<_> = hub.history(&bob).await.iter().map(|message| message["delivery"].clone()).collect();
    assert_eq!(history, ["failed", "failed", "delivered"]);
}

/// A request refused before delivery does not use up its key.
#[tokio::test]
async fn after_a_rejection() {
    let hub = TestHub::start();
    let alice = hub.register("alice").await;
    Answer::of(keyed(&hub, &alice, "k", &body("bob", "early"))).await.failure(Code::AgentNotFound);
    hub.register("bob").await;
    assert_eq!(Answer::of(keyed(&hub, &alice, "k", &body("bob", "other"))).await.outcome(), (202, "queued"));
}

#[tokio::test]
async fn the_same_turn_again() {
    let (hub, receiver) = (TestHub::start(), FakeAgent::start().await);
    let (alice, bob, carol) =
        (hub.register("alice").await, hub.register("bob").await, hub.register("carol").await);
    hub.register_webhook("hook", &receiver.url()).await;
    let queued = hub.send_envelope(&alice, "bob", &turn("one", "c", 1)).await;
    assert_eq!(queued.outcome(), (202, "queued"));
    assert_replayed(&hub.send_envelope(&alice, "BOB@chorus", &turn("one", "c", 1)).await, &queued);
    let spelled = r#"{"receiver_id":"bob","envelope":{"turn_number":1,"sender_culture":"en",
        "original_text":"\u006fne","sender_id":"alice","conversation_id":"c","chorus_version":"0.4"}}"#;
    let respelled = Answer::of(hub.request(Method::POST, "/messages", Some(&alice)).body(spelled)).await;
    assert_replayed(&respelled, &queued);
    hub.send_envelope(&alice, "bob", &turn("other", "c", 1)).await.failure(Code::IdempotencyConflict);

    let delivered = hub.send_envelope(&alice, "hook", &turn("one", "c", 1)).await;
    assert_eq!(delivered.outcome(), (200, "delivered"), "to another receiver it is another turn");
    assert_replayed(&hub.send_envelope(&alice, "hook", &turn("one", "c", 1)).await, &delivered);
    assert_eq!(receiver.requests().len(), 1);

    for (conversation, number) in [("c", 2), ("d", 1)] {
        let next = hub.send_envelope(&alice, "bob", &turn("one", conversation, number)).await;
        assert_eq!(next.header("idempotent-replayed"), "");
    }
    let mut from_carol = turn("one", "c", 1);
    from_carol["sender_id"] = json!("carol");
    let theirs = hub.send_envelope(&carol, "bob", &from_carol).await;
    assert_eq!(theirs.header("idempotent-replayed"), "", "another sender's turn is another turn");
    assert_eq!(hub.history(&bob).await.len(), 4);
}

/// A turn number without a conversation does not make a duplicate.
#[tokio::test]
async fn an_unnumbered_message_is_never_a_duplicate() {
    let hub = TestHub::start();
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    let mut conversation = envelope("alice", "same");
    conversation["conversation_id"] = json!("c");
    let mut number = envelope("alice", "same");
    number["turn_number"] = json!(1);
    for message in [&envelope("alice", "same"), &conversation, &number] {
        for _ in 0..2 {
            assert_eq!(hub.send_envelope(&alice, "bob", message).await.outcome(), (202, "queued"));
        }
    }
    assert_eq!(hub.history(&bob).await.len(), 6);
}

/// A retry that adds a key only the second time is still recognised by its turn.
#[tokio::test]
async fn a_turn_first_sent_without_a_key() {
    let hub = TestHub::start();
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    let message = json!({"receiver_id": "bob", "envelope": turn("one", "c", 1)});
    let first = hub.post("/messages", Some(&alice), &message).await;
    assert_replayed(&Answer::of(keyed(&hub, &alice, "k", &message)).await, &first);
    assert_replayed(&Answer::of(keyed(&hub, &alice, "k", &message)).await, &first);
    Answer::of(keyed(&hub, &alice, "k", &body("bob", "other"))).await.failure(Code::IdempotencyConflict);
    assert_eq!(hub.history(&bob).await.len(), 1);
}

/// Of many simultaneous requests, one is delivered.
#[tokio::test]
async fn all_at_once() {
    let hub = TestHub::start();
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    let message = json!({"receiver_id": "bob", "envelope": turn("one", "c", 1)});
    let by_key = (0..20).map(|_| Answer::of(keyed(&hub, &alice, "k", &message)));
    let by_turn =
        (0..20).map(|_| Answer::of(hub.request(Method::POST, "/messages", Some(&alice)).json(&message)));
    let answers = futures_util::future::join(
        futures_util::future::join_all(by_key),
        futures_util::future::join_all(by_turn),
    )
    .await;
    let traces: Vec<_> =
        answers.0.iter().chain(&answers.1).map(|answer| answer.data()["trace_id"].clone()).collect();
    assert!(traces.iter().all(|trace| *trace == traces[0]), "{traces:?}");
    assert_eq!(hub.history(&bob).await.len(), 1);
}

/// All expired keys are removed in one run of small transactions, because a busy day's keys expire together.
#[tokio::test]
async fn all_keys_that_are_over_are_forgotten_at_once() {
    let hub = TestHub::start();
    let claim = |tx: &mut dyn Tx| {
        for n in 0..3000_u32 {
            let key = Key::new("test", &[&n.to_be_bytes()], b"", Some(1));
            idempotency::reserve(tx, &key, 0, 1)?;
        }
        Ok::<_, StoreError>(())
    };
    hub.store().write(claim).await.unwrap();
    // The hub cleans up when it starts.
    let hub = hub.restart(|_| {}).await;
    let left = async || {
        let count = |tx: &mut dyn Tx| {
            tx.first("SELECT COUNT(*) AS count FROM idempotency", &[])?.unwrap().int("count")
        };
        hub.store().read::<_, StoreError, _>(count).await.unwrap()
    };
    eventually(left, |left| *left == 0).await;
}
