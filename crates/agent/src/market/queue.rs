//! A bounded work queue: a fixed number of tasks runs in parallel, some more wait, and further ones are
//! refused.

use futures_util::future::BoxFuture;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// The number of tasks that may wait.
pub(super) const WAITING: usize = 256;

/// A handle to the queue.
#[derive(Debug, Clone)]
pub(crate) struct WorkQueue(mpsc::Sender<BoxFuture<'static, ()>>);

/// The reason why a task was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TurnedAway {
    #[error("too many wait")]
    Full,
    #[error("the agent ends")]
    Ended,
}

impl WorkQueue {
    /// Creates a queue and the future that runs its tasks. Dropping the future cancels running tasks.
    pub(crate) fn start(at_once: usize) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let (queue, mut waiting) = mpsc::channel::<BoxFuture<'static, ()>>(WAITING);
        let serve = async move {
            let mut running = JoinSet::new();
            loop {
                tokio::select! {
                    Some(_) = running.join_next() => {}
                    work = waiting.recv(), if running.len() < at_once => match work {
                        Some(work) => drop(running.spawn(work)),
                        None => return,
                    },
                }
            }
        };
        (Self(queue), serve)
    }

    pub(crate) fn put(&self, work: impl Future<Output = ()> + Send + 'static) -> Result<(), TurnedAway> {
        self.0.try_send(Box::pin(work)).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => TurnedAway::Full,
            mpsc::error::TrySendError::Closed(_) => TurnedAway::Ended,
        })
    }
}
