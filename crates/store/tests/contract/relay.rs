//! Sending, and reading what was sent.

use crate::support::{
    Fixture, NODE, NOW, agent, count, deliver, entries, fresh, message, on_both, post, read, send, webhook,
    write,
};
use chorus_protocol::code::Code;
use chorus_protocol::ids::TraceId;
use chorus_protocol::relay::Outcome;
use chorus_protocol::words::DeliveryState;
use chorus_store::directory::Agent;
use chorus_store::relay::{self, SendError, Sent};
use chorus_store::{Store, Tx, TxExt, access, deliveries, inboxes};

on_both![
    to_a_closed_inbox_it_is_queued,
    to_an_open_inbox_it_is_delivered,
    to_an_endpoint_it_is_posted,
    an_open_inbox_goes_before_an_endpoint,
    nobody_is_not_found_and_nothing_stays,
    to_oneself_it_is_a_message_like_any_other,
    a_page_begins_after_its_cursor_and_ends_at_its_limit,
    a_page_ends_when_it_has_its_bytes,
    bodies_come_back_whole,
    the_name_of_a_deleted_author_stays,
];

async fn open(store: &Store, agent: &Agent, until: i64) {
    let id = agent.id;
    write(store, move |tx| inboxes::open(tx, id, fresh(), NODE, until)).await.unwrap();
}

async fn to_a_closed_inbox_it_is_queued(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob) = (agent(store, "anna").await, agent(store, "bob").await);
    let mut first = message(&anna, &bob);
    first.receiver = "BOB".into();
    let trace = first.trace;
    let Sent::Stored { receiver, seq, outcome } = send(store, first).await.unwrap() else {
        panic!("not stored")
    };
    assert_eq!((receiver, seq), (bob.clone(), 1));
    assert_eq!(relay::status(&outcome), 202);
    assert_eq!((outcome.delivery, outcome.trace_id), (DeliveryState::Queued, Some(trace.into())));
    assert_eq!(deliver(store, message(&anna, &bob)).await, (2, DeliveryState::Queued));

    let inbox = entries(store, bob.id).await;
    assert_eq!(inbox.iter().map(|entry| entry.seq).collect::<Vec<_>>(), [1, 2]);
    assert_eq!((inbox[0].kind.as_str(), inbox[0].author.as_deref()), ("message", Some("anna")));
    assert_eq!((inbox[0].is_streamed(), inbox[0].state), (true, DeliveryState::Queued));
    assert_eq!((inbox[0].trace, inbox[0].created_at), (trace, NOW));
    assert_eq!(entries(store, anna.id).await, [], "the sender's inbox is not touched");
}

async fn to_an_open_inbox_it_is_delivered(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob) = (agent(store, "anna").await, agent(store, "bob").await);
    open(store, &bob, NOW + 1).await;
    let Sent::Stored { outcome, .. } = send(store, message(&anna, &bob)).await.unwrap() else {
        panic!("not stored")
    };
    assert_eq!((outcome.delivery, relay::status(&outcome)), (DeliveryState::DeliveredSse, 200));
    let inbox = entries(store, bob.id).await;
    assert_eq!((inbox[0].is_streamed(), inbox[0].state), (true, DeliveryState::DeliveredSse));
    // A node that does not renew is dead, and its inboxes are closed.
    open(store, &bob, NOW).await;
    assert_eq!(deliver(store, message(&anna, &bob)).await, (2, DeliveryState::Queued));
}

async fn to_an_endpoint_it_is_posted(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob) = (agent(store, "anna").await, webhook(store, "bob").await);
    let sent = message(&anna, &bob);
    let (lease, trace) = (sent.lease, sent.trace);
    let first = post(store, sent).await;
    assert_eq!((first.receiver.id, first.seq), (bob.id, 1));
    assert_eq!((first.transport, &first.receiver.endpoint), (deliveries::Transport::Webhook, &bob.endpoint));
    assert_eq!((first.lease, first.trace), (lease, trace));
    let second = post(store, message(&anna, &bob)).await;
    let states = async || {
        let history = entries(store, bob.id).await;
        assert!(history.iter().all(|entry| !entry.is_streamed()), "what is posted is not streamed");
        history.into_iter().map(|entry| entry.state).collect::<Vec<_>>()
    };
    assert_eq!(states().await, [DeliveryState::Sending, DeliveryState::Sending]);

    let mut outcome = Outcome {
        delivery: DeliveryState::Delivered,
        receiver_response: None,
        error_code: None,
        detail: None,
        trace_id: Some(TraceId(fresh()).into()),
    };
    let taken = outcome.clone();
    write(store, move |tx| relay::record_outcome(tx, &first, &taken, NOW + 5)).await;
    assert_eq!(states().await, [DeliveryState::Delivered, DeliveryState::Sending]);
    outcome.delivery = DeliveryState::Failed;
    outcome.error_code = Some(Code::AgentUnreachable.as_str().into());
    outcome.detail = Some("no route".into());
    write(store, move |tx| relay::record_outcome(tx, &second, &outcome, NOW + 5)).await;
    assert_eq!(states().await, [DeliveryState::Delivered, DeliveryState::Failed]);
    let why = read(store, |tx| {
        let sql = "SELECT error_code, detail, updated_at, lease_until FROM deliveries WHERE state = 'failed'";
        let mut row = tx.first(sql, &[])?.unwrap();
        Ok((
            row.text("error_code")?,
            row.text("detail")?,
            row.int("updated_at")?,
            row.opt_int("lease_until")?,
        ))
    });
    assert_eq!(why.await, ("ERR_AGENT_UNREACHABLE".into(), "no route".into(), NOW + 5, None));
}

