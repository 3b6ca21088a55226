//! The queue of messages: pieces that are being merged, turns that wait for their thread, and the inbox
//! positions that are not processed yet.
//!
//! Threads are processed in parallel, so messages do not finish in the order in which they came. The
//! journal stores one inbox position up to which everything is processed; [`Line::move_cursor`] returns it.

use crate::harness::ledger::{End, Record};
use crate::harness::turn::Turn;
use chorus_attention::turn::{Arrival, Assembled, Assembly, Piece, Source};
use chorus_protocol::words::{Mode, Priority};
use std::collections::{HashMap, VecDeque};

/// The number of conversations whose last start is remembered.
const MAX_BEGUN: usize = 1000;

/// Messages that are answered together.
#[derive(Debug)]
pub(super) struct Batch {
    /// The author and conversation of the pieces. `None` if no more can come.
    pub(super) source: Option<Source>,
    /// The time of the first message.
    pub(super) began_ms: i64,
    /// The messages before the last, in order.
    pub(super) earlier: Vec<Turn>,
    /// The last message, which the answer refers to.
    pub(super) turn: Turn,
}

impl Batch {
    /// Creates a batch of one message.
    pub(super) fn single(turn: Turn, now_ms: i64) -> Self {
        Self { source: None, began_ms: now_ms, earlier: vec![], turn }
    }

    fn of(assembled: Assembled<Turn>) -> Option<Self> {
        let mut earlier: Vec<_> = assembled.pieces.into_iter().map(|piece| piece.body).collect();
        let turn = earlier.pop()?;
        Some(Self { source: Some(assembled.source), began_ms: assembled.began_ms, earlier, turn })
    }

    pub(super) fn turns(&self) -> impl Iterator<Item = &Turn> {
        self.earlier.iter().chain([&self.turn])
    }
}

/// A position of the inbox.
#[derive(Debug)]
struct Place {
    cursor: String,
    /// The id of the message at this position.
    turn: String,
    done: bool,
    /// The record to write once everything before is processed. Until then a failed message may be tried
    /// again.
    record: Option<Record>,
}

/// The queue; see the [module](self).
#[derive(Debug)]
pub(super) struct Line {
    assembly: Assembly<Turn>,
    ready: VecDeque<Batch>,
    places: VecDeque<Place>,
    /// For each conversation, the count at which a turn was started last.
    begun: HashMap<String, u64>,
    count: u64,
}

impl Line {
    pub(super) fn new(quiet_ms: i64) -> Self {
        Self {
            assembly: Assembly::with_quiet(quiet_ms),
            ready: VecDeque::new(),
            places: VecDeque::new(),
            begun: HashMap::new(),
            count: 0,
        }
    }

    /// Returns the number of waiting messages.
    pub(super) fn len(&self) -> usize {
        self.assembly.pieces().count() + self.ready.iter().flat_map(Batch::turns).count()
    }

    /// Returns the time at which the next merged turn is due.
    pub(super) fn next_due_ms(&self) -> Option<i64> {
        self.assembly.next_due_ms()
    }

    /// Returns the waiting messages.
    pub(super) fn turns(&self) -> impl Iterator<Item = &Turn> {
        let pieces = self.assembly.pieces().map(|piece| &piece.body);
        pieces.chain(self.ready.iter().flat_map(Batch::turns))
    }

    /// Checks whether a message with this id is waiting.
    pub(super) fn holds(&self, id: &str) -> bool {
        let pieces = self.assembly.pieces().map(|piece| &piece.body);
        pieces.chain(self.ready.iter().flat_map(Batch::turns)).any(|turn| turn.id == id)
    }

    /// Checks whether the waiting message with this id has its text.
    pub(super) fn shows(&self, id: &str) -> bool {
        let pieces = self.assembly.pieces().map(|piece| &piece.body);
        let mut all = pieces.chain(self.ready.iter().flat_map(Batch::turns));
        all.any(|turn| turn.id == id && !turn.withheld)
    }

    /// Records that an author is typing.
    pub(super) fn typing(&mut self, source: Source, now_ms: i64) {
        self.assembly.take(Arrival::Typing(source), now_ms);
    }

    /// Queues a message that is processed separately.
    pub(super) fn push(&mut self, batch: Batch) {
        self.ready.push_back(batch);
    }

    /// Queues a message that may be a piece of its author's text.
    pub(super) fn say(&mut self, source: Source, turn: Turn, now_ms: i64) {
        self.recall(|batch| batch.source.as_ref() == Some(&source), now_ms);
        let mode = turn.mode.unwrap_or(Mode::Buffered);
        self.assembly.take(Arrival::Message(source, mode, piece(turn)), now_ms);
    }

