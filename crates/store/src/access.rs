//! Keeping agents and accounts out, letting them in again, and deleting either for good: what begins and ends with it in every
//! area, above all of which this stands.

use crate::{
    StoreError, Tx, TxExt, accounts, approvals, choir, conversation, directory, inboxes, market, members,
    push, revocation, work_streams,
};
use chorus_protocol::ids::{AccountId, AgentId};
use uuid::Uuid;

/// Keeps an account and its agents out from this time on, and says whether that is news.
pub fn disable_account(tx: &mut dyn Tx, id: AccountId, now: i64) -> Result<bool, StoreError> {
    // An agent that comes into the account meanwhile is kept out as well.
    tx.lock(id.into())?;
    let sql = "UPDATE accounts SET disabled_at = $2 WHERE id = $1 AND disabled_at IS NULL";
    if tx.execute(sql, &[(&id).into(), now.into()])? == 0 {
        return Ok(false);
    }
    owner_disabled(tx, id, Some(now), now)?;
    approvals::end_by(tx, id.into(), now)?;
    revocation::announce(tx, id)?;
    Ok(true)
}

/// Lets an account and its agents in again, and says whether that is news. An agent that is kept out itself stays so.
pub fn enable_account(tx: &mut dyn Tx, id: AccountId, now: i64) -> Result<bool, StoreError> {
    tx.lock(id.into())?;
    let sql = "UPDATE accounts SET disabled_at = NULL WHERE id = $1 AND disabled_at IS NOT NULL";
    if tx.execute(sql, &[(&id).into()])? == 0 {
        return Ok(false);
    }
    owner_disabled(tx, id, None, now)?;
    Ok(true)
}

/// Keeps an agent out from this time on, and says whether that is news.
pub fn disable_agent(tx: &mut dyn Tx, id: AgentId, now: i64) -> Result<bool, StoreError> {
    let sql = "UPDATE agents SET disabled_at = $2 WHERE id = $1 AND disabled_at IS NULL";
    if tx.execute(sql, &[(&id).into(), now.into()])? == 0 {
        return Ok(false);
    }
    approvals::end_by(tx, id.into(), now)?;
    shut_out(tx, id)?;
    Ok(true)
}

/// Enables a disabled agent. Returns whether it was disabled. Deliveries that waited for it become due now.
pub fn enable_agent(tx: &mut dyn Tx, id: AgentId, now: i64) -> Result<bool, StoreError> {
    let sql = "UPDATE agents SET disabled_at = NULL WHERE id = $1 AND disabled_at IS NOT NULL";
    if tx.execute(sql, &[(&id).into()])? == 0 {
        return Ok(false);
    }
    push::retry_now(tx, id, now)?;
    Ok(true)
}

/// Keeps all agents of an account out, as long as it is, or lets them in again.
fn owner_disabled(tx: &mut dyn Tx, owner: AccountId, since: Option<i64>, now: i64) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE agents SET owner_disabled_at = $2 WHERE owner_id = $1",
        &[(&owner).into(), since.into()],
    )?;
    let sql = "SELECT id FROM agents WHERE owner_id = $1 AND deleted_at IS NULL ORDER BY id";
    for mut row in tx.query(sql, &[(&owner).into()])? {
        let id = AgentId(row.uuid("id")?);
        match since {
            Some(_) => {
                approvals::end_by(tx, id.into(), now)?;
                shut_out(tx, id)?;
            }
            None => push::retry_now(tx, id, now)?,
        }
    }
    Ok(())
}

/// Ends the agent's open sessions, and cached lookups of its key and of the key of the wallet that it earns
/// for.
fn shut_out(tx: &mut dyn Tx, id: AgentId) -> Result<(), StoreError> {
    inboxes::disconnect(tx, id)?;
    revocation::announce(tx, id)?;
    // A wallet is announced like an agent of its id, which no agent has.
    market::agents::by_id(tx, id)?
        .map_or(Ok(()), |listing| revocation::announce(tx, AgentId(listing.wallet.0)))
}

/// Takes an agent out of the directory and out of all conversations, and frees its name. Its open inbox is closed with it.
/// `fresh` makes ids.
pub fn delete_agent(
    tx: &mut dyn Tx,
    id: AgentId,
    now: i64,
    fresh: &dyn Fn() -> Uuid,
) -> Result<(), StoreError> {
    directory::remove(tx, id, now)?;
    conversation::leave_all(tx, id.into(), now, fresh)?;
    work_streams::forget(tx, id.into())?;
    market::agents::leave(tx, id, now)?;
    shut_out(tx, id)
}

/// Pauses or resumes deliveries to an agent. Returns whether the state changed. On resuming, waiting
/// deliveries become due now.
pub fn pause_agent(tx: &mut dyn Tx, id: AgentId, paused: bool, now: i64) -> Result<bool, StoreError> {
    tx.lock(id.into())?;
    let Some(agent) = directory::by_id(tx, id)?.filter(|agent| agent.paused_at.is_some() != paused) else {
        return Ok(false);
    };
    directory::set_paused(tx, agent.id, paused.then_some(now))?;
    if !paused {
        push::retry_now(tx, id, now)?;
    }
    Ok(true)
}

/// The agents of an account, which gets no other until this transaction ends.
pub fn agents_of(tx: &mut dyn Tx, id: AccountId) -> Result<Vec<AgentId>, StoreError> {
    tx.lock(id.into())?;
    let sql = "SELECT id FROM agents WHERE owner_id = $1 AND deleted_at IS NULL ORDER BY id";
    tx.query(sql, &[(&id).into()])?.into_iter().map(|mut row| Ok(AgentId(row.uuid("id")?))).collect()
}

/// Deletes an account with its agents, and frees its email address. Its messages stay, under a name that marks
/// a deleted author. Channels it owned get another owner. `fresh` makes ids.
pub fn delete_account(
    tx: &mut dyn Tx,
    id: AccountId,
    now: i64,
    fresh: &dyn Fn() -> Uuid,
) -> Result<(), StoreError> {
    for agent in agents_of(tx, id)? {
        delete_agent(tx, agent, now, fresh)?;
    }
    conversation::leave_all(tx, id.into(), now, fresh)?;
    work_streams::forget(tx, id.into())?;
    // The last digits: the first ones of ids made at the same time are alike.
    let digits = id.0.simple().to_string();
    let name = format!("deleted-{}", &digits[digits.len() - 6..]);
    members::rename_former(tx, id.into(), &name)?;
    for sql in [
        "DELETE FROM credentials WHERE account_id = $1",
        "DELETE FROM blocks WHERE blocker_id = $1",
        "DELETE FROM invitations WHERE inviter_id = $1",
        "DELETE FROM readings WHERE account_id = $1",
    ] {
        tx.execute(sql, &[(&id).into()])?;
    }
    choir::revoke_secrets_of(tx, id, now)?;
    accounts::remove(tx, id, &name, now)?;
    revocation::announce(tx, id)
}
