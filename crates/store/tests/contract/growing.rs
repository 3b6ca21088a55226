//! Answers in progress: growing messages, and lines to a waiting sender.

use crate::channel::{Room, join, remove, room};
use crate::support::{Fixture, NOW, agent, count, fresh, on_both, read, write};
use chorus_protocol::ids::{AgentId, DeliveryId, EventId};
use chorus_protocol::words::History;
use chorus_store::growing::{self, Growing, NewPiece};
use chorus_store::reply_lines::{self, SaidLine, Waiting};
use chorus_store::{Metered, Store};

on_both!(
    a_message_grows,
    a_piece_costs_what_is_new,
    what_is_over_is_gone,
    an_agent_has_so_many_at_a_time,
    lines_come_in_order,
    who_lags_is_waited_for,
    an_answer_is_begun_once,
    nobody_waits_for_ever,
);

async fn add(store: &Store, room: Room, delivery: DeliveryId, text: &'static str) -> Option<EventId> {
    add_at(store, room, delivery, text, NOW).await
}

async fn add_at(
    store: &Store,
    room: Room,
    delivery: DeliveryId,
    text: &'static str,
    now: i64,
) -> Option<EventId> {
    let (conversation, event) = (room.id, EventId(fresh()));
    write(store, move |tx| {
        growing::add(tx, &NewPiece { delivery, conversation, thread: None, event, text, now }, 20)
    })
    .await
}

async fn since(store: &Store, room: Room, version: i64) -> Vec<Growing> {
    read(store, move |tx| growing::since(tx, room.id, version, 10)).await
}

async fn talker(store: &Store, room: Room, name: &'static str) -> AgentId {
    let id = agent(store, name).await.id;
    join(store, room, id.into(), name).await;
    id
}

async fn a_message_grows(fixture: Fixture) {
    let store = &fixture.store;
    let room = room(store, History::All).await;
    let (bob, carol) = (talker(store, room, "bob").await, talker(store, room, "carol").await);
    let (first, second) = (DeliveryId { agent: bob, seq: 1 }, DeliveryId { agent: carol, seq: 1 });
    let event = add(store, room, first, "one tw").await.unwrap();
    assert_eq!(add(store, room, first, "o ").await, Some(event), "under the id it began with");
    let other = add(store, room, second, "hi ").await.unwrap();
    let grown = |event, handle: &str, content: &str, version| Growing {
        event,
        handle: handle.into(),
        thread: None,
        content: content.into(),
        version,
    };
    let both = [grown(event, "bob", "one two ", 2), grown(other, "carol", "hi ", 3)];
    assert_eq!(since(store, room, 0).await, both);
    assert_eq!(since(store, room, 2).await, both[1..]);
    assert_eq!(add(store, room, first, "three four five six").await, None, "too long");
    assert_eq!(since(store, room, 0).await, both, "and nothing of it is kept");
    // A credential split over two pieces is recognised.
    add(store, room, second, "ct_0123456789abc").await;
    assert_eq!(since(store, room, 0).await[1].content, "hi ", "its last word waits");
    // Messages of a former member are not shown.
    remove(store, room, "carol").await;
    assert_eq!(since(store, room, 0).await, both[..1]);

    let finish = async |delivery| write(store, move |tx| growing::finish(tx, delivery)).await;
    assert_eq!((finish(first).await, finish(first).await), (Some(event), None));
    assert_eq!(since(store, room, 0).await, []);
}

/// Returns the bytes written for an answer of this many pieces, and its text.
async fn cost(store: &Store, room: Room, delivery: DeliveryId, pieces: usize) -> (usize, String) {
    let event = EventId(fresh());
    let written = write(store, move |tx| {
        let mut metered = Metered::new(tx);
        for _ in 0..pieces {
            let text = "é little by ";
            let piece = NewPiece { delivery, conversation: room.id, thread: None, event, text, now: NOW };
            assert!(growing::add(&mut metered, &piece, usize::MAX)?.is_some());
        }
        Ok(metered.bytes_written)
    })
    .await;
    let grown = since(store, room, 0).await;
    let own = grown.into_iter().find(|one| one.event == event).unwrap();
    (written, own.content)
}

