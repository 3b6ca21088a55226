//! Ownership of conversations, and their state after members leave or they are archived.

use crate::attention::post_in;
use crate::channel::{
    Room, act, add, all, conversation, delete, join, kinds, person, post, post_of, room, run, say,
};
use crate::support::{Fixture, NOW, agent, count, entries, fresh, on_both, read, soon};
use chorus_protocol::ids::{AgentId, ConversationId, Principal};
use chorus_store::conversation::{self, ConversationError, Handle, Newcomer};
use chorus_store::conversations::{self, History};
use chorus_store::members::{self, MembershipInterval};
use chorus_store::{Metered, Store, StoreError, Tx, access};

on_both!(
    who_may_not_makes_nobody_wait,
    nothing_in_an_archive,
    an_agent_that_is_deleted_has_left,
    there_is_always_an_owner,
    channels_of_a_deleted_agent_go_to_whoever_was_there_first,
);

/// Permissions are checked before the conversation is locked, because a lock makes members wait.
async fn who_may_not_makes_nobody_wait(fixture: Fixture) {
    let store = &fixture.store;
    let (room, bob) = (room(store, History::All).await, person());
    join(store, room, bob, "bob").await;
    let archive = act(room, room.owner);
    run(store, move |tx| conversation::archive(tx, &archive)).await.unwrap();
    let restored = async |who: Principal| {
        let act = act(room, who);
        let work = move |tx: &mut dyn Tx| {
            let mut metered = Metered::new(tx);
            let done = conversation::restore(&mut metered, &act).is_ok();
            Ok((done, metered.locks))
        };
        run(store, work).await.unwrap()
    };
    let admitted = async |who: Principal| {
        let act = act(room, who);
        let new = Newcomer { principal: who, handle: Handle::Like("x".into()), roles: vec![], lead: false };
        let work = move |tx: &mut dyn Tx| {
            let mut metered = Metered::new(tx);
            let done = conversation::admit(&mut metered, &act, &new).is_ok();
            Ok((done, metered.locks))
        };
        run(store, work).await.unwrap()
    };
    assert_eq!(restored(person()).await, (false, 0), "a stranger");
    assert_eq!(restored(bob).await, (false, 0), "a member");
    assert_eq!(admitted(person()).await, (false, 0), "into what is archived");
    assert_eq!(restored(room.owner).await, (true, 1));
    assert_eq!(admitted(person()).await, (true, 1));
}

async fn nothing_in_an_archive(fixture: Fixture) {
    let store = &fixture.store;
    let (room, bob) = (room(store, History::All).await, person());
    join(store, room, bob, "bob").await;
    let said = say(store, room, bob, "x").await;
    let archive = async |who| {
        let act = act(room, who);
        run(store, move |tx| conversation::archive(tx, &act)).await
    };
    assert!(matches!(archive(bob).await, Err(ConversationError::Forbidden)));
    archive(room.owner).await.unwrap();
    archive(room.owner).await.unwrap();
    assert!(matches!(archive(bob).await, Err(ConversationError::Forbidden)));
    assert_eq!(kinds(&all(store, room, bob).await), ["join", "join", "message", "change"]);
    assert!(matches!(
        post(store, act(room, bob), post_of("x", &[], None)).await,
        Err(ConversationError::Archived)
    ));
    assert!(matches!(delete(store, room, bob, said).await, Err(ConversationError::Archived)));
    assert!(matches!(
        add(store, room, person(), Handle::Like("x".into())).await,
        Err(ConversationError::Archived)
    ));
    let mine = move |tx: &mut dyn Tx| conversations::of_member(tx, bob, false, None, 10);
    assert_eq!(read(store, mine).await, []);
    let old = move |tx: &mut dyn Tx| conversations::of_member(tx, bob, true, None, 10);
    assert_eq!(read(store, old).await.len(), 1);
}

