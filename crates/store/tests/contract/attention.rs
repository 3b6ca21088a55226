//! The candidates of an event, and the decision stored with each delivery.

use crate::channel::{Room, act, join, person, post_of, remove, room, run, say, say_in};
use crate::support::{Fixture, NOW, agent, entries, on_both, read, write};
use chorus_attention::plan::{Effect, EventRecipient, plan};
use chorus_protocol::attention::Attention;
use chorus_protocol::ids::{AgentId, DeliveryId, EventId, Principal};
use chorus_protocol::redact::Masked;
use chorus_protocol::words::{Directedness, EntryKind, Mode, Policy, Priority, Reason, Signal};
use chorus_store::attention::{self, Posted};
use chorus_store::conversation::{self, Act, Candidate, ConversationError, Draft, Post, Reaction};
use chorus_store::conversations::{ConversationKind, History};
use chorus_store::loop_guards::ExchangeLifetime;
use chorus_store::{Store, Tx, log, loop_guards, obligations, push};
use serde_json::json;

on_both!(
    whom_a_message_may_concern,
    whom_a_change_may_concern,
    what_a_message_answers,
    what_agents_repeat_to_each_other,
    a_decision_is_kept_with_its_delivery,
    what_was_delivered_before_decisions_were_kept,
    credentials_in_names_are_not_told,
);

/// An ordinary decision.
pub(crate) const MENTIONED: Attention = Attention {
    directedness: Directedness::ToMe,
    policy: Policy::MustRespond,
    mode: Mode::Immediate,
    reason: Reason::DirectMention,
    priority: Priority::Normal,
    deadline_ms: None,
};

/// Returns everybody who is named, and the other member of a direct conversation.
pub(crate) fn named(draft: &Draft<'_>) -> Vec<Effect> {
    let of_two = draft.conversation.kind == ConversationKind::Dm;
    let named = draft.candidates.iter().filter(|candidate| candidate.named || of_two);
    named.map(|candidate| deliver(draft, candidate.agent, &candidate.handle, MENTIONED)).collect()
}

fn deliver(draft: &Draft<'_>, agent: AgentId, handle: &str, attention: Attention) -> Effect {
    let to = EventRecipient { agent, handle: handle.into(), attention };
    Effect::Deliver { to, mentions: draft.mentions.clone(), claimed_until: None }
}

/// Says something to whom the engine decides.
pub(crate) fn say_as_decided(tx: &mut dyn Tx, act: &Act, new: &Post) -> Result<Posted, ConversationError> {
    let draft = conversation::draft_message(tx, act, new)?;
    let effects = plan(&attention::load(tx, &draft)?, act.now).expect("it is allowed");
    Ok(attention::post(tx, &draft, &effects)?)
}

/// Posts a message to the members it names.
pub(crate) fn post_in(tx: &mut dyn Tx, act: &Act, new: &Post) -> Result<Posted, ConversationError> {
    let draft = conversation::draft_message(tx, act, new)?;
    Ok(attention::post(tx, &draft, &named(&draft))?)
}

/// Posts a draft without recipients and returns its position.
pub(crate) fn post_to_nobody(tx: &mut dyn Tx, draft: &Draft<'_>) -> Result<i64, ConversationError> {
    Ok(attention::post(tx, draft, &[])?.seq)
}

pub(crate) fn masked(body: serde_json::Value) -> Masked {
    let serde_json::Value::Object(members) = body else { panic!("{body} is no object") };
    Masked::new(members)
}

pub(crate) fn react_in(
    tx: &mut dyn Tx,
    act: &Act,
    target: EventId,
    signal: Signal,
    body: &Masked,
) -> Result<(EventId, i64), ConversationError> {
    match conversation::draft_reaction(tx, act, target, signal, body)? {
        Reaction::New(draft) => Ok((act.event, post_to_nobody(tx, &draft)?)),
        Reaction::Stands(event, seq) => Ok((event, seq)),
    }
}

/// Creates agents with these names in a room.
async fn agents<const N: usize>(store: &Store, room: Room, names: [&str; N]) -> [AgentId; N] {
    let mut ids = vec![];
    for name in names {
        let id = agent(store, name).await.id;
        join(store, room, id.into(), name).await;
        ids.push(id);
    }
    ids.try_into().unwrap()
}

