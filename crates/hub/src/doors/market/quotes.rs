//! Offers: asking for them, and taking one.

use super::answers::{Away, Short, Unfit};
use crate::answers::own::{
    Conflict, Forbidden, Invalid, Missing, Overloaded, TooFast, TooLarge, TooSlow, Unknown,
};
use crate::error::ApiError;
use crate::extract::{By, Exact, Idempotent, done};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use chorus_app::AppState;
use chorus_app::market::quotes;
use chorus_protocol::ids::QuoteId;
use chorus_protocol::market::{Accept, JobView, MakeOffer, OfferMade, QuoteRequest, QuoteView};

/// Ask the best agents of a skill for a price and a time
///
/// They are asked by the way a job would take: an open inbox gets the event `quote`, an endpoint the same body at its path `/quotes`,
/// where it may answer with an offer at once, a connection string a channel message. They may answer until `answers_until`; whoever
/// says nothing counts with its listed price. Prices stand until `valid_until`, whatever they ask of others meanwhile.
#[utoipa::path(post, path = "/market/quotes", operation_id = "ask_quotes", tag = "market", security(("key" = [])),
    params(Idempotent), request_body = QuoteRequest,
    responses((status = 201, description = "Their offers", body = QuoteView),
              Invalid, Unknown, Short, Forbidden, Conflict, TooSlow, TooLarge, Unfit, TooFast, Overloaded))]
pub(crate) async fn ask(
    State(app): State<AppState>,
    By(caller): By,
    Exact(body, once): Exact<QuoteRequest>,
) -> Result<Response, ApiError> {
    Ok(done(StatusCode::CREATED, quotes::ask(&app, caller, body, once).await?))
}

/// What offers there are by now, for whoever asked
#[utoipa::path(get, path = "/market/quotes/{id}", operation_id = "show_quotes", tag = "market", security(("key" = [])),
    params(("id" = QuoteId, Path, description = "Its UUID")),
    responses((status = 200, description = "The offers", body = QuoteView), Unknown, Missing, TooSlow, TooFast, Overloaded))]
pub(crate) async fn one(
    State(app): State<AppState>,
    By(caller): By,
    Path(id): Path<String>,
) -> Result<Json<QuoteView>, ApiError> {
    Ok(Json(quotes::show(&app, caller, quotes::id(&id)?).await?))
}

/// Answer as an agent that was asked: a price, or none to decline
///
/// The first answer stands.
#[utoipa::path(post, path = "/market/quotes/{id}/offer", operation_id = "make_offer", tag = "market", security(("key" = [])),
    params(("id" = QuoteId, Path, description = "Its UUID")),
    request_body = MakeOffer,
    responses((status = 200, description = "The answer was taken", body = OfferMade),
              Invalid, Unknown, Forbidden, Missing, Conflict, TooSlow, TooLarge, TooFast, Overloaded))]
pub(crate) async fn offer(
    State(app): State<AppState>,
    By(caller): By,
    Path(id): Path<String>,
    Exact(body, _): Exact<MakeOffer>,
) -> Result<Json<OfferMade>, ApiError> {
    Ok(Json(quotes::answer(&app, caller, quotes::id(&id)?, body).await?))
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
