//! Turn assembly: what somebody types in pieces reaches the model as one turn.
//!
//! Pieces of one author in one conversation wait until it has paused, and at most so long; what must be seen at once
//! goes at once, with what waited before it. A piece that is edited is replaced where it stands, one that is deleted
//! is gone, one that comes twice is there once. [`Assembly::take`] is told what arrived, [`Assembly::due`] gives what
//! is ready, in the order in which it began; both are told the time. Bounded: what does not fit goes out early.
//!
//! It keeps nothing on disk and does not run turns. A piece that arrives while a turn runs and nothing was sent can
//! be merged by giving the turn back ([`Assembly::give_back`]).

use chorus_protocol::words::{Mode, Reason};
use std::collections::VecDeque;

/// How long an author must have paused.
pub const QUIET_MS: i64 = 3_000;

/// How long the first piece waits at most.
pub const LONGEST_MS: i64 = 30_000;

/// The most pieces of one turn.
pub const MOST_PIECES: usize = 64;

/// The most turns that wait for their authors to pause.
pub const MOST_TURNS: usize = 256;
/// The most edits that are remembered of what waits in one turn.
const MOST_EDITS: usize = 256;

/// Whose words are put together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The author.
    pub author: String,
    /// The conversation, and the thread if there is one.
    pub conversation: String,
}

/// One event on its way into a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece<T> {
    /// The event's id.
    pub event_id: String,
    /// What the harness knows of it.
    pub body: T,
}

/// What arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arrival<T> {
    /// Something was said.
    Message(Source, Mode, Piece<T>),
    /// What was said is said differently; the edit is an event of its own.
    Edited {
        /// The event that it replaces.
        supersedes: String,
        /// Whose.
        source: Source,
        /// How it is to be shown.
        mode: Mode,
        /// What is said now.
        piece: Piece<T>,
    },
    /// What was said is taken back.
    Deleted(String),
    /// An author types.
    Typing(Source),
}

/// What goes to the model together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assembled<T> {
    /// Whose words.
    pub source: Source,
    /// In the order in which they were said.
    pub pieces: Vec<Piece<T>>,
    /// When the first came.
    pub began_ms: i64,
}

#[derive(Debug, Clone)]
struct Waiting<T> {
    turn: Assembled<T>,
    /// Ids that pieces had before they were edited, and those they have now: these may come again.
    superseded: Vec<(String, String)>,
    /// When its author last did something.
    active_ms: i64,
    at_once: bool,
}

impl<T> Waiting<T> {
    fn new(turn: Assembled<T>, active_ms: i64, at_once: bool) -> Self {
        Self { turn, superseded: vec![], active_ms, at_once }
    }

    fn place(&self, event_id: &str) -> Option<usize> {
        let edited = self.superseded.iter().find(|(before, _)| before == event_id);
        let event_id = edited.map_or(event_id, |(_, now)| now);
        self.turn.pieces.iter().position(|piece| piece.event_id == event_id)
    }

    fn replace(&mut self, place: usize, piece: Piece<T>) {
        let now = piece.event_id.clone();
        let before = std::mem::replace(&mut self.turn.pieces[place], piece).event_id;
        if before == now {
            return;
        }
        for (_, latest) in self.superseded.iter_mut().filter(|(_, latest)| *latest == before) {
            latest.clone_from(&now);
        }
        // The oldest edit is forgotten, rather than a message that is edited all day kept growing.
        if self.superseded.len() >= MOST_EDITS {
            self.superseded.remove(0);
        }
        self.superseded.push((before, now));
    }

    fn due_ms(&self, quiet_ms: i64) -> i64 {
        let latest_ms = self.turn.began_ms + LONGEST_MS;
        if self.at_once { self.turn.began_ms } else { latest_ms.min(self.active_ms + quiet_ms) }
    }
}

/// See the [module](self).
#[derive(Debug, Clone)]
pub struct Assembly<T> {
    waiting: VecDeque<Waiting<T>>,
    quiet_ms: i64,
}

impl<T> Default for Assembly<T> {
    fn default() -> Self {
        Self::with_quiet(QUIET_MS)
    }
}

impl<T> Assembly<T> {
    /// One in which authors must have paused for so long.
    pub fn with_quiet(quiet_ms: i64) -> Self {
        Self { waiting: VecDeque::new(), quiet_ms }
    }

