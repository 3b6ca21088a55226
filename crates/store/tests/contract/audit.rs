//! Who did what to whom: what is recorded is found, in pages and by what is asked, and the log has an end.

use crate::support::{Fixture, count, fresh, on_both, read, soon, write};
use chorus_protocol::ids::{AccountId, AgentId, AuditId};
use chorus_store::audit::{self, Action, Actor, Entry, Filter, KEPT_MS, MOST_OF_ONE, Recorded, Subject};
use chorus_store::{Store, StoreError, Tx};
use uuid::{Builder, Uuid};

on_both![
    what_is_recorded_is_found,
    pages_and_filters,
    an_act_that_fails_leaves_nothing,
    one_actor_does_not_fill_it,
    nobody_hides_what_it_did,
    what_is_old_is_forgotten_in_steps,
];

const NOW: i64 = 1_774_000_800_000;
const ALL: &str = "SELECT COUNT(*) FROM audit";

/// The `n`th entry of its time.
fn entry(at: i64, n: u64, actor: Actor, action: Action, subject: Subject) -> Entry {
    let mut random = [0; 10];
    random[2..].copy_from_slice(&n.to_be_bytes());
    let id = AuditId(Builder::from_unix_timestamp_millis(at as u64, &random).into_uuid());
    let (detail, request_id, client) = (r#"{"name":"x"}"#.into(), "r-1".into(), "::1".into());
    Entry { id, at, actor, action, subject, detail, request_id, client }
}

async fn record(store: &Store, entries: Vec<Entry>) {
    write(store, move |tx| entries.iter().try_for_each(|entry| audit::record(tx, entry))).await;
}

async fn list(store: &Store, filter: Filter, before: Option<AuditId>, limit: i64) -> Vec<Recorded> {
    read(store, move |tx| audit::list(tx, &filter, before, limit)).await
}

async fn what_is_recorded_is_found(fixture: Fixture) {
    let (anna, bob) = (AccountId(fresh()), AgentId(fresh()));
    let new = entry(NOW, 1, Actor::Principal(anna.into()), Action::KeyReset, Subject::Agent(bob));
    record(&fixture.store, vec![new.clone()]).await;
    let expected = Recorded {
        id: new.id,
        at: NOW,
        actor: ("account".into(), anna.to_string()),
        action: Action::KeyReset,
        subject: ("agent".into(), bob.to_string()),
        detail: r#"{"name":"x"}"#.into(),
        request_id: "r-1".into(),
        client: "::1".into(),
    };
    assert_eq!(list(&fixture.store, Filter::default(), None, 10).await, [expected]);
    for (action, subject, since, done) in [
        (Action::KeyReset, Subject::Agent(bob), NOW, true),
        (Action::KeyReset, Subject::Agent(bob), NOW + 1, false),
        (Action::KeyRotated, Subject::Agent(bob), NOW, false),
        (Action::KeyReset, Subject::Account(anna), NOW, false),
    ] {
        let was = read(&fixture.store, move |tx| audit::was_done(tx, action, subject, since)).await;
        assert_eq!(was, done, "{action:?} {subject:?} {since}");
    }
}

async fn pages_and_filters(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob) = (AgentId(fresh()), AgentId(fresh()));
    let actors = [Actor::Operator, Actor::Nobody, Actor::Principal(anna.into())];
    let actions = [Action::KeyReset, Action::AgentDisabled];
    let mut entries = vec![];
    for n in 0..60 {
        let at = NOW + n / 3;
        let subject = if n % 5 == 0 { Subject::Hub } else { Subject::Agent(bob) };
        entries.push(entry(at, n as u64, actors[n as usize % 3], actions[n as usize % 2], subject));
    }
    record(store, entries.clone()).await;
    entries.reverse();
    let ids = |found: &[Recorded]| found.iter().map(|act| act.id).collect::<Vec<_>>();
    for actor in [None, Some("operator".to_owned()), Some(anna.to_string()), Some("x".into())] {
        for action in [None, Some(Action::KeyReset)] {
            for subject in [None, Some(bob.to_string()), Some("hub".to_owned())] {
                for since in [0, NOW + 7] {
                    let filter = Filter { actor: actor.clone(), action, subject: subject.clone(), since };
                    let fits = |entry: &&Entry| {
                        filter.actor.as_ref().is_none_or(|actor| *actor == entry.actor.id())
                            && action.is_none_or(|action| action == entry.action)
                            && filter.subject.as_ref().is_none_or(|subject| *subject == entry.subject.id())
                            && entry.at >= since
                    };
                    let expected: Vec<_> = entries.iter().filter(fits).map(|entry| entry.id).collect();
                    let mut found = vec![];
                    loop {
                        let page = list(store, filter.clone(), found.last().copied(), 7).await;
                        found.extend(ids(&page));
                        if page.len() < 7 {
                            break;
                        }
                    }
                    assert_eq!(found, expected, "{filter:?}");
                }
            }
        }
    }
}

