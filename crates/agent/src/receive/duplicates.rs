//! Which turns were taken: each is handed to the program once, and is a duplicate afterwards.
//!
//! Between the two it is pending. Whatever then happens to it (refused, given up, dropped), it is pending no more,
//! and the sender may try again.

use crate::seen::{REMEMBERED, Seen};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
struct State {
    taken: Seen,
    /// As many as there are connections, at most.
    pending: HashSet<String>,
}

/// What is known of the turns of one receiver.
#[derive(Debug, Clone)]
pub(crate) struct Duplicates(Arc<Mutex<State>>);

/// What is known of a turn.
#[derive(Debug)]
pub(crate) enum Standing {
    /// Nothing; it is pending now.
    New(Pending),
    /// The program has it before it.
    Pending,
    /// The program took it.
    Taken,
}

/// A pending turn.
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

    /// The turn of this name is pending from now on, if nothing is known of it.
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
    /// The program took it: from now on it is a duplicate.
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
