//! Options for opening a SQLite store.

use crate::READ_TIME;
use std::path::PathBuf;
use std::time::Duration;

/// The moment at which success may be reported.
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

/// Options for opening a SQLite store.
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    /// The file; none for a store in memory.
    pub path: Option<PathBuf>,
    pub durability: Durability,
    /// The maximum number of waiting closures, for writes and for reads each.
    pub queue: usize,
    /// The time to wait for another process's lock.
    pub busy_timeout: Duration,
    pub readers: usize,
    /// The time limit of a read.
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
