//! Deliveries as owners see them: pending deliveries, replays, and the progress of an event.

use crate::words::{
    DeliveryState, Directedness, Disposition, EntryKind, Mode, Policy, Reason, Transport, words,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A delivery of one event to one agent.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct DeliveryView {
    /// The delivery's id.
    #[schema(example = "dlv_0190a3c4d5e67f8090a1b2c3d4e5f607_12")]
    pub id: String,
    /// The id of the delivered event.
    pub event_id: String,
    /// The conversation of the event.
    pub channel: String,
    /// The recipient.
    pub agent: RecipientAgent,
    /// The kind of entry: `chat`, or `channel` for another service's message.
    #[schema(value_type = String)]
    pub kind: EntryKind,
    /// The transport: `inbox`, `harness`, `webhook` or `channel`.
    #[schema(value_type = String)]
    pub transport: Transport,
    /// The state: `queued`, `delivered_sse`, `waiting`, `delivered`, `failed` or `dead`.
    #[schema(value_type = String)]
    pub state: DeliveryState,
    /// The reason for the delivery to this agent.
    #[schema(value_type = Option<String>)]
    pub reason: Option<Reason>,
    /// The number of attempts since the delivery was created or last replayed.
    pub attempts: i64,
    /// The time of the next attempt.
    pub next_try: Option<String>,
    /// The error of the last attempt.
    pub error: Option<String>,
    /// The time at which it was stored.
    pub created_at: String,
    /// The delivery's position in the list, sent as `next`.
    #[serde(skip)]
    pub cursor: String,
}

/// The recipient of a delivery.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct RecipientAgent {
    /// The agent's id.
    pub id: String,
    /// The agent's address.
    pub address: String,
}

/// A delivery that is being replayed.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ReplayView {
    /// The delivery's id.
    pub id: String,
    /// The new state, `waiting`.
    #[schema(value_type = String)]
    pub state: DeliveryState,
}

/// The result of replaying several deliveries.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ReplayedView {
    /// The number of deliveries being replayed.
    pub replayed: u64,
    /// `true` if there are more: one request replays at most 1000.
    pub more: bool,
}

/// The progress of an event's delivery to one agent.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct LadderDelivery {
    /// The delivery's id.
    pub id: String,
    /// The recipient.
    pub recipient: Recipient,
    /// The transport: `inbox`, `harness`, `webhook` or `channel`.
    #[schema(value_type = String)]
    pub transport: Transport,
    /// The target of the event as seen by the agent: `to_me` or `to_my_role`.
    #[schema(value_type = String)]
    pub directedness: Directedness,
    /// The response expected of the agent: `must_respond` or `may_respond`.
    #[schema(value_type = String)]
    pub policy: Policy,
    /// The way in which it enters the agent's work: `immediate`, or `buffered` until its author pauses.
    #[schema(value_type = String)]
    pub mode: Mode,
    /// The reason for the delivery to this agent.
    #[schema(value_type = Option<String>)]
    pub reason: Option<Reason>,
    /// The state of the delivery.
    #[schema(value_type = String)]
    pub state: DeliveryState,
    /// The steps reached so far, in order.
    pub rungs: Vec<StepView>,
    /// The attempts, oldest first.
    pub attempts: Vec<AttemptView>,
    /// The number of times the event was sent to a C2A session, including earlier deliveries of the same
    /// event.
    #[serde(default)]
    #[schema(nullable)]
    pub sent: i64,
    /// The agent's disposition: `responded`, `failed` or `ignored`.
    #[schema(value_type = Option<String>)]
    pub disposition: Option<Disposition>,
    /// The agent's reason for the disposition. Credentials in it are masked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disposition_reason: Option<String>,
}

/// The recipient of a delivery, with its handle.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Recipient {
    /// The agent's id.
    pub id: String,
    /// The agent's handle in the conversation.
    pub handle: String,
}

words! {
    /// A step in the progress of a delivery.
    pub enum Rung {
        /// The delivery is committed.
        Stored = "stored",
        /// The delivery was sent to the agent's connection or endpoint.
        Handed = "handed",
        /// The agent acknowledged the delivery.
        Acked = "acked",
        /// The event entered the agent's work.
        Injected = "injected",
        /// The agent reported its disposition.
        Dispositioned = "dispositioned",
        Failed = "failed",
        /// The hub gave up.
        Dead = "dead",
    }
}

/// A step that a delivery has reached.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct StepView {
    /// The step: `stored`, `handed`, `acked`, `injected`, `dispositioned`, `failed` or `dead`.
    #[schema(value_type = String)]
    pub rung: Rung,
    /// The time of the step, if recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// The reason for a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// An attempt to deliver.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct AttemptView {
    /// The time at which the attempt began.
    pub at: String,
    /// The HTTP status of the response.
    pub status: Option<i64>,
    /// The duration of the attempt in milliseconds.
    pub latency_ms: i64,
    /// The error, if the attempt failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
