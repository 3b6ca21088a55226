//! Obligations of agents, claims and roles: both databases store them alike.

use crate::channel::{Room, act, join, post, post_of, remove, room, run};
use crate::consent::account;
use crate::push::record;
use crate::support::{Fixture, NOW, agent, fresh, on_both, read, write};
use chorus_protocol::ids::{AgentId, EventId, Principal};
use chorus_protocol::redact::MaskedText;
use chorus_protocol::words::{ClaimState, Disposition};
use chorus_store::claims::{self, Claim, Held};
use chorus_store::conversation::{self, Handle, Newcomer};
use chorus_store::conversations::History;
use chorus_store::obligations::{self, Obligation};
use chorus_store::{Store, directory, inboxes, members};

on_both!(
    what_an_agent_was_given,
    why_it_made_of_it_what_it_did,
    what_is_due,
    a_claim_and_who_ever_held_it,
    who_has_a_role,
    what_a_session_shows_and_what_it_is_sent_again,
);

/// Posts an event that is delivered to bob.
async fn given(store: &Store, room: Room) -> EventId {
    let act = act(room, room.owner);
    let (event, new) = (act.event, post_of("@bob look", &["bob"], None));
    post(store, act, new).await.unwrap();
    event
}

async fn of(store: &Store, event: EventId, bob: AgentId) -> Option<Obligation> {
    read(store, move |tx| obligations::of(tx, event, bob, NOW)).await
}

async fn with_bob(store: &Store) -> (Room, AgentId) {
    let room = room(store, History::All).await;
    let bob = agent(store, "bob").await.id;
    join(store, room, bob.into(), "bob").await;
    (room, bob)
}

async fn what_an_agent_was_given(fixture: Fixture) {
    let store = &fixture.store;
    let (room, bob) = with_bob(store).await;
    let event = given(store, room).await;
    let known = of(store, event, bob).await.unwrap();
    assert_eq!((known.event, known.conversation, known.sent), (event, room.id, 1));
    assert_eq!((known.acked, known.connected, known.disposition), (false, false, None));
    assert_eq!(known.mentions, "agent:bob");
    assert_eq!(of(store, EventId(fresh()), bob).await, None);

    let seq = known.id.seq;
    write(store, move |tx| obligations::ack(tx, bob, &[seq, seq + 9], NOW + 1)).await;
    assert!(of(store, event, bob).await.unwrap().acked);
    assert!(write(store, move |tx| obligations::inject(tx, event, bob, NOW + 2)).await);
    assert!(!write(store, move |tx| obligations::inject(tx, EventId(fresh()), bob, NOW + 2)).await);
    assert_eq!(of(store, event, bob).await.unwrap().injected_at, Some(NOW + 2));
    let deferred = Some(Disposition::Deferred);
    let kept = known.clone();
    write(store, move |tx| obligations::dispose(tx, &kept, deferred, Some(NOW + 9), Some(NOW + 9), NOW + 3))
        .await;
    let known = of(store, event, bob).await.unwrap();
    assert_eq!((known.disposition, known.until_at, known.next_at), (deferred, Some(NOW + 9), Some(NOW + 9)));
    assert_eq!(read(store, move |tx| obligations::disposition(tx, event, bob)).await, deferred);
    assert_eq!(read(store, move |tx| obligations::of_message(tx, event, 10)).await, [(event, bob)]);
    assert_eq!(read(store, move |tx| obligations::given(tx, event, 10)).await, [bob]);
}

async fn why_it_made_of_it_what_it_did(fixture: Fixture) {
    let store = &fixture.store;
    let (room, bob) = with_bob(store).await;
    let event = given(store, room).await;
    let known = of(store, event, bob).await.unwrap();
    let id = known.id;
    let dispose = async |disposition: Option<Disposition>| {
        let known = known.clone();
        write(store, move |tx| obligations::dispose(tx, &known, disposition, None, None, NOW + 3)).await;
    };
    let explain = async |why: &'static str, at: i64| {
        let why = MaskedText::new(why.into());
        write(store, move |tx| obligations::explain(tx, event, bob, &why, at)).await;
    };
    let why = async || record(store, id).await.disposition_reason;
    explain("there is nothing to explain", NOW + 3).await;
    assert_eq!(why().await, None);
    dispose(Some(Disposition::Deferred)).await;
    explain("after lunch", NOW + 3).await;
    dispose(Some(Disposition::Deferred)).await;
    assert_eq!(why().await.as_deref(), Some("after lunch"));
    explain("after tea", NOW + 9).await;
    assert_eq!(why().await.as_deref(), Some("after tea"), "it still stands");
    // The next disposition replaces it.
    dispose(Some(Disposition::Responded)).await;
    assert_eq!(why().await, None);
    explain("it was the cache", NOW + 3).await;
    explain("or was it?", NOW + 4).await;
    assert_eq!(why().await.as_deref(), Some("it was the cache"), "it was done with before");
    dispose(None).await;
    assert_eq!(why().await, None);
}

async fn what_is_due(fixture: Fixture) {
    let store = &fixture.store;
    let (room, bob) = with_bob(store).await;
    let (first, second) = (given(store, room).await, given(store, room).await);
    let due = |now: i64| read(store, move |tx| obligations::due(tx, now, 10));
    let later = |event: EventId, at: Option<i64>| async move {
        let known = of(store, event, bob).await.unwrap();
        write(store, move |tx| obligations::put_off(tx, &Obligation { next_at: at, ..known.clone() })).await;
    };
    later(first, Some(NOW + 20)).await;
    later(second, Some(NOW + 10)).await;
    assert_eq!(due(NOW + 9).await, []);
    assert_eq!(due(NOW + 20).await, [(second, bob), (first, bob)]);
    assert_eq!(read(store, move |tx| obligations::load(tx, bob, 10)).await, (2, NOW));
    let known = of(store, second, bob).await.unwrap();
    write(store, move |tx| obligations::leave(tx, &known)).await;
    assert_eq!(due(NOW + 20).await, [(first, bob)]);
}

