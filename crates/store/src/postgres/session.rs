//! One connection with its prepared statements, and the transaction that runs a closure's statements one by
//! one.
//!
//! Statements whose result is not needed at once are deferred: a BEGIN is sent with the first statement if
//! that only reads, and appended rows are sent with the next statement or with the COMMIT, in one round trip.
//! The server executes them in order. After an error in a transaction it refuses the rest and rolls back, even
//! at a COMMIT; the first error is the one returned.

use super::many;
use super::target::Target;
use crate::streams::StreamKey;
use crate::tx::{Cell, ColumnNames, Param, Row, Tx, TxExt};
use crate::{Kind, StoreError};
use futures_util::StreamExt as _;
use futures_util::future::try_join_all;
use postgres::Statement;
use postgres::error::SqlState;
use postgres::types::private::BytesMut;
use postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::Client;

/// The most appends that are put off; few, so that all of them are polled at once and in order.
const MAX_PUT_OFF: usize = 16;

pub(super) struct Session {
    client: Client,
    /// The connection is a task in it, which goes on while somebody waits for an answer.
    runtime: Runtime,
    prepared: HashMap<&'static str, Prepared>,
    /// The forms that do many at once, by the statement that does one.
    many: HashMap<&'static str, Prepared>,
    begin: Begin,
    put_off: Vec<(Statement, Vec<Column>)>,
}

/// A prepared statement and the names of its columns.
#[derive(Clone)]
pub(super) struct Prepared {
    pub(super) statement: Statement,
    pub(super) columns: ColumnNames,
}

impl Prepared {
    fn new(statement: Statement) -> Self {
        let columns = ColumnNames::new(statement.columns().iter().map(postgres::Column::name));
        Self { statement, columns }
    }

    /// Returns a row of its answer.
    pub(super) fn row(&self, row: &postgres::Row) -> Result<Row, StoreError> {
        let cells = (0..row.len()).map(|column| cell(row, column)).collect::<Result<_, _>>()?;
        Ok(Row::new(self.columns.clone(), cells))
    }
}

/// The progress of beginning a transaction.
#[derive(Clone, Copy)]
enum Begin {
    /// It is sent with the first statement.
    PutOff(&'static str),
    Sent,
    Done,
}

/// The value of a parameter, or of a whole column of them.
pub(super) enum Column {
    One(Cell),
    Many(Vec<Cell>),
}

impl Column {
    fn as_param(&self) -> &(dyn ToSql + Sync) {
        match self {
            Self::One(cell) => cell,
            Self::Many(cells) => cells,
        }
    }
}

/// Actions and wake-ups that follow a commit.
#[derive(Default)]
pub(super) struct After {
    pub(super) actions: Vec<Box<dyn FnOnce() + Send>>,
    /// The streams that moved, and where they end now.
    pub(super) moved: BTreeMap<StreamKey, i64>,
}

pub(super) struct PostgresTx<'a> {
    session: &'a mut Session,
    pub(super) after: After,
    /// An error that cost the whole transaction, whatever the closure made of it.
    pub(super) broken: Option<StoreError>,
    /// True if a statement failed. The server has aborted the transaction and accepts only its end.
    pub(super) failed: bool,
    /// True if there may be changes to roll back.
    pub(super) wrote: bool,
    /// The time limit of the work.
    end: Option<Instant>,
}

impl<'a> PostgresTx<'a> {
    pub(super) fn new(session: &'a mut Session, end: Option<Instant>) -> Self {
        Self { session, after: After::default(), broken: None, failed: false, wrote: false, end }
    }

    fn note<T>(
        &mut self,
        work: impl FnOnce(&mut Session) -> Result<T, postgres::Error>,
    ) -> Result<T, StoreError> {
        work(self.session).map_err(|error| {
            let error = classify(error);
            self.failed = true;
            if error.is_fatal() || matches!(error, StoreError::Conflict(_)) {
                self.broken = Some(match &error {
                    StoreError::Conflict(cause) => StoreError::Conflict(cause.to_string().into()),
                    other => other.for_the_batch(),
                });
            }
            error
        })
    }
}

