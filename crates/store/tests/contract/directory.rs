//! The directory and registration.

use crate::support::{
    Fixture, NODE, NOW, agent, deliver, entries, fresh, key, message, on_both, read, record, send, soon,
    webhook, write,
};
use chorus_protocol::ids::{AgentId, TraceId};
use chorus_protocol::relay::Named;
use chorus_store::directory::{self, Agent, Found, Record, Search};
use chorus_store::relay::{self, RegisterError, Registered, Registrar, Registration, SendError};
use chorus_store::{Store, Tx, access, inboxes};
use tokio::task::JoinSet;

on_both![
    an_agent_is_found_by_name_id_and_key,
    a_proof_is_of_one_endpoint,
    an_update_replaces_the_record_and_keeps_the_id,
    an_update_replaces_the_key_only_if_one_is_given,
    a_deleted_name_is_free_and_inherits_nothing,
    pages_are_in_order_without_gaps,
    a_taken_name_needs_its_own_key,
    the_own_key_rotates_and_disconnects,
    the_operator_updates_and_keeps_the_key,
    one_name_is_registered_once_at_a_time,
    one_key_rotates_once,
];

/// Returns a page without filters.
async fn page(store: &Store, after: &str, limit: i64) -> Found {
    let after = after.to_owned();
    read(store, move |tx| directory::search(tx, &Search::default(), NOW, &after, limit, usize::MAX)).await
}

async fn by_name(store: &Store, name: &'static str) -> Option<Agent> {
    read(store, move |tx| directory::by_name(tx, name)).await
}

async fn by_key(store: &Store, word: &'static str) -> Option<Agent> {
    read(store, move |tx| directory::by_key(tx, &key(word))).await
}

async fn an_agent_is_found_by_name_id_and_key(fixture: Fixture) {
    let store = &fixture.store;
    let record = Record {
        name: "Anna-9".into(),
        endpoint: Some("https://a.example/".into()),
        card: Some("{}".into()),
    };
    let insert =
        move |tx: &mut dyn Tx| directory::insert(tx, AgentId(NODE), &record, &key("k"), TraceId(NODE), NOW);
    let anna = write(store, insert).await;
    agent(store, "bob").await;
    assert_eq!(anna.name, "Anna-9");
    assert_eq!((anna.registered_at, anna.updated_at, anna.open_until), (NOW, NOW, 0));
    for name in ["Anna-9", "anna-9", "ANNA-9"] {
        assert_eq!(by_name(store, name).await, Some(anna.clone()));
    }
    let id = anna.id;
    assert_eq!(read(store, move |tx| directory::by_id(tx, id)).await, Some(anna.clone()));
    assert_eq!(by_key(store, "k").await, Some(anna));
    assert_eq!(by_name(store, "anna").await, None);
    assert_eq!(by_key(store, "K").await, None);
    assert_eq!(read(store, |tx| directory::by_id(tx, AgentId(fresh()))).await, None);
    assert_eq!(read(store, directory::count).await, 2);
}

async fn a_proof_is_of_one_endpoint(fixture: Fixture) {
    let store = &fixture.store;
    let bob = webhook(store, "bob").await;
    let endpoint = bob.endpoint.clone().unwrap();
    let prove = async |endpoint: &str| {
        let (id, endpoint) = (bob.id, endpoint.to_owned());
        write(store, move |tx: &mut dyn Tx| directory::prove_endpoint(tx, id, &endpoint)).await
    };
    assert!(!bob.proven && !prove("https://other.example/").await);
    assert!(!by_name(store, "bob").await.unwrap().proven);
    assert!(prove(&endpoint).await);
    let bob = by_name(store, "bob").await.unwrap();
    assert!(bob.proven);
    for (now, proven) in
        [(Some(endpoint.as_str()), true), (Some("https://other.example/"), false), (None, false)]
    {
        let record = Record { name: "bob".into(), endpoint: now.map(Into::into), card: None };
        let before = by_name(store, "bob").await.unwrap();
        let update = move |tx: &mut dyn Tx| directory::update(tx, before.clone(), &record, None, NOW);
        assert_eq!(write(store, update).await.proven, proven, "{now:?}");
        assert_eq!(by_name(store, "bob").await.unwrap().proven, proven, "{now:?}");
    }
}

