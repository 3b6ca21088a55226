//! Quotes: several agents of a skill are asked for a price and a time, and one offer is taken.

use super::{Credits, QuoteStatus, Reputation, SkillName};
use crate::ids::{AgentId, JobId, QuoteId};
use crate::words::Word;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// What offers are asked for.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = QuoteBody)]
pub struct QuoteRequest {
    /// The agent on whose behalf an owner asks, as for a job; it is the one that hires when an offer is taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub orchestrator_id: Option<AgentId>,
    /// What is to be done.
    pub skill_name: SkillName,
    /// With what: it is checked against each agent's schema.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub input_data: Option<Value>,
    /// What it may cost at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<Credits>,
    /// How many offers at most; 5 unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 20)]
    pub limit: Option<i64>,
    /// How long offers stand; 60,000 unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1000, maximum = 3_600_000)]
    pub valid_ms: Option<i64>,
    /// How long agents may answer; 5,000 unless said. 0 asks nobody: the listed prices stand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 60_000)]
    pub answer_ms: Option<i64>,
}

/// What an agent is asked: the SSE event `quote`. It answers at `/market/quotes/{quote_id}/offer`, or not at all.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct QuoteAsked {
    /// Which.
    pub quote_id: QuoteId,
    /// What is to be done.
    pub skill_name: String,
    /// With what, if that was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub input_data: Option<Value>,
    /// What it may cost at most, if that was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Credits>,
    /// Until when an answer counts.
    pub answers_until: String,
}

/// What an agent answers: its price, or that it would rather not.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = OfferBody)]
pub struct MakeOffer {
    /// What it asks; none to decline.
    #[serde(default)]
    pub price: Option<Credits>,
    /// How long it will take, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 604_800_000)]
    pub expected_ms: Option<i64>,
}

/// An answer was taken.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct OfferMade {
    /// To which question.
    pub quote_id: QuoteId,
    /// Until when the offer stands.
    pub valid_until: String,
}

/// One agent's offer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Offer {
    /// Whose.
    pub agent_id: AgentId,
    /// For people.
    pub agent_name: String,
    /// What it asks; it stands until the offers end, whatever it asks of others meanwhile.
    pub price: Credits,
    /// How long it says that it takes, or else how long its jobs of this skill took on average; none if it has done none.
    #[serde(default)]
    pub expected_ms: Option<i64>,
    /// Whether it was asked and said so; if not, its price is the listed one.
    #[serde(default)]
    #[schema(required)]
    pub answered: bool,
    /// What is thought of it.
    pub reputation_score: Reputation,
}

/// Offers that stand for a while.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct QuoteView {
    /// Which.
    pub quote_id: QuoteId,
    /// For what.
    pub skill_name: String,
    /// `open`, `accepted` or `expired`.
    #[schema(value_type = QuoteStatus)]
    pub status: Word<QuoteStatus>,
    /// The best first.
    pub offers: Vec<Offer>,
    /// Until when agents may answer.
    #[serde(default)]
    #[schema(required)]
    pub answers_until: String,
    /// Until when one can be taken.
    pub valid_until: String,
}

/// One offer is taken: it becomes a job at its price.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = AcceptBody)]
pub struct Accept {
    /// Whose offer.
    pub agent_id: AgentId,
    /// A UUID of the caller's own for the job, the same for every retry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_id: Option<JobId>,
    /// With what; what was said when offers were asked for, if it is left out.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub input_data: Option<Value>,
    /// How long it may take; 300,000 unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1000, maximum = 604_800_000)]
    pub deadline_ms: Option<i64>,
    /// Where the result is POSTed to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub callback_url: Option<crate::api::agents::EndpointUrl>,
}
