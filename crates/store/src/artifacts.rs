//! Documents of a conversation, in versions. A change that is based on an outdated version is refused.
//!
//! A document is text or bytes. Lists return its type and size without reading the content.
//!
//! In a conversation with history `joined`, a member reads the versions that were current during one of its
//! stays: always the newest, and older ones unless it joined after the next version was made.

use crate::conversations::Conversation;
use crate::members::MembershipInterval;
use crate::usage::{self, ROW_BYTES, Refusal};
use crate::{Row, StoreError, Tx, TxExt, log};
use chorus_protocol::ids::{ConversationId, Principal, TraceId};

/// The content of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    Text(String),
    /// Bytes that are none.
    Bytes(Vec<u8>),
}

/// One version of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// Its name in the conversation's addresses.
    pub slug: String,
    /// The version number, from 1.
    pub version: i64,
    pub title: String,
    /// The media type of its content.
    pub content_type: String,
    /// The document; empty in lists.
    pub content: Content,
    /// The size in bytes.
    pub size: i64,
    /// The author of this version.
    pub author: Principal,
    pub created_at: i64,
    /// Its place in the conversation.
    pub seq: i64,
}

fn artifact(mut row: Row) -> Result<Artifact, StoreError> {
    let (kind, author) = (row.text("author_kind")?, row.uuid("author_id")?);
    let content = match row.opt_int("bytes_length")? {
        None => Content::Text(row.text("content")?),
        Some(_) => Content::Bytes(row.opt_bytes("bytes")?.unwrap_or_default()),
    };
    Ok(Artifact {
        slug: row.text("slug")?,
        version: row.int("version")?,
        title: row.text("title")?,
        content_type: row.text("content_type")?,
        content,
        size: row.int("length")?,
        author: Principal::new(&kind, author)
            .ok_or_else(|| StoreError::unexpected(format!("an author of kind {kind:?}")))?,
        created_at: row.int("created_at")?,
        seq: row.int("seq")?,
    })
}

/// Adds a version. The caller has seen, in this transaction, that it follows the newest, and was given what is masked.
pub(crate) fn insert(
    tx: &mut dyn Tx,
    conversation: ConversationId,
    new: &Artifact,
    trace: TraceId,
) -> Result<(), StoreError> {
    let (text, bytes) = match &new.content {
        Content::Text(text) => (text.as_str(), None),
        Content::Bytes(bytes) => ("", Some(bytes.as_slice())),
    };
    usage::charge(tx, new.author, new.size.saturating_add(ROW_BYTES), Refusal::WhenFull)?;
    tx.execute(
        "INSERT INTO artifacts (conversation_id, slug, version, title, content_type, content, author_kind, author_id, created_at,
                                trace_id, seq, bytes)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
        &[
            (&conversation).into(),
            new.slug.as_str().into(),
            new.version.into(),
            new.title.as_str().into(),
            new.content_type.as_str().into(),
            text.into(),
            new.author.kind().as_str().into(),
            (&new.author.uuid()).into(),
            new.created_at.into(),
            (&trace).into(),
            new.seq.into(),
            bytes.into(),
        ],
    )?;
    Ok(())
}

/// A document in its newest version, or in the one that is named.
pub fn get(
    tx: &mut dyn Tx,
    conversation: ConversationId,
    slug: &str,
    version: Option<i64>,
) -> Result<Option<Artifact>, StoreError> {
    tx.first(
        "SELECT slug, version, title, content_type, author_kind, author_id, created_at, seq,
                OCTET_LENGTH(content) + COALESCE(OCTET_LENGTH(bytes), 0) AS length,
                OCTET_LENGTH(bytes) AS bytes_length, content, bytes
         FROM artifacts
         WHERE conversation_id = $1 AND slug = $2 AND (CAST($3 AS BIGINT) = 0 OR version = $3) ORDER BY version DESC LIMIT 1",
        &[(&conversation).into(), slug.into(), version.unwrap_or(0).into()],
    )?
    .map(artifact)
    .transpose()
}

/// A document in its newest version, without its content.
pub fn newest(
    tx: &mut dyn Tx,
    conversation: ConversationId,
    slug: &str,
) -> Result<Option<Artifact>, StoreError> {
    tx.first(
        "SELECT slug, version, title, content_type, author_kind, author_id, created_at, seq,
                OCTET_LENGTH(content) + COALESCE(OCTET_LENGTH(bytes), 0) AS length,
                OCTET_LENGTH(bytes) AS bytes_length, '' AS content, NULL AS bytes
         FROM artifacts
         WHERE conversation_id = $1 AND slug = $2 ORDER BY version DESC LIMIT 1",
        &[(&conversation).into(), slug.into()],
    )?
    .map(artifact)
    .transpose()
}

