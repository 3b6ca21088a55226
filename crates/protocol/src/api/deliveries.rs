//! Deliveries as owners see them: what is on its way, what is tried anew, and how far an event came.

use crate::words::{
    DeliveryState, Directedness, Disposition, EntryKind, Mode, Policy, Reason, Transport, words,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A delivery.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct DeliveryView {
    /// Its id.
    #[schema(example = "dlv_0190a3c4d5e67f8090a1b2c3d4e5f607_12")]
    pub id: String,
    /// Of which event.
    pub event_id: String,
    /// In which conversation.
    pub channel: String,
    /// To whom.
    pub agent: RecipientAgent,
    /// `chat`, or `channel` for another service's message.
    #[schema(value_type = String)]
    pub kind: EntryKind,
    /// `inbox`, `webhook` or `channel`.
    #[schema(value_type = String)]
    pub transport: Transport,
    /// `queued`, `delivered_sse`, `waiting`, `delivered`, `failed` or `dead`.
    #[schema(value_type = String)]
    pub state: DeliveryState,
    /// Why it goes to this agent.
    #[schema(value_type = Option<String>)]
    pub reason: Option<Reason>,
    /// How often it was tried, since it was replayed if it was.
    pub attempts: i64,
    /// When it is tried next.
    pub next_try: Option<String>,
    /// What went wrong last.
    pub error: Option<String>,
    /// When it was stored.
    pub created_at: String,
    /// Its place in the list; it goes out as `next`.
    #[serde(skip)]
    pub cursor: String,
}

/// To whom.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct RecipientAgent {
    /// The agent's id.
    pub id: String,
    /// Its address.
    pub address: String,
}

/// A delivery that is tried anew.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ReplayView {
    /// Which.
    pub id: String,
    /// `waiting`.
    #[schema(value_type = String)]
    pub state: DeliveryState,
}

/// How many deliveries are tried anew.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ReplayedView {
    /// So many.
    pub replayed: u64,
    /// Whether there are more: at most 1000 are replayed at a time.
    pub more: bool,
}

/// How far an event came on its way to one agent.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct LadderDelivery {
    /// Its id.
    pub id: String,
    /// To whom.
    pub recipient: Recipient,
    /// `inbox`, `webhook` or `channel`.
    #[schema(value_type = String)]
    pub transport: Transport,
    /// To whom it is directed: `to_me` or `to_my_role`.
    #[schema(value_type = String)]
    pub directedness: Directedness,
    /// What is expected of the agent: `must_respond` or `may_respond`.
    #[schema(value_type = String)]
    pub policy: Policy,
    /// When it enters the agent's work: `immediate`, or `buffered` after a pause of its author.
    #[schema(value_type = String)]
    pub mode: Mode,
    /// Why it goes to this agent.
    #[schema(value_type = Option<String>)]
    pub reason: Option<Reason>,
    /// How it stands.
    #[schema(value_type = String)]
    pub state: DeliveryState,
    /// The rungs it has reached, in order.
    pub rungs: Vec<StepView>,
    /// The tries, the first first.
    pub attempts: Vec<AttemptView>,
    /// How often a C2A session was sent it, this delivery and those of the event before it.
    #[serde(default)]
    #[schema(nullable)]
    pub sent: i64,
    /// What the agent made of it: `responded`, `failed` or `ignored`.
    #[schema(value_type = Option<String>)]
    pub disposition: Option<Disposition>,
    /// Why, in the agent's own words, if it said so. Credentials in it are masked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disposition_reason: Option<String>,
}

/// To whom, as its conversation knows it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Recipient {
    /// The agent's id.
    pub id: String,
    /// What it is called there.
    pub handle: String,
}

words! {
    /// How far a delivery came.
    pub enum Rung {
        /// It is committed.
        Stored = "stored",
        /// It was given to the agent's connection or endpoint.
        Handed = "handed",
        /// The agent said that it has it.
        Acked = "acked",
        /// It entered the agent's work.
        Injected = "injected",
        /// The agent said what it made of it.
        Dispositioned = "dispositioned",
        /// It did not arrive.
        Failed = "failed",
        /// It was given up.
        Dead = "dead",
    }
}

/// A rung of the ladder.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct StepView {
    /// `stored`, `handed`, `acked`, `injected`, `dispositioned`, `failed` or `dead`.
    #[schema(value_type = String)]
    pub rung: Rung,
    /// When, if that was noted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A try.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct AttemptView {
    /// When it began.
    pub at: String,
    /// What the receiver answered.
    pub status: Option<i64>,
    /// How long it took.
    pub latency_ms: i64,
    /// Why it did not succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
