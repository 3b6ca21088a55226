//! The delivery options that a C2A harness at its own address agreed to.

use crate::attention;
use bytes::Bytes;
use chorus_node::transport::dialect::told;
use chorus_store::directory::Agent;

/// The delivery options of a harness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Agreement {
    /// True if the harness answers requests, so that only a result acknowledges a delivery. Otherwise it gets
    /// notifications, and everything it did not refuse counts as delivered.
    pub answers: bool,
    /// True if the harness recognises duplicates. Otherwise nothing that may have arrived is sent again.
    pub again: bool,
}

impl Agreement {
    /// The default without any other agreement.
    pub const ALL: Self = Self { answers: true, again: true };

    /// Returns the agreement with this agent's harness.
    pub fn of(agent: &Agent) -> Self {
        let agreed = agent.harness_shows.as_deref();
        Self {
            answers: attention::has_agreed(agreed, "delivery.ack"),
            again: attention::agreed_to_repeats(agreed),
        }
    }

    /// Returns the message that carries an entry.
    pub fn message(self, request: Bytes, seq: i64) -> Bytes {
        if self.answers { request } else { told(&request, seq) }
    }
}
