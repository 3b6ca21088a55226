//! A copy of a database file, also while a hub uses it: whole, as it stands at one moment.
//!
//! Page by page, not `VACUUM INTO`, which numbers rows anew: the words of messages go by these numbers.

use super::options::SqliteOptions;
use super::session::{Session, classify};
use crate::StoreError;
use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Copies a database file to a new one, which must not be there yet and is for nobody else's eyes.
pub fn backup(path: &Path, to: &Path) -> Result<(), StoreError> {
    let session = Session::open(&SqliteOptions::file(path), true)?;
    // Made first, so that nobody else can read it for a moment. SQLite takes an empty file.
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to);
    made.map_err(|error| StoreError::Open { what: to.display().to_string(), source: error.into() })?;
    let mut copy = Connection::open(to).map_err(classify)?;
    let backup = Backup::new(&session.connection, &mut copy).map_err(classify)?;
    // All of it in one step, and so at one moment: whoever writes meanwhile writes into the log.
    match backup.step(-1).map_err(classify)? {
        StepResult::Done => Ok(()),
        other => Err(StoreError::Locked(format!("the copy was not made: {other:?}").into())),
    }
}
