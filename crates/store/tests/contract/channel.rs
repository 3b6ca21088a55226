//! Conversations: permissions, order, and what remains of deleted content.

use crate::attention::{masked, named, post_in, post_to_nobody, react_in};
use crate::support::{Fixture, NOW, agent, entries, fresh, on_both, read, soon, webhook, write};
use chorus_protocol::ids::{AccountId, ConversationId, EventId, Principal, TraceId};
use chorus_protocol::redact::{Masked, MaskedContent};
use chorus_protocol::words::{DeliveryState, EntryKind, EventKind, Signal};
use chorus_store::artifacts::Content;
use chorus_store::attention::Posted;
use chorus_store::conversation::{
    self, Act, ConversationError, Handle, NewArtifact, Newcomer, Post, SecondMember,
};
use chorus_store::conversations::{self, Conversation, ConversationKind, History};
use chorus_store::deliveries::Transport;
use chorus_store::log::{self, At, Filter, Page, PageSize};
use chorus_store::members::{self, Member};
use chorus_store::usage::Refusal;
use chorus_store::{Store, Tx, artifacts};
use serde_json::json;
use std::collections::BTreeSet;

on_both!(
    a_conversation_and_its_members,
    handles_belong_to_one_member_at_a_time,
    who_is_named_gets_one_delivery,
    places_have_no_gaps,
    who_is_removed_says_nothing_after,
    the_one_who_was_first_deletes,
    documents,
    documents_of_bytes,
    a_pair_is_made_once,
);

/// A conversation and its owner.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    pub(crate) id: ConversationId,
    pub(crate) owner: Principal,
}

pub(crate) fn person() -> Principal {
    AccountId(fresh()).into()
}

pub(crate) fn act(room: Room, author: Principal) -> Act {
    Act { conversation: room.id, author, event: EventId(fresh()), trace: TraceId(fresh()), now: NOW }
}

pub(crate) fn conversation(room: Room, history: History) -> Conversation {
    let new = Conversation::new(room.id, ConversationKind::Channel, "room".into(), room.owner, NOW);
    Conversation { history, ..new }
}

pub(crate) async fn run<T, F>(store: &Store, work: F) -> Result<T, ConversationError>
where
    F: Fn(&mut dyn Tx) -> Result<T, ConversationError> + Send + 'static,
    T: Send + 'static,
{
    soon(store.write(work)).await
}

/// Creates a room whose owner has the handle `owner`.
pub(crate) async fn room(store: &Store, history: History) -> Room {
    let room = Room { id: ConversationId(fresh()), owner: person() };
    let (act, new) = (act(room, room.owner), conversation(room, history));
    run(store, move |tx| conversation::create(tx, &act, &new, Handle::Exactly("owner".into())))
        .await
        .unwrap();
    room
}

pub(crate) async fn add(
    store: &Store,
    room: Room,
    who: Principal,
    handle: Handle,
) -> Result<Member, ConversationError> {
    let act = act(room, room.owner);
    let new = Newcomer { principal: who, handle, roles: vec!["r".into()], lead: false };
    run(store, move |tx| conversation::add_member(tx, &act, &new)).await
}

pub(crate) async fn join(store: &Store, room: Room, who: Principal, handle: &str) {
    add(store, room, who, Handle::Exactly(handle.into())).await.unwrap();
}

pub(crate) async fn remove(store: &Store, room: Room, handle: &'static str) {
    let act = act(room, room.owner);
    run(store, move |tx| conversation::remove_member(tx, &act, handle)).await.unwrap();
}

pub(crate) fn post_of(text: &str, mentions: &[&str], thread: Option<EventId>) -> Post {
    let mentions = mentions.iter().map(|&handle| handle.to_owned()).collect();
    Post { thread, mentions, ..Post::new(masked(json!({"content": text}))) }
}

pub(crate) async fn post(store: &Store, act: Act, post: Post) -> Result<Posted, ConversationError> {
    run(store, move |tx| post_in(tx, &act, &post)).await
}

/// Posts a message and returns its id.
pub(crate) async fn say(store: &Store, room: Room, who: Principal, text: &str) -> EventId {
    say_in(store, room, who, text, None).await
}

pub(crate) async fn say_in(
    store: &Store,
    room: Room,
    who: Principal,
    text: &str,
    thread: Option<EventId>,
) -> EventId {
    let act = act(room, who);
    post(store, act, post_of(text, &[], thread)).await.unwrap();
    act.event
}