/// Formats a candidate as `handle: reasons`.
fn told(candidate: &Candidate) -> String {
    let Candidate { handle, named, owns_thread, participates, last_in_thread, said_target, .. } = candidate;
    let known = [
        (named, "named"),
        (owns_thread, "owns"),
        (participates, "participates"),
        (last_in_thread, "last"),
        (said_target, "target"),
    ];
    let known: Vec<_> = known.iter().filter(|(holds, _)| **holds).map(|(_, what)| *what).collect();
    format!("{handle}: {}", known.join(" "))
}

fn all_told(draft: &Draft<'_>) -> (bool, Vec<String>) {
    (draft.names_somebody, draft.candidates.iter().map(told).collect())
}

async fn concerned(store: &Store, act: Act, new: Post) -> (bool, Vec<String>) {
    run(store, move |tx| Ok(all_told(&conversation::draft_message(tx, &act, &new)?))).await.unwrap()
}

async fn whom_a_message_may_concern(fixture: Fixture) {
    let store = &fixture.store;
    let room = room(store, History::All).await;
    let [ann, bob, _, dan, _] = agents(store, room, ["ann", "bob", "cid", "dan", "eve"]).await;
    let first = say(store, room, ann.into(), "first").await;
    for who in [bob, dan, bob] {
        say_in(store, room, who.into(), "more", Some(first)).await;
    }
    remove(store, room, "dan").await;
    let owner = act(room, room.owner);
    let none = (false, vec![]);
    assert_eq!(concerned(store, owner, post_of("x", &[], None)).await, none);
    assert_eq!(concerned(store, owner, post_of("x", &["owner", "nobody"], None)).await, (true, vec![]));
    // Former authors in the thread are candidates. Named members come first, and each appears once.
    let in_thread = concerned(store, owner, post_of("x", &["cid"], Some(first))).await;
    let expected = ["cid: named", "ann: owns participates", "bob: participates last"].map(str::to_owned);
    assert_eq!(in_thread, (true, expected.to_vec()));
    let bobs = concerned(store, act(room, bob.into()), post_of("x", &["ann", "bob"], Some(first))).await;
    assert_eq!(bobs, (true, vec!["ann: named owns participates".to_owned()]));
    // The agent asked last is a candidate although it has not answered; once another is asked, it is no longer
    // one.
    say_to(store, room, first, &["cid"]).await;
    let asked = concerned(store, owner, post_of("x", &[], Some(first))).await;
    let expected = ["ann: owns participates", "cid: last", "bob: participates"].map(str::to_owned);
    assert_eq!(asked, (false, expected.to_vec()));
    say_to(store, room, first, &["ann", "eve"]).await;
    let together = concerned(store, owner, post_of("x", &[], Some(first))).await;
    let expected = ["ann: owns participates last", "eve: last", "bob: participates"].map(str::to_owned);
    assert_eq!(together, (false, expected.to_vec()));
    // The author of the answered message is found, with that message.
    let answers = Post { reply_to: Some(first), ..post_of("x", &[], Some(first)) };
    let (owner_act, post) = (owner, answers.clone());
    let found = run(store, move |tx| {
        let draft = conversation::draft_message(tx, &owner_act, &post)?;
        Ok((draft.author_leads, draft.answers.as_ref().map(|event| event.id)))
    });
    assert_eq!(found.await.unwrap(), (true, Some(first)));
    let (_, candidates) = concerned(store, act(room, bob.into()), answers).await;
    assert_eq!(candidates, ["ann: owns participates last target", "eve: last"]);
}

