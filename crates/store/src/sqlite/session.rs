//! One connection to the file: how it is set up, its prepared statements, and the transaction that closures see.

use super::appends::{self, Appends};
use super::heads::Heads;
use super::options::SqliteOptions;
use super::remembered::Remembered;
use super::tables::{Listener, Touched};
use crate::streams::StreamKey;
use crate::tx::{Cell, ColumnNames, Param, Row, Tx, TxExt};
use crate::work::Work;
use crate::{Kind, StoreError};
use rusqlite::config::DbConfig;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags, ToSql};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A connection with its statements rewritten once.
pub(super) struct Session {
    pub(super) connection: Connection,
    statements: Vec<Statement>,
    /// Positions in `statements`, by the address and length of the SQL text, which is faster than its content,
    /// and by the number of rows.
    places: HashMap<(usize, usize, usize), usize>,
    listener: Listener,
    /// Rows that are to be inserted.
    appends: Appends,
    /// True if inserting some of them failed. Statements that ran meanwhile are not to blame.
    pub(super) spoiled: bool,
    remembered: Remembered,
    /// True if writes are refused. (SQLite's own `query_only` would prepare every statement again.)
    pub(super) only_reads: bool,
    /// The time limit of the current work, in milliseconds since `opened`.
    end: Arc<AtomicU64>,
    opened: Instant,
}

/// A statement as SQLite is told it.
struct Statement {
    text: String,
    columns: ColumnNames,
    /// Nothing, of a connection that only reads.
    touched: Touched,
}

/// After so many steps of a statement it is looked whether its time is over: a fraction of a millisecond.
const STEPS: i32 = 10_000;
/// Pages the writer keeps: what it goes through again and again, which is more than the 2 MiB it would be given. Not more than
/// the processor keeps at hand: pages that are only appended to would go through all of it, and be fetched from far away.
const WRITER_CACHE_KIB: i64 = 8 * 1024;
/// Pages a reader keeps. Few, because each commit makes it forget them.
const READER_CACHE_KIB: i64 = 4 * 1024;