pub(crate) async fn edit(store: &Store, room: Room, who: Principal, target: EventId, text: &'static str) {
    let (act, new) = (act(room, who), post_of(text, &[], None));
    let edit = move |tx: &mut dyn Tx| {
        let draft = conversation::draft_edit(tx, &act, target, &new)?;
        post_to_nobody(tx, &draft)
    };
    run(store, edit).await.unwrap();
}

pub(crate) async fn delete(
    store: &Store,
    room: Room,
    who: Principal,
    target: EventId,
) -> Result<i64, ConversationError> {
    let act = act(room, who);
    let delete = move |tx: &mut dyn Tx| {
        let draft = conversation::draft_deletion(tx, &act, target)?;
        post_to_nobody(tx, &draft)
    };
    run(store, delete).await
}

pub(crate) async fn react(store: &Store, room: Room, who: Principal, target: EventId) {
    let (act, body) = (act(room, who), masked(json!({"signal": "seen"})));
    run(store, move |tx| react_in(tx, &act, target, Signal::Seen, &body)).await.unwrap();
}

/// Returns a page as `who` reads it.
pub(crate) async fn page(
    store: &Store,
    room: Room,
    who: Principal,
    filter: Filter,
    at: At,
    limit: i64,
) -> Page {
    let look = move |tx: &mut dyn Tx| {
        let (conversation, _) = conversation::as_reader(tx, room.id, who)?;
        Ok(log::page(tx, &conversation, who, &filter, at, PageSize { events: limit, bytes: usize::MAX })?)
    };
    soon(store.read::<_, ConversationError, _>(look)).await.unwrap()
}

pub(crate) async fn all(store: &Store, room: Room, who: Principal) -> Page {
    page(store, room, who, Filter::default(), At::After(0), 10_000).await
}

pub(crate) fn kinds(page: &Page) -> Vec<&str> {
    page.events.iter().map(|event| event.kind.as_str()).collect()
}

pub(crate) fn places(page: &Page) -> Vec<i64> {
    page.events.iter().map(|event| event.seq).collect()
}

async fn a_conversation_and_its_members(fixture: Fixture) {
    let store = &fixture.store;
    let (room, other) = (room(store, History::All).await, person());
    let stranger = move |tx: &mut dyn Tx| conversation::as_reader(tx, room.id, other);
    assert!(matches!(soon(store.read(stranger)).await, Err(ConversationError::NotFound)));
    let member = add(store, room, other, Handle::Like("Anna".into())).await.unwrap();
    assert_eq!((&*member.handle, member.joined_seq), ("Anna", 1));
    let (found, me) = soon(store.read(stranger)).await.unwrap();
    assert_eq!((found, me), (conversation(room, History::All), member.clone()));
    let by_handle = read(store, move |tx| members::by_handle(tx, room.id, "aNNA")).await;
    assert_eq!(by_handle, Some(member));
    let mine = move |tx: &mut dyn Tx| conversations::of_member(tx, other, false, None, 10);
    assert_eq!(read(store, mine).await.len(), 1);
    remove(store, room, "anna").await;
    assert_eq!(read(store, mine).await, []);
    assert!(matches!(soon(store.read(stranger)).await, Err(ConversationError::NotFound)));
    assert_eq!(kinds(&all(store, room, room.owner).await), ["join", "join", "leave"]);
    // A former member can do nothing.
    let act = act(room, other);
    for result in [
        run(store, move |tx| post_in(tx, &act, &post_of("x", &[], None)).map(drop)).await,
        run(store, move |tx| {
            conversation::note(tx, &act, EventKind::Status, None, None, &Masked::nothing()).map(drop)
        })
        .await,
        run(store, move |tx| conversation::change(tx, &act, None, &|_| {}).map(drop)).await,
        run(store, move |tx| conversation::archive(tx, &act)).await,
        run(store, move |tx| conversation::remove_member(tx, &act, "owner")).await,
    ] {
        assert!(matches!(result, Err(ConversationError::NotFound)), "{result:?}");
    }
}

