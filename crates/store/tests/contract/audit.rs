//! The audit log: entries are found by filter and page, and its size is bounded.

use crate::consent;
use crate::support::{Fixture, count, fresh, on_both, read, soon, write};
use chorus_protocol::ids::{AccountId, AgentId, AuditId, CredentialId, TraceId};
use chorus_store::accounts::{self, CredentialKind, NewCredential};
use chorus_store::audit::{self, Action, Actor, Entry, Filter, KEPT_MS, KEPT_WHOLE, Recorded, Subject};
use chorus_store::{Store, StoreError, Tx};
use uuid::{Builder, Uuid};

on_both![
    what_is_recorded_is_found,
    pages_and_filters,
    an_act_that_fails_leaves_nothing,
    one_actor_does_not_fill_it,
    nobody_hides_what_it_did,
    a_different_detail_is_no_repetition,
    rows_of_living_credentials_stay,
    what_is_old_is_forgotten_in_steps,
];

const NOW: i64 = 1_774_000_800_000;
const HOUR: i64 = 60 * 60 * 1000;
const ALL: &str = "SELECT COUNT(*) AS count FROM audit";

/// Returns the `n`th entry of its time.
fn entry(at: i64, n: u64, actor: Actor, action: Action, subject: Subject) -> Entry {
    let mut random = [0; 10];
    random[2..].copy_from_slice(&n.to_be_bytes());
    let id = AuditId(Builder::from_unix_timestamp_millis(at as u64, &random).into_uuid());
    let (detail, request_id, client) = (r#"{"name":"x"}"#.into(), "r-1".into(), "::1".into());
    let client_request_id = "mine".into();
    Entry { id, at, actor, action, subject, detail, request_id, client_request_id, client }
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
        client_request_id: "mine".into(),
        client: "::1".into(),
        repeats: 0,
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

/// Repetitions are counted: the first rows stay, and the rest of an hour is one row.
async fn one_actor_does_not_fill_it(fixture: Fixture) {
    let anna = Actor::Principal(AgentId(Uuid::from_u128(9)).into());
    let extra = 20;
    let hour = NOW - NOW.rem_euclid(HOUR);
    for (at, actor) in [(hour, anna), (hour + 1, Actor::Operator)] {
        let of = |n| entry(at, n, actor, Action::KeyRotated, Subject::Hub);
        record(&fixture.store, (0..KEPT_WHOLE as u64 + extra).map(of).collect()).await;
    }
    let filter = Filter { actor: Some(anna.id()), ..Filter::default() };
    let kept = list(&fixture.store, filter.clone(), None, 2 * KEPT_WHOLE).await;
    let of = |n| entry(hour, n, anna, Action::KeyRotated, Subject::Hub).id;
    let whole: Vec<_> = (0..KEPT_WHOLE as u64).rev().map(of).collect();
    assert_eq!(kept[1..].iter().map(|act| act.id).collect::<Vec<_>>(), whole, "none of the first is gone");
    assert!(kept[1..].iter().all(|act| act.repeats == 0));
    let last = of(KEPT_WHOLE as u64 + extra - 1);
    assert_eq!((kept[0].id, kept[0].repeats), (last, extra as i64 - 1));
    assert_eq!(
        count(&fixture.store, ALL).await,
        2 * KEPT_WHOLE + 1 + extra as i64,
        "the operator's are all there"
    );
    // Another hour has its own row.
    let later = |n| entry(hour + HOUR, n, anna, Action::KeyRotated, Subject::Hub);
    record(&fixture.store, (0..3).map(later).collect()).await;
    let newest = list(&fixture.store, filter, None, 2).await;
    assert_eq!(
        newest.iter().map(|act| (act.id, act.repeats)).collect::<Vec<_>>(),
        [(later(2).id, 2), (last, extra as i64 - 1)]
    );
}

/// A thief with an agent's key repeats a harmless act very often.
async fn nobody_hides_what_it_did(fixture: Fixture) {
    let thief = Actor::Principal(AgentId(Uuid::from_u128(9)).into());
    let hour = NOW - NOW.rem_euclid(HOUR);
    let taken = entry(hour, 1, thief, Action::KeyRotated, Subject::Hub);
    let noise = |n| entry(hour + 1, n, thief, Action::WebhookSecretRotated, Subject::Hub);
    record(&fixture.store, std::iter::once(taken.clone()).chain((0..1001).map(noise)).collect()).await;
    let filter = Filter { actor: Some(thief.id()), ..Filter::default() };
    let kept = list(&fixture.store, filter, None, 2000).await;
    assert_eq!(kept.len() as i64, KEPT_WHOLE + 2);
    assert_eq!(kept.last().unwrap().id, taken.id);
    assert_eq!(kept.iter().map(|act| 1 + act.repeats).sum::<i64>(), 1002, "each is counted");
}

/// A thief sets an endpoint among many harmless repetitions of the same act, and sets it back.
async fn a_different_detail_is_no_repetition(fixture: Fixture) {
    let thief = Actor::Principal(AgentId(Uuid::from_u128(9)).into());
    let hour = NOW - NOW.rem_euclid(HOUR);
    let rotated = |n| entry(hour, n, thief, Action::KeyRotated, Subject::Hub);
    let whole = KEPT_WHOLE as u64;
    let evil = Entry { detail: r#"{"endpoint":"evil.example"}"#.into(), ..rotated(whole) };
    let elsewhere = Entry { client: "203.0.113.9".into(), ..rotated(whole + 1) };
    let before = (0..whole).map(rotated);
    let after = (whole + 2..whole + 102).map(rotated);
    let entries = before.chain([evil.clone(), elsewhere.clone()]).chain(after).collect();
    record(&fixture.store, entries).await;
    let filter = Filter { actor: Some(thief.id()), ..Filter::default() };
    let kept = list(&fixture.store, filter, None, 2000).await;
    assert_eq!(kept.len() as u64, whole + 3);
    for different in [evil, elsewhere] {
        assert!(kept.iter().any(|act| act.id == different.id && act.repeats == 0), "{}", different.detail);
    }
}

/// Rows of live credentials stay, however often an account creates and revokes tokens.
async fn rows_of_living_credentials_stay(fixture: Fixture) {
    let store = &fixture.store;
    let anna = consent::account(store, "anna@example.org").await;
    let (actor, hour) = (Actor::Principal(anna.into()), NOW - NOW.rem_euclid(HOUR));
    let mut living = vec![];
    for n in 0..600 {
        let id = CredentialId(fresh());
        let made = entry(hour, n, actor, Action::TokenMade, Subject::Credential(id));
        let lives = n % 150 == 7;
        if lives {
            living.push(made.id);
        }
        let token = NewCredential {
            id,
            hash: std::array::from_fn(|place| (n >> (8 * (place % 8))) as u8),
            kind: CredentialKind::Token,
            account: Some(anna),
            email: None,
            label: None,
            sign_up_code: None,
            expires_at: None,
            trace: TraceId(fresh()),
            now: NOW,
        };
        write(store, move |tx| {
            accounts::issue(tx, &token)?;
            audit::record(tx, &made)?;
            if !lives {
                assert!(accounts::revoke(tx, anna, CredentialKind::Token, id)?);
            }
            Ok(())
        })
        .await;
    }
    let filter = Filter { action: Some(Action::TokenMade), ..Filter::default() };
    let kept = list(store, filter, None, 1000).await;
    let ids: Vec<_> = kept.iter().map(|act| act.id).collect();
    assert!(living.iter().all(|id| ids.contains(id)), "{} of {}", kept.len(), living.len());
    assert!(kept.len() as i64 <= KEPT_WHOLE + 4, "{}", kept.len());
    assert_eq!(kept.iter().map(|act| 1 + act.repeats).sum::<i64>(), 600);
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
