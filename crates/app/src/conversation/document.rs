//! Documents and their versions: making, changing, deleting and reading them.

use super::{act, is_member, only};
use chorus_node::idempotency::{Done, Once};
use chorus_node::limits::usage::room;
use chorus_node::page::page;
use chorus_node::tasks::blocking::block_in_place_if_large;
use chorus_node::{App, AppState};
use chorus_node::{Error, Refused};
use chorus_protocol::api::documents::{
    Document, DocumentChange, Encoding, MediaType, NewDocument, Slug, Title,
};
use chorus_protocol::api::{Items, Page};
use chorus_protocol::code::Code;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{ConversationId, Principal};
use chorus_protocol::redact::{MaskedContent, MaskedText};
use chorus_protocol::time::rfc3339;
use chorus_store::Tx;
use chorus_store::artifacts::{self, Artifact, Content};
use chorus_store::conversation::{self, Act, ConversationError, NewArtifact};
use data_encoding::BASE64;
use serde_json::json;
use std::sync::Arc;

/// Makes a document.
pub async fn make_document(
    app: &AppState,
    who: Principal,
    conversation: ConversationId,
    new: NewDocument,
    once: Once,
) -> Result<Done<Document>, Error> {
    let NewDocument { slug: Slug(slug), title, content, encoding, content_type } = new;
    let new = version(slug, title, content, encoding, content_type, 0)?;
    let (act, hub) = (act(app, who, conversation), Arc::clone(app));
    let work = move |tx: &mut dyn Tx| {
        let made = put(&hub, tx, &act, &new).map_err(|error| match error {
            ConversationError::Stale(version) => Error::new(
                Code::Conflict,
                "there is a document of this slug already; change that one, or use another slug",
            )
            .details(json!({"version": version}))
            .refused(Refused::SlugTaken),
            error => error.into(),
        })?;
        Ok(Document { masked: kinds(&new), ..shown(made) })
    };
    app.once(once, is_member(who, conversation), work).await
}

/// Makes a new version of a document. If the change names its base version, and there is a newer one, it is
/// refused.
pub async fn change_document(
    app: &AppState,
    who: Principal,
    (conversation, slug): (ConversationId, String),
    change: DocumentChange,
    once: Once,
) -> Result<Done<Document>, Error> {
    let DocumentChange { title, content, encoding, content_type, base_version } = change;
    let new = version(slug, title, content, encoding, content_type, base_version.unwrap_or(0))?;
    let (act, hub) = (act(app, who, conversation), Arc::clone(app));
    let work = move |tx: &mut dyn Tx| {
        conversation::lock_as_speaker(tx, conversation, who)?;
        let mut new = new.clone();
        if new.base == 0 {
            let newest = artifacts::newest(tx, conversation, &new.slug)?;
            new.base = newest.ok_or_else(no_document)?.version;
        }
        let made = put(&hub, tx, &act, &new).map_err(|error| match error {
            ConversationError::Stale(0) => no_document(),
            error => error.into(),
        })?;
        Ok(Document { masked: kinds(&new), ..shown(made) })
    };
    app.once(once, is_member(who, conversation), work).await
}

/// Deletes a document with all its versions. The log still names it.
pub async fn delete_document(
    app: &AppState,
    who: Principal,
    (conversation, slug): (ConversationId, String),
    once: Once,
) -> Result<Done<()>, Error> {
    let act = act(app, who, conversation);
    let work = move |tx: &mut dyn Tx| {
        let removed = conversation::remove_artifact(tx, &act, &slug)
            .map_err(only("who began a document and the owner of the channel remove it"))?;
        removed.ok_or_else(no_document).map(drop)
    };
    app.once(once, is_member(who, conversation), work).await
}

/// Returns a page of the documents of a conversation, ordered by slug, each in its newest version and without
/// its content.
pub async fn list_documents(
    app: &App,
    who: Principal,
    id: ConversationId,
    Page { after, limit }: Page,
) -> Result<Items<Document>, Error> {
    let after = after.unwrap_or_default();
    let find = move |tx: &mut dyn Tx| {
        conversation::as_reader(tx, id, who)?;
        Ok(artifacts::page(tx, id, &after, limit + 1)?)
    };
    let found = app.store.read::<_, Error, _>(find).await?.into_iter().map(shown).collect();
    Ok(page(app, found, limit, |last: &Document| last.slug.clone()))
}

