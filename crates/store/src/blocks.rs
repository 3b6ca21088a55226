//! Blocked senders.
//!
//! A block names an agent, an account or an email address, whether or not it exists, so that a successful
//! block reveals nothing. A block of an account applies to its agents, and an owner's blocks apply to its
//! agents. Each agent's row says whether there are any blocks to look up, so that a send to an agent without
//! blocks costs no query.

use crate::accounts::email_key;
use crate::{Row, StoreError, Tx, TxExt, directory};
use chorus_protocol::ids::{AccountId, AgentId, BlockId, Principal, TraceId, WalletId};

/// The sender that a block names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Blocked {
    /// An agent or an account.
    Principal(Principal),
    /// An email address, whether or not it has an account.
    Email(String),
}

impl Blocked {
    fn key(&self) -> String {
        match self {
            Self::Principal(who) => who.to_string(),
            Self::Email(email) => email_key(email),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    pub id: BlockId,
    /// The sender as the blocker wrote it.
    pub label: String,
    pub created_at: i64,
}

fn block(mut row: Row) -> Result<Block, StoreError> {
    Ok(Block { id: BlockId(row.uuid("id")?), label: row.text("label")?, created_at: row.int("created_at")? })
}

/// Keeps somebody out, and returns the block: the first, if it was kept out before.
pub fn insert(
    tx: &mut dyn Tx,
    blocker: Principal,
    blocked: &Blocked,
    new: &Block,
    trace: TraceId,
) -> Result<Block, StoreError> {
    let key = blocked.key();
    tx.execute(
        "INSERT INTO blocks (id, blocker_id, blocked, label, created_at, trace_id) VALUES ($1, $2, $3, $4, $5, $6)
         ON CONFLICT (blocker_id, blocked) DO NOTHING",
        &[
            (&new.id).into(),
            (&blocker.uuid()).into(),
            key.as_str().into(),
            new.label.as_str().into(),
            new.created_at.into(),
            (&trace).into(),
        ],
    )?;
    directory::mark_blocks(tx, blocker)?;
    let sql = "SELECT id, label, created_at FROM blocks WHERE blocker_id = $1 AND blocked = $2";
    let found = tx.first(sql, &[(&blocker.uuid()).into(), key.as_str().into()])?.map(block).transpose()?;
    found.ok_or_else(|| StoreError::unexpected("a block vanished"))
}

/// Lets somebody in again. Nothing happens if it was not kept out by this.
pub fn remove(tx: &mut dyn Tx, blocker: Principal, id: BlockId) -> Result<(), StoreError> {
    tx.execute(
        "DELETE FROM blocks WHERE id = $1 AND blocker_id = $2",
        &[(&id).into(), (&blocker.uuid()).into()],
    )?;
    directory::mark_blocks(tx, blocker)
}

/// Counts the blocks of a principal.
pub fn count(tx: &mut dyn Tx, blocker: Principal) -> Result<i64, StoreError> {
    let sql = "SELECT COUNT(*) AS count FROM blocks WHERE blocker_id = $1";
    tx.first(sql, &[(&blocker.uuid()).into()])?.map_or(Ok(0), |mut row| row.int("count"))
}

/// Somebody's blocks in the order of their ids, after `after`.
pub fn page(
    tx: &mut dyn Tx,
    blocker: Principal,
    after: Option<BlockId>,
    limit: i64,
) -> Result<Vec<Block>, StoreError> {
    let after = after.as_ref().map_or([].as_slice(), BlockId::as_bytes);
    tx.query(
        "SELECT id, label, created_at FROM blocks WHERE blocker_id = $1 AND id > $2 ORDER BY id LIMIT $3",
        &[(&blocker.uuid()).into(), after.into(), limit.into()],
    )?
    .into_iter()
    .map(block)
    .collect()
}

/// Returns whether `receiver` or its owner blocks `sender` or its owner.
pub fn keeps_out(tx: &mut dyn Tx, receiver: Principal, sender: Principal) -> Result<bool, StoreError> {
    let owner_of = |tx: &mut dyn Tx, who: Principal| match who {
        Principal::Agent(agent) => directory::owner_of(tx, agent),
        Principal::Account(account) => Ok(Some(account)),
    };
    let (for_whom, by_whom) = (owner_of(tx, receiver)?, owner_of(tx, sender)?);
    if for_whom.is_some() && for_whom == by_whom {
        return Ok(false);
    }
    let account = by_whom.map(|account| account.to_string());
    let found = tx.first(
        "SELECT 1 FROM blocks WHERE blocker_id IN ($1, $2)
           AND blocked IN ($3, $4, (SELECT email_key FROM accounts WHERE id = $5)) LIMIT 1",
        &[
            (&receiver.uuid()).into(),
            for_whom.as_ref().map_or_else(|| (&NOBODY).into(), Into::into),
            sender.to_string().as_str().into(),
            account.as_deref().unwrap_or_default().into(),
            by_whom.as_ref().map_or_else(|| (&NOBODY).into(), Into::into),
        ],
    )?;
    Ok(found.is_some())
}

/// Returns whether `receiver` or its owner blocks an agent that earns for this wallet, or the owner of the
/// agent or the wallet.
pub fn keeps_out_wallet(tx: &mut dyn Tx, receiver: Principal, wallet: WalletId) -> Result<bool, StoreError> {
    let owner = match receiver {
        Principal::Agent(agent) => directory::owner_of(tx, agent)?,
        Principal::Account(account) => Some(account),
    };
    // By the blocks, which are bounded, and not by the wallet's agents, which are as many as its owner likes.
    let blocked = tx.query(
        "SELECT b.blocked, a.id FROM blocks b LEFT JOIN accounts a ON a.email_key = b.blocked WHERE b.blocker_id IN ($1, $2)",
        &[(&receiver.uuid()).into(), owner.as_ref().map_or_else(|| (&NOBODY).into(), Into::into)],
    )?;
    for mut row in blocked {
        let (key, by_email) = (row.text("blocked")?, row.opt_bytes("id")?);
        let account = AccountId::parse(&key).or_else(|| by_email.as_deref().and_then(AccountId::from_slice));
        let Some(id) = AgentId::parse(&key).map(|agent| agent.0).or(account.map(|account| account.0)) else {
            continue;
        };
        let found = tx.first(
            "SELECT 1 WHERE EXISTS (SELECT 1 FROM wallets w WHERE w.id = $1 AND w.account_id = $2)
                 OR EXISTS (SELECT 1 FROM market_agents m WHERE m.wallet_id = $1 AND m.agent_id = $2)
                 OR EXISTS (SELECT 1 FROM market_agents m JOIN agents a ON a.id = m.agent_id
                            WHERE m.wallet_id = $1 AND a.owner_id = $2)",
            &[(&wallet).into(), (&id).into()],
        )?;
        if found.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// An id that nobody has.
const NOBODY: uuid::Uuid = uuid::Uuid::nil();
