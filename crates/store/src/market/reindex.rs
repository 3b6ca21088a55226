//! Skills that were registered before their words were told apart as they are now: they become findable by these.

use super::{agents, discovery};
use crate::{StoreError, Tx, TxExt, settings};
use chorus_protocol::ids::AgentId;

/// Up to which agent it is done; gone once it is for all. A migration that changes what a word is sets it to nothing.
const INDEXED_THROUGH: &str = "skills_indexed_through";
/// An agent has so many skills, and these so many words, that few of them are a step.
const LESS: i64 = 10;

/// A reconciler: brings the words of some agents' skills up to date, and says whether there are more. Of agents it takes a tenth
/// of `limit`, at least one.
pub fn index_old(tx: &mut dyn Tx, limit: i64) -> Result<bool, StoreError> {
    let next = next(tx, (limit / LESS).max(1))?;
    for (agent, display_name) in &next {
        discovery::forget(tx, *agent)?;
        for skill in agents::skills(tx, *agent)? {
            let texts = [display_name, &skill.name, skill.description.as_deref().unwrap_or_default()];
            discovery::index(tx, *agent, &skill.name, &texts)?;
        }
    }
    pass(tx, next.last())
}

/// Leaves out the agent that [`index_old`] would begin with, and says which.
pub fn skip_old(tx: &mut dyn Tx) -> Result<Option<String>, StoreError> {
    let next = next(tx, 1)?;
    pass(tx, next.last())?;
    Ok(next.last().map(|(agent, _)| agent.to_string()))
}

/// The next agents, with what they are called.
fn next(tx: &mut dyn Tx, limit: i64) -> Result<Vec<(AgentId, String)>, StoreError> {
    let Some(after) = settings::get(tx, INDEXED_THROUGH)? else { return Ok(vec![]) };
    let after = AgentId::parse(&after);
    let after = after.as_ref().map_or([].as_slice(), AgentId::as_bytes);
    let sql =
        "SELECT agent_id, display_name FROM market_agents WHERE agent_id > $1 ORDER BY agent_id LIMIT $2";
    let rows = tx.query(sql, &[after.into(), limit.into()])?;
    rows.into_iter().map(|mut row| Ok((AgentId(row.uuid(0)?), row.text(1)?))).collect()
}

/// It is done up to this one; for all, if there was none. Whether there may be more.
fn pass(tx: &mut dyn Tx, last: Option<&(AgentId, String)>) -> Result<bool, StoreError> {
    let through = last.map(|(agent, _)| agent.to_string());
    settings::set_or_remove(tx, INDEXED_THROUGH, through.as_deref())?;
    Ok(last.is_some())
}
