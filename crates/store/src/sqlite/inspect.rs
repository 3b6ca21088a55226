//! Looking at a database file without opening a store on it.

use super::files::beside;
use super::options::SqliteOptions;
use super::session::{Session, classify};
use crate::{StoreError, migrate};
use std::path::Path;

impl SqliteOptions {
    /// A named value of the hub as it stands in the file, before anything is opened for writing or brought up to date;
    /// none if there is no file yet, or no such value.
    pub fn peek(&self, name: &str) -> Result<Option<String>, StoreError> {
        if !self.path.as_deref().is_some_and(Path::exists) {
            return Ok(None);
        }
        let session = Session::open(self, true)?;
        let version: i64 = session
            .connection
            .pragma_query_value(None, "user_version", |row| row.get(0))
            .map_err(classify)?;
        if version == 0 {
            return Ok(None);
        }
        let sql = "SELECT value FROM settings WHERE name = ?1";
        match session.connection.query_row(sql, [name], |row| row.get(0)) {
            Ok(value) => Ok(Some(value)),
            Err(rusqlite::Error::QueryReturnedNoRows) => Ok(None),
            Err(error) => Err(classify(error)),
        }
    }
}

/// The state of a database file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnosis {
    /// The schema it has.
    pub schema_version: i64,
    /// The schema this program knows.
    pub known_version: i64,
    /// Faults that SQLite reports; empty for a sound file.
    pub damage: Vec<String>,
    /// Bytes of the file, and of the log beside it.
    pub bytes: u64,
}

impl Diagnosis {
    /// Returns whether a build before the first release wrote the database. [`Store::sqlite`](crate::Store::sqlite) refuses it.
    pub fn is_unreleased(&self) -> bool {
        (1..migrate::FIRST).contains(&self.schema_version)
    }
}

/// Looks at a database file without changing it, also while a hub uses it.
pub fn diagnose(path: &Path) -> Result<Diagnosis, StoreError> {
    let options = SqliteOptions::file(path);
    let session = Session::open(&options, true)?;
    let mut statement = session.connection.prepare("PRAGMA quick_check(10)").map_err(classify)?;
    let found = statement.query_map([], |row| row.get::<_, String>(0)).map_err(classify)?;
    let damage: Vec<String> = found.collect::<Result<_, _>>().map_err(classify)?;
    let schema_version =
        session.connection.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(classify)?;
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |data| data.len());
    Ok(Diagnosis {
        schema_version,
        known_version: migrate::KNOWN,
        damage: damage.into_iter().filter(|line| line != "ok").collect(),
        bytes: size(path) + size(&beside(path, "-wal")),
    })
}
