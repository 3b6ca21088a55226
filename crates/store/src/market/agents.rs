//! Agents on the market: whose wallet they earn for, where jobs are POSTed to, what they can do.

use super::{credits, discovery, shortfall, wallets};
use crate::directory::{self, Agent};
use crate::{Row, StoreError, Tx, TxExt};
use chorus_protocol::ids::{AgentId, TraceId, WalletId};
use chorus_protocol::market::{Credits, Reputation};
use uuid::Uuid;

/// What the market knows of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// Which agent.
    pub agent: AgentId,
    /// Whose wallet is paid.
    pub wallet: WalletId,
    /// What it is called, for people.
    pub display_name: String,
    /// Where jobs are POSTed to.
    pub endpoint: Option<String>,
    /// What is thought of it.
    pub reputation: Reputation,
    /// When it came to the market.
    pub registered_at: i64,
}

/// A skill as it was declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    /// What it is called.
    pub name: String,
    /// What it does.
    pub description: Option<String>,
    /// What it costs.
    pub cost: Credits,
    /// What it takes, JSON.
    pub input_schema: Option<String>,
    /// What it gives, JSON.
    pub output_schema: Option<String>,
    /// How long a job must be given at least.
    pub min_deadline_ms: Option<i64>,
}

/// What the market knows of this agent, also if it is gone from the directory.
pub fn by_id(tx: &mut dyn Tx, agent: AgentId) -> Result<Option<Listing>, StoreError> {
    let row = tx.first(
        "SELECT wallet_id, display_name, endpoint, reputation, registered_at FROM market_agents WHERE agent_id = $1",
        &[(&agent).into()],
    )?;
    row.map(|mut row| listing(agent, &mut row)).transpose()
}

/// What hiring an agent begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hireable {
    /// What the market knows of it.
    pub listing: Listing,
    /// The skill that was asked for, if it offers that.
    pub skill: Option<Skill>,
    /// How many jobs it has to do.
    pub open_jobs: i64,
}

/// The same with the skill of this name, and how much there is to do for it, counted up to `most`.
pub fn with_skill(
    tx: &mut dyn Tx,
    agent: AgentId,
    name: &str,
    most: i64,
) -> Result<Option<Hireable>, StoreError> {
    let row = tx.first(
        "SELECT m.wallet_id, m.display_name, m.endpoint, m.reputation, m.registered_at, s.name, s.description, s.cost,
                s.input_schema, s.output_schema, s.min_deadline,
                (SELECT COUNT(*) FROM (SELECT 1 FROM jobs j WHERE j.agent_id = $1 AND j.status = 'PENDING' LIMIT $3) o)
         FROM market_agents m LEFT JOIN skills s ON s.agent_id = m.agent_id AND s.name = $2 WHERE m.agent_id = $1",
        &[(&agent).into(), name.into(), most.into()],
    )?;
    let Some(mut row) = row else { return Ok(None) };
    let (listing, open_jobs) = (listing(agent, &mut row)?, row.int(11)?);
    let skill = match row.opt_text(5)? {
        Some(name) => Some(read_skill(name, row, 6)?),
        None => None,
    };
    Ok(Some(Hireable { listing, skill, open_jobs }))
}

fn listing(agent: AgentId, row: &mut Row) -> Result<Listing, StoreError> {
    Ok(Listing {
        agent,
        wallet: WalletId(row.uuid(0)?),
        display_name: row.text(1)?,
        endpoint: row.opt_text(2)?,
        reputation: Reputation::clamped(row.int(3)?),
        registered_at: row.int(4)?,
    })
}

/// The agent as jobs reach it: by the endpoint it has for them, and by no other. That is proven where endpoints must be only if it
/// is the one that was.
pub fn as_worker(tx: &mut dyn Tx, agent: Agent) -> Result<Agent, StoreError> {
    let row = tx.first("SELECT endpoint FROM market_agents WHERE agent_id = $1", &[(&agent.id).into()])?;
    let endpoint = row.map_or(Ok(None), |mut row| row.opt_text(0))?;
    Ok(reached_at(agent, endpoint))
}

/// The same, where the endpoint it has for jobs is known.
pub fn reached_at(agent: Agent, endpoint: Option<String>) -> Agent {
    let proven = agent.proven && agent.endpoint == endpoint;
    Agent { endpoint, proven, ..agent }
}

/// The agent as what came of its jobs reaches it: at the address it gave with each, whatever else it has open.
pub fn as_hirer(agent: Agent, callback: String) -> Agent {
    Agent { endpoint: Some(callback), harness: None, open_until: 0, ..agent }
}

/// Whether something else than an agent has this id: streams share their numbers.
pub fn is_foreign_id(tx: &mut dyn Tx, id: Uuid) -> Result<bool, StoreError> {
    let row = tx.first(
        "SELECT 1 WHERE EXISTS (SELECT 1 FROM accounts WHERE id = $1) OR EXISTS (SELECT 1 FROM conversations WHERE id = $1)
                    OR EXISTS (SELECT 1 FROM wallets WHERE id = $1)",
        &[(&id).into()],
    )?;
    Ok(row.is_some())
}

/// Whether there ever was an agent of this id.
pub fn was_agent(tx: &mut dyn Tx, id: AgentId) -> Result<bool, StoreError> {
    Ok(tx.first("SELECT 1 FROM agents WHERE id = $1", &[(&id).into()])?.is_some())
}

