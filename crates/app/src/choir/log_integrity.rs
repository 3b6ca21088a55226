//! The integrity of the transparency log: a cheap check for `/health`, and a repair of the head and the tree.
//!
//! The leaves are the content of the log; the head and the nodes of the tree are computed from them.

use super::log::tree;
use chorus_choir::merkle::{Hash, Place, Tree, leaf_hash, verify_inclusion};
use chorus_node::App;
use chorus_node::telemetry::health::LogStatus;
use chorus_store::choir::log;
use chorus_store::{StoreError, Tx};

/// The number of leaves that a repair reads at a time.
const LEAVES_PER_STEP: i64 = 1000;

/// The outcome of a repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogRepair {
    /// The recorded size before the repair.
    pub former_size: i64,
    /// The recorded size now, which is the number of leaves.
    pub size: i64,
    /// The number of missing nodes that were computed.
    pub added_nodes: u64,
    /// The number of nodes without leaves that were removed.
    pub removed_nodes: u64,
}

/// The error of a repair that the stored data does not allow.
#[derive(Debug, thiserror::Error)]
pub enum LogRepairError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("leaf {0} of the log is missing: restore a backup")]
    MissingLeaf(i64),
    #[error("leaf {0} of the log does not match the tree that was signed: restore a backup")]
    OtherLeaf(i64),
}

/// Verifies the head of the log, and keeps the result for `/health`. Costs as many lookups as the tree is
/// high.
pub(crate) async fn check(app: &App) -> Result<(), StoreError> {
    let (size, damage) = app.store.read::<_, StoreError, _>(verify).await?;
    if let Some(damage) = &damage {
        tracing::error!(size, damage, "the transparency log is damaged: run `chorus doctor --repair-log`");
    }
    app.telemetry.health.set_log(LogStatus { size, is_ok: damage.is_none(), checked_at: app.now() });
    Ok(())
}

/// Returns the number of leaves, and the damage if the head does not verify.
pub fn verify(tx: &mut dyn Tx) -> Result<(i64, Option<String>), StoreError> {
    let (head, size) = (log::size(tx)?, log::end_of_leaves(tx)?);
    if head != size {
        return Ok((size, Some(format!("its head is {head}, and it has {size} leaves"))));
    }
    if size == 0 {
        return Ok((size, None));
    }
    let (newest, mut missing) = (size as u64 - 1, None);
    let Some(leaf) = log::leaf(tx, size - 1)? else {
        return Ok((size, Some("its newest leaf is missing".into())));
    };
    let mut tree = Tree::new(size as u64, |place: Place| {
        let node = log::find_node(tx, place.level.into(), place.index as i64)?;
        Ok::<Hash, StoreError>(node.unwrap_or_else(|| {
            missing = Some(place);
            Hash::default()
        }))
    });
    let (path, root) = (tree.inclusion(newest)?.unwrap_or_default(), tree.root()?);
    let is_in = verify_inclusion(&leaf_hash(leaf.as_bytes()), newest, size as u64, &path, &root);
    Ok((
        size,
        match missing {
            Some(Place { level, index }) => Some(format!("its tree lacks the node {level}/{index}")),
            None if !is_in => Some("its newest leaf is not in its tree".into()),
            None => None,
        },
    ))
}

/// Sets the recorded size to the number of leaves, adds missing nodes and removes surplus ones. Fails without
/// a change if a leaf is missing or contradicts the tree.
pub fn repair(tx: &mut dyn Tx) -> Result<LogRepair, LogRepairError> {
    log::lock(tx)?;
    let (former_size, mut size, mut added_nodes) = (log::size(tx)?, 0, 0);
    loop {
        let leaves = log::leaves(tx, size, LEAVES_PER_STEP)?;
        if leaves.is_empty() {
            break;
        }
        for (place, leaf) in leaves {
            if place != size {
                return Err(LogRepairError::MissingLeaf(size));
            }
            let nodes = tree(tx, size).append(leaf_hash(leaf.as_bytes()))?;
            for (node, hash) in nodes {
                let (level, index) = (node.level.into(), node.index as i64);
                match log::find_node(tx, level, index)? {
                    Some(known) if known == hash => {}
                    Some(_) => return Err(LogRepairError::OtherLeaf(size)),
                    None => {
                        log::insert_node(tx, level, index, &hash)?;
                        added_nodes += 1;
                    }
                }
            }
            size += 1;
        }
    }
    let removed_nodes = log::remove_nodes_beyond(tx, size)?;
    if former_size != size {
        log::set_size(tx, size)?;
    }
    Ok(LogRepair { former_size, size, added_nodes, removed_nodes })
}
