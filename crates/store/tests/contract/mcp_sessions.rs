//! Sessions of MCP clients.

use crate::support::{Fixture, NOW, count, fresh, on_both, read, write};
use chorus_protocol::ids::{AccountId, AgentId, ConversationId};
use chorus_store::mcp_sessions::{
    self, LIFE_MS, MAX_OF_OWNER, MAX_SESSIONS, MAX_SUBSCRIPTIONS, Place, Session, begin, end, subscribe,
    touch,
};
use chorus_store::{Store, settings};
use tokio::task::JoinSet;
use uuid::Uuid;

on_both![
    each_is_its_owners_in_its_conversation,
    the_oldest_makes_room,
    an_owner_has_so_many_in_all,
    opened_at_once_none_is_lost,
    subscriptions_are_bounded,
    who_is_not_used_for_a_day_is_gone,
    another_life_of_the_database_keeps_them,
];

fn agent() -> Place {
    (AgentId(fresh()).into(), ConversationId(fresh()))
}

async fn open(store: &Store, place: Place, now: i64) -> Uuid {
    let id = fresh();
    write(store, move |tx| begin(tx, place, id, now)).await;
    id
}

async fn get(store: &Store, place: Place, id: Uuid, now: i64) -> Option<Session> {
    read(store, move |tx| mcp_sessions::get(tx, place, id, now)).await
}

async fn each_is_its_owners_in_its_conversation(fixture: Fixture) {
    let (store, anna) = (&fixture.store, agent());
    let id = open(store, anna, NOW).await;
    let (bob, there) = ((AgentId(fresh()).into(), anna.1), (anna.0, ConversationId(fresh())));
    let person = (AccountId(anna.0.uuid()).into(), anna.1);
    assert_eq!(get(store, anna, id, NOW).await.unwrap(), Session { subscribed: vec![], last_used_at: NOW });
    for (other, what) in [(bob, "another owner"), (there, "another channel"), (person, "another kind")] {
        assert_eq!(get(store, other, id, NOW).await, None, "{what}");
        write(store, move |tx| end(tx, other, id)).await;
        assert!(write(store, move |tx| subscribe(tx, other, id, "plan", true, NOW)).await);
    }
    assert_eq!(get(store, anna, id, NOW).await.unwrap().subscribed, [""; 0]);
    assert_eq!(get(store, anna, fresh(), NOW).await, None);
    write(store, move |tx| end(tx, anna, id)).await;
    assert_eq!(get(store, anna, id, NOW).await, None);
}

async fn the_oldest_makes_room(fixture: Fixture) {
    let (store, anna) = (&fixture.store, agent());
    let elsewhere = (anna.0, ConversationId(fresh()));
    let other = open(store, elsewhere, NOW - 1).await;
    let mut ids = vec![];
    for _ in 0..=MAX_SESSIONS {
        // All are opened at the same moment, and still ordered.
        ids.push(open(store, anna, NOW).await);
    }
    assert_eq!(get(store, anna, ids[0], NOW).await, None, "the oldest went");
    for id in &ids[1..] {
        assert!(get(store, anna, *id, NOW).await.is_some());
    }
    // A clock that was set back does not make the next one older.
    let late = open(store, anna, NOW - 1_000).await;
    assert!(get(store, anna, late, NOW).await.is_some());
    assert_eq!(get(store, anna, ids[1], NOW).await, None);
    assert!(get(store, elsewhere, other, NOW).await.is_some(), "each conversation has its own");
}

async fn an_owner_has_so_many_in_all(fixture: Fixture) {
    let (store, anna) = (&fixture.store, agent());
    let first = open(store, anna, NOW).await;
    let mut last = (anna, first);
    for n in 1..=MAX_OF_OWNER {
        let place = (anna.0, ConversationId(fresh()));
        last = (place, open(store, place, NOW + n).await);
    }
    assert_eq!(get(store, anna, first, NOW).await, None);
    // The new session stays, although a clock that was set back makes it the oldest.
    let newest = open(store, anna, NOW - 1).await;
    assert!(get(store, anna, newest, NOW).await.is_some() && get(store, last.0, last.1, NOW).await.is_some());
    assert_eq!(count(store, "SELECT COUNT(*) AS count FROM mcp_sessions").await, MAX_OF_OWNER);
}

