//! Who calls: one enum for every kind of principal, and the way from a bearer key to it.
//!
//! Keys are compared by their SHA-256. What a key means is cached for a second at most, whatever is done to the clock; a
//! changed key is dropped from the cache at once, on every node, because the store tells of it like of any commit.

use crate::app::App;
use crate::error::Error;
use chorus_protocol::ids::{AccountId, AgentId, Principal};
use chorus_protocol::relay::Code;
use chorus_store::accounts::{self, CredentialKind};
use chorus_store::audit::Actor;
use chorus_store::directory::{self, KeyHash};
use chorus_store::{StoreError, Tx, inboxes};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use subtle::ConstantTimeEq;
use uuid::Uuid;

/// How long another node's change may go unnoticed.
const MAX_AGE_MS: i64 = 1000;
/// A sign of life is written so often at most.
const SEEN_EVERY_MS: i64 = 60_000;
/// The most keys remembered; past it the cache starts anew.
const MAX_KEYS: usize = 20_000;

/// A principal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    /// One agent, by its key.
    Agent(Identity),
    /// One person, by a token or a browser's session.
    Account(Person),
    /// The operator.
    Operator,
    /// No key was shown.
    Nobody,
}

/// Which agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub id: AgentId,
    pub name: String,
}

/// Which person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    pub id: AccountId,
    pub name: String,
    pub email: String,
}

impl Caller {
    /// Whoever can speak in conversations, or the reason why this one cannot.
    pub fn principal(&self) -> Result<Principal, Error> {
        match self {
            Self::Agent(identity) => Ok(identity.id.into()),
            Self::Account(person) => Ok(person.id.into()),
            Self::Operator => Err(Error::new(
                Code::Forbidden,
                "the operator is in no conversation; use an account's token or an agent's key",
            )),
            Self::Nobody => Err(Error::unauthorized(
                "this needs an account's token or an agent's key: Authorization: Bearer ct_… or ca_…",
            )),
        }
    }

    /// The person, or the reason why this is none.
    pub fn person(&self) -> Result<&Person, Error> {
        match self {
            Self::Account(person) => Ok(person),
            Self::Nobody => Err(Error::unauthorized("this needs an account: sign in, or show a token ct_…")),
            Self::Agent(_) | Self::Operator => {
                Err(Error::new(Code::Forbidden, "this is for people's accounts only"))
            }
        }
    }

    /// Whether this is the operator, or the reason why it must be.
    pub fn operator(&self) -> Result<(), Error> {
        match self {
            Self::Operator => Ok(()),
            Self::Nobody => {
                Err(Error::unauthorized("this needs the operator's key: Authorization: Bearer co_…"))
            }
            Self::Agent(_) | Self::Account(_) => {
                Err(Error::new(Code::Forbidden, "this is the operator's only"))
            }
        }
    }

    /// The agent, or the reason why this is none.
    pub fn agent(&self) -> Result<&Identity, Error> {
        match self {
            Self::Agent(identity) => Ok(identity),
            Self::Operator | Self::Account(_) => Err(Error::new(
                Code::Forbidden,
                "this needs an agent's own key, not the operator's or an account's",
            )),
            Self::Nobody => Err(Error::unauthorized("this needs an agent's key: Authorization: Bearer ca_…")),
        }
    }

    /// Whether any valid key was shown, or the reason why one must be.
    pub fn known(&self) -> Result<(), Error> {
        if self.is_known() {
            return Ok(());
        }
        Err(Error::unauthorized(
            "this needs an account's token or an agent's key: Authorization: Bearer ct_… or ca_…",
        ))
    }

    /// Whether any valid key was shown.
    pub fn is_known(&self) -> bool {
        *self != Self::Nobody
    }

    /// Whoever it is, if it is an agent or a person.
    pub fn id(&self) -> Option<Principal> {
        match self {
            Self::Agent(identity) => Some(identity.id.into()),
            Self::Account(person) => Some(person.id.into()),
            Self::Operator | Self::Nobody => None,
        }
    }

    /// Who it is for the audit log.
    pub fn actor(&self) -> Actor {
        let other = if *self == Self::Operator { Actor::Operator } else { Actor::Nobody };
        self.id().map_or(other, Actor::Principal)
    }

    /// Its kind, for the log.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Agent(_) => "agent",
            Self::Account(_) => "account",
            Self::Operator => "operator",
            Self::Nobody => "nobody",
        }
    }
}

/// The hash under which a key is known.
pub fn key_hash(key: &str) -> KeyHash {
    Sha256::digest(key.as_bytes()).into()
}

/// The hash of the operator's key as it is stored: hex.
pub fn operator_key_hash(key: &str) -> String {
    data_encoding::HEXLOWER.encode(&key_hash(key))
}

/// Whether this is the operator's key.
pub fn is_operator(app: &App, key: &KeyHash) -> bool {
    key.as_slice().ct_eq(app.config.operator_key.as_slice()).into()
}

/// What a request shows of its caller.
#[derive(Debug, Clone, Copy)]
pub struct Shown {
    /// The hash of the secret.
    pub hash: KeyHash,
    way: Way,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Way {
    /// A bearer key: an agent's, a token or the operator's.
    Bearer,
    /// A browser's cookie.
    Session,
}

impl Shown {
    /// A bearer key.
    pub fn key(key: &str) -> Self {
        Self { hash: key_hash(key), way: Way::Bearer }
    }

