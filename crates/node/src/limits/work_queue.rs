//! Runs expensive work one piece at a time: searches, which must never hold up other reads, and conversions of traces and
//! large receipts, which would take all processors.
//!
//! Turns go round between sources, however many keys a source has: a source that asks for much waits for itself. Of one source
//! the smallest piece is next. A caller has one piece at a time, and a source a bounded number, running or waiting.

use crate::error::Error;
use crate::source::Source;
use chorus_protocol::code::Code;
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;
use uuid::Uuid;

/// The longest time a caller waits for its turn.
const PATIENCE: Duration = Duration::from_secs(5);
/// The most places of one source.
const PLACES: usize = 16;

/// The queue for one kind of work, whose turns go round between sources, or whatever else `S` names.
pub struct WorkQueue<S: Copy + Eq + Hash = Source> {
    /// The name of one piece, for error messages.
    what: &'static str,
    queue: Mutex<Queue<S>>,
}

struct Queue<S: Copy + Eq + Hash> {
    callers: HashSet<Uuid>,
    /// The number of places of each source that has one.
    places: HashMap<S, usize>,
    is_running: bool,
    /// Sources with waiting pieces; the first one is next. None of them has an empty list.
    waiting: VecDeque<(S, Vec<Waiting<S>>)>,
}

/// A piece that waits for its turn. It was given up if nobody receives the turn.
struct Waiting<S: Copy + Eq + Hash> {
    size: usize,
    turn: oneshot::Sender<Running<S>>,
}

/// A caller's place in the queue, until it is dropped.
pub struct QueuePlace<S: Copy + Eq + Hash = Source> {
    work: Arc<WorkQueue<S>>,
    source: S,
    who: Uuid,
}

/// The right to work now, until it is dropped. It goes with the work, which goes on when its caller hangs up.
pub struct QueueTurn<S: Copy + Eq + Hash = Source> {
    /// Declared first: the turn passes on before the place is free.
    _running: Running<S>,
    _place: QueuePlace<S>,
}

/// Passes the turn on when it is dropped, also if it was handed to a caller that has given up.
struct Running<S: Copy + Eq + Hash>(Option<Arc<WorkQueue<S>>>);

impl<S: Copy + Eq + Hash> WorkQueue<S> {
    pub fn of(what: &'static str) -> Arc<Self> {
        let queue = Queue {
            callers: HashSet::new(),
            places: HashMap::new(),
            is_running: false,
            waiting: VecDeque::new(),
        };
        Arc::new(Self { what, queue: Mutex::new(queue) })
    }

    /// Takes a place in the queue, before the input of the work is read.
    pub fn enter(self: &Arc<Self>, source: S, who: Uuid) -> Result<QueuePlace<S>, Error> {
        let what = self.what;
        let refused =
            |why: std::fmt::Arguments<'_>| Err(Error::new(Code::RateLimited, why).retry_after_ms(1000));
        let mut queue = self.queue();
        if queue.callers.contains(&who) {
            return refused(format_args!("one {what} at a time: wait for the one that is under way"));
        }
        let places = queue.places.entry(source).or_default();
        if *places >= PLACES {
            return refused(format_args!(
                "a {what} of your address must wait: {PLACES} are under way already"
            ));
        }
        *places += 1;
        queue.callers.insert(who);
        drop(queue);
        Ok(QueuePlace { work: Arc::clone(self), source, who })
    }

    /// Waits for a turn of work whose size does not matter.
    pub async fn begin(self: &Arc<Self>, source: S, who: Uuid) -> Result<QueueTurn<S>, Error> {
        self.enter(source, who)?.turn(0).await
    }

    fn queue(&self) -> MutexGuard<'_, Queue<S>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Copy + Eq + Hash> QueuePlace<S> {
    /// Waits for the turn of a piece of this size.
    pub async fn turn(self, size: usize) -> Result<QueueTurn<S>, Error> {
        let (work, what) = (Arc::clone(&self.work), self.work.what);
        let announced = work.queue().join(self.source, size);
        let running = match announced {
            None => Running(Some(work)),
            Some(turn) => {
                let Ok(Ok(running)) = tokio::time::timeout(PATIENCE, turn).await else {
                    let why =
                        format_args!("too many others wait for a {what} already; try again in a moment");
                    return Err(Error::new(Code::Overloaded, why).retry_after_ms(1000));
                };
                running
            }
        };
        Ok(QueueTurn { _running: running, _place: self })
    }
}

impl<S: Copy + Eq + Hash> Queue<S> {
    /// Begins at once if nothing runs; else returns the announcement of the turn.
    fn join(&mut self, source: S, size: usize) -> Option<oneshot::Receiver<Running<S>>> {
        if !self.is_running {
            self.is_running = true;
            return None;
        }
        let (turn, announced) = oneshot::channel();
        let piece = Waiting { size, turn };
        match self.waiting.iter_mut().find(|(other, _)| *other == source) {
            Some((_, pieces)) => pieces.push(piece),
            None => self.waiting.push_back((source, vec![piece])),
        }
        Some(announced)
    }

