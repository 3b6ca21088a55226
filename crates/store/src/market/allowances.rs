//! Allowances: the credits that an agent's key may spend on one day.
//!
//! Spending is counted in the transaction that holds the budget, and only while a limit is in force. Days are
//! those of UTC, by the hub's clock.

use super::credits;
use crate::{StoreError, Tx, TxExt};
use chorus_protocol::ids::{AccountId, AgentId, WalletId};
use chorus_protocol::market::Credits;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// The allowance of an agent on the current day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// The limit that was set for this agent, if any.
    pub per_day: Option<Credits>,
    /// True if the agent belongs to an account.
    pub has_account: bool,
    /// Held or paid on `day`.
    pub spent: Credits,
    /// The day that is counted, in days since 1970.
    pub day: i64,
}

impl Allowance {
    /// Returns what is left of this limit today.
    pub fn left_of(&self, limit: Credits) -> Credits {
        limit.minus(self.spent)
    }
}

/// Returns the allowance of an agent as it stands now.
///
/// A row of tomorrow was written by a node whose clock is ahead: it is counted on. One of a later day was written before the clock
/// was set back, and is over.
pub fn of_agent(tx: &mut dyn Tx, agent: AgentId, now: i64) -> Result<Allowance, StoreError> {
    let row = tx.first(
        "SELECT CASE WHEN a.owner_id IS NULL THEN 0 ELSE 1 END AS has_owner, l.per_day, l.day, l.spent
         FROM agents a LEFT JOIN allowances l ON l.agent_id = a.id WHERE a.id = $1",
        &[(&agent).into()],
    )?;
    let today = now.div_euclid(DAY_MS);
    let Some(mut row) = row else {
        return Ok(Allowance { per_day: None, has_account: false, spent: Credits::ZERO, day: today });
    };
    let counted = row.opt_int("day")?.zip(row.opt_int("spent")?);
    let (day, spent) = counted.filter(|(day, _)| (today..=today + 1).contains(day)).unwrap_or((today, 0));
    Ok(Allowance {
        has_account: row.int("has_owner")? == 1,
        per_day: row.opt_int("per_day")?.map(credits).transpose()?,
        spent: credits(spent)?,
        day,
    })
}

/// Sets the limit of an agent. Spending of today stays counted.
pub fn set(tx: &mut dyn Tx, agent: AgentId, per_day: Credits, now: i64) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO allowances (agent_id, per_day, day, spent) VALUES ($1, $2, $3, 0)
         ON CONFLICT (agent_id) DO UPDATE SET per_day = $2",
        &[(&agent).into(), per_day.hundredths().into(), now.div_euclid(DAY_MS).into()],
    )?;
    Ok(())
}

/// Takes the limit of an agent away, and says whether one was set.
pub fn clear(tx: &mut dyn Tx, agent: AgentId) -> Result<bool, StoreError> {
    let sql = "UPDATE allowances SET per_day = NULL WHERE agent_id = $1 AND per_day IS NOT NULL";
    Ok(tx.execute(sql, &[(&agent).into()])? == 1)
}

/// Sets the limits of all agents of a wallet that belong to no account to 0.
pub fn end_of_wallet(tx: &mut dyn Tx, wallet: WalletId, now: i64) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO allowances (agent_id, per_day, day, spent)
         SELECT m.agent_id, 0, CAST($2 AS BIGINT), 0 FROM market_agents m JOIN agents a ON a.id = m.agent_id
         WHERE m.wallet_id = $1 AND a.owner_id IS NULL AND a.deleted_at IS NULL
         ON CONFLICT (agent_id) DO UPDATE SET per_day = 0",
        &[(&wallet).into(), now.div_euclid(DAY_MS).into()],
    )?;
    Ok(())
}

/// Takes the limits of an account's agents away, so that they spend nothing. Returns the number of agents that had one.
pub fn clear_of_account(tx: &mut dyn Tx, account: AccountId) -> Result<u64, StoreError> {
    tx.execute(
        "UPDATE allowances SET per_day = NULL
         WHERE per_day IS NOT NULL AND agent_id IN (SELECT id FROM agents WHERE owner_id = $1)",
        &[(&account).into()],
    )
}

/// Counts an amount to a day, and says whether the limit of that day allows it. The statement itself compares with the limit, so that two
/// transactions at once cannot exceed it.
pub fn spend(tx: &mut dyn Tx, agent: AgentId, day: i64, amount: Credits) -> Result<bool, StoreError> {
    let counted = tx.execute(
        "UPDATE allowances SET spent = CASE WHEN day = $2 THEN spent ELSE 0 END + $3, day = $2
         WHERE agent_id = $1 AND CASE WHEN day = $2 THEN spent ELSE 0 END + $3 <= per_day",
        &[(&agent).into(), day.into(), amount.hundredths().into()],
    )?;
    Ok(counted == 1)
}

/// Gives back what returned of an amount that was counted to a day, if that day is still the counted one.
pub fn give_back(tx: &mut dyn Tx, agent: AgentId, day: i64, amount: Credits) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE allowances SET spent = CASE WHEN spent > $3 THEN spent - $3 ELSE 0 END WHERE agent_id = $1 AND day = $2",
        &[(&agent).into(), day.into(), amount.hundredths().into()],
    )?;
    Ok(())
}