async fn an_open_inbox_goes_before_an_endpoint(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob) = (agent(store, "anna").await, webhook(store, "bob").await);
    open(store, &bob, NOW + 1).await;
    assert_eq!(deliver(store, message(&anna, &bob)).await, (1, DeliveryState::DeliveredSse));
    open(store, &bob, NOW).await;
    post(store, message(&anna, &bob)).await;
    let streamed: Vec<bool> =
        entries(store, bob.id).await.iter().map(chorus_store::deliveries::Entry::is_streamed).collect();
    assert_eq!(streamed, [true, false]);
}

async fn nobody_is_not_found_and_nothing_stays(fixture: Fixture) {
    let store = &fixture.store;
    let anna = agent(store, "anna").await;
    let mut lost = message(&anna, &anna);
    lost.receiver = "nobody".into();
    assert!(matches!(send(store, lost).await, Err(SendError::ReceiverNotFound)));
    assert_eq!(count(store, "SELECT COUNT(*) AS count FROM events").await, 0);
    assert_eq!(count(store, "SELECT COUNT(*) AS count FROM streams").await, 0);
}

async fn to_oneself_it_is_a_message_like_any_other(fixture: Fixture) {
    let store = &fixture.store;
    let anna = agent(store, "anna").await;
    for seq in 1..=3 {
        assert_eq!(deliver(store, message(&anna, &anna)).await, (seq, DeliveryState::Queued));
    }
    assert_eq!(entries(store, anna.id).await.len(), 3);
}

async fn a_page_begins_after_its_cursor_and_ends_at_its_limit(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob) = (agent(store, "anna").await, agent(store, "bob").await);
    for n in 1..=9 {
        deliver(store, relay::Send { envelope: n.to_string(), ..message(&anna, &bob) }).await;
        deliver(store, message(&bob, &anna)).await;
    }
    let page = async |after: i64, limit: i64| {
        let page = read(store, move |tx| deliveries::page(tx, bob.id, after, limit, usize::MAX)).await;
        for entry in &page {
            assert_eq!(entry.body, entry.seq.to_string());
        }
        page.into_iter().map(|entry| entry.seq).collect::<Vec<_>>()
    };
    assert_eq!(page(0, 4).await, [1, 2, 3, 4]);
    assert_eq!(page(4, 4).await, [5, 6, 7, 8]);
    assert_eq!(page(8, 4).await, [9]);
    assert_eq!(page(9, 4).await, [0; 0]);
    assert_eq!(page(99, 4).await, [0; 0]);
}

async fn a_page_ends_when_it_has_its_bytes(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob) = (agent(store, "anna").await, agent(store, "bob").await);
    for _ in 0..4 {
        deliver(store, relay::Send { envelope: "x".repeat(100), ..message(&anna, &bob) }).await;
    }
    for (max_bytes, expected) in [(1, 1), (100, 1), (101, 2), (399, 4), (401, 4)] {
        let page = read(store, move |tx| deliveries::page(tx, bob.id, 0, 10, max_bytes)).await;
        assert_eq!(page.len(), expected, "{max_bytes} bytes");
    }
}

async fn bodies_come_back_whole(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob) = (agent(store, "anna").await, agent(store, "bob").await);
    let inline = 64 * 1024;
    let bodies = [
        String::new(),
        "\"咖啡 ☕ \\u0001\"".to_owned(),
        "a".repeat(inline),
        "b".repeat(inline + 1),
        "é".repeat(inline),
        "z".repeat(1024 * 1024),
    ];
    for body in &bodies {
        deliver(store, relay::Send { envelope: body.clone(), ..message(&anna, &bob) }).await;
    }
    let inbox = entries(store, bob.id).await;
    assert!(inbox.iter().map(|entry| &entry.body).eq(&bodies));
    assert_eq!(count(store, "SELECT COUNT(*) AS count FROM large_bodies").await, 3);
    assert_eq!(count(store, "SELECT COUNT(*) AS count FROM events WHERE body IS NULL").await, 3);
}

async fn the_name_of_a_deleted_author_stays(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob) = (agent(store, "Anna").await, agent(store, "bob").await);
    deliver(store, message(&anna, &bob)).await;
    write(store, move |tx: &mut dyn Tx| access::delete_agent(tx, anna.id, NOW, &fresh)).await;
    let other = agent(store, "ANNA").await;
    deliver(store, message(&other, &bob)).await;
    let authors: Vec<_> = entries(store, bob.id).await.into_iter().filter_map(|entry| entry.author).collect();
    assert_eq!(authors, ["Anna", "ANNA"]);
}
