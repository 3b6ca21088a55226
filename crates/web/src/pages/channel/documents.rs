//! A document of a conversation in any of its versions, and its removal.

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
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use chorus_app::conversation;
use chorus_app::conversation::conversation_id;
use chorus_node::AppState;
use chorus_node::idempotency::Once;
use chorus_protocol::api::documents::{Document, Encoding, is_picture};
use serde::Deserialize;

pub(crate) fn routes() -> Router<AppState> {
    Router::new()
        .route("/c/{id}/documents/{slug}", get(show))
        .route("/c/{id}/documents/{slug}/remove", post(remove))
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
    /// The author's handle, if the author is still a member.
    author: Option<String>,
    /// True if the visitor may edit it now as a text.
    may_edit: bool,
    may_remove: bool,
    /// The largest size of a new version, in words.
    most: String,
    shown: Shown,
}

/// The presentation of a document.
enum Shown {
    Rendered(Rendered),
    Text(String),
    /// As an image, which the browser loads from the API.
    Picture,
    /// Not shown; only offered for download.
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
    let (author, open) = (&document.author.id, !place.detail.conversation.archived);
    let author = place.members.iter().find(|one| one.id == *author).map(|one| one.handle.clone());
    page(&DocumentPage {
        author,
        may_edit: open && document.encoding == Encoding::Text,
        may_remove: open,
        most: super::writing::most(&app),
        shell: Shell::of(&app, &visitor.person, Here::Conversation(id.clone())).await?,
        channel: place.detail.conversation.name,
        at: Moment::new(&document.created_at),
        shown,
        document,
        id,
    })
}

async fn remove(
    State(app): State<AppState>,
    visitor: SignedIn,
    Path((id, slug)): Path<(String, String)>,
) -> Result<Response, Fault> {
    let place = (conversation_id(&id)?, slug);
    conversation::delete_document(&app, visitor.who(), place, Once::NO_KEY).await?;
    Ok(Redirect::to(&format!("/c/{id}?side=documents")).into_response())
}