/// A message answers what the agent that it is for said there last, unless that is for somebody else.
async fn what_a_message_answers(fixture: Fixture) {
    let store = &fixture.store;
    let room = room(store, History::All).await;
    let [ann, bob] = agents(store, room, ["ann", "bob"]).await;
    let answered = async |author: Principal, text: &str, mentions: &[&str], thread: Option<EventId>| {
        answered_in(store, room, author, post_of(text, mentions, thread)).await
    };
    let (nothing, owner) = ((None, String::new()), room.owner);
    let began = say(store, room, owner, "look").await;
    assert_eq!(answered(owner, "ok", &[], Some(began)).await, nothing);
    let report = say_in(store, room, ann.into(), "Fixed.", Some(began)).await;
    assert_eq!(answered(owner, "ok", &[], Some(began)).await, (Some(report), String::new()));
    let question = say_in(store, room, ann.into(), "Fixed. Shall I push it?", Some(began)).await;
    say_in(store, room, owner, "let me see", Some(began)).await;
    let waits = (Some(question), question.to_string());
    for (text, mentions, thread) in [
        ("ok", &[][..], Some(began)),
        ("port 8080", &[], Some(began)),
        ("@ann ok", &["ann"], Some(began)),
        ("@ann ok", &["ann"], None),
    ] {
        assert_eq!(answered(owner, text, mentions, thread).await, waits, "{text}");
    }
    // It is for somebody else, between agents, or obliges by its own words.
    assert_eq!(answered(owner, "@bob ok", &["bob"], Some(began)).await, nothing);
    assert_eq!(answered(bob.into(), "ok", &[], Some(began)).await, nothing);
    assert_eq!(answered(owner, "@ann why?", &["ann"], None).await, nothing);
    assert_eq!(answered(owner, "ok", &[], None).await, nothing);
    // A question to somebody else waits for that one.
    say_in(store, room, ann.into(), "@bob shall I push it?", Some(began)).await;
    assert_eq!(answered(owner, "ok", &[], Some(began)).await, nothing);
    // The first message of a thread counts, and so does what is said after the last answer only.
    let offer = say(store, room, bob.into(), "I can also tidy up. Tell me if you want that.").await;
    assert_eq!(answered(owner, "ok", &[], Some(offer)).await, (Some(offer), offer.to_string()));
    let done = say_in(store, room, bob.into(), "Done.", Some(offer)).await;
    assert_eq!(answered(owner, "ok", &[], Some(offer)).await, (Some(done), String::new()));
    // Somebody who may not read a question does not answer it.
    let narrow = self::room(store, History::Joined).await;
    join(store, narrow, ann.into(), "ann").await;
    let hidden = say(store, narrow, ann.into(), "Shall I push it?").await;
    let late = person();
    join(store, narrow, late, "late").await;
    let post = || post_of("@ann ok", &["ann"], None);
    assert_eq!(answered_in(store, narrow, late, post()).await, nothing);
    assert_eq!(answered_in(store, narrow, narrow.owner, post()).await.0, Some(hidden));
}

/// Returns the message that a post answers, and what the post notes of it.
async fn answered_in(store: &Store, room: Room, author: Principal, post: Post) -> (Option<EventId>, String) {
    let act = act(room, author);
    let found = run(store, move |tx| {
        let draft = conversation::draft_message(tx, &act, &post)?;
        let note = draft.body.text("answers").to_owned();
        Ok((draft.answers.as_ref().map(|event| event.id), note))
    });
    found.await.unwrap()
}

/// The owner posts to these members in a thread.
async fn say_to(store: &Store, room: Room, thread: EventId, mentions: &[&str]) {
    let (act, new) = (act(room, room.owner), post_of("x", mentions, Some(thread)));
    run(store, move |tx| post_in(tx, &act, &new).map(drop)).await.unwrap();
}

