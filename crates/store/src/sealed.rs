//! Encrypted columns, for changing the encryption key: connection strings, and posts of other services.
//!
//! The store knows no key. It walks over the encrypted values in steps and replaces one ciphertext by another
//! of the same content. Readers see no difference, so neither epochs nor times change.

use crate::conversations::INLINE_BODY;
use crate::{Param, StoreError, Tx, TxExt};
use chorus_protocol::ids::{AgentId, EventId};

/// Agents' own connection strings as they are stored, in the order of the agents, after `after`.
pub fn connections(
    tx: &mut dyn Tx,
    after: Option<AgentId>,
    limit: i64,
) -> Result<Vec<(AgentId, Vec<u8>)>, StoreError> {
    let after = after.as_ref().map_or([].as_slice(), AgentId::as_bytes);
    tx.query(
        "SELECT id, connection FROM agents WHERE connection IS NOT NULL AND id > $1 ORDER BY id LIMIT $2",
        &[after.into(), limit.into()],
    )?
    .into_iter()
    .map(|mut row| Ok((AgentId(row.uuid("id")?), row.bytes("connection")?)))
    .collect()
}

/// Puts another form of the same connection string in the place of `former`, unless its owner has replaced that.
pub fn replace_connection(
    tx: &mut dyn Tx,
    agent: AgentId,
    former: &[u8],
    sealed: &[u8],
) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE agents SET connection = $3 WHERE id = $1 AND connection = $2",
        &[(&agent).into(), former.into(), sealed.into()],
    )?;
    Ok(())
}

const POSTS: &str = "SELECT e.id, CASE WHEN COALESCE(e.body, b.body) LIKE $2 THEN 1 ELSE 0 END AS is_sealed
     FROM events e LEFT JOIN large_bodies b ON b.event_id = e.id
     WHERE e.kind = 'foreign' AND e.id > $1 ORDER BY e.id LIMIT $3";

/// Posts of other services in the order of their ids, after `after`: which, and whether they begin with `mark`, which holds
/// neither `%` nor `_`.
pub fn posts(
    tx: &mut dyn Tx,
    after: Option<EventId>,
    mark: &str,
    limit: i64,
) -> Result<Vec<(EventId, bool)>, StoreError> {
    let after = after.as_ref().map_or([].as_slice(), EventId::as_bytes);
    let like = format!("{mark}%");
    tx.query(POSTS, &[after.into(), like.as_str().into(), limit.into()])?
        .into_iter()
        .map(|mut row| Ok((EventId(row.uuid("id")?), row.int("is_sealed")? == 1)))
        .collect()
}

/// Puts another form of the same post in its place.
pub fn replace_post(tx: &mut dyn Tx, event: EventId, body: &str) -> Result<(), StoreError> {
    let inline = body.len() <= INLINE_BODY;
    tx.execute(
        "UPDATE events SET body = $2 WHERE id = $1 AND kind = 'foreign'",
        &[(&event).into(), if inline { body.into() } else { Param::Null }],
    )?;
    tx.execute("DELETE FROM large_bodies WHERE event_id = $1", &[(&event).into()])?;
    if !inline {
        tx.execute(
            "INSERT INTO large_bodies (event_id, body) VALUES ($1, $2)",
            &[(&event).into(), body.into()],
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nobody walks over everything that was ever said for the posts of other services.
    #[tokio::test]
    async fn posts_have_their_index() {
        let plan = crate::push::plan_of(POSTS, 3).await;
        assert!(plan.contains("events_foreign (id>?)") && !plan.contains("TEMP B-TREE"), "{plan}");
    }
}
