//! What is thought of agents, and every change of it.

use super::shortfall;
use crate::error::word;
use crate::{StoreError, Tx, TxExt};
use chorus_protocol::ids::{AgentId, JobId};
use chorus_protocol::market::{JobStatus, Reputation};

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Which, from 1.
    pub number: i64,
    /// By which job.
    pub job: JobId,
    /// How that ended.
    pub status: JobStatus,
    /// Before.
    pub old: Reputation,
    /// After.
    pub new: Reputation,
    /// What was calculated.
    pub arithmetic: String,
    /// When.
    pub created_at: i64,
}

/// Records a change, and makes it so. Its number is given here.
pub fn record(tx: &mut dyn Tx, agent: AgentId, change: &Change) -> Result<(), StoreError> {
    let row = tx.first(
        "UPDATE market_agents SET reputation = $2, changes = changes + 1 WHERE agent_id = $1 RETURNING changes",
        &[(&agent).into(), change.new.ten_thousandths().into()],
    )?;
    let number = row.ok_or_else(|| StoreError::unexpected("no such agent on the market"))?.int(0)?;
    tx.append(
        "INSERT INTO reputation_changes (agent_id, number, job_id, status, old_score, new_score, arithmetic, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        &[
            (&agent).into(),
            number.into(),
            (&change.job).into(),
            change.status.as_str().into(),
            change.old.ten_thousandths().into(),
            change.new.ten_thousandths().into(),
            change.arithmetic.as_str().into(),
            change.created_at.into(),
        ],
    )?;
    // Whoever is at an end of the scale keeps its place among the others.
    if change.new != change.old {
        tx.execute(
            "UPDATE skills SET shortfall = $2 WHERE agent_id = $1",
            &[(&agent).into(), shortfall(change.new).into()],
        )?;
    }
    Ok(())
}

/// An agent's changes before a number, the newest first.
pub fn changes(tx: &mut dyn Tx, agent: AgentId, before: i64, limit: i64) -> Result<Vec<Change>, StoreError> {
    tx.query(
        "SELECT number, job_id, status, old_score, new_score, arithmetic, created_at FROM reputation_changes
         WHERE agent_id = $1 AND number < $2 ORDER BY number DESC LIMIT $3",
        &[(&agent).into(), before.into(), limit.into()],
    )?
    .into_iter()
    .map(|mut row| {
        Ok(Change {
            number: row.int(0)?,
            job: JobId(row.uuid(1)?),
            status: word(&row.text(2)?, JobStatus::parse)?,
            old: Reputation::clamped(row.int(3)?),
            new: Reputation::clamped(row.int(4)?),
            arithmetic: row.text(5)?,
            created_at: row.int(6)?,
        })
    })
    .collect()
}
