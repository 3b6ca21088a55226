//! The transparency log: leaves in the order of commits, the subtrees that they complete, and the signing
//! keys.
//!
//! The order is that of the store's sequences: appending locks the log until the transaction ends. The engine
//! defines the tree.

use crate::{StoreError, StreamKey, Tx, TxExt};

/// A key that the hub signs with, or did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRow {
    /// Counted from 1.
    pub generation: i64,
    pub public: Vec<u8>,
    pub from: i64,
    pub until: Option<i64>,
}

/// Takes the next place in the log, counted from 0, and holds the log.
pub fn next_place(tx: &mut dyn Tx) -> Result<i64, StoreError> {
    Ok(tx.next_seq(StreamKey::LOG)? - 1)
}

/// Makes this the number of leaves, whatever it was.
pub fn set_size(tx: &mut dyn Tx, size: i64) -> Result<(), StoreError> {
    tx.set_head(StreamKey::LOG, size)
}

/// Keeps others from appending until this transaction ends.
pub fn lock(tx: &mut dyn Tx) -> Result<(), StoreError> {
    tx.lock(StreamKey::LOG)
}

/// Returns how many leaves the log says it has: the head of its stream.
pub fn size(tx: &mut dyn Tx) -> Result<i64, StoreError> {
    tx.head(StreamKey::LOG)
}

/// Keeps what a leaf says.
pub fn insert_leaf(tx: &mut dyn Tx, place: i64, leaf: &str) -> Result<(), StoreError> {
    tx.execute("INSERT INTO log_leaves (place, leaf) VALUES ($1, $2)", &[place.into(), leaf.into()])?;
    Ok(())
}

/// Returns the leaf at a position.
pub fn leaf(tx: &mut dyn Tx, place: i64) -> Result<Option<String>, StoreError> {
    let sql = "SELECT leaf FROM log_leaves WHERE place = $1";
    tx.first(sql, &[place.into()])?.map(|mut row| row.text("leaf")).transpose()
}

/// Returns the place after that of the newest leaf, by the leaves themselves.
pub fn end_of_leaves(tx: &mut dyn Tx) -> Result<i64, StoreError> {
    let row = tx.first("SELECT COALESCE(MAX(place) + 1, 0) AS next_place FROM log_leaves", &[])?;
    row.map_or(Ok(0), |mut row| row.int("next_place"))
}

/// Returns the leaves from a place on, in their order.
pub fn leaves(tx: &mut dyn Tx, from: i64, limit: i64) -> Result<Vec<(i64, String)>, StoreError> {
    let sql = "SELECT place, leaf FROM log_leaves WHERE place >= $1 ORDER BY place LIMIT $2";
    let rows = tx.query(sql, &[from.into(), limit.into()])?.into_iter();
    rows.map(|mut row| Ok((row.int("place")?, row.text("leaf")?))).collect()
}

/// Removes the subtrees that a log of this many leaves does not have, and returns their number.
pub fn remove_nodes_beyond(tx: &mut dyn Tx, size: i64) -> Result<u64, StoreError> {
    // Of the subtrees of a level as many are complete as it fits into the log.
    let sql = "DELETE FROM log_nodes WHERE place >= CAST($1 AS BIGINT) >> CAST(level AS INTEGER)";
    tx.execute(sql, &[size.into()])
}

/// Keeps a complete subtree.
pub fn insert_node(tx: &mut dyn Tx, level: i64, place: i64, hash: &[u8]) -> Result<(), StoreError> {
    let sql = "INSERT INTO log_nodes (level, place, hash) VALUES ($1, $2, $3)";
    tx.execute(sql, &[level.into(), place.into(), hash.into()])?;
    Ok(())
}

/// Returns the hash of a complete subtree, if it is stored.
pub fn find_node(tx: &mut dyn Tx, level: i64, place: i64) -> Result<Option<[u8; 32]>, StoreError> {
    let sql = "SELECT hash FROM log_nodes WHERE level = $1 AND place = $2";
    let found = tx.first(sql, &[level.into(), place.into()])?.map(|mut row| row.bytes("hash")).transpose()?;
    Ok(found.and_then(|bytes| bytes.try_into().ok()))
}

/// Returns the hash of a complete subtree, which must be stored.
pub fn node(tx: &mut dyn Tx, level: i64, place: i64) -> Result<[u8; 32], StoreError> {
    find_node(tx, level, place)?
        .ok_or_else(|| StoreError::unexpected(format!("the log lacks its node {level}/{place}")))
}

/// All keys, the newest first; there are as many as master keys were used.
pub fn keys(tx: &mut dyn Tx) -> Result<Vec<KeyRow>, StoreError> {
    let sql = "SELECT generation, public_key, from_at, until_at FROM attestation_keys ORDER BY generation DESC LIMIT 1000";
    let rows = tx.query(sql, &[])?.into_iter();
    rows.map(|mut row| {
        Ok(KeyRow {
            generation: row.int("generation")?,
            public: row.bytes("public_key")?,
            from: row.int("from_at")?,
            until: row.opt_int("until_at")?,
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
