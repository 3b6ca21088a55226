//! Wallets: whose they are, and what is in them.

use super::credits;
use crate::directory::KeyHash;
use crate::{Kind, Row, StoreError, Tx, TxExt, revocation};
use chorus_protocol::ids::{AccountId, AgentId, TraceId, WalletId};
use chorus_protocol::market::Credits;
use std::collections::BTreeSet;

/// One wallet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wallet {
    /// Its id.
    pub id: WalletId,
    /// What its owner is called on the wire.
    pub owner: String,
    /// The account that may use it.
    pub account: Option<AccountId>,
    /// Whether there is a key that may.
    pub keyed: bool,
    /// What can be spent.
    pub balance: Credits,
}

macro_rules! select_wallet {
    ($rest:literal) => {
        concat!("SELECT id, owner, account_id, CASE WHEN key_hash IS NULL THEN 0 ELSE 1 END, balance FROM wallets WHERE ", $rest)
    };
}

fn wallet(mut row: Row) -> Result<Wallet, StoreError> {
    Ok(Wallet {
        id: WalletId(row.uuid(0)?),
        owner: row.text(1)?,
        account: row.opt_bytes(2)?.as_deref().and_then(AccountId::from_slice),
        keyed: row.int(3)? == 1,
        balance: credits(row.int(4)?)?,
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

/// The wallet that this agent is on the market for.
pub(super) fn of_listed(tx: &mut dyn Tx, agent: AgentId) -> Result<Option<Wallet>, StoreError> {
    let sql = select_wallet!("id = (SELECT wallet_id FROM market_agents WHERE agent_id = $1)");
    tx.first(sql, &[(&agent).into()])?.map(wallet).transpose()
}

/// Whether the key of a wallet is kept out: with an agent that earns for it, or with the account whose it is.
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
    /// Its id.
    pub id: WalletId,
    /// What its owner is called.
    pub owner: String,
    /// The account that may use it.
    pub account: Option<AccountId>,
    /// The key that may.
    pub key: Option<KeyHash>,
    /// What it belongs to.
    pub trace: TraceId,
}

/// Makes a wallet with nothing in it; nothing, if there is one of this owner, who may have come at the same time.
pub fn insert(tx: &mut dyn Tx, new: &NewWallet, now: i64) -> Result<Option<Wallet>, StoreError> {
    let made = tx.execute(
        "INSERT INTO wallets (id, owner, account_id, key_hash, balance, created_at, trace_id) VALUES ($1, $2, $3, $4, 0, $5, $6)
         ON CONFLICT (owner) DO NOTHING",
        &[
            (&new.id).into(),
            new.owner.as_str().into(),
            new.account.as_ref().into(),
            new.key.as_ref().map(<[u8; 32]>::as_slice).into(),
            now.into(),
            (&new.trace).into(),
        ],
    )?;
    if made == 0 {
        return Ok(None);
    }
    let (id, owner, account) = (new.id, new.owner.clone(), new.account);
    Ok(Some(Wallet { id, owner, account, keyed: new.key.is_some(), balance: Credits::ZERO }))
}

/// Whoever has this key may use a wallet from now on, and nobody who had another.
pub fn reset_key(tx: &mut dyn Tx, id: WalletId, key: &KeyHash) -> Result<(), StoreError> {
    tx.execute("UPDATE wallets SET key_hash = $2 WHERE id = $1", &[(&id).into(), key.as_slice().into()])?;
    // What is remembered of the owner is known by the wallet's id.
    revocation::announce(tx, AgentId(id.0))
}

/// Keeps others from these wallets until the transaction ends, the smallest first, so that no two wait for each other.
pub fn hold(tx: &mut dyn Tx, ids: impl IntoIterator<Item = WalletId>) -> Result<(), StoreError> {
    let ids: BTreeSet<_> = ids.into_iter().collect();
    ids.into_iter().try_for_each(|id| tx.lock(id.0))
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

/// What is held of a wallet for jobs.
pub fn held(tx: &mut dyn Tx, id: WalletId) -> Result<Credits, StoreError> {
    let row = tx.first(
        "SELECT CAST(COALESCE(SUM(amount), 0) AS BIGINT) FROM holds WHERE wallet_id = $1",
        &[(&id).into()],
    )?;
    credits(row.map_or(Ok(0), |mut row| row.int(0))?)
}
