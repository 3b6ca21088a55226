//! Turn assembly: combines the messages that an author types in pieces into one turn of the model.
//!
//! The pieces of one author in one conversation wait until the author has paused, for a limited time. An
//! immediate event goes at once, together with the pieces before it. An edited piece is replaced in its place,
//! a deleted piece is removed, and a repeated piece is kept once. [`Assembly::take`] records an arrival, and
//! [`Assembly::due`] returns the ready turns in the order in which they began. Both take the current time. The
//! memory is bounded: a turn that does not fit goes out early.
//!
//! The assembly keeps nothing on disk and does not run turns. A piece that arrives during a turn of which
//! nothing was sent can be merged by giving the turn back with [`Assembly::give_back`].

use chorus_protocol::words::Mode;
use std::collections::VecDeque;

/// The pause of an author that ends a turn.
pub const QUIET_MS: i64 = 3_000;

/// The longest time that the first piece waits.
pub const LONGEST_MS: i64 = 30_000;

/// The largest number of pieces in one turn.
pub const MOST_PIECES: usize = 64;

/// The largest number of turns that wait for their authors to pause.
pub const MOST_TURNS: usize = 256;
/// The largest number of edits that are remembered for one waiting turn.
const MOST_EDITS: usize = 256;

/// The author and the place whose pieces are assembled into one turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    pub author: String,
    /// The conversation, and the thread if there is one.
    pub conversation: String,
}

/// An event that is part of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece<T> {
    pub event_id: String,
    /// The harness's own data for the event.
    pub body: T,
}

/// An event that arrived at the harness.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arrival<T> {
    Message(Source, Mode, Piece<T>),
    /// A message was edited. The edit is an event of its own.
    Edited {
        /// The id of the replaced event.
        supersedes: String,
        source: Source,
        mode: Mode,
        /// The piece with the new text.
        piece: Piece<T>,
    },
    /// The message with this event id was deleted.
    Deleted(String),
    /// The author is typing.
    Typing(Source),
}

/// The pieces that go to the model together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assembled<T> {
    pub source: Source,
    /// The pieces in the order in which they were written.
    pub pieces: Vec<Piece<T>>,
    /// The arrival of the first piece.
    pub began_ms: i64,
}

#[derive(Debug, Clone)]
struct Waiting<T> {
    turn: Assembled<T>,
    /// The former and the current ids of edited pieces. Events with a former id may arrive again.
    superseded: Vec<(String, String)>,
    /// The time of the author's last activity.
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
        // The oldest edit is forgotten, so that a message that is edited often does not grow without limit.
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

/// Assembles turns from events. See the [module](self).
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
    /// Creates an assembly with the given pause.
    pub fn with_quiet(quiet_ms: i64) -> Self {
        Self { waiting: VecDeque::new(), quiet_ms }
    }

    /// Records an arrival. Returns an arrival that does not belong in a turn: one that is neither immediate
    /// nor buffered, or one that replaces an event that was already sent.
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

    /// Removes and returns the next turn that is ready.
    pub fn due(&mut self, now_ms: i64) -> Option<Assembled<T>> {
        let place = self.waiting.iter().position(|waiting| waiting.due_ms(self.quiet_ms) <= now_ms)?;
        self.waiting.remove(place).map(|waiting| waiting.turn)
    }

    /// Returns the time at which the next turn is due.
    pub fn next_due_ms(&self) -> Option<i64> {
        self.waiting.iter().map(|waiting| waiting.due_ms(self.quiet_ms)).min()
    }

    /// Returns the waiting piece with this id, or the piece that replaced it.
    pub fn piece(&mut self, event_id: &str) -> Option<&mut Piece<T>> {
        let (waiting, place) = self.find(event_id)?;
        waiting.turn.pieces.get_mut(place)
    }

    /// Returns all waiting pieces.
    pub fn pieces(&self) -> impl Iterator<Item = &Piece<T>> {
        self.waiting.iter().flat_map(|waiting| &waiting.turn.pieces)
    }

    /// Returns the number of waiting turns.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Puts back a turn that was interrupted before anything was sent, ahead of the author's newer pieces. Its
    /// longest wait still counts from its first piece.
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
        // The oldest turn goes out early, so that nothing is lost.
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

#[cfg(test)]
mod tests;
