//! A document of a conversation, in any of its versions.

use super::Place;
use crate::markdown::{self, Rendered};
use crate::page::{Fault, page};
use crate::shell::{Here, Shell};
use crate::times::Moment;
use crate::visitor::SignedIn;
use askama::Template;
use axum::Router;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use axum::routing::get;
use chorus_app::{AppState, conversation};
use chorus_protocol::api::documents::Document;
use serde::Deserialize;

pub(crate) fn routes() -> Router<AppState> {
    Router::new().route("/c/{id}/documents/{slug}", get(show))
}

#[derive(Deserialize)]
struct Version {
    version: Option<i64>,
}

#[derive(Template)]
#[template(path = "document.html")]
struct DocumentPage {
    shell: Shell,
    id: String,
    channel: String,
    document: Document,
    at: Moment,
    /// Markdown is rendered; anything else is shown as it is.
    text: Option<Rendered>,
}

async fn show(
    State(app): State<AppState>,
    visitor: SignedIn,
    Path((id, slug)): Path<(String, String)>,
    Query(Version { version }): Query<Version>,
) -> Result<Response, Fault> {
    let place = Place::find(&app, &visitor, &id).await?;
    let document = conversation::read_document(&app, visitor.who(), (place.id, slug), version).await?;
    let is_markdown = matches!(&*document.content_type, "text/markdown" | "text/plain");
    let roster = place.view(&visitor, None).roster;
    page(&DocumentPage {
        shell: Shell::of(&app, &visitor.person, Here::Conversation(id.clone())).await?,
        channel: place.detail.conversation.name,
        at: Moment::new(&document.created_at),
        text: is_markdown
            .then(|| markdown::render(document.content.as_deref().unwrap_or_default(), &roster.names)),
        document,
        id,
    })
}
