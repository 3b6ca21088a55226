//! Where what was received waits for the program, and its sender for what the program says.
//!
//! Each thing is handed over once; what was taken is a duplicate from then on. Bounded: in number, and in the time a
//! sender waits. Nothing waits here whose sender has gone.

use super::duplicates::{Duplicates, Pending, Standing};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// The most things that wait for the program.
const MAX_WAITING: usize = 64;

/// The side of the senders: things of type `T` that are answered by an `R`.
#[derive(Debug)]
pub(crate) struct Desk<T, R> {
    queue: mpsc::Sender<(T, Waiting<R>)>,
    duplicates: Duplicates,
}

/// The side of the program.
#[derive(Debug)]
pub(crate) struct Queue<T, R>(mpsc::Receiver<(T, Waiting<R>)>);

/// A sender that waits. If this is dropped, it is asked to try again.
#[derive(Debug)]
pub(crate) struct Waiting<R> {
    pending: Option<Pending>,
    answer: oneshot::Sender<R>,
}

/// Why a thing was not taken; it may be later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Busy {
    /// The program has it before it.
    Pending,
    /// Too many others wait.
    Full,
    /// The program did not say anything, or not in time.
    Late,
}

/// The two sides of a new desk.
pub(crate) fn desk<T, R>() -> (Desk<T, R>, Queue<T, R>) {
    let (sender, queue) = mpsc::channel(MAX_WAITING);
    (Desk { queue: sender, duplicates: Duplicates::default() }, Queue(queue))
}

impl<T, R> Desk<T, R> {
    /// Gives a thing to the program, once, and waits for what it says; `None` when it has taken it before. Only a thing
    /// with a name can be told from others.
    pub(crate) async fn hand_over(
        &self,
        thing: T,
        name: Option<String>,
        limit: Duration,
    ) -> Result<Option<R>, Busy> {
        let pending = match name.map(|name| self.duplicates.begin(name)) {
            None => None,
            Some(Standing::New(pending)) => Some(pending),
            Some(Standing::Pending) => return Err(Busy::Pending),
            Some(Standing::Taken) => return Ok(None),
        };
        let (answer, answered) = oneshot::channel();
        self.queue.try_send((thing, Waiting { pending, answer })).map_err(|_| Busy::Full)?;
        match timeout(limit, answered).await {
            Ok(Ok(reply)) => Ok(Some(reply)),
            _ => Err(Busy::Late),
        }
    }
}

impl<T, R> Queue<T, R> {
    /// The next thing, and who waits for it. It may be dropped at its await without losing one.
    pub(crate) async fn next(&mut self) -> Option<(T, Waiting<R>)> {
        loop {
            let (thing, waiting) = self.0.recv().await?;
            // Whoever gave up waiting was told so, or will try again.
            if !waiting.answer.is_closed() {
                return Some((thing, waiting));
            }
        }
    }
}

impl<R> Waiting<R> {
    /// It was taken: from now on the same thing is a duplicate.
    pub(crate) fn taken(self, reply: R) {
        if let Some(pending) = self.pending {
            pending.keep();
        }
        // A sender that has gone may ask again, and is told the same.
        self.answer.send(reply).ok();
    }

    /// It was not, and may come again.
    pub(crate) fn not_taken(self, reply: R) {
        // What was pending ends first, so that it may come again at once. For the sender, as above.
        drop(self.pending);
        self.answer.send(reply).ok();
    }
}