impl Session {
    pub(super) fn open(options: &SqliteOptions, read_only: bool) -> Result<Self, StoreError> {
        let what =
            options.path.as_ref().map_or_else(|| "in memory".to_owned(), |path| path.display().to_string());
        let open = || -> rusqlite::Result<Connection> {
            let connection = match &options.path {
                Some(path) if read_only => Connection::open_with_flags(
                    path,
                    OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
                )?,
                Some(path) => Connection::open(path)?,
                None => Connection::open_in_memory()?,
            };
            connection.busy_timeout(options.busy_timeout)?;
            connection.set_prepared_statement_cache_capacity(256);
            if !read_only {
                connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
            }
            // The log is flushed before it is carried over or begun anew. Each commit is too, but not by SQLite: see `flushing`.
            connection.pragma_update(None, "synchronous", "NORMAL")?;
            connection.pragma_update(None, "foreign_keys", true)?;
            // Checkpoints are the checkpointer's work, so that no commit has to wait for one.
            connection.pragma_update(None, "wal_autocheckpoint", 0)?;
            connection.pragma_update(None, "temp_store", "MEMORY")?;
            // Negative: in KiB. Only what is used is taken.
            let cache = if read_only { READER_CACHE_KIB } else { WRITER_CACHE_KIB };
            connection.pragma_update(None, "cache_size", -cache)?;
            // Plans do not depend on the values bound, or SQLite would prepare a statement anew for each of them.
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
            Ok(connection)
        };
        let mut connection = open().map_err(|error| match classify(error) {
            locked @ StoreError::Locked(_) => locked,
            source => StoreError::Open { what, source: source.into() },
        })?;
        let listener = Listener::default();
        if !read_only {
            listener.listen(&mut connection).map_err(classify)?;
        }
        let end = Arc::new(AtomicU64::new(u64::MAX));
        #[expect(
            clippy::disallowed_methods,
            reason = "how long the database itself works is the machine's time"
        )]
        let opened = Instant::now();
        Ok(Self {
            connection,
            statements: vec![],
            places: HashMap::new(),
            listener,
            appends: Appends::default(),
            spoiled: false,
            remembered: Remembered::default(),
            only_reads: false,
            end,
            opened,
        })
    }

    /// From now on statements are interrupted when the time of their work is over.
    pub(super) fn interrupt_when_over(&mut self) -> Result<(), StoreError> {
        let (end, opened) = (Arc::clone(&self.end), self.opened);
        self.connection.progress_handler(STEPS, Some(move || is_over(&end, opened))).map_err(classify)
    }

    /// The work that begins now may take so long.
    fn ends_in(&self, time: Duration) {
        let end = self.opened.elapsed().saturating_add(time).as_millis();
        self.end.store(u64::try_from(end).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(super) fn batch(&mut self, sql: &'static str) -> Result<(), StoreError> {
        if sql.contains(';') {
            return self.connection.execute_batch(sql).map_err(classify);
        }
        self.connection
            .prepare_cached(sql)
            .and_then(|mut statement| statement.execute([]))
            .map_err(classify)?;
        Ok(())
    }

    /// Rolls back. Returns whether the connection is outside of any transaction now.
    pub(super) fn roll_back(&mut self) -> bool {
        self.connection.is_autocommit() || self.connection.execute_batch("ROLLBACK").is_ok()
    }

    /// Runs a closure that only reads and may take so long. It is one transaction: all its statements see the same snapshot.
    pub(super) fn read(&mut self, work: &mut dyn Work, time: Duration) -> Result<(), StoreError> {
        self.ends_in(time);
        let outcome = self.batch("BEGIN").and_then(|()| {
            let mut heads = Heads::default();
            let mut tx = SqliteTx::new(self, &mut heads);
            work.run(&mut tx);
            let fatal = tx.fatal.take();
            // To end it takes no time, and must not be stopped.
            self.ends_in(Duration::MAX);
            let end = self.batch("COMMIT");
            fatal.map_or(end, Err)
        });
        if outcome.is_err() {
            self.roll_back();
        }
        outcome
    }

    /// The statement, ready to be run: what it has to do with is written, and what it changes is not remembered any more.
    fn prepare(
        &mut self,
        sql: &'static str,
    ) -> Result<(rusqlite::CachedStatement<'_>, &ColumnNames), StoreError> {
        let place = self.find(sql)?;
        let touched = self.statements[place].touched;
        if self.appends.concern(touched.any) {
            self.write_appends()?;
        }
        self.remembered.change(touched.written);
        let statement = self.prepared(place)?;
        if self.only_reads && !statement.readonly() {
            return Err(StoreError::unexpected(format!("a read would write: {sql}")));
        }
        Ok((statement, &self.statements[place].columns))
    }

    /// The place of a statement among all that were ever run.
    fn find(&mut self, sql: &'static str) -> Result<usize, StoreError> {
        // SQLite takes `$1` for a name and numbers names by appearance; `?1` is the number itself.
        self.find_for(sql, 1, || Some(sql.replace('$', "?")))
    }

    /// The place of the form of a statement that is for so many rows.
    fn find_for(
        &mut self,
        sql: &'static str,
        rows: usize,
        rewrite: impl FnOnce() -> Option<String>,
    ) -> Result<usize, StoreError> {
        let key = (sql.as_ptr().addr(), sql.len(), rows);
        if let Some(place) = self.places.get(&key) {
            return Ok(*place);
        }
        let text = rewrite().ok_or_else(|| StoreError::unexpected(format!("no plain INSERT: {sql}")))?;
        self.listener.take();
        let columns =
            ColumnNames::new(self.connection.prepare_cached(&text).map_err(classify)?.column_names());
        let place = self.statements.len();
        self.statements.push(Statement { text, columns, touched: self.listener.take() });
        self.places.insert(key, place);
        Ok(place)
    }

    fn prepared(&self, place: usize) -> Result<rusqlite::CachedStatement<'_>, StoreError> {
        self.connection.prepare_cached(&self.statements[place].text).map_err(classify)
    }

    pub(super) fn run(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<u64, StoreError> {
        let (mut statement, _) = self.prepare(sql)?;
        bind(&mut statement, params)?;
        statement.raw_execute().map(|count| count as u64).map_err(classify)
    }

    /// Keeps a row that is to be inserted, until somebody asks for it.
    fn append(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<(), StoreError> {
        let place = self.find(sql)?;
        let tables = self.statements[place].touched.written;
        self.remembered.change(tables);
        self.appends.push(sql, params, tables);
        if self.appends.is_full() { self.write_appends() } else { Ok(()) }
    }

    /// Inserts the rows that are kept.
    pub(super) fn write_appends(&mut self) -> Result<(), StoreError> {
        let written = self.appends.take().iter().try_for_each(|rows| {
            rows.pieces().try_for_each(|(count, values)| {
                let rewrite = || appends::many(rows.sql, rows.width, count);
                let place = self.find_for(rows.sql, count, rewrite)?;
                let mut statement = self.prepared(place)?;
                for (n, value) in values.enumerate() {
                    statement.raw_bind_parameter(n + 1, value).map_err(classify)?;
                }
                statement.raw_execute().map(drop).map_err(classify)
            })
        });
        self.spoiled |= written.is_err();
        written
    }

    /// All that was not committed is gone.
    pub(super) fn forget(&mut self) {
        self.appends.take();
        self.remembered.forget();
        self.spoiled = false;
    }
}

fn is_over(end: &AtomicU64, opened: Instant) -> bool {
    let end = end.load(Ordering::Relaxed);
    end != u64::MAX && opened.elapsed().as_millis() > u128::from(end)
}

fn bind(statement: &mut rusqlite::Statement<'_>, params: &[Param<'_>]) -> Result<(), StoreError> {
    for (n, param) in params.iter().enumerate() {
        statement.raw_bind_parameter(n + 1, param).map_err(classify)?;
    }
    Ok(())
}

impl ToSql for Param<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Int(value) => ValueRef::Integer(*value),
            Self::Text(value) => ValueRef::Text(value.as_bytes()),
            Self::Bytes(value) => ValueRef::Blob(value),
        }))
    }
}

