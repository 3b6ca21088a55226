//! Answers while they are made, line by line: what receivers say to senders that wait, on whichever node either is, and the texts of
//! messages that grow in conversations (`growing`). The answer to one delivery is the one or the other.
//!
//! A sender that waits leaves line 0; whoever answers adds lines, and the node where the sender waits reads them and takes
//! them away at the end. Each receiver has a stream for it, so that the waiting node is woken like by any commit.

use crate::{Row, StoreError, StreamKey, Tx, TxExt};
use chorus_protocol::ids::DeliveryId;
use uuid::Uuid;

/// So many bytes wait for a sender at most.
const MAX_WAITING: i64 = 1024 * 1024;
/// The kind of line 0.
const WAITS: &str = "waits";
/// The kind of a line of a streamed message.
const TEXT: &str = "text";
/// The kind of a line that marks a reply as begun, which happens once.
const BEGUN: &str = "begun";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// Nobody does, any more.
    Nobody,
    /// And has taken in enough of what was said.
    Listens,
    /// And has not: what is said now must wait.
    Lags,
}

/// One thing that was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SaidLine {
    /// Its number, from 1.
    pub line: i64,
    pub kind: String,
    /// Its data, as it goes to the sender.
    pub data: String,
}

/// Somebody waits for the answer to this, until then.
pub fn wait(tx: &mut dyn Tx, to: DeliveryId, until: i64) -> Result<(), StoreError> {
    insert(tx, to, 0, WAITS, "", until).map(drop)
}

fn insert(
    tx: &mut dyn Tx,
    to: DeliveryId,
    line: i64,
    kind: &str,
    data: &str,
    until: i64,
) -> Result<bool, StoreError> {
    let inserted = tx.execute(
        "INSERT INTO reply_lines (agent_id, seq, line, kind, data, until_at) VALUES ($1, $2, $3, $4, $5, $6)
         ON CONFLICT (agent_id, seq, line) DO NOTHING",
        &[(&to.agent).into(), to.seq.into(), line.into(), kind.into(), data.into(), until.into()],
    )?;
    Ok(inserted == 1)
}

/// Returns whether a sender waits for the reply to this delivery.
pub fn waiting(tx: &mut dyn Tx, to: DeliveryId, now: i64) -> Result<Waiting, StoreError> {
    let row = tx.first(
        "SELECT COUNT(*) AS count, CAST(COALESCE(SUM(OCTET_LENGTH(data)), 0) AS BIGINT) AS bytes FROM reply_lines
         WHERE agent_id = $1 AND seq = $2 AND until_at > $3",
        &[(&to.agent).into(), to.seq.into(), now.into()],
    )?;
    let Some(mut row) = row else { return Ok(Waiting::Nobody) };
    let (lines, bytes) = (row.int("count")?, row.int("bytes")?);
    Ok(match lines {
        0 => Waiting::Nobody,
        _ if bytes > MAX_WAITING => Waiting::Lags,
        _ => Waiting::Listens,
    })
}

/// Begins the answer that can be given once; false if nobody waits for it, or it was begun before.
pub fn begin(tx: &mut dyn Tx, to: DeliveryId, now: i64) -> Result<bool, StoreError> {
    let waits = tx.first(
        "SELECT until_at FROM reply_lines WHERE agent_id = $1 AND seq = $2 AND line = 0 AND until_at > $3",
        &[(&to.agent).into(), to.seq.into(), now.into()],
    )?;
    let Some(mut waits) = waits else { return Ok(false) };
    let until = waits.int("until_at")?;
    insert(tx, to, 1, BEGUN, "", until)
}

