//! The seam between one body of SQL and two databases: parameters, rows and the [`Tx`] trait.
//!
//! The dialect is what both understand: `$1` parameters, TEXT, BIGINT and bytes, `ON CONFLICT`, `RETURNING`. Types
//! are three; times are integer milliseconds, JSON is text, ids are sixteen bytes.

use crate::{Kind, StoreError};
use chorus_protocol::ids::{
    AccountId, AgentId, ApprovalId, AuditId, BlockId, ConversationId, CredentialId, EventId, EvidenceId,
    InvitationId, JobId, QuoteId, ScoreId, StreamId, TraceId, TransferId, WalletId,
};
use uuid::Uuid;

/// A value bound to a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Param<'a> {
    /// Absent.
    Null,
    /// BIGINT.
    Int(i64),
    /// TEXT.
    Text(&'a str),
    /// BLOB or BYTEA.
    Bytes(&'a [u8]),
}

impl From<i64> for Param<'_> {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl<'a> From<&'a str> for Param<'a> {
    fn from(value: &'a str) -> Self {
        Self::Text(value)
    }
}

impl<'a> From<&'a [u8]> for Param<'a> {
    fn from(value: &'a [u8]) -> Self {
        Self::Bytes(value)
    }
}

impl<'a> From<&'a Uuid> for Param<'a> {
    fn from(value: &'a Uuid) -> Self {
        Self::Bytes(value.as_bytes())
    }
}

impl<'a, T: Into<Param<'a>>> From<Option<T>> for Param<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

macro_rules! id_params {
    ($($id:ty),*) => {$(
        impl<'a> From<&'a $id> for Param<'a> {
            fn from(value: &'a $id) -> Self {
                Self::Bytes(value.as_bytes())
            }
        }
    )*};
}
id_params!(
    AccountId,
    AgentId,
    ApprovalId,
    AuditId,
    BlockId,
    ConversationId,
    CredentialId,
    EventId,
    EvidenceId,
    InvitationId,
    JobId,
    QuoteId,
    ScoreId,
    StreamId,
    TraceId,
    TransferId,
    WalletId
);

/// A value read from a row.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Cell {
    /// Absent.
    Null,
    /// BIGINT.
    Int(i64),
    /// TEXT.
    Text(String),
    /// BLOB or BYTEA.
    Bytes(Vec<u8>),
}

impl From<Param<'_>> for Cell {
    fn from(param: Param<'_>) -> Self {
        match param {
            Param::Null => Self::Null,
            Param::Int(value) => Self::Int(value),
            Param::Text(value) => Self::Text(value.to_owned()),
            Param::Bytes(value) => Self::Bytes(value.to_owned()),
        }
    }
}

impl<'a> From<&'a Cell> for Param<'a> {
    fn from(cell: &'a Cell) -> Self {
        match cell {
            Cell::Null => Self::Null,
            Cell::Int(value) => Self::Int(*value),
            Cell::Text(value) => Self::Text(value),
            Cell::Bytes(value) => Self::Bytes(value),
        }
    }
}

/// One row of an answer. Its readers consume cells, so a column is read once.
#[derive(Debug, Clone)]
pub struct Row(pub(crate) Vec<Cell>);

impl Row {
    fn take(&mut self, column: usize) -> Cell {
        self.0.get_mut(column).map_or(Cell::Null, |cell| std::mem::replace(cell, Cell::Null))
    }

    /// An integer.
    pub fn int(&mut self, column: usize) -> Result<i64, StoreError> {
        self.opt_int(column)?.ok_or_else(|| wrong(column, "an integer", &Cell::Null))
    }

    /// An integer or NULL.
    pub fn opt_int(&mut self, column: usize) -> Result<Option<i64>, StoreError> {
        match self.take(column) {
            Cell::Null => Ok(None),
            Cell::Int(value) => Ok(Some(value)),
            other => Err(wrong(column, "an integer", &other)),
        }
    }

    /// A text.
    pub fn text(&mut self, column: usize) -> Result<String, StoreError> {
        self.opt_text(column)?.ok_or_else(|| wrong(column, "a text", &Cell::Null))
    }