    /// Replaces a waiting message by its edit and returns the id of the replaced one. Returns the edit if none
    /// is waiting.
    pub(super) fn edit(&mut self, supersedes: &str, turn: Turn, now_ms: i64) -> Result<String, Box<Turn>> {
        self.recall(|batch| batch.turns().any(|one| one.stands_for(supersedes)), now_ms);
        if let Some((supersedes, known)) = self.standing(supersedes) {
            if turn.withheld {
                // The edited text must be claimed before it can be merged.
                self.assembly.take(Arrival::Deleted(supersedes), now_ms);
                self.ready.push_front(Batch::single(turn, now_ms));
                return Ok(known);
            }
            // The assembly uses the source of the replaced message.
            let source = Source { author: String::new(), conversation: String::new() };
            let mode = turn.mode.unwrap_or(Mode::Buffered);
            let edited = Arrival::Edited { supersedes, source, mode, piece: piece(turn) };
            self.assembly.take(edited, now_ms);
            return Ok(known);
        }
        let mut alone = self.ready.iter_mut().filter(|batch| batch.source.is_none());
        match alone.find(|batch| batch.turn.stands_for(supersedes)) {
            Some(batch) => Ok(std::mem::replace(&mut batch.turn, turn).id),
            None => Err(Box::new(turn)),
        }
    }

    /// Removes a waiting message that was withdrawn and returns its id.
    pub(super) fn withdraw(&mut self, message_id: &str, now_ms: i64) -> Option<String> {
        self.recall(|batch| batch.turns().any(|one| one.stands_for(message_id)), now_ms);
        if let Some((standing, known)) = self.standing(message_id) {
            self.assembly.take(Arrival::Deleted(standing), now_ms);
            return Some(known);
        }
        let place = self.ready.iter().position(|batch| batch.turn.stands_for(message_id))?;
        self.ready.remove(place).map(|batch| batch.turn.id)
    }

    /// Returns the current id, perhaps that of an edit, and the turn's id of a message that is being merged.
    fn standing(&self, message_id: &str) -> Option<(String, String)> {
        let piece = self.assembly.pieces().find(|piece| piece.body.stands_for(message_id))?;
        Some((piece.event_id.clone(), piece.body.id.clone()))
    }

    /// Moves a turn that may still change back to the pieces that are being merged.
    fn recall(&mut self, which: impl Fn(&Batch) -> bool, now_ms: i64) {
        let place = self.ready.iter().position(|batch| batch.source.is_some() && which(batch));
        if let Some(batch) = place.and_then(|place| self.ready.remove(place)) {
            self.give_back(batch, now_ms);
        }
    }

    /// Puts back a turn that was cancelled before anything was sent.
    pub(super) fn give_back(&mut self, batch: Batch, now_ms: i64) {
        let Batch { source, began_ms, mut earlier, turn } = batch;
        let Some(source) = source else { return self.ready.push_front(Batch::single(turn, began_ms)) };
        earlier.push(turn);
        let pieces = earlier.into_iter().map(piece).collect();
        self.assembly.give_back(Assembled { source, pieces, began_ms }, now_ms);
    }

    /// Returns the next turn whose thread is free.
    pub(super) fn next(&mut self, now_ms: i64, free: impl Fn(&str) -> bool) -> Option<Batch> {
        while let Some(assembled) = self.assembly.due(now_ms) {
            self.ready.extend(Batch::of(assembled));
        }
        let place = self.next_place(free)?;
        let batch = self.ready.remove(place)?;
        if self.begun.len() >= MAX_BEGUN {
            self.begun.clear();
        }
        self.count += 1;
        self.begun.insert(batch.turn.conversation(), self.count);
        Some(batch)
    }

    /// Returns the position of the next turn: urgent threads first, then those of the conversation whose last
    /// start is longest ago, so that a busy conversation delays no other. Within a thread the order is kept.
    fn next_place(&self, free: impl Fn(&str) -> bool) -> Option<usize> {
        let mut waiting: HashMap<String, (usize, bool)> = HashMap::new();
        for (place, batch) in self.ready.iter().enumerate() {
            let urgent = batch.turns().any(|turn| turn.priority == Some(Priority::Urgent));
            waiting.entry(batch.turn.thread_key()).or_insert((place, false)).1 |= urgent;
        }
        let waiting = waiting.into_iter().filter(|(thread, _)| free(thread));
        let in_turn = waiting.map(|(_, (place, urgent))| {
            let conversation = self.ready.get(place).map(|batch| batch.turn.conversation());
            let begun = conversation.and_then(|conversation| self.begun.get(&conversation));
            (!urgent, begun.copied().unwrap_or(0), place)
        });
        in_turn.min().map(|(_, _, place)| place)
    }

