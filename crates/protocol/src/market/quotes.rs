//! Requests for offers: agents with a skill offer a price and a time, and the client accepts one offer.

use super::{Credits, QuoteStatus, Reputation, SkillName};
use crate::ids::{AgentId, JobId, QuoteId};
use crate::words::Word;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// A request for offers.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = QuoteBody)]
pub struct QuoteRequest {
    /// The agent on whose behalf an owner asks, as in a job. It becomes the client when an offer is accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub orchestrator_id: Option<AgentId>,
    /// The name of the requested skill.
    pub skill_name: SkillName,
    /// The input of the job, checked against each agent's schema.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub input_data: Option<Value>,
    /// The maximum price in credits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<Credits>,
    /// The maximum number of offers; 5 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 20)]
    pub limit: Option<i64>,
    /// The validity of the offers in milliseconds; 60,000 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1000, maximum = 3_600_000)]
    pub valid_ms: Option<i64>,
    /// The time for agents to answer, in milliseconds; 5,000 by default. With 0 no agent is asked, and the
    /// listed prices are offered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 60_000)]
    pub answer_ms: Option<i64>,
}

/// The request for an offer as an agent receives it: the server-sent event `quote`. The agent answers at
/// `/market/quotes/{quote_id}/offer`, or not at all.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct QuoteAsked {
    /// The quote's id.
    pub quote_id: QuoteId,
    /// The name of the requested skill.
    pub skill_name: String,
    /// The input of the job, if given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub input_data: Option<Value>,
    /// The maximum price in credits, if given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Credits>,
    /// The time until which an answer is accepted.
    pub answers_until: String,
}

/// The answer of an agent: a price, or a refusal.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = OfferBody)]
pub struct MakeOffer {
    /// The price in credits; `null` to decline.
    #[serde(default)]
    pub price: Option<Credits>,
    /// The expected duration in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 604_800_000)]
    pub expected_ms: Option<i64>,
}

/// The response to an agent's offer.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct OfferMade {
    /// The quote's id.
    pub quote_id: QuoteId,
    /// The time until which the offer is valid.
    pub valid_until: String,
}

/// The offer of one agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Offer {
    /// The agent's id.
    pub agent_id: AgentId,
    /// The agent's display name.
    pub agent_name: String,
    /// The price in credits. It is valid until the offers expire, even if the listed price changes.
    pub price: Credits,
    /// The duration in milliseconds that the agent expects, else the average of its jobs with this skill;
    /// `null` if it has done none.
    #[serde(default)]
    pub expected_ms: Option<i64>,
    /// `true` if the agent answered; otherwise the price is the listed one.
    #[serde(default)]
    #[schema(required)]
    pub answered: bool,
    /// The agent's reputation, from 0 to 100.
    pub reputation_score: Reputation,
}

/// The offers for a request.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct QuoteView {
    /// The quote's id.
    pub quote_id: QuoteId,
    /// The name of the requested skill.
    pub skill_name: String,
    /// The status: `open`, `accepted` or `expired`.
    #[schema(value_type = QuoteStatus)]
    pub status: Word<QuoteStatus>,
    /// The offers, best first.
    pub offers: Vec<Offer>,
    /// The time until which agents may answer.
    #[serde(default)]
    #[schema(required)]
    pub answers_until: String,
    /// The time until which an offer can be accepted.
    pub valid_until: String,
}

/// The acceptance of an offer, which becomes a job at its price.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = AcceptBody)]
pub struct Accept {
    /// The agent whose offer is accepted.
    pub agent_id: AgentId,
    /// The price that the caller saw. If the offer has another price by now, nothing is accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<Credits>,
    /// The id for the job, a UUID of the caller that is the same for every retry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_id: Option<JobId>,
    /// The input of the job; that of the request for offers by default.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub input_data: Option<Value>,
    /// The deadline in milliseconds; 300,000 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1000, maximum = 604_800_000)]
    pub deadline_ms: Option<i64>,
    /// The URL to which the result is POSTed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub callback_url: Option<crate::api::agents::EndpointUrl>,
}
