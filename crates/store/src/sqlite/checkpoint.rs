//! Carrying the write-ahead log into the database, in the background.
//!
//! Each time costs the disk's attention, which whoever waits for a commit would miss. So it is done when nobody writes, or
//! when the log has grown large, and the large part of it, copying pages and making them durable, is done here. Only what
//! was written meanwhile is left to the writer, which alone can start the log again from its beginning: while it writes, no
//! other checkpoint reaches the end.

use super::session::{Session, classify};
use crate::StoreError;
use rusqlite::Connection;
use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// The interval at which the log is examined.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// A log of so many bytes is carried over although somebody writes.
const LARGE: u64 = 128 * 1024 * 1024;
/// SQLite's own default.
const PAGE_BYTES: u64 = 4096;

/// The log, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Log {
    /// The bytes in it.
    size: u64,
    /// The bytes that are also in the database.
    carried: u64,
}

/// Looks at the log (`NOOP`), or carries over as much as readers and the writer let it (`PASSIVE`).
fn log(connection: &Connection, mode: &str) -> Result<Log, StoreError> {
    let bytes = |frames: i64| frames.max(0) as u64 * PAGE_BYTES;
    connection
        .query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| {
            Ok(Log { size: bytes(row.get(1)?), carried: bytes(row.get(2)?) })
        })
        .map_err(classify)
}

/// Carries over what it can.
fn carry(connection: &Connection) -> Result<Log, StoreError> {
    log(connection, "PASSIVE")
}

/// Until it is told to stop.
pub(super) fn run(session: &Session, database: &File, crowded: &AtomicBool, stopped: &Receiver<()>) {
    let mut before = Log::default();
    while stopped.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
        match checkpoint_if_due(&session.connection, database, before) {
            Ok(now) => {
                if now.size > LARGE {
                    crowded.store(true, Ordering::Release);
                }
                before = now;
            }
            Err(error) => warn(&error),
        }
    }
}

/// The writer's part: the little that is left, so that the log starts again.
pub(super) fn finish(connection: &Connection) {
    if let Err(error) = carry(connection) {
        warn(&error);
    }
}

fn warn(error: &StoreError) {
    tracing::warn!(error = error as &dyn std::error::Error, "a checkpoint failed; it is tried again");
}

/// Carries over what is worth it; the log as it is then.
fn checkpoint_if_due(connection: &Connection, database: &File, before: Log) -> Result<Log, StoreError> {
    let now = log(connection, "NOOP")?;
    let quiet = now == before;
    if now.carried == now.size || !(quiet || now.size > LARGE) {
        return Ok(now);
    }
    // A checkpoint that does not reach the end makes nothing durable: the writer would have to, and everybody wait for it. The second
    // time there is only what was written during the first.
    for _ in 0..2 {
        carry(connection)?;
        database.sync_data().map_err(StoreError::unexpected)?;
    }
    carry(connection)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::SqliteOptions;

    #[test]
    fn carried_over_when_nobody_writes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("chorus.db");
        let writer = Session::open(&SqliteOptions::file(&path), false).unwrap();
        let checkpointer = Session::open(&SqliteOptions::file(&path), false).unwrap();
        let database = File::open(&path).unwrap();
        let checkpoint = |before| checkpoint_if_due(&checkpointer.connection, &database, before).unwrap();

        writer.connection.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1)").unwrap();
        let written = checkpoint(Log::default());
        assert!(written.size > 0 && written.carried == 0, "somebody writes, and it is little: {written:?}");
        writer.connection.execute_batch("INSERT INTO t VALUES (2)").unwrap();
        let more = checkpoint(written);
        assert!(more.size > written.size && more.carried == 0, "somebody still writes: {more:?}");
        let quiet = checkpoint(more);
        assert_eq!((quiet.size, quiet.carried), (more.size, more.size));
        assert_eq!(checkpoint(quiet), quiet, "there is nothing to do");
    }
}
