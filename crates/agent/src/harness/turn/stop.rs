//! The work that a stop is about.

use super::Turn;

impl Turn {
    /// Checks whether this message stops the work on another: it names the other, or its author asked for both and it stands in
    /// the thread of the other, or like the other in none.
    pub(crate) fn stops(&self, other: &Self) -> bool {
        let thread = |turn: &Self| turn.place.as_ref().and_then(|place| place.thread.clone());
        let channel =
            |turn: &Self| turn.place.as_ref().map(|place| (place.service.clone(), place.id.clone()));
        if channel(self) != channel(other) || (self.place.is_none() && self.sender != other.sender) {
            return false;
        }
        self.answers.iter().any(|answered| other.stands_for(answered))
            || self.sender == other.sender
                && match thread(self) {
                    Some(began) => other.stands_for(&began) || thread(other).as_ref() == Some(&began),
                    None => thread(other).is_none(),
                }
    }
}
