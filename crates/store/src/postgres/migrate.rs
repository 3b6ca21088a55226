//! Runs migrations on a PostgreSQL database.

use super::session::classify;
use crate::StoreError;
use crate::migrate::{Migration, pending};

pub(crate) fn migrate(client: &mut postgres::Client, migrations: &[Migration]) -> Result<(), StoreError> {
    let mut run = || -> Result<Result<(), StoreError>, postgres::Error> {
        let mut tx = client.transaction()?;
        // The number of the lock is arbitrary, but the same on every node. A node waits for it as long as a migration takes.
        tx.batch_execute("SET LOCAL lock_timeout = 0; SELECT pg_advisory_xact_lock(7267861); CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL)")?;
        let row = tx.query_one("SELECT COALESCE(MAX(version), 0) FROM schema_version", &[])?;
        let pending = match pending(row.get(0), migrations) {
            Ok(pending) => pending,
            Err(error) => return Ok(Err(error)),
        };
        for (number, migration) in pending {
            tx.batch_execute(migration.postgres)?;
            tx.execute("INSERT INTO schema_version (version) VALUES ($1)", &[&number])?;
        }
        tx.commit().map(Ok)
    };
    run().map_err(classify)?
}