async fn a_claim_and_who_ever_held_it(fixture: Fixture) {
    let store = &fixture.store;
    let (room, bob) = with_bob(store).await;
    let (event, ada) = (given(store, room).await, agent(store, "ada").await.id);
    assert_eq!(read(store, move |tx| claims::of(tx, event)).await, None);
    let offered = Claim {
        event,
        conversation: room.id,
        first: Some(ada),
        offered_at: NOW,
        held: None,
        next_at: Some(NOW + 30),
    };
    let held = |holder: Principal, since, state| Held { holder, since, until: since + 5, state };
    let anna = account(store, "anna@x").await.into();
    let (ada, bob) = (ada.into(), bob.into());
    let steps = [
        offered,
        Claim { held: Some(held(ada, NOW + 1, ClaimState::Held)), next_at: Some(NOW + 6), ..offered },
        Claim { held: Some(held(ada, NOW + 1, ClaimState::Released)), next_at: None, ..offered },
        Claim {
            held: Some(held(bob, NOW + 8, ClaimState::Held)),
            first: None,
            next_at: Some(NOW + 13),
            ..offered
        },
        // A person and an agent are distinguished.
        Claim { held: Some(held(anna, NOW + 9, ClaimState::Held)), next_at: Some(NOW + 14), ..offered },
    ];
    for step in steps {
        write(store, move |tx| claims::put(tx, &step)).await;
        assert_eq!(read(store, move |tx| claims::of(tx, event)).await, Some(step));
    }
    let ever = read(store, move |tx| claims::holders(tx, event, 10)).await;
    let last = held(anna, NOW + 9, ClaimState::Held);
    assert_eq!(ever, [held(ada, NOW + 1, ClaimState::Released), held(bob, NOW + 8, ClaimState::Held), last]);
    assert_eq!(read(store, move |tx| claims::due(tx, NOW + 13, 10)).await, []);
    assert_eq!(read(store, move |tx| claims::due(tx, NOW + 14, 10)).await, [(event, room.id)]);
}

async fn who_has_a_role(fixture: Fixture) {
    let store = &fixture.store;
    let (room, bob) = with_bob(store).await;
    let (ada, acts) = (agent(store, "ada").await.id, act(room, room.owner));
    let new = Newcomer {
        principal: ada.into(),
        handle: Handle::Exactly("ada".into()),
        roles: vec!["Ops".into(), "on-call".into()],
        lead: true,
    };
    run(store, move |tx| conversation::add_member(tx, &acts, &new)).await.unwrap();
    let in_role = |role: &'static str| async move {
        let found = read(store, move |tx| members::in_role(tx, room.id, role, 10)).await;
        found.into_iter().map(|member| member.handle).collect::<Vec<_>>()
    };
    assert_eq!(
        (in_role("ops").await, in_role("OPS").await),
        (vec!["ada".to_owned()], vec!["ada".to_owned()])
    );
    assert_eq!(in_role("bob").await, [] as [&str; 0]);
    assert_eq!(read(store, move |tx| members::lead(tx, room.id)).await.unwrap().principal, ada.into());

    // A named role concerns its members; a handle of the same name takes precedence.
    let says = act(room, room.owner);
    let draft = run(store, move |tx| {
        let new = post_of("@ops @bob look", &["ops", "bob"], None);
        let draft = conversation::draft_message(tx, &says, &new)?;
        let candidates: Vec<_> =
            draft.candidates.iter().map(|one| (one.agent, one.named, one.in_named_role)).collect();
        Ok((candidates, draft.names_somebody, draft.mentions))
    });
    let (candidates, names, mentions) = draft.await.unwrap();
    assert_eq!(candidates, [(ada, false, true), (bob, true, false)]);
    assert_eq!((names, mentions.as_str()), (true, "role:ops agent:bob"));
    remove(store, room, "ada").await;
    assert_eq!(in_role("ops").await, [] as [&str; 0]);
}

async fn what_a_session_shows_and_what_it_is_sent_again(fixture: Fixture) {
    let store = &fixture.store;
    let (room, bob) = with_bob(store).await;
    let shows = || read(store, move |tx| inboxes::shows(tx, bob, NOW));
    let shows_away = || read(store, move |tx| inboxes::shows(tx, bob, NOW + 200));
    let open = |words: Option<&'static str>| {
        write(store, move |tx| {
            let session = fresh();
            inboxes::open(tx, bob, session, fresh(), NOW + 100)?;
            let Some(words) = words else { return Ok(()) };
            let (after, through) = inboxes::set_shows(tx, bob, session, words)?;
            inboxes::count_again(tx, bob, after, through)
        })
    };
    assert_eq!(shows().await, None);
    open(Some("notify buffered")).await;
    assert_eq!(shows().await.as_deref(), Some("notify buffered"));
    let (first, second) = (given(store, room).await, given(store, room).await);
    // The first was sent and not acknowledged.
    write(store, move |tx| inboxes::send_through(tx, bob, 1)).await;
    open(Some("notify")).await;
    let sent = async |event| of(store, event, bob).await.unwrap().sent;
    assert_eq!((sent(first).await, sent(second).await), (2, 1));
    assert_eq!(shows_away().await.as_deref(), Some("notify"), "it comes back as it went");
    write(store, move |tx| directory::set_connection(tx, bob, Some(b"sealed"), NOW)).await;
    assert_eq!(shows_away().await, None, "it is POSTed to, which shows no knocks");
    open(None).await;
    assert_eq!(shows().await, None, "what comes later shows only what it says");
}
