//! Events: append-only, each in its conversation, most with a place in its sequence.

use crate::{Param, StoreError, Tx};
use chorus_protocol::ids::{AgentId, ConversationId, EventId, TraceId};

/// A body up to this size lies in the event's own row; a larger one elsewhere, so that the rows stay small.
const INLINE_BODY: usize = 64 * 1024;

/// One thing that happened.
#[derive(Debug, Clone)]
pub struct NewEvent<'a> {
    /// Its id.
    pub id: EventId,
    /// Where.
    pub conversation: ConversationId,
    /// What kind of thing: `envelope`.
    pub kind: &'a str,
    /// By whom.
    pub author: AgentId,
    /// What it belongs to.
    pub trace: TraceId,
    /// What was said, JSON.
    pub body: &'a str,
}

/// The place of an event whose order something else tells: a relay envelope's is its receiver's inbox.
pub const UNPLACED: i64 = 0;

/// Appends an event at `seq`, which the caller took with [`Tx::next_seq`] of the conversation, or [`UNPLACED`].
pub fn append(tx: &mut dyn Tx, event: &NewEvent<'_>, seq: i64, now: i64) -> Result<(), StoreError> {
    let inline = event.body.len() <= INLINE_BODY;
    tx.execute(
        "INSERT INTO events (id, conversation_id, seq, kind, author_id, trace_id, created_at, body)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        &[
            (&event.id).into(),
            (&event.conversation).into(),
            seq.into(),
            event.kind.into(),
            (&event.author).into(),
            (&event.trace).into(),
            now.into(),
            if inline { event.body.into() } else { Param::Null },
        ],
    )?;
    if !inline {
        tx.execute(
            "INSERT INTO large_bodies (event_id, body) VALUES ($1, $2)",
            &[(&event.id).into(), event.body.into()],
        )?;
    }
    Ok(())
}
