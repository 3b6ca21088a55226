//! Log lines of harnesses, for their agents' owners and the operator.
//!
//! The newest [`MOST_OF_ONE`] lines of each agent are kept for a limited time, so that no agent fills the
//! table or pushes out another's lines.

use crate::audit::{first_of, time_of};
use crate::error::word;
use crate::{Row, StoreError, Tx, TxExt};
use chorus_protocol::c2a::LogLevel;
use chorus_protocol::ids::AgentId;
use chorus_protocol::redact::MaskedText;
use std::collections::BTreeSet;
use uuid::Uuid;

/// So much of one agent is kept.
pub const MOST_OF_ONE: i64 = 200;
/// And for so long.
const KEPT_MS: i64 = 30 * 24 * 60 * 60 * 1000;

/// Something that a harness said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewLine {
    /// Its id, which sorts by time.
    pub id: Uuid,
    pub agent: AgentId,
    pub level: LogLevel,
    /// The part of the harness that logged it.
    pub logger: Option<String>,
    pub text: MaskedText,
}

/// The same as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Its id, which sorts by time.
    pub id: Uuid,
    pub level: LogLevel,
    /// The part of the harness that logged it.
    pub logger: Option<String>,
    pub text: String,
}

impl Line {
    /// Returns its time, from the id.
    pub fn at(&self) -> i64 {
        time_of(self.id)
    }
}

const FORGET: &str = "DELETE FROM harness_logs WHERE agent_id = $1 AND id <=
     (SELECT id FROM harness_logs WHERE agent_id = $1 ORDER BY id DESC LIMIT 1 OFFSET $2)";

pub fn record(tx: &mut dyn Tx, lines: &[NewLine]) -> Result<(), StoreError> {
    for line in lines {
        tx.execute(
            "INSERT INTO harness_logs (agent_id, id, level, logger, text) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING",
            &[
                (&line.agent).into(),
                (&line.id).into(),
                line.level.as_str().into(),
                line.logger.as_deref().into(),
                line.text.as_str().into(),
            ],
        )?;
    }
    for agent in lines.iter().map(|line| line.agent).collect::<BTreeSet<_>>() {
        tx.execute(FORGET, &[(&agent).into(), MOST_OF_ONE.into()])?;
    }
    Ok(())
}

/// Lists the lines of an agent's harness in order, after a line and since a time.
pub fn list(
    tx: &mut dyn Tx,
    agent: AgentId,
    after: Option<Uuid>,
    since: i64,
    limit: i64,
) -> Result<Vec<Line>, StoreError> {
    let begin = first_of(since);
    let after = after.map_or(begin, |after| after.max(begin));
    tx.query(
        "SELECT id, level, logger, text FROM harness_logs WHERE agent_id = $1 AND id > $2 ORDER BY id LIMIT $3",
        &[(&agent).into(), (&after).into(), limit.into()],
    )?
    .into_iter()
    .map(line)
    .collect()
}

fn line(mut row: Row) -> Result<Line, StoreError> {
    Ok(Line {
        id: row.uuid("id")?,
        level: word(&row.text("level")?, LogLevel::parse)?,
        logger: row.opt_text("logger")?,
        text: row.text("text")?,
    })
}

/// A reconciler: forgets some of what is too old, and says how much.
pub fn remove_old(tx: &mut dyn Tx, now: i64, limit: i64) -> Result<u64, StoreError> {
    tx.execute(
        "DELETE FROM harness_logs WHERE id IN (SELECT id FROM harness_logs WHERE id < $1 ORDER BY id LIMIT $2)",
        &[(&first_of(now - KEPT_MS)).into(), limit.into()],
    )
}