async fn opened_at_once_none_is_lost(fixture: Fixture) {
    let anna = agent();
    let mut tasks = JoinSet::new();
    for _ in 0..3 * MAX_SESSIONS {
        let store = fixture.store.clone();
        tasks.spawn(async move { open(&store, anna, NOW).await });
    }
    let ids = tasks.join_all().await;
    let mut open = 0;
    for id in ids {
        open += i64::from(get(&fixture.store, anna, id, NOW).await.is_some());
    }
    assert_eq!(open, MAX_SESSIONS);
    assert_eq!(count(&fixture.store, "SELECT COUNT(*) AS count FROM mcp_sessions").await, MAX_SESSIONS);
}

async fn subscriptions_are_bounded(fixture: Fixture) {
    let (store, anna) = (&fixture.store, agent());
    let id = open(store, anna, NOW).await;
    let change = async |slug: String, wanted| {
        write(store, move |tx| subscribe(tx, anna, id, &slug, wanted, NOW)).await
    };
    for _ in 0..2 {
        assert!(change("plan".into(), true).await);
        assert_eq!(get(store, anna, id, NOW).await.unwrap().subscribed, ["plan"]);
    }
    for n in 1..MAX_SUBSCRIPTIONS {
        assert!(change(n.to_string(), true).await);
    }
    assert!(!change("one-more".into(), true).await);
    assert!(change("plan".into(), true).await, "it is one of them");
    assert!(change("plan".into(), false).await);
    assert!(change("one-more".into(), true).await);
    assert_eq!(get(store, anna, id, NOW).await.unwrap().subscribed.len(), MAX_SUBSCRIPTIONS);
}

async fn who_is_not_used_for_a_day_is_gone(fixture: Fixture) {
    let (store, anna) = (&fixture.store, agent());
    let (idle, used) = (open(store, anna, NOW).await, open(store, anna, NOW).await);
    let (half, day) = (NOW + LIFE_MS / 2, NOW + LIFE_MS);
    assert!(!get(store, anna, used, NOW + 1_000).await.unwrap().must_touch(NOW + 1_000));
    assert!(get(store, anna, used, half).await.unwrap().must_touch(half));
    assert!(get(store, anna, used, NOW).await.unwrap().must_touch(NOW - LIFE_MS), "the clock was set back");
    write(store, move |tx| touch(tx, used, half)).await;
    let remove = async |now| write(store, move |tx| mcp_sessions::remove_unused(tx, now, 10)).await;
    assert_eq!(remove(day - 1).await, 0);
    assert!(get(store, anna, idle, day - 1).await.is_some());
    assert_eq!(get(store, anna, idle, day).await, None, "also before it is cleaned up");
    assert_eq!((remove(day).await, remove(day).await), (1, 0));
    assert!(get(store, anna, used, day).await.is_some());
    for _ in 0..5 {
        open(store, anna, NOW).await;
    }
    let some = write(store, move |tx| mcp_sessions::remove_unused(tx, day, 3)).await;
    assert_eq!((some, remove(day).await), (3, 2), "a little at a time");
}

async fn another_life_of_the_database_keeps_them(fixture: Fixture) {
    let anna = agent();
    let id = open(&fixture.store, anna, NOW).await;
    write(&fixture.store, move |tx| subscribe(tx, anna, id, "plan", true, NOW)).await;
    write(&fixture.store, |tx| settings::set(tx, "kept", "1")).await;
    let fixture = fixture.reopen();
    assert_eq!(get(&fixture.store, anna, id, NOW).await.unwrap().subscribed, ["plan"]);
    assert!(read(&fixture.store, |tx| settings::get(tx, "kept")).await.is_some());
}