async fn an_update_replaces_the_record_and_keeps_the_id(fixture: Fixture) {
    let store = &fixture.store;
    let anna = agent(store, "anna").await;
    let changes =
        [(Some("https://a.example/"), Some("{}")), (Some("https://b.example/"), None), (None, None)];
    for (n, (endpoint, card)) in (1..).zip(changes) {
        let (before, later) = (anna.clone(), NOW + n);
        let record =
            Record { name: "ANNA".into(), endpoint: endpoint.map(Into::into), card: card.map(Into::into) };
        let update = move |tx: &mut dyn Tx| directory::update(tx, before.clone(), &record, None, later);
        let updated = write(store, update).await;
        assert_eq!((updated.id, updated.registered_at, updated.updated_at), (anna.id, NOW, later));
        assert_eq!((updated.endpoint.as_deref(), updated.card.as_deref()), (endpoint, card));
        assert_eq!(by_name(store, "anna").await, Some(updated), "what is stored is what was returned");
    }
}

async fn an_update_replaces_the_key_only_if_one_is_given(fixture: Fixture) {
    let store = &fixture.store;
    let anna = agent(store, "anna").await;
    let update = |word: Option<&'static str>| {
        let anna = anna.clone();
        move |tx: &mut dyn Tx| {
            let hash = word.map(key);
            directory::update(tx, anna.clone(), &record("anna", None), hash.as_ref(), NOW)
        }
    };
    write(store, update(None)).await;
    assert!(by_key(store, "anna").await.is_some());
    write(store, update(Some("new"))).await;
    assert_eq!(by_key(store, "anna").await, None);
    assert_eq!(by_key(store, "new").await.unwrap().id, anna.id);
}

async fn a_deleted_name_is_free_and_inherits_nothing(fixture: Fixture) {
    let store = &fixture.store;
    let (first, bob) = (agent(store, "anna").await, agent(store, "bob").await);
    send(store, message(&bob, &first)).await.unwrap();
    let old = first.id;
    write(store, move |tx| {
        inboxes::open(tx, old, fresh(), NODE, NOW + 9)?;
        inboxes::hand_through(tx, old, 1, 0)?;
        access::delete_agent(tx, old, NOW, &fresh)
    })
    .await;
    assert_eq!(by_name(store, "anna").await, None);
    assert_eq!(by_key(store, "anna").await, None);
    assert_eq!(read(store, move |tx| directory::by_id(tx, old)).await, None);
    assert_eq!(read(store, |tx| inboxes::on_node(tx, NODE)).await, [], "its inbox is closed");
    assert_eq!(read(store, directory::count).await, 1);
    assert_eq!(page(store, "", 9).await.agents.len(), 1);
    assert!(matches!(send(store, message(&bob, &first)).await, Err(SendError::ReceiverNotFound)));

    // The same key can be used again.
    let second = agent(store, "Anna").await;
    assert_ne!(second.id, first.id);
    assert_eq!(second.open_until, 0);
    assert_eq!(entries(store, second.id).await, []);
    let id = second.id;
    let opened = write(store, move |tx| inboxes::open(tx, id, fresh(), NODE, NOW)).await.unwrap();
    // The inbox numbers continue: a cursor of the former agent must not skip anything here.
    assert_eq!((opened.handed_through, opened.oldest, opened.head), (1, 2, 1));
    assert_eq!(deliver(store, message(&bob, &second)).await.0, 2);
    write(store, move |tx| access::delete_agent(tx, id, NOW, &fresh)).await;
    let third = agent(store, "ANNA").await;
    assert_eq!(deliver(store, message(&bob, &third)).await.0, 3);
}

/// Returns names whose order depends on the collation: punctuation, digits, letters of both cases.
fn awkward_names() -> Vec<String> {
    let heads = ["a", "B", "a-", "A_", "a.", "0", "9-", "z", "Z.", "b-B"];
    let names = (0..250).map(|n: usize| {
        let tail = ["x", "-1", "_2", ".3", "Y"][n / 10 % 5];
        format!("{}{}{tail}", heads[n % 10], n / 50)
    });
    names.collect()
}

pub(crate) async fn pages_are_in_order_without_gaps(fixture: Fixture) {
    let store = &fixture.store;
    let mut names = awkward_names();
    let new = names.clone();
    write(store, move |tx| {
        for name in &new {
            let id = AgentId(fresh());
            directory::insert(tx, id, &record(name, None), &key(name), TraceId(id.0), NOW)?;
        }
        Ok(())
    })
    .await;
    let (mut listed, mut after) = (vec![], String::new());
    loop {
        let page = page(store, &after, 7).await;
        listed.extend(page.agents.into_iter().map(|agent| agent.name));
        let Some(next) = page.next else { break };
        // The letter case of the cursor does not matter.
        after = next.to_uppercase();
    }
    names.sort_by_key(|name| name.to_lowercase());
    assert_eq!(listed, names);
}

