//! Answers that are being made: seen while they grow by whoever follows the conversation, on every node, and in no log.
//!
//! One for each delivery that is answered. Each conversation has a stream for their growth, which moves with every piece, so
//! that followers are woken like by any commit; they read what is there now, not every step. The last word of a text is
//! shown once it is whole: half a credential is not known for one.

use crate::{Row, StoreError, Tx, TxExt};
use chorus_protocol::ids::{AgentId, ConversationId, DeliveryId, EventId};
use chorus_protocol::redact::MaskedText;
use uuid::Uuid;

/// One that nothing was added to for so long is over.
const LIFE_MS: i64 = 10 * 60 * 1000;
/// So many of one agent are there at a time; the oldest gives way.
const MAX_OF_AGENT: i64 = 16;

/// A message as far as it was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Growing {
    /// The id it will have.
    pub event: EventId,
    /// What its author is called there.
    pub handle: String,
    /// The thread it will be in.
    pub thread: Option<EventId>,
    /// What was said; nothing, if it came to nothing.
    pub content: String,
    /// How far the conversation's growth has come with it.
    pub version: i64,
}

/// A piece of an answer.
#[derive(Debug)]
pub struct NewPiece<'a> {
    /// What is answered.
    pub delivery: DeliveryId,
    /// Where.
    pub conversation: ConversationId,
    /// In which thread.
    pub thread: Option<EventId>,
    /// The id the message gets, if this is its first piece.
    pub event: EventId,
    /// What is added.
    pub text: &'a str,
    /// When.
    pub now: i64,
}

/// The stream that moves when something grows in a conversation.
pub fn stream(conversation: ConversationId) -> Uuid {
    conversation.growth()
}

/// Adds a piece; the id of the message, or nothing if it would be longer than `most` characters.
pub fn add(tx: &mut dyn Tx, piece: &NewPiece<'_>, most: usize) -> Result<Option<EventId>, StoreError> {
    let DeliveryId { agent, seq } = piece.delivery;
    let found = tx.first(
        "SELECT event_id, content, tail FROM growing WHERE agent_id = $1 AND seq = $2",
        &[(&agent).into(), seq.into()],
    )?;
    let (event, mut content, tail) = if let Some(mut row) = found {
        (EventId(row.uuid(0)?), row.text(1)?, row.text(2)?)
    } else {
        make_room(tx, agent)?;
        (piece.event, String::new(), String::new())
    };
    let text = tail + piece.text;
    let (whole, tail) = text.split_at(last_word(&text));
    content.push_str(whole);
    if content.chars().count() + tail.chars().count() > most {
        return Ok(None);
    }
    let content = MaskedText::new(content);
    let version = tx.next_seq(stream(piece.conversation))?;
    tx.execute(
        "INSERT INTO growing (agent_id, seq, conversation_id, event_id, thread_id, content, tail, version, updated_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
         ON CONFLICT (agent_id, seq) DO UPDATE SET content = excluded.content, tail = excluded.tail,
             version = excluded.version, updated_at = excluded.updated_at",
        &[
            (&agent).into(),
            seq.into(),
            (&piece.conversation).into(),
            (&event).into(),
            piece.thread.as_ref().map(|thread| &thread.0).into(),
            content.as_str().into(),
            tail.into(),
            version.into(),
            piece.now.into(),
        ],
    )?;
    Ok(Some(event))
}

/// Where the last word of a text begins: what may be the beginning of something longer, a credential for instance.
fn last_word(text: &str) -> usize {
    text.trim_end_matches(|c: char| c.is_ascii_graphic()).len()
}

fn make_room(tx: &mut dyn Tx, agent: AgentId) -> Result<(), StoreError> {
    tx.execute(
        "DELETE FROM growing WHERE agent_id = $1 AND seq IN
             (SELECT seq FROM growing WHERE agent_id = $1 ORDER BY seq DESC LIMIT $2 OFFSET $3)",
        &[(&agent).into(), MAX_OF_AGENT.into(), (MAX_OF_AGENT - 1).into()],
    )?;
    Ok(())
}

/// The message is said now: the id it was shown under, if it was.
pub fn finish(tx: &mut dyn Tx, delivery: DeliveryId) -> Result<Option<EventId>, StoreError> {
    let sql = "DELETE FROM growing WHERE agent_id = $1 AND seq = $2 RETURNING event_id";
    let row = tx.first(sql, &[(&delivery.agent).into(), delivery.seq.into()])?;
    row.map(|mut row| Ok(EventId(row.uuid(0)?))).transpose()
}

/// It comes to nothing: whoever saw it grow is shown that.
pub fn abandon(
    tx: &mut dyn Tx,
    delivery: DeliveryId,
    conversation: ConversationId,
) -> Result<(), StoreError> {
    let sql = "SELECT 1 FROM growing WHERE agent_id = $1 AND seq = $2 AND content <> ''";
    if tx.first(sql, &[(&delivery.agent).into(), delivery.seq.into()])?.is_none() {
        return Ok(());
    }
    let version = tx.next_seq(stream(conversation))?;
    tx.execute(
        "UPDATE growing SET content = '', tail = '', version = $3 WHERE agent_id = $1 AND seq = $2",
        &[(&delivery.agent).into(), delivery.seq.into(), version.into()],
    )?;
    Ok(())
}

/// What grew in a conversation after `version`, of those who are still there.
pub fn since(
    tx: &mut dyn Tx,
    conversation: ConversationId,
    version: i64,
    limit: i64,
) -> Result<Vec<Growing>, StoreError> {
    let growing = |mut row: Row| {
        Ok(Growing {
            event: EventId(row.uuid(0)?),
            handle: row.text(1)?,
            thread: row.opt_uuid(2)?.map(EventId),
            content: row.text(3)?,
            version: row.int(4)?,
        })
    };
    tx.query(
        "SELECT g.event_id, m.handle, g.thread_id, g.content, g.version FROM growing g
         JOIN members m ON m.conversation_id = g.conversation_id AND m.member_id = g.agent_id AND m.left_seq IS NULL
         WHERE g.conversation_id = $1 AND g.version > $2 ORDER BY g.version LIMIT $3",
        &[(&conversation).into(), version.into(), limit.into()],
    )?
    .into_iter()
    .map(growing)
    .collect()
}

/// Forgets what does not grow any more.
pub fn remove_old(tx: &mut dyn Tx, now: i64, limit: i64) -> Result<u64, StoreError> {
    tx.execute(
        "DELETE FROM growing WHERE (agent_id, seq) IN
             (SELECT agent_id, seq FROM growing WHERE updated_at <= $1 ORDER BY updated_at LIMIT $2)",
        &[(now - LIFE_MS).into(), limit.into()],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_waits_until_it_is_whole() {
        for (text, shown) in
            [("", ""), ("one", ""), ("one two", "one "), ("one two ", "one two "), ("你好sk_1", "你好")]
        {
            assert_eq!(text.split_at(last_word(text)).0, shown, "{text}");
        }
    }
}
