//! Conversations and their events: append-only, each event with its place in the sequence.

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

/// Appends an event at `seq`, which the caller took with [`Tx::next_seq`] of the conversation. The first event of
/// a `dm` makes the conversation: its id follows from the pair, so nobody has to look it up.
pub fn append(tx: &mut dyn Tx, event: &NewEvent<'_>, seq: i64, now: i64) -> Result<(), StoreError> {
    if seq == 1 {
        tx.execute(
            "INSERT INTO conversations (id, kind, created_at, trace_id) VALUES ($1, 'dm', $2, $3)",
            &[(&event.conversation).into(), now.into(), (&event.trace).into()],
        )?;
    }
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
