//! The served database: the same closures on a few worker threads, and wake-ups between nodes.
//!
//! Workers are threads with a blocking client each, never part of the async runtime. A closure that conflicts with
//! another transaction is run again. NOTIFY is a hint that saves waiting, sent in batches by a thread of its own and
//! outside the message transactions, because a transaction that notifies takes a lock all others wait for.

mod target;
mod tls;

use crate::job::{Job, shield};
use crate::queue::Queue;
use crate::threads::{join, spawn};
use crate::tx::{Cell, Param, Row, Tx, TxExt};
use crate::{Kind, READ_TIME, StoreError, WakerSlot, migrate, wake};
use postgres::error::SqlState;
use postgres::fallible_iterator::FallibleIterator;
use postgres::types::private::BytesMut;
use postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use postgres::{Client, Statement};
use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};
use target::Target;
use uuid::Uuid;

/// How often a closure is tried against conflicts.
const MAX_TRIES: u32 = 10;
/// PostgreSQL takes 8000 bytes of NOTIFY payload; one stream is 33 to 52 of them.
const STREAMS_PER_NOTIFY: usize = 140;
const RECONNECT_AFTER: Duration = Duration::from_millis(500);
const CHANNEL: &str = "chorus";
/// Every statement sees what was committed before it; whoever waited for a lock sees what the holder did.
const BEGIN_WRITE: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";
/// All statements see the same.
const BEGIN_READ: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// How to open a PostgreSQL store.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// `postgres://…`
    pub url: String,
    /// Which node this is; wake-ups from itself are ignored.
    pub node: Uuid,
    /// Connections that work.
    pub workers: usize,
    /// How many jobs may wait.
    pub queue: usize,
    /// How long a read may take.
    pub read_time: Duration,
}

impl PostgresOptions {
    /// The defaults of the hub.
    pub fn new(url: impl Into<String>, node: Uuid) -> Self {
        Self { url: url.into(), node, workers: 8, queue: 4096, read_time: READ_TIME }
    }
}

impl PostgresOptions {
    /// A named value of the hub as it stands in the database, before that is brought up to date; none if there is no
    /// schema yet, or no such value.
    pub fn peek(&self, name: &str) -> Result<Option<String>, StoreError> {
        let target = Target::parse(&self.url)?;
        target.alone(|client| {
            let known =
                client.query_one("SELECT to_regclass('settings') IS NOT NULL", &[]).map_err(classify)?;
            if !known.get::<_, bool>(0) {
                return Ok(None);
            }
            let sql = "SELECT value FROM settings WHERE name = $1";
            Ok(client.query_opt(sql, &[&name]).map_err(classify)?.map(|row| row.get(0)))
        })
    }
}

pub(crate) struct Postgres {
    writes: Queue<Box<dyn Job>>,
    reads: Queue<Box<dyn Job>>,
    authentications: Queue<Box<dyn Job>>,
    moved: Queue<(Uuid, i64)>,
    stopping: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Postgres {
    pub(crate) fn open(options: PostgresOptions, waker: WakerSlot) -> Result<Self, StoreError> {
        let target = Target::parse(&options.url)?;
        target.alone(migrate::postgres)?;

        let (writes, reads) = (Queue::new(options.queue), Queue::new(options.queue));
        let authentications = Queue::new(options.queue);
        let moved = Queue::new(100_000);
        let stopping = Arc::new(AtomicBool::new(false));
        let mut threads = vec![];
        // A quarter of the workers serves reads, so that a burst of writes leaves them a way through. As many more find out
        // who calls.
        let workers = options.workers.max(2);
        let queues = (0..workers).map(|n| if n % 4 == 1 { &reads } else { &writes });
        let queues = queues.chain((0..workers.div_ceil(4)).map(|_| &authentications));
        for (n, queue) in queues.enumerate() {
            let worker = Worker {
                target: target.clone(),
                read_time: (!queue.is(&writes)).then_some(options.read_time),
                session: None,
                waker: Arc::clone(&waker),
                moved: moved.clone(),
            };
            let queue = queue.clone();
            threads.push(spawn(&format!("store-{n}"), move || worker.run(&queue))?);
        }
        threads.push(spawn("store-notify", {
            let (target, moved, node) = (target.clone(), moved.clone(), options.node);
            move || notify_loop(&target, &moved, node)
        })?);
        threads.push(spawn("store-listen", {
            let stopping = Arc::clone(&stopping);
            move || listen_loop(&target, options.node, &waker, &stopping)
        })?);
        Ok(Self { writes, reads, authentications, moved, stopping, threads })
    }

    pub(crate) fn writes(&self) -> &Queue<Box<dyn Job>> {
        &self.writes
    }

    pub(crate) fn reads(&self) -> &Queue<Box<dyn Job>> {
        &self.reads
    }

    pub(crate) fn authentications(&self) -> &Queue<Box<dyn Job>> {
        &self.authentications
    }
}

impl Drop for Postgres {
    /// Everything queued is finished before the connections are closed.
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        self.writes.close();
        self.reads.close();
        self.authentications.close();
        self.moved.close();
        join(self.threads.drain(..));
    }
}

