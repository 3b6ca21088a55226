//! Writing a document: a new one, or a new version of a text.
//!
//! The form carries the version it began from. If a newer version exists by then, the author is told and keeps
//! the text.

use super::Place;
use crate::extract::Path;
use crate::form::{Form, body, number};
use crate::page::{Fault, fault_page, page, refused};
use crate::shell::{Here, Shell};
use crate::visitor::SignedIn;
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use chorus_app::conversation::{self, conversation_id};
use chorus_node::idempotency::Once;
use chorus_node::{AppState, Error};
use chorus_protocol::api::documents::{DocumentChange, Encoding, NewDocument};
use chorus_protocol::code::Code;
use serde_json::json;

/// The media types of a text, with their names on the page. The first is the default.
const KINDS: [(&str, &str); 6] = [
    ("text/markdown", "Markdown"),
    ("text/plain", "plain text"),
    ("text/csv", "a table (CSV)"),
    ("application/json", "JSON"),
    ("text/html", "HTML, shown as its source"),
    ("application/xml", "XML"),
];

/// The largest upload in MiB, even where documents have no limit.
const MOST_MIB: u64 = 63;

pub(crate) fn routes() -> Router<AppState> {
    Router::new()
        .route("/c/{id}/write", get(begin).post(make))
        .route("/c/{id}/documents/{slug}/edit", get(edit).post(change))
}

#[derive(Template)]
#[template(path = "document_edit.html")]
struct WritingPage {
    shell: Shell,
    id: String,
    channel: String,
    /// Empty for a new document.
    slug: String,
    title: String,
    kind: String,
    content: String,
    /// The version being changed; `None` for a new document.
    base: Option<i64>,
    fault: String,
    /// The largest size of a document, in words.
    most: String,
    /// True if a newer version was saved meanwhile.
    overtaken: bool,
}

impl WritingPage {
    /// Returns the media types to choose from, including the current one.
    fn kinds(&self) -> Vec<(&str, &str)> {
        let known = KINDS.iter().any(|(kind, _)| *kind == self.kind);
        let own = (!known).then_some((&*self.kind, &*self.kind));
        own.into_iter().chain(KINDS).collect()
    }
}

async fn empty(app: &AppState, visitor: &SignedIn, id: &str) -> Result<WritingPage, Error> {
    let place = Place::find(app, visitor, id).await?;
    Ok(WritingPage {
        shell: Shell::of(app, &visitor.person, Here::Conversation(id.to_owned())).await?,
        id: id.to_owned(),
        channel: place.detail.conversation.name,
        slug: String::new(),
        title: String::new(),
        kind: KINDS[0].0.to_owned(),
        content: String::new(),
        base: None,
        fault: String::new(),
        most: most(app),
        overtaken: false,
    })
}

async fn begin(
    State(app): State<AppState>,
    visitor: SignedIn,
    Path(id): Path<String>,
) -> Result<Response, Fault> {
    page(&empty(&app, &visitor, &id).await?)
}

async fn edit(
    State(app): State<AppState>,
    visitor: SignedIn,
    Path((id, slug)): Path<(String, String)>,
) -> Result<Response, Fault> {
    let (empty, place) = (empty(&app, &visitor, &id).await?, conversation_id(&id)?);
    let document = conversation::read_document(&app, visitor.who(), (place, slug), None).await?;
    if document.encoding != Encoding::Text {
        return Err(Error::new(Code::Conflict, "this document is no text: it cannot be edited here").into());
    }
    page(&WritingPage {
        slug: document.slug,
        title: document.title,
        kind: document.content_type,
        content: document.content.unwrap_or_default(),
        base: Some(document.version),
        ..empty
    })
}

/// A text from the form or from a file.
pub(super) struct Written {
    pub(super) slug: String,
    pub(super) title: String,
    pub(super) kind: String,
    pub(super) content: String,
    /// The version being changed; `None` for a new document.
    pub(super) base: Option<i64>,
}

impl Written {
    fn of(form: &Form, slug: String, base: Option<i64>) -> Self {
        let (title, kind, content) = (form.text("title"), form.text("content_type"), form.written("content"));
        Self { slug, title, kind, content, base }
    }
}

/// Redirects to the saved document, or shows the form again with the error.
pub(super) async fn answer(
    app: &AppState,
    visitor: &SignedIn,
    id: &str,
    done: Result<(), Error>,
    Written { slug, title, kind, content, base }: Written,
) -> Result<Response, Fault> {
    let Err(error) = done else {
        return Ok(Redirect::to(&format!("/c/{id}/documents/{slug}")).into_response());
    };
    let (status, fault) = refused(error)?;
    let empty = empty(app, visitor, id).await?;
    let overtaken = base.is_some() && status == StatusCode::CONFLICT;
    fault_page(status, &WritingPage { slug, title, kind, content, base, fault, overtaken, ..empty })
}

async fn make(
    State(app): State<AppState>,
    visitor: SignedIn,
    Path(id): Path<String>,
    form: Form,
) -> Result<Response, Fault> {
    let (place, title) = (conversation_id(&id)?, form.text("title"));
    let slug = form.some("slug").unwrap_or_else(|| slug_of(&title));
    let new = body::<NewDocument>(json!({
        "slug": slug, "title": title, "content": form.written("content"), "content_type": form.some("content_type"),
    }));
    let done = match new {
        Ok(new) => conversation::make_document(&app, visitor.who(), place, new, Once::NO_KEY).await.map(drop),
        Err(error) => Err(error),
    };
    answer(&app, &visitor, &id, done, Written::of(&form, slug, None)).await
}

async fn change(
    State(app): State<AppState>,
    visitor: SignedIn,
    Path((id, slug)): Path<(String, String)>,
    form: Form,
) -> Result<Response, Fault> {
    let base = number("base_version", &form.text("base_version"))?;
    let change = body::<DocumentChange>(json!({
        "title": form.some("title"), "content": form.written("content"),
        "content_type": form.some("content_type"), "base_version": base,
    }));
    let place = (conversation_id(&id)?, slug.clone());
    let done = match change {
        Ok(new) => {
            conversation::change_document(&app, visitor.who(), place, new, Once::NO_KEY).await.map(drop)
        }
        Err(error) => Err(error),
    };
    answer(&app, &visitor, &id, done, Written::of(&form, slug, Some(base))).await
}

/// Returns the largest size of a document, in words.
pub(super) fn most(app: &AppState) -> String {
    match app.config.quotas.document_bytes {
        bytes if bytes < 1 << 20 => format!("{} KiB", bytes >> 10),
        bytes => format!("{} MiB", (bytes >> 20).min(MOST_MIB)),
    }
}

/// Derives a slug from a title. Characters that a slug cannot hold become dashes.
pub(super) fn slug_of(title: &str) -> String {
    let words = title.split(|sign: char| !sign.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let slug = words.collect::<Vec<_>>().join("-").to_ascii_lowercase();
    let cut = slug.get(..64).unwrap_or(&slug).trim_end_matches('-');
    if cut.is_empty() { "document".to_owned() } else { cut.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::slug_of;

    #[test]
    fn a_title_becomes_a_name_for_addresses() {
        assert_eq!(slug_of("Release notes, 4.19!"), "release-notes-4-19");
        assert_eq!(slug_of("שלום"), "document");
        assert_eq!(slug_of(&"word ".repeat(40)).len(), 64);
    }
}
