//! Posting: the agents that one message wakes, several messages in one transaction, and repeated reactions.

use crate::attention::{masked, named, post_in, react_in, say_as_decided};
use crate::channel::{Room, act, join, post_of, room, run, say};
use crate::support::{Fixture, agent, entries, on_both, read, soon};
use chorus_attention::plan::inboxes;
use chorus_protocol::ids::{AgentId, EventId, Principal};
use chorus_protocol::words::Signal;
use chorus_store::conversation::{self, Act, ConversationError, Post};
use chorus_store::conversations::History;
use chorus_store::{Kind, Store, Tx};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;

on_both![whom_it_is_for_comes_first, the_same_reaction_twice; with_threads: inboxes_are_taken_in_one_order];

/// Creates agents in a room, in the order of their ids.
async fn agents<const N: usize>(store: &Store, room: Room) -> [(AgentId, String); N] {
    let mut agents = vec![];
    for n in 0..N {
        let name = format!("agent{n}");
        let id = agent(store, &name).await.id;
        join(store, room, id.into(), &name).await;
        agents.push((id, name));
    }
    agents.sort();
    agents.try_into().unwrap()
}

/// One message wakes a limited number of agents: recipients before mentioned ones. It reports who was left
/// out.
async fn whom_it_is_for_comes_first(fixture: Fixture) {
    let store = &fixture.store;
    let room = room(store, History::All).await;
    let agents = agents::<60>(store, room).await.map(|(_, name)| name);
    // These have the greatest ids: by id they would be left out.
    let (mentioned, to) = agents.split_at(45);
    let mut new = post_of("x", &mentioned.iter().map(String::as_str).collect::<Vec<_>>(), None);
    new.to = to.to_vec();
    new.mentions.extend(to.first().cloned());
    let act = act(room, room.owner);
    let posted = run(store, move |tx| say_as_decided(tx, &act, &new)).await.unwrap().applied;
    let woken: Vec<_> = posted.delivered.iter().map(|(to, ..)| to.handle.clone()).collect();
    assert_eq!(woken.len(), 50);
    assert!(to.iter().all(|to| woken.contains(to)), "{woken:?}");
    let stored_for: Vec<_> = posted.stored_for.iter().map(|recipient| recipient.handle.clone()).collect();
    assert_eq!(stored_for, mentioned[35..]);
}

/// Two messages in one transaction, the first to the later inbox. A writer that has the earlier inbox and then
/// wants the later one waits for nobody, and nothing runs again.
async fn inboxes_are_taken_in_one_order(fixture: Fixture) {
    let store = &fixture.store;
    if store.kind() == Kind::Sqlite {
        // This store runs one transaction at a time.
        return;
    }
    let room = room(store, History::All).await;
    let [(early, first), (late, second)] = agents::<2>(store, room).await;
    let to = |name: &str| -> (Act, Post) { (act(room, room.owner), post_of("x", &[name], None)) };
    let messages = Arc::new([to(&second), to(&first)]);
    let runs = Arc::new(AtomicU32::new(0));
    let (holds, held) = mpsc::channel();
    let (begins, begun) = mpsc::channel();
    let begun = std::sync::Mutex::new(begun);
    let other = {
        let runs = Arc::clone(&runs);
        let work = move |tx: &mut dyn Tx| {
            runs.fetch_add(1, Ordering::Relaxed);
            tx.lock(early.into())?;
            holds.send(()).ok();
            begun.lock().unwrap().recv().ok();
            // Long enough for the first of the two to reach an inbox.
            std::thread::sleep(std::time::Duration::from_millis(300));
            Ok::<_, ConversationError>(tx.lock(late.into())?)
        };
        let store = store.clone();
        tokio::spawn(async move { store.write(work).await })
    };
    tokio::task::spawn_blocking(move || held.recv()).await.unwrap().unwrap();
    let both = {
        let (runs, messages) = (Arc::clone(&runs), Arc::clone(&messages));
        move |tx: &mut dyn Tx| {
            runs.fetch_add(1, Ordering::Relaxed);
            begins.send(()).ok();
            let mut agents = vec![];
            for (act, new) in &*messages {
                let draft = conversation::draft_message(tx, act, new)?;
                agents.extend(inboxes(&named(&draft)));
            }
            conversation::hold_inboxes(tx, agents)?;
            for (act, new) in &*messages {
                post_in(tx, act, new)?;
            }
            Ok(())
        }
    };
    run(store, both).await.unwrap();
    soon(other).await.unwrap().unwrap();
    assert_eq!(runs.load(Ordering::Relaxed), 2, "a transaction was run again");
    for id in [early, late] {
        assert_eq!(entries(store, id).await.len(), 1);
    }
}

async fn the_same_reaction_twice(fixture: Fixture) {
    let store = &fixture.store;
    let room = room(store, History::All).await;
    let bob = agent(store, "bob").await.id;
    join(store, room, bob.into(), "bob").await;
    let said = say(store, room, room.owner, "x").await;
    let react = async |who: Principal, signal: &'static str, more: &'static str| -> (EventId, i64) {
        let body = format!("{{\"signal\":\"{signal}\"{more}}}");
        let (act, body) = (act(room, who), masked(serde_json::from_str(&body).unwrap()));
        let signal = Signal::parse(signal).unwrap();
        run(store, move |tx| react_in(tx, &act, said, signal, &body)).await.unwrap()
    };
    let first = react(bob.into(), "seen", "").await;
    assert_eq!(react(bob.into(), "seen", "").await, first);
    assert_eq!(react(bob.into(), "working", "").await.1, first.1 + 1);
    assert_eq!(react(bob.into(), "seen", "").await, first, "another signal takes nothing back");
    assert_eq!(react(room.owner, "seen", "").await.1, first.1 + 2);
    let removed = react(bob.into(), "seen", ",\"removed\":true").await;
    assert_eq!(removed.1, first.1 + 3);
    assert_eq!(react(bob.into(), "seen", ",\"removed\":true").await, removed);
    let again = react(bob.into(), "seen", "").await;
    assert_eq!(again.1, first.1 + 4);
    assert_eq!(react(bob.into(), "seen", ",\"eta\":\"soon\"").await.1, first.1 + 5);
    assert_eq!(read(store, move |tx| tx.head(room.id.into())).await, first.1 + 5);
}
