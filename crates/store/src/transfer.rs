//! Exports a whole database as lines of text, and imports it into another one of either kind, with the same
//! ids and sequence numbers.
//!
//! The file has a header, then for each table its columns and its rows, then an end line, which a truncated
//! file lacks. The schema version and the search index of messages are not exported; the index is built anew
//! when the hub runs. Tables and columns are read from the database, so that later migrations need no change
//! here. Names in a file are only compared with those, never put into a statement.
//!
//! An import works in steps. Each step is a transaction that also records the progress, so that an interrupted
//! import continues there.

mod unsorted_streams;

use crate::{Cell, Kind, Param, Row, StoreError, Tx, TxExt, migrate, settings};
use data_encoding::BASE64;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, Write};

/// The form of the file.
const FORM: i64 = 1;
/// The setting that records the progress of an import. While it exists, the database is incomplete.
pub const IMPORTING: &str = "import";
/// The setting that makes the hub index all messages, and its first value.
const INDEXED_FROM: (&str, &str) = ("search_indexed_from", "ffffffff-ffff-ffff-ffff-ffffffffffff");

/// An error of an export or import.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file could not be read or written.
    #[error("the file could not be read or written")]
    File(#[from] io::Error),
    /// It is something else.
    #[error("line {line} is not of an export: {what}")]
    NotAnExport {
        /// The line number, from 1.
        line: u64,
        what: String,
    },
    /// It is of another version of the program.
    #[error("the export has schema version {found}, this program knows {known}: use the chorus that made it")]
    OtherSchema { found: i64, known: i64 },
    /// Somebody lives here already.
    #[error("the database holds something already; an import needs an empty one")]
    NotEmpty,
    /// Another import was begun here.
    #[error(
        "the import of another file was begun here; go on with that one, or begin with an empty database"
    )]
    OtherImport,
    /// The file ends too soon.
    #[error("the file was cut off: it has no end")]
    CutOff,
    /// Lines were taken out of the file, or put into it.
    #[error(
        "the file holds {found} rows, and {expected} were exported: it was changed, so export again, and begin with an \
         empty database"
    )]
    OtherRows {
        found: u64,
        /// As its end says.
        expected: u64,
    },
    /// An export of a part would pass for one of the whole.
    #[error(
        "an import into this database was begun and is not finished: run the same `chorus import` again first"
    )]
    Unfinished,
}

/// The columns of each table, in order.
pub type Tables = BTreeMap<String, Vec<String>>;

/// The tables that go along.
fn tables(tx: &mut dyn Tx) -> Result<Tables, StoreError> {
    let sql = match tx.kind() {
        Kind::Sqlite => {
            "SELECT t.name AS table_name, c.name AS column_name FROM sqlite_schema t JOIN pragma_table_info(t.name) c
             WHERE t.type = 'table' AND t.name NOT LIKE 'search%' AND t.name NOT LIKE 'sqlite_%' ORDER BY t.name, c.cid"
        }
        Kind::Postgres => {
            "SELECT table_name::text AS table_name, column_name::text AS column_name FROM information_schema.columns
             WHERE table_schema = current_schema() AND table_name NOT LIKE 'search%' AND table_name <> 'schema_version'
             ORDER BY table_name, ordinal_position"
        }
    };
    let mut tables = Tables::new();
    for mut row in tx.query(sql, &[])? {
        let table = row.text("table_name")?;
        tables.entry(table).or_default().push(row.text("column_name")?);
    }
    Ok(tables)
}

/// A statement that is made here. There are a few for each table, and the program that makes them ends soon.
fn statement(sql: String) -> &'static str {
    Box::leak(sql.into_boxed_str())
}

