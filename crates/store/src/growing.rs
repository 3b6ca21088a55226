//! Streamed replies that are not finished: visible to readers of the conversation on every node, and not in
//! the log yet.
//!
//! There is one for each delivery that is answered. Each conversation has a stream for their changes, which
//! advances with every piece, so that readers are woken as by any commit. They read the current text, not
//! every step. A piece costs only its own length: the text is in the lines of the reply, of which only the
//! last is rewritten until it is full. A word that may be part of a credential is shown once it is complete.

use crate::{Row, StoreError, StreamKey, Tx, TxExt, reply_lines};
use chorus_protocol::ids::{AgentId, ConversationId, DeliveryId, EventId};
use chorus_protocol::redact::{MaskedText, whole_until};

/// One that nothing was added to for so long is over.
const LIFE_MS: i64 = 10 * 60 * 1000;
/// So many of one agent are there at a time; the oldest gives way.
const MAX_OF_AGENT: i64 = 16;

/// A line is full when it is so many bytes long.
const FULL: usize = 1024;

/// A message as far as it was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Growing {
    /// The id it will have.
    pub event: EventId,
    pub handle: String,
    /// The thread it will be in.
    pub thread: Option<EventId>,
    /// The text so far; empty if the reply was abandoned.
    pub content: String,
    /// The position in the conversation's stream of changes.
    pub version: i64,
}

/// A piece of an answer.
#[derive(Debug)]
pub struct NewPiece<'a> {
    pub delivery: DeliveryId,
    pub conversation: ConversationId,
    pub thread: Option<EventId>,
    /// The id the message gets, if this is its first piece.
    pub event: EventId,
    pub text: &'a str,
    pub now: i64,
}

/// Adds a piece; the id of the message, or nothing if it would be longer than `most` characters: then nothing may be kept of it.
pub fn add(tx: &mut dyn Tx, piece: &NewPiece<'_>, most: usize) -> Result<Option<EventId>, StoreError> {
    let DeliveryId { agent, seq } = piece.delivery;
    // First of all: whoever adds to it at the same time waits here.
    let version = tx.next_seq(StreamKey::growth(piece.conversation))?;
    let found = tx.first(
        "SELECT event_id, tail FROM growing WHERE agent_id = $1 AND seq = $2",
        &[(&agent).into(), seq.into()],
    )?;
    let (event, tail) = if let Some(mut row) = found {
        (EventId(row.uuid("event_id")?), row.text("tail")?)
    } else {
        make_room(tx, agent)?;
        (piece.event, String::new())
    };
    let text = tail + piece.text;
    let (whole, tail) = text.split_at(whole_until(&text));
    let whole = MaskedText::new(whole.to_owned());
    let (mut line, mut data) = reply_lines::last_of_text(tx, piece.delivery)?;
    let said = line - 1 + data.chars().count() as i64;
    if said as usize + whole.as_str().chars().count() + tail.chars().count() > most {
        return Ok(None);
    }
    if !whole.as_str().is_empty() {
        if data.len() >= FULL {
            (line, data) = (said + 1, String::new());
        }
        data.push_str(whole.as_str());
        reply_lines::put_text(tx, piece.delivery, line, &data)?;
    }
    // In `content` were the texts of hubs before this one.
    tx.execute(
        "INSERT INTO growing (agent_id, seq, conversation_id, event_id, thread_id, content, tail, version, updated_at)
         VALUES ($1, $2, $3, $4, $5, '', $6, $7, $8)
         ON CONFLICT (agent_id, seq) DO UPDATE SET tail = excluded.tail,
             version = excluded.version, updated_at = excluded.updated_at",
        &[
            (&agent).into(),
            seq.into(),
            (&piece.conversation).into(),
            (&event).into(),
            piece.thread.as_ref().map(|thread| &thread.0).into(),
            tail.into(),
            version.into(),
            piece.now.into(),
        ],
    )?;
    Ok(Some(event))
}