impl Session {
    /// Connects; statements may take so long. `crowds` are few statements, each by an index, for many values at once: to plan
    /// them again for each batch would cost more than to execute them.
    pub(super) fn open(
        target: &Target,
        statement_time: Option<Duration>,
        crowds: bool,
    ) -> Result<Self, StoreError> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(StoreError::unexpected)?;
        let client = target.connect_in(&runtime).map_err(classify)?;
        if crowds {
            let one_plan = "SET plan_cache_mode = force_generic_plan";
            runtime.block_on(client.batch_execute(one_plan)).map_err(classify)?;
        }
        if let Some(time) = statement_time {
            let limit = format!("SET statement_timeout = {}", time.as_millis());
            runtime.block_on(client.batch_execute(&limit)).map_err(classify)?;
        }
        let (prepared, many) = (HashMap::new(), HashMap::new());
        Ok(Self { client, runtime, prepared, many, begin: Begin::Done, put_off: vec![] })
    }

    /// Returns whether the connection is closed.
    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Begins a transaction with the first statement that follows.
    pub(super) fn begin(&mut self, begin: &'static str) {
        self.begin = Begin::PutOff(begin);
        self.put_off.clear();
    }

    /// Returns whether the server has executed the BEGIN.
    pub(super) fn has_begun(&self) -> bool {
        matches!(self.begin, Begin::Done)
    }

    /// Waits until the transaction has begun. Required before a write: if only the BEGIN failed, a statement
    /// sent with it would be committed by itself.
    pub(super) fn make_begun(&mut self) -> Result<(), postgres::Error> {
        if let Begin::PutOff(sql) = self.begin {
            self.runtime.block_on(self.client.batch_execute(sql))?;
            self.begin = Begin::Done;
        }
        Ok(())
    }

    /// Sends what was put off, and then does this, without waiting in between.
    fn after_put_off<T>(
        &mut self,
        work: impl AsyncFnOnce(&Client) -> Result<T, postgres::Error>,
    ) -> Result<T, postgres::Error> {
        if !self.put_off.is_empty() {
            self.make_begun()?;
        }
        let (client, put_off) = (&self.client, std::mem::take(&mut self.put_off));
        let begin = std::cell::Cell::new(self.begin);
        let begun = async {
            if let Begin::PutOff(sql) = begin.replace(Begin::Sent) {
                client.batch_execute(sql).await?;
            }
            begin.set(Begin::Done);
            Ok(())
        };
        let appended = try_join_all(put_off.iter().map(async |(statement, columns)| {
            let params: Vec<_> = columns.iter().map(Column::as_param).collect();
            client.execute(statement, &params).await
        }));
        // Each is sent when it is first polled, so the order here is the order there. One that cannot be sent at all ends this
        // before anything after it is sent, a COMMIT least of all.
        let done = self.runtime.block_on(async { tokio::try_join!(biased; begun, appended, work(client)) });
        self.begin = begin.get();
        done.map(|((), _, done)| done)
    }

    /// Defers the insertion of rows until the next statement, which also returns their errors.
    pub(super) fn put_off(
        &mut self,
        statement: Statement,
        columns: Vec<Column>,
    ) -> Result<(), postgres::Error> {
        self.put_off.push((statement, columns));
        if self.put_off.len() < MAX_PUT_OFF { Ok(()) } else { self.after_put_off(async |_| Ok(())) }
    }

    /// All rows of an answer.
    pub(super) fn query(
        &mut self,
        statement: &Statement,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<postgres::Row>, postgres::Error> {
        self.after_put_off(async |client| client.query(statement, params).await)
    }

    /// Ends the transaction and keeps what it did. One that did nothing was never begun.
    pub(super) fn commit(&mut self) -> Result<(), postgres::Error> {
        if self.has_begun() || !self.put_off.is_empty() {
            self.after_put_off(async |client| client.batch_execute("COMMIT").await)?;
        }
        Ok(())
    }

    /// Ends the transaction and keeps nothing of it.
    pub(super) fn roll_back(&mut self) -> Result<(), postgres::Error> {
        self.put_off.clear();
        match self.begin {
            Begin::PutOff(_) => Ok(()),
            Begin::Sent | Begin::Done => self.runtime.block_on(self.client.batch_execute("ROLLBACK")),
        }
    }

    pub(super) fn prepare(&mut self, sql: &'static str) -> Result<Prepared, postgres::Error> {
        if let Some(prepared) = self.prepared.get(sql) {
            return Ok(prepared.clone());
        }
        let prepared = Prepared::new(self.runtime.block_on(self.client.prepare(sql))?);
        self.prepared.insert(sql, prepared.clone());
        Ok(prepared)
    }

    /// The form of a statement that does many at once; none if it has none.
    pub(super) fn prepare_many(&mut self, sql: &'static str) -> Result<Option<Prepared>, postgres::Error> {
        if let Some(prepared) = self.many.get(sql) {
            return Ok(Some(prepared.clone()));
        }
        let one = self.prepare(sql)?.statement;
        let Some(text) = many::statement(sql, one.params()) else { return Ok(None) };
        let prepared = Prepared::new(self.runtime.block_on(self.client.prepare(&text))?);
        self.many.insert(sql, prepared.clone());
        Ok(Some(prepared))
    }
}

