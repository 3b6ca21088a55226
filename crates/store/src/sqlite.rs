//! The embedded database: one writer thread, a few readers, one checkpointer.
//!
//! The writer drains its queue into one transaction per batch, commits, and only then answers all of them. The fsync of one batch is the window in which the next one gathers; there is no timer.
//! One process only: heads of streams are cached in the writer, so a lock file keeps a second hub out.

mod checkpoint;
mod files;
mod session;

pub(crate) use session::classify;

use crate::job::{Job, shield};
use crate::queue::Queue;
use crate::threads::{join, spawn};
use crate::{READ_TIME, StoreError, WakerSlot, migrate, wake};
use session::{Session, SqliteTx};
use std::collections::HashMap;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use uuid::Uuid;

/// The most jobs in one transaction.
const MAX_BATCH: usize = 256;
/// The most stream heads kept in memory; past it the cache starts anew.
const MAX_HEADS: usize = 100_000;

/// When success may be reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// After fsync: what was acknowledged survives a power cut.
    Full,
    /// After the write: what was acknowledged survives a crash of the program, not of the machine.
    Relaxed,
}

impl Durability {
    /// Its name in settings and in `/health`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Relaxed => "relaxed",
        }
    }
}

/// How to open a SQLite store.
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    /// The file; none for a store in memory.
    pub path: Option<PathBuf>,
    /// When success may be reported.
    pub durability: Durability,
    /// How many jobs may wait, for writing and for reading each.
    pub queue: usize,
    /// How long to wait for another process's lock.
    pub busy_timeout: Duration,
    /// Threads that read.
    pub readers: usize,
    /// How long a read may take.
    pub read_time: Duration,
}

impl SqliteOptions {
    /// A file with the defaults of the hub.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self { path: Some(path.into()), ..Self::in_memory() }
    }

    /// A store in memory.
    pub fn in_memory() -> Self {
        Self {
            path: None,
            durability: Durability::Full,
            queue: 4096,
            busy_timeout: Duration::from_secs(5),
            readers: 2,
            read_time: READ_TIME,
        }
    }
}

impl SqliteOptions {
    /// A named value of the hub as it stands in the file, before anything is opened for writing or brought up to date;
    /// none if there is no file yet, or no such value.
    pub fn peek(&self, name: &str) -> Result<Option<String>, StoreError> {
        if !self.path.as_deref().is_some_and(Path::exists) {
            return Ok(None);
        }
        let session = Session::open(self, true)?;
        let version: i64 = session
            .connection
            .pragma_query_value(None, "user_version", |row| row.get(0))
            .map_err(classify)?;
        if version == 0 {
            return Ok(None);
        }
        let sql = "SELECT value FROM settings WHERE name = ?1";
        match session.connection.query_row(sql, [name], |row| row.get(0)) {
            Ok(value) => Ok(Some(value)),
            Err(rusqlite::Error::QueryReturnedNoRows) => Ok(None),
            Err(error) => Err(classify(error)),
        }
    }
}

