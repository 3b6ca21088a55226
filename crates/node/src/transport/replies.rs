//! Senders that wait for a streamed reply on this node, by the message they wait for.
//!
//! An entry is made when the message is committed, before its receiver can know of it, and is taken by the
//! reply. An entry that no reply takes is removed when its sender's wait times out.

use chorus_protocol::ids::AgentId;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;

/// The longest a stream may last; its lease is as long.
pub const MAX_STREAM: Duration = Duration::from_mins(30);

/// One line of a reply, or the reason for its end. The data is in the form for the sender.
#[derive(Debug)]
pub enum Line {
    /// A part of the answer.
    Chunk(String),
    /// The last word, which decides the outcome.
    Last(Last),
    /// The received line is not a valid reply.
    Malformed(String),
}

/// A receiver's last word.
#[derive(Debug)]
pub enum Last {
    /// The whole answer, as the last line.
    Done(String),
    /// The reason why there is no answer.
    Error(String),
}

#[derive(Default)]
pub struct Replies {
    waiting: Mutex<HashMap<(AgentId, i64), mpsc::Sender<Line>>>,
}

impl Replies {
    /// Somebody waits for the reply to message `seq` of this agent's inbox.
    pub fn wait(&self, agent: AgentId, seq: i64, listener: mpsc::Sender<Line>) {
        let mut waiting = self.waiting();
        // Those whose sender has stopped waiting are of no use any more.
        waiting.retain(|_, listener| !listener.is_closed());
        waiting.insert((agent, seq), listener);
    }

    /// Takes the waiting sender of this reply. A second call finds none.
    pub fn take(&self, agent: AgentId, seq: i64) -> Option<mpsc::Sender<Line>> {
        self.waiting().remove(&(agent, seq)).filter(|listener| !listener.is_closed())
    }

    /// Nothing that was given to this agent to reply with is good any more.
    pub fn end(&self, agent: AgentId) {
        self.waiting().retain(|(receiver, _), _| *receiver != agent);
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<(AgentId, i64), mpsc::Sender<Line>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
