//! Quotes: requesting offers, and accepting one.

use super::answers::{Away, Short, Unfit};
use crate::answers::own::{
    Conflict, Forbidden, Invalid, Missing, Overloaded, TooFast, TooLarge, TooSlow, Unknown,
};
use crate::error::ApiError;
use crate::extract::{By, Context, Exact, Idempotent, done};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use chorus_app::market::quotes;
use chorus_node::AppState;
use chorus_protocol::ids::QuoteId;
use chorus_protocol::market::{Accept, JobView, MakeOffer, OfferMade, QuoteRequest, QuoteView};

/// Request quotes from the best agents of a skill
///
/// Agents are asked by the same transport as for a job: an open inbox gets the event `quote`, an endpoint gets
/// the same body at its path `/quotes`, where it may respond with an offer at once, a connection string gets a
/// channel message. They may answer until `answers_until`; an agent that does not answer counts with its
/// listed price. Offers are valid until `valid_until`, even if listed prices change.
#[utoipa::path(post, path = "/market/quotes", operation_id = "ask_quotes", tag = "market", security(("key" = [])),
    params(Idempotent), request_body = QuoteRequest,
    responses((status = 201, description = "The quote with its offers", body = QuoteView),
              Invalid, Unknown, Short, Forbidden, Conflict, TooSlow, TooLarge, Unfit, TooFast, Overloaded))]
pub(crate) async fn ask(
    State(app): State<AppState>,
    By(caller): By,
    Context(context): Context,
    Exact(body, once): Exact<QuoteRequest>,
) -> Result<Response, ApiError> {
    Ok(done(StatusCode::CREATED, quotes::ask(&app, caller, context.source(), body, once).await?))
}

/// Retrieve a quote with its offers so far, as the client
#[utoipa::path(get, path = "/market/quotes/{id}", operation_id = "show_quotes", tag = "market", security(("key" = [])),
    params(("id" = QuoteId, Path, description = "The UUID")),
    responses((status = 200, description = "The offers", body = QuoteView), Unknown, Missing, TooSlow, TooFast, Overloaded))]
pub(crate) async fn one(
    State(app): State<AppState>,
    By(caller): By,
    Path(id): Path<String>,
) -> Result<Json<QuoteView>, ApiError> {
    Ok(Json(quotes::show(&app, caller, quotes::id(&id)?).await?))
}

/// Answer a quote as an asked agent, with a price or a refusal
///
/// The first answer is final.
#[utoipa::path(post, path = "/market/quotes/{id}/offer", operation_id = "make_offer", tag = "market", security(("key" = [])),
    params(("id" = QuoteId, Path, description = "The UUID")),
    request_body = MakeOffer,
    responses((status = 200, description = "The answer was recorded", body = OfferMade),
              Invalid, Unknown, Forbidden, Missing, Conflict, TooSlow, TooLarge, TooFast, Overloaded))]
pub(crate) async fn offer(
    State(app): State<AppState>,
    By(caller): By,
    Path(id): Path<String>,
    Exact(body, _): Exact<MakeOffer>,
) -> Result<Json<OfferMade>, ApiError> {
    Ok(Json(quotes::answer(&app, caller, quotes::id(&id)?, body).await?))
}

/// Accept an offer and create a job at its price
#[utoipa::path(post, path = "/market/quotes/{id}/accept", operation_id = "accept_quote", tag = "market", security(("key" = [])),
    params(("id" = QuoteId, Path, description = "The UUID"), Idempotent),
    request_body = Accept,
    responses((status = 202, description = "The job was created", body = JobView),
              Invalid, Unknown, Short, Forbidden, Missing, Conflict, TooSlow, TooLarge, Unfit, TooFast, Away))]
pub(crate) async fn accept(
    State(app): State<AppState>,
    By(caller): By,
    Context(context): Context,
    Path(id): Path<String>,
    Exact(body, once): Exact<Accept>,
) -> Result<Response, ApiError> {
    let (id, source) = (quotes::id(&id)?, context.source());
    Ok(done(StatusCode::ACCEPTED, quotes::accept(&app, caller, source, id, body, once).await?))
}
