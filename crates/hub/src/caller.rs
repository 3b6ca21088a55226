//! Who calls: one enum for every kind of principal, and the way from a bearer key to it.
//!
//! Keys are compared by their SHA-256. What a key means is cached for a second at most; on this node a changed key is
//! dropped from the cache at once.

use crate::app::App;
use crate::error::ApiError;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use chorus_protocol::ids::AgentId;
use chorus_protocol::relay::Code;
use chorus_store::directory::{self, KeyHash};
use chorus_store::{StoreError, Tx};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use subtle::ConstantTimeEq;

/// How long another node's change may go unnoticed.
const MAX_AGE_MS: i64 = 1000;
/// The most keys remembered; past it the cache starts anew.
const MAX_KEYS: usize = 20_000;

/// A principal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Caller {
    /// One agent, by its key.
    Agent(Identity),
    /// The operator.
    Operator,
    /// No key was shown.
    Nobody,
}

/// Which agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) id: AgentId,
    pub(crate) name: String,
}

impl Caller {
    /// The agent, or the reason why this is none.
    pub(crate) fn agent(&self) -> Result<&Identity, ApiError> {
        match self {
            Self::Agent(identity) => Ok(identity),
            Self::Operator => {
                Err(ApiError::new(Code::Forbidden, "this needs an agent's own key, not the operator's"))
            }
            Self::Nobody => {
                Err(ApiError::unauthorized("this needs an agent's key: Authorization: Bearer ca_…"))
            }
        }
    }

    /// Whether any valid key was shown.
    pub(crate) fn is_known(&self) -> bool {
        *self != Self::Nobody
    }

    /// Its kind, for the log.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Agent(_) => "agent",
            Self::Operator => "operator",
            Self::Nobody => "nobody",
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    /// The `frame` found out who calls before any door was reached.
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        parts.extensions.get().cloned().ok_or_else(|| ApiError::internal("a request without a caller"))
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

/// The bearer key of a request, if there is one.
pub(crate) fn bearer(headers: &HeaderMap) -> Result<Option<&str>, ApiError> {
    const FORM: &str = "the Authorization header must be: Bearer KEY";
    let Some(value) = headers.get(header::AUTHORIZATION) else { return Ok(None) };
    let value = value.to_str().map_err(|_| ApiError::unauthorized(FORM))?;
    let (scheme, key) = value.split_once(' ').unwrap_or((value, ""));
    let key = key.trim();
    if !scheme.eq_ignore_ascii_case("bearer") || key.is_empty() {
        return Err(ApiError::unauthorized(FORM));
    }
    Ok(Some(key))
}

/// Whether this is the operator's key.
pub(crate) fn is_operator(app: &App, key: &KeyHash) -> bool {
    key.as_slice().ct_eq(app.config.operator_key.as_slice()).into()
}

/// What is remembered of a key.
pub(crate) enum Recalled {
    /// This is what it means.
    Fresh(Caller),
    /// It was valid, but so long ago that the store must be asked again.
    Stale,
    /// Nothing.
    Never,
}

/// What keys meant a moment ago.
#[derive(Default)]
pub(crate) struct Callers {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    known: HashMap<KeyHash, (Identity, i64)>,
    /// Counts the changes, so that a look-up that began before one is not remembered after it.
    changes: u64,
}

impl Callers {
    /// What is remembered of this key.
    pub(crate) fn recall(&self, app: &App, key: &KeyHash, now: i64) -> Recalled {
        if is_operator(app, key) {
            return Recalled::Fresh(Caller::Operator);
        }
        match self.state().known.get(key) {
            Some((identity, seen)) if now - seen < MAX_AGE_MS => {
                Recalled::Fresh(Caller::Agent(identity.clone()))
            }
            Some(_) => Recalled::Stale,
            None => Recalled::Never,
        }
    }

    /// What this key means, from the store.
    pub(crate) async fn look_up(&self, app: &App, key: KeyHash, now: i64) -> Result<Caller, ApiError> {
        let changes = self.state().changes;
        let find = move |tx: &mut dyn Tx| directory::by_key(tx, &key);
        let agent = app.store.read::<_, StoreError, _>(find).await?;
        let agent = agent.ok_or_else(|| ApiError::unauthorized("this key is not valid (any more)"))?;
        let identity = Identity { id: agent.id, name: agent.name };
        let mut state = self.state();
        if state.changes == changes {
            if state.known.len() >= MAX_KEYS {
                state.known.clear();
            }
            state.known.insert(key, (identity.clone(), now));
        }
        Ok(Caller::Agent(identity))
    }

    /// A key changed: nothing known of this agent holds any more.
    pub(crate) fn forget(&self, agent: AgentId) {
        let mut state = self.state();
        state.changes += 1;
        state.known.retain(|_, (identity, _)| identity.id != agent);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
