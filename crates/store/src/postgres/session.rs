//! One connection and its prepared statements, and the transaction that a closure sees when its statements are executed one by
//! one.

use super::many;
use crate::tx::{Cell, Param, Row, Tx, TxExt};
use crate::{Kind, StoreError};
use postgres::error::SqlState;
use postgres::fallible_iterator::FallibleIterator;
use postgres::types::private::BytesMut;
use postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use postgres::{Client, Statement};
use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::time::Instant;
use uuid::Uuid;

pub(super) struct Session {
    pub(super) client: Client,
    prepared: HashMap<&'static str, Statement>,
    /// The forms that do many at once, by the statement that does one.
    many: HashMap<&'static str, Statement>,
}

/// What follows a commit, and only a commit.
#[derive(Default)]
pub(super) struct After {
    pub(super) actions: Vec<Box<dyn FnOnce() + Send>>,
    /// The streams that moved, and where they end now.
    pub(super) moved: BTreeMap<Uuid, i64>,
}

pub(super) struct PostgresTx<'a> {
    session: &'a mut Session,
    pub(super) after: After,
    /// An error that cost the whole transaction, whatever the closure made of it.
    pub(super) broken: Option<StoreError>,
    /// Whether a statement failed: the server has given up the transaction, and takes nothing but its end.
    pub(super) failed: bool,
    /// Whether there may be something to be taken back.
    pub(super) wrote: bool,
    /// When the work must have ended.
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
    pub(super) fn new(client: Client) -> Self {
        Self { client, prepared: HashMap::new(), many: HashMap::new() }
    }

    pub(super) fn prepare(&mut self, sql: &'static str) -> Result<Statement, postgres::Error> {
        if let Some(statement) = self.prepared.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(sql)?;
        self.prepared.insert(sql, statement.clone());
        Ok(statement)
    }

    /// The form of a statement that does many at once; none if it has none.
    pub(super) fn prepare_many(&mut self, sql: &'static str) -> Result<Option<Statement>, postgres::Error> {
        if let Some(statement) = self.many.get(sql) {
            return Ok(Some(statement.clone()));
        }
        let one = self.prepare(sql)?;
        let Some(text) = many::statement(sql, one.params()) else { return Ok(None) };
        let statement = self.client.prepare(&text)?;
        self.many.insert(sql, statement.clone());
        Ok(Some(statement))
    }
}

impl Tx for PostgresTx<'_> {
    fn execute(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<u64, StoreError> {
        self.wrote = true;
        let params: Vec<&(dyn ToSql + Sync)> =
            params.iter().map(|param| param as &(dyn ToSql + Sync)).collect();
        self.note(|session| {
            let statement = session.prepare(sql)?;
            session.client.execute(&statement, &params)
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
        self.wrote |= !many::is_select(sql);
        let params = params.iter().map(|param| param as &(dyn ToSql + Sync));
        self.note(|session| {
            let statement = session.prepare(sql)?;
            // One by one, so that never more than a few are in memory. To the end, because only there is said whether all
            // went well: what is not wanted is dropped as it comes.
            let (mut rows, mut taken) = (session.client.query_raw(&statement, params)?, Ok(true));
            while let Some(row) = rows.next()? {
                if let Ok(true) = taken {
                    let cells = (0..row.len()).map(|column| cell(&row, column));
                    taken = cells.collect::<Result<_, _>>().and_then(|cells| take(Row(cells)));
                }
            }
            Ok(taken.map(drop))
        })?
    }

    fn next_seq(&mut self, stream: Uuid) -> Result<i64, StoreError> {
        let row = self.first(
            "INSERT INTO streams (id, head) VALUES ($1, 1)
             ON CONFLICT (id) DO UPDATE SET head = streams.head + 1 RETURNING head",
            &[(&stream).into()],
        )?;
        let head = row.ok_or_else(|| StoreError::unexpected("no head came back"))?.int(0)?;
        self.after.moved.insert(stream, head);
        Ok(head)
    }

    fn head(&mut self, stream: Uuid) -> Result<i64, StoreError> {
        let row = self.first("SELECT head FROM streams WHERE id = $1", &[(&stream).into()])?;
        row.map_or(Ok(0), |mut row| row.int(0))
    }

    fn lock(&mut self, stream: Uuid) -> Result<(), StoreError> {
        self.execute(
            "INSERT INTO streams (id, head) VALUES ($1, 0) ON CONFLICT (id) DO UPDATE SET head = streams.head",
            &[(&stream).into()],
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

pub(super) fn cell(row: &postgres::Row, column: usize) -> Result<Cell, StoreError> {
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
