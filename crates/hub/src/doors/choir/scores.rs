//! Scores, their evidence and their signing secrets, for their owners.

use crate::answers::own::{Doing, Forbidden, Invalid, Missing, Overloaded, Reading, TooFast, Unknown};
use crate::error::ApiError;
use crate::extract::{Bare, Composer, Context, Hashable, Holder, Idempotent, Person, Query, Sent, done};
use crate::route::Route;
use crate::routes::Routes;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use chorus_app::choir::{evidence, ingest, scores, signing_secrets};
use chorus_node::AppState;
use chorus_protocol::api::scores::{
    ClaimBody, EvidenceView, MadeScore, RehearsalView, ScoreDetail, ScoreView, SecretView,
};
use chorus_protocol::api::{Items, Page};
use chorus_protocol::choir::evidence::Bundle;
use chorus_protocol::choir::score::{Scenario, Score};
use utoipa_axum::routes;

pub(super) fn routes() -> Routes {
    Routes::default()
        .at(Route::API, routes!(make, list))
        .at(Route::API, routes!(show, change, archive))
        .at(Route::API, routes!(claim))
        .at(Route::API, routes!(rehearse))
        .at(Route::API, routes!(assert_evidence, list_evidence))
        .at(Route::API, routes!(make_secret))
        .at(Route::API, routes!(revoke_secret))
        .at(Route { credentials: crate::route::Credentials::Ignored, ..Route::API }, routes!(scenarios))
}

/// Create a Score
///
/// It is private to your account. If the hub allows it, a caller without an account may create one too and
/// gets an `edit_link`, shown only once: its `es_…` is the bearer key of this Score until it is claimed.
#[utoipa::path(post, path = "/api/v1/scores", operation_id = "make_score", tag = "choir", security(("key" = [])),
    params(Idempotent),
    request_body = Score,
    responses((status = 201, description = "Created, as version 1", body = MadeScore), Doing))]
async fn make(
    State(app): State<AppState>,
    Composer(caller): Composer,
    Context(context): Context,
    Hashable { body, once }: Hashable,
) -> Result<Response, ApiError> {
    Ok(done(StatusCode::CREATED, scores::make(&app, caller, context, body, once).await?))
}

/// List your Scores
#[utoipa::path(get, path = "/api/v1/scores", operation_id = "list_scores", tag = "choir", security(("key" = [])),
    params(Page),
    responses((status = 200, description = "A page", body = Items<ScoreView>),
              Invalid, Unknown, Forbidden, TooFast, Overloaded))]
async fn list(
    State(app): State<AppState>,
    Person(person): Person,
    Query(page): Query<Page>,
) -> Result<Json<Items<ScoreView>>, ApiError> {
    Ok(Json(scores::list(&app, person.id, page).await?))
}

/// Retrieve a Score
#[utoipa::path(get, path = "/api/v1/scores/{id}", operation_id = "show_score", tag = "choir", security(("key" = [])),
    params(("id" = String, Path, description = "The Score's id")),
    responses((status = 200, description = "The Score in its newest version", body = ScoreDetail), Reading))]
async fn show(
    State(app): State<AppState>,
    Holder(caller): Holder,
    Path(id): Path<String>,
) -> Result<Json<ScoreDetail>, ApiError> {
    Ok(Json(scores::show(&app, caller, &id).await?))
}

/// Create a new version of a Score
///
/// Evidence belongs to the version that was the newest when it arrived.
#[utoipa::path(put, path = "/api/v1/scores/{id}", operation_id = "change_score", tag = "choir", security(("key" = [])),
    params(("id" = String, Path, description = "The Score's id"), Idempotent),
    request_body = Score,
    responses((status = 200, description = "Created", body = MadeScore), Doing))]
async fn change(
    State(app): State<AppState>,
    Holder(caller): Holder,
    Context(context): Context,
    Path(id): Path<String>,
    Hashable { body, once }: Hashable,
) -> Result<Response, ApiError> {
    Ok(done(StatusCode::OK, scores::change(&app, caller, context.source(), &id, body, once).await?))
}

/// Archive a Score
///
/// It can still be read, but nothing can be added to it. Its receipts stay.
#[utoipa::path(delete, path = "/api/v1/scores/{id}", operation_id = "archive_score", tag = "choir", security(("key" = [])),
    params(("id" = String, Path, description = "The Score's id")),
    responses((status = 204, description = "The Score is archived"),
              Unknown, Forbidden, Missing, TooFast, Overloaded))]
async fn archive(
    State(app): State<AppState>,
    Holder(caller): Holder,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    scores::archive(&app, caller, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Claim a Score by its edit link
///
/// The Score then belongs to your account permanently, and the link no longer works. All signing secrets made
/// with it are revoked; create new ones.
#[utoipa::path(post, path = "/api/v1/scores/{id}/claim", operation_id = "claim_score", tag = "choir", security(("key" = [])),
    params(("id" = String, Path, description = "The Score's id"), Idempotent),
    request_body = ClaimBody,
    responses((status = 200, description = "The Score, now owned by your account", body = MadeScore), Doing))]