pub(crate) struct Sqlite {
    writes: Queue<Box<dyn Job>>,
    reads: Queue<Box<dyn Job>>,
    authentications: Queue<Box<dyn Job>>,
    threads: Vec<JoinHandle<()>>,
    /// Dropped to end the checkpointer.
    checkpointer: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Sqlite {
    pub(crate) fn open(options: SqliteOptions, waker: WakerSlot) -> Result<Self, StoreError> {
        let lock = options.path.as_deref().map(lock_file).transpose()?;
        options.path.as_deref().map(files::make_private).transpose()?;
        let mut writer = Writer {
            connection: Session::open(&options, false)?,
            heads: Heads::default(),
            waker,
            crowded: Arc::default(),
        };
        migrate::sqlite(&mut writer.connection.connection)?;
        writer.forget_the_dead()?;

        let writes = Queue::new(options.queue);
        let mut threads = vec![];
        let (mut reads, mut authentications) = (writes.clone(), writes.clone());
        let mut checkpointer = None;
        if let Some(path) = options.path.as_deref() {
            reads = Queue::new(options.queue);
            for n in 0..options.readers.max(1) {
                threads.push(reader(&format!("store-read-{n}"), &options, &reads)?);
            }
            authentications = Queue::new(options.queue);
            threads.push(reader("store-authenticate", &options, &authentications)?);
            let session = Session::open(&options, false)?;
            let crowded = Arc::clone(&writer.crowded);
            let database = File::open(path).map_err(StoreError::unexpected)?;
            let (stop, stopped) = channel();
            let thread = spawn("store-checkpoint", move || {
                checkpoint::run(&session, &database, &crowded, &stopped);
            })?;
            checkpointer = Some((stop, thread));
        }
        threads.push(spawn("store-write", {
            let (queue, options) = (writes.clone(), options);
            move || {
                writer.run(&queue, &options);
                // Held until the last write is done.
                drop(lock);
            }
        })?);
        Ok(Self { writes, reads, authentications, threads, checkpointer })
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

impl Drop for Sqlite {
    /// Everything queued is finished before the files are closed.
    fn drop(&mut self) {
        self.writes.close();
        self.reads.close();
        self.authentications.close();
        let checkpointer = self.checkpointer.take().map(|(stop, thread)| {
            drop(stop);
            thread
        });
        join(self.threads.drain(..).chain(checkpointer));
    }
}

fn lock_file(path: &Path) -> Result<File, StoreError> {
    let open = |source| StoreError::Open { what: path.display().to_string(), source };
    let file = files::open_private(&beside(path, "-lock")).map_err(|error| open(error.into()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            Err(open("another chorus process uses it; stop that one first".into()))
        }
        Err(TryLockError::Error(error)) => Err(open(error.into())),
    }
}

/// A file that belongs to a database file: `-wal` is SQLite's write-ahead log, `-lock` is ours.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    path.with_file_name(name)
}

/// A thread that reads what is queued.
fn reader(
    name: &str,
    options: &SqliteOptions,
    queue: &Queue<Box<dyn Job>>,
) -> Result<JoinHandle<()>, StoreError> {
    let (mut session, queue, time) = (Session::open(options, true)?, queue.clone(), options.read_time);
    session.interrupt_when_over()?;
    spawn(name, move || read_loop(session, &queue, time))
}

fn read_loop(mut session: Session, queue: &Queue<Box<dyn Job>>, time: Duration) {
    loop {
        let jobs = queue.take(1);
        if jobs.is_empty() {
            return;
        }
        for mut job in jobs {
            session.ends_in(time);
            // One read transaction: all statements of a job see the same snapshot.
            let outcome = session.batch("BEGIN").and_then(|()| {
                let mut heads = Heads::default();
                let mut tx = SqliteTx::new(&mut session, &mut heads);
                job.run(&mut tx);
                let fatal = tx.fatal.take();
                // To end it takes no time, and must not be stopped.
                session.ends_in(Duration::MAX);
                let end = session.batch("COMMIT");
                fatal.map_or(end, Err)
            });
            if outcome.is_err() {
                session.roll_back();
            }
            job.finish(outcome);
        }
    }
}

struct Writer {
    connection: Session,
    heads: Heads,
    waker: WakerSlot,
    /// Set by the checkpointer when the log has grown large.
    crowded: Arc<AtomicBool>,
}

impl Writer {
    /// Only one process uses this file, so what a former one left in progress is over.
    fn forget_the_dead(&mut self) -> Result<(), StoreError> {
        self.connection.batch(
            "DELETE FROM idempotency WHERE state = 'in_progress';
             UPDATE inboxes SET session = NULL, node = NULL, open_until = 0 WHERE node IS NOT NULL;
             UPDATE chats SET due_at = created_at WHERE (agent_id, seq) IN
                 (SELECT agent_id, seq FROM deliveries WHERE lease_until IS NOT NULL AND state = 'waiting');
             UPDATE deliveries SET lease_owner = NULL, lease_until = NULL WHERE lease_until IS NOT NULL AND state = 'waiting';",
        )
    }

    fn run(mut self, queue: &Queue<Box<dyn Job>>, options: &SqliteOptions) {
        loop {
            let mut jobs = queue.take(MAX_BATCH);
            if jobs.is_empty() {
                return;
            }
            let outcome = self.commit(&mut jobs);
            if let Err(error) = &outcome {
                tracing::error!(
                    error = error as &dyn std::error::Error,
                    jobs = jobs.len(),
                    "a batch was not committed"
                );
                self.recover(options);
            }
            for job in jobs {
                job.finish(outcome.as_ref().copied().map_err(StoreError::for_the_batch));
            }
            if self.crowded.swap(false, Ordering::AcqRel) {
                checkpoint::finish(&self.connection.connection);
            }
        }
    }

    /// Runs a batch in one transaction. An error means that nothing of the batch was kept.
    fn commit(&mut self, jobs: &mut [Box<dyn Job>]) -> Result<(), StoreError> {
        // A savepoint makes SQLite copy each page before it changes, for a job that will hardly ever be taken back. So
        // the first try does without; if a job fails after it wrote, all of them run again, each in its savepoint.
        if self.attempt(jobs, false)? {
            return Ok(());
        }
        self.heads = Heads::default();
        self.connection.batch("ROLLBACK")?;
        self.attempt(jobs, true).map(drop)
    }

    /// Whether the batch was committed; without savepoints, one job that has to be taken back spoils all.
    fn attempt(&mut self, jobs: &mut [Box<dyn Job>], savepoints: bool) -> Result<bool, StoreError> {
        self.connection.batch("BEGIN IMMEDIATE")?;
        let mut actions = Vec::new();
        for job in jobs {
            if savepoints {
                self.connection.batch("SAVEPOINT job")?;
            }
            let mut tx = SqliteTx::new(&mut self.connection, &mut self.heads);
            let keep = job.run(&mut tx);
            let (mut after, fatal, wrote) = (tx.actions, tx.fatal, tx.wrote);
            if let Some(error) = fatal {
                return Err(error);
            }
            if keep {
                actions.append(&mut after);
                self.heads.keep();
            } else {
                self.heads.restore();
                if savepoints {
                    self.connection.batch("ROLLBACK TO job")?;
                } else if wrote {
                    return Ok(false);
                }
            }
            if savepoints {
                self.connection.batch("RELEASE job")?;
            }
        }
        let moved = self.heads.moved();
        for (stream, head) in &moved {
            self.connection.run(
                "INSERT INTO streams (id, head) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET head = excluded.head",
                &[stream.into(), (*head).into()],
            )?;
        }
        self.connection.batch("COMMIT")?;
        actions.into_iter().for_each(shield);
        for (stream, head) in moved {
            wake(&self.waker, stream, head);
        }
        Ok(true)
    }

    /// After a failed batch: nothing cached is trusted, and a connection that cannot even roll back is replaced.
    fn recover(&mut self, options: &SqliteOptions) {
        self.heads = Heads::default();
        if !self.connection.roll_back() && options.path.is_some() {
            match Session::open(options, false) {
                Ok(session) => self.connection = session,
                Err(error) => tracing::error!(%error, "cannot reopen the database; it is tried again"),
            }
        }
    }
}

/// The last sequence numbers of streams, as far as the running batch knows them.
#[derive(Default)]
struct Heads {
    known: HashMap<Uuid, i64>,
    /// Streams the running job moved, with what they were before.
    job: Vec<(Uuid, Option<i64>)>,
    /// Streams the batch moved.
    batch: Vec<Uuid>,
}

impl Heads {
    fn set(&mut self, stream: Uuid, head: i64) {
        let before = self.known.insert(stream, head);
        self.job.push((stream, before));
    }

    fn keep(&mut self) {
        self.batch.extend(self.job.drain(..).map(|(stream, _)| stream));
    }

    fn restore(&mut self) {
        for (stream, before) in self.job.drain(..).rev() {
            match before {
                Some(head) => self.known.insert(stream, head),
                None => self.known.remove(&stream),
            };
        }
    }

    /// What the batch moved, each stream once.
    fn moved(&mut self) -> Vec<(Uuid, i64)> {
        let mut streams = std::mem::take(&mut self.batch);
        streams.sort_unstable();
        streams.dedup();
        let moved = streams.iter().filter_map(|stream| Some((*stream, *self.known.get(stream)?))).collect();
        if self.known.len() > MAX_HEADS {
            self.known.clear();
        }
        moved
    }
}

/// What a look at a database file found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnosis {
    /// The schema it has.
    pub schema_version: i64,
    /// The schema this program knows.
    pub known_version: i64,
    /// What SQLite finds wrong with the file; empty when it is sound.
    pub damage: Vec<String>,
    /// Bytes of the file, and of the log beside it.
    pub bytes: u64,
}

/// Looks at a database file without changing it, also while a hub uses it.
pub fn diagnose(path: &Path) -> Result<Diagnosis, StoreError> {
    let options = SqliteOptions::file(path);
    let session = Session::open(&options, true)?;
    let mut statement = session.connection.prepare("PRAGMA quick_check(10)").map_err(classify)?;
    let found = statement.query_map([], |row| row.get::<_, String>(0)).map_err(classify)?;
    let damage: Vec<String> = found.collect::<Result<_, _>>().map_err(classify)?;
    let schema_version =
        session.connection.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(classify)?;
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |data| data.len());
    Ok(Diagnosis {
        schema_version,
        known_version: migrate::KNOWN,
        damage: damage.into_iter().filter(|line| line != "ok").collect(),
        bytes: size(path) + size(&beside(path, "-wal")),
    })
}