async fn handles_belong_to_one_member_at_a_time(fixture: Fixture) {
    let store = &fixture.store;
    let room = room(store, History::All).await;
    let taken = add(store, room, person(), Handle::Exactly("OWNER".into())).await;
    assert!(matches!(taken, Err(ConversationError::HandleTaken(_))), "{taken:?}");
    let again = add(store, room, room.owner, Handle::Like("x".into())).await;
    assert!(matches!(again, Err(ConversationError::Already(handle)) if handle == "owner"));
    // Ten members want the same handle at once; each gets a different one.
    let long = "x".repeat(64);
    let adds: Vec<_> = (0..10)
        .map(|_| {
            let (store, handle) = (store.clone(), Handle::Like(long.clone()));
            tokio::spawn(async move { add(&store, room, person(), handle).await.unwrap() })
        })
        .collect();
    let (mut handles, mut joined) = (BTreeSet::new(), BTreeSet::new());
    for add in adds {
        let member = add.await.unwrap();
        assert!(member.handle.len() <= 64, "{}", member.handle);
        handles.insert(member.handle);
        joined.insert(member.joined_seq);
    }
    assert_eq!((handles.len(), joined), (10, (1..11).collect()));
    assert!(handles.contains(&long) && handles.contains(&format!("{}-10", "x".repeat(61))), "{handles:?}");
}

async fn who_is_named_gets_one_delivery(fixture: Fixture) {
    let store = &fixture.store;
    let room = room(store, History::All).await;
    let (bob, carol, hook) =
        (agent(store, "bob").await, agent(store, "carol").await, webhook(store, "hook").await);
    for member in [&bob, &carol, &hook] {
        join(store, room, member.id.into(), &member.name).await;
    }
    let act = act(room, room.owner);
    let posted = post(store, act, post_of("hi", &["BOB", "hook", "nobody", "owner"], None)).await.unwrap();
    assert_eq!(posted.seq, 5);
    let to: BTreeSet<_> = posted
        .applied
        .delivered
        .iter()
        .map(|(to, id, by)| (to.agent, id.seq, by.transport.as_str()))
        .collect();
    assert_eq!(to, [(bob.id, 1, "inbox"), (hook.id, 1, "webhook")].into_iter().collect());
    let inbox = entries(store, bob.id).await;
    assert_eq!((inbox.len(), inbox[0].event, inbox[0].kind), (1, act.event, EntryKind::Chat));
    assert_eq!(inbox[0].state, DeliveryState::Queued);
    assert_eq!(entries(store, hook.id).await[0].state, DeliveryState::Waiting);
    assert_eq!(entries(store, carol.id).await, []);
    assert_eq!(
        posted.applied.delivered.iter().filter(|(_, _, by)| by.transport == Transport::Webhook).count(),
        1
    );
    // A named recipient must be a member; a preview writes nothing.
    let mut nobody = post_of("hi", &[], None);
    nobody.to = vec!["nobody".into()];
    let refused = post(store, act, nobody).await;
    assert!(matches!(refused, Err(ConversationError::NoHandle(handle)) if handle == "nobody"));
    let preview = move |tx: &mut dyn Tx| {
        let new = post_of("hi", &["carol"], None);
        let draft = conversation::preview_message(tx, &act, &new)?;
        Ok::<_, ConversationError>((draft.member.handle.clone(), named(&draft).len()))
    };
    assert_eq!(soon(store.read(preview)).await.unwrap(), ("owner".to_owned(), 1));
    assert_eq!(entries(store, carol.id).await, []);
    assert_eq!(read(store, move |tx| tx.head(room.id.into())).await, 5);
}

async fn places_have_no_gaps(fixture: Fixture) {
    let store = &fixture.store;
    let rooms = [room(store, History::All).await, room(store, History::All).await];
    let agents = [agent(store, "a").await, agent(store, "b").await, agent(store, "c").await];
    for room in rooms {
        for agent in &agents {
            join(store, room, agent.id.into(), &agent.name).await;
        }
    }
    // Many messages wake the same agents from two rooms, in any order.
    let posts: Vec<_> = (0..60)
        .map(|n| {
            let (store, room, who) = (store.clone(), rooms[n % 2], agents[n % 3].id);
            let order = if n % 4 < 2 { ["a", "b", "c"] } else { ["c", "b", "a"] };
            tokio::spawn(async move { post(&store, act(room, who.into()), post_of("x", &order, None)).await })
        })
        .collect();
    for post in posts {
        assert_eq!(post.await.unwrap().unwrap().applied.delivered.len(), 2);
    }
    for room in rooms {
        assert_eq!(places(&all(store, room, room.owner).await), (1..=34).collect::<Vec<i64>>());
    }
    for agent in &agents {
        let seqs: Vec<_> = entries(store, agent.id).await.iter().map(|entry| entry.seq).collect();
        assert_eq!(seqs, (1..=40).collect::<Vec<i64>>());
    }
}

