//! The market's last sign of life, and the time that open jobs get back after an outage of the hub.

use crate::{StoreError, Tx, TxExt, settings};

/// The setting that holds the time of the last tick.
const LAST_TICK: &str = "market_tick";

/// Returns whether any job is open: only these lose by an outage.
pub fn has_open_jobs(tx: &mut dyn Tx) -> Result<bool, StoreError> {
    Ok(tx.first("SELECT 1 FROM jobs WHERE status = 'PENDING' LIMIT 1", &[])?.is_some())
}

/// Notes that the market is up.
pub fn tick(tx: &mut dyn Tx, now: i64) -> Result<(), StoreError> {
    settings::set(tx, LAST_TICK, &now.to_string())
}

/// Gives open jobs back the time since the last tick if that is longer than `shortest_ms`, and notes that the market is up.
/// Returns whether there was such an outage. Without any tick it began before all open jobs did.
pub fn recover(tx: &mut dyn Tx, shortest_ms: i64, now: i64) -> Result<bool, StoreError> {
    let (known, new) = (settings::get(tx, LAST_TICK)?, now.to_string());
    // Of two nodes that start at once one gives the time back.
    let is_first = match &known {
        None => settings::set_once(tx, LAST_TICK, &new)?.1,
        Some(known) => {
            let sql = "UPDATE settings SET value = $3 WHERE name = $1 AND value = $2";
            tx.execute(sql, &[LAST_TICK.into(), known.as_str().into(), new.as_str().into()])? == 1
        }
    };
    let last = known.and_then(|at| at.parse::<i64>().ok()).unwrap_or(0);
    let was_down = is_first && now - last > shortest_ms;
    if was_down {
        give_back(tx, last, now)?;
    }
    Ok(was_down)
}

/// Adds the time from `since` to now to the deadlines of open jobs, as far as they were open then. None of them will count.
fn give_back(tx: &mut dyn Tx, since: i64, now: i64) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE jobs SET deadline_at = deadline_at + $2 - CASE WHEN created_at > $1 THEN created_at ELSE $1 END,
                excuse = COALESCE(excuse, 'hub_down')
         WHERE status = 'PENDING' AND deadline_at > $1 AND created_at < $2",
        &[since.into(), now.into()],
    )?;
    // A job is brought to its agent until its deadline.
    tx.execute(
        "UPDATE chats SET due_at = CASE WHEN due_at = give_up_at
                    THEN (SELECT deadline_at FROM jobs j WHERE j.event_id = chats.event_id AND j.status = 'PENDING') ELSE due_at END,
                give_up_at = (SELECT deadline_at FROM jobs j WHERE j.event_id = chats.event_id AND j.status = 'PENDING')
         WHERE give_up_at IS NOT NULL
           AND event_id IN (SELECT event_id FROM jobs WHERE status = 'PENDING' AND excuse = 'hub_down')",
        &[],
    )?;
    Ok(())
}
