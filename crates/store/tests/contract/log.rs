//! The log as members read it: pages, the state of messages, and visibility.

use crate::attention::{masked, react_in};
use crate::channel::{
    act, all, conversation, delete, edit, join, page, person, places, post, post_of, react, remove, room,
    run, say, say_in,
};
use crate::support::{Fixture, NOW, fresh, on_both, read, soon};
use chorus_protocol::ids::{EventId, TraceId};
use chorus_protocol::redact::Masked;
use chorus_protocol::words::{EventKind, Signal};
use chorus_store::conversation::{self, ConversationError};
use chorus_store::conversations::{self, History, NewEvent};
use chorus_store::log::{self, At, Filter, Kinds, PageSize};
use chorus_store::{Kind, StoreError, Tx, TxExt};
use serde_json::json;
use std::collections::BTreeSet;

on_both!(
    pages_of_the_log,
    a_kind_has_an_index,
    how_messages_stand,
    many_changes_hide_nothing,
    stays_are_what_is_read,
    threads_are_of_one_conversation,
);

async fn pages_of_the_log(fixture: Fixture) {
    let store = &fixture.store;
    let room = room(store, History::All).await;
    for n in 0..9 {
        say(store, room, room.owner, &n.to_string()).await;
    }
    let get = async |kind: Option<&str>, at, limit| {
        let filter = Filter { thread: None, kinds: kind.map_or(Kinds::All, Kinds::named) };
        let page = page(store, room, room.owner, filter, at, limit).await;
        (places(&page), page.more)
    };
    assert_eq!(get(None, At::After(0), 4).await, (vec![1, 2, 3, 4], true));
    assert_eq!(get(None, At::After(4), 6).await, (vec![5, 6, 7, 8, 9, 10], false));
    assert_eq!(get(None, At::After(10), 6).await, (vec![], false));
    assert_eq!(get(None, At::Before(i64::MAX), 4).await, (vec![7, 8, 9, 10], true));
    assert_eq!(get(None, At::Before(7), 6).await, (vec![1, 2, 3, 4, 5, 6], false));
    assert_eq!(get(None, At::Before(1), 6).await, (vec![], false));
    assert_eq!(get(Some("join"), At::After(0), 6).await, (vec![1], false));
    assert_eq!(get(Some("message"), At::Before(i64::MAX), 8).await, (vec![3, 4, 5, 6, 7, 8, 9, 10], true));
    assert_eq!(get(Some("poll"), At::After(0), 6).await, (vec![], false));
    // The page ends once it holds this many bytes: each body has 15.
    let bounded = move |tx: &mut dyn Tx| {
        let (conversation, who) = (conversation(room, History::All), room.owner);
        let filter = Filter { thread: None, kinds: Kinds::Only(EventKind::Message) };
        log::page(tx, &conversation, who, &filter, At::After(0), PageSize { events: 100, bytes: 31 })
    };
    let page = read(store, bounded).await;
    assert_eq!((places(&page), page.more), (vec![2, 3, 4], true));
}

/// The index on kinds avoids reading other events, however long the log is.
async fn a_kind_has_an_index(fixture: Fixture) {
    let store = &fixture.store;
    if store.kind() != Kind::Sqlite {
        // Its plans depend on statistics, which do not exist yet.
        return;
    }
    let plan = |tx: &mut dyn Tx| {
        let sql = "EXPLAIN QUERY PLAN SELECT e.body FROM events e WHERE e.conversation_id = $1 AND e.kind = $5 AND e.seq <> 0
                   AND e.seq BETWEEN $2 AND $3 ORDER BY e.seq LIMIT $4";
        let none: &[u8] = &[];
        let mut row = tx.first(sql, &[none.into(), 1.into(), 9.into(), 5.into(), "status".into()])?;
        row.as_mut().map_or(Ok(String::new()), |row| row.text("detail"))
    };
    let plan = read(store, plan).await;
    assert!(plan.contains("events_by_kind (conversation_id=? AND kind=? AND seq>? AND seq<?)"), "{plan}");
}

