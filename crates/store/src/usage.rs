//! Counts the bytes that are stored for each agent, account and wallet owner.
//!
//! The functions that insert, replace or delete rows call [`charge`] and [`give_back`], so an act cannot store something without
//! counting it. A [`Meter`] takes the figures, and may refuse what exceeds a quota. Bytes of an agent also count for the account
//! that owns it. An owner without an account is counted under the id of its wallet, which no agent has. The figures are what
//! quotas are measured by, not what the disk holds. [`recount`] computes them from the tables.

mod recount;

pub use recount::recount;

use crate::market::wallets::Wallet;
use crate::{StoreError, Tx, TxExt};
use chorus_protocol::ids::{AccountId, AgentId, Principal, WalletId};
use std::sync::Arc;

/// The bytes that a row counts besides its texts: its fixed columns and its entries in the indexes.
pub const ROW_BYTES: i64 = 256;
/// The bytes of a job besides its texts: its row, its movements in the ledger and its change of a reputation.
pub(crate) const JOB_BYTES: i64 = 6 * ROW_BYTES;
/// The bytes of a transfer: its row and its movement in the ledger.
pub(crate) const TRANSFER_BYTES: i64 = 2 * ROW_BYTES;
/// The bytes of a work stream: its row with its name, and who takes part.
pub(crate) const WORK_STREAM_BYTES: i64 = 4 * ROW_BYTES;

/// Says whether a full quota refuses what is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    WhenFull,
    /// It is counted and never refused: leaving, deleting and archiving stay possible, and nobody's act depends on the quota of
    /// somebody else.
    Never,
}

pub trait Meter: Send + Sync {
    /// Counts `bytes` for `who` if the transaction is committed; a negative number gives bytes back.
    fn count(
        self: Arc<Self>,
        tx: &mut dyn Tx,
        who: Principal,
        bytes: i64,
        refusal: Refusal,
    ) -> Result<(), StoreError>;
}

/// Counts `bytes` that are about to be stored for `who`. Fails with [`StoreError::Quota`] if that exceeds a quota.
pub fn charge(tx: &mut dyn Tx, who: Principal, bytes: i64, refusal: Refusal) -> Result<(), StoreError> {
    match tx.meter() {
        Some(meter) if bytes != 0 => meter.count(tx, who, bytes, refusal),
        _ => Ok(()),
    }
}

/// Counts `bytes` of `who` that are removed.
pub fn give_back(tx: &mut dyn Tx, who: Principal, bytes: i64) -> Result<(), StoreError> {
    charge(tx, who, -bytes, Refusal::Never)
}

/// Counts a row that was replaced: `before` and `after` are its bytes.
pub(crate) fn replace(tx: &mut dyn Tx, who: Principal, before: i64, after: i64) -> Result<(), StoreError> {
    let refusal = if after > before { Refusal::WhenFull } else { Refusal::Never };
    charge(tx, who, after - before, refusal)
}

/// The bytes of a row with texts of these lengths.
pub(crate) fn row_bytes<const N: usize>(texts: [usize; N]) -> i64 {
    texts
        .into_iter()
        .fold(ROW_BYTES, |sum, length| sum.saturating_add(i64::try_from(length).unwrap_or(i64::MAX)))
}

/// The length of a text that may be absent.
pub(crate) fn length(text: Option<&str>) -> usize {
    text.map_or(0, str::len)
}

/// Returns who answers for what is stored of a wallet: its account, or the wallet itself.
pub fn payer(wallet: &Wallet) -> Principal {
    wallet.account.map_or_else(|| AgentId(wallet.id.0).into(), Principal::Account)
}

/// Returns the same by the wallet's id.
pub fn payer_by_id(tx: &mut dyn Tx, id: WalletId) -> Result<Principal, StoreError> {
    let row = tx.first("SELECT account_id FROM wallets WHERE id = $1", &[(&id).into()])?;
    let account = row.map_or(Ok(None), |mut row| row.opt_uuid("account_id"))?;
    Ok(account.map_or_else(|| AgentId(id.0).into(), |account| AccountId(account).into()))
}

/// Returns the bytes of an agent's record and of its offers on the market. Read it before and after a change, and pass both to
/// [`replace`].
pub fn of_record(tx: &mut dyn Tx, agent: AgentId) -> Result<i64, StoreError> {
    let row = tx.first(recount::ONE_RECORD, &[(&agent).into()])?;
    row.map_or(Ok(0), |mut row| row.int("bytes"))
}

/// Makes a change of an agent's record or of its offers, and counts by how much it grew or shrank. Returns that as well.
pub(crate) fn changing_record<T>(
    tx: &mut dyn Tx,
    agent: AgentId,
    change: impl FnOnce(&mut dyn Tx) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let before = of_record(tx, agent)?;
    let changed = change(tx)?;
    let after = of_record(tx, agent)?;
    replace(tx, agent.into(), before, after)?;
    Ok(changed)
}

/// A quota that would be exceeded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the quota {quota} is {limit}, and {used} are used: {}", advice(.quota))]
pub struct Exceeded {
    pub quota: &'static str,
    /// The bytes used, or that would be used.
    pub used: u64,
    pub limit: u64,
}

