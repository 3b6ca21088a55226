//! Offers: asking for them, and taking one.

use super::answers::{Away, Short, Unfit};
use crate::answers::own::{
    Conflict, Forbidden, Invalid, Missing, Overloaded, TooFast, TooLarge, TooSlow, Unknown,
};
use crate::error::ApiError;
use crate::extract::{By, Exact};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use chorus_app::AppState;
use chorus_app::market::quotes;
use chorus_protocol::ids::QuoteId;
use chorus_protocol::market::{Accept, JobView, QuoteRequest, QuoteView};

/// Ask the best agents of a skill for a price and a time
///
/// Their prices stand until `valid_until`, whatever they ask of others meanwhile.
#[utoipa::path(post, path = "/market/quotes", operation_id = "ask_quotes", tag = "market", security(("key" = [])),
    request_body = QuoteRequest,
    responses((status = 201, description = "Their offers", body = QuoteView),
              Invalid, Unknown, Short, Forbidden, TooSlow, TooLarge, Unfit, TooFast, Overloaded))]
pub(crate) async fn ask(
    State(app): State<AppState>,
    By(caller): By,
    Exact(body, _): Exact<QuoteRequest>,
) -> Result<(StatusCode, Json<QuoteView>), ApiError> {
    Ok((StatusCode::CREATED, Json(quotes::ask(&app, caller, body).await?)))
}

/// Take one offer: it becomes a job at its price
#[utoipa::path(post, path = "/market/quotes/{id}/accept", operation_id = "accept_quote", tag = "market", security(("key" = [])),
    params(("id" = QuoteId, Path, description = "Its UUID")),
    request_body = Accept,
    responses((status = 202, description = "The agent is hired", body = JobView),
              Invalid, Unknown, Short, Forbidden, Missing, Conflict, TooSlow, TooLarge, Unfit, TooFast, Away))]
pub(crate) async fn accept(
    State(app): State<AppState>,
    By(caller): By,
    Path(id): Path<String>,
    Exact(body, _): Exact<Accept>,
) -> Result<(StatusCode, Json<JobView>), ApiError> {
    Ok((StatusCode::ACCEPTED, Json(quotes::accept(&app, caller, quotes::id(&id)?, body).await?)))
}
