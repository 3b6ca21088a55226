//! Conversation data for a page of an inbox: the same as for each entry alone, in a number of queries that
//! does not grow with the page.

use crate::channel::{Room, act, delete, edit, join, post, post_of, react, remove, room};
use crate::support::{Fixture, agent, deliver, fresh, message, on_both, read, write};
use chorus_protocol::ids::{AgentId, DeliveryId, EventId};
use chorus_protocol::words::{EntryKind, EventKind};
use chorus_store::chats::{self, ChatEntry};
use chorus_store::conversation::{self, Act};
use chorus_store::conversations::{self, History};
use chorus_store::deliveries::{self, Bringing, Entry};
use chorus_store::{Metered, Store, directory, log, members, push};

on_both!(
    a_page_is_read_as_its_entries_are,
    a_page_costs_the_same_however_long_it_is,
    an_event_and_its_deliveries,
    what_was_sent_again_reads_as_it_does_now,
    what_edits_added_counts
);

/// Returns a page of an inbox, its conversation data, and the number of queries.
async fn page(
    store: &Store,
    agent: AgentId,
    after: i64,
    limit: i64,
    max_bytes: usize,
) -> (Vec<Entry>, Vec<ChatEntry>, usize) {
    read(store, move |tx| {
        let mut metered = Metered::new(tx);
        let mut entries = deliveries::page(&mut metered, agent, after, limit, usize::MAX)?;
        let chats = chats::of_page(&mut metered, agent, &mut entries, max_bytes)?;
        Ok((entries, chats, metered.statements.len()))
    })
    .await
}

/// Posts a message to bob.
async fn tell(store: &Store, room: Room, text: &str) -> EventId {
    let act = act(room, room.owner);
    post(store, act, post_of(text, &["bob"], None)).await.unwrap();
    act.event
}

