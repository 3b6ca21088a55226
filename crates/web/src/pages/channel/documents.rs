//! A document of a conversation, in any of its versions.

use super::Place;
use crate::extract::{Path, Query};
use crate::markdown::{self, Rendered};
use crate::page::{Fault, page};
use crate::shell::{Here, Shell};
use crate::times::Moment;
use crate::visitor::SignedIn;
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use chorus_app::{AppState, conversation};
use chorus_protocol::api::documents::{Document, Encoding, is_picture};
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
    shown: Shown,
}

/// How a document is shown.
enum Shown {
    /// As what its Markdown means.
    Rendered(Rendered),
    /// As it is.
    Text(String),
    /// As a picture, which the browser takes from the API.
    Picture,
    /// Not at all: it can be saved.
    Bytes,
}

async fn show(
    State(app): State<AppState>,
    visitor: SignedIn,
    Path((id, slug)): Path<(String, String)>,
    Query(Version { version }): Query<Version>,
) -> Result<Response, Fault> {
    let place = Place::find(&app, &visitor, &id).await?;
    let mut document = conversation::read_document(&app, visitor.who(), (place.id, slug), version).await?;
    let content = document.content.take().unwrap_or_default();
    let shown = match (document.encoding, &*document.content_type) {
        (Encoding::Base64, kind) if is_picture(kind) => Shown::Picture,
        (Encoding::Base64, _) => Shown::Bytes,
        (Encoding::Text, "text/markdown" | "text/plain") => {
            Shown::Rendered(markdown::render(&content, &place.view(&visitor, None).roster.names))
        }
        (Encoding::Text, _) => Shown::Text(content),
    };
    page(&DocumentPage {
        shell: Shell::of(&app, &visitor.person, Here::Conversation(id.clone())).await?,
        channel: place.detail.conversation.name,
        at: Moment::new(&document.created_at),
        shown,
        document,
        id,
    })
}
