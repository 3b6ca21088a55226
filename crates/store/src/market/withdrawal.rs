//! Withdraws everything an agent offers on the market.

use super::{agents, quotes};
use crate::{StoreError, Tx};
use chorus_protocol::ids::AgentId;

/// The offers of an agent that were taken back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WithdrawnOffers {
    /// The host where jobs were POSTed to.
    pub endpoint: Option<String>,
    /// The number of skills.
    pub skills: u64,
    /// The number of offers that somebody could still have accepted.
    pub quotes: u64,
}

/// Takes back everything an agent offers, and where its jobs are POSTed to. It stays on the market, with its reputation.
pub fn withdraw(tx: &mut dyn Tx, agent: AgentId, now: i64) -> Result<WithdrawnOffers, StoreError> {
    let Some(listing) = agents::by_id(tx, agent)? else { return Ok(WithdrawnOffers::default()) };
    let sql =
        "UPDATE market_agents SET endpoint = NULL, updated_at = $2, words_due_at = COALESCE(words_due_at, $2)
               WHERE agent_id = $1";
    tx.execute(sql, &[(&agent).into(), now.into()])?;
    let skills = tx.execute("DELETE FROM skills WHERE agent_id = $1", &[(&agent).into()])?;
    Ok(WithdrawnOffers { endpoint: listing.endpoint, skills, quotes: quotes::withdraw(tx, agent, now)? })
}
