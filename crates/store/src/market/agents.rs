//! Agents on the market: whose wallet they earn for, where jobs are POSTed to, what they can do.

use super::{credits, shortfall, wallets};
use crate::directory::{self, Agent};
use crate::{Row, StoreError, StreamKey, Tx, TxExt, usage};
use chorus_protocol::ids::{AgentId, TraceId, WalletId};
use chorus_protocol::market::{Credits, Reputation};
use std::collections::HashMap;
use uuid::Uuid;

/// The market's record of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    pub agent: AgentId,
    /// The wallet that is paid.
    pub wallet: WalletId,
    /// A name for people.
    pub display_name: String,
    /// The URL that jobs are POSTed to.
    pub endpoint: Option<String>,
    pub reputation: Reputation,
    pub registered_at: i64,
    /// The number of its jobs that it declined.
    pub declines: Declines,
}

/// The number of jobs an agent declined, of those that counted or would have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Declines {
    /// Jobs that counted or were declined.
    pub considered: i64,
    /// Jobs that were declined.
    pub declined: i64,
}

impl Declines {
    /// The part that was declined, from 0 to 1; none without jobs.
    pub fn rate(self) -> Option<f64> {
        (self.considered > 0).then(|| self.declined as f64 / self.considered as f64)
    }
}

/// A skill as it was declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    pub name: String,
    pub description: Option<String>,
    pub cost: Credits,
    /// The JSON Schema of its input.
    pub input_schema: Option<String>,
    /// The JSON Schema of its output.
    pub output_schema: Option<String>,
    /// The shortest deadline that a job may have.
    pub min_deadline_ms: Option<i64>,
}

/// Returns the market's record of this agent, even if the agent left the directory.
pub fn by_id(tx: &mut dyn Tx, agent: AgentId) -> Result<Option<Listing>, StoreError> {
    let row = tx.first(
        "SELECT wallet_id, display_name, endpoint, reputation, registered_at, considered, declined FROM market_agents
         WHERE agent_id = $1",
        &[(&agent).into()],
    )?;
    row.map(|mut row| listing(agent, &mut row)).transpose()
}

/// The facts needed to hire an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hireable {
    pub listing: Listing,
    /// The skill that was asked for, if it offers that.
    pub skill: Option<Skill>,
    /// The number of its open jobs.
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
        "SELECT m.wallet_id, m.display_name, m.endpoint, m.reputation, m.registered_at, m.considered, m.declined, s.name,
                s.description, s.cost, s.input_schema, s.output_schema, s.min_deadline,
                (SELECT COUNT(*) FROM (SELECT 1 FROM jobs j WHERE j.agent_id = $1 AND j.status = 'PENDING' LIMIT $3) o)
                    AS open_jobs
         FROM market_agents m LEFT JOIN skills s ON s.agent_id = m.agent_id AND s.name = $2 WHERE m.agent_id = $1",
        &[(&agent).into(), name.into(), most.into()],
    )?;
    let Some(mut row) = row else { return Ok(None) };
    let (listing, open_jobs) = (listing(agent, &mut row)?, row.int("open_jobs")?);
    let skill = match row.opt_text("name")? {
        Some(name) => Some(read_skill(name, row)?),
        None => None,
    };
    Ok(Some(Hireable { listing, skill, open_jobs }))
}

fn listing(agent: AgentId, row: &mut Row) -> Result<Listing, StoreError> {
    Ok(Listing {
        agent,
        wallet: WalletId(row.uuid("wallet_id")?),
        display_name: row.text("display_name")?,
        endpoint: row.opt_text("endpoint")?,
        reputation: Reputation::clamped(row.int("reputation")?),
        registered_at: row.int("registered_at")?,
        declines: Declines { considered: row.int("considered")?, declined: row.int("declined")? },
    })
}

