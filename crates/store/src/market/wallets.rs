//! Wallets: whose they are, and what is in them.

use super::credits;
use crate::directory::KeyHash;
use crate::usage::{self, Refusal, row_bytes};
use crate::{Kind, Row, StoreError, Tx, TxExt, revocation};
use chorus_protocol::ids::{AccountId, AgentId, TraceId, WalletId};
use chorus_protocol::market::Credits;
use std::collections::BTreeSet;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wallet {
    pub id: WalletId,
    /// The owner's name on the wire.
    pub owner: String,
    /// The account that may use it.
    pub account: Option<AccountId>,
    /// True if a key may use it.
    pub keyed: bool,
    /// The credits that can be spent.
    pub balance: Credits,
}

macro_rules! select_wallet {
    ($rest:literal) => {
        concat!(
            "SELECT id, owner, account_id, CASE WHEN key_hash IS NULL THEN 0 ELSE 1 END AS has_key, balance
             FROM wallets WHERE ",
            $rest
        )
    };
}

fn wallet(mut row: Row) -> Result<Wallet, StoreError> {
    Ok(Wallet {
        id: WalletId(row.uuid("id")?),
        owner: row.text("owner")?,
        account: row.opt_bytes("account_id")?.as_deref().and_then(AccountId::from_slice),
        keyed: row.int("has_key")? == 1,
        balance: credits(row.int("balance")?)?,
    })
}

/// The wallet of this owner.
pub fn by_owner(tx: &mut dyn Tx, owner: &str) -> Result<Option<Wallet>, StoreError> {
    tx.first(select_wallet!("owner = $1"), &[owner.into()])?.map(wallet).transpose()
}

/// The wallet that this key opens.
pub fn by_key(tx: &mut dyn Tx, key: &KeyHash) -> Result<Option<Wallet>, StoreError> {
    tx.first(select_wallet!("key_hash = $1"), &[key.as_slice().into()])?.map(wallet).transpose()
}

/// The wallet of this id.
pub fn by_id(tx: &mut dyn Tx, id: WalletId) -> Result<Option<Wallet>, StoreError> {
    tx.first(select_wallet!("id = $1"), &[(&id).into()])?.map(wallet).transpose()
}

/// The wallet that this agent is on the market for. One that only an account may use is no longer that of an agent which was
/// released from the account.
pub fn of_listed(tx: &mut dyn Tx, agent: AgentId) -> Result<Option<Wallet>, StoreError> {
    let sql = select_wallet!(
        "id = (SELECT wallet_id FROM market_agents WHERE agent_id = $1)
           AND (account_id IS NULL OR key_hash IS NOT NULL OR account_id = (SELECT owner_id FROM agents WHERE id = $1))"
    );
    tx.first(sql, &[(&agent).into()])?.map(wallet).transpose()
}

/// Returns whether the key of a wallet is disabled: with an agent that earns for it, or with its account.
pub fn is_kept_out(tx: &mut dyn Tx, id: WalletId) -> Result<bool, StoreError> {
    let found = tx.first(
        "SELECT 1 WHERE EXISTS (SELECT 1 FROM market_agents m JOIN agents a ON a.id = m.agent_id WHERE m.wallet_id = $1
                     AND a.deleted_at IS NULL AND (a.disabled_at IS NOT NULL OR a.owner_disabled_at IS NOT NULL))
             OR EXISTS (SELECT 1 FROM wallets w JOIN accounts x ON x.id = w.account_id WHERE w.id = $1
                     AND x.disabled_at IS NOT NULL)",
        &[(&id).into()],
    )?;
    Ok(found.is_some())
}

/// The wallets that an account may use, at most `limit`.
pub fn of_account(tx: &mut dyn Tx, account: AccountId, limit: i64) -> Result<Vec<Wallet>, StoreError> {
    tx.query(select_wallet!("account_id = $1 ORDER BY id LIMIT $2"), &[(&account).into(), limit.into()])?
        .into_iter()
        .map(wallet)
        .collect()
}

/// A wallet to be made.
#[derive(Debug, Clone)]
pub struct NewWallet {
    pub id: WalletId,
    pub owner: String,
    /// The account that may use it.
    pub account: Option<AccountId>,
    /// The key that may.
    pub key: Option<KeyHash>,
    /// The agent whose key was shown by whoever is given this one.
    pub issued_to: Option<AgentId>,
    pub trace: TraceId,
}