async fn a_page_is_read_as_its_entries_are(fixture: Fixture) {
    let store = &fixture.store;
    let (bob, amy) = (agent(store, "bob").await, agent(store, "amy").await);
    let (one, other) = (room(store, History::All).await, room(store, History::Joined).await);
    for room in [one, other] {
        join(store, room, bob.id.into(), "bob").await;
    }
    let plain = tell(store, one, "plain").await;
    deliver(store, message(&amy, &bob)).await;
    let edited = tell(store, other, "edited").await;
    edit(store, other, other.owner, edited, "first").await;
    edit(store, other, other.owner, edited, "second").await;
    let deleted = tell(store, one, "deleted").await;
    delete(store, one, one.owner, deleted).await.unwrap();
    react(store, one, one.owner, plain).await;
    let long = tell(store, one, &"long ".repeat(20_000)).await;
    let unseen = tell(store, other, "changed when bob had left").await;
    remove(store, other, "bob").await;
    edit(store, other, other.owner, unseen, "not for bob").await;
    react(store, other, other.owner, unseen).await;

    let (entries, chats, _) = page(store, bob.id, 0, 100, usize::MAX).await;
    assert_eq!(entries.len(), 6);
    let found: Vec<_> = chats.iter().map(|chat| (chat.seq, chat.event.id)).collect();
    assert_eq!(found, [(1, plain), (3, edited), (4, deleted), (5, long), (6, unseen)]);
    for chat in &chats {
        let (id, seq) = (bob.id, chat.seq);
        let expected = read(store, move |tx| {
            let record = push::get(tx, DeliveryId { agent: id, seq })?.unwrap();
            let stays = members::intervals(tx, record.conversation, id.into())?;
            Ok(ChatEntry {
                seq,
                attention: record.attention,
                conversation: conversations::by_id(tx, record.conversation)?.unwrap(),
                event: conversations::event_by_id(tx, record.event)?.unwrap(),
                changes: log::changes(tx, &stays, &[record.event])?,
                epoch: directory::by_id(tx, id)?.unwrap().epoch,
                handle: members::of(tx, record.conversation, id.into())?.map(|member| member.handle),
                mentions: "agent:bob".into(),
                supersedes: None,
                sent: 1,
                superseded: false,
                about: None,
            })
        })
        .await;
        assert_eq!(format!("{chat:?}"), format!("{expected:?}"));
    }
    let bodies =
        |place: usize| -> Vec<_> { chats[place].changes.iter().map(|change| &*change.body).collect() };
    assert_eq!(bodies(0), [r#"{"signal":"seen"}"#]);
    assert_eq!(bodies(1), [r#"{"content":"second"}"#]);
    assert_eq!(bodies(4), ["{}"], "what was said when bob was away");
}

async fn a_page_costs_the_same_however_long_it_is(fixture: Fixture) {
    let store = &fixture.store;
    let (bob, amy) = (agent(store, "bob").await, agent(store, "amy").await);
    deliver(store, message(&amy, &bob)).await;
    assert_eq!(page(store, bob.id, 0, 64, usize::MAX).await.2, 1, "envelopes need nothing but the page");
    let mut rooms = vec![];
    for _ in 0..4 {
        let room = room(store, History::All).await;
        join(store, room, bob.id.into(), "bob").await;
        rooms.push(room);
    }
    for n in 0..60 {
        let room = rooms[n % rooms.len()];
        let event = tell(store, room, "hello").await;
        react(store, room, room.owner, event).await;
    }
    let (one, _, few) = page(store, bob.id, 1, 1, usize::MAX).await;
    let (many, chats, same) = page(store, bob.id, 0, 64, usize::MAX).await;
    assert_eq!((one.len(), many.len(), chats.len()), (1, 61, 60));
    assert!(chats.iter().all(|chat| chat.changes.len() == 1));
    assert_eq!((few, same), (5, 5));
}

async fn an_event_and_its_deliveries(fixture: Fixture) {
    let store = &fixture.store;
    let (bob, room) = (agent(store, "bob").await, room(store, History::All).await);
    join(store, room, bob.id.into(), "bob").await;
    let event = tell(store, room, "hello").await;
    let of = |event| read(store, move |tx| chats::of_message(tx, event));
    let sent: Vec<_> = of(event).await.iter().map(|id| (id.agent, id.seq)).collect();
    assert_eq!(sent, [(bob.id, 1)]);
    assert!(of(EventId(fresh())).await.is_empty());
    let (entries, ..) = page(store, bob.id, 0, 1, usize::MAX).await;
    assert_eq!(entries[0].kind, EntryKind::Chat);
}

/// A page with a message and its reminders: none of them shows deleted text.
async fn what_was_sent_again_reads_as_it_does_now(fixture: Fixture) {
    let store = &fixture.store;
    let (bob, room) = (agent(store, "bob").await, room(store, History::All).await);
    join(store, room, bob.id.into(), "bob").await;
    let (edited, deleted) = (tell(store, room, "edited").await, tell(store, room, "deleted").await);
    for event in [edited, deleted, edited] {
        write(store, move |tx| {
            let id = DeliveryId { agent: bob.id, seq: tx.next_seq(bob.id.into())? };
            let again = Act { event, ..act(room, room.owner) };
            let attention = push::get(tx, DeliveryId { seq: 1, ..id })?.unwrap().attention;
            conversation::deliver(tx, &again, id, EntryKind::Chat, attention, Bringing::FIRST)
        })
        .await;
    }
    edit(store, room, room.owner, edited, "other").await;
    react(store, room, room.owner, edited).await;
    delete(store, room, room.owner, deleted).await.unwrap();
    let (_, chats, _) = page(store, bob.id, 0, 64, usize::MAX).await;
    let kinds = |chat: &ChatEntry| chat.changes.iter().map(|change| change.kind).collect::<Vec<_>>();
    let found: Vec<_> = chats.iter().map(|chat| (chat.event.id, kinds(chat))).collect();
    let now = [(edited, vec![EventKind::Edit, EventKind::Reaction]), (deleted, vec![EventKind::Delete])];
    assert_eq!(found, [&now[..], &now[..], &now[..1]].concat());
}

async fn what_edits_added_counts(fixture: Fixture) {
    let store = &fixture.store;
    let (bob, room) = (agent(store, "bob").await, room(store, History::All).await);
    join(store, room, bob.id.into(), "bob").await;
    let long = "long ".repeat(2_000).leak();
    let mut said = vec![];
    for _ in 0..3 {
        let event = tell(store, room, "short").await;
        edit(store, room, room.owner, event, long).await;
        said.push(event);
    }
    delete(store, room, room.owner, said[0]).await.unwrap();
    let kept = |(entries, chats, _): (Vec<Entry>, Vec<ChatEntry>, usize)| {
        assert_eq!(entries.len(), chats.len());
        let changes: Vec<_> = chats.iter().map(|chat| chat.changes.len()).collect();
        (entries.last().unwrap().seq, changes)
    };
    assert_eq!(kept(page(store, bob.id, 0, 64, 25_000).await), (2, vec![2, 1]));
    // The first entry is always returned completely, including its deletion.
    assert_eq!(kept(page(store, bob.id, 0, 64, 1).await), (1, vec![2]));
    assert_eq!(kept(page(store, bob.id, 1, 64, 1).await), (2, vec![1]));
    // The changes of one message take no room from another's.
    for _ in 0..3 {
        react(store, room, room.owner, said[1]).await;
    }
    assert_eq!(kept(page(store, bob.id, 0, 64, usize::MAX).await), (3, vec![2, 2, 1]));
}
