//! Rows to be inserted that nobody has asked for yet: they are written together, many with one statement.
//!
//! Most of what a statement costs is to begin and to end it: cursors on the table and all its indexes, for one row. So the
//! rows that the closures of a batch append are kept until a statement has to do with their tables, or the batch ends.

use super::tables::TableSet;
use crate::tx::Param;
use rusqlite::ToSql;
use rusqlite::types::{ToSqlOutput, ValueRef};
use std::fmt::Write as _;
use std::ops::Range;

/// Numbers of rows per statement: as many rows as possible are inserted with the first, the rest with the
/// next.
pub(super) const ROWS: [usize; 5] = [16, 8, 4, 2, 1];
/// The most bytes that are kept.
const MAX_BYTES: usize = 1024 * 1024;

#[derive(Default)]
pub(super) struct Appends {
    /// One for each statement, in the order in which they came first.
    kept: Vec<Rows>,
    tables: TableSet,
    bytes: usize,
}

/// Rows for one statement.
pub(super) struct Rows {
    pub(super) sql: &'static str,
    /// The number of values of a row.
    pub(super) width: usize,
    values: Vec<Value>,
    /// The bytes of texts and blobs.
    said: Vec<u8>,
}

enum Value {
    Null,
    Int(i64),
    Text(Range<usize>),
    Bytes(Range<usize>),
}

impl Appends {
    /// Keeps a row of these tables.
    pub(super) fn push(&mut self, sql: &'static str, params: &[Param<'_>], tables: TableSet) {
        let known = self.kept.iter().position(|rows| std::ptr::eq(rows.sql, sql));
        let place = known.unwrap_or_else(|| {
            self.kept.push(Rows { sql, width: params.len(), values: vec![], said: vec![] });
            self.kept.len() - 1
        });
        self.tables.add(tables);
        self.bytes += self.kept[place].push(params);
    }

    /// Returns whether a statement on these tables must wait for buffered rows.
    pub(super) fn concern(&self, tables: TableSet) -> bool {
        self.tables.meets(tables)
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes > MAX_BYTES
    }

    /// All of them; from now on none is kept.
    pub(super) fn take(&mut self) -> Vec<Rows> {
        (self.tables, self.bytes) = (TableSet::default(), 0);
        std::mem::take(&mut self.kept)
    }
}

impl Rows {
    fn push(&mut self, params: &[Param<'_>]) -> usize {
        let before = self.said.len();
        for param in params {
            let begin = self.said.len();
            let mut say = |bytes: &[u8]| {
                self.said.extend_from_slice(bytes);
                begin..begin + bytes.len()
            };
            let value = match param {
                Param::Null => Value::Null,
                Param::Int(value) => Value::Int(*value),
                Param::Text(text) => Value::Text(say(text.as_bytes())),
                Param::Bytes(bytes) => Value::Bytes(say(bytes)),
            };
            self.values.push(value);
        }
        self.said.len() - before + size_of_val(params)
    }

    /// The values of all rows, in pieces of as many rows as one statement inserts.
    pub(super) fn pieces(&self) -> impl Iterator<Item = (usize, impl Iterator<Item = Said<'_>>)> {
        let mut rest = self.values.as_slice();
        std::iter::from_fn(move || {
            let rows = ROWS.into_iter().find(|rows| !rest.is_empty() && rows * self.width <= rest.len())?;
            let (piece, after) = rest.split_at(rows * self.width);
            rest = after;
            Some((rows, piece.iter().map(|value| Said { value, said: &self.said })))
        })
    }
}

/// A value that can be bound.
pub(super) struct Said<'a> {
    value: &'a Value,
    said: &'a [u8],
}

impl ToSql for Said<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self.value {
            Value::Null => ValueRef::Null,
            Value::Int(value) => ValueRef::Integer(*value),
            Value::Text(place) => ValueRef::Text(&self.said[place.clone()]),
            Value::Bytes(place) => ValueRef::Blob(&self.said[place.clone()]),
        }))
    }
}

/// The statement that inserts so many rows of `width` values, where `sql` inserts one; none if it has not that form.
///
/// If it fails, the whole transaction is given up: SQLite need not keep every page as it was before the statement, to be able to
/// take back its first rows alone.
pub(super) fn many(sql: &str, width: usize, rows: usize) -> Option<String> {
    let (head, rest) = sql.split_once("VALUES (")?;
    let (row, tail) = rest.rsplit_once(')')?;
    let into = head.trim_start().strip_prefix("INSERT INTO ")?;
    // Other clauses are about one row.
    if !matches!(tail.trim(), "" | "ON CONFLICT DO NOTHING") {
        return None;
    }
    let mut many = format!("INSERT OR FAIL INTO {into}VALUES ");
    for n in 0..rows {
        many.push_str(if n == 0 { "(" } else { ", (" });
        let mut parts = row.split('$');
        many.push_str(parts.next()?);
        for part in parts {
            let digits = part.find(|sign: char| !sign.is_ascii_digit()).unwrap_or(part.len());
            let (number, rest) = part.split_at(digits);
            // Writing to a string cannot fail.
            let _infallible = write!(many, "?{}{rest}", number.parse::<usize>().ok()? + n * width);
        }
        many.push(')');
    }
    many.push_str(tail);
    Some(many)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_statement_for_many_rows() {
        let one = "INSERT INTO t (a, b, c)\n VALUES ($1, $2, $1)";
        assert_eq!(
            many(one, 2, 2).unwrap(),
            "INSERT OR FAIL INTO t (a, b, c)\n VALUES (?1, ?2, ?1), (?3, ?4, ?3)"
        );
        let kept = "INSERT INTO t (a) VALUES ($1) ON CONFLICT DO NOTHING";
        assert_eq!(
            many(kept, 1, 2).unwrap(),
            "INSERT OR FAIL INTO t (a) VALUES (?1), (?2) ON CONFLICT DO NOTHING"
        );
        for other in ["INSERT INTO t (a) VALUES ($1) RETURNING a", "UPDATE t SET a = $1"] {
            assert_eq!(many(other, 1, 4), None);
        }
    }

    #[test]
    fn rows_come_out_as_they_went_in_and_in_few_pieces() {
        let mut appends = Appends::default();
        for n in 0..23 {
            let text = n.to_string();
            appends.push(
                "INSERT INTO t (a, b) VALUES ($1, $2)",
                &[n.into(), text.as_str().into()],
                TableSet::default(),
            );
        }
        let [rows] = &appends.take()[..] else { panic!("one statement") };
        let (mut sizes, mut found) = (vec![], vec![]);
        for (size, values) in rows.pieces() {
            sizes.push(size);
            found.extend(values.map(|said| match said.to_sql().unwrap() {
                ToSqlOutput::Borrowed(ValueRef::Integer(n)) => n.to_string(),
                ToSqlOutput::Borrowed(ValueRef::Text(text)) => String::from_utf8(text.to_vec()).unwrap(),
                other => panic!("{other:?}"),
            }));
        }
        assert_eq!(sizes, [16, 4, 2, 1]);
        let expected: Vec<_> = (0..23).flat_map(|n: i64| [n.to_string(), n.to_string()]).collect();
        assert_eq!(found, expected);
        assert!(appends.take().is_empty());
    }
}
