//! Receipts: issuing and comparing them, for owners; reading them and the transparency log, for everybody.

use crate::answers::own::{Doing, Invalid, Missing, Overloaded, Reading, TooFast};
use crate::error::ApiError;
use crate::extract::{Context, Holder, Idempotent, MaybeSent, Person, Query, Sent, done};
use crate::route::{Credentials, ForeignPages, Route};
use crate::routes::Routes;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use chorus_app::AppState;
use chorus_app::choir::{log, receipts};
use chorus_protocol::api::scores::{
    AttestationForm, CompareBody, ComparisonLink, Growth, IssuedReceipt, ReceiptBody, ReceiptLine,
};
use chorus_protocol::api::{Items, Page};
use chorus_protocol::choir::receipt::Receipt;
use serde_json::Value;
use utoipa_axum::routes;

/// The same for everybody, whatever key is shown and whatever page asks.
pub(super) const PUBLIC: Route =
    Route { credentials: Credentials::Ignored, foreign_pages: ForeignPages::Allowed, ..Route::API };

pub(super) fn routes() -> Routes {
    Routes::default()
        .at(Route::API, routes!(issue, list))
        .at(Route::API, routes!(compare))
        .at(PUBLIC, routes!(show))
        .at(PUBLIC, routes!(attestation))
        .at(PUBLIC, routes!(checkpoint))
        .at(PUBLIC, routes!(inclusion))
        .at(PUBLIC, routes!(consistency))
}

/// Issue a receipt
///
/// It is public on its id, which nobody can guess, and it publishes a snapshot of the Score, although the Score itself stays
/// private. `evidence` is `latest` (all of the strongest class since the Score's last version), `none`, or ids of one class.
#[utoipa::path(post, path = "/api/v1/scores/{id}/receipts", operation_id = "issue_receipt", tag = "choir", security(("key" = [])),
    params(("id" = String, Path, description = "The Score's id"), Idempotent),
    request_body = ReceiptBody,
    responses((status = 201, description = "Issued, and in the transparency log", body = IssuedReceipt), Doing))]
async fn issue(
    State(app): State<AppState>,
    Holder(caller): Holder,
    Context(context): Context,
    Path(id): Path<String>,
    MaybeSent { body, once }: MaybeSent<ReceiptBody>,
) -> Result<Response, ApiError> {
    Ok(done(StatusCode::CREATED, receipts::issue(&app, context, caller, &id, body, once).await?))
}

/// List a Score's receipts
///
/// The newest first.
#[utoipa::path(get, path = "/api/v1/scores/{id}/receipts", operation_id = "list_receipts", tag = "choir", security(("key" = [])),
    params(("id" = String, Path, description = "The Score's id"), Page),
    responses((status = 200, description = "A page", body = Items<ReceiptLine>), Invalid, Reading))]
async fn list(
    State(app): State<AppState>,
    Holder(caller): Holder,
    Path(id): Path<String>,
    Query(page): Query<Page>,
) -> Result<Json<Items<ReceiptLine>>, ApiError> {
    Ok(Json(receipts::list(&app, caller, &id, page).await?))
}

/// Make a public link to two receipts side by side
///
/// By whoever owns the Scores of both.
#[utoipa::path(post, path = "/api/v1/compare", operation_id = "publish_comparison", tag = "choir", security(("key" = [])),
    params(Idempotent),
    request_body = CompareBody,
    responses((status = 201, description = "Made", body = ComparisonLink), Doing))]
async fn compare(
    State(app): State<AppState>,
    Person(person): Person,
    Sent { body, once }: Sent<CompareBody>,
) -> Result<Response, ApiError> {
    Ok(done(StatusCode::CREATED, receipts::publish_comparison(&app, person.id, body, once).await?))
}

/// Read a receipt
///
/// With its place in the transparency log and its signed attestation.
#[utoipa::path(get, path = "/api/v1/receipts/{id}", operation_id = "show_receipt", tag = "choir",
    params(("id" = String, Path, description = "The receipt's id")),
    responses((status = 200, description = "The receipt", body = Receipt), Missing, TooFast, Overloaded))]
async fn show(State(app): State<AppState>, Path(id): Path<String>) -> Result<Json<Receipt>, ApiError> {
    Ok(Json(receipts::show(&app, &id).await?))
}

/// Read a receipt as a signed in-toto statement
#[utoipa::path(get, path = "/api/v1/receipts/{id}/attestation", operation_id = "show_attestation", tag = "choir",
    params(("id" = String, Path, description = "The receipt's id"), AttestationForm),
    responses((status = 200, description = "An envelope of DSSE", body = Object), Invalid, Missing, TooFast, Overloaded))]
async fn attestation(
    State(app): State<AppState>,
    Path(id): Path<String>,
    Query(form): Query<AttestationForm>,
) -> Result<Json<Value>, ApiError> {
    Ok(Json(receipts::attestation(&app, &id, form.predicate.as_deref()).await?))
}

/// The head of the transparency log
///
/// A signed note: origin, size, root, and a signature by a key of `/.well-known/chorus-keys.json`.
#[utoipa::path(get, path = "/api/v1/log/checkpoint", operation_id = "log_checkpoint", tag = "choir",
    responses((status = 200, description = "The note", body = String, content_type = "text/plain"), TooFast, Overloaded))]
async fn checkpoint(State(app): State<AppState>) -> Result<Response, ApiError> {
    let note = log::checkpoint(&app).await?;
    Ok(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], note).into_response())
}

/// Where a receipt stands in the log
#[utoipa::path(get, path = "/api/v1/log/inclusion/{receipt}", operation_id = "log_inclusion", tag = "choir",
    params(("receipt" = String, Path, description = "The receipt's id")),
    responses((status = 200, description = "The leaf, its index, the path to the root and the checkpoint", body = Object),
              Missing, TooFast, Overloaded))]
async fn inclusion(State(app): State<AppState>, Path(id): Path<String>) -> Result<Json<Value>, ApiError> {
    Ok(Json(receipts::inclusion(&app, &id).await?))
}

/// That the log only grew
#[utoipa::path(get, path = "/api/v1/log/consistency", operation_id = "log_consistency", tag = "choir",
    params(Growth),
    responses((status = 200, description = "The proof, and both roots", body = Object), Invalid, TooFast, Overloaded))]
async fn consistency(
    State(app): State<AppState>,
    Query(growth): Query<Growth>,
) -> Result<Json<Value>, ApiError> {
    Ok(Json(log::consistency(&app, growth.from, growth.to).await?))
}