async fn a_piece_costs_what_is_new(fixture: Fixture) {
    let store = &fixture.store;
    let room = room(store, History::All).await;
    let bob = talker(store, room, "bob").await;
    let (few, text) = cost(store, room, DeliveryId { agent: bob, seq: 1 }, 200).await;
    assert_eq!(text, "é little by ".repeat(200));
    let (many, text) = cost(store, room, DeliveryId { agent: bob, seq: 2 }, 2000).await;
    assert_eq!(text, "é little by ".repeat(2000));
    // Ten times the length costs about ten times as much; it used to be a hundred times.
    assert!(many < few * 11, "{few} bytes for 200 pieces, {many} for 2000");
    assert!(few < 200 * 1024, "{few} bytes for 200 pieces");
    let lines = count(store, "SELECT COUNT(*) AS count FROM reply_lines").await;
    assert!((20..60).contains(&lines), "{lines} lines");
    for seq in 1..=2 {
        write(store, move |tx| growing::finish(tx, DeliveryId { agent: bob, seq })).await;
    }
    assert_eq!(count(store, "SELECT COUNT(*) AS count FROM reply_lines").await, 0);
}

async fn what_is_over_is_gone(fixture: Fixture) {
    let store = &fixture.store;
    let room = room(store, History::All).await;
    let bob = talker(store, room, "bob").await;
    let delivery = move |seq| DeliveryId { agent: bob, seq };
    let abandon = async |seq| write(store, move |tx| growing::abandon(tx, delivery(seq), room.id)).await;
    abandon(1).await;
    let event = add(store, room, delivery(1), "half a ").await;
    abandon(1).await;
    let left = since(store, room, 1).await;
    assert_eq!((left[0].content.as_str(), Some(left[0].event), left[0].version), ("", event, 2));
    abandon(1).await;
    assert_eq!(since(store, room, 2).await, [], "it is said once");
    // After ten minutes without a piece it is deleted.
    add_at(store, room, delivery(2), "x ", NOW + 1).await;
    let old = async |now| write(store, move |tx| growing::remove_old(tx, now, 10)).await;
    assert_eq!((old(NOW + 599_999).await, old(NOW + 600_000).await), (0, 1));
    assert_eq!((old(NOW + 600_001).await, since(store, room, 0).await.len()), (1, 0));
}

async fn an_agent_has_so_many_at_a_time(fixture: Fixture) {
    let store = &fixture.store;
    let room = room(store, History::All).await;
    let (bob, carol) = (talker(store, room, "bob").await, talker(store, room, "carol").await);
    add(store, room, DeliveryId { agent: carol, seq: 1 }, "x ").await;
    for seq in 1..=18 {
        add(store, room, DeliveryId { agent: bob, seq }, "x ").await;
    }
    assert_eq!(count(store, "SELECT COUNT(*) AS count FROM growing").await, 16 + 1, "others keep theirs");
    let bobs = "SELECT MIN(seq) AS count FROM growing WHERE seq > 1";
    assert_eq!(count(store, bobs).await, 3, "the oldest gave way");
}

fn to(seq: i64) -> DeliveryId {
    DeliveryId { agent: AgentId(uuid::Uuid::from_u128(5)), seq }
}

async fn wait(store: &Store, seq: i64, until: i64) {
    write(store, move |tx| reply_lines::wait(tx, to(seq), until)).await;
}

async fn waiting(store: &Store, seq: i64, now: i64) -> Waiting {
    read(store, move |tx| reply_lines::waiting(tx, to(seq), now)).await
}

async fn say(store: &Store, seq: i64, data: &str, now: i64) -> bool {
    let data = data.to_owned();
    write(store, move |tx| reply_lines::say(tx, to(seq), "chunk", &data, now)).await
}