impl Tx for PostgresTx<'_> {
    fn execute(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<u64, StoreError> {
        self.wrote = true;
        let params: Vec<&(dyn ToSql + Sync)> =
            params.iter().map(|param| param as &(dyn ToSql + Sync)).collect();
        self.note(|session| {
            let statement = session.prepare(sql)?.statement;
            session.make_begun()?;
            session.after_put_off(async |client| client.execute(&statement, &params).await)
        })
    }

    fn append(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<(), StoreError> {
        self.wrote = true;
        let columns = params.iter().map(|param| Column::One((*param).into())).collect();
        self.note(|session| {
            let statement = session.prepare(sql)?.statement;
            session.put_off(statement, columns)
        })
    }

    fn each(
        &mut self,
        sql: &'static str,
        params: &[Param<'_>],
        take: &mut dyn FnMut(Row) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        // Many short statements are a long read too.
        #[expect(
            clippy::disallowed_methods,
            reason = "how long the database itself works is the machine's time"
        )]
        let is_over = self.end.is_some_and(|end| Instant::now() > end);
        if is_over {
            return Err(StoreError::TooLong);
        }
        let only_reads = many::is_select(sql);
        self.wrote |= !only_reads;
        let params = params.iter().map(|param| param as &(dyn ToSql + Sync));
        self.note(|session| {
            let prepared = session.prepare(sql)?;
            if !only_reads {
                session.make_begun()?;
            }
            // One by one, so that never more than a few are in memory. To the end, because only there is said whether all
            // went well: what is not wanted is dropped as it comes.
            session.after_put_off(async |client| {
                let (rows, mut taken) = (client.query_raw(&prepared.statement, params).await?, Ok(true));
                let mut rows = std::pin::pin!(rows);
                while let Some(row) = rows.next().await.transpose()? {
                    if let Ok(true) = taken {
                        taken = prepared.row(&row).and_then(&mut *take);
                    }
                }
                Ok(taken.map(drop))
            })
        })?
    }

    fn next_seq(&mut self, stream: StreamKey) -> Result<i64, StoreError> {
        let row = self.first(
            "INSERT INTO streams (kind, id, head) VALUES ($1, $2, 1)
             ON CONFLICT (kind, id) DO UPDATE SET head = streams.head + 1 RETURNING head",
            &stream.params(),
        )?;
        let head = row.ok_or_else(|| StoreError::unexpected("no head came back"))?.int("head")?;
        self.after.moved.insert(stream, head);
        Ok(head)
    }

    fn head(&mut self, stream: StreamKey) -> Result<i64, StoreError> {
        let row = self.first("SELECT head FROM streams WHERE kind = $1 AND id = $2", &stream.params())?;
        row.map_or(Ok(0), |mut row| row.int("head"))
    }

    fn set_head(&mut self, stream: StreamKey, head: i64) -> Result<(), StoreError> {
        let [kind, id] = stream.params();
        self.execute(
            "INSERT INTO streams (kind, id, head) VALUES ($1, $2, $3)
             ON CONFLICT (kind, id) DO UPDATE SET head = excluded.head",
            &[kind, id, head.into()],
        )?;
        self.after.moved.insert(stream, head);
        Ok(())
    }

    fn lock(&mut self, stream: StreamKey) -> Result<(), StoreError> {
        self.execute(
            "INSERT INTO streams (kind, id, head) VALUES ($1, $2, 0)
             ON CONFLICT (kind, id) DO UPDATE SET head = streams.head",
            &stream.params(),
        )?;
        Ok(())
    }

    fn kind(&self) -> Kind {
        Kind::Postgres
    }

    fn after_commit(&mut self, action: Box<dyn FnOnce() + Send>) {
        self.after.actions.push(action);
    }
}

