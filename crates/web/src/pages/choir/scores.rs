//! A person's Scores, and creating one.

use super::desk::Composer;
use super::editor::{EditorPage, findings, offered};
use super::form;
use crate::extract::Query;
use crate::form::Form;
use crate::page::{Fault, page, query};
use crate::pages::account::Secret;
use crate::shell::{Here, Shell};
use crate::times::Moment;
use crate::visitor::SignedIn;
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use chorus_app::choir::scores;
use chorus_node::AppState;
use chorus_node::idempotency::Once;
use chorus_protocol::api::Page;
use serde::Deserialize;

/// The most Scores on a page.
const LIMIT: i64 = 50;

pub(crate) fn routes() -> Router<AppState> {
    Router::new()
        .route("/scores", get(list))
        .route("/scores/new", get(new).post(make))
        .route("/scores/findings", post(look))
}

struct Row {
    id: String,
    title: String,
    version: i64,
    at: Moment,
    archived: bool,
}

#[derive(Template)]
#[template(path = "scores.html")]
struct ListPage {
    shell: Shell,
    style: &'static str,
    rows: Vec<Row>,
    next: Option<String>,
}

#[derive(Deserialize)]
struct Asked {
    after: Option<String>,
}

async fn list(
    State(app): State<AppState>,
    visitor: SignedIn,
    Query(asked): Query<Asked>,
) -> Result<Response, Fault> {
    let found = scores::list(&app, visitor.person.id, Page { after: asked.after, limit: LIMIT }).await?;
    let rows = found.items.into_iter().map(|score| Row {
        id: score.score_id.to_string(),
        title: score.title,
        version: score.version,
        at: Moment::new(&score.updated_at),
        archived: score.archived,
    });
    page(&ListPage {
        shell: Shell::of(&app, &visitor.person, Here::Scores).await?,
        style: crate::assets::choir_style(),
        rows: rows.collect(),
        next: found.next.map(|next| query(&[("after", &next)])),
    })
}

async fn new(State(app): State<AppState>, composer: Composer) -> Result<Response, Fault> {
    let shell = Shell::maybe_of(&app, composer.person.as_ref(), Here::Scores).await?;
    page(&EditorPage::empty(shell))
}

async fn make(State(app): State<AppState>, composer: Composer, form: Form) -> Result<Response, Fault> {
    let Composer { caller, context, person } = composer;
    let body = form::score(&form, None, &scores::library());
    let made = match scores::make(&app, caller, context, body.clone(), Once::NO_KEY).await {
        Ok(made) => made.result,
        Err(error) => {
            let shell = Shell::maybe_of(&app, person.as_ref(), Here::Scores).await?;
            return EditorPage::empty(shell).again(offered(body), error);
        }
    };
    let Some(link) = made.edit_link else {
        return Ok(Redirect::to(&format!("/scores/{}", made.score_id)).into_response());
    };
    page(&Secret {
        shell: Shell::maybe_of(&app, person.as_ref(), Here::Scores).await?,
        title: "Your Score is held by this link".into(),
        lead: "It is shown this once. Whoever has it can read and change the Score, until somebody claims it into an \
               account; if nobody does, it is removed 30 days after its last version."
            .into(),
        back: link.strip_prefix(&app.config.public_url).unwrap_or("/").to_owned(),
        secrets: vec![("The edit link", link)],
    })
}

/// Rehearses the Score in the editor on paper and returns the findings panel. Nothing is stored.
async fn look(State(app): State<AppState>, composer: Composer, form: Form) -> Result<Response, Fault> {
    let body = form::score(&form, None, &scores::library());
    findings(scores::draft_on_paper(&app, &composer.caller, body))
}
