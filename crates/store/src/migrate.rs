//! Numbered migrations, embedded, the same numbers for both databases.
//!
//! They run when a store is opened, each in a transaction, under a lock, so that of several nodes one does the work.
//! A database with a number this program does not know is refused: it was written by a newer one.

use crate::{StoreError, postgres, sqlite};
use rusqlite::TransactionBehavior;

struct Migration {
    sqlite: &'static str,
    postgres: &'static str,
}

macro_rules! migration {
    ($name:literal) => {
        Migration {
            sqlite: include_str!(concat!("../migrations/sqlite/", $name)),
            postgres: include_str!(concat!("../migrations/postgres/", $name)),
        }
    };
}

/// In order; the first is number 1.
const MIGRATIONS: &[Migration] = &[
    migration!("0001_relay.sql"),
    migration!("0002_unplaced.sql"),
    migration!("0003_people.sql"),
    migration!("0004_former_names.sql"),
    migration!("0005_pushing.sql"),
    migration!("0006_reading.sql"),
    migration!("0007_sealed.sql"),
    migration!("0008_search.sql"),
    migration!("0009_recovery.sql"),
    migration!("0010_consent.sql"),
    migration!("0011_endpoint_proof.sql"),
    migration!("0012_documents.sql"),
    migration!("0013_chats.sql"),
    migration!("0014_mcp_sessions.sql"),
];

/// The number of the newest.
pub(crate) const KNOWN: i64 = MIGRATIONS.len() as i64;

/// What is still to be done on a database of version `found`.
fn pending(found: i64) -> Result<impl Iterator<Item = (i64, &'static Migration)>, StoreError> {
    if found > KNOWN {
        return Err(StoreError::Newer { found, known: KNOWN });
    }
    Ok((1..).zip(MIGRATIONS).filter(move |(number, _)| *number > found))
}

pub(crate) fn sqlite(connection: &mut rusqlite::Connection) -> Result<(), StoreError> {
    let tx =
        connection.transaction_with_behavior(TransactionBehavior::Exclusive).map_err(sqlite::classify)?;
    let found: i64 =
        tx.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(sqlite::classify)?;
    for (number, migration) in pending(found)? {
        tx.execute_batch(migration.sqlite).map_err(sqlite::classify)?;
        tx.pragma_update(None, "user_version", number).map_err(sqlite::classify)?;
    }
    tx.commit().map_err(sqlite::classify)
}

pub(crate) fn postgres(client: &mut ::postgres::Client) -> Result<(), StoreError> {
    let mut migrate = || -> Result<Result<(), StoreError>, ::postgres::Error> {
        let mut tx = client.transaction()?;
        // Any constant will do, as long as every node uses the same. Who waits for it waits for a whole migration.
        tx.batch_execute("SET LOCAL lock_timeout = 0; SELECT pg_advisory_xact_lock(7267861); CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL)")?;
        let row = tx.query_one("SELECT COALESCE(MAX(version), 0) FROM schema_version", &[])?;
        let pending = match pending(row.get(0)) {
            Ok(pending) => pending,
            Err(error) => return Ok(Err(error)),
        };
        for (number, migration) in pending {
            tx.batch_execute(migration.postgres)?;
            tx.execute("INSERT INTO schema_version (version) VALUES ($1)", &[&number])?;
        }
        tx.commit().map(Ok)
    };
    migrate().map_err(postgres::classify)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_database_is_refused() {
        assert!(matches!(pending(KNOWN + 1), Err(StoreError::Newer { .. })));
        assert_eq!(pending(KNOWN).unwrap().count(), 0);
        assert_eq!(pending(0).unwrap().count(), MIGRATIONS.len());
    }
}
