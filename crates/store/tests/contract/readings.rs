//! Unread messages, and people's state in their conversations.

use crate::channel::{Room, act, join, post, post_of, room, say};
use crate::support::{Fixture, fresh, on_both, read, write};
use chorus_protocol::ids::AccountId;
use chorus_store::conversations::History;
use chorus_store::readings;

on_both!(what_is_new_is_counted_until_it_is_read);

async fn what_is_new_is_counted_until_it_is_read(fixture: Fixture) {
    let store = &fixture.store;
    let (quiet, busy): (Room, Room) = (room(store, History::All).await, room(store, History::All).await);
    let bob = AccountId(fresh());
    for room in [quiet, busy] {
        say(store, room, room.owner, "before").await;
        join(store, room, bob.into(), "bob").await;
    }
    say(store, busy, busy.owner, "one").await;
    say(store, busy, bob.into(), "my own does not count").await;
    say(store, busy, busy.owner, "two").await;

    let unread = async || read(store, move |tx| readings::unread(tx, bob, None, 10)).await;
    let found: Vec<_> =
        unread().await.into_iter().map(|one| (one.conversation, one.count, one.asked)).collect();
    assert!(found.contains(&(busy.id, 2, false)), "{found:?}");
    assert!(!found.iter().any(|(id, count, _)| *id == quiet.id && *count > 0), "{found:?}");
    let standings = read(store, move |tx| readings::of_account(tx, bob, 10)).await;
    let new: Vec<_> = standings.iter().map(|standing| (standing.conversation, standing.new)).collect();
    assert!(new.contains(&(quiet.id, 0)) && new.contains(&(busy.id, 2)), "{new:?}");
    assert!(standings.iter().all(|standing| !standing.is_asked()), "{standings:?}");
    post(store, act(busy, busy.owner), post_of("@bob and you?", &["bob"], None)).await.unwrap();
    say(store, busy, busy.owner, "three").await;
    let standings = read(store, move |tx| readings::of_account(tx, bob, 10)).await;
    let of_busy = standings.into_iter().find(|standing| standing.conversation == busy.id).unwrap();
    assert!(of_busy.is_asked() && of_busy.asked > of_busy.read, "{of_busy:?}");

    write(store, move |tx| readings::read_through(tx, bob, busy.id, i64::MAX)).await;
    assert!(unread().await.iter().all(|one| one.count == 0));
    let standings = read(store, move |tx| readings::of_account(tx, bob, 10)).await;
    assert!(standings.iter().all(|standing| standing.new == 0), "{standings:?}");
}