/// Returns the agent as jobs reach it: by its endpoint for jobs only. Where endpoints must be proven, that
/// endpoint is proven if it equals the proven one.
pub fn as_worker(tx: &mut dyn Tx, agent: Agent) -> Result<Agent, StoreError> {
    let row = tx.first("SELECT endpoint FROM market_agents WHERE agent_id = $1", &[(&agent.id).into()])?;
    let endpoint = row.map_or(Ok(None), |mut row| row.opt_text("endpoint"))?;
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

/// Declares the tables whose rows have ids of their own, and the query that looks for an id in each of them.
macro_rules! tables_of_ids {
    ($first:literal $(, $table:literal)* $(,)?) => {
        /// The tables other than `agents` whose rows have ids that callers see.
        pub const TABLES_OF_IDS: &[&str] = &[$first $(, $table)*];
        const HAS_ID: &str = concat!(
            "SELECT 1 WHERE EXISTS (SELECT 1 FROM ", $first, " WHERE id = $1)",
            $(" OR EXISTS (SELECT 1 FROM ", $table, " WHERE id = $1)",)*
        );
    };
}

tables_of_ids![
    "accounts",
    "approvals",
    "audit",
    "blocks",
    "conversations",
    "credentials",
    "events",
    "evidence",
    "evidence_answers",
    "invitations",
    "jobs",
    "mcp_sessions",
    "quotes",
    "scores",
    "signing_secrets",
    "tool_calls",
    "transfers",
    "wallets",
    "work_streams",
];

/// Returns whether anything but an agent has this id. An id that a caller chooses is refused then, so that whoever holds an id without
/// its kind (in the audit log, in a list of blocks) never takes one thing for another.
pub fn is_foreign_id(tx: &mut dyn Tx, id: Uuid) -> Result<bool, StoreError> {
    Ok(id == StreamKey::LOG.id || tx.first(HAS_ID, &[(&id).into()])?.is_some())
}

/// Returns whether there ever was an agent of this id.
pub fn was_agent(tx: &mut dyn Tx, id: AgentId) -> Result<bool, StoreError> {
    Ok(tx.first("SELECT 1 FROM agents WHERE id = $1", &[(&id).into()])?.is_some())
}

/// The content of a registration.
#[derive(Debug, Clone)]
pub struct NewListing {
    pub agent: AgentId,
    /// The wallet that is paid.
    pub wallet: WalletId,
    /// A name for people.
    pub display_name: String,
    /// The URL that jobs are POSTed to.
    pub endpoint: Option<String>,
    /// The skills in the agent's order.
    pub skills: Vec<Skill>,
    pub trace: TraceId,
}

/// The difference between a registration and what is stored.
#[derive(Debug)]
pub struct ListingChange<'a> {
    new: &'a NewListing,
    known: Option<Listing>,
    removed: Vec<String>,
    /// The skills that are new or differ, each with its place in the order.
    written: Vec<(i64, &'a Skill)>,
}

impl<'a> ListingChange<'a> {
    /// Compares a registration with what is stored. It writes nothing.
    pub fn of(tx: &mut dyn Tx, new: &'a NewListing) -> Result<Self, StoreError> {
        let known = by_id(tx, new.agent)?;
        let mut stored: HashMap<_, _> = placed_skills(tx, new.agent)?
            .into_iter()
            .map(|(place, skill)| (skill.name.clone(), (place, skill)))
            .collect();
        let (mut written, mut last) = (vec![], -1);
        for skill in &new.skills {
            // A skill keeps its place while the order stays the same, so that one that is removed moves no other.
            last = match stored.remove(&skill.name) {
                Some((place, known)) if place > last && known == *skill => place,
                Some((place, _)) if place > last => {
                    written.push((place, skill));
                    place
                }
                _ => {
                    written.push((last + 1, skill));
                    last + 1
                }
            };
        }
        Ok(Self { new, known, removed: stored.into_keys().collect(), written })
    }

    /// Returns whether the agent was never on the market.
    pub fn is_new(&self) -> bool {
        self.known.is_none()
    }

    /// Returns whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        let NewListing { wallet, display_name, endpoint, .. } = self.new;
        self.known.as_ref().is_some_and(|known| {
            known.wallet == *wallet && known.display_name == *display_name && known.endpoint == *endpoint
        }) && !self.skills_differ()
    }

    fn skills_differ(&self) -> bool {
        !self.removed.is_empty() || !self.written.is_empty()
    }

    /// The agent's reputation, which no registration changes.
    pub fn reputation(&self) -> Reputation {
        self.known.as_ref().map_or(Reputation::NEUTRAL, |known| known.reputation)
    }

    /// Writes what differs, and nothing else. The words of changed skills become due for [`word_index`](super::word_index). Offers
    /// count for the agent as long as they stand.
    pub fn save(&self, tx: &mut dyn Tx, now: i64) -> Result<(), StoreError> {
        if self.is_empty() {
            return Ok(());
        }
        usage::changing_record(tx, self.new.agent, |tx| self.write(tx, now))
    }

    fn write(&self, tx: &mut dyn Tx, now: i64) -> Result<(), StoreError> {
        let new = self.new;
        let renamed = self.known.as_ref().is_some_and(|known| known.display_name != new.display_name);
        let words_due_at = (self.skills_differ() || renamed).then_some(now);
        // This row first: it keeps the reconciler of words from the skills until both are written.
        tx.execute(
            "INSERT INTO market_agents (agent_id, wallet_id, display_name, endpoint, reputation, changes, registered_at, updated_at,
                                        trace_id, words_due_at)
             VALUES ($1, $2, $3, $4, $5, 0, $6, $6, $7, $8)
             ON CONFLICT (agent_id) DO UPDATE SET wallet_id = $2, display_name = $3, endpoint = $4, updated_at = $6,
                                                  words_due_at = COALESCE(market_agents.words_due_at, $8)",
            &[
                (&new.agent).into(),
                (&new.wallet).into(),
                new.display_name.as_str().into(),
                new.endpoint.as_deref().into(),
                Reputation::NEUTRAL.ten_thousandths().into(),
                now.into(),
                (&new.trace).into(),
                words_due_at.into(),
            ],
        )?;
        for name in &self.removed {
            let sql = "DELETE FROM skills WHERE agent_id = $1 AND name = $2";
            tx.execute(sql, &[(&new.agent).into(), name.as_str().into()])?;
        }
        for (place, skill) in &self.written {
            write_skill(tx, new.agent, *place, skill, self.reputation())?;
        }
        Ok(())
    }
}