/// Returns a version of a document with its content, by default the newest. The caller must be allowed to read
/// it.
pub async fn read_document(
    app: &App,
    who: Principal,
    place: (ConversationId, String),
    version: Option<i64>,
) -> Result<Document, Error> {
    let mut found = find_document(app, who, place, version).await?;
    let content = match &mut found.content {
        Content::Text(text) => std::mem::take(text),
        Content::Bytes(bytes) => block_in_place_if_large(bytes.len(), || BASE64.encode(bytes)),
    };
    Ok(Document { content: Some(content), ..shown(found) })
}

/// Returns a version of a document, with its content as bytes.
pub async fn read_document_bytes(
    app: &App,
    who: Principal,
    place: (ConversationId, String),
    version: Option<i64>,
) -> Result<(Document, Vec<u8>), Error> {
    let mut found = find_document(app, who, place, version).await?;
    let bytes = match &mut found.content {
        Content::Text(text) => std::mem::take(text).into_bytes(),
        Content::Bytes(bytes) => std::mem::take(bytes),
    };
    Ok((shown(found), bytes))
}

async fn find_document(
    app: &App,
    who: Principal,
    (id, slug): (ConversationId, String),
    version: Option<i64>,
) -> Result<Artifact, Error> {
    let find = move |tx: &mut dyn Tx| {
        let (conversation, _) = conversation::as_reader(tx, id, who)?;
        Ok(artifacts::get_as(tx, &conversation, who, &slug, version)?)
    };
    app.store.read::<_, Error, _>(find).await?.ok_or_else(no_document)
}

/// Returns the view of a document, without its content.
pub fn shown(artifact: Artifact) -> Document {
    Document {
        slug: artifact.slug,
        version: artifact.version,
        title: artifact.title,
        content_type: artifact.content_type,
        encoding: match artifact.content {
            Content::Text(_) => Encoding::Text,
            Content::Bytes(_) => Encoding::Base64,
        },
        size: artifact.size,
        content: None,
        author: artifact.author.into(),
        created_at: rfc3339(artifact.created_at),
        masked: vec![],
    }
}

/// Returns the error for a document that does not exist, or that the caller may not know.
pub fn no_document() -> Error {
    Error::not_found("document").refused(Refused::NoDocument)
}

/// Returns a new document version with credentials masked. Fails if the content is not valid base64.
pub fn version(
    slug: String,
    title: Option<Title>,
    content: String,
    encoding: Option<Encoding>,
    content_type: Option<MediaType>,
    base: i64,
) -> Result<NewArtifact, Error> {
    let content = block_in_place_if_large(content.len(), || match encoding {
        None | Some(Encoding::Text) => Ok(MaskedContent::text(content)),
        Some(Encoding::Base64) => {
            let wrong = |error| {
                let what = "must be base64 as of RFC 4648, section 4, with padding and without line breaks";
                Error::from(Faults::one("content", format_args!("{what}: {error}")))
            };
            BASE64.decode(content.as_bytes()).map(MaskedContent::bytes).map_err(wrong)
        }
    })?;
    let title = title.map(|Title(title)| MaskedText::new(title));
    let content_type = content_type.map(|MediaType(kind)| kind);
    Ok(NewArtifact { slug, title, content_type, content, base })
}

fn kinds(new: &NewArtifact) -> Vec<String> {
    new.kinds().into_iter().map(str::to_owned).collect()
}

/// Stores a version of a document, within the quotas, and deletes the oldest versions beyond the limit.
pub fn put(app: &App, tx: &mut dyn Tx, act: &Act, new: &NewArtifact) -> Result<Artifact, ConversationError> {
    let quotas = &app.config.quotas;
    let artifact = conversation::put_artifact(tx, act, new)?;
    if artifact.size.max(0) as u64 > quotas.document_bytes {
        room("document_bytes", artifact.size, quotas.document_bytes)?;
    }
    if artifact.version == 1 {
        // The new document is counted already, and may be the last one allowed.
        room("documents", artifacts::count(tx, act.conversation)? - 1, quotas.documents)?;
    }
    let keep = i64::try_from(quotas.document_versions).unwrap_or(i64::MAX);
    artifacts::trim(tx, act.conversation, &artifact.slug, keep)?;
    Ok(artifact)
}