async fn what_agents_repeat_to_each_other(fixture: Fixture) {
    let store = &fixture.store;
    let (one, other) = (room(store, History::All).await, room(store, History::All).await);
    let [ann, bob, eve] = agents(store, one, ["ann", "bob", "eve"]).await;
    let lifetime = |since| ExchangeLifetime { since, kept_turns: 4 };
    let exchange = async |room: Room, pair, since| {
        let found = read(store, move |tx| loop_guards::of(tx, room.id, pair, lifetime(since))).await;
        found.map(|exchange| (exchange.turns, exchange.began_at))
    };
    let count = async |pair, since, now| {
        write(store, move |tx| loop_guards::count(tx, one.id, pair, lifetime(since), now)).await;
    };
    // Both directions count together, and each pair and conversation apart.
    for (pair, turns) in [((ann, bob), 1), ((bob, ann), 2), ((ann, bob), 3)] {
        count(pair, NOW - 10, NOW + i64::from(turns)).await;
        assert_eq!(exchange(one, (ann, bob), NOW - 10).await, Some((turns, NOW + 1)));
        assert_eq!(exchange(one, (bob, ann), NOW - 10).await, Some((turns, NOW + 1)));
    }
    assert_eq!(exchange(other, (ann, bob), NOW - 10).await, None);
    assert_eq!(exchange(one, (ann, eve), NOW - 10).await, None);
    // An exchange that was quiet for long starts over, unless it had reached its last turn.
    assert_eq!(exchange(one, (ann, bob), NOW + 3).await, None);
    count((ann, bob), NOW + 3, NOW + 20).await;
    assert_eq!(exchange(one, (ann, bob), NOW + 3).await, Some((1, NOW + 20)));
    for turn in 0..4 {
        count((ann, eve), NOW, NOW + 20 + turn).await;
    }
    count((bob, eve), NOW + 50, NOW + 60).await;
    assert_eq!(exchange(one, (ann, eve), NOW + 50).await, Some((4, NOW + 20)));
    let rows = write(store, |tx| tx.execute("DELETE FROM loop_guards WHERE turns < 4", &[])).await;
    assert_eq!(rows, 1, "an exchange that is over leaves no row");
    write(store, move |tx| loop_guards::reset(tx, one.id)).await;
    write(store, move |tx| loop_guards::reset(tx, other.id)).await;
    assert_eq!(exchange(one, (ann, eve), NOW - 10).await, None);

    // For a thread: its first message and the last ones. Otherwise the last ones of all.
    let first = say(store, one, one.owner, "first").await;
    let second = say_in(store, one, one.owner, "second", Some(first)).await;
    let third = say_in(store, one, one.owner, "third", Some(first)).await;
    let fourth = say(store, one, one.owner, "fourth").await;
    let last = async |thread: Option<EventId>, limit: i64| {
        let events = read(store, move |tx| log::last_messages(tx, one.id, thread, limit)).await;
        events.iter().map(|event| event.id).collect::<Vec<_>>()
    };
    assert_eq!(last(None, 2).await, [fourth, third]);
    assert_eq!(last(Some(first), 2).await, [first, third]);
    assert_eq!(last(Some(first), 8).await, [first, third, second]);
    let none = read(store, move |tx| log::last_messages(tx, other.id, None, 8)).await;
    assert_eq!(none, []);
}

async fn whom_a_change_may_concern(fixture: Fixture) {
    let store = &fixture.store;
    let room = room(store, History::All).await;
    let [ann, bob] = agents(store, room, ["ann", "bob"]).await;
    let first = say(store, room, ann.into(), "first").await;
    let answer = say_in(store, room, bob.into(), "answer", Some(first)).await;
    let edit = async |who: Principal, target: EventId, mentions: &[&str]| {
        let (act, new) = (act(room, who), post_of("x", mentions, None));
        let draft = move |tx: &mut dyn Tx| Ok(all_told(&conversation::draft_edit(tx, &act, target, &new)?));
        run(store, draft).await.unwrap()
    };
    assert_eq!(edit(ann.into(), first, &["bob"]).await, (true, vec!["bob: named".to_owned()]));
    let expected = vec!["ann: owns participates".to_owned()];
    assert_eq!(edit(bob.into(), answer, &[]).await, (false, expected));
    let by_owner = act(room, room.owner);
    let deletion = move |tx: &mut dyn Tx| Ok(all_told(&conversation::draft_deletion(tx, &by_owner, answer)?));
    let expected = vec!["bob: participates last target".to_owned(), "ann: owns participates".to_owned()];
    assert_eq!(run(store, deletion).await.unwrap(), (false, expected));
    let reaction = async |who: Principal| {
        let (act, body) = (act(room, who), masked(json!({"signal": "done"})));
        let draft =
            move |tx: &mut dyn Tx| match conversation::draft_reaction(tx, &act, answer, Signal::Done, &body)?
            {
                Reaction::New(draft) => Ok(all_told(&draft)),
                Reaction::Stands(..) => panic!("nobody reacted before"),
            };
        run(store, draft).await.unwrap()
    };
    assert_eq!(reaction(ann.into()).await, (false, vec!["bob: target".to_owned()]));
    assert_eq!(reaction(bob.into()).await, (false, vec![]), "nobody writes to himself");
}

