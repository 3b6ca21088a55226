//! Work streams: their messages, visibility, and claims when members leave or the stream is closed.

use crate::channel::{Room, act, join, post, post_of, remove, room};
use crate::support::{Fixture, NOW, agent, fresh, on_both, read, write};
use chorus_protocol::ids::{AgentId, EventId, Principal, StreamId, TraceId};
use chorus_protocol::words::ClaimState;
use chorus_store::claims::{self, Claim, Held};
use chorus_store::conversation::{ConversationError, Post};
use chorus_store::conversations::History;
use chorus_store::digests::{self, DigestEvents, DigestPosition, DigestScope};
use chorus_store::work_streams::{self, Part, WorkStream};
use chorus_store::{Store, conversation};

on_both!(
    what_belongs_to_a_stream,
    who_sees_a_stream,
    what_who_goes_had_taken,
    what_is_held_of_a_closed_stream,
    a_digest_tells_nothing_of_an_absence
);

async fn make(store: &Store, rooms: &[Room]) -> StreamId {
    let new = WorkStream { id: StreamId(fresh()), name: "work".into(), created_at: NOW, closed_at: None };
    let (id, maker) = (new.id, rooms[0].owner);
    let places: Vec<_> = rooms.iter().map(|room| room.id).collect();
    let trace = TraceId(fresh());
    write(store, move |tx| {
        work_streams::insert(tx, &new, maker, trace)?;
        work_streams::put_conversations(tx, new.id, &places)?;
        work_streams::put_members(tx, new.id, true, &[maker])
    })
    .await;
    id
}

async fn said(store: &Store, room: Room, new: Post) -> (EventId, Option<StreamId>) {
    let act = act(room, room.owner);
    let posted = post(store, act, new).await.unwrap();
    (act.event, posted.stream)
}

async fn what_belongs_to_a_stream(fixture: Fixture) {
    let store = &fixture.store;
    let room = room(store, History::All).await;
    let (bob, ada) = (agent(store, "bob").await.id, agent(store, "ada").await.id);
    join(store, room, bob.into(), "bob").await;
    join(store, room, ada.into(), "ada").await;
    assert_eq!(said(store, room, post_of("before", &[], None)).await.1, None);
    let one = make(store, &[room]).await;
    write(store, move |tx| work_streams::put_members(tx, one, true, &[bob.into()])).await;
    write(store, move |tx| work_streams::join(tx, one, ada.into())).await;
    let (first, stream) = said(store, room, post_of("the only one", &[], None)).await;
    assert_eq!(stream, Some(one));
    // An owner is a candidate; a participant is not.
    let act = act(room, room.owner);
    let owners = crate::channel::run(store, move |tx| {
        let new = post_of("who?", &[], None);
        let draft = conversation::draft_message(tx, &act, &new)?;
        Ok(draft.candidates.iter().map(|one| (one.agent, one.owns_stream)).collect::<Vec<_>>())
    });
    assert_eq!(owners.await.unwrap(), [(bob, true)]);

    let two = make(store, &[room]).await;
    assert_eq!(said(store, room, post_of("which?", &[], None)).await.1, None);
    assert_eq!(said(store, room, post_of("in its thread", &[], Some(first))).await.1, Some(one));
    let named = Post { stream: Some(two), ..post_of("named", &[], Some(first)) };
    let (third, stream) = said(store, room, named).await;
    assert_eq!(stream, Some(two));
    assert_eq!(read(store, move |tx| work_streams::of_event(tx, third)).await, Some(two));
    let unknown = Post { stream: Some(StreamId(fresh())), ..post_of("of another channel", &[], None) };
    let refused = post(store, crate::channel::act(room, room.owner), unknown).await;
    assert!(matches!(refused, Err(ConversationError::NoStream)), "{refused:?}");
    let page = read(store, move |tx| work_streams::page(tx, one, bob.into(), 0, 10)).await;
    assert_eq!((page.len(), page[0].1), (2, first));
    let rest = read(store, move |tx| work_streams::page(tx, one, bob.into(), 1, 10)).await;
    assert_eq!(rest.first().map(|(place, _)| *place), Some(2));
}

