//! The mailbox of an agent, stored envelopes, and recorded tool calls, on both databases.

use crate::channel::{Room, act, join, post, post_of, room};
use crate::support::{Fixture, NOW, agent, deliver, message, on_both, read, write};
use chorus_protocol::attention::Attention;
use chorus_protocol::ids::{AgentId, ConversationId, DeliveryId, EventId, Principal};
use chorus_protocol::words::{Directedness, EntryKind, Mode, Policy, Priority, Reason};
use chorus_store::conversations::{self, History};
use chorus_store::deliveries::{Bringing, Chat};
use chorus_store::mailbox::{self, Found};
use chorus_store::obligations::Unkept;
use chorus_store::tool_calls::{self, MOST_OF_ONE, ToolCall};
use chorus_store::trail::TrailScope;
use chorus_store::{Store, obligations, relay, sent};
use uuid::Uuid;

on_both!(
    all_that_is_there_is_in_one_order,
    what_was_said_before_one_came_is_not,
    of_many_places_nothing_is_missed_and_the_rest_is_counted,
    an_exchange_has_both_sides,
    an_envelope_is_kept_once,
    calls_are_found_and_do_not_fill_the_table,
);

/// Returns the event id of this moment.
fn event(n: i64) -> EventId {
    EventId(Uuid::from_u128(mailbox::first_of(NOW + n).0.as_u128() | 1))
}

async fn say(store: &Store, room: Room, n: i64, names: &[&str]) {
    let act = chorus_store::conversation::Act { event: event(n), now: NOW + n, ..act(room, room.owner) };
    post(store, act, post_of("words", names, None)).await.unwrap();
}

async fn look(store: &Store, who: AgentId, after: i64, limit: i64) -> (Vec<i64>, bool) {
    let after = if after < 0 { EventId(Uuid::nil()) } else { event(after) };
    let look = read(store, move |tx| mailbox::after(tx, who, after, limit)).await;
    let moment = |(id, _): &(EventId, Found)| (id.0.as_u128() >> 80) as i64 - NOW;
    (look.found.iter().map(moment).collect(), look.more)
}

async fn all_that_is_there_is_in_one_order(fixture: Fixture) {
    let store = &fixture.store;
    let (one, two, elsewhere) =
        (room(store, History::All).await, room(store, History::All).await, room(store, History::All).await);
    let (alice, bob) = (agent(store, "alice").await, agent(store, "bob").await);
    for room in [one, two] {
        join(store, room, bob.id.into(), "bob").await;
    }
    say(store, one, 1, &[]).await;
    say(store, two, 2, &["bob"]).await;
    deliver(store, relay::Send { event: event(3), now: NOW + 3, ..message(&alice, &bob) }).await;
    say(store, elsewhere, 4, &[]).await;
    say(store, one, 5, &[]).await;
    assert_eq!(look(store, bob.id, -1, 10).await, (vec![1, 2, 3, 5], false));
    assert_eq!(look(store, bob.id, -1, 2).await, (vec![1, 2], true));
    assert_eq!(look(store, bob.id, 2, 10).await, (vec![3, 5], false));
    assert_eq!(look(store, bob.id, 5, 10).await, (vec![], false));
    assert_eq!(look(store, alice.id, -1, 10).await, (vec![], false), "nothing was brought to her");
    let bob = bob.id;
    let found = read(store, move |tx| mailbox::after(tx, bob, event(1), 2)).await.found;
    assert_eq!(found[0].1, Found::Brought(1, EntryKind::Chat));
    assert_eq!(found[1].1, Found::Brought(2, EntryKind::Message));
}

