//! Withdraws everything an agent, or every agent of a wallet, offers on the market.

use super::{agents, allowances, jobs, quotes};
use crate::{StoreError, Tx, TxExt, usage};
use chorus_protocol::ids::{AgentId, WalletId};

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
    let skills = usage::changing_record(tx, agent, |tx| {
        tx.execute(sql, &[(&agent).into(), now.into()])?;
        tx.execute("DELETE FROM skills WHERE agent_id = $1", &[(&agent).into()])
    })?;
    Ok(WithdrawnOffers { endpoint: listing.endpoint, skills, quotes: quotes::withdraw(tx, agent, now)? })
}

/// An agent whose offers were withdrawn with its wallet's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DetachedAgent {
    pub id: AgentId,
    pub name: String,
}

/// The agents of a wallet without an account, the newest first, that may spend from it, offer something or have results POSTed.
const OF_WALLET: &str = "SELECT m.agent_id, a.name FROM market_agents m JOIN agents a ON a.id = m.agent_id
     LEFT JOIN allowances l ON l.agent_id = m.agent_id
     WHERE m.wallet_id = $1 AND a.owner_id IS NULL AND a.deleted_at IS NULL
       AND (l.per_day IS NULL OR l.per_day > 0 OR m.endpoint IS NOT NULL
            OR EXISTS (SELECT 1 FROM skills s WHERE s.agent_id = m.agent_id)
            OR EXISTS (SELECT 1 FROM jobs j WHERE j.orchestrator_id = m.agent_id AND j.callback IS NOT NULL))
     ORDER BY m.registered_at DESC, m.agent_id LIMIT $2";

/// Undoes what the holder of a wallet's key may have set: each agent of the wallet without an account spends nothing from now on,
/// and at most `limit` of them lose their offers, their endpoints for jobs and the callbacks of their jobs. Returns those agents, and
/// whether there are more.
pub fn withdraw_wallet(
    tx: &mut dyn Tx,
    wallet: WalletId,
    limit: i64,
    now: i64,
) -> Result<(Vec<DetachedAgent>, bool), StoreError> {
    let rows = tx.query(OF_WALLET, &[(&wallet).into(), (limit + 1).into()])?;
    let has_more = rows.len() as i64 > limit;
    allowances::end_of_wallet(tx, wallet, now)?;
    let mut agents = vec![];
    for mut row in rows.into_iter().take(limit.max(0) as usize) {
        let agent = DetachedAgent { id: AgentId(row.uuid("agent_id")?), name: row.text("name")? };
        withdraw(tx, agent.id, now)?;
        jobs::remove_callbacks(tx, agent.id)?;
        agents.push(agent);
    }
    Ok((agents, has_more))
}
