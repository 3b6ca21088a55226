//! A Score's receipts: issuing one, comparing two, and archiving the Score.

use super::desk::Desk;
use super::receipt::drawn;
use crate::assets;
use crate::extract::Query;
use crate::form::{Form, body};
use crate::page::{Fault, page, query};
use crate::shell::Shell;
use crate::times::Moment;
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use chorus_app::choir::{receipts, scores};
use chorus_node::idempotency::Once;
use chorus_node::{AppState, Error};
use chorus_protocol::api::Page;
use chorus_protocol::api::scores::{CompareBody, ReceiptBody};
use serde::Deserialize;
use serde_json::json;

/// The most receipts on a page.
const LIMIT: i64 = 20;

pub(crate) fn routes(path: &str) -> Router<AppState> {
    Router::new()
        .route(&format!("{path}/receipts"), get(show).post(issue))
        .route(&format!("{path}/compare"), post(compare))
        .route(&format!("{path}/archive"), post(archive))
}

struct Row {
    id: String,
    label: String,
    version: i64,
    word: &'static str,
    class: &'static str,
    at: Moment,
}

#[derive(Template)]
#[template(path = "score_receipts.html")]
struct RecordsPage {
    shell: Shell,
    style: &'static str,
    base: String,
    title: String,
    version: i64,
    archived: bool,
    by_link: bool,
    notice: String,
    rows: Vec<Row>,
    next: Option<String>,
}

#[derive(Deserialize)]
struct Asked {
    after: Option<String>,
}

async fn show(
    State(app): State<AppState>,
    desk: Desk,
    Query(asked): Query<Asked>,
) -> Result<Response, Fault> {
    let detail = scores::show(&app, desk.caller.clone(), &desk.id).await?;
    let wanted = Page { after: asked.after, limit: LIMIT };
    let found = receipts::list(&app, desk.caller.clone(), &desk.id, wanted).await?;
    let rows = found.items.into_iter().map(|row| Row {
        at: Moment::new(&row.generated_at),
        word: drawn(row.verdict).0,
        class: drawn(row.verdict).1,
        id: row.receipt_id,
        label: row.label,
        version: row.score_version,
    });
    page(&RecordsPage {
        shell: desk.shell(&app).await?,
        style: assets::choir_style(),
        base: desk.base.clone(),
        title: detail.score.title.0,
        version: detail.score.version,
        archived: detail.archived,
        by_link: desk.by_link,
        notice: detail.notice,
        rows: rows.collect(),
        next: found.next.map(|next| query(&[("after", &next)])),
    })
}

async fn issue(State(app): State<AppState>, desk: Desk, form: Form) -> Result<Response, Fault> {
    let wanted: ReceiptBody = body(json!({"evidence": form.text("evidence")}))?;
    let issued = receipts::issue(
        &app,
        desk.context.clone(),
        desk.caller.clone(),
        &desk.id,
        Some(wanted),
        Once::NO_KEY,
    )
    .await?;
    let id = issued.result.receipt.receipt_id.unwrap_or_default();
    Ok(Redirect::to(&format!("/receipts/{id}")).into_response())
}

async fn compare(State(app): State<AppState>, desk: Desk, form: Form) -> Result<Response, Fault> {
    let owner = desk.caller.person()?.id;
    let mut chosen = form.all("receipt");
    // The page lists the newest first.
    chosen.reverse();
    if chosen.len() != 2 {
        return Err(Error::validation("choose two receipts to compare").into());
    }
    let wanted: CompareBody = body(json!({"receipts": chosen}))?;
    let made = receipts::publish_comparison(&app, owner, wanted, Once::NO_KEY).await?.result;
    Ok(Redirect::to(&format!("/compare/{}", made.slug)).into_response())
}

async fn archive(State(app): State<AppState>, desk: Desk) -> Result<Response, Fault> {
    scores::archive(&app, desk.caller.clone(), &desk.id).await?;
    Ok(desk.go("/receipts"))
}