struct Session {
    client: Client,
    prepared: HashMap<&'static str, Statement>,
}

struct Worker {
    target: Target,
    /// How long its work may take; none for writes, which are brief or wait for a lock.
    read_time: Option<Duration>,
    session: Option<Session>,
    waker: WakerSlot,
    moved: Queue<(Uuid, i64)>,
}

impl Worker {
    fn run(mut self, queue: &Queue<Box<dyn Job>>) {
        while let Some(mut job) = queue.take(1).pop() {
            let outcome = self.attempt(&mut *job);
            if let Err(error) = &outcome {
                tracing::error!(error = error as &dyn Error, "a transaction was not committed");
            }
            job.finish(outcome);
        }
    }

    fn attempt(&mut self, job: &mut dyn Job) -> Result<(), StoreError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let fresh = self.session.is_none();
            let error = match self.transaction(job) {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            let lost = self.session.as_ref().is_none_or(|session| session.client.is_closed());
            if lost {
                self.session = None;
            }
            match error {
                // An idle connection the server had closed: nothing was sent yet, so a new one may do it.
                Failed::Begin(_) if lost && !fresh => {}
                Failed::Work(StoreError::Conflict(_)) if tries < MAX_TRIES => {
                    sleep(Duration::from_millis(u64::from(tries * tries)));
                }
                Failed::Begin(error) | Failed::Work(error) => return Err(error),
            }
        }
    }

    fn transaction(&mut self, job: &mut dyn Job) -> Result<(), Failed> {
        if self.session.is_none() {
            let mut client = self.target.connect().map_err(|error| Failed::Begin(classify(error)))?;
            if let Some(time) = self.read_time {
                let limit = format!("SET statement_timeout = {}", time.as_millis());
                client.batch_execute(&limit).map_err(|error| Failed::Begin(classify(error)))?;
            }
            self.session = Some(Session { client, prepared: HashMap::new() });
        }
        let Some(session) = &mut self.session else { return Err(Failed::Begin(StoreError::Closed)) };
        let begin = if self.read_time.is_some() { BEGIN_READ } else { BEGIN_WRITE };
        session.client.batch_execute(begin).map_err(|error| Failed::Begin(classify(error)))?;
        let end = self.read_time.map(|time| Instant::now() + time);
        let mut tx = PostgresTx { session, actions: vec![], moved: BTreeMap::new(), broken: None, end };
        let keep = job.run(&mut tx);
        let (actions, moved, broken) = (tx.actions, tx.moved, tx.broken);
        if keep && broken.is_none() {
            session.client.batch_execute("COMMIT").map_err(|error| Failed::Work(classify(error)))?;
            actions.into_iter().for_each(shield);
            for (stream, head) in moved {
                wake(&self.waker, stream, head);
                // A full queue of hints costs other nodes a second until their poll, nothing else.
                drop(self.moved.push((stream, head)));
            }
            return Ok(());
        }
        let rolled_back = session.client.batch_execute("ROLLBACK");
        match broken {
            Some(error) => Err(Failed::Work(error)),
            None => rolled_back.map_err(|error| Failed::Work(classify(error))),
        }
    }
}

/// Where a transaction failed: before anything was sent, or later.
enum Failed {
    Begin(StoreError),
    Work(StoreError),
}