pub(super) struct SqliteTx<'a> {
    session: &'a mut Session,
    heads: &'a mut Heads,
    pub(super) actions: Vec<Box<dyn FnOnce() + Send>>,
    /// An error that cost the whole transaction, whatever the closure made of it.
    pub(super) fatal: Option<StoreError>,
    /// True if there are changes to roll back.
    pub(super) wrote: bool,
    /// True if the whole batch is rolled back together. Then rows may be buffered and query results cached.
    is_whole: bool,
}

impl<'a> SqliteTx<'a> {
    pub(super) fn new(session: &'a mut Session, heads: &'a mut Heads) -> Self {
        Self { session, heads, actions: vec![], fatal: None, wrote: false, is_whole: false }
    }

    /// One that is kept or taken back together with all others of its batch.
    pub(super) fn of_whole(session: &'a mut Session, heads: &'a mut Heads) -> Self {
        Self { is_whole: true, ..Self::new(session, heads) }
    }

    fn note<T>(&mut self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        if let Err(error) = &result
            && error.is_fatal()
        {
            self.fatal = Some(error.for_the_batch());
        }
        result
    }
}

impl Tx for SqliteTx<'_> {
    fn execute(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<u64, StoreError> {
        self.wrote = true;
        let result = self.session.run(sql, params);
        self.note(result)
    }

    fn append(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<(), StoreError> {
        if !self.is_whole {
            return self.execute(sql, params).map(drop);
        }
        self.wrote = true;
        let result = self.session.append(sql, params);
        self.note(result)
    }

    fn first_cached(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<Option<Row>, StoreError> {
        if !self.is_whole {
            return self.first(sql, params);
        }
        if let Some(known) = self.session.remembered.find(sql, params) {
            return Ok(Some(known));
        }
        let Some(row) = self.first(sql, params)? else { return Ok(None) };
        let place = self.session.find(sql)?;
        let tables = self.session.statements[place].touched.any;
        self.session.remembered.keep(tables, row.clone());
        Ok(Some(row))
    }

    fn each(
        &mut self,
        sql: &'static str,
        params: &[Param<'_>],
        take: &mut dyn FnMut(Row) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        let mut each = || -> Result<(), StoreError> {
            // Many short statements are a long read too.
            if is_over(&self.session.end, self.session.opened) {
                return Err(StoreError::TooLong);
            }
            let (mut statement, columns) = self.session.prepare(sql)?;
            self.wrote |= !statement.readonly();
            bind(&mut statement, params)?;
            let count = statement.column_count();
            let mut rows = statement.raw_query();
            while let Some(row) = rows.next().map_err(classify)? {
                let cells = (0..count).map(|n| row.get_ref(n).map_err(classify).and_then(cell));
                if !take(Row::new(columns.clone(), cells.collect::<Result<_, _>>()?))? {
                    break;
                }
            }
            Ok(())
        };
        let result = each();
        self.note(result)
    }

    fn next_seq(&mut self, stream: StreamKey) -> Result<i64, StoreError> {
        let next = self.head(stream)? + 1;
        self.heads.set(stream, next);
        Ok(next)
    }

    fn head(&mut self, stream: StreamKey) -> Result<i64, StoreError> {
        if let Some(head) = self.heads.known.get(&stream) {
            return Ok(*head);
        }
        let row = self.first("SELECT head FROM streams WHERE kind = $1 AND id = $2", &stream.params())?;
        row.map_or(Ok(0), |mut row| row.int("head"))
    }

    fn set_head(&mut self, stream: StreamKey, head: i64) -> Result<(), StoreError> {
        self.heads.set(stream, head);
        Ok(())
    }

    fn lock(&mut self, _: StreamKey) -> Result<(), StoreError> {
        Ok(())
    }

    fn kind(&self) -> Kind {
        Kind::Sqlite
    }

    fn after_commit(&mut self, action: Box<dyn FnOnce() + Send>) {
        self.actions.push(action);
    }
}

fn cell(value: ValueRef<'_>) -> Result<Cell, StoreError> {
    Ok(match value {
        ValueRef::Null => Cell::Null,
        ValueRef::Integer(value) => Cell::Int(value),
        ValueRef::Text(value) => {
            Cell::Text(String::from_utf8(value.to_vec()).map_err(StoreError::unexpected)?)
        }
        ValueRef::Blob(value) => Cell::Bytes(value.to_vec()),
        ValueRef::Real(value) => return Err(StoreError::unexpected(format!("a real number: {value}"))),
    })
}

pub(crate) fn classify(error: rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full(error.into()),
        Some(ErrorCode::OperationInterrupted) => StoreError::TooLong,
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Locked(error.into()),
        Some(
            ErrorCode::SystemIoFailure
            | ErrorCode::CannotOpen
            | ErrorCode::ReadOnly
            | ErrorCode::OutOfMemory
            | ErrorCode::DatabaseCorrupt
            | ErrorCode::NotADatabase
            | ErrorCode::FileLockingProtocolFailed,
        ) => StoreError::Unavailable(error.into()),
        _ => StoreError::Unexpected(error.into()),
    }
}
