//! Messages that wait for approval.

use crate::attention::masked;
use crate::channel::{Room, act, join, person, remove, room, run};
use crate::support::{Fixture, NOW, agent, fresh, on_both, read, write};
use chorus_protocol::ids::{ApprovalId, EventId, Principal, TraceId};
use chorus_protocol::words::History;
use chorus_store::approvals::{
    self, Approval, ApprovalState, Decided, KEPT_MS, MOST_IN_CONVERSATION, MOST_OF_AUTHOR, NewApproval,
    WAITS_MS,
};
use chorus_store::conversation::Post;
use chorus_store::{Store, access, attention, conversation, members};
use serde_json::json;

on_both!(
    one_decision_stands,
    who_knows_of_what_waits,
    so_many_wait_and_no_more,
    what_cannot_be_said_any_more_is_due,
    what_was_decided_is_forgotten_after_a_while,
    an_edit_waits_with_its_message,
);

fn new(room: Room, author: Principal) -> NewApproval {
    NewApproval {
        id: ApprovalId(fresh()),
        conversation: room.id,
        author,
        body: masked(json!({"content": "may I?"})),
        thread: None,
        reply_to: Some(EventId(fresh())),
        stream: None,
        edit_of: None,
        trace: TraceId(fresh()),
        now: NOW,
    }
}

async fn hold(store: &Store, room: Room, author: Principal) -> ApprovalId {
    let new = new(room, author);
    let id = new.id;
    assert!(write(store, move |tx| approvals::hold(tx, &new)).await);
    id
}

async fn get(store: &Store, id: ApprovalId) -> Approval {
    read(store, move |tx| approvals::by_id(tx, id)).await.unwrap()
}

async fn due(store: &Store, now: i64) -> Vec<ApprovalId> {
    let mut due = read(store, move |tx| approvals::due(tx, now, 100)).await;
    due.sort();
    due
}

async fn one_decision_stands(Fixture { store, .. }: Fixture) {
    let room = room(&store, History::All).await;
    let bob = agent(&store, "bob").await.id.into();
    join(&store, room, bob, "bob").await;
    let id = hold(&store, room, bob).await;
    let held = get(&store, id).await;
    assert_eq!((held.state, held.ends_at, held.author), (ApprovalState::Held, NOW + WAITS_MS, bob));
    assert!(held.body.contains("may I?") && held.reply_to.is_some() && held.decided.is_none());
    assert!(held.waits(NOW) && !held.waits(NOW + WAITS_MS));
    let Principal::Account(owner) = room.owner else { panic!("a person owns it") };
    let event = EventId(fresh());
    let agreed = Decided { at: NOW + 5, by: Some(owner), reason: None, event: Some(event) };
    let first = agreed.clone();
    assert!(write(&store, move |tx| approvals::decide(tx, id, ApprovalState::Agreed, &first)).await);
    let late = Decided { at: NOW + 6, by: Some(owner), reason: Some("no".into()), event: None };
    assert!(!write(&store, move |tx| approvals::decide(tx, id, ApprovalState::Declined, &late)).await);
    let stands = get(&store, id).await;
    assert_eq!((stands.state, stands.decided), (ApprovalState::Agreed, Some(agreed)));
    assert_eq!(stands.body, "", "what it said is in the conversation");
    assert_eq!(due(&store, NOW + 2 * WAITS_MS).await, []);
}

async fn who_knows_of_what_waits(Fixture { store, .. }: Fixture) {
    let (here, there) = (room(&store, History::All).await, room(&store, History::All).await);
    let (bob, eve) = (agent(&store, "bob").await.id.into(), agent(&store, "eve").await.id.into());
    let ben = person();
    for place in [here, there] {
        join(&store, place, bob, "bob").await;
        join(&store, place, eve, "eve").await;
    }
    join(&store, here, ben, "ben").await;
    let (one, two) = (hold(&store, here, bob).await, hold(&store, there, bob).await);
    let list = async |who: Principal, place: Option<Room>, after, now| -> Vec<ApprovalId> {
        let place = place.map(|place| place.id);
        let page = read(&store, move |tx| approvals::page(tx, who, place, after, now, 10)).await;
        page.into_iter().map(|one| one.id).collect()
    };
    let mut both = [one, two];
    both.sort();
    assert_eq!(list(bob, None, None, NOW).await, both);
    assert_eq!(list(bob, None, Some(both[0]), NOW).await, [both[1]]);
    assert_eq!(list(bob, Some(there), None, NOW).await, [two]);
    assert_eq!(list(eve, None, None, NOW).await, [], "an agent knows of its own");
    assert_eq!(list(ben, None, None, NOW).await, [one], "a person of what waits where it is");
    assert_eq!(list(ben, Some(here), None, NOW).await, [one]);
    assert_eq!(list(ben, Some(there), None, NOW).await, []);
    assert_eq!(list(there.owner, Some(there), None, NOW).await, [two]);
    assert_eq!(list(bob, None, None, NOW + WAITS_MS).await, [], "not once its time is over");
    remove(&store, here, "ben").await;
    assert_eq!(list(ben, None, None, NOW).await, []);
    let besides =
        async |who: Principal| read(&store, move |tx| members::has_person_besides(tx, here.id, who)).await;
    assert!(besides(bob).await && !besides(here.owner).await);
}