/// A document in a version, as a present member reads it, if it may.
pub fn get_as(
    tx: &mut dyn Tx,
    conversation: &Conversation,
    who: Principal,
    slug: &str,
    version: Option<i64>,
) -> Result<Option<Artifact>, StoreError> {
    let Some(found) = get(tx, conversation.id, slug, version)? else { return Ok(None) };
    let next = tx.first(
        "SELECT MIN(seq) AS oldest_seq FROM artifacts WHERE conversation_id = $1 AND slug = $2 AND version > $3",
        &[(&conversation.id).into(), slug.into(), found.version.into()],
    )?;
    let next = next.map(|mut row| row.opt_int("oldest_seq")).transpose()?.flatten();
    let stays = log::readable(tx, conversation, who)?;
    // A stay that began before the next version and did not end before this one.
    let was_there = |stay: &MembershipInterval| {
        next.is_none_or(|next| stay.from < next) && stay.to.is_none_or(|to| found.seq <= to)
    };
    Ok(stays.iter().any(was_there).then_some(found))
}

/// The newest versions of all documents in the order of their slugs, after `after`, without their content.
pub fn page(
    tx: &mut dyn Tx,
    conversation: ConversationId,
    after: &str,
    limit: i64,
) -> Result<Vec<Artifact>, StoreError> {
    tx.query(
        "SELECT a.slug, a.version, a.title, a.content_type, a.author_kind, a.author_id, a.created_at, a.seq,
                OCTET_LENGTH(a.content) + COALESCE(OCTET_LENGTH(a.bytes), 0) AS length,
                OCTET_LENGTH(a.bytes) AS bytes_length, '' AS content, NULL AS bytes
         FROM artifacts a
         WHERE a.conversation_id = $1 AND a.slug > $2 AND NOT EXISTS
             (SELECT 1 FROM artifacts n WHERE n.conversation_id = $1 AND n.slug = a.slug AND n.version > a.version)
         ORDER BY a.slug LIMIT $3",
        &[(&conversation).into(), after.into(), limit.into()],
    )?
    .into_iter()
    .map(artifact)
    .collect()
}

/// Counts the documents of a conversation.
pub fn count(tx: &mut dyn Tx, conversation: ConversationId) -> Result<i64, StoreError> {
    let sql = "SELECT COUNT(DISTINCT slug) AS slugs FROM artifacts WHERE conversation_id = $1";
    tx.first(sql, &[(&conversation).into()])?.map_or(Ok(0), |mut row| row.int("slugs"))
}

/// Removes all versions of a document but the newest `keep`, and at least one; whose they were, and how many bytes each had.
pub fn trim(
    tx: &mut dyn Tx,
    conversation: ConversationId,
    slug: &str,
    keep: i64,
) -> Result<Vec<(Principal, i64)>, StoreError> {
    let gone = tx.query(
        "DELETE FROM artifacts WHERE conversation_id = $1 AND slug = $2 AND version <=
             (SELECT MAX(n.version) FROM artifacts n WHERE n.conversation_id = $1 AND n.slug = $2) - CAST($3 AS BIGINT)
         RETURNING author_kind, author_id, OCTET_LENGTH(content) + COALESCE(OCTET_LENGTH(bytes), 0) AS length",
        &[(&conversation).into(), slug.into(), keep.max(1).into()],
    )?;
    gone.into_iter().map(|row| removed(tx, row)).collect()
}

/// Removes a document with all its versions; whose they were, and how many bytes each had.
pub(crate) fn remove(
    tx: &mut dyn Tx,
    conversation: ConversationId,
    slug: &str,
) -> Result<Vec<(Principal, i64)>, StoreError> {
    let gone = tx.query(
        "DELETE FROM artifacts WHERE conversation_id = $1 AND slug = $2
         RETURNING author_kind, author_id, OCTET_LENGTH(content) + COALESCE(OCTET_LENGTH(bytes), 0) AS length",
        &[(&conversation).into(), slug.into()],
    )?;
    gone.into_iter().map(|row| removed(tx, row)).collect()
}

/// Gives the bytes of a removed version back, and returns whose they were.
fn removed(tx: &mut dyn Tx, mut row: Row) -> Result<(Principal, i64), StoreError> {
    let (kind, id) = (row.text("author_kind")?, row.uuid("author_id")?);
    let author = Principal::new(&kind, id);
    let author = author.ok_or_else(|| StoreError::unexpected(format!("an author of kind {kind:?}")))?;
    let bytes = row.int("length")? + ROW_BYTES;
    usage::give_back(tx, author, bytes)?;
    Ok((author, bytes))
}

/// Returns the author of the oldest stored version of a document.
pub(crate) fn begun_by(
    tx: &mut dyn Tx,
    conversation: ConversationId,
    slug: &str,
) -> Result<Option<Principal>, StoreError> {
    let row = tx.first(
        "SELECT author_kind, author_id FROM artifacts WHERE conversation_id = $1 AND slug = $2 ORDER BY version LIMIT 1",
        &[(&conversation).into(), slug.into()],
    )?;
    row.map_or(Ok(None), |mut row| Ok(Principal::new(&row.text("author_kind")?, row.uuid("author_id")?)))
}