fn registration(name: &str, registrar: Registrar, new_key: &str) -> Registration {
    let id = AgentId(fresh());
    Registration {
        record: record(name, None),
        names: Named { endpoint: true, card: true },
        registrar,
        id,
        key: key(new_key),
        trace: TraceId(id.0),
        now: NOW,
    }
}

async fn register(store: &Store, new: Registration) -> Result<Registered, RegisterError> {
    soon(store.write(move |tx: &mut dyn Tx| relay::register(tx, &new))).await
}

async fn a_taken_name_needs_its_own_key(fixture: Fixture) {
    let store = &fixture.store;
    let anna = register(store, registration("Anna", Registrar::Itself(None), "ka")).await.unwrap();
    assert!(anna.created && anna.keyed);
    // Another agent's key, sent for a free name, does no harm.
    let bob = registration("bob", Registrar::Itself(Some(key("ka"))), "kb");
    assert!(register(store, bob).await.unwrap().created);
    for shown in [None, Some(key("kb")), Some(key("nobody's"))] {
        let refused = register(store, registration("anna", Registrar::Itself(shown), "x")).await;
        assert!(matches!(refused, Err(RegisterError::Taken)), "{refused:?}");
    }
    assert_eq!(by_key(store, "ka").await, Some(anna.agent));
    assert_eq!(by_key(store, "x").await, None);
}

async fn the_own_key_rotates_and_disconnects(fixture: Fixture) {
    let store = &fixture.store;
    let anna = agent(store, "anna").await;
    let id = anna.id;
    write(store, move |tx| inboxes::open(tx, id, fresh(), NODE, NOW + 9)).await;
    let shown = Registrar::Itself(Some(key("anna")));
    let again = register(store, registration("ANNA", shown, "new")).await.unwrap();
    assert!(!again.created && again.keyed);
    assert_eq!(again.agent.id, anna.id);
    assert_eq!(read(store, |tx| inboxes::on_node(tx, NODE)).await, []);
    assert_eq!(by_key(store, "anna").await, None);
    assert_eq!(by_key(store, "new").await.unwrap().id, anna.id);
}

async fn the_operator_updates_and_keeps_the_key(fixture: Fixture) {
    let store = &fixture.store;
    let new = register(store, registration("anna", Registrar::Operator, "ka")).await.unwrap();
    assert!(new.created && new.keyed);
    let id = new.agent.id;
    write(store, move |tx| inboxes::open(tx, id, fresh(), NODE, NOW + 9)).await;
    let mut change = registration("anna", Registrar::Operator, "x");
    change.record.endpoint = Some("https://a.example/".into());
    let changed = register(store, change).await.unwrap();
    assert!(!changed.created && !changed.keyed);
    assert_eq!(by_key(store, "x").await, None);
    let found = by_key(store, "ka").await.unwrap();
    assert_eq!((found.id, found.endpoint.as_deref()), (id, Some("https://a.example/")));
    assert_eq!(found.open_until, NOW + 9, "the inbox stays open");
}

/// Registers all concurrently. Returns the number of successes; all others must be refused.
async fn race(store: &Store, registrations: impl Iterator<Item = Registration>) -> usize {
    let mut tasks = JoinSet::new();
    for new in registrations {
        let store = store.clone();
        tasks.spawn(async move { register(&store, new).await });
    }
    let results = soon(tasks.join_all()).await;
    for result in &results {
        assert!(matches!(result, Ok(_) | Err(RegisterError::Taken)), "{result:?}");
    }
    results.iter().filter(|result| result.is_ok()).count()
}

async fn one_name_is_registered_once_at_a_time(fixture: Fixture) {
    for round in 0..5 {
        let new = (0..12).map(|n| {
            registration(&format!("anna-{round}"), Registrar::Itself(None), &format!("{round}-{n}"))
        });
        assert_eq!(race(&fixture.store, new).await, 1);
    }
    assert_eq!(read(&fixture.store, directory::count).await, 5);
}

/// A key that was just replaced is refused, even a moment later; every issued key works.
async fn one_key_rotates_once(fixture: Fixture) {
    agent(&fixture.store, "anna").await;
    let mut current = "anna".to_owned();
    for round in 0..10 {
        let shown = key(&current);
        let new =
            (0..6).map(|n| registration("anna", Registrar::Itself(Some(shown)), &format!("{round}-{n}")));
        assert_eq!(race(&fixture.store, new).await, 1);
        let holder = read(&fixture.store, move |tx| {
            for n in 0..6 {
                let word = format!("{round}-{n}");
                if directory::by_key(tx, &key(&word))?.is_some() {
                    return Ok(Some(word));
                }
            }
            Ok(None)
        });
        current = holder.await.expect("one of the new keys works");
    }
}
