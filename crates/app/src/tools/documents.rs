//! Documents, and their addresses as resources: `chorus://{conversation}/artifacts/{slug}`.

use super::context::Context;
use super::input::{ArtifactCreate, ArtifactEdit, ArtifactList, ArtifactRead};
use super::output::{DocumentView, Documents, WholeDocument, WrittenDocument};
use crate::conversation;
use chorus_node::Error;
use chorus_protocol::api::Page;
use chorus_protocol::api::documents::{Document, DocumentChange, NewDocument, Slug};
use chorus_protocol::ids::ConversationId;

/// Characters of the longest slug.
const MAX_SLUG: usize = 64;

/// Returns the resource address of a document.
pub fn document_uri(conversation: ConversationId, slug: &str) -> String {
    format!("chorus://{conversation}/artifacts/{slug}")
}

/// Returns the slug of the document of this conversation that an address names, if it is valid.
pub fn document_slug(conversation: ConversationId, uri: &str) -> Option<&str> {
    let rest = uri.strip_prefix("chorus://")?.strip_prefix(&conversation.to_string())?;
    let slug = rest.strip_prefix("/artifacts/")?;
    let sign = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    ((1..=MAX_SLUG).contains(&slug.len()) && slug.bytes().all(sign)).then_some(slug)
}

fn shown(context: &Context, document: Document) -> DocumentView {
    DocumentView {
        uri: document_uri(context.conversation, &document.slug),
        slug: document.slug,
        version: document.version,
        title: document.title,
        content_type: document.content_type,
        encoding: document.encoding,
        size: document.size,
        created_at: document.created_at,
    }
}

/// Renders a document for its author.
fn written(context: &Context, mut document: Document) -> WrittenDocument {
    let masked = std::mem::take(&mut document.masked);
    WrittenDocument { document: shown(context, document), masked }
}

pub(super) async fn list(context: Context, asked: ArtifactList) -> Result<Documents, Error> {
    let page = Page { after: asked.after, limit: asked.limit };
    let found = conversation::list_documents(&context.app, context.who, context.conversation, page).await?;
    let artifacts = found.items.into_iter().map(|document| shown(&context, document)).collect();
    Ok(Documents { artifacts, next: found.next })
}

pub(super) async fn read(context: Context, asked: ArtifactRead) -> Result<WholeDocument, Error> {
    let (Slug(slug), version) = (asked.slug, asked.version);
    let place = (context.conversation, slug);
    let mut found = conversation::read_document(&context.app, context.who, place, version).await?;
    let content = found.content.take().unwrap_or_default();
    Ok(WholeDocument { document: shown(&context, found), content })
}

pub(super) async fn create(context: Context, new: ArtifactCreate) -> Result<WrittenDocument, Error> {
    let once = context.once("artifact_create", new.idempotency_key.as_ref(), &new)?;
    let ArtifactCreate { slug, title, content, encoding, content_type, .. } = new;
    let new = NewDocument { slug, title, content, encoding, content_type };
    let (app, place) = (&context.app, context.conversation);
    let made = conversation::make_document(app, context.who, place, new, once).await?;
    Ok(written(&context, made.result))
}

pub(super) async fn edit(context: Context, change: ArtifactEdit) -> Result<WrittenDocument, Error> {
    let once = context.once("artifact_edit", change.idempotency_key.as_ref(), &change)?;
    let ArtifactEdit { slug: Slug(slug), base_version, content, encoding, title, content_type, .. } = change;
    let base_version = Some(base_version);
    let change = DocumentChange { title, content, encoding, content_type, base_version };
    let (app, place) = (&context.app, (context.conversation, slug));
    let made = conversation::change_document(app, context.who, place, change, once).await?;
    Ok(written(&context, made.result))
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn addresses_are_of_this_channel() {
        let (here, there) = (ConversationId(Uuid::from_u128(1)), ConversationId(Uuid::from_u128(2)));
        assert_eq!(document_slug(here, &document_uri(here, "auth-spec")), Some("auth-spec"));
        assert_eq!(document_slug(there, &document_uri(here, "auth-spec")), None);
        for wrong in ["", "x/y", "UPPER", "a?b", "../x", &"x".repeat(65)] {
            assert_eq!(document_slug(here, &document_uri(here, wrong)), None, "{wrong}");
        }
        assert_eq!(document_slug(here, "https://example.org/artifacts/x"), None);
    }
}