async fn attention_of(store: &Store, id: DeliveryId) -> Attention {
    read(store, move |tx| push::get(tx, id)).await.unwrap().attention
}

async fn a_decision_is_kept_with_its_delivery(fixture: Fixture) {
    let store = &fixture.store;
    let room = room(store, History::All).await;
    let [ann, bob] = agents(store, room, ["ann", "bob"]).await;
    let quiet = Attention {
        directedness: Directedness::ToMyRole,
        policy: Policy::MayRespond,
        mode: Mode::Notify,
        reason: Reason::ThreadParticipation,
        priority: Priority::High,
        deadline_ms: Some(5_000),
    };
    let reach =
        move |draft: &Draft<'_>| [deliver(draft, ann, "ann", quiet), deliver(draft, bob, "bob", MENTIONED)];
    let act_of_message = act(room, room.owner);
    let say = move |tx: &mut dyn Tx| {
        let new = post_of("x", &[], None);
        let draft = conversation::draft_message(tx, &act_of_message, &new)?;
        Ok(attention::post(tx, &draft, &reach(&draft))?)
    };
    let posted = run(store, say).await.unwrap();
    let of = |posted: &Posted, agent| {
        posted.applied.delivered.iter().find(|(to, ..)| to.agent == agent).unwrap().1
    };
    assert_eq!(attention_of(store, of(&posted, ann)).await, quiet);
    assert_eq!(attention_of(store, of(&posted, bob)).await, MENTIONED);
    let event = act_of_message.event;
    let all = read(store, move |tx| push::of_event(tx, event, 10)).await;
    assert_eq!(all.iter().filter(|record| record.attention == quiet).count(), 1);

    // An edit delivers the message in its current form, if that is decided.
    let act_of_edit = act(room, room.owner);
    let edit = move |tx: &mut dyn Tx| {
        let new = post_of("y", &[], None);
        let draft = conversation::draft_edit(tx, &act_of_edit, event, &new)?;
        Ok(attention::post(tx, &draft, &reach(&draft))?)
    };
    let edited = run(store, edit).await.unwrap();
    assert_eq!(attention_of(store, of(&edited, ann)).await, quiet);
    let inbox = entries(store, ann).await;
    assert_eq!(
        inbox.iter().map(|entry| (entry.event, entry.kind)).collect::<Vec<_>>(),
        [(event, EntryKind::Chat); 2]
    );
    let of_message = read(store, move |tx| obligations::of_message(tx, event, 10)).await;
    assert_eq!(of_message.len(), 2, "of each agent the last: {of_message:?}");
}

async fn what_was_delivered_before_decisions_were_kept(fixture: Fixture) {
    let store = &fixture.store;
    let room = room(store, History::All).await;
    let [ann] = agents(store, room, ["ann"]).await;
    let (act, new) = (act(room, room.owner), post_of("x", &["ann"], None));
    run(store, move |tx| post_in(tx, &act, &new).map(drop)).await.unwrap();
    let forget = "UPDATE chats SET directedness = NULL, policy = NULL, mode = NULL, priority = NULL, deadline_at = NULL";
    assert_eq!(write(store, move |tx| tx.execute(forget, &[])).await, 1);
    assert_eq!(attention_of(store, DeliveryId { agent: ann, seq: 1 }).await, MENTIONED);
}

/// Texts generated by the hub are masked like members' messages.
async fn credentials_in_names_are_not_told(fixture: Fixture) {
    let store = &fixture.store;
    let room = room(store, History::All).await;
    let act = act(room, room.owner);
    let key = "ca_0123456789abcdef0123456789abcdef";
    let change = move |tx: &mut dyn Tx| {
        conversation::change(tx, &act, None, &|conversation| conversation.context = Some(key.into()))
    };
    run(store, change).await.unwrap();
    let told = read(store, move |tx| chorus_store::conversations::event_by_id(tx, act.event)).await.unwrap();
    assert!(told.body.contains("[redacted: agent key]") && !told.body.contains(key), "{}", told.body);
}
