//! One event that one agent was given, and the state machine that it goes through.
//!
//! The state is the disposition (`None` while the event is open) with the stage of its deadline. Two things move it. Something
//! happens to the event: [`Obligation::after`] looks up the [`Cause`] in the table of [`crate::disposition`]. Time passes:
//! [`Obligation::next_step`] names the step that is due next, by the table of [`crate::deadline`].

use crate::deadline::{Pending, Stage, Step};
use crate::disposition::{Cause, PolicyForbidden, is_final, next};
use chorus_protocol::attention::Attention;
use chorus_protocol::ids::{ConversationId, DeliveryId, EventId};
use chorus_protocol::words::Disposition;

/// The time after which a deferred event is open again.
pub const DEFERRED_MS: i64 = 60 * 60 * 1000;

/// One event that one agent was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obligation {
    /// The last delivery of the event.
    pub id: DeliveryId,
    pub event: EventId,
    pub conversation: ConversationId,
    pub attention: Attention,
    /// The time of the last delivery.
    pub sent_at: i64,
    /// The number of deliveries.
    pub sent: i64,
    /// The members and roles that the event names, as `agent:bob role:ops`.
    pub mentions: String,
    /// The message that this event is a version of (an edit), or that it is an escalation of.
    pub supersedes: Option<EventId>,
    /// The agent has acknowledged the last delivery.
    pub acked: bool,
    /// The last delivery waits to be pushed to the agent.
    pub waits: bool,
    /// The agent has an open session.
    pub connected: bool,
    /// The time at which the event entered a turn of the model.
    pub injected_at: Option<i64>,
    pub reminded_at: Option<i64>,
    pub escalated_at: Option<i64>,
    pub disposition: Option<Disposition>,
    /// The time at which a claim or a deferral ends.
    pub until_at: Option<i64>,
    /// The time at which the reconciler looks at it again.
    pub next_at: Option<i64>,
}

impl Obligation {
    /// Returns the message that the event is, or is a version or an escalation of.
    pub fn message(&self) -> EventId {
        self.supersedes.unwrap_or(self.event)
    }

    /// Returns `true` if nothing more is expected of the agent.
    pub fn is_over(&self) -> bool {
        self.disposition.is_some_and(is_final)
    }

    /// Returns `true` if the agent has said what it had to say to the event.
    pub fn was_answered(&self) -> bool {
        matches!(self.disposition, Some(Disposition::Responded | Disposition::Acknowledged))
    }

    /// Returns what the deadlines look at. A reminder is sent at the deadline and starts its own time.
    pub fn pending(&self) -> Pending {
        let stage = match (self.reminded_at, self.escalated_at) {
            (_, Some(at)) => Stage::Escalated(at),
            (Some(at), None) => Stage::Reminded(at),
            (None, None) => Stage::InTime,
        };
        Pending {
            policy: self.attention.policy,
            since_ms: self.sent_at,
            deadline_ms: self.attention.deadline_ms,
            attempt: u32::try_from(self.sent).unwrap_or(u32::MAX),
            sent_at_ms: self.sent_at,
            acked: self.acked,
            connected: self.connected,
            stage,
            disposition: self.disposition,
            until_ms: self.until_at.unwrap_or(self.sent_at),
        }
    }

    /// Returns the reconciler's next step and its time; `None` once the event is done with.
    ///
    /// Redelivery of unacknowledged events is left out: the agent's session does that, or the pusher.
    pub fn next_step(&self) -> Option<(Step, i64)> {
        Pending { connected: false, ..self.pending() }.next_step()
    }

    /// Returns the obligation with the time of its next step.
    pub fn scheduled(self) -> Self {
        let next_at = self.next_step().map(|(_, at)| at);
        Self { next_at, ..self }
    }

    /// Returns the obligation after something happened to the event; `None` if that changes nothing. `until` is the end of
    /// a claim. The policy may forbid what happened.
    pub fn after(&self, cause: Cause, until: Option<i64>, now: i64) -> Result<Option<Self>, PolicyForbidden> {
        let disposition = next(self.attention.policy, self.disposition, cause)?;
        let until_at = match disposition {
            Some(Disposition::Claimed) => until.or(self.until_at),
            Some(Disposition::Deferred) if self.disposition == disposition => self.until_at,
            Some(Disposition::Deferred) => Some(now + DEFERRED_MS),
            _ => None,
        };
        if disposition == self.disposition && until_at == self.until_at {
            return Ok(None);
        }
        let after = Self { disposition, until_at, ..self.clone() };
        let next_at = after.pending().next_step().map(|(_, at)| at.max(now));
        Ok(Some(Self { next_at, ..after }))
    }

    /// Returns the obligation without its disposition, with all its time, after a claim or a deferral ended.
    pub fn reopened(&self) -> Self {
        Self { disposition: None, until_at: None, reminded_at: None, next_at: None, ..self.clone() }
    }

    /// Returns `true` if the agent will do nothing about the event: it keeps the event from nobody else.
    pub fn gives_up(&self) -> bool {
        matches!(self.disposition, Some(Disposition::Ignored | Disposition::Failed))
    }
}