async fn after(store: &Store, seq: i64, line: i64) -> Vec<SaidLine> {
    read(store, move |tx| reply_lines::after(tx, to(seq), line)).await
}

async fn lines_come_in_order(fixture: Fixture) {
    let store = &fixture.store;
    assert!(!say(store, 1, "x", NOW).await, "nobody waits");
    wait(store, 1, NOW + 10).await;
    wait(store, 2, NOW + 10).await;
    // Concurrent pieces get distinct numbers, and none is lost.
    let all = (0..20).map(|n| {
        let store = store.clone();
        tokio::spawn(async move { say(&store, 1, &n.to_string(), NOW).await })
    });
    for said in all.collect::<Vec<_>>() {
        assert!(said.await.unwrap());
    }
    let lines = after(store, 1, 0).await;
    assert_eq!(lines.iter().map(|line| line.line).collect::<Vec<_>>(), (1..=20).collect::<Vec<_>>());
    let mut said: Vec<i64> = lines.iter().map(|line| line.data.parse().unwrap()).collect();
    said.sort_unstable();
    assert_eq!(said, (0..20).collect::<Vec<_>>());
    assert_eq!(after(store, 1, 19).await, lines[19..]);
    assert_eq!(after(store, 2, 0).await, [], "it is for the other");
    write(store, |tx| reply_lines::end(tx, to(1))).await;
    assert_eq!(after(store, 1, 0).await, []);
    assert_eq!(
        (waiting(store, 1, NOW).await, waiting(store, 2, NOW).await),
        (Waiting::Nobody, Waiting::Listens)
    );
    write(store, |tx| reply_lines::end_all(tx, to(2).agent.0)).await;
    assert_eq!(waiting(store, 2, NOW).await, Waiting::Nobody);
}

async fn who_lags_is_waited_for(fixture: Fixture) {
    let store = &fixture.store;
    wait(store, 1, NOW + 10).await;
    say(store, 1, &"x".repeat(1024 * 1024), NOW).await;
    assert_eq!(waiting(store, 1, NOW).await, Waiting::Listens);
    say(store, 1, "x", NOW).await;
    assert_eq!(waiting(store, 1, NOW).await, Waiting::Lags);
    write(store, |tx| reply_lines::took(tx, to(1), 1)).await;
    assert_eq!(waiting(store, 1, NOW).await, Waiting::Listens);
    assert_eq!(after(store, 1, 1).await.len(), 1, "what it has not is still there");
}

async fn an_answer_is_begun_once(fixture: Fixture) {
    let store = &fixture.store;
    let begin = async |now| write(store, move |tx| reply_lines::begin(tx, to(1), now)).await;
    assert!(!begin(NOW).await, "nobody waits");
    wait(store, 1, NOW + 10).await;
    assert!(!begin(NOW + 10).await, "not any more");
    assert!(begin(NOW).await);
    assert!(!begin(NOW).await);
    assert!(say(store, 1, "x", NOW).await);
    let kinds: Vec<_> = after(store, 1, 0).await.into_iter().map(|line| (line.line, line.kind)).collect();
    assert_eq!(kinds, [(1, "begun".to_owned()), (2, "chunk".to_owned())]);
}

async fn nobody_waits_for_ever(fixture: Fixture) {
    let store = &fixture.store;
    wait(store, 1, NOW + 10).await;
    say(store, 1, "x", NOW).await;
    assert_eq!(waiting(store, 1, NOW + 9).await, Waiting::Listens);
    assert_eq!(waiting(store, 1, NOW + 10).await, Waiting::Nobody);
    assert!(!say(store, 1, "late", NOW + 10).await);
    let expired = async |now| write(store, move |tx| reply_lines::remove_expired(tx, now, 10)).await;
    assert_eq!((expired(NOW + 9).await, expired(NOW + 10).await, expired(NOW + 10).await), (0, 2, 0));
}