/// Says something to whoever waits; false if nobody does.
pub fn say(tx: &mut dyn Tx, to: DeliveryId, kind: &str, data: &str, now: i64) -> Result<bool, StoreError> {
    // First of all: whoever says something at the same time waits here.
    tx.next_seq(StreamKey::replies(to.agent))?;
    let last = tx.first(
        "SELECT MAX(line) AS last_line, MAX(until_at) AS until_at FROM reply_lines
         WHERE agent_id = $1 AND seq = $2 AND until_at > $3",
        &[(&to.agent).into(), to.seq.into(), now.into()],
    )?;
    let Some(mut last) = last else { return Ok(false) };
    let (Some(line), Some(until)) = (last.opt_int("last_line")?, last.opt_int("until_at")?) else {
        return Ok(false);
    };
    insert(tx, to, line + 1, kind, data, until)
}

/// Lists the lines after `line`.
pub fn after(tx: &mut dyn Tx, to: DeliveryId, line: i64) -> Result<Vec<SaidLine>, StoreError> {
    let said = |mut row: Row| {
        Ok(SaidLine { line: row.int("line")?, kind: row.text("kind")?, data: row.text("data")? })
    };
    tx.query(
        "SELECT line, kind, data FROM reply_lines WHERE agent_id = $1 AND seq = $2 AND line > $3 ORDER BY line",
        &[(&to.agent).into(), to.seq.into(), line.into()],
    )?
    .into_iter()
    .map(said)
    .collect()
}

/// The number and text of the last line of a message that grows; those of its first, if it has none yet. Lines are numbered by
/// the characters before them, the first with 1.
pub(crate) fn last_of_text(tx: &mut dyn Tx, to: DeliveryId) -> Result<(i64, String), StoreError> {
    let row = tx.first(
        "SELECT line, data FROM reply_lines WHERE agent_id = $1 AND seq = $2 ORDER BY line DESC LIMIT 1",
        &[(&to.agent).into(), to.seq.into()],
    )?;
    row.map_or(Ok((1, String::new())), |mut row| Ok((row.int("line")?, row.text("data")?)))
}

/// Writes a line of a message that grows. It stays until [`end`]: `growing` says how long that may take.
pub(crate) fn put_text(tx: &mut dyn Tx, to: DeliveryId, line: i64, data: &str) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO reply_lines (agent_id, seq, line, kind, data, until_at) VALUES ($1, $2, $3, $4, $5, $6)
         ON CONFLICT (agent_id, seq, line) DO UPDATE SET data = excluded.data",
        &[(&to.agent).into(), to.seq.into(), line.into(), TEXT.into(), data.into(), i64::MAX.into()],
    )?;
    Ok(())
}

/// Takes away what the sender has, and keeps that it waits.
pub fn took(tx: &mut dyn Tx, to: DeliveryId, line: i64) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE reply_lines SET data = '' WHERE agent_id = $1 AND seq = $2 AND line <= $3 AND data <> ''",
        &[(&to.agent).into(), to.seq.into(), line.into()],
    )?;
    Ok(())
}

/// Nobody waits any more.
pub fn end(tx: &mut dyn Tx, to: DeliveryId) -> Result<(), StoreError> {
    let sql = "DELETE FROM reply_lines WHERE agent_id = $1 AND seq = $2";
    tx.execute(sql, &[(&to.agent).into(), to.seq.into()])?;
    Ok(())
}

/// Nothing that was given to this agent to reply with is good any more.
pub fn end_all(tx: &mut dyn Tx, agent: Uuid) -> Result<(), StoreError> {
    tx.execute("DELETE FROM reply_lines WHERE agent_id = $1", &[(&agent).into()])?;
    Ok(())
}

/// Forgets those whose node has died.
pub fn remove_expired(tx: &mut dyn Tx, now: i64, limit: i64) -> Result<u64, StoreError> {
    tx.execute(
        "DELETE FROM reply_lines WHERE (agent_id, seq, line) IN
             (SELECT agent_id, seq, line FROM reply_lines WHERE until_at <= $1 ORDER BY until_at LIMIT $2)",
        &[now.into(), limit.into()],
    )
}
