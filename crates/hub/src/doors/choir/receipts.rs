//! Receipts: issuing and comparing them for owners; reading them and the transparency log for everybody.

use crate::answers::own::{Conflict, Doing, Invalid, Missing, Overloaded, Reading, TooFast};
use crate::error::ApiError;
use crate::extract::{Context, Holder, Idempotent, MaybeSent, Person, Query, Sent, done};
use crate::route::{Credentials, ForeignPages, Route};
use crate::routes::Routes;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use chorus_app::choir::{log, receipts};
use chorus_node::AppState;
use chorus_protocol::api::scores::{
    AttestationForm, CompareBody, ComparisonLink, Growth, IssuedReceipt, LeafRange, ReceiptBody, ReceiptLine,
};
use chorus_protocol::api::{Items, Page};
use chorus_protocol::choir::receipt::Receipt;
use serde_json::Value;
use utoipa_axum::routes;

/// Routes that are the same for everybody, with any key and from any page.
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
        .at(PUBLIC, routes!(leaves))
}

/// Issue a receipt
///
/// It is public under its id, which cannot be guessed. It publishes a snapshot of the Score, although the
/// Score itself stays private. `evidence` is `latest` (all of the strongest class since the Score's last
/// version), `none`, or a list of ids of one class.
#[utoipa::path(post, path = "/api/v1/scores/{id}/receipts", operation_id = "issue_receipt", tag = "choir", security(("key" = [])),
    params(("id" = String, Path, description = "The Score's id"), Idempotent),
    request_body = ReceiptBody,
    responses((status = 201, description = "Issued and added to the transparency log", body = IssuedReceipt), Doing))]
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
/// Newest first.
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

/// Create a public comparison of two receipts
///
/// Requires ownership of both Scores.
#[utoipa::path(post, path = "/api/v1/compare", operation_id = "publish_comparison", tag = "choir", security(("key" = [])),
    params(Idempotent),
    request_body = CompareBody,
    responses((status = 201, description = "Created", body = ComparisonLink), Doing))]
async fn compare(
    State(app): State<AppState>,
    Person(person): Person,
    Sent { body, once }: Sent<CompareBody>,
) -> Result<Response, ApiError> {
    Ok(done(StatusCode::CREATED, receipts::publish_comparison(&app, person.id, body, once).await?))
}

/// Retrieve a receipt
///
/// With its position in the transparency log and its signed attestation.
#[utoipa::path(get, path = "/api/v1/receipts/{id}", operation_id = "show_receipt", tag = "choir",
    params(("id" = String, Path, description = "The receipt's id")),
    responses((status = 200, description = "The receipt", body = Receipt), Missing, TooFast, Overloaded))]
async fn show(State(app): State<AppState>, Path(id): Path<String>) -> Result<Json<Receipt>, ApiError> {
    Ok(Json(receipts::show(&app, &id).await?))
}

/// Retrieve a receipt as a signed in-toto statement
#[utoipa::path(get, path = "/api/v1/receipts/{id}/attestation", operation_id = "show_attestation", tag = "choir",
    params(("id" = String, Path, description = "The receipt's id"), AttestationForm),
    responses((status = 200, description = "An envelope of DSSE, signed when the receipt was issued. A draft has no test result", body = Object),
              Invalid, Missing, Conflict, TooFast, Overloaded))]
async fn attestation(
    State(app): State<AppState>,
    Path(id): Path<String>,
    Query(form): Query<AttestationForm>,
) -> Result<Json<Value>, ApiError> {
    Ok(Json(receipts::attestation(&app, &id, form.predicate.as_deref()).await?))
}

/// Retrieve the head of the transparency log
///
/// A signed note: origin, size, root, and a signature by a key of `/.well-known/chorus-keys.json`.
#[utoipa::path(get, path = "/api/v1/log/checkpoint", operation_id = "log_checkpoint", tag = "choir",
    responses((status = 200, description = "The note", body = String, content_type = "text/plain"), TooFast, Overloaded))]
async fn checkpoint(State(app): State<AppState>) -> Result<Response, ApiError> {
    let note = log::checkpoint(&app).await?;
    Ok(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], note).into_response())
}

/// Retrieve a proof of inclusion in the log
#[utoipa::path(get, path = "/api/v1/log/inclusion/{receipt}", operation_id = "log_inclusion", tag = "choir",
    params(("receipt" = String, Path, description = "The receipt's id")),
    responses((status = 200, description = "The leaf, its index, the path to the root and the checkpoint", body = Object),
              Missing, TooFast, Overloaded))]
async fn inclusion(State(app): State<AppState>, Path(id): Path<String>) -> Result<Json<Value>, ApiError> {
    Ok(Json(receipts::inclusion(&app, &id).await?))
}

/// Retrieve a proof that the log only grew
#[utoipa::path(get, path = "/api/v1/log/consistency", operation_id = "log_consistency", tag = "choir",
    params(Growth),
    responses((status = 200, description = "The proof, and both roots", body = Object), Invalid, TooFast, Overloaded))]
async fn consistency(
    State(app): State<AppState>,
    Query(growth): Query<Growth>,
) -> Result<Json<Value>, ApiError> {
    Ok(Json(log::consistency(&app, growth.from, growth.to).await?))
}

/// List the leaf hashes of the log
///
/// In their order. A monitor can rebuild the root from them. They show no leaf's content.
#[utoipa::path(get, path = "/api/v1/log/leaves", operation_id = "log_leaves", tag = "choir",
    params(LeafRange),
    responses((status = 200, description = "`{size, from, leaves}`", body = Object), Invalid, TooFast, Overloaded))]
async fn leaves(
    State(app): State<AppState>,
    Query(range): Query<LeafRange>,
) -> Result<Json<Value>, ApiError> {
    Ok(Json(log::leaf_hashes(&app, range.from, range.limit).await?))
}
