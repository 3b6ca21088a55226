//! The ends of many streams at once, for whoever looks at all it follows.

use crate::{StoreError, Tx, TxExt};
use uuid::Uuid;

/// How many are asked for together.
const TOGETHER: usize = 16;

/// The last sequence numbers of these streams; those that have none are not among them.
pub fn heads(tx: &mut dyn Tx, streams: &[Uuid]) -> Result<Vec<(Uuid, i64)>, StoreError> {
    let mut heads = Vec::with_capacity(streams.len());
    for some in streams.chunks(TOGETHER) {
        // The last one again in place of those that are missing.
        let params: Vec<_> = (0..TOGETHER).map(|n| (&some[n.min(some.len() - 1)]).into()).collect();
        let sql = "SELECT id, head FROM streams
                   WHERE id IN ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)";
        for mut row in tx.query(sql, &params)? {
            heads.push((row.uuid(0)?, row.int(1)?));
        }
    }
    Ok(heads)
}