/// Returns the advice for an exhausted quota.
fn advice(quota: &str) -> &'static str {
    match quota {
        "document_bytes" => "make the document shorter, or make two of it",
        "documents" => "change one that is there, or use another conversation",
        "agent_bytes" => "retention gives back what is old; else ask the operator for more",
        "account_bytes" => "your agents' bytes count for you; ask the operator for more",
        "agents" => "unregister one that you do not use",
        "channels" => "archive one, or make another member its owner",
        "streams" | "streams_of_channel" => "close one that is done",
        "open_jobs" => "wait until one has ended, or take one back",
        "members" => "remove somebody, or make another channel",
        _ => "ask the operator for more",
    }
}

/// The stored bytes of a principal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stored {
    /// Its own; of an account, with that of its agents.
    pub bytes: i64,
    /// Of an agent that belongs to somebody: whose it is, and what is stored of that account.
    pub owner: Option<(AccountId, i64)>,
}

/// Returns the stored bytes of a principal.
pub fn of(tx: &mut dyn Tx, who: Principal) -> Result<Stored, StoreError> {
    let row = tx.first(
        "SELECT COALESCE((SELECT bytes FROM usage WHERE principal_id = $1), 0) AS bytes, a.owner_id,
                COALESCE((SELECT u.bytes FROM usage u WHERE u.principal_id = a.owner_id), 0) AS owner_bytes
         FROM (SELECT 1 AS one) AS always LEFT JOIN agents a ON a.id = $1",
        &[(&who.uuid()).into()],
    )?;
    let Some(mut row) = row else { return Ok(Stored::default()) };
    let bytes = row.int("bytes")?;
    let owner = row.opt_bytes("owner_id")?.as_deref().and_then(AccountId::from_slice);
    Ok(Stored {
        bytes,
        owner: owner.map(|owner| Ok::<_, StoreError>((owner, row.int("owner_bytes")?))).transpose()?,
    })
}

/// Adds to what is stored of somebody, and of its owner, and says what it is now.
pub fn add(tx: &mut dyn Tx, who: Principal, bytes: i64) -> Result<Stored, StoreError> {
    let total = tx.first(
        "INSERT INTO usage (principal_id, bytes) VALUES ($1, CASE WHEN CAST($2 AS BIGINT) > 0 THEN $2 ELSE 0 END)
         ON CONFLICT (principal_id) DO UPDATE
             SET bytes = CASE WHEN usage.bytes + $2 > 0 THEN usage.bytes + $2 ELSE 0 END
         RETURNING bytes",
        &[(&who.uuid()).into(), bytes.into()],
    )?;
    let bytes_now = total.map_or(Ok(0), |mut row| row.int("bytes"))?;
    let Principal::Agent(agent) = who else { return Ok(Stored { bytes: bytes_now, owner: None }) };
    let owner = tx.first(
        "INSERT INTO usage (principal_id, bytes)
         SELECT owner_id, CASE WHEN CAST($2 AS BIGINT) > 0 THEN $2 ELSE 0 END FROM agents
         WHERE id = $1 AND owner_id IS NOT NULL
         ON CONFLICT (principal_id) DO UPDATE
             SET bytes = CASE WHEN usage.bytes + $2 > 0 THEN usage.bytes + $2 ELSE 0 END
         RETURNING principal_id, bytes",
        &[(&agent).into(), bytes.into()],
    )?;
    let owner = owner
        .map(|mut row| Ok::<_, StoreError>((AccountId(row.uuid("principal_id")?), row.int("bytes")?)))
        .transpose()?;
    Ok(Stored { bytes: bytes_now, owner })
}

/// An agent has another owner from now on, or none: what was stored of it counts for that one, and not for the former.
pub fn bring(
    tx: &mut dyn Tx,
    agent: AgentId,
    from: Option<AccountId>,
    to: Option<AccountId>,
) -> Result<(), StoreError> {
    let bytes = if from == to { 0 } else { of(tx, agent.into())?.bytes };
    for (owner, bytes) in [(from, -bytes), (to, bytes)] {
        if let Some(owner) = owner.filter(|_| bytes != 0) {
            add(tx, owner.into(), bytes)?;
        }
    }
    Ok(())
}

/// Returns the stored bytes of all principals.
pub fn total(tx: &mut dyn Tx) -> Result<i64, StoreError> {
    // The bytes of an owned agent are part of its owner's.
    let sum = tx.first(
        "SELECT CAST(COALESCE(SUM(u.bytes), 0) AS BIGINT) AS bytes FROM usage u LEFT JOIN agents a ON a.id = u.principal_id
         WHERE a.owner_id IS NULL",
        &[],
    )?;
    sum.map_or(Ok(0), |mut row| row.int("bytes"))
}

/// Counts the agents that an account owns.
pub fn agents(tx: &mut dyn Tx, owner: AccountId) -> Result<i64, StoreError> {
    let sql = "SELECT COUNT(*) AS count FROM agents WHERE owner_id = $1 AND deleted_at IS NULL";
    tx.first(sql, &[(&owner).into()])?.map_or(Ok(0), |mut row| row.int("count"))
}

/// Counts the channels that a principal owns and that are not archived.
pub fn channels(tx: &mut dyn Tx, owner: Principal) -> Result<i64, StoreError> {
    let sql = "SELECT COUNT(*) AS count FROM conversations WHERE owner_id = $1 AND kind = 'channel' AND archived_at IS NULL";
    tx.first(sql, &[(&owner.uuid()).into()])?.map_or(Ok(0), |mut row| row.int("count"))
}