/// Writes everything, as it stands at one moment, and says how many rows. `id` names this export; `tell` is told of progress.
pub fn export(
    tx: &mut dyn Tx,
    id: &str,
    out: &mut dyn Write,
    tell: &dyn Fn(&str, u64),
) -> Result<u64, TransferError> {
    if settings::get(tx, IMPORTING)?.is_some() {
        return Err(TransferError::Unfinished);
    }
    writeln!(out, "{}", json!({"chorus_export": FORM, "schema": migrate::KNOWN, "id": id}))?;
    let mut rows = 0;
    for (table, columns) in tables(tx)? {
        writeln!(out, "{}", json!({"table": table, "columns": columns}))?;
        let (mut written, mut failed) = (0, None);
        let sql = statement(format!("SELECT {} FROM {table}", columns.join(", ")));
        tx.each(sql, &[], &mut |row| {
            failed = writeln!(out, "{}", line(row)).err();
            written += 1;
            if written % 10_000 == 0 {
                tell(&table, written);
            }
            Ok(failed.is_none())
        })?;
        if let Some(error) = failed {
            return Err(error.into());
        }
        tell(&table, written);
        rows += written;
    }
    writeln!(out, "{}", json!({"end": rows}))?;
    out.flush()?;
    Ok(rows)
}

fn line(row: Row) -> Value {
    let cell = |cell| match cell {
        Cell::Null => Value::Null,
        Cell::Int(number) => number.into(),
        Cell::Text(text) => text.into(),
        Cell::Bytes(bytes) => json!({"b": BASE64.encode(&bytes)}),
    };
    row.into_cells().into_iter().map(cell).collect()
}

fn cell(value: &Value) -> Option<Cell> {
    Some(match value {
        Value::Null => Cell::Null,
        Value::Number(number) => Cell::Int(number.as_i64()?),
        Value::String(text) => Cell::Text(text.clone()),
        Value::Object(bytes) => Cell::Bytes(BASE64.decode(bytes.get("b")?.as_str()?.as_bytes()).ok()?),
        Value::Bool(_) | Value::Array(_) => return None,
    })
}

/// Some rows of one table, read from a file.
#[derive(Debug, Clone)]
struct Rows {
    insert: &'static str,
    rows: Vec<Vec<Cell>>,
}

/// The rows that one step of an import writes.
#[derive(Debug, Clone, Default)]
pub struct ImportStep {
    tables: Vec<Rows>,
    /// The lines up to here are in it, or in a step before.
    through: u64,
    last: bool,
}

/// An export that is read.
pub struct Import<R> {
    lines: io::Lines<R>,
    /// Lines that were read.
    read: u64,
    rows: u64,
    /// The id of the export.
    id: String,
    known: Tables,
    insert: Option<(&'static str, usize)>,
    /// The export is of an earlier version, whose tables may lack columns that have a default.
    is_older: bool,
    done: bool,
}

/// The maximum rows and bytes of one step.
const STEP_ROWS: usize = 500;
const STEP_BYTES: usize = 4 * 1024 * 1024;

/// Looks whether a database can take an import, and what it has of it: the lines up to there.
fn begun(tx: &mut dyn Tx, id: &str) -> Result<u64, TransferError> {
    if let Some(noted) = settings::get(tx, IMPORTING)? {
        let (known, through) = noted.split_once(' ').unwrap_or_default();
        return if known == id { Ok(through.parse().unwrap_or(0)) } else { Err(TransferError::OtherImport) };
    }
    for sql in
        ["SELECT 1 FROM agents LIMIT 1", "SELECT 1 FROM accounts LIMIT 1", "SELECT 1 FROM events LIMIT 1"]
    {
        if tx.first(sql, &[])?.is_some() {
            return Err(TransferError::NotEmpty);
        }
    }
    settings::set(tx, IMPORTING, &format!("{id} 0"))?;
    Ok(0)
}

impl<R: BufRead> Import<R> {
    pub fn open(reader: R) -> Result<Self, TransferError> {
        let mut import = Self {
            lines: reader.lines(),
            read: 0,
            rows: 0,
            id: String::new(),
            known: Tables::new(),
            insert: None,
            is_older: false,
            done: false,
        };
        let header = import.next_line()?.ok_or(TransferError::CutOff)?;
        if header["chorus_export"].as_i64() != Some(FORM) {
            return Err(import.fault("this is no export of a hub, or of another form"));
        }
        let found = migrate::exported_version(header["schema"].as_i64().unwrap_or(0));
        if !(migrate::FIRST..=migrate::KNOWN).contains(&found) {
            return Err(TransferError::OtherSchema { found, known: migrate::KNOWN });
        }
        import.is_older = found < migrate::KNOWN;
        header["id"].as_str().unwrap_or_default().clone_into(&mut import.id);
        Ok(import)
    }

