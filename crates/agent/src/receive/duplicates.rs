//! The record of accepted turns: each is handed to the program once, and is a duplicate afterwards.
//!
//! In between it is pending. When it is refused, given up or dropped, it is no longer pending, and the sender
//! may try again.

use crate::seen::{REMEMBERED, Seen};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
struct State {
    taken: Seen,
    /// At most one for each connection.
    pending: HashSet<String>,
}

/// The states of the turns of one receiver.
#[derive(Debug, Clone)]
pub(crate) struct Duplicates(Arc<Mutex<State>>);

/// The state of a turn.
#[derive(Debug)]
pub(crate) enum Standing {
    /// The turn is new, and pending from now on.
    New(Pending),
    /// The program is processing it.
    Pending,
    /// The program accepted it.
    Taken,
}

#[derive(Debug)]
pub(crate) struct Pending {
    name: String,
    duplicates: Duplicates,
}

impl Default for Duplicates {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(State { taken: Seen::new(REMEMBERED), pending: HashSet::new() })))
    }
}

impl Duplicates {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks a turn as pending if it is new, and returns its state.
    pub(crate) fn begin(&self, name: String) -> Standing {
        let mut state = self.state();
        if state.taken.contains(&name) {
            return Standing::Taken;
        }
        if !state.pending.insert(name.clone()) {
            return Standing::Pending;
        }
        Standing::New(Pending { name, duplicates: self.clone() })
    }
}

impl Pending {
    /// Records that the program accepted the turn. From now on it is a duplicate.
    pub(crate) fn keep(self) {
        self.duplicates.state().taken.is_new(&self.name);
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.duplicates.state().pending.remove(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_taken_once_and_free_again_if_it_is_not() {
        let duplicates = Duplicates::default();
        let Standing::New(pending) = duplicates.begin("a".into()) else { panic!() };
        assert!(matches!(duplicates.begin("a".into()), Standing::Pending));
        assert!(matches!(duplicates.begin("b".into()), Standing::New(_)));
        drop(pending);
        let Standing::New(pending) = duplicates.begin("a".into()) else { panic!() };
        pending.keep();
        assert!(matches!(duplicates.begin("a".into()), Standing::Taken));
        assert!(duplicates.state().pending.is_empty());
    }
}
