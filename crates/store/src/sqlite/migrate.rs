//! Runs migrations on a SQLite database.

use super::session::classify;
use crate::StoreError;
use crate::migrate::{Migration, pending};
use rusqlite::TransactionBehavior;

pub(crate) fn migrate(
    connection: &mut rusqlite::Connection,
    migrations: &[Migration],
) -> Result<(), StoreError> {
    let tx = connection.transaction_with_behavior(TransactionBehavior::Exclusive).map_err(classify)?;
    let found: i64 = tx.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(classify)?;
    for (number, migration) in pending(found, migrations)? {
        tx.execute_batch(migration.sqlite).map_err(classify)?;
        tx.pragma_update(None, "user_version", number).map_err(classify)?;
    }
    tx.commit().map_err(classify)
}
