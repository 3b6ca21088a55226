//! Repairs times that lie too far ahead after the clock was set back.
//!
//! A lease has a maximum length. A lease that ends later than that was written by a clock that was ahead, and
//! waiting for it would take as long as the clock was set back. The same holds for the next try of postponed
//! deliveries. Both are brought to the present. A node's own leases are left alone: the node ends or renews
//! them without looking at the clock.

use crate::{StoreError, Tx, TxExt};
use chorus_protocol::ids::{AgentId, DeliveryId};
use uuid::Uuid;

/// Clocks of nodes may differ by so much without anything being wrong.
pub const MAX_SKEW_MS: i64 = 60_000;

/// The maximum lengths of leases and postponements.
#[derive(Debug, Clone, Copy)]
pub struct Longest {
    /// A lease of a delivery.
    pub lease_ms: i64,
    /// The lease of an open inbox.
    pub presence_ms: i64,
}

macro_rules! select_late {
    ($which:literal) => {
        concat!(
            "SELECT c.agent_id, c.seq FROM chats c JOIN deliveries d ON d.agent_id = c.agent_id AND d.seq = c.seq
             WHERE c.due_at IS NOT NULL AND ",
            $which,
            " AND c.due_at > $1 AND c.due_at < c.give_up_at AND d.updated_at > $2 AND d.lease_until IS NULL
             ORDER BY c.due_at LIMIT $3"
        )
    };
}

const LATE: [&str; 2] = [select_late!("c.attempt = 0"), select_late!("c.attempt > 0")];

/// Finds at most `limit` deliveries that were postponed at a time in the future, for `push::hurry`. Deliveries
/// to a broken connection may wait for their end.
pub fn find_late(tx: &mut dyn Tx, now: i64, limit: i64) -> Result<Vec<DeliveryId>, StoreError> {
    let (ahead, mut found) = (now + MAX_SKEW_MS, vec![]);
    for sql in LATE {
        let params = [now.into(), ahead.into(), (limit - found.len() as i64).into()];
        for mut row in tx.query(sql, &params)? {
            found.push(DeliveryId { agent: AgentId(row.uuid("agent_id")?), seq: row.int("seq")? });
        }
    }
    Ok(found)
}

/// Returns whether other nodes hold leases that are longer than allowed.
pub fn finds_ahead(tx: &mut dyn Tx, node: Uuid, now: i64, longest: &Longest) -> Result<bool, StoreError> {
    let leases = tx.first(
        "SELECT 1 FROM deliveries WHERE lease_until > $1 AND lease_owner <> $2 LIMIT 1",
        &[(now + longest.lease_ms + MAX_SKEW_MS).into(), (&node).into()],
    )?;
    let inboxes = tx.first(
        "SELECT 1 FROM inboxes WHERE node IS NOT NULL AND node <> $2 AND open_until > $1 LIMIT 1",
        &[(now + longest.presence_ms + MAX_SKEW_MS).into(), (&node).into()],
    )?;
    Ok(leases.is_some() || inboxes.is_some())
}

/// Ends leases of other nodes that are longer than allowed. A living node renews its inboxes, and reports its
/// tries unless another node took them over.
pub fn pull_back(tx: &mut dyn Tx, node: Uuid, now: i64, longest: &Longest) -> Result<(), StoreError> {
    let ahead = now + longest.lease_ms + MAX_SKEW_MS;
    let held = "SELECT DISTINCT agent_id FROM deliveries WHERE lease_until > $1 AND lease_owner <> $2 ORDER BY agent_id";
    for mut row in tx.query(held, &[ahead.into(), (&node).into()])? {
        // Recording a try takes this lock as well.
        tx.lock(AgentId(row.uuid("agent_id")?).into())?;
    }
    // A delivery that is being pushed is due when its lease ends.
    tx.execute(
        "UPDATE chats SET due_at = $3 WHERE due_at > $3 AND (agent_id, seq) IN
             (SELECT agent_id, seq FROM deliveries WHERE lease_until > $1 AND lease_owner <> $2)",
        &[ahead.into(), (&node).into(), now.into()],
    )?;
    tx.execute(
        "UPDATE deliveries SET lease_until = $3 WHERE lease_until > $1 AND lease_owner <> $2",
        &[ahead.into(), (&node).into(), now.into()],
    )?;
    tx.execute(
        "UPDATE inboxes SET open_until = $3 WHERE node IS NOT NULL AND node <> $2 AND open_until > $1",
        &[(now + longest.presence_ms + MAX_SKEW_MS).into(), (&node).into(), now.into()],
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::push::plan_of;

    /// It is asked every few seconds, whatever waits.
    #[tokio::test]
    async fn looking_is_cheap() {
        for (sql, index) in LATE.into_iter().zip(["first_tries", "retries"]) {
            let plan = plan_of(sql, 3).await;
            assert!(plan.contains(&format!("INDEX chats_{index} (due_at>?")), "{plan}");
            assert!(!plan.contains("TEMP B-TREE"), "{plan}");
        }
    }
}
