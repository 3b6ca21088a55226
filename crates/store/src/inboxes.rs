//! Open inboxes: which connection holds an agent's inbox, on which node, and how far it was handed.
//!
//! One connection at a time: opening takes over. The watermark `handed_through` is written lazily and only ever
//! rises; an inbox opened without a cursor begins there. `open_until` is a lease that the node renews while it
//! lives, so that a dead node's inboxes count as closed after a while.

use crate::clock::MAX_SKEW_MS;
use crate::{StoreError, Tx, TxExt};
use chorus_protocol::ids::AgentId;
use uuid::Uuid;

/// The position at which a newly opened inbox begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// Entries up to here were handed to some connection before.
    pub handed_through: i64,
    /// The oldest entry there still is.
    pub oldest: i64,
    pub head: i64,
}

/// Makes `session` on `node` the one connection of this inbox until `until`. It knows no knocks, until [`set_shows`].
pub fn open(
    tx: &mut dyn Tx,
    agent: AgentId,
    session: Uuid,
    node: Uuid,
    until: i64,
) -> Result<Option<Opened>, StoreError> {
    let row = tx.first(
        "UPDATE inboxes SET session = $2, node = $3, open_until = $4, shows = NULL WHERE agent_id = $1
         RETURNING handed_through, oldest",
        &[(&agent).into(), (&session).into(), (&node).into(), until.into()],
    )?;
    let Some(mut row) = row else { return Ok(None) };
    let (handed_through, oldest) = (row.int("handed_through")?, row.int("oldest")?);
    Ok(Some(Opened { handed_through, oldest, head: tx.head(agent.into())? }))
}

/// Ends `session`, unless another has taken over already. Its end is a sign of life.
pub fn close(tx: &mut dyn Tx, agent: AgentId, session: Uuid, now: i64) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE inboxes SET session = NULL, node = NULL, open_until = 0, seen_at = $3, closed_at = $3
         WHERE agent_id = $1 AND session = $2",
        &[(&agent).into(), (&session).into(), now.into()],
    )?;
    Ok(())
}

/// An agent showed a sign of life. One that lies ahead was noted before the clock was set back.
pub fn seen(tx: &mut dyn Tx, agent: AgentId, now: i64) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE inboxes SET seen_at = $2 WHERE agent_id = $1 AND (seen_at < $2 OR seen_at > $3)",
        &[(&agent).into(), now.into(), (now + MAX_SKEW_MS).into()],
    )?;
    Ok(())
}

/// Ends whichever session there is; its node sees it gone.
pub fn disconnect(tx: &mut dyn Tx, agent: AgentId) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE inboxes SET session = NULL, node = NULL, open_until = 0 WHERE agent_id = $1",
        &[(&agent).into()],
    )?;
    Ok(())
}

/// Everything up to `seq` was handed to a connection, by now.
pub fn hand_through(tx: &mut dyn Tx, agent: AgentId, seq: i64, now: i64) -> Result<(), StoreError> {
    let moved = tx.execute(
        "UPDATE inboxes SET handed_through = $2 WHERE agent_id = $1 AND handed_through < $2",
        &[(&agent).into(), seq.into()],
    )?;
    if moved == 1 {
        tx.execute(
            "INSERT INTO handed (agent_id, through, at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
            &[(&agent).into(), seq.into(), now.into()],
        )?;
    }
    Ok(())
}

/// Everything up to here was handed to a connection.
pub fn handed_through(tx: &mut dyn Tx, agent: AgentId) -> Result<i64, StoreError> {
    let row = tx.first("SELECT handed_through FROM inboxes WHERE agent_id = $1", &[(&agent).into()])?;
    row.map_or(Ok(0), |mut row| row.int("handed_through"))
}

/// Keeps words for what a session can show its model. It is sent once more what was sent to one before and not acknowledged: what
/// is between these places, the first left out.
pub fn set_shows(
    tx: &mut dyn Tx,
    agent: AgentId,
    session: Uuid,
    shows: &str,
) -> Result<(i64, i64), StoreError> {
    let row = tx.first(
        "UPDATE inboxes SET shows = $3 WHERE agent_id = $1 AND session = $2 RETURNING handed_through, sent_through",
        &[(&agent).into(), (&session).into(), shows.into()],
    )?;
    row.map_or(Ok((0, 0)), |mut row| Ok((row.int("handed_through")?, row.int("sent_through")?)))
}

