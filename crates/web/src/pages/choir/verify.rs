//! Verification of a receipt for a stranger: whether it is genuine, and what that means. By address, or by a
//! file that does not leave the browser.

use super::receipt::{Head, read, shell};
use crate::assets;
use crate::extract::{Path, Query};
use crate::page::{Fault, page};
use crate::shell::Shell;
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use chorus_node::AppState;
use serde::Deserialize;

/// The longest id or address that is checked.
const MAX_ADDRESS: usize = 500;

pub(crate) fn routes() -> Router<AppState> {
    Router::new().route("/verify", get(ask)).route("/verify/{id}", get(show))
}

#[derive(Deserialize)]
struct Asked {
    receipt: Option<String>,
}

#[derive(Template)]
#[template(path = "verify_any.html")]
struct AskPage {
    shell: Shell,
    style: &'static str,
    script: &'static str,
}

#[derive(Template)]
#[template(path = "verify.html")]
struct VerifyPage {
    shell: Shell,
    style: &'static str,
    script: &'static str,
    head: Head,
    url: String,
    statement: String,
    disclaimer: String,
}

/// Shows the form: one field, or a file.
async fn ask(
    State(app): State<AppState>,
    headers: HeaderMap,
    Query(asked): Query<Asked>,
) -> Result<Response, Fault> {
    let given = asked.receipt.unwrap_or_default();
    let id = given.trim().trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    if !id.is_empty() && id.len() <= MAX_ADDRESS && id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Ok(Redirect::to(&format!("/verify/{id}")).into_response());
    }
    let shell = shell(&app, &headers).await?;
    page(&AskPage { shell, style: assets::choir_style(), script: assets::verify_script() })
}

async fn show(
    State(app): State<AppState>,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Result<Response, Fault> {
    let (receipt, payload) = read(&app, &id).await?;
    page(&VerifyPage {
        shell: shell(&app, &headers).await?,
        style: assets::choir_style(),
        script: assets::verify_script(),
        head: Head::of(&receipt, &payload),
        url: app.config.public_url.clone(),
        statement: payload.evidence.map(|evidence| evidence.statement).unwrap_or_default(),
        disclaimer: payload.disclaimer,
    })
}
