//! Errors of the store. All except [`StoreError::Unexpected`] may be temporary.

use crate::usage::Exceeded;
use std::error::Error;

/// A boxed cause, for the log; never shown to a client.
type Cause = Box<dyn Error + Send + Sync>;

/// An error of the store. Nothing of the failed work was acknowledged.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Too much work waits already.
    #[error("the store's queue is full")]
    Overloaded,
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    #[error("the disk is full")]
    Full(#[source] Cause),
    /// Somebody else holds the database's lock.
    #[error("the database is locked by another process")]
    Locked(#[source] Cause),
    /// The database cannot be reached or its disk fails.
    #[error("the database is unavailable")]
    Unavailable(#[source] Cause),
    /// A read took longer than it may.
    #[error("the read took too long and was stopped")]
    TooLong,
    /// Transactions got in each other's way again and again.
    #[error("the transaction kept conflicting with others")]
    Conflict(#[source] Cause),
    /// The work panicked; only this work was rolled back.
    #[error("the work panicked")]
    Panicked,
    /// The database was written by a newer program.
    #[error("the database has schema version {found}, this program knows {known}: use a newer chorus")]
    Newer { found: i64, known: i64 },
    /// The database was written by a build before the first release.
    #[error(
        "the database has schema version {found} of a build before 0.1.0: export it with that build \
         (`chorus export`), then import the file into an empty database (`chorus import`)"
    )]
    Unreleased { found: i64 },
    /// The database could not be opened.
    #[error("cannot open the database {what}")]
    Open {
        what: String,
        #[source]
        source: Cause,
    },
    /// A quota of stored bytes is used up.
    #[error(transparent)]
    Quota(#[from] Exceeded),
    /// A statement or a value that should not be: a fault of this program or of the database's content.
    #[error("the database answered something unexpected")]
    Unexpected(#[source] Cause),
}

/// A word of the vocabulary, as a column holds it.
pub(crate) fn word<T>(text: &str, parse: fn(&str) -> Option<T>) -> Result<T, StoreError> {
    parse(text).ok_or_else(|| StoreError::unexpected(format!("the word {text:?}")))
}

impl StoreError {
    pub(crate) fn unexpected(what: impl Into<Cause>) -> Self {
        Self::Unexpected(what.into())
    }

    /// Returns whether the whole transaction is lost, not only the statement.
    pub(crate) fn is_fatal(&self) -> bool {
        matches!(self, Self::Full(_) | Self::Locked(_) | Self::Unavailable(_))
    }

    /// The same failure for another closure of the same batch.
    pub(crate) fn for_the_batch(&self) -> Self {
        let cause = || -> Cause { self.to_string().into() };
        match self {
            Self::Full(_) => Self::Full(cause()),
            Self::Locked(_) => Self::Locked(cause()),
            Self::Conflict(_) => Self::Conflict(cause()),
            Self::Closed => Self::Closed,
            _ => Self::Unavailable(cause()),
        }
    }
}
