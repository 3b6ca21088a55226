//! Refusals that only the market knows, for the OpenAPI document.
#![expect(dead_code, reason = "describes answers for the OpenAPI document")]

use crate::error::OwnFailure;
use utoipa::IntoResponses;

/// `TRANSFER_FAILED`: the wallet cannot cover it
#[derive(IntoResponses)]
#[response(status = 402)]
pub(crate) struct Short(OwnFailure);

/// `SKILL_MISMATCH`: the agent does not offer the skill, or nobody does. `BUDGET_INSUFFICIENT`: it costs more
#[derive(IntoResponses)]
#[response(status = 422)]
pub(crate) struct Unfit(OwnFailure);

/// `AGENT_OFFLINE`: whoever offers the skill has shown no sign of life lately. `OVERLOADED`: nothing was stored for certain; try again
#[derive(IntoResponses)]
#[response(status = 503, headers(("Retry-After" = u64, description = "Seconds to wait")))]
pub(crate) struct Away(OwnFailure);
