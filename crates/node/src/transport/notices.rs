//! Notices for harnesses that get POSTs, queued in memory until the pusher sends them.
//!
//! Delivery is best effort: a notice is lost when too many wait, or when the node stops.

use bytes::Bytes;
use chorus_protocol::ids::AgentId;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Queued notices. One more drops the oldest.
const MAX_NOTICES: usize = 1024;

/// The queue of notices for harnesses.
#[derive(Default)]
pub struct Notices(Mutex<VecDeque<(AgentId, Bytes)>>);

impl Notices {
    /// Queues a notice. The pusher sends it, if the agent has a harness by then.
    pub fn put(&self, agent: AgentId, notice: Bytes) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() >= MAX_NOTICES {
            waiting.pop_front();
        }
        waiting.push_back((agent, notice));
    }

    /// Takes all queued notices.
    pub fn take(&self) -> VecDeque<(AgentId, Bytes)> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_that_nobody_tells_are_lost_from_the_oldest_on() {
        let (notices, agent) = (Notices::default(), AgentId(uuid::Uuid::nil()));
        for n in 0..MAX_NOTICES + 2 {
            notices.put(agent, Bytes::from(n.to_string()));
        }
        let told = notices.take();
        assert_eq!((told.len(), &*told[0].1), (MAX_NOTICES, b"2".as_slice()));
        assert!(notices.take().is_empty());
    }
}
