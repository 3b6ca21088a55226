//! Everything of one database as lines of text, and back into another, of whichever kind: the same ids, the same places.
//!
//! A header, then for each table its columns and its rows, then an end, without which a file was cut off. What each database
//! makes for itself (its version, the words that messages are found by) stays behind; the words are indexed anew when the hub
//! runs. Tables and columns are asked of the database, not listed here: what a later migration adds goes along. The names in a
//! file are only ever compared with those, never put into a statement.
//!
//! An import goes in steps, each a transaction that also notes how far it came, so that one that was killed goes on there.

use crate::{Cell, Kind, Param, Row, StoreError, Tx, TxExt, migrate, settings};
use data_encoding::BASE64;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};

/// The form of the file.
const FORM: i64 = 1;
/// Where it is noted how far an import came. As long as it is there, the database is not whole.
pub const IMPORTING: &str = "import";
/// What the hub goes by that indexes messages anew.
const INDEXED_FROM: (&str, &str) = ("search_indexed_from", "ffffffff-ffff-ffff-ffff-ffffffffffff");

/// Why an export or import was not done.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file could not be read or written.
    #[error("the file could not be read or written")]
    File(#[from] io::Error),
    /// It is something else.
    #[error("line {line} is not of an export: {what}")]
    NotAnExport {
        /// Which line, from 1.
        line: u64,
        /// What is wrong with it.
        what: String,
    },
    /// It is of another version of the program.
    #[error("the export has schema version {found}, this program knows {known}: use the chorus that made it")]
    OtherSchema {
        /// In the file.
        found: i64,
        /// In this program.
        known: i64,
    },
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
        /// In the file.
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

/// A table, and its columns in order.
type Tables = BTreeMap<String, Vec<String>>;

/// The tables that go along.
fn tables(tx: &mut dyn Tx) -> Result<Tables, StoreError> {
    let sql = match tx.kind() {
        Kind::Sqlite => {
            "SELECT t.name, c.name FROM sqlite_schema t JOIN pragma_table_info(t.name) c
             WHERE t.type = 'table' AND t.name NOT LIKE 'search%' AND t.name NOT LIKE 'sqlite_%' ORDER BY t.name, c.cid"
        }
        Kind::Postgres => {
            "SELECT table_name::text, column_name::text FROM information_schema.columns
             WHERE table_schema = current_schema() AND table_name NOT LIKE 'search%' AND table_name <> 'schema_version'
             ORDER BY table_name, ordinal_position"
        }
    };
    let mut tables = Tables::new();
    for mut row in tx.query(sql, &[])? {
        let table = row.text(0)?;
        tables.entry(table).or_default().push(row.text(1)?);
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
    row.0.into_iter().map(cell).collect()
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

/// What one step of an import writes.
#[derive(Debug, Clone, Default)]
pub struct Step {
    tables: Vec<Rows>,
    /// The lines up to here are in it, or in a step before.
    through: u64,
    /// Whether it is the last.
    last: bool,
}

/// An export that is read.
pub struct Import<R> {
    lines: io::Lines<R>,
    /// Lines that were read.
    read: u64,
    /// Rows among them.
    rows: u64,
    /// What the export is called.
    id: String,
    known: Tables,
    insert: Option<(&'static str, usize)>,
    done: bool,
}

/// How many rows, and how many bytes of them, one step holds.
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
    /// Reads the header.
    pub fn open(reader: R) -> Result<Self, TransferError> {
        let mut import = Self {
            lines: reader.lines(),
            read: 0,
            rows: 0,
            id: String::new(),
            known: Tables::new(),
            insert: None,
            done: false,
        };
        let header = import.next_line()?.ok_or(TransferError::CutOff)?;
        if header["chorus_export"].as_i64() != Some(FORM) {
            return Err(import.fault("this is no export of a hub, or of another form"));
        }
        let found = header["schema"].as_i64().unwrap_or(0);
        if found != migrate::KNOWN {
            return Err(TransferError::OtherSchema { found, known: migrate::KNOWN });
        }
        header["id"].as_str().unwrap_or_default().clone_into(&mut import.id);
        Ok(import)
    }

    /// What the export is called.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// How many rows were read, those that a database had already included.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Goes past what a database has already, and says how many lines that was. `tables` and `through` are from [`prepare`].
    pub fn begin(
        &mut self,
        (tables, through): (BTreeMap<String, Vec<String>>, u64),
    ) -> Result<u64, TransferError> {
        self.known = tables;
        while self.read < through {
            let line = self.next_line()?.ok_or(TransferError::CutOff)?;
            if line.is_object() {
                self.turn_to(&line)?;
            } else {
                self.rows += 1;
            }
        }
        Ok(through)
    }

    /// The next step; nothing after the last.
    pub fn next_step(&mut self) -> Result<Option<Step>, TransferError> {
        if self.done {
            return Ok(None);
        }
        let (mut step, mut rows, mut bytes) = (Step::default(), 0, 0);
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

    /// Whether everything came that was written.
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
        let Some(((table, known), columns)) = known.filter(|((_, known), columns)| same(known, columns))
        else {
            return Err(self.fault("a table that this program does not know"));
        };
        let places: Vec<_> = (1..=known.len()).map(|n| format!("${n}")).collect();
        // The columns are those of the database by now, in the order of the file.
        let (columns, places) = (columns.join(", "), places.join(", "));
        // What a new database was made with is replaced.
        let replace =
            if table == "settings" { " ON CONFLICT (name) DO UPDATE SET value = excluded.value" } else { "" };
        let sql = format!("INSERT INTO {table} ({columns}) VALUES ({places}){replace}");
        self.insert = Some((statement(sql), known.len()));
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

/// Whether these are all of them, in whichever order.
fn same(known: &[String], columns: &[&str]) -> bool {
    let mut known: Vec<_> = known.iter().map(String::as_str).collect();
    let mut columns = columns.to_vec();
    known.sort_unstable();
    columns.sort_unstable();
    known == columns
}

fn size(cell: &Cell) -> usize {
    match cell {
        Cell::Null | Cell::Int(_) => 8,
        Cell::Text(text) => text.len(),
        Cell::Bytes(bytes) => bytes.len(),
    }
}

/// Makes a database ready for the import of this name: which tables it has, and the lines of it that it has already.
pub fn prepare(tx: &mut dyn Tx, id: &str) -> Result<(BTreeMap<String, Vec<String>>, u64), TransferError> {
    let through = begun(tx, id)?;
    Ok((tables(tx)?, through))
}

/// Writes one step of the import of this name. After the last the database is whole.
pub fn write(tx: &mut dyn Tx, id: &str, step: &Step) -> Result<(), TransferError> {
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