async fn what_was_said_before_one_came_is_not(fixture: Fixture) {
    let store = &fixture.store;
    let room = room(store, History::Joined).await;
    say(store, room, 1, &[]).await;
    let bob = agent(store, "bob").await.id;
    join(store, room, bob.into(), "bob").await;
    for n in 2..400 {
        say(store, room, n, &[]).await;
    }
    // From the beginning, from the middle, and at the end.
    let (first, more) = look(store, bob, -1, 100).await;
    assert_eq!((first, more), ((2..102).collect(), true));
    let (next, more) = look(store, bob, 101, 100).await;
    assert_eq!((next, more), ((102..202).collect(), true));
    assert_eq!(look(store, bob, 390, 100).await, ((391..400).collect(), false));
}

/// More conversations than are examined, most of them silent, some with much more than a page.
async fn of_many_places_nothing_is_missed_and_the_rest_is_counted(fixture: Fixture) {
    let store = &fixture.store;
    let bob = agent(store, "bob").await.id;
    let mut rooms = vec![];
    for _ in 0..203 {
        let room = room(store, History::All).await;
        join(store, room, bob.into(), "bob").await;
        rooms.push(room);
    }
    // The conversations with the smallest ids are examined.
    rooms.sort_by_key(|room| room.id);
    let left_out = rooms.split_off(200);
    say(store, left_out[0], 0, &[]).await;
    // Long runs of one conversation, then all in turn; each also has messages for nobody else.
    let places = (0..120).map(|_| 7).chain(0..200).chain((0..90).map(|n| 190 + n % 3));
    let said: Vec<_> = (1..).zip(places).collect();
    for (n, place) in &said {
        say(store, rooms[*place], *n, &[]).await;
    }
    let all: Vec<i64> = said.iter().map(|(n, _)| *n).collect();
    for limit in [1, 60, 100] {
        let (mut found, mut after) = (vec![], -1);
        loop {
            let (page, more) = look(store, bob, after, limit).await;
            assert!(page.len() as i64 <= limit);
            after = page.last().copied().unwrap_or(after);
            found.extend(page);
            // One by one, the beginning is enough.
            if !more || (limit == 1 && found.len() == 130) {
                break;
            }
        }
        assert_eq!(found, all[..found.len()], "{limit}");
        assert!(limit == 1 || found.len() == all.len(), "{limit}");
    }
    let look = read(store, move |tx| mailbox::after(tx, bob, event(400), 100)).await;
    assert_eq!((look.found.len(), look.more, look.left_out), (10, false, 3));
}

async fn an_exchange_has_both_sides(fixture: Fixture) {
    let store = &fixture.store;
    let (alice, bob, eve) =
        (agent(store, "alice").await, agent(store, "bob").await, agent(store, "eve").await);
    for (n, from, to) in [(1, &alice, &bob), (2, &bob, &alice), (3, &eve, &bob), (4, &alice, &bob)] {
        deliver(store, relay::Send { event: event(n), now: NOW + n, ..message(from, to) }).await;
    }
    let place = ConversationId::of_pair(alice.id, bob.id);
    let exchange = async |who: AgentId| {
        let found = read(store, move |tx| mailbox::exchange(tx, who, place)).await;
        found.into_iter().map(|(id, found)| (id, found == Found::Said)).collect::<Vec<_>>()
    };
    let own = [(1, false), (2, true), (4, false)].map(|(n, own)| (event(n), own));
    assert_eq!(exchange(bob.id).await, own);
    assert_eq!(exchange(alice.id).await, own.map(|(event, own)| (event, !own)));
    assert_eq!(exchange(eve.id).await, [], "it is between two");
}

