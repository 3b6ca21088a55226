//! How a SQLite store is opened.

use crate::READ_TIME;
use std::path::PathBuf;
use std::time::Duration;

/// When success may be reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// After fsync: what was acknowledged survives a power cut.
    Full,
    /// After the write: what was acknowledged survives a crash of the program, not of the machine.
    Relaxed,
}

impl Durability {
    /// Its name in settings and in `/health`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Relaxed => "relaxed",
        }
    }
}

/// How to open a SQLite store.
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    /// The file; none for a store in memory.
    pub path: Option<PathBuf>,
    /// When success may be reported.
    pub durability: Durability,
    /// How many closures may wait, for writing and for reading each.
    pub queue: usize,
    /// How long to wait for another process's lock.
    pub busy_timeout: Duration,
    /// Threads that read.
    pub readers: usize,
    /// How long a read may take.
    pub read_time: Duration,
}

impl SqliteOptions {
    /// A file with the defaults of the hub.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self { path: Some(path.into()), ..Self::in_memory() }
    }

    /// A store in memory.
    pub fn in_memory() -> Self {
        Self {
            path: None,
            durability: Durability::Full,
            queue: 4096,
            busy_timeout: Duration::from_secs(5),
            readers: 2,
            read_time: READ_TIME,
        }
    }
}