async fn how_messages_stand(fixture: Fixture) {
    let store = &fixture.store;
    let (room, bob) = (room(store, History::All).await, person());
    join(store, room, bob, "bob").await;
    let (one, two) = (say(store, room, bob, "one").await, say(store, room, bob, "two").await);
    edit(store, room, bob, one, "eins").await;
    edit(store, room, bob, one, "uno").await;
    react(store, room, room.owner, one).await;
    delete(store, room, room.owner, two).await.unwrap();
    say_in(store, room, bob, "reply", Some(one)).await;
    say_in(store, room, bob, "reply", Some(one)).await;
    let filter = Filter { thread: None, kinds: Kinds::Only(EventKind::Message) };
    let page = page(store, room, bob, filter, At::After(0), 2).await;
    assert_eq!(page.events.iter().map(|event| event.id).collect::<Vec<_>>(), [one, two]);
    let changes: Vec<_> = page
        .standing
        .changes
        .iter()
        .map(|change| (change.kind.as_str(), change.target.unwrap(), &*change.body))
        .collect();
    let seen = r#"{"signal":"seen"}"#;
    assert_eq!(
        changes,
        [("edit", one, r#"{"content":"uno"}"#), ("delete", two, "{}"), ("reaction", one, seen)]
    );
    assert_eq!(page.standing.replies, [(one, 2)]);
    // Messages of others, deleted ones, and events that are not messages.
    let act = act(room, room.owner);
    let new = post_of("mine", &[], None);
    let theirs = run(store, move |tx| conversation::draft_edit(tx, &act, one, &new).map(drop)).await;
    assert!(matches!(theirs, Err(ConversationError::Forbidden)));
    let gone = run(store, move |tx| react_in(tx, &act, two, Signal::Seen, &Masked::nothing())).await;
    assert!(matches!(gone, Err(ConversationError::NoTarget)));
    let edit = page.standing.changes[0].id;
    assert!(matches!(delete(store, room, bob, edit).await, Err(ConversationError::NoTarget)));
}

/// Many reactions or edits hide neither a deletion nor another's edit.
async fn many_changes_hide_nothing(fixture: Fixture) {
    let store = &fixture.store;
    let (room, bob) = (room(store, History::All).await, person());
    join(store, room, bob, "bob").await;
    let (one, two) = (say(store, room, bob, "one").await, say(store, room, room.owner, "two").await);
    // The rows are inserted directly, because the doors would need more statements.
    let flood = move |tx: &mut dyn Tx| {
        for n in 0..1160 {
            let (kind, target) =
                if n < 60 { (EventKind::Edit, one) } else { (EventKind::Reaction, [one, two][n % 2]) };
            let (thread, body) = (None, masked(json!({"content": "x"})));
            let (id, conversation, author, trace) = (EventId(fresh()), room.id, bob, TraceId(fresh()));
            let new = NewEvent { id, conversation, author, trace, thread, target: Some(target) };
            let seq = tx.next_seq(room.id.into())?;
            conversations::append(tx, &new, kind, &body, seq, NOW)?;
        }
        Ok::<_, StoreError>(())
    };
    soon(store.write(flood)).await.unwrap();
    edit(store, room, room.owner, two, "zwei").await;
    delete(store, room, bob, one).await.unwrap();
    let page = page(store, room, bob, Filter::default(), At::After(0), 4).await;
    let of = |kind: &str| {
        page.standing.changes.iter().filter(|change| change.kind.as_str() == kind).collect::<Vec<_>>()
    };
    assert_eq!((of("delete").len(), of("delete")[0].target), (1, Some(one)));
    let edits: BTreeSet<_> = of("edit").into_iter().map(|edit| (edit.target, &*edit.body)).collect();
    assert_eq!(
        edits,
        [(Some(one), r#"{"content":"x"}"#), (Some(two), r#"{"content":"zwei"}"#)].into_iter().collect()
    );
    assert_eq!(of("reaction").len(), 1000, "the newest");
    assert!(of("reaction").is_sorted_by_key(|change| change.seq));
}

async fn stays_are_what_is_read(fixture: Fixture) {
    let store = &fixture.store;
    let (room, bob) = (room(store, History::Joined).await, person());
    let before = say(store, room, room.owner, "before").await;
    join(store, room, bob, "bob").await;
    let there = say(store, room, room.owner, "there").await;
    remove(store, room, "bob").await;
    let away = say_in(store, room, room.owner, "away", Some(there)).await;
    edit(store, room, room.owner, there, "changed").await;
    react(store, room, room.owner, there).await;
    join(store, room, bob, "bob").await;
    let now = say_in(store, room, room.owner, "now", Some(there)).await;
    let log = all(store, room, bob).await;
    assert_eq!(places(&log), [3, 4, 5, 9, 10], "both stays, with their coming and going");
    assert_eq!(log.standing.replies, [(there, 1)]);
    let [change] = &log.standing.changes[..] else { panic!("{:?}", log.standing) };
    assert_eq!((change.kind.as_str(), change.target, &*change.body), ("edit", Some(there), "{}"));
    for (from, limit, expected) in
        [(At::After(4), 2, [5, 9]), (At::Before(10), 2, [5, 9]), (At::Before(6), 2, [4, 5])]
    {
        assert_eq!(
            places(&page(store, room, bob, Filter::default(), from, limit).await),
            expected,
            "{from:?}"
        );
    }
    assert_eq!(all(store, room, room.owner).await.events.len(), 10);
    for (id, readable) in [(before, false), (there, true), (away, false), (now, true)] {
        let look = move |tx: &mut dyn Tx| {
            let (conversation, _) = conversation::as_reader(tx, room.id, bob)?;
            conversation::message(tx, &conversation, bob, id)
        };
        assert_eq!(soon(store.read(look)).await.is_ok(), readable, "{id}");
    }
}

async fn threads_are_of_one_conversation(fixture: Fixture) {
    let store = &fixture.store;
    let (one, other) = (room(store, History::All).await, room(store, History::All).await);
    let root = say(store, one, one.owner, "root").await;
    let reply = say_in(store, one, one.owner, "reply", Some(root)).await;
    let nested = say_in(store, one, one.owner, "nested", Some(reply)).await;
    let thread = |thread| Filter { thread: Some(thread), kinds: Kinds::All };
    let found = page(store, one, one.owner, thread(root), At::After(0), 10).await;
    assert_eq!(found.events.iter().map(|event| event.id).collect::<Vec<_>>(), [root, reply, nested]);
    let found = page(store, one, one.owner, thread(root), At::Before(i64::MAX), 2).await;
    assert_eq!((places(&found), found.more), (vec![3, 4], true));
    let found = page(store, one, one.owner, thread(root), At::Before(3), 2).await;
    assert_eq!((places(&found), found.more), (vec![2], false));
    assert_eq!(
        places(&page(store, other, other.owner, thread(root), At::After(0), 10).await),
        [] as [i64; 0]
    );
    let foreign = post(store, act(other, other.owner), post_of("x", &[], Some(root))).await;
    assert!(matches!(foreign, Err(ConversationError::NoTarget)));
}
