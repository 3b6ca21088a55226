//! Caches authenticated keys for one second.
//!
//! The age is measured by the monotonic clock. A changed key is dropped at once on every node, because the
//! store announces it like any commit.

use crate::caller::{Caller, Scheme, Shown};
use chorus_protocol::ids::Principal;
use chorus_store::directory::KeyHash;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use uuid::Uuid;

/// The longest time for which another node's change may go unnoticed.
const MAX_AGE_MS: i64 = 1000;
/// The most keys remembered; past it the cache starts anew.
const MAX_KEYS: usize = 20_000;

/// The cached state of a key.
pub enum Recalled {
    /// The cached caller of the key.
    Fresh(Caller),
    /// It was valid, but so long ago that the store must be asked again.
    Stale,
    /// The key is not cached.
    Never,
}

/// A cache of authenticated keys. See the [module](self).
#[derive(Default)]
pub struct CallerCache {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    known: HashMap<(KeyHash, Scheme), (Caller, i64)>,
    /// Counts the changes, so that a look-up that began before one is not remembered after it.
    changes: u64,
}

/// The start of a lookup.
pub struct Begun {
    changes: u64,
    at: i64,
}

impl CallerCache {
    /// Returns the cached state of this key at this monotonic time.
    pub fn recall(&self, shown: &Shown, elapsed: i64) -> Recalled {
        match self.state().known.get(&(shown.hash, shown.scheme)) {
            Some((caller, seen)) if elapsed - seen < MAX_AGE_MS => Recalled::Fresh(caller.clone()),
            Some(_) => Recalled::Stale,
            None => Recalled::Never,
        }
    }

    /// Marks the start of a lookup.
    pub fn begin(&self, elapsed: i64) -> Begun {
        Begun { changes: self.state().changes, at: elapsed }
    }

    /// Caches the result of a lookup, unless a key was changed while it ran.
    pub fn remember(&self, begun: &Begun, shown: &Shown, caller: Caller) {
        let mut state = self.state();
        if state.changes == begun.changes {
            if state.known.len() >= MAX_KEYS {
                state.known.clear();
            }
            state.known.insert((shown.hash, shown.scheme), (caller, begun.at));
        }
    }

    /// A key changed: nothing known of the agent, the account or the wallet of this id holds any more.
    pub fn forget(&self, who: Uuid) {
        let mut state = self.state();
        state.changes += 1;
        state.known.retain(|_, (caller, _)| match caller {
            Caller::Owner(wallet) => wallet.0 != who,
            other => other.id().map(Principal::uuid) != Some(who),
        });
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
