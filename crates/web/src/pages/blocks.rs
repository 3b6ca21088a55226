//! A person's blocks: the list, adding one, and removing one.

use crate::extract::{Path, Query};
use crate::form::Form;
use crate::page::{Fault, fault_page, page, query, refused};
use crate::shell::{Here, Shell};
use crate::times::Moment;
use crate::visitor::SignedIn;
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use chorus_app::blocks;
use chorus_node::idempotency::Once;
use chorus_node::{AppState, Error};
use chorus_protocol::api::blocks::{BlockPage, NewBlock};
use chorus_protocol::ids::BlockId;
use serde::Deserialize;

/// The most blocks on a page.
const LIMIT: i64 = 50;

pub(crate) fn routes() -> Router<AppState> {
    Router::new().route("/blocks", get(show).post(add)).route("/blocks/{id}/remove", post(remove))
}

struct Row {
    id: String,
    who: String,
    since: Moment,
}

#[derive(Template)]
#[template(path = "blocks.html")]
struct BlocksPage {
    shell: Shell,
    rows: Vec<Row>,
    next: Option<String>,
    who: String,
    fault: String,
}

#[derive(Deserialize)]
struct After {
    after: Option<String>,
}

async fn prepare(app: &AppState, visitor: &SignedIn, after: Option<BlockId>) -> Result<BlocksPage, Error> {
    let found = blocks::list(app, visitor.who(), BlockPage { after, limit: LIMIT }).await?;
    let rows = found.items.into_iter();
    Ok(BlocksPage {
        shell: Shell::of(app, &visitor.person, Here::Account).await?,
        rows: rows
            .map(|one| Row { id: one.id.to_string(), who: one.who, since: Moment::new(&one.created_at) })
            .collect(),
        next: found.next.map(|next| query(&[("after", &next)])),
        who: String::new(),
        fault: String::new(),
    })
}

async fn show(
    State(app): State<AppState>,
    visitor: SignedIn,
    Query(After { after }): Query<After>,
) -> Result<Response, Fault> {
    page(&prepare(&app, &visitor, after.as_deref().and_then(BlockId::parse)).await?)
}

async fn add(State(app): State<AppState>, visitor: SignedIn, form: Form) -> Result<Response, Fault> {
    let done = match form.body::<NewBlock>(&["who"]) {
        Ok(new) => blocks::block(&app, visitor.caller.clone(), new, Once::NO_KEY).await.map(drop),
        Err(error) => Err(error),
    };
    let Err(error) = done else { return Ok(Redirect::to("/blocks").into_response()) };
    let (status, fault) = refused(error)?;
    let shown = prepare(&app, &visitor, None).await?;
    fault_page(status, &BlocksPage { who: form.text("who"), fault, ..shown })
}

async fn remove(
    State(app): State<AppState>,
    visitor: SignedIn,
    Path(id): Path<String>,
) -> Result<Response, Fault> {
    blocks::unblock(&app, visitor.who(), &id).await?;
    Ok(Redirect::to("/blocks").into_response())
}
