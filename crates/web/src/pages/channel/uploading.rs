//! Uploading a document: a new one, or a new version. Text files are stored as text, all others as bytes.
//!
//! A rejected text is shown in the edit form, so that the file need not be chosen again.

use super::writing::{Written, answer, slug_of};
use crate::extract::Path;
use crate::form::{body, number};
use crate::page::Fault;
use crate::upload::Upload;
use crate::visitor::SignedIn;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use chorus_app::conversation::{self, conversation_id};
use chorus_node::idempotency::Once;
use chorus_node::tasks::blocking::block_in_place_if_large;
use chorus_node::{AppState, Error};
use chorus_protocol::api::documents::{DocumentChange, NewDocument, type_of};
use chorus_protocol::faults::Faults;
use data_encoding::BASE64;
use serde_json::json;

/// The default media type of a text.
const PLAIN: &str = "text/plain";
/// The default media type of any other file.
const BYTES: &str = "application/octet-stream";
/// The longest title, in characters.
const MAX_TITLE: usize = 200;

pub(crate) fn routes() -> Router<AppState> {
    Router::new().route("/c/{id}/upload", post(make)).route("/c/{id}/documents/{slug}/upload", post(change))
}

/// A chosen file, as the API takes it and as the edit form shows its text.
struct Chosen {
    title: String,
    kind: Option<&'static str>,
    base64: String,
    /// `None` for a file that is not text.
    text: Option<String>,
}

impl Chosen {
    fn of(upload: &Upload) -> Result<Self, Error> {
        let (name, bytes) = upload.file.as_ref().ok_or_else(|| Faults::one("file", "choose one"))?;
        let title = upload.some("title").unwrap_or_else(|| titled(name));
        let kind = name.rsplit_once('.').and_then(|(_, ending)| type_of(ending));
        let text = std::str::from_utf8(bytes).ok().map(str::to_owned);
        Ok(Self { title, kind, base64: block_in_place_if_large(bytes.len(), || BASE64.encode(bytes)), text })
    }

    fn written(self, slug: String, base: Option<i64>) -> Written {
        let kind = self.kind.unwrap_or(PLAIN).to_owned();
        Written { slug, title: self.title, kind, content: self.text.unwrap_or_default(), base }
    }
}

/// Returns the file's name on one line, as a title.
fn titled(name: &str) -> String {
    let line: String =
        name.chars().map(|sign| if sign.is_control() { ' ' } else { sign }).take(MAX_TITLE).collect();
    if line.trim().is_empty() { "A file".to_owned() } else { line }
}

async fn make(
    State(app): State<AppState>,
    visitor: SignedIn,
    Path(id): Path<String>,
    upload: Upload,
) -> Result<Response, Fault> {
    let (place, chosen) = (conversation_id(&id)?, Chosen::of(&upload)?);
    let stem = chosen.title.rsplit_once('.').map_or(&*chosen.title, |(stem, _)| stem);
    let slug = upload.some("slug").unwrap_or_else(|| slug_of(stem));
    let kind = chosen.kind.or_else(|| chosen.text.is_some().then_some(PLAIN));
    let new = body::<NewDocument>(json!({
        "slug": slug, "title": chosen.title, "content": chosen.base64, "encoding": "base64", "content_type": kind,
    }));
    let done = match new {
        Ok(new) => conversation::make_document(&app, visitor.who(), place, new, Once::NO_KEY).await.map(drop),
        Err(error) => Err(error),
    };
    answer(&app, &visitor, &id, done, chosen.written(slug, None)).await
}

async fn change(
    State(app): State<AppState>,
    visitor: SignedIn,
    Path((id, slug)): Path<(String, String)>,
    upload: Upload,
) -> Result<Response, Fault> {
    let base = number("base_version", &upload.some("base_version").unwrap_or_default())?;
    let chosen = Chosen::of(&upload)?;
    // A text keeps its media type if the file name does not tell another.
    let kind = chosen.kind.or_else(|| chosen.text.is_none().then_some(BYTES));
    let change = body::<DocumentChange>(json!({
        "content": chosen.base64, "encoding": "base64", "content_type": kind, "base_version": base,
    }));
    let place = (conversation_id(&id)?, slug.clone());
    let done = match change {
        Ok(new) => {
            conversation::change_document(&app, visitor.who(), place, new, Once::NO_KEY).await.map(drop)
        }
        Err(error) => Err(error),
    };
    answer(&app, &visitor, &id, done, chosen.written(slug, Some(base))).await
}

#[cfg(test)]
mod tests {
    use super::titled;

    #[test]
    fn a_file_name_is_a_title() {
        assert_eq!(titled("notes 4.19.md"), "notes 4.19.md");
        assert_eq!(titled("a\nb"), "a b");
        assert_eq!(titled(" \u{7} "), "A file");
        assert_eq!(titled(&"x".repeat(300)).len(), 200);
    }
}