async fn an_envelope_is_kept_once(fixture: Fixture) {
    let store = &fixture.store;
    let (alice, bob) = (agent(store, "alice").await, agent(store, "bob").await);
    for n in 1..=2 {
        deliver(store, relay::Send { event: event(n), now: NOW + n, ..message(&alice, &bob) }).await;
    }
    let (bob, alice) = (bob.id, alice.id);
    let unkept = |seq| Unkept { id: DeliveryId { agent: bob, seq }, event: event(seq), stored_at: NOW + seq };
    write(store, move |tx| obligations::ack(tx, bob, &[2, 7, 1], NOW)).await;
    let kept = read(store, move |tx| obligations::of(tx, event(2), bob, NOW)).await;
    assert_eq!(kept, None, "that it was taken is all that is known of it, and the inbox knows that");
    let found = read(store, move |tx| {
        let envelope = conversations::event_by_id(tx, event(2))?.unwrap();
        Ok((sent::delivery_of(tx, &envelope, bob)?, sent::delivery_of(tx, &envelope, alice)?))
    });
    let id = DeliveryId { agent: bob, seq: 2 };
    assert_eq!(found.await, (Some((id, NOW + 2)), None));
    for sent in [1, 9] {
        write(store, move |tx| {
            let attention = Attention {
                directedness: Directedness::ToMe,
                policy: Policy::MustRespond,
                mode: Mode::Buffered,
                reason: Reason::DirectMessage,
                priority: Priority::Normal,
                deadline_ms: Some(300),
            };
            let chat = Chat {
                conversation: ConversationId::of_pair(alice, bob),
                attention,
                push: None,
                bringing: Bringing { sent, ..Bringing::FIRST },
                next_at: Some(NOW + 300),
            };
            obligations::keep(tx, id, event(2), &chat, NOW)
        })
        .await;
    }
    let known = read(store, move |tx| obligations::of(tx, event(2), bob, NOW)).await.unwrap();
    assert_eq!((known.id, known.sent, known.attention.deadline_ms), (id, 1, Some(300)));
    assert!(!known.acked);
    write(store, move |tx| obligations::ack(tx, bob, &[1, 2], NOW)).await;
    let known = read(store, move |tx| obligations::of(tx, event(2), bob, NOW)).await.unwrap();
    assert!(known.acked);
    assert_eq!(write(store, move |tx| obligations::count_again(tx, id)).await, 2);
    let sent = read(store, move |tx| obligations::sent(tx, bob, 1, 2)).await;
    assert_eq!(sent.into_iter().collect::<Vec<_>>(), [(2, 2)]);
    assert_eq!(read(store, move |tx| obligations::unkept(tx, bob, 0, 9)).await, [unkept(1)]);
}

async fn calls_are_found_and_do_not_fill_the_table(fixture: Fixture) {
    let store = &fixture.store;
    let (room, bob) = (room(store, History::All).await, agent(store, "bob").await.id);
    let call = move |n: i64, caller: Principal, conversation| ToolCall {
        id: event(n).0,
        caller,
        tool: "chat.claim".into(),
        door: "c2a".into(),
        conversation,
        event: Some(event(0)),
        outcome: "done".into(),
    };
    let calls: Vec<_> = (1..=MOST_OF_ONE + 5).map(|n| call(n, bob.into(), None)).collect();
    let other = call(1, room.owner, Some(room.id));
    let kept = calls.clone();
    write(store, move |tx| {
        tool_calls::record(
            tx,
            &[kept.as_slice(), &[ToolCall { id: event(9_999).0, ..other.clone() }]].concat(),
        )
    })
    .await;
    let list = |scope, after: Option<EventId>, limit| {
        read(store, move |tx| tool_calls::list(tx, scope, after.map(|id| id.0), 0, limit))
    };
    let by = TrailScope::Author(bob.into());
    assert_eq!(list(by, None, 2).await, calls[5..7], "the oldest are forgotten");
    assert_eq!(list(by, Some(event(7)), 1).await, calls[7..8]);
    assert_eq!(list(by, None, 5_000).await.len() as i64, MOST_OF_ONE);
    let there = list(TrailScope::Conversation(room.id), None, 9).await;
    assert_eq!(
        there.iter().map(|call| (call.caller, call.at())).collect::<Vec<_>>(),
        [(room.owner, NOW + 9_999)]
    );
    let removed =
        write(store, |tx| tool_calls::remove_old(tx, NOW + 500 * 24 * 60 * 60 * 1000, 10_000)).await;
    assert_eq!(removed as i64, MOST_OF_ONE + 1);
}
