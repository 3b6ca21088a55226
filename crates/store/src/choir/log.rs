//! The transparency log: leaves in the order of commits, the subtrees that they complete, and the keys it was signed with.
//!
//! The order is that of the store's own sequences: whoever appends holds the log until its transaction ends. What a
//! tree is made of is the engine's business.

use crate::{StoreError, Tx, TxExt};
use uuid::Uuid;

/// The log's stream. (Not one of those that tell of revocations.)
const STREAM: Uuid = Uuid::from_u128(0x6368_6f69_7200_4000_8000_6c6f_6700_0001);

/// A key that the hub signs with, or did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRow {
    /// Counted from 1.
    pub generation: i64,
    /// The public half.
    pub public: Vec<u8>,
    /// Since when.
    pub from: i64,
    /// Until when.
    pub until: Option<i64>,
}

/// Takes the next place in the log, counted from 0, and holds the log.
pub fn next_place(tx: &mut dyn Tx) -> Result<i64, StoreError> {
    Ok(tx.next_seq(STREAM)? - 1)
}

/// How many leaves there are.
pub fn size(tx: &mut dyn Tx) -> Result<i64, StoreError> {
    tx.head(STREAM)
}

/// Keeps what a leaf says.
pub fn insert_leaf(tx: &mut dyn Tx, place: i64, leaf: &str) -> Result<(), StoreError> {
    tx.execute("INSERT INTO log_leaves (place, leaf) VALUES ($1, $2)", &[place.into(), leaf.into()])?;
    Ok(())
}

/// What a leaf says.
pub fn leaf(tx: &mut dyn Tx, place: i64) -> Result<Option<String>, StoreError> {
    let sql = "SELECT leaf FROM log_leaves WHERE place = $1";
    tx.first(sql, &[place.into()])?.map(|mut row| row.text(0)).transpose()
}

/// Keeps a complete subtree.
pub fn insert_node(tx: &mut dyn Tx, level: i64, place: i64, hash: &[u8]) -> Result<(), StoreError> {
    let sql = "INSERT INTO log_nodes (level, place, hash) VALUES ($1, $2, $3)";
    tx.execute(sql, &[level.into(), place.into(), hash.into()])?;
    Ok(())
}

/// A complete subtree.
pub fn node(tx: &mut dyn Tx, level: i64, place: i64) -> Result<[u8; 32], StoreError> {
    let sql = "SELECT hash FROM log_nodes WHERE level = $1 AND place = $2";
    let found = tx.first(sql, &[level.into(), place.into()])?.map(|mut row| row.bytes(0)).transpose()?;
    found
        .and_then(|bytes| bytes.try_into().ok())
        .ok_or_else(|| StoreError::unexpected(format!("the log lacks its node {level}/{place}")))
}

/// All keys, the newest first; there are as many as master keys were used.
pub fn keys(tx: &mut dyn Tx) -> Result<Vec<KeyRow>, StoreError> {
    let sql = "SELECT generation, public_key, from_at, until_at FROM attestation_keys ORDER BY generation DESC LIMIT 1000";
    let rows = tx.query(sql, &[])?.into_iter();
    rows.map(|mut row| {
        Ok(KeyRow {
            generation: row.int(0)?,
            public: row.bytes(1)?,
            from: row.int(2)?,
            until: row.opt_int(3)?,
        })
    })
    .collect()
}

/// Signs with another key from now on. Of several nodes that find so at once, one makes it.
pub fn replace_key(tx: &mut dyn Tx, new: &KeyRow) -> Result<(), StoreError> {
    let sql = "UPDATE attestation_keys SET until_at = $2 WHERE generation < $1 AND until_at IS NULL";
    tx.execute(sql, &[new.generation.into(), new.from.into()])?;
    tx.execute(
        "INSERT INTO attestation_keys (generation, public_key, from_at) VALUES ($1, $2, $3)
         ON CONFLICT (generation) DO NOTHING",
        &[new.generation.into(), new.public.as_slice().into(), new.from.into()],
    )?;
    Ok(())
}