    /// Returns the id of the export.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the number of rows read, including those that the database already had.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Skips the lines that a database has already. `tables` and `through` are from [`prepare`].
    pub fn begin(&mut self, tables: Tables, through: u64) -> Result<(), TransferError> {
        self.known = tables;
        while self.read < through {
            let line = self.next_line()?.ok_or(TransferError::CutOff)?;
            if line.is_object() {
                self.turn_to(&line)?;
            } else {
                self.rows += 1;
            }
        }
        Ok(())
    }

    /// The next step; nothing after the last.
    pub fn next_step(&mut self) -> Result<Option<ImportStep>, TransferError> {
        if self.done {
            return Ok(None);
        }
        let (mut step, mut rows, mut bytes) = (ImportStep::default(), 0, 0);
        while rows < STEP_ROWS && bytes < STEP_BYTES {
            let Some(line) = self.next_line()? else { return Err(TransferError::CutOff) };
            if let Some(end) = line.get("end") {
                self.check_rows(end)?;
                (self.done, step.last) = (true, true);
                break;
            }
            if line.is_object() {
                self.turn_to(&line)?;
                continue;
            }
            let Some((insert, columns)) = self.insert else {
                return Err(self.fault("a row without a table"));
            };
            let cells: Option<Vec<_>> = line.as_array().and_then(|row| row.iter().map(cell).collect());
            let cells = cells.filter(|cells| cells.len() == columns);
            let cells = cells.ok_or_else(|| self.fault("a row that its table cannot hold"))?;
            bytes += cells.iter().map(size).sum::<usize>();
            rows += 1;
            self.rows += 1;
            if step.tables.last().is_none_or(|last| !std::ptr::eq(last.insert, insert)) {
                step.tables.push(Rows { insert, rows: vec![] });
            }
            if let Some(last) = step.tables.last_mut() {
                last.rows.push(cells);
            }
        }
        step.through = self.read;
        Ok(Some(step))
    }

    /// Checks the number of rows against the end line.
    fn check_rows(&self, end: &Value) -> Result<(), TransferError> {
        let expected = end.as_u64().ok_or_else(|| self.fault("an end that does not say how many rows"))?;
        let found = self.rows;
        if found == expected { Ok(()) } else { Err(TransferError::OtherRows { found, expected }) }
    }

    /// From here on come rows of another table.
    fn turn_to(&mut self, line: &Value) -> Result<(), TransferError> {
        let table = line["table"].as_str().unwrap_or_default();
        let columns: Option<Vec<&str>> =
            line["columns"].as_array().and_then(|columns| columns.iter().map(Value::as_str).collect());
        let known = self.known.get_key_value(table).zip(columns);
        let Some(((table, _), columns)) =
            known.filter(|((_, known), columns)| fits(known, columns, self.is_older))
        else {
            return Err(self.fault("a table that this program does not know"));
        };
        let places: Vec<_> = (1..=columns.len()).map(|n| format!("${n}")).collect();
        let count = columns.len();
        // Each column is one of the database's, in the order of the file.
        let (columns, places) = (columns.join(", "), places.join(", "));
        // Values that a new database was made with are replaced.
        let replace =
            if table == "settings" { " ON CONFLICT (name) DO UPDATE SET value = excluded.value" } else { "" };
        let sql = if table == "streams" && !columns.contains("kind") {
            unsorted_streams::INSERT
        } else {
            statement(format!("INSERT INTO {table} ({columns}) VALUES ({places}){replace}"))
        };
        self.insert = Some((sql, count));
        Ok(())
    }

