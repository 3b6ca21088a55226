//! Work that is done side by side: so much at a time, some more waits for its turn, and what comes then is turned away.

use futures_util::future::BoxFuture;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// So much waits for its turn.
pub(super) const WAITING: usize = 256;

/// Where work waits for its turn.
#[derive(Debug, Clone)]
pub(crate) struct WorkQueue(mpsc::Sender<BoxFuture<'static, ()>>);

/// Why work was turned away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TurnedAway {
    #[error("too many wait")]
    Full,
    #[error("the agent ends")]
    Ended,
}

impl WorkQueue {
    /// A queue, and what does the work in it: whatever is being done ends with that.
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
