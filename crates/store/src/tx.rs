//! The seam between one body of SQL and two databases: parameters, rows and the [`Tx`] trait.
//!
//! The dialect is what both understand: `$1` parameters, TEXT, BIGINT and bytes, `ON CONFLICT`, `RETURNING`. Types
//! are three; times are integer milliseconds, JSON is text, ids are sixteen bytes.

use crate::usage::Meter;
use crate::{Kind, StoreError, StreamKey};
use chorus_protocol::ids::{
    AccountId, AgentId, ApprovalId, AuditId, BlockId, ConversationId, CredentialId, EventId, EvidenceId,
    InvitationId, JobId, QuoteId, ScoreId, StreamId, TraceId, TransferId, WalletId,
};
use std::sync::Arc;
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

/// The names of a statement's columns, shared by all its rows. They are read once, when the statement is prepared.
#[derive(Debug, Clone)]
pub(crate) struct ColumnNames(Arc<[String]>);

impl ColumnNames {
    /// A name that several columns share is left out, so that none of them can be mistaken for another.
    pub(crate) fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let names: Vec<&str> = names.into_iter().collect();
        let is_unique = |name: &str| names.iter().filter(|other| **other == name).count() == 1;
        Self(
            names
                .iter()
                .map(|name| if is_unique(name) { (*name).to_owned() } else { String::new() })
                .collect(),
        )
    }
}

/// One row of an answer, read by the names of its columns. Its readers move values out, so a column is read once.
///
/// An expression needs a name (`COUNT(*) AS members`), and so do columns of two tables that are called alike: the
/// databases do not agree on the name of an expression, and a name that is there twice cannot be read.
#[derive(Debug, Clone)]
pub struct Row {
    columns: ColumnNames,
    cells: Vec<Cell>,
    /// The place after the column that was read last: most readers go through a row in its order.
    next: usize,
}

impl Row {
    pub(crate) fn new(columns: ColumnNames, cells: Vec<Cell>) -> Self {
        Self { columns, cells, next: 0 }
    }

    /// Returns all values in the order of the statement, for code that takes the columns from the database.
    pub(crate) fn into_cells(self) -> Vec<Cell> {
        self.cells
    }

    fn take(&mut self, column: &str) -> Result<Cell, StoreError> {
        let names = &self.columns.0;
        let is_asked = |place: &usize| names.get(*place).is_some_and(|name| name == column);
        let place = (self.next..names.len()).chain(0..self.next).find(is_asked);
        let (place, cell) =
            place.and_then(|place| Some((place, self.cells.get_mut(place)?))).ok_or_else(|| {
                StoreError::unexpected(format!("no column, or more than one, is named {column}: {names:?}"))
            })?;
        self.next = place + 1;
        Ok(std::mem::replace(cell, Cell::Null))
    }

    pub fn int(&mut self, column: &str) -> Result<i64, StoreError> {
        self.opt_int(column)?.ok_or_else(|| wrong(column, "an integer", &Cell::Null))
    }

    /// An integer or NULL.
    pub fn opt_int(&mut self, column: &str) -> Result<Option<i64>, StoreError> {
        match self.take(column)? {
            Cell::Null => Ok(None),
            Cell::Int(value) => Ok(Some(value)),
            other => Err(wrong(column, "an integer", &other)),
        }
    }

    pub fn text(&mut self, column: &str) -> Result<String, StoreError> {
        self.opt_text(column)?.ok_or_else(|| wrong(column, "a text", &Cell::Null))
    }

    /// A text or NULL.
    pub fn opt_text(&mut self, column: &str) -> Result<Option<String>, StoreError> {
        match self.take(column)? {
            Cell::Null => Ok(None),
            Cell::Text(value) => Ok(Some(value)),
            other => Err(wrong(column, "a text", &other)),
        }
    }