    /// Checks whether a turn could start now.
    pub(super) fn is_ready(&self, free: impl Fn(&str) -> bool) -> bool {
        self.ready.iter().any(|batch| free(&batch.turn.thread_key()))
    }

    /// Records the inbox position of a message.
    pub(super) fn arrived(&mut self, turn: &str, cursor: String) {
        self.places.push_back(Place { cursor, turn: turn.to_owned(), done: false, record: None });
    }

    /// Records an inbox position without a message to process.
    pub(super) fn nothing(&mut self, cursor: String) {
        self.places.push_back(Place { cursor, turn: String::new(), done: true, record: None });
    }

    /// Marks a message as processed and returns the records to write now. The record of a failed message is
    /// held back while earlier messages are in progress.
    pub(super) fn done(&mut self, turn: &str, record: Record) -> Vec<Record> {
        let behind = self.places.iter().find(|place| !place.done).is_some_and(|first| first.turn != turn);
        let failed = matches!(record, Record::Done { end: End::Failed, .. });
        let mut own = self.places.iter_mut().filter(|place| place.turn == turn);
        let Some(first) = own.next().filter(|_| !behind || failed) else {
            self.passed(turn);
            return vec![record];
        };
        (first.done, first.record) = (true, Some(record));
        own.for_each(|place| place.done = true);
        self.move_cursor()
    }

    /// Marks a message as processed without a record.
    pub(super) fn passed(&mut self, turn: &str) {
        self.places.iter_mut().filter(|place| place.turn == turn).for_each(|place| place.done = true);
    }

    /// Advances over the processed positions and returns the records to write for them.
    pub(super) fn move_cursor(&mut self) -> Vec<Record> {
        let (mut records, mut rest) = (vec![], None);
        while let Some(place) = self.places.pop_front_if(|place| place.done) {
            match place.record {
                Some(Record::Done { id, end, merged, .. }) => {
                    rest = None;
                    records.push(Record::Done { id, end, cursor: Some(place.cursor), merged });
                }
                _ => rest = Some(Record::Cursor(place.cursor)),
            }
        }
        records.extend(rest);
        records
    }
}

fn piece(turn: Turn) -> Piece<Turn> {
    Piece { event_id: turn.message_id.clone(), body: turn }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn batch(channel: &str, n: usize, priority: &str) -> Batch {
        let data = json!({"channel": {"id": channel}, "callback": "http://hub/cb",
            "attention": {"reason": "direct_mention", "priority": priority},
            "event": {"event_id": format!("{channel}{n}"), "content": "hello", "thread": "evt_0",
                "author": {"id": "anna"}}});
        Batch::single(Turn::chat(&data.to_string()).unwrap(), 0)
    }

    /// The threads of a channel wait for their own order only.
    #[test]
    fn threads_run_side_by_side_and_each_in_order() {
        let said = |id: &str, thread: Option<&str>| {
            let data = json!({"channel": {"id": "a"}, "callback": "http://hub/cb",
                "event": {"event_id": id, "content": "hello", "thread": thread, "author": {"id": "anna"}}});
            Batch::single(Turn::chat(&data.to_string()).unwrap(), 0)
        };
        let mut line = Line::new(0);
        for (id, thread) in [("1", None), ("2", Some("1")), ("3", None), ("4", Some("3")), ("5", Some("1"))] {
            line.push(said(id, thread));
        }
        let mut begun: Vec<Turn> = vec![];
        while let Some(next) = line.next(0, |thread| !begun.iter().any(|turn| turn.thread_key() == thread)) {
            begun.push(next.turn);
        }
        let ids = |turns: &[Turn]| turns.iter().map(|turn| turn.message_id.clone()).collect::<Vec<_>>();
        assert_eq!(ids(&begun), ["1", "3"]);
        let next = line.next(0, |thread| begun[1].thread_key() != thread).unwrap();
        assert_eq!(next.turn.message_id, "2");
    }

    /// A busy conversation delays another by at most one turn.
    #[test]
    fn who_says_much_holds_up_nobody_else() {
        let mut line = Line::new(0);
        for n in 1..=3 {
            line.push(batch("a", n, "normal"));
        }
        line.push(batch("b", 1, "normal"));
        line.push(batch("c", 1, "normal"));
        line.push(batch("c", 2, "urgent"));
        let mut order = vec![];
        while let Some(next) = line.next(0, |_| true) {
            order.push(next.turn.message_id);
        }
        assert_eq!(order, ["c1", "c2", "a1", "b1", "a2", "a3"]);
    }
}
