//! The queue between senders and the program: received items wait for the program, and their senders wait for
//! its reply.
//!
//! Each item is handed over once; an accepted one is a duplicate from then on. The number of items and the
//! time that a sender waits are bounded. An item whose sender has gone is dropped.

use super::duplicates::{Duplicates, Pending, Standing};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// The number of items that may wait for the program.
const MAX_WAITING: usize = 64;

/// The senders' side: items of type `T` that are answered by an `R`.
#[derive(Debug)]
pub(crate) struct Desk<T, R> {
    queue: mpsc::Sender<(T, Waiting<R>)>,
    duplicates: Duplicates,
}

/// The program's side.
#[derive(Debug)]
pub(crate) struct Queue<T, R>(mpsc::Receiver<(T, Waiting<R>)>);

/// A sender that waits. Dropping this asks it to try again.
#[derive(Debug)]
pub(crate) struct Waiting<R> {
    pending: Option<Pending>,
    answer: oneshot::Sender<R>,
}

/// The reason why an item was not accepted. It may be later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Busy {
    /// The program is processing it.
    Pending,
    /// Too many others wait.
    Full,
    /// The program gave no reply in time.
    Late,
}

/// Creates the two sides of a desk.
pub(crate) fn desk<T, R>() -> (Desk<T, R>, Queue<T, R>) {
    let (sender, queue) = mpsc::channel(MAX_WAITING);
    (Desk { queue: sender, duplicates: Duplicates::default() }, Queue(queue))
}

impl<T, R> Desk<T, R> {
    /// Hands an item to the program, once, and waits for its reply. Returns `None` if the item was accepted
    /// before. An item without a name is never a duplicate.
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
    /// Waits for the next item and its sender. Dropping the future loses no item.
    pub(crate) async fn next(&mut self) -> Option<(T, Waiting<R>)> {
        loop {
            let (thing, waiting) = self.0.recv().await?;
            // A sender that gave up waiting was told so, or will try again.
            if !waiting.answer.is_closed() {
                return Some((thing, waiting));
            }
        }
    }
}

impl<R> Waiting<R> {
    /// Accepts the item. From now on the same item is a duplicate.
    pub(crate) fn taken(self, reply: R) {
        if let Some(pending) = self.pending {
            pending.keep();
        }
        // A sender that has gone may ask again, and gets the same answer.
        self.answer.send(reply).ok();
    }

    /// Does not accept the item, which may come again.
    pub(crate) fn not_taken(self, reply: R) {
        // The pending state ends first, so that the item may come again at once. A sender may have gone, as
        // above.
        drop(self.pending);
        self.answer.send(reply).ok();
    }
}
