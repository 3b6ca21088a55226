//! Which turns were taken: each is handed to the program once, and is a duplicate afterwards.
//!
//! Between the two it is pending. Whatever then happens to it (refused, given up, dropped), its claim ends with it,
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

/// All turns of one receiver.
#[derive(Debug, Clone)]
pub(crate) struct Turns(Arc<Mutex<State>>);

/// What is known of a turn.
#[derive(Debug)]
pub(crate) enum TurnState {
    /// Nothing; it is pending now.
    New(Claim),
    /// The program has it before it.
    Pending,
    /// The program took it.
    Taken,
}

/// A pending turn.
#[derive(Debug)]
pub(crate) struct Claim {
    name: String,
    turns: Turns,
}

impl Default for Turns {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(State { taken: Seen::new(REMEMBERED), pending: HashSet::new() })))
    }
}

impl Turns {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims the turn of this name, if nobody has.
    pub(crate) fn claim(&self, name: String) -> TurnState {
        let mut state = self.state();
        if state.taken.contains(&name) {
            return TurnState::Taken;
        }
        if !state.pending.insert(name.clone()) {
            return TurnState::Pending;
        }
        TurnState::New(Claim { name, turns: self.clone() })
    }
}

impl Claim {
    /// The program took it: from now on it is a duplicate.
    pub(crate) fn keep(self) {
        self.turns.state().taken.is_new(&self.name);
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.turns.state().pending.remove(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_taken_once_and_free_again_if_it_is_not() {
        let turns = Turns::default();
        let TurnState::New(claim) = turns.claim("a".into()) else { panic!() };
        assert!(matches!(turns.claim("a".into()), TurnState::Pending));
        assert!(matches!(turns.claim("b".into()), TurnState::New(_)));
        drop(claim);
        let TurnState::New(claim) = turns.claim("a".into()) else { panic!() };
        claim.keep();
        assert!(matches!(turns.claim("a".into()), TurnState::Taken));
        assert!(turns.state().pending.is_empty());
    }
}