fn make_room(tx: &mut dyn Tx, agent: AgentId) -> Result<(), StoreError> {
    let gone = tx.query(
        "DELETE FROM growing WHERE agent_id = $1 AND seq IN
             (SELECT seq FROM growing WHERE agent_id = $1 ORDER BY seq DESC LIMIT $2 OFFSET $3)
         RETURNING agent_id, seq",
        &[(&agent).into(), MAX_OF_AGENT.into(), (MAX_OF_AGENT - 1).into()],
    )?;
    remove_texts(tx, gone).map(drop)
}

/// Removes the texts of those that are gone, and counts them.
fn remove_texts(tx: &mut dyn Tx, gone: Vec<Row>) -> Result<u64, StoreError> {
    let count = gone.len() as u64;
    for mut row in gone {
        reply_lines::end(tx, DeliveryId { agent: AgentId(row.uuid("agent_id")?), seq: row.int("seq")? })?;
    }
    Ok(count)
}

/// The message is said now: the id it was shown under, if it was.
pub fn finish(tx: &mut dyn Tx, delivery: DeliveryId) -> Result<Option<EventId>, StoreError> {
    let sql = "DELETE FROM growing WHERE agent_id = $1 AND seq = $2 RETURNING event_id";
    let row = tx.first(sql, &[(&delivery.agent).into(), delivery.seq.into()])?;
    let Some(mut row) = row else { return Ok(None) };
    reply_lines::end(tx, delivery)?;
    Ok(Some(EventId(row.uuid("event_id")?)))
}

/// It comes to nothing: whoever saw it grow is shown that.
pub fn abandon(
    tx: &mut dyn Tx,
    delivery: DeliveryId,
    conversation: ConversationId,
) -> Result<(), StoreError> {
    let sql = "SELECT 1 FROM growing WHERE agent_id = $1 AND seq = $2";
    let grows = tx.first(sql, &[(&delivery.agent).into(), delivery.seq.into()])?.is_some();
    if !grows || reply_lines::last_of_text(tx, delivery)?.1.is_empty() {
        return Ok(());
    }
    let version = tx.next_seq(StreamKey::growth(conversation))?;
    reply_lines::end(tx, delivery)?;
    tx.execute(
        "UPDATE growing SET tail = '', version = $3 WHERE agent_id = $1 AND seq = $2",
        &[(&delivery.agent).into(), delivery.seq.into(), version.into()],
    )?;
    Ok(())
}

/// Lists the replies of present members that changed after `version`.
pub fn since(
    tx: &mut dyn Tx,
    conversation: ConversationId,
    version: i64,
    limit: i64,
) -> Result<Vec<Growing>, StoreError> {
    let rows = tx.query(
        "SELECT g.agent_id, g.seq, g.event_id, m.handle, g.thread_id, g.version FROM growing g
         JOIN members m ON m.conversation_id = g.conversation_id AND m.member_id = g.agent_id AND m.left_seq IS NULL
         WHERE g.conversation_id = $1 AND g.version > $2 ORDER BY g.version LIMIT $3",
        &[(&conversation).into(), version.into(), limit.into()],
    )?;
    let growing = |mut row: Row| {
        let delivery = DeliveryId { agent: AgentId(row.uuid("agent_id")?), seq: row.int("seq")? };
        Ok(Growing {
            event: EventId(row.uuid("event_id")?),
            handle: row.text("handle")?,
            thread: row.opt_uuid("thread_id")?.map(EventId),
            content: reply_lines::after(tx, delivery, 0)?.into_iter().map(|line| line.data).collect(),
            version: row.int("version")?,
        })
    };
    rows.into_iter().map(growing).collect()
}

/// Forgets what does not grow any more.
pub fn remove_old(tx: &mut dyn Tx, now: i64, limit: i64) -> Result<u64, StoreError> {
    let gone = tx.query(
        "DELETE FROM growing WHERE (agent_id, seq) IN
             (SELECT agent_id, seq FROM growing WHERE updated_at <= $1 ORDER BY updated_at LIMIT $2)
         RETURNING agent_id, seq",
        &[(now - LIFE_MS).into(), limit.into()],
    )?;
    remove_texts(tx, gone)
}