    pub fn bytes(&mut self, column: &str) -> Result<Vec<u8>, StoreError> {
        self.opt_bytes(column)?.ok_or_else(|| wrong(column, "bytes", &Cell::Null))
    }

    pub fn opt_bytes(&mut self, column: &str) -> Result<Option<Vec<u8>>, StoreError> {
        match self.take(column)? {
            Cell::Null => Ok(None),
            Cell::Bytes(value) => Ok(Some(value)),
            other => Err(wrong(column, "bytes", &other)),
        }
    }

    /// An id: sixteen bytes.
    pub fn uuid(&mut self, column: &str) -> Result<Uuid, StoreError> {
        Uuid::from_slice(&self.bytes(column)?).map_err(StoreError::unexpected)
    }

    /// An id or NULL.
    pub fn opt_uuid(&mut self, column: &str) -> Result<Option<Uuid>, StoreError> {
        let bytes = self.opt_bytes(column)?;
        bytes.map(|bytes| Uuid::from_slice(&bytes).map_err(StoreError::unexpected)).transpose()
    }
}

fn wrong(column: &str, expected: &str, found: &Cell) -> StoreError {
    StoreError::unexpected(format!("column {column} should be {expected}, found {found:?}"))
}

/// One transaction, on either database. Any error from it ends the work: return it.
pub trait Tx {
    /// Runs a statement and says how many rows it changed.
    fn execute(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<u64, StoreError>;

    /// Inserts one row with a plain `INSERT INTO … VALUES (…)`, optionally with `ON CONFLICT DO NOTHING`. It
    /// may be combined with rows of other closures into one statement, so an error of the database may appear
    /// only when the transaction ends.
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
    /// streams of one kind the smallest id first.
    fn next_seq(&mut self, stream: StreamKey) -> Result<i64, StoreError>;

    /// The last sequence number of a stream; 0 for one that has none.
    fn head(&mut self, stream: StreamKey) -> Result<i64, StoreError>;

    /// Makes `head` the last sequence number of a stream, whatever it was: for a stream that goes on where another one ended, and
    /// for repairs.
    fn set_head(&mut self, stream: StreamKey, head: i64) -> Result<(), StoreError>;

    /// Keeps other transactions from this stream until this one ends, without moving it. On SQLite nothing is needed:
    /// one transaction writes at a time.
    fn lock(&mut self, stream: StreamKey) -> Result<(), StoreError>;

    /// Returns the kind of database, for the few statements that differ.
    fn kind(&self) -> Kind;

    /// Something to do once, if and only if this transaction commits; on the store's thread, so it must be brief.
    fn after_commit(&mut self, action: Box<dyn FnOnce() + Send>);

    /// Returns the meter that counts stored bytes; `None` where nobody counts them.
    fn meter(&self) -> Option<Arc<dyn Meter>> {
        None
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Row {
        let cells = vec![Cell::Int(1), Cell::Text("bob".into()), Cell::Null, Cell::Int(4), Cell::Int(5)];
        Row::new(ColumnNames::new(["seq", "handle", "left_seq", "id", "id"]), cells)
    }

    #[test]
    fn columns_are_read_by_name_in_any_order() {
        let mut row = row();
        assert_eq!(row.opt_int("left_seq").unwrap(), None);
        assert_eq!(row.text("handle").unwrap(), "bob");
        assert_eq!(row.int("seq").unwrap(), 1);
    }

    #[test]
    fn an_error_names_the_column() {
        let error = |read: Result<i64, StoreError>| match read {
            Err(StoreError::Unexpected(source)) => source.to_string(),
            other => panic!("{other:?}"),
        };
        assert!(error(row().int("joined_seq")).contains("is named joined_seq"));
        assert!(error(row().int("handle")).starts_with("column handle should be an integer"));
        assert!(error(row().int("left_seq")).starts_with("column left_seq should be an integer"));
        assert!(error(row().int("id")).contains("is named id"), "nobody knows which of two");
    }
}