/// A member's message is stored before its removal, or not at all.
async fn who_is_removed_says_nothing_after(fixture: Fixture) {
    let store = &fixture.store;
    let (room, bob) = (room(store, History::All).await, person());
    for _ in 0..5 {
        join(store, room, bob, "bob").await;
        let posts: Vec<_> = (0..8)
            .map(|_| {
                let store = store.clone();
                tokio::spawn(async move { post(&store, act(room, bob), post_of("x", &[], None)).await })
            })
            .collect();
        remove(store, room, "bob").await;
        for post in posts {
            let posted = post.await.unwrap();
            assert!(matches!(posted, Ok(_) | Err(ConversationError::NotFound)), "{posted:?}");
        }
    }
    let log = all(store, room, room.owner).await;
    let mut there = false;
    for event in &log.events[1..] {
        match event.kind.as_str() {
            "join" => there = true,
            "leave" => there = false,
            _ => assert!(there, "{event:?}"),
        }
    }
    assert_eq!(places(&log), (1..=log.events.len() as i64).collect::<Vec<_>>());
}

async fn the_one_who_was_first_deletes(fixture: Fixture) {
    let store = &fixture.store;
    let (room, bob) = (room(store, History::All).await, person());
    join(store, room, bob, "bob").await;
    for _ in 0..5 {
        let said = say(store, room, bob, "findable").await;
        let work: Vec<_> = (0..6)
            .map(|n| {
                let store = store.clone();
                tokio::spawn(async move {
                    match n % 3 {
                        0 => delete(&store, room, bob, said).await.is_ok(),
                        1 => delete(&store, room, room.owner, said).await.is_ok(),
                        _ => {
                            let (act, new) = (act(room, bob), post_of("findable", &[], None));
                            let edit = move |tx: &mut dyn Tx| {
                                let draft = conversation::draft_edit(tx, &act, said, &new)?;
                                post_to_nobody(tx, &draft)
                            };
                            drop(run(&store, edit).await);
                            false
                        }
                    }
                })
            })
            .collect();
        let mut deleted = 0;
        for work in work {
            deleted += i32::from(work.await.unwrap());
        }
        assert_eq!(deleted, 1);
    }
    let find =
        move |tx: &mut dyn Tx| Ok(chorus_store::search::page(tx, bob, None, "findable", None, 10)?.events);
    assert_eq!(read(store, find).await, [], "no edit after a deletion brings it back");
}

async fn documents(fixture: Fixture) {
    let store = &fixture.store;
    let room = room(store, History::All).await;
    let put = async |content: &str, base| {
        let act = act(room, room.owner);
        let (slug, content) = ("notes".into(), MaskedContent::text(content.to_owned()));
        let new = NewArtifact { slug, title: None, content_type: None, content, base };
        run(store, move |tx| conversation::put_artifact(tx, &act, &new)).await
    };
    assert!(matches!(put("x", 1).await, Err(ConversationError::Stale(0))));
    let first = put("one", 0).await.unwrap();
    assert_eq!((first.version, &*first.title, &*first.content_type), (1, "notes", "text/markdown"));
    assert!(matches!(put("again", 0).await, Err(ConversationError::Stale(1))));
    assert_eq!(put("two", 1).await.unwrap().version, 2);
    assert!(matches!(put("late", 1).await, Err(ConversationError::Stale(2))));
    let get = async |version| {
        let found = read(store, move |tx| artifacts::get(tx, room.id, "notes", version)).await;
        found.map(|found| found.content)
    };
    assert_eq!(get(None).await, Some(Content::Text("two".into())));
    assert_eq!(get(Some(1)).await, Some(Content::Text("one".into())));
    assert_eq!(get(Some(3)).await, None);
    let list = read(store, move |tx| artifacts::page(tx, room.id, "", 10)).await;
    let empty = Content::Text(String::new());
    assert_eq!((list.len(), list[0].version, list[0].size, &list[0].content), (1, 2, 3, &empty));
}