async fn who_sees_a_stream(fixture: Fixture) {
    let store = &fixture.store;
    let (here, there) = (room(store, History::Joined).await, room(store, History::All).await);
    let id = make(store, &[here, there]).await;
    let before = said(store, here, post_of("before bob came", &[], None)).await.0;
    let bob: Principal = agent(store, "bob").await.id.into();
    let seen = |who: Principal| async move {
        let all = read(store, move |tx| work_streams::seen_by(tx, who, None, 10)).await;
        all.into_iter().map(|stream| stream.id).collect::<Vec<_>>()
    };
    assert_eq!(seen(bob).await, []);
    join(store, here, bob, "bob").await;
    assert_eq!(seen(bob).await, [id]);
    assert_eq!(read(store, move |tx| work_streams::conversations_of(tx, id, bob)).await, [here.id]);
    // The other's owner shares no channel with bob.
    write(store, move |tx| work_streams::put_members(tx, id, false, &[bob, there.owner])).await;
    write(store, move |tx| work_streams::set_lead(tx, id, bob.uuid())).await;
    let members = read(store, move |tx| work_streams::members_seen_by(tx, id, bob)).await;
    let members: Vec<_> = members.iter().map(|(_, handle, part)| (handle.as_str(), *part)).collect();
    assert_eq!(
        members,
        [("bob", Part { owns: false, lead: true }), ("owner", Part { owns: true, lead: false })]
    );
    let since = said(store, here, post_of("since", &[], None)).await.0;
    let elsewhere = said(store, there, post_of("elsewhere", &[], None)).await.0;
    let read_by = |who: Principal| async move {
        let page = read(store, move |tx| work_streams::page(tx, id, who, 0, 10)).await;
        page.into_iter().map(|(_, event)| event).collect::<Vec<_>>()
    };
    assert_eq!(read_by(bob).await, [since]);
    assert_eq!(read_by(here.owner).await, [before, since]);
    assert_eq!(read_by(there.owner).await, [elsewhere]);
    let until = |who: Principal, place| read(store, move |tx| work_streams::last_until(tx, id, who, place));
    assert_eq!(
        (until(bob, 1).await, until(bob, 3).await, until(there.owner, 3).await),
        (None, Some(since), Some(elsewhere))
    );
    assert_eq!(read(store, move |tx| work_streams::place_of(tx, id, since)).await, 2);
    assert_eq!(read(store, move |tx| work_streams::place_of(tx, id, EventId(fresh()))).await, 0);
    assert_eq!(work_streams::after(&work_streams::cursor(Some(since))), Some(Some(since)));
    assert_eq!(
        (work_streams::after(&work_streams::cursor(None)), work_streams::after("1")),
        (Some(None), None)
    );
    let newest = |who: Principal, limit| read(store, move |tx| work_streams::newest(tx, id, who, limit));
    assert_eq!(newest(here.owner, 10).await, [since, before], "the newest first");
    assert_eq!((newest(here.owner, 1).await, newest(bob, 10).await), (vec![since], vec![since]));
    // Members that bob cannot see, as long as they are there.
    let hidden = |owns| read(store, move |tx| work_streams::members_hidden_from(tx, id, owns, bob));
    assert_eq!((hidden(true).await, hidden(false).await), (vec![], vec![there.owner]));
    let gone: Principal = agent(store, "gone").await.id.into();
    write(store, move |tx| work_streams::join(tx, id, gone)).await;
    assert_eq!(hidden(false).await, [there.owner], "who is in none of its channels has no part in it");
    remove(store, here, "bob").await;
    assert_eq!((seen(bob).await, read_by(bob).await), (vec![], vec![]));
}