async fn so_many_wait_and_no_more(Fixture { store, .. }: Fixture) {
    let room = room(&store, History::All).await;
    let first: Principal = agent(&store, "first").await.id.into();
    for _ in 0..MOST_OF_AUTHOR {
        hold(&store, room, first).await;
    }
    let more = new(room, first);
    assert!(!write(&store, move |tx| approvals::hold(tx, &more)).await);
    for _ in 1..MOST_IN_CONVERSATION / MOST_OF_AUTHOR {
        let author = person();
        for _ in 0..MOST_OF_AUTHOR {
            hold(&store, room, author).await;
        }
    }
    let more = new(room, person());
    assert!(!write(&store, move |tx| approvals::hold(tx, &more)).await);
}

async fn what_cannot_be_said_any_more_is_due(Fixture { store, .. }: Fixture) {
    let (room, closing) = (room(&store, History::All).await, room(&store, History::All).await);
    let names = ["leaves", "is-kept-out", "stays"];
    let mut held = vec![];
    for name in names {
        let id = agent(&store, name).await.id;
        for place in [room, closing] {
            join(&store, place, id.into(), name).await;
        }
        held.push((id, hold(&store, room, id.into()).await));
    }
    let last = hold(&store, closing, held[2].0.into()).await;
    assert_eq!(due(&store, NOW).await, []);
    remove(&store, room, "leaves").await;
    let out = held[1].0;
    assert!(write(&store, move |tx| access::disable_agent(tx, out, NOW)).await);
    let archive = act(closing, closing.owner);
    run(&store, move |tx| conversation::archive(tx, &archive)).await.unwrap();
    let mut over = [held[0].1, held[1].1, last];
    over.sort();
    assert_eq!(due(&store, NOW).await, over);
    assert!(!get(&store, last).await.waits(NOW));
    assert_eq!(due(&store, NOW + WAITS_MS).await.len(), 4, "and the rest in time");
}

async fn what_was_decided_is_forgotten_after_a_while(Fixture { store, .. }: Fixture) {
    let room = room(&store, History::All).await;
    let (gone, waits) = (hold(&store, room, room.owner).await, hold(&store, room, room.owner).await);
    let decided = Decided { at: NOW, ..Decided::default() };
    write(&store, move |tx| approvals::decide(tx, gone, ApprovalState::Withdrawn, &decided)).await;
    assert_eq!(write(&store, |tx| approvals::remove_old(tx, NOW + KEPT_MS, 10)).await, 0);
    assert_eq!(write(&store, |tx| approvals::remove_old(tx, NOW + KEPT_MS + 1, 10)).await, 1);
    assert_eq!(read(&store, move |tx| approvals::by_id(tx, gone)).await, None);
    assert_eq!(get(&store, waits).await.state, ApprovalState::Held);
}

async fn an_edit_waits_with_its_message(Fixture { store, .. }: Fixture) {
    let room = room(&store, History::All).await;
    let bob: Principal = agent(&store, "bob").await.id.into();
    join(&store, room, bob, "bob").await;
    let said = act(room, bob);
    let post = Post::new(masked(json!({"content": "may I?"})));
    run(&store, move |tx| {
        let draft = conversation::draft_message(tx, &said, &post)?;
        Ok(attention::post(tx, &draft, &[])?)
    })
    .await
    .unwrap();
    let edit = NewApproval { edit_of: Some(said.event), ..new(room, bob) };
    let id = edit.id;
    assert!(write(&store, move |tx| approvals::hold(tx, &edit)).await);
    assert_eq!(get(&store, id).await.edit_of, Some(said.event));
    let waiting = read(&store, move |tx| approvals::edit_of(tx, said.event)).await;
    assert_eq!(waiting.map(|found| found.id), Some(id));
    let deletion = act(room, bob);
    run(&store, move |tx| {
        let draft = conversation::draft_deletion(tx, &deletion, said.event)?;
        Ok(attention::post(tx, &draft, &[])?)
    })
    .await
    .unwrap();
    assert_eq!(due(&store, NOW).await, [id]);
}