    /// A browser's session.
    pub fn session(secret: &str) -> Self {
        Self { hash: key_hash(secret), way: Way::Session }
    }

    /// Whether it is a browser's session.
    pub fn is_session(&self) -> bool {
        self.way == Way::Session
    }
}

/// The person whose browser shows this, for pages that everybody may see.
pub async fn of_browser(app: &App, shown: &Shown) -> Result<Option<Person>, Error> {
    let caller = match app.callers.recall(app, shown) {
        Recalled::Fresh(caller) => caller,
        Recalled::Stale | Recalled::Never => match app.callers.look_up(app, shown, app.now()).await {
            Err(error) if matches!(error.code, Code::Unauthorized | Code::Forbidden) => return Ok(None),
            found => found?,
        },
    };
    Ok(caller.person().ok().cloned())
}

/// Somebody shows a right secret, and is kept out all the same. Whoever shows a wrong one learns nothing of it.
pub fn disabled(who: &str) -> Error {
    Error::new(Code::Forbidden, format_args!("this {who} is disabled; ask the operator of this hub"))
}

/// Whether this is the key of this agent, and good.
pub async fn is_key_of(app: &App, key: KeyHash, agent: AgentId) -> Result<bool, StoreError> {
    let find = move |tx: &mut dyn Tx| directory::by_key(tx, &key);
    let found = app.store.read::<_, StoreError, _>(find).await?;
    Ok(found.is_some_and(|found| found.id == agent && found.disabled_at.is_none()))
}

/// Notes a sign of life of an agent. Nobody waits for it, and one that is lost is made up for by the next.
fn note_seen(app: &App, agent: AgentId, now: i64) {
    let store = app.store.clone();
    app.tasks.spawn(async move {
        let seen = store.write::<_, StoreError, _>(move |tx: &mut dyn Tx| inboxes::seen(tx, agent, now));
        if let Err(error) = seen.await {
            tracing::debug!(error = &error as &dyn std::error::Error, "a sign of life was not noted");
        }
    });
}

/// What is remembered of a key.
pub enum Recalled {
    /// This is what it means.
    Fresh(Caller),
    /// It was valid, but so long ago that the store must be asked again.
    Stale,
    /// Nothing.
    Never,
}

/// What keys meant a moment ago.
#[derive(Default)]
pub struct Callers {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    known: HashMap<(KeyHash, Way), (Caller, i64)>,
    /// Counts the changes, so that a look-up that began before one is not remembered after it.
    changes: u64,
}

impl Callers {
    /// What is remembered of this key.
    pub fn recall(&self, app: &App, shown: &Shown) -> Recalled {
        if !shown.is_session() && is_operator(app, &shown.hash) {
            return Recalled::Fresh(Caller::Operator);
        }
        match self.state().known.get(&(shown.hash, shown.way)) {
            Some((caller, seen)) if app.elapsed() - seen < MAX_AGE_MS => Recalled::Fresh(caller.clone()),
            Some(_) => Recalled::Stale,
            None => Recalled::Never,
        }
    }

    /// What this key means, from the store.
    pub async fn look_up(&self, app: &App, shown: &Shown, now: i64) -> Result<Caller, Error> {
        let (changes, begun) = (self.state().changes, app.elapsed());
        let Shown { hash, way } = *shown;
        let find = move |tx: &mut dyn Tx| {
            let kind = match way {
                Way::Bearer => CredentialKind::Token,
                Way::Session => CredentialKind::Session,
            };
            if way == Way::Bearer
                && let Some(agent) = directory::by_key(tx, &hash)?
            {
                if agent.disabled_at.is_some() {
                    return Err(disabled("agent"));
                }
                // Either way: the clock may have been set back.
                let is_news = (now - agent.seen_at).abs() >= SEEN_EVERY_MS;
                return Ok(Some((Caller::Agent(Identity { id: agent.id, name: agent.name }), is_news)));
            }
            let account = accounts::by_credential(tx, kind, &hash, now)?;
            if account.as_ref().is_some_and(|account| account.disabled_at.is_some()) {
                return Err(disabled("account"));
            }
            Ok(account.map(|account| {
                let person = Person { id: account.id, name: account.name, email: account.email };
                (Caller::Account(person), false)
            }))
        };
        let found = app.store.authenticate::<_, Error, _>(find).await?;
        let (caller, is_news) =
            found.ok_or_else(|| Error::unauthorized("this key is not valid (any more)"))?;
        if let Caller::Agent(identity) = &caller
            && is_news
        {
            note_seen(app, identity.id, now);
        }
        let mut state = self.state();
        if state.changes == changes {
            if state.known.len() >= MAX_KEYS {
                state.known.clear();
            }
            state.known.insert((hash, way), (caller.clone(), begun));
        }
        Ok(caller)
    }

    /// A key changed: nothing known of the agent or account of this id holds any more.
    pub fn forget(&self, who: Uuid) {
        let mut state = self.state();
        state.changes += 1;
        state.known.retain(|_, (caller, _)| caller.id().map(Principal::uuid) != Some(who));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