async fn an_act_that_fails_leaves_nothing(fixture: Fixture) {
    let new = entry(NOW, 1, Actor::Operator, Action::KeyReset, Subject::Hub);
    let failed = fixture.store.write(move |tx: &mut dyn Tx| {
        audit::record(tx, &new)?;
        Err::<(), _>(StoreError::Closed)
    });
    soon(failed).await.unwrap_err();
    assert_eq!(count(&fixture.store, ALL).await, 0);
}

async fn one_actor_does_not_fill_it(fixture: Fixture) {
    let anna = Actor::Principal(AgentId(Uuid::from_u128(9)).into());
    let extra = 20;
    for (at, actor) in [(NOW, anna), (NOW + 1, Actor::Operator)] {
        let of = |n| entry(at, n, actor, Action::KeyRotated, Subject::Hub);
        record(&fixture.store, (0..MOST_OF_ONE as u64 + extra).map(of).collect()).await;
    }
    let filter = Filter { actor: Some(anna.id()), ..Filter::default() };
    let kept = list(&fixture.store, filter, None, 2 * MOST_OF_ONE).await;
    assert_eq!(kept.len() as i64, MOST_OF_ONE + 1);
    let of = |n| entry(NOW, n, anna, Action::KeyRotated, Subject::Hub).id;
    assert_eq!((kept[kept.len() - 2].id, kept[kept.len() - 1].id), (of(extra), of(0)), "and the first");
    assert_eq!(
        count(&fixture.store, ALL).await,
        2 * MOST_OF_ONE + 1 + extra as i64,
        "the operator's are all there"
    );
}

/// A thief that took an agent's key does something harmless very often.
async fn nobody_hides_what_it_did(fixture: Fixture) {
    let thief = Actor::Principal(AgentId(Uuid::from_u128(9)).into());
    let taken = entry(NOW, 1, thief, Action::KeyRotated, Subject::Hub);
    let noise = |n| entry(NOW + 1, n, thief, Action::WebhookSecretRotated, Subject::Hub);
    record(&fixture.store, std::iter::once(taken.clone()).chain((0..1001).map(noise)).collect()).await;
    let filter = Filter { actor: Some(thief.id()), ..Filter::default() };
    let kept = list(&fixture.store, filter, None, 2000).await;
    assert_eq!(kept.len() as i64, MOST_OF_ONE + 2);
    assert_eq!(kept.last().unwrap().id, taken.id);
}

async fn what_is_old_is_forgotten_in_steps(fixture: Fixture) {
    let of = |at| entry(at, at as u64, Actor::Operator, Action::KeyReset, Subject::Hub);
    record(&fixture.store, (0..5).map(|n| of(NOW + n)).collect()).await;
    let remove = |now| read_write(&fixture.store, now);
    assert_eq!(remove(NOW + KEPT_MS).await, 0);
    assert_eq!(remove(NOW + KEPT_MS + 4).await, 2);
    assert_eq!(remove(NOW + KEPT_MS + 4).await, 2);
    assert_eq!(remove(NOW + KEPT_MS + 4).await, 0);
    assert_eq!(count(&fixture.store, ALL).await, 1);
}

async fn read_write(store: &Store, now: i64) -> u64 {
    write(store, move |tx| audit::remove_old(tx, now, 2)).await
}