async fn documents_of_bytes(fixture: Fixture) {
    let store = &fixture.store;
    let room = room(store, History::All).await;
    let put = async |content: MaskedContent, content_type: Option<&str>, base| {
        let (act, content_type) = (act(room, room.owner), content_type.map(str::to_owned));
        let new = NewArtifact { slug: "plot".into(), title: None, content_type, content, base };
        run(store, move |tx| conversation::put_artifact(tx, &act, &new)).await.unwrap()
    };
    // Every byte value, and enough bytes to span many database pages.
    let bytes: Vec<u8> = (0..100_000_u32).map(|n| (n % 251) as u8).chain(0..=255).collect();
    let first = put(MaskedContent::bytes(bytes.clone()), Some("image/png"), 0).await;
    assert_eq!((&*first.content_type, first.size), ("image/png", 100_256));
    // The media type stays as long as text follows text, or bytes follow bytes.
    let types = [
        (MaskedContent::bytes(vec![0]), "image/png"),
        (MaskedContent::text("a".into()), "text/markdown"),
        (MaskedContent::bytes(vec![0, 1]), "application/octet-stream"),
    ];
    for (base, (content, expected)) in (1..).zip(types) {
        assert_eq!(put(content, None, base).await.content_type, expected);
    }
    let get = async |version| read(store, move |tx| artifacts::get(tx, room.id, "plot", version)).await;
    assert_eq!(get(Some(1)).await, Some(first));
    assert_eq!(get(Some(3)).await.unwrap().content, Content::Text("a".into()));
    let newest = get(None).await.unwrap();
    assert_eq!((newest.version, &newest.content, newest.size), (4, &Content::Bytes(vec![0, 1]), 2));
    let listed = artifacts::Artifact { content: Content::Bytes(vec![]), ..newest };
    assert_eq!(read(store, move |tx| artifacts::page(tx, room.id, "", 10)).await, [listed]);
    let removed = write(store, move |tx| artifacts::trim(tx, room.id, "plot", 1)).await;
    let sizes: Vec<_> = removed.into_iter().map(|(_, bytes)| bytes).collect();
    let row = sizes[1] - 1;
    assert_eq!(sizes, [100_256 + row, 1 + row, 1 + row], "what is given back is what was counted");
}

async fn a_pair_is_made_once(fixture: Fixture) {
    let store = &fixture.store;
    let (one, other) = (person(), Principal::from(agent(store, "bob").await.id));
    let id = ConversationId::of_pair(one, other);
    let asks: Vec<_> = (0..8)
        .map(|n| {
            let (who, with) = if n % 2 == 0 { (one, other) } else { (other, one) };
            let (store, room) = (store.clone(), Room { id, owner: who });
            tokio::spawn(async move {
                let (act, second) = (act(room, who), EventId(fresh()));
                let new = Conversation { kind: ConversationKind::Dm, ..conversation(room, History::All) };
                let handle = || Handle::Like("x".into());
                run(&store, move |tx| {
                    let second = SecondMember { principal: with, handle: handle(), event: second };
                    conversation::pair(tx, &act, &new, handle(), second, Refusal::WhenFull)
                })
                .await
                .unwrap()
            })
        })
        .collect();
    let (mut made, mut owners) = (0, BTreeSet::new());
    for ask in asks {
        let (conversation, new) = ask.await.unwrap();
        made += i32::from(new);
        owners.insert(conversation.owner);
    }
    assert_eq!((made, owners.len()), (1, 1));
    let room = Room { id, owner: one };
    let log = all(store, room, one).await;
    assert_eq!(kinds(&log), ["join", "join"]);
    let handles: Vec<_> = read(store, move |tx| members::page(tx, id, "", 10)).await;
    assert_eq!(handles.iter().map(|member| &*member.handle).collect::<Vec<_>>(), ["x", "x-2"]);
    // Every message in it wakes the other member.
    assert_eq!(
        post(store, act(room, one), post_of("hi", &[], None)).await.unwrap().applied.delivered.len(),
        1
    );
    assert_eq!(
        post(store, act(room, other), post_of("hi", &[], None)).await.unwrap().applied.delivered.len(),
        0
    );
    let third =
        add(store, Room { id, owner: *owners.first().unwrap() }, person(), Handle::Like("y".into())).await;
    assert!(matches!(third, Err(ConversationError::Forbidden)));
}