fn write_skill(
    tx: &mut dyn Tx,
    agent: AgentId,
    place: i64,
    skill: &Skill,
    reputation: Reputation,
) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO skills (agent_id, name, place, description, cost, input_schema, output_schema, shortfall, min_deadline)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
         ON CONFLICT (agent_id, name) DO UPDATE SET place = $3, description = $4, cost = $5, input_schema = $6,
                                                    output_schema = $7, shortfall = $8, min_deadline = $9",
        &[
            (&agent).into(),
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
    Ok(())
}

/// Puts an agent on the market, or changes what it says there; its reputation stays. Returns the reputation, and whether the agent
/// is new.
pub fn save(tx: &mut dyn Tx, new: &NewListing, now: i64) -> Result<(Reputation, bool), StoreError> {
    let change = ListingChange::of(tx, new)?;
    change.save(tx, now)?;
    Ok((change.reputation(), change.is_new()))
}

/// Removes an agent from the market. Its reputation and owner stay recorded. Its open jobs are refunded
/// elsewhere: until [`has_left`] it is listed by [`leaving`].
pub fn leave(tx: &mut dyn Tx, agent: AgentId, now: i64) -> Result<(), StoreError> {
    let sql = "UPDATE market_agents SET left_at = $2, words_due_at = COALESCE(words_due_at, $2) WHERE agent_id = $1";
    tx.execute(sql, &[(&agent).into(), now.into()])?;
    usage::changing_record(tx, agent, |tx| {
        tx.execute("DELETE FROM skills WHERE agent_id = $1", &[(&agent).into()])
    })?;
    Ok(())
}

/// Pays this wallet for what an agent earns from now on.
pub fn set_wallet(tx: &mut dyn Tx, agent: AgentId, wallet: WalletId) -> Result<(), StoreError> {
    let sql = "UPDATE market_agents SET wallet_id = $2 WHERE agent_id = $1";
    tx.execute(sql, &[(&agent).into(), (&wallet).into()])?;
    Ok(())
}

/// Agents that left and may have open jobs, and when they did; at most `limit`.
pub fn leaving(tx: &mut dyn Tx, limit: i64) -> Result<Vec<(AgentId, i64)>, StoreError> {
    let sql =
        "SELECT agent_id, left_at FROM market_agents WHERE left_at IS NOT NULL ORDER BY agent_id LIMIT $1";
    let rows = tx.query(sql, &[limit.into()])?;
    rows.into_iter().map(|mut row| Ok((AgentId(row.uuid("agent_id")?), row.int("left_at")?))).collect()
}

/// No job of this agent is open any more.
pub fn has_left(tx: &mut dyn Tx, agent: AgentId) -> Result<(), StoreError> {
    tx.execute("UPDATE market_agents SET left_at = NULL WHERE agent_id = $1", &[(&agent).into()])?;
    Ok(())
}

/// The skill of this name; what is said of it begins at the column `first`.
fn read_skill(name: String, mut row: Row) -> Result<Skill, StoreError> {
    Ok(Skill {
        name,
        description: row.opt_text("description")?,
        cost: credits(row.int("cost")?)?,
        input_schema: row.opt_text("input_schema")?,
        output_schema: row.opt_text("output_schema")?,
        min_deadline_ms: row.opt_int("min_deadline")?,
    })
}

/// Lists an agent's skills in its order.
pub fn skills(tx: &mut dyn Tx, agent: AgentId) -> Result<Vec<Skill>, StoreError> {
    Ok(placed_skills(tx, agent)?.into_iter().map(|(_, skill)| skill).collect())
}

/// The same, each skill with its place in the order. Places may have gaps.
fn placed_skills(tx: &mut dyn Tx, agent: AgentId) -> Result<Vec<(i64, Skill)>, StoreError> {
    let rows = tx.query(
        "SELECT place, name, description, cost, input_schema, output_schema, min_deadline FROM skills WHERE agent_id = $1
         ORDER BY place",
        &[(&agent).into()],
    )?;
    rows.into_iter().map(|mut row| Ok((row.int("place")?, read_skill(row.text("name")?, row)?))).collect()
}

/// The input schema of one skill, if the agent offers it.
pub fn input_schema(tx: &mut dyn Tx, agent: AgentId, name: &str) -> Result<Option<String>, StoreError> {
    let sql = "SELECT input_schema FROM skills WHERE agent_id = $1 AND name = $2";
    let row = tx.first(sql, &[(&agent).into(), name.into()])?;
    row.map_or(Ok(None), |mut row| row.opt_text("input_schema"))
}

/// The wallet that an agent earns and pays with: the one it is on the market for; else that of the account it belongs to.
pub fn wallet_of(tx: &mut dyn Tx, agent: AgentId) -> Result<Option<wallets::Wallet>, StoreError> {
    if let Some(wallet) = wallets::of_listed(tx, agent)? {
        return Ok(Some(wallet));
    }
    let owner = directory::owner_of(tx, agent)?;
    owner.map_or(Ok(None), |owner| wallets::by_owner(tx, &owner.to_string()))
}