impl ToSql for Cell {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        Param::from(self).to_sql(ty, out)
    }

    fn accepts(ty: &Type) -> bool {
        Param::accepts(ty)
    }

    to_sql_checked!();
}

impl ToSql for Param<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Int(value) => value.to_sql(ty, out),
            Self::Text(value) => value.to_sql(ty, out),
            Self::Bytes(value) => value.to_sql(ty, out),
        }
    }

    fn accepts(ty: &Type) -> bool {
        matches!(*ty, Type::INT8 | Type::TEXT | Type::VARCHAR | Type::BYTEA)
    }

    to_sql_checked!();
}

fn cell(row: &postgres::Row, column: usize) -> Result<Cell, StoreError> {
    let ty = row.columns().get(column).map(postgres::Column::type_);
    let cell = match ty {
        Some(&Type::INT8) => row.try_get::<_, Option<i64>>(column).map(|value| value.map(Cell::Int)),
        Some(&Type::INT4) => {
            row.try_get::<_, Option<i32>>(column).map(|value| value.map(|value| Cell::Int(value.into())))
        }
        Some(&Type::TEXT | &Type::VARCHAR) => {
            row.try_get::<_, Option<String>>(column).map(|value| value.map(Cell::Text))
        }
        Some(&Type::BYTEA) => row.try_get::<_, Option<Vec<u8>>>(column).map(|value| value.map(Cell::Bytes)),
        other => return Err(StoreError::unexpected(format!("a column of type {other:?}"))),
    };
    cell.map(|cell| cell.unwrap_or(Cell::Null)).map_err(|error| StoreError::Unexpected(error.into()))
}

pub(crate) fn classify(error: postgres::Error) -> StoreError {
    let Some(state) = error.code() else {
        // No answer from the server: the connection is gone, unless our own values did not fit the statement.
        let ours =
            !error.is_closed() && error.source().is_some_and(<dyn Error>::is::<postgres::types::WrongType>);
        return if ours {
            StoreError::Unexpected(error.into())
        } else {
            StoreError::Unavailable(error.into())
        };
    };
    match state {
        &SqlState::T_R_SERIALIZATION_FAILURE
        | &SqlState::T_R_DEADLOCK_DETECTED
        | &SqlState::UNIQUE_VIOLATION => StoreError::Conflict(error.into()),
        &SqlState::QUERY_CANCELED => StoreError::TooLong,
        &SqlState::DISK_FULL => StoreError::Full(error.into()),
        &SqlState::LOCK_NOT_AVAILABLE => StoreError::Locked(error.into()),
        // Insufficient resources, operator intervention and connection trouble pass; the rest is our fault.
        state if ["53", "57", "58", "08"].contains(&state.code().get(..2).unwrap_or_default()) => {
            StoreError::Unavailable(error.into())
        }
        _ => StoreError::Unexpected(error.into()),
    }
}
