//! What a C2A harness at an address of its own agreed on of how it takes what is delivered to it.

use crate::attention;
use crate::transport::dialect::told;
use bytes::Bytes;
use chorus_store::directory::Agent;

/// How a harness takes what is delivered to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Agreement {
    /// It answers: only the result of a request says that it has it. If not, it is told, and has what it did not refuse.
    pub answers: bool,
    /// It knows what it has got already. If not, it gets nothing again that may have arrived.
    pub again: bool,
}

impl Agreement {
    /// As far as nothing else was agreed on.
    pub const ALL: Self = Self { answers: true, again: true };

    /// As it was agreed on with this agent's.
    pub fn of(agent: &Agent) -> Self {
        let agreed = agent.harness_shows.as_deref();
        Self {
            answers: attention::has_agreed(agreed, "delivery.ack"),
            again: attention::agreed_to_repeats(agreed),
        }
    }

    /// The message that brings an entry.
    pub fn message(self, request: Bytes, seq: i64) -> Bytes {
        if self.answers { request } else { told(&request, seq) }
    }
}