    /// The smallest piece of the source that waits longest for a turn.
    fn next(&mut self) -> Option<Waiting<S>> {
        while let Some((source, mut pieces)) = self.waiting.pop_front() {
            pieces.retain(|piece| !piece.turn.is_closed());
            let smallest = pieces.iter().enumerate().min_by_key(|(_, piece)| piece.size).map(|(n, _)| n);
            let Some(next) = smallest.map(|n| pieces.remove(n)) else { continue };
            if !pieces.is_empty() {
                self.waiting.push_back((source, pieces));
            }
            return Some(next);
        }
        None
    }
}

impl<S: Copy + Eq + Hash> Drop for Running<S> {
    fn drop(&mut self) {
        let Some(work) = self.0.take() else { return };
        let mut queue = work.queue();
        while let Some(next) = queue.next() {
            match next.turn.send(Self(Some(Arc::clone(&work)))) {
                Ok(()) => return,
                Err(mut given_up) => given_up.0 = None,
            }
        }
        queue.is_running = false;
    }
}

impl<S: Copy + Eq + Hash> Drop for QueuePlace<S> {
    fn drop(&mut self) {
        let mut queue = self.work.queue();
        queue.callers.remove(&self.who);
        if let Some(places) = queue.places.get_mut(&self.source) {
            *places -= 1;
            if *places == 0 {
                queue.places.remove(&self.source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::rate_key;
    use futures_util::FutureExt;
    use futures_util::future::BoxFuture;

    fn source(last: u8) -> Source {
        rate_key([192, 0, 2, last].into())
    }

    fn caller(n: u128) -> Uuid {
        Uuid::from_u128(n)
    }

    #[tokio::test(start_paused = true)]
    async fn one_at_a_time_and_one_of_each_caller() {
        let [ann, bob] = [1, 2].map(caller);
        let searches = WorkQueue::of("search");
        let first = searches.begin(source(1), ann).await.unwrap();
        let told = searches.begin(source(1), ann).await.err().unwrap();
        assert_eq!((told.code, told.retry_after_ms), (Code::RateLimited, Some(1000)));
        assert_eq!(told.message, "one search at a time: wait for the one that is under way");
        let told = searches.begin(source(1), bob).await.err().unwrap();
        assert_eq!((told.code, told.retry_after_ms), (Code::Overloaded, Some(1000)), "after a while");
        drop(first);
        drop(searches.begin(source(1), bob).await.unwrap());
        drop(searches.begin(source(1), ann).await.unwrap());
        let queue = searches.queue();
        assert!(queue.places.is_empty() && queue.callers.is_empty(), "nobody is remembered");
    }

    /// A piece that waits: its name and its future.
    type Waiter = (&'static str, BoxFuture<'static, Result<QueueTurn, Error>>);

    fn wait(work: &Arc<WorkQueue>, name: &'static str, source: Source, who: u128, size: usize) -> Waiter {
        let place = work.enter(source, caller(who)).unwrap();
        let mut turn = place.turn(size).boxed();
        assert!((&mut turn).now_or_never().is_none(), "{name} waits");
        (name, turn)
    }

    /// Lets all of them run, one after the other, and returns their order.
    fn run(mut waiting: Vec<Waiter>) -> Vec<&'static str> {
        let mut order = vec![];
        while !waiting.is_empty() {
            let next = waiting.iter_mut().position(|(_, turn)| turn.now_or_never().is_some());
            order.push(waiting.remove(next.expect("somebody's turn")).0);
        }
        order
    }

    #[tokio::test]
    async fn turns_go_round_between_sources_and_small_pieces_pass_large_ones() {
        let work = WorkQueue::of("conversion");
        let first = work.begin(source(1), caller(0)).await.unwrap();
        let waiting = vec![
            wait(&work, "large 1", source(1), 1, 900),
            wait(&work, "large 2", source(1), 2, 800),
            wait(&work, "large 3", source(1), 3, 800),
            wait(&work, "small", source(1), 4, 1),
            wait(&work, "other 1", source(2), 5, 900),
            wait(&work, "other 2", source(2), 6, 900),
        ];
        drop(first);
        assert_eq!(run(waiting), ["small", "other 1", "large 2", "other 2", "large 3", "large 1"]);
        drop(work.begin(source(3), caller(9)).now_or_never().expect("nobody works").unwrap());
    }

    #[tokio::test]
    async fn a_source_has_a_bounded_number_of_places_and_no_other_pays_for_it() {
        let work = WorkQueue::of("conversion");
        let first = work.begin(source(1), caller(0)).await.unwrap();
        let mut waiting: Vec<_> = (1..PLACES as u128).map(|n| wait(&work, "many", source(1), n, 9)).collect();
        let refused = work.enter(source(1), caller(99)).err().unwrap();
        assert_eq!((refused.code, refused.retry_after_ms), (Code::RateLimited, Some(1000)));
        // Gives up, and is passed over.
        waiting.pop();
        let other = wait(&work, "other", source(2), 100, 9);
        waiting.push(other);
        drop(first);
        let order = run(waiting);
        assert_eq!(order.iter().position(|name| *name == "other"), Some(1), "after one turn of the others");
        assert_eq!(order.len(), PLACES - 1);
    }
}