/// Makes a wallet with nothing in it; nothing, if there is one of this owner, who may have come at the same time.
pub fn insert(tx: &mut dyn Tx, new: &NewWallet, now: i64) -> Result<Option<Wallet>, StoreError> {
    let made = tx.execute(
        "INSERT INTO wallets (id, owner, account_id, key_hash, balance, created_at, trace_id, issued_to)
         VALUES ($1, $2, $3, $4, 0, $5, $6, $7)
         ON CONFLICT (owner) DO NOTHING",
        &[
            (&new.id).into(),
            new.owner.as_str().into(),
            new.account.as_ref().into(),
            new.key.as_ref().map(<[u8; 32]>::as_slice).into(),
            now.into(),
            (&new.trace).into(),
            new.issued_to.as_ref().into(),
        ],
    )?;
    if made == 0 {
        return Ok(None);
    }
    let (id, owner, account) = (new.id, new.owner.clone(), new.account);
    let made = Wallet { id, owner, account, keyed: new.key.is_some(), balance: Credits::ZERO };
    usage::charge(tx, usage::payer(&made), row_bytes([made.owner.len()]), Refusal::WhenFull)?;
    Ok(Some(made))
}

/// Replaces the key of a wallet. A key that replaces one issued for an agent's key still ends with that key, unless `is_proven`: the
/// account or the operator asked, not the holder of the old key.
pub fn reset_key(tx: &mut dyn Tx, id: WalletId, key: &KeyHash, is_proven: bool) -> Result<(), StoreError> {
    let sql = if is_proven {
        "UPDATE wallets SET key_hash = $2, issued_to = NULL WHERE id = $1"
    } else {
        "UPDATE wallets SET key_hash = $2 WHERE id = $1"
    };
    tx.execute(sql, &[(&id).into(), key.as_slice().into()])?;
    // Cached facts about the owner are stored under the wallet's id.
    revocation::announce(tx, AgentId(id.0))
}

/// Ends the keys of an account's wallets, and returns the owners of those wallets. The account still uses them.
pub fn end_keys_of_account(tx: &mut dyn Tx, account: AccountId) -> Result<Vec<String>, StoreError> {
    let ended = tx.query(
        "UPDATE wallets SET key_hash = NULL, issued_to = NULL WHERE account_id = $1 AND key_hash IS NOT NULL
         RETURNING id, owner",
        &[(&account).into()],
    )?;
    announce_ended(tx, ended)
}

/// Ends the keys of wallets that were given to whoever showed the key of this agent, and returns the owners of those wallets. An
/// account still uses its own; the others get a key again from the operator.
pub fn end_keys_issued_to(tx: &mut dyn Tx, agent: AgentId) -> Result<Vec<String>, StoreError> {
    let ended = tx.query(
        "UPDATE wallets SET key_hash = NULL, issued_to = NULL WHERE issued_to = $1 AND key_hash IS NOT NULL
         RETURNING id, owner",
        &[(&agent).into()],
    )?;
    announce_ended(tx, ended)
}

/// Tells every node that the keys of these wallets have ended, and returns the owners.
fn announce_ended(tx: &mut dyn Tx, ended: Vec<Row>) -> Result<Vec<String>, StoreError> {
    ended
        .into_iter()
        .map(|mut row| {
            revocation::announce(tx, AgentId(row.uuid("id")?))?;
            row.text("owner")
        })
        .collect()
}

/// Keeps others from these wallets until the transaction ends, the smallest first, so that no two wait for each other.
pub fn hold(tx: &mut dyn Tx, ids: impl IntoIterator<Item = WalletId>) -> Result<(), StoreError> {
    let ids: BTreeSet<_> = ids.into_iter().collect();
    ids.into_iter().try_for_each(|id| tx.lock(id.into()))
}

/// Keeps others from a wallet that was just found, and says how it stands by then.
pub fn keep(tx: &mut dyn Tx, found: Wallet) -> Result<Wallet, StoreError> {
    hold(tx, [found.id])?;
    match tx.kind() {
        // Nobody else writes while this transaction does.
        Kind::Sqlite => Ok(found),
        Kind::Postgres => by_id(tx, found.id)?.ok_or_else(|| StoreError::unexpected("no such wallet")),
    }
}

/// Returns the credits of a wallet that are held for jobs.
pub fn held(tx: &mut dyn Tx, id: WalletId) -> Result<Credits, StoreError> {
    let row = tx.first(
        "SELECT CAST(COALESCE(SUM(amount), 0) AS BIGINT) AS amount FROM holds WHERE wallet_id = $1",
        &[(&id).into()],
    )?;
    credits(row.map_or(Ok(0), |mut row| row.int("amount"))?)
}