async fn an_agent_that_is_deleted_has_left(fixture: Fixture) {
    let store = &fixture.store;
    let room = room(store, History::All).await;
    let bob = agent(store, "bob").await;
    join(store, room, bob.id.into(), "bob").await;
    soon(store.write(move |tx: &mut dyn Tx| access::delete_agent(tx, bob.id, NOW, &fresh))).await.unwrap();
    let log = all(store, room, room.owner).await;
    assert_eq!(kinds(&log), ["join", "join", "leave"]);
    assert_eq!(log.events[2].author, bob.id.into());
    let stays = read(store, move |tx| members::intervals(tx, room.id, bob.id.into())).await;
    assert_eq!(stays, [MembershipInterval { from: 1, to: Some(3) }], "it ends with what says so");
    let again: AgentId = agent(store, "bob").await.id;
    assert!(matches!(
        soon(store.read(move |tx: &mut dyn Tx| conversation::as_reader(tx, room.id, again.into()))).await,
        Err(ConversationError::NotFound)
    ));
    let posted = post(store, act(room, room.owner), post_of("hi", &["bob"], None)).await.unwrap();
    assert_eq!(posted.applied.delivered.len(), 0, "a name that was taken again inherits nothing");
    join(store, room, again.into(), "bob").await;
    assert_eq!(count(store, "SELECT COUNT(*) AS count FROM members WHERE left_seq IS NULL").await, 2);
    // A failed closure leaves nothing behind.
    let failed = move |tx: &mut dyn Tx| {
        post_in(tx, &act(room, room.owner), &post_of("never", &["bob"], None))?;
        Err::<(), ConversationError>(StoreError::Overloaded.into())
    };
    run(store, failed).await.unwrap_err();
    assert_eq!(read(store, move |tx| tx.head(room.id.into())).await, 5);
    assert_eq!(entries(store, again).await, []);
}

/// Returns the current owner of a conversation.
async fn owner_of(store: &Store, room: Room) -> Principal {
    read(store, move |tx| conversations::by_id(tx, room.id)).await.unwrap().owner
}

async fn there_is_always_an_owner(fixture: Fixture) {
    let store = &fixture.store;
    let (room, bob, carl) = (room(store, History::All).await, agent(store, "bob").await, person());
    join(store, room, carl, "carl").await;
    join(store, room, bob.id.into(), "bob").await;
    let leave = act(room, room.owner);
    let left = run(store, move |tx| conversation::remove_member(tx, &leave, "owner")).await;
    assert!(matches!(left, Err(ConversationError::OwnerStays)), "{left:?}");
    assert_eq!(kinds(&all(store, room, room.owner).await), ["join", "join", "join"]);

    let make_owner = async |who: Principal, to: &'static str| {
        let act = act(room, who);
        run(store, move |tx| conversation::change(tx, &act, Some(to), &|_| {})).await
    };
    assert!(matches!(make_owner(carl, "carl").await, Err(ConversationError::Forbidden)));
    assert!(matches!(make_owner(room.owner, "nobody").await, Err(ConversationError::NoHandle(_))));
    assert_eq!(owner_of(store, room).await, room.owner);
    assert_eq!(make_owner(room.owner, "BOB").await.unwrap().owner, bob.id.into());
    assert!(matches!(make_owner(room.owner, "owner").await, Err(ConversationError::Forbidden)));
    // A member who is not the owner may leave.
    let leave = act(room, room.owner);
    run(store, move |tx| conversation::remove_member(tx, &leave, "owner")).await.unwrap();

    // An agent can be deleted at any time: a lead becomes the owner first, otherwise the earliest member.
    let (lead, act) = (person(), act(room, bob.id.into()));
    let new = Newcomer { principal: lead, handle: Handle::Like("lead".into()), roles: vec![], lead: true };
    run(store, move |tx| conversation::add_member(tx, &act, &new)).await.unwrap();
    soon(store.write(move |tx: &mut dyn Tx| access::delete_agent(tx, bob.id, NOW, &fresh))).await.unwrap();
    assert_eq!(owner_of(store, room).await, lead);
    make_owner(lead, "carl").await.unwrap();
    assert_eq!(owner_of(store, room).await, carl);
}

async fn channels_of_a_deleted_agent_go_to_whoever_was_there_first(fixture: Fixture) {
    let store = &fixture.store;
    let bob = agent(store, "bob").await;
    let room = Room { id: ConversationId(fresh()), owner: bob.id.into() };
    let empty = Room { id: ConversationId(fresh()), owner: bob.id.into() };
    for room in [room, empty] {
        let (act, new) = (act(room, room.owner), conversation(room, History::All));
        run(store, move |tx| conversation::create(tx, &act, &new, Handle::Exactly("owner".into())))
            .await
            .unwrap();
    }
    let (first, second) = (person(), person());
    join(store, room, first, "z").await;
    join(store, room, second, "a").await;
    soon(store.write(move |tx: &mut dyn Tx| access::delete_agent(tx, bob.id, NOW, &fresh))).await.unwrap();
    assert_eq!(owner_of(store, room).await, first);
    assert_eq!(owner_of(store, empty).await, empty.owner, "nobody is there");
}