async fn claim(
    State(app): State<AppState>,
    Person(person): Person,
    Context(context): Context,
    Path(id): Path<String>,
    Sent { body, once }: Sent<ClaimBody>,
) -> Result<Response, ApiError> {
    Ok(done(StatusCode::OK, scores::claim(&app, context, person.id, &id, body, once).await?))
}

/// Rehearse a Score on paper
///
/// Returns structural findings, each with its points and a remedy. No receipt is issued.
#[utoipa::path(post, path = "/api/v1/scores/{id}/rehearse", operation_id = "rehearse_score", tag = "choir", security(("key" = [])),
    params(("id" = String, Path, description = "The Score's id")),
    responses((status = 200, description = "The findings", body = RehearsalView), Reading))]
async fn rehearse(
    State(app): State<AppState>,
    Holder(caller): Holder,
    Path(id): Path<String>,
) -> Result<Json<RehearsalView>, ApiError> {
    Ok(Json(scores::on_paper(&app, caller, &id).await?))
}

/// Submit evidence of a run
///
/// It counts as asserted by you: validated and normalised, but not verified. Repeating a bundle returns the
/// first one.
#[utoipa::path(post, path = "/api/v1/scores/{id}/evidence", operation_id = "assert_evidence", tag = "choir", security(("key" = [])),
    params(("id" = String, Path, description = "The Score's id"), Idempotent),
    request_body = Bundle,
    responses((status = 201, description = "Accepted", body = EvidenceView), Doing))]
async fn assert_evidence(
    State(app): State<AppState>,
    Holder(caller): Holder,
    Context(context): Context,
    Path(id): Path<String>,
    Hashable { body, once }: Hashable,
) -> Result<Response, ApiError> {
    Ok(done(StatusCode::CREATED, ingest::assert(&app, caller, context.source(), &id, body, once).await?))
}

/// List a Score's evidence
///
/// Newest first. Returns a summary of each bundle, without its events.
#[utoipa::path(get, path = "/api/v1/scores/{id}/evidence", operation_id = "list_evidence", tag = "choir", security(("key" = [])),
    params(("id" = String, Path, description = "The Score's id"), Page),
    responses((status = 200, description = "A page", body = Items<EvidenceView>), Invalid, Reading))]
async fn list_evidence(
    State(app): State<AppState>,
    Holder(caller): Holder,
    Path(id): Path<String>,
    Query(page): Query<Page>,
) -> Result<Json<Items<EvidenceView>>, ApiError> {
    Ok(Json(evidence::list(&app, caller, &id, page).await?))
}

/// Create a signing secret
///
/// It is shown only once. Bundles signed with it are sent to `ingest_url` and count as `signature_valid`.
#[utoipa::path(post, path = "/api/v1/scores/{id}/signing-secrets", operation_id = "make_signing_secret", tag = "choir", security(("key" = [])),
    params(("id" = String, Path, description = "The Score's id"), Idempotent),
    responses((status = 201, description = "Created", body = SecretView), Doing))]
async fn make_secret(
    State(app): State<AppState>,
    Holder(caller): Holder,
    Context(context): Context,
    Path(id): Path<String>,
    Bare(once): Bare,
) -> Result<Response, ApiError> {
    Ok(done(StatusCode::CREATED, signing_secrets::make(&app, context, caller, &id, once).await?))
}

/// Revoke a signing secret
///
/// Revoking a missing secret succeeds.
#[utoipa::path(delete, path = "/api/v1/scores/{id}/signing-secrets/{prefix}", operation_id = "revoke_signing_secret", tag = "choir", security(("key" = [])),
    params(("id" = String, Path, description = "The Score's id"), ("prefix" = String, Path, description = "`acs_` and the first eight characters")),
    responses((status = 204, description = "The secret is revoked"),
              Unknown, Forbidden, Missing, TooFast, Overloaded))]
async fn revoke_secret(
    State(app): State<AppState>,
    Holder(caller): Holder,
    Context(context): Context,
    Path((id, prefix)): Path<(String, String)>,
) -> Result<StatusCode, ApiError> {
    signing_secrets::revoke(&app, context, caller, &id, prefix).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// List example scenarios
///
/// Replace the names of voices and triggers with your own.
#[utoipa::path(get, path = "/api/v1/scenarios", operation_id = "list_scenarios", tag = "choir",
    responses((status = 200, description = "The complete list", body = Items<Scenario>), TooFast))]
async fn scenarios() -> Json<Items<Scenario>> {
    Json(Items { items: scores::library(), next: None })
}
