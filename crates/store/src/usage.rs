//! How many bytes are stored of what each agent and each account said, wrote and sent.
//!
//! What an agent does counts for it and for the account that owns it. The figures are sums that whoever stores or removes
//! something adds to, some time after it did: they are what quotas are measured by, not what the disk holds.

use crate::{StoreError, Tx, TxExt};
use chorus_protocol::ids::{AccountId, AgentId, Principal};

/// What an event, or a version of a document, counts besides what it says: its row and its places in the indexes.
pub const ROW_BYTES: i64 = 256;

/// A quota that would be exceeded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the quota {quota} is {limit}, and {used} are used: {}", advice(.quota))]
pub struct Exceeded {
    /// Which.
    pub quota: &'static str,
    /// How much is used, or would be.
    pub used: u64,
    /// How much may be.
    pub limit: u64,
}

/// What can be done about a quota that is used up.
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

/// What is stored of somebody.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stored {
    /// Its own; of an account, with that of its agents.
    pub bytes: i64,
    /// Of an agent that belongs to somebody: whose it is, and what is stored of that account.
    pub owner: Option<(AccountId, i64)>,
}

/// What is stored of somebody.
pub fn of(tx: &mut dyn Tx, who: Principal) -> Result<Stored, StoreError> {
    let row = tx.first(
        "SELECT COALESCE((SELECT bytes FROM usage WHERE principal_id = $1), 0), a.owner_id,
                COALESCE((SELECT u.bytes FROM usage u WHERE u.principal_id = a.owner_id), 0)
         FROM (SELECT 1 AS one) AS always LEFT JOIN agents a ON a.id = $1",
        &[(&who.uuid()).into()],
    )?;
    let Some(mut row) = row else { return Ok(Stored::default()) };
    let bytes = row.int(0)?;
    let owner = row.opt_bytes(1)?.as_deref().and_then(AccountId::from_slice);
    Ok(Stored { bytes, owner: owner.map(|owner| Ok::<_, StoreError>((owner, row.int(2)?))).transpose()? })
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
    let bytes_now = total.map_or(Ok(0), |mut row| row.int(0))?;
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
    let owner =
        owner.map(|mut row| Ok::<_, StoreError>((AccountId(row.uuid(0)?), row.int(1)?))).transpose()?;
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

/// What is stored of everybody.
pub fn total(tx: &mut dyn Tx) -> Result<i64, StoreError> {
    // What an agent has is in its owner's.
    let sum = tx.first(
        "SELECT CAST(COALESCE(SUM(u.bytes), 0) AS BIGINT) FROM usage u LEFT JOIN agents a ON a.id = u.principal_id
         WHERE a.owner_id IS NULL",
        &[],
    )?;
    sum.map_or(Ok(0), |mut row| row.int(0))
}

/// How many agents an account owns.
pub fn agents(tx: &mut dyn Tx, owner: AccountId) -> Result<i64, StoreError> {
    let sql = "SELECT COUNT(*) FROM agents WHERE owner_id = $1 AND deleted_at IS NULL";
    tx.first(sql, &[(&owner).into()])?.map_or(Ok(0), |mut row| row.int(0))
}

/// How many channels somebody owns that are not archived.
pub fn channels(tx: &mut dyn Tx, owner: Principal) -> Result<i64, StoreError> {
    let sql =
        "SELECT COUNT(*) FROM conversations WHERE owner_id = $1 AND kind = 'channel' AND archived_at IS NULL";
    tx.first(sql, &[(&owner.uuid()).into()])?.map_or(Ok(0), |mut row| row.int(0))
}