    fn next_line(&mut self) -> Result<Option<Value>, TransferError> {
        let Some(line) = self.lines.next().transpose()? else { return Ok(None) };
        self.read += 1;
        serde_json::from_str(&line).map(Some).map_err(|error| self.fault(error))
    }

    fn fault(&self, what: impl ToString) -> TransferError {
        TransferError::NotAnExport { line: self.read, what: what.to_string() }
    }
}

/// Returns whether each column is one of the known ones, and is named once. Only an older export may lack some.
fn fits(known: &[String], columns: &[&str], is_older: bool) -> bool {
    let named: BTreeSet<_> = columns.iter().collect();
    named.len() == columns.len()
        && (is_older || columns.len() == known.len())
        && columns.iter().all(|column| known.iter().any(|known| known == column))
}

fn size(cell: &Cell) -> usize {
    match cell {
        Cell::Null | Cell::Int(_) => 8,
        Cell::Text(text) => text.len(),
        Cell::Bytes(bytes) => bytes.len(),
    }
}

/// Makes a database ready for the import of this name: which tables it has, and the lines of it that it has already.
pub fn prepare(tx: &mut dyn Tx, id: &str) -> Result<(Tables, u64), TransferError> {
    let through = begun(tx, id)?;
    Ok((tables(tx)?, through))
}

/// Writes one step of the import of this name. After the last the database is whole.
pub fn write(tx: &mut dyn Tx, id: &str, step: &ImportStep) -> Result<(), TransferError> {
    for Rows { insert, rows } in &step.tables {
        for row in rows {
            let params: Vec<Param<'_>> = row.iter().map(Into::into).collect();
            tx.append(insert, &params)?;
        }
    }
    if !step.last {
        return Ok(settings::set(tx, IMPORTING, &format!("{id} {}", step.through))?);
    }
    if tx.first("SELECT 1 FROM events LIMIT 1", &[])?.is_some() {
        settings::set(tx, INDEXED_FROM.0, INDEXED_FROM.1)?;
    }
    unsorted_streams::sort(tx)?;
    know_the_tables(tx)?;
    Ok(settings::set_or_remove(tx, IMPORTING, None)?)
}

/// PostgreSQL plans by what it knows of its tables, which is nothing until somebody looks, and it looks by itself only some
/// minutes later: the hub that starts at once would be slow as long. SQLite plans all hubs alike, by the schema.
fn know_the_tables(tx: &mut dyn Tx) -> Result<(), StoreError> {
    if tx.kind() == Kind::Postgres {
        for table in tables(tx)?.into_keys() {
            tx.execute(statement(format!("ANALYZE {table}")), &[])?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exports_of_the_last_builds_before_the_first_release_are_read() {
        let open = |schema: i64| {
            let header = json!({"chorus_export": FORM, "schema": schema, "id": "x"}).to_string();
            Import::open(io::Cursor::new(header)).map(|import| import.id().to_owned())
        };
        assert_eq!(open(45).unwrap(), "x");
        assert_eq!(open(50).unwrap(), "x");
        assert_eq!(open(migrate::KNOWN).unwrap(), "x");
        assert_eq!(open(migrate::FIRST).unwrap(), "x");
        for other in [49, migrate::KNOWN + 1] {
            assert!(matches!(open(other), Err(TransferError::OtherSchema { found, .. }) if found == other));
        }
    }

    #[test]
    fn only_an_older_export_may_lack_columns() {
        let known = ["a", "b"].map(str::to_owned);
        for (columns, now, older) in [
            (&["b", "a"][..], true, true),
            (&["a"][..], false, true),
            (&["a", "c"][..], false, false),
            (&["a", "a"][..], false, false),
        ] {
            assert_eq!(
                [fits(&known, columns, false), fits(&known, columns, true)],
                [now, older],
                "{columns:?}"
            );
        }
    }
}
