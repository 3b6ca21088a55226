//! Choir's public operations: submitting signed evidence, and verifying receipts from any page.

use super::receipts::PUBLIC;
use crate::answers::own::{
    Conflict, Forbidden, Invalid, Missing, Overloaded, TooFast, TooLarge, TooSlow, Unknown,
};
use crate::body;
use crate::error::ApiError;
use crate::extract::MAX_BODY;
use crate::middleware::Client;
use crate::routes::Routes;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use chorus_app::choir::ingest::{PREFIX_HEADER, SIGNATURE_HEADER, Signed, TIMESTAMP_HEADER};
use chorus_app::choir::{ingest, log, receipts, scores};
use chorus_node::AppState;
use chorus_protocol::api::scores::{EvidenceView, Verification};
use chorus_protocol::choir::evidence::Bundle;
use serde_json::{Value, json};
use utoipa_axum::routes;

pub(super) fn routes() -> Routes {
    Routes::default()
        .at(PUBLIC, routes!(submit))
        .at(PUBLIC, routes!(verify))
        .at(PUBLIC, routes!(compare))
        .at(PUBLIC, routes!(rules))
        .at(PUBLIC, routes!(keys))
}

fn shown(headers: &HeaderMap, name: &str) -> Option<String> {
    let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

/// Submit signed evidence
///
/// The three headers sign the canonical form (RFC 8785) of the bundle: HMAC-SHA256 with the Score's signing
/// secret over `${timestamp}.${canonical}`. Repeating a bundle adds nothing, even with a new timestamp. The
/// limit is 60 a minute with bursts of 20; unsigned requests count against their address only.
#[utoipa::path(post, path = "/api/public/evidence/{ingest}", operation_id = "submit_evidence", tag = "choir",
    params(("ingest" = String, Path, description = "The last part of the Score's ingest URL"),
           ("X-Agentic-Choir-Signature" = String, Header, description = "64 lower-case hexadecimal digits, optionally after `sha256=`"),
           ("X-Agentic-Choir-Timestamp" = String, Header, description = "The current Unix time in seconds; it may differ by at most 300 s"),
           ("X-Agentic-Choir-Secret-Prefix" = String, Header, description = "`acs_` and the first eight characters")),
    request_body = Bundle,
    responses((status = 202, description = "Accepted", body = EvidenceView),
              (status = 200, description = "The bundle was already submitted", body = EvidenceView),
              Invalid, Unknown, Forbidden, Missing, Conflict, TooSlow, TooLarge, TooFast, Overloaded))]
async fn submit(
    State(app): State<AppState>,
    Path(slug): Path<String>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let bytes = body::read(&app, &parts, body, MAX_BODY).await?;
    let signed = Signed {
        signature: shown(&parts.headers, SIGNATURE_HEADER),
        timestamp: shown(&parts.headers, TIMESTAMP_HEADER),
        prefix: shown(&parts.headers, PREFIX_HEADER),
    };
    let taken = ingest::submit(&app, slug, client.source(), signed, &bytes).await?;
    let status = if taken.duplicate { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok((status, Json(taken)).into_response())
}

/// Verify a receipt
///
/// Returns its recomputed hash and the exact bytes: the SHA-256 of `canonical_payload` is `payload_hash`.
#[utoipa::path(get, path = "/api/public/verify/{id}", operation_id = "verify_receipt", tag = "choir",
    params(("id" = String, Path, description = "The receipt's id")),
    responses((status = 200, description = "The data for verification", body = Verification), Missing, TooFast, Overloaded))]
async fn verify(State(app): State<AppState>, Path(id): Path<String>) -> Result<Json<Verification>, ApiError> {
    Ok(Json(receipts::verify(&app, &id).await?))
}

/// Retrieve a comparison of two receipts
#[utoipa::path(get, path = "/api/public/compare/{slug}", operation_id = "show_comparison", tag = "choir",
    params(("slug" = String, Path, description = "The slug at the end of the comparison's link")),
    responses((status = 200, description = "`receipts`: the ids of both; `comparison`: what changed, and whether the second is worse", body = Object),
              Missing, TooFast, Overloaded))]
async fn compare(State(app): State<AppState>, Path(slug): Path<String>) -> Result<Json<Value>, ApiError> {
    let (before, after, comparison) = receipts::comparison(&app, &slug).await?;
    Ok(Json(json!({"receipts": [before, after], "comparison": comparison})))
}

/// List every rule with its weight
///
/// The SHA-256 of the canonical form is the `rules_digest` of receipts.
#[utoipa::path(get, path = "/api/public/rules", operation_id = "show_rules", tag = "choir",
    responses((status = 200, description = "The table", body = Object), TooFast))]
async fn rules() -> Json<Value> {
    Json(scores::rules())
}

/// List the signing keys of this hub
///
/// Former keys stay listed. Do not trust a key inside a receipt.
#[utoipa::path(get, path = "/.well-known/chorus-keys.json", operation_id = "show_keys", tag = "choir",
    responses((status = 200, description = "`{origin, keys: [{kid, public_key, from, until}]}`", body = Object), TooFast, Overloaded))]
async fn keys(State(app): State<AppState>) -> Result<Json<Value>, ApiError> {
    Ok(Json(log::keys(&app).await?))
}