/// Counts the entries in this range, without its first position, as sent once more.
pub fn count_again(tx: &mut dyn Tx, agent: AgentId, after: i64, through: i64) -> Result<(), StoreError> {
    let sql = "UPDATE chats SET sent = sent + 1 WHERE agent_id = $1 AND seq > $2 AND seq <= $3";
    tx.execute(sql, &[(&agent).into(), after.into(), through.into()])?;
    Ok(())
}

/// Everything up to `seq` was sent to a session, acknowledged or not.
pub fn send_through(tx: &mut dyn Tx, agent: AgentId, seq: i64) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE inboxes SET sent_through = $2 WHERE agent_id = $1 AND sent_through < $2",
        &[(&agent).into(), seq.into()],
    )?;
    Ok(())
}

/// Returns the delivery modes that the agent's open session supports, or else those of its harness; `None`
/// without knocks. An agent that is away and has no address keeps the modes of its last session.
pub fn shows(tx: &mut dyn Tx, agent: AgentId, now: i64) -> Result<Option<String>, StoreError> {
    let sql = "SELECT CASE WHEN i.open_until > $2 AND i.session IS NOT NULL THEN i.shows
                           WHEN a.harness_shows IS NOT NULL THEN a.harness_shows
                           WHEN a.endpoint IS NULL AND (a.connection IS NULL OR a.broken IS NOT NULL) THEN i.shows END AS shows
               FROM inboxes i JOIN agents a ON a.id = i.agent_id WHERE i.agent_id = $1";
    let row = tx.first(sql, &[(&agent).into(), now.into()])?;
    row.map_or(Ok(None), |mut row| row.opt_text("shows"))
}

/// Returns the same words, and whether the agent or its owner has blocks; `None` for an agent that was deleted.
pub fn reachability(
    tx: &mut dyn Tx,
    agent: AgentId,
    now: i64,
) -> Result<Option<(Option<String>, bool)>, StoreError> {
    let sql = "SELECT CASE WHEN i.open_until > $2 AND i.session IS NOT NULL THEN i.shows
                           WHEN a.harness_shows IS NOT NULL THEN a.harness_shows
                           WHEN a.endpoint IS NULL AND (a.connection IS NULL OR a.broken IS NOT NULL) THEN i.shows END AS shows,
                      a.has_blocks
               FROM inboxes i JOIN agents a ON a.id = i.agent_id WHERE i.agent_id = $1";
    let row = tx.first(sql, &[(&agent).into(), now.into()])?;
    row.map(|mut row| Ok((row.opt_text("shows")?, row.int("has_blocks")? == 1))).transpose()
}

/// A reconciler: this node lives, so its inboxes stay open.
pub fn renew(tx: &mut dyn Tx, node: Uuid, until: i64) -> Result<u64, StoreError> {
    tx.execute("UPDATE inboxes SET open_until = $2 WHERE node = $1", &[(&node).into(), until.into()])
}

/// One inbox that is open on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Open {
    pub agent: AgentId,
    /// The connection that holds it.
    pub session: Uuid,
    pub head: i64,
}

/// Lists the inboxes that this node holds according to the database. One that is missing was taken over or
/// unregistered.
pub fn on_node(tx: &mut dyn Tx, node: Uuid) -> Result<Vec<Open>, StoreError> {
    tx.query(
        "SELECT i.agent_id, i.session, COALESCE(s.head, 0) AS head FROM inboxes i
         LEFT JOIN streams s ON s.kind = 'inbox' AND s.id = i.agent_id
         WHERE i.node = $1",
        &[(&node).into()],
    )?
    .into_iter()
    .map(|mut row| {
        Ok(Open {
            agent: AgentId(row.uuid("agent_id")?),
            session: row.uuid("session")?,
            head: row.int("head")?,
        })
    })
    .collect()
}