fn claim(room: Room, event: EventId, first: Option<AgentId>, holder: Option<AgentId>) -> Claim {
    let until = NOW + 1000;
    let held =
        holder.map(|holder| Held { holder: holder.into(), since: NOW, until, state: ClaimState::Held });
    Claim { event, conversation: room.id, first, offered_at: NOW, held, next_at: Some(until) }
}

async fn what_who_goes_had_taken(fixture: Fixture) {
    let store = &fixture.store;
    let (here, there) = (room(store, History::All).await, room(store, History::All).await);
    let (ada, bob) = (agent(store, "ada").await.id, agent(store, "bob").await.id);
    join(store, here, ada.into(), "ada").await;
    let [held, offered, others, elsewhere] = [(); 4].map(|()| EventId(fresh()));
    let all = [
        claim(here, held, Some(ada), Some(ada)),
        claim(here, offered, Some(ada), None),
        claim(here, others, Some(ada), Some(bob)),
        claim(there, elsewhere, Some(ada), Some(ada)),
    ];
    write(store, move |tx| all.iter().try_for_each(|claim| claims::put(tx, claim))).await;
    remove(store, here, "ada").await;
    let mut due = read(store, move |tx| claims::due(tx, NOW, 10)).await;
    due.sort_unstable();
    let mut free = [(held, here.id), (offered, here.id)];
    free.sort_unstable();
    assert_eq!(due, free);
    for (event, first, next_at) in [
        (held, None, NOW),
        (offered, None, NOW),
        (others, None, NOW + 1000),
        (elsewhere, Some(ada), NOW + 1000),
    ] {
        let claim = read(store, move |tx| claims::of(tx, event)).await.unwrap();
        assert_eq!((claim.first, claim.next_at), (first, Some(next_at)));
    }
}

async fn what_is_held_of_a_closed_stream(fixture: Fixture) {
    let store = &fixture.store;
    let room = room(store, History::All).await;
    let ada = agent(store, "ada").await.id;
    let outside = said(store, room, post_of("outside", &[], None)).await.0;
    let id = make(store, &[room]).await;
    let inside = said(store, room, post_of("inside", &[], None)).await.0;
    let all = [claim(room, inside, None, Some(ada)), claim(room, outside, None, Some(ada))];
    write(store, move |tx| all.iter().try_for_each(|claim| claims::put(tx, claim))).await;
    write(store, move |tx| claims::free_stream(tx, id, NOW + 5)).await;
    assert_eq!(read(store, move |tx| claims::due(tx, NOW + 5, 10)).await, [(inside, room.id)]);
}

/// A lead that leaves and returns gets no digest of its absence, whatever its stored position is.
async fn a_digest_tells_nothing_of_an_absence(fixture: Fixture) {
    let store = &fixture.store;
    let room = room(store, History::Joined).await;
    let bob = agent(store, "bob").await.id;
    join(store, room, bob.into(), "bob").await;
    let of = (bob, room.id.0);
    let through = read(store, move |tx| digests::head(tx, DigestScope::Channel, of.1)).await;
    let told = DigestPosition { agent: bob, id: of.1, scope: DigestScope::Channel, through, since_at: NOW };
    write(store, move |tx| digests::begin(tx, &told)).await;
    let happened = || read(store, move |tx| digests::happened(tx, &told, 10));
    let before = said(store, room, post_of("before", &[], None)).await.0;
    assert_eq!(happened().await.newest, [before]);
    remove(store, room, "bob").await;
    assert_eq!(read(store, move |tx| digests::of(tx, of.0, of.1)).await, None, "who left leads no more");
    let DigestEvents { counts, newest, .. } = happened().await;
    assert_eq!((counts, newest), (vec![], vec![]));
    said(store, room, post_of("meanwhile", &[], None)).await;
    join(store, room, bob.into(), "bob").await;
    // The same for a lead whose position is before all of it.
    let since = said(store, room, post_of("since", &[], None)).await.0;
    assert_eq!(happened().await.newest, [since, before]);
}