struct PostgresTx<'a> {
    session: &'a mut Session,
    actions: Vec<Box<dyn FnOnce() + Send>>,
    moved: BTreeMap<Uuid, i64>,
    /// An error that cost the whole transaction, whatever the job made of it.
    broken: Option<StoreError>,
    /// When the work must have ended.
    end: Option<Instant>,
}

impl PostgresTx<'_> {
    fn note<T>(
        &mut self,
        work: impl FnOnce(&mut Session) -> Result<T, postgres::Error>,
    ) -> Result<T, StoreError> {
        work(self.session).map_err(|error| {
            let error = classify(error);
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
    fn prepare(&mut self, sql: &'static str) -> Result<Statement, postgres::Error> {
        if let Some(statement) = self.prepared.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(sql)?;
        self.prepared.insert(sql, statement.clone());
        Ok(statement)
    }
}

impl Tx for PostgresTx<'_> {
    fn execute(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<u64, StoreError> {
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
        if self.end.is_some_and(|end| Instant::now() > end) {
            return Err(StoreError::TooLong);
        }
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
        self.moved.insert(stream, head);
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
        self.actions.push(action);
    }
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

/// Tells other nodes which streams moved: one NOTIFY for all that gathered meanwhile.
fn notify_loop(target: &Target, moved: &Queue<(Uuid, i64)>, node: Uuid) {
    let mut client = None;
    loop {
        let streams = highest(moved.take(STREAMS_PER_NOTIFY));
        if streams.is_empty() {
            return;
        }
        let mut payload = node.simple().to_string();
        for (stream, head) in streams {
            // Writing to a string cannot fail.
            let _infallible = write!(payload, " {}:{head}", stream.simple());
        }
        let sent = match client.take().map_or_else(|| target.connect(), Ok) {
            Ok(mut connected) => {
                connected.execute("SELECT pg_notify($1, $2)", &[&CHANNEL, &payload]).map(|_| connected)
            }
            Err(error) => Err(error),
        };
        match sent {
            Ok(connected) => client = Some(connected),
            Err(error) => {
                tracing::warn!(%error, "other nodes were not woken; their poll will find it");
                sleep(RECONNECT_AFTER);
            }
        }
    }
}

/// The last head of each stream: workers may report in another order than they committed in.
fn highest(moved: Vec<(Uuid, i64)>) -> BTreeMap<Uuid, i64> {
    let mut streams = BTreeMap::new();
    for (stream, head) in moved {
        let known = streams.entry(stream).or_insert(head);
        *known = head.max(*known);
    }
    streams
}

/// Hears which streams moved on other nodes.
fn listen_loop(target: &Target, node: Uuid, waker: &WakerSlot, stopping: &AtomicBool) {
    let own = node.simple().to_string();
    while !stopping.load(Ordering::Relaxed) {
        let listened = target.connect().and_then(|mut client| {
            client.batch_execute(&format!("LISTEN {CHANNEL}"))?;
            while !stopping.load(Ordering::Relaxed) {
                let mut notifications = client.notifications();
                let mut waiting = notifications.timeout_iter(Duration::from_millis(250));
                while let Some(notification) = waiting.next()? {
                    let mut words = notification.payload().split(' ');
                    if words.next() != Some(&own) {
                        words.filter_map(parse_moved).for_each(|(stream, head)| wake(waker, stream, head));
                    }
                }
                drop(waiting);
                drop(notifications);
                if client.is_closed() {
                    break;
                }
            }
            Ok(())
        });
        if let Err(error) = listened {
            tracing::warn!(%error, "not listening to other nodes; the poll covers it");
        }
        if !stopping.load(Ordering::Relaxed) {
            sleep(RECONNECT_AFTER);
        }
    }
}

fn parse_moved(word: &str) -> Option<(Uuid, i64)> {
    let (stream, head) = word.split_once(':')?;
    Some((Uuid::try_parse(stream).ok()?, head.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_report_does_not_hide_a_newer_one() {
        let (one, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let streams = highest(vec![(one, 1), (other, 7), (one, 3), (one, 2)]);
        assert_eq!(streams, BTreeMap::from([(one, 3), (other, 7)]));
    }
}