/// What a registration says.
#[derive(Debug, Clone)]
pub struct NewListing {
    /// Which agent.
    pub agent: AgentId,
    /// Whose wallet is paid.
    pub wallet: WalletId,
    /// What it is called, for people.
    pub display_name: String,
    /// Where jobs are POSTed to.
    pub endpoint: Option<String>,
    /// What it offers, in its order.
    pub skills: Vec<Skill>,
    /// What it belongs to.
    pub trace: TraceId,
}

/// Puts an agent on the market, or replaces what it says there; its reputation stays. Says what that is, and whether it is new.
pub fn save(tx: &mut dyn Tx, new: &NewListing, now: i64) -> Result<(Reputation, bool), StoreError> {
    let known = by_id(tx, new.agent)?;
    tx.execute(
        "INSERT INTO market_agents (agent_id, wallet_id, display_name, endpoint, reputation, changes, registered_at, updated_at,
                                    trace_id)
         VALUES ($1, $2, $3, $4, $5, 0, $6, $6, $7)
         ON CONFLICT (agent_id) DO UPDATE SET wallet_id = $2, display_name = $3, endpoint = $4, updated_at = $6",
        &[
            (&new.agent).into(),
            (&new.wallet).into(),
            new.display_name.as_str().into(),
            new.endpoint.as_deref().into(),
            Reputation::NEUTRAL.ten_thousandths().into(),
            now.into(),
            (&new.trace).into(),
        ],
    )?;
    let reputation = known.as_ref().map_or(Reputation::NEUTRAL, |known| known.reputation);
    remove_skills(tx, new.agent)?;
    for (place, skill) in (0_i64..).zip(&new.skills) {
        tx.execute(
            "INSERT INTO skills (agent_id, name, place, description, cost, input_schema, output_schema, shortfall, min_deadline)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
            &[
                (&new.agent).into(),
                skill.name.as_str().into(),
                place.into(),
                skill.description.as_deref().into(),
                skill.cost.hundredths().into(),
                skill.input_schema.as_deref().into(),
                skill.output_schema.as_deref().into(),
                shortfall(reputation).into(),
                skill.min_deadline_ms.into(),
            ],
        )?;
        let texts = [&new.display_name, &skill.name, skill.description.as_deref().unwrap_or_default()];
        discovery::index(tx, new.agent, &skill.name, &texts)?;
    }
    Ok((reputation, known.is_none()))
}

/// An agent leaves the market. What is known of it stays: its reputation, and whose it was. What is held for its open jobs goes back,
/// which is for others: until [`has_left`] it is among [`leaving`].
pub fn leave(tx: &mut dyn Tx, agent: AgentId, now: i64) -> Result<(), StoreError> {
    remove_skills(tx, agent)?;
    let sql = "UPDATE market_agents SET left_at = $2 WHERE agent_id = $1";
    tx.execute(sql, &[(&agent).into(), now.into()])?;
    Ok(())
}

/// Agents that left and may have open jobs, and when they did; at most `limit`.
pub fn leaving(tx: &mut dyn Tx, limit: i64) -> Result<Vec<(AgentId, i64)>, StoreError> {
    let sql =
        "SELECT agent_id, left_at FROM market_agents WHERE left_at IS NOT NULL ORDER BY agent_id LIMIT $1";
    let rows = tx.query(sql, &[limit.into()])?;
    rows.into_iter().map(|mut row| Ok((AgentId(row.uuid(0)?), row.int(1)?))).collect()
}

/// No job of this agent is open any more.
pub fn has_left(tx: &mut dyn Tx, agent: AgentId) -> Result<(), StoreError> {
    tx.execute("UPDATE market_agents SET left_at = NULL WHERE agent_id = $1", &[(&agent).into()])?;
    Ok(())
}

/// Takes an agent's offers off the market.
fn remove_skills(tx: &mut dyn Tx, agent: AgentId) -> Result<(), StoreError> {
    tx.execute("DELETE FROM skills WHERE agent_id = $1", &[(&agent).into()])?;
    discovery::forget(tx, agent)
}

/// The skill of this name; what is said of it begins at the column `first`.
fn read_skill(name: String, mut row: Row, first: usize) -> Result<Skill, StoreError> {
    Ok(Skill {
        name,
        description: row.opt_text(first)?,
        cost: credits(row.int(first + 1)?)?,
        input_schema: row.opt_text(first + 2)?,
        output_schema: row.opt_text(first + 3)?,
        min_deadline_ms: row.opt_int(first + 4)?,
    })
}

/// What an agent offers, in its order.
pub fn skills(tx: &mut dyn Tx, agent: AgentId) -> Result<Vec<Skill>, StoreError> {
    let rows = tx.query(
        "SELECT name, description, cost, input_schema, output_schema, min_deadline FROM skills WHERE agent_id = $1
         ORDER BY place",
        &[(&agent).into()],
    )?;
    rows.into_iter().map(|mut row| read_skill(row.text(0)?, row, 1)).collect()
}

/// The wallet that an agent earns and pays with: the one it is on the market for; else that of the account it belongs to.
pub fn wallet_of(tx: &mut dyn Tx, agent: AgentId) -> Result<Option<wallets::Wallet>, StoreError> {
    if let Some(wallet) = wallets::of_listed(tx, agent)? {
        return Ok(Some(wallet));
    }
    let owner = directory::owner_of(tx, agent)?;
    owner.map_or(Ok(None), |owner| wallets::by_owner(tx, &owner.to_string()))
}
