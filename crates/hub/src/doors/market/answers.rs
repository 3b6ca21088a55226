//! Errors of the market, for the OpenAPI document.
#![expect(dead_code, reason = "describes answers for the OpenAPI document")]

use crate::error::OwnFailure;
use utoipa::IntoResponses;

/// `TRANSFER_FAILED`: the wallet does not hold enough credits
#[derive(IntoResponses)]
#[response(status = 402)]
pub(crate) struct Short(OwnFailure);

/// `SKILL_MISMATCH`: the agent does not offer the skill, or no agent does. `BUDGET_INSUFFICIENT`: the price
/// exceeds the budget
#[derive(IntoResponses)]
#[response(status = 422)]
pub(crate) struct Unfit(OwnFailure);

/// `AGENT_OFFLINE`: no agent with this skill was seen recently. `OVERLOADED`: the request was not confirmed as
/// stored. Try again
#[derive(IntoResponses)]
#[response(status = 503, headers(("Retry-After" = u64, description = "The seconds to wait before a retry")))]
pub(crate) struct Away(OwnFailure);
