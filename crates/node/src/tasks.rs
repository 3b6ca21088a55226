//! Work that outlives a request: background tasks, and work that must end although its caller has gone.

pub mod background;
pub mod blocking;
pub mod detached;

use std::sync::Arc;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The tasks of a node, and the signals that they wait for.
pub struct Tasks {
    /// Tasks that must end even if their caller has gone.
    pub tracker: TaskTracker,
    /// Cancelled when the hub stops; streams end on it.
    pub stopping: CancellationToken,
    /// Wakes the pusher: a delivery may be due.
    pub push_due: Arc<Notify>,
    /// Wakes the reconciler of search words: an agent's offers changed.
    pub skill_words_due: Arc<Notify>,
}

impl Tasks {
    pub fn new(stopping: CancellationToken) -> Self {
        Self {
            tracker: TaskTracker::new(),
            stopping,
            push_due: Arc::default(),
            skill_words_due: Arc::default(),
        }
    }
}