    /// Takes note of what arrived. What is neither to be shown at once nor buffered has no place in a turn, and is
    /// given back, as is what replaces an event that has left already.
    pub fn take(&mut self, arrival: Arrival<T>, now_ms: i64) -> Option<Arrival<T>> {
        match arrival {
            Arrival::Message(source, mode, piece) if enters(mode) => self.say(source, mode, piece, now_ms),
            Arrival::Edited { supersedes, source, mode, piece } => {
                let Some((waiting, place)) = self.find(&supersedes) else {
                    return Some(Arrival::Edited { supersedes, source, mode, piece });
                };
                waiting.active_ms = now_ms;
                waiting.at_once |= mode == Mode::Immediate;
                waiting.replace(place, piece);
            }
            Arrival::Deleted(event_id) => {
                let Some((waiting, place)) = self.find(&event_id) else {
                    return Some(Arrival::Deleted(event_id));
                };
                waiting.turn.pieces.remove(place);
                self.waiting.retain(|waiting| !waiting.turn.pieces.is_empty());
            }
            Arrival::Typing(source) => {
                if let Some(waiting) = self.of(&source) {
                    waiting.active_ms = now_ms;
                }
            }
            Arrival::Message(..) => return Some(arrival),
        }
        None
    }

    /// The next turn that is ready.
    pub fn due(&mut self, now_ms: i64) -> Option<Assembled<T>> {
        let place = self.waiting.iter().position(|waiting| waiting.due_ms(self.quiet_ms) <= now_ms)?;
        self.waiting.remove(place).map(|waiting| waiting.turn)
    }

    /// When the next one will be.
    pub fn next_due_ms(&self) -> Option<i64> {
        self.waiting.iter().map(|waiting| waiting.due_ms(self.quiet_ms)).min()
    }

    /// The piece that waits under this id, or under the one it has since it was edited.
    pub fn piece(&mut self, event_id: &str) -> Option<&mut Piece<T>> {
        let (waiting, place) = self.find(event_id)?;
        waiting.turn.pieces.get_mut(place)
    }

    /// Everything that waits.
    pub fn pieces(&self) -> impl Iterator<Item = &Piece<T>> {
        self.waiting.iter().flat_map(|waiting| &waiting.turn.pieces)
    }

    /// How many turns wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Puts back a turn that was broken off before anything was sent, before what its author has said since. How long
    /// it may wait still counts from its first piece.
    pub fn give_back(&mut self, turn: Assembled<T>, now_ms: i64) {
        match self.waiting.iter().position(|waiting| waiting.turn.source == turn.source) {
            Some(place) => {
                let waiting = &mut self.waiting[place];
                waiting.turn.began_ms = turn.began_ms;
                waiting.turn.pieces.splice(..0, turn.pieces);
                waiting.at_once |= waiting.turn.pieces.len() >= MOST_PIECES;
            }
            None => self.waiting.push_front(Waiting::new(turn, now_ms, false)),
        }
    }

    fn say(&mut self, source: Source, mode: Mode, piece: Piece<T>, now_ms: i64) {
        if self.find(&piece.event_id).is_some() {
            return;
        }
        let at_once = mode == Mode::Immediate;
        if let Some(waiting) = self.of(&source) {
            waiting.turn.pieces.push(piece);
            waiting.active_ms = now_ms;
            waiting.at_once |= at_once || waiting.turn.pieces.len() >= MOST_PIECES;
            return;
        }
        // The oldest goes out early, rather than anything being lost.
        let crowded = self.waiting.iter().filter(|waiting| !waiting.at_once).count() >= MOST_TURNS;
        let oldest = self.waiting.iter_mut().find(|waiting| !waiting.at_once);
        if let Some(oldest) = oldest.filter(|_| crowded) {
            oldest.at_once = true;
        }
        let turn = Assembled { source, pieces: vec![piece], began_ms: now_ms };
        self.waiting.push_back(Waiting::new(turn, now_ms, at_once));
    }

    fn of(&mut self, source: &Source) -> Option<&mut Waiting<T>> {
        self.waiting
            .iter_mut()
            .find(|waiting| waiting.turn.source == *source && waiting.turn.pieces.len() < MOST_PIECES)
    }

    fn find(&mut self, event_id: &str) -> Option<(&mut Waiting<T>, usize)> {
        self.waiting.iter_mut().find_map(|waiting| {
            let place = waiting.place(event_id)?;
            Some((waiting, place))
        })
    }
}

fn enters(mode: Mode) -> bool {
    matches!(mode, Mode::Immediate | Mode::Buffered)
}

/// Whether an event ends a turn that runs: nothing else does, however urgent.
pub fn interrupts(reason: Reason) -> bool {
    matches!(reason, Reason::Cancellation | Reason::Safety)
}

#[cfg(test)]
mod tests;
