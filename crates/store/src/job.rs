//! A unit of work on its way through the store's threads: the closure, and the promise of its answer.
//!
//! The answer is kept back until the commit is known: `run` computes it, `finish` delivers it, or the reason why
//! there is none.

use crate::{StoreError, Tx};
use std::panic::{AssertUnwindSafe, catch_unwind};
use tokio::sync::oneshot;

/// What the threads see of a task.
pub(crate) trait Job: Send {
    /// Does the work and says whether to keep its changes.
    fn run(&mut self, tx: &mut dyn Tx) -> bool;
    /// Answers the caller: with the result of the last run, or with the failure of the commit.
    fn finish(self: Box<Self>, committed: Result<(), StoreError>);
}

struct Task<T, E, F> {
    work: F,
    result: Option<Result<T, E>>,
    answer: oneshot::Sender<Result<T, E>>,
}

/// Packs `work`, and returns where its answer will arrive.
pub(crate) fn task<T, E, F>(work: F) -> (Box<dyn Job>, oneshot::Receiver<Result<T, E>>)
where
    F: Fn(&mut dyn Tx) -> Result<T, E> + Send + 'static,
    T: Send + 'static,
    E: From<StoreError> + Send + 'static,
{
    let (answer, receiver) = oneshot::channel();
    (Box::new(Task { work, result: None, answer }), receiver)
}

impl<T, E, F> Job for Task<T, E, F>
where
    F: Fn(&mut dyn Tx) -> Result<T, E> + Send,
    T: Send,
    E: From<StoreError> + Send,
{
    fn run(&mut self, tx: &mut dyn Tx) -> bool {
        // A panic fails this work, not the thread it shares with everybody else's.
        let result = catch_unwind(AssertUnwindSafe(|| (self.work)(tx)))
            .unwrap_or_else(|_| Err(StoreError::Panicked.into()));
        let keep = result.is_ok();
        self.result = Some(result);
        keep
    }

    fn finish(self: Box<Self>, committed: Result<(), StoreError>) {
        let result = match (committed, self.result) {
            (Ok(()), Some(result)) => result,
            (Ok(()), None) => Err(StoreError::Closed.into()),
            (Err(error), _) => Err(error.into()),
        };
        // A caller that stopped waiting is no fault: the work is done either way.
        drop(self.answer.send(result));
    }
}