    /// A text or NULL.
    pub fn opt_text(&mut self, column: usize) -> Result<Option<String>, StoreError> {
        match self.take(column) {
            Cell::Null => Ok(None),
            Cell::Text(value) => Ok(Some(value)),
            other => Err(wrong(column, "a text", &other)),
        }
    }

    /// Bytes.
    pub fn bytes(&mut self, column: usize) -> Result<Vec<u8>, StoreError> {
        self.opt_bytes(column)?.ok_or_else(|| wrong(column, "bytes", &Cell::Null))
    }

    /// Bytes or NULL.
    pub fn opt_bytes(&mut self, column: usize) -> Result<Option<Vec<u8>>, StoreError> {
        match self.take(column) {
            Cell::Null => Ok(None),
            Cell::Bytes(value) => Ok(Some(value)),
            other => Err(wrong(column, "bytes", &other)),
        }
    }

    /// An id: sixteen bytes.
    pub fn uuid(&mut self, column: usize) -> Result<Uuid, StoreError> {
        Uuid::from_slice(&self.bytes(column)?).map_err(StoreError::unexpected)
    }

    /// An id or NULL.
    pub fn opt_uuid(&mut self, column: usize) -> Result<Option<Uuid>, StoreError> {
        let bytes = self.opt_bytes(column)?;
        bytes.map(|bytes| Uuid::from_slice(&bytes).map_err(StoreError::unexpected)).transpose()
    }
}

fn wrong(column: usize, expected: &str, found: &Cell) -> StoreError {
    StoreError::unexpected(format!("column {column} should be {expected}, found {found:?}"))
}

/// One transaction, on either database. Any error from it ends the work: return it.
pub trait Tx {
    /// Runs a statement and says how many rows it changed.
    fn execute(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<u64, StoreError>;

    /// Inserts one row, with a plain `INSERT INTO … VALUES (…)`, at most with `ON CONFLICT DO NOTHING` after it. What others append at
    /// the same time may go with it in one statement, so whether the database refuses it may be known only when the transaction ends.
    fn append(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<(), StoreError> {
        self.execute(sql, params).map(drop)
    }

    /// Runs a query and hands its rows to `take` until that says `false`.
    fn each(
        &mut self,
        sql: &'static str,
        params: &[Param<'_>],
        take: &mut dyn FnMut(Row) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError>;

    /// The first row of a query that is asked again and again while its tables seldom change: the database may not be asked
    /// each time.
    fn first_cached(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<Option<Row>, StoreError> {
        self.first(sql, params)
    }

    /// The next sequence number of a stream, gap-free in commit order.
    ///
    /// Other transactions on the same stream wait for this one to end: take it as late as possible, and of several
    /// streams the smallest id first.
    fn next_seq(&mut self, stream: Uuid) -> Result<i64, StoreError>;

    /// The last sequence number of a stream; 0 for one that has none.
    fn head(&mut self, stream: Uuid) -> Result<i64, StoreError>;

    /// Keeps other transactions from this stream until this one ends, without moving it. On SQLite nothing is needed:
    /// one transaction writes at a time.
    fn lock(&mut self, stream: Uuid) -> Result<(), StoreError>;

    /// Which database this is, for the little that cannot be said the same way to both.
    fn kind(&self) -> Kind;

    /// Something to do once, if and only if this transaction commits; on the store's thread, so it must be brief.
    fn after_commit(&mut self, action: Box<dyn FnOnce() + Send>);
}

/// Conveniences on top of [`Tx`].
pub trait TxExt: Tx {
    /// All rows. The statement carries its own LIMIT.
    fn query(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<Vec<Row>, StoreError> {
        let mut rows = Vec::new();
        self.each(sql, params, &mut |row| {
            rows.push(row);
            Ok(true)
        })?;
        Ok(rows)
    }

    /// The first row.
    fn first(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<Option<Row>, StoreError> {
        let mut first = None;
        self.each(sql, params, &mut |row| {
            first = Some(row);
            Ok(false)
        })?;
        Ok(first)
    }
}

impl<T: Tx + ?Sized> TxExt for T {}
