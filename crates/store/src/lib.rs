//! Durable state: one body of SQL for two databases, SQLite and PostgreSQL.
//!
//! A write is a synchronous closure over a [`Tx`]. [`Store::write`] returns after it is committed to disk.
//! SQLite runs closures on one writer thread that commits whole batches (group commit); PostgreSQL does the
//! same on several worker threads and repeats closures after a conflict. The SQL is in one module per area:
//! stored things (`accounts`, `directory`, `conversations`, `log`, `members`, `artifacts`, `search`,
//! `mcp_sessions`, `choir`), deliveries (`deliveries`, `chats`, `inboxes`, `push`), and the transactions of
//! each protocol (`relay`, `conversation`, `market`).
//!
//! Every stream (an inbox, a conversation) has its own counter, so that the order of sequence numbers is the
//! order of commits, and a reader can use the last number it saw as a cursor. Streams that advanced are
//! announced to the [`Waker`] after the commit, on every node.
//!
//! The store uses no HTTP, no clock and no randomness: times and ids are arguments.

pub mod access;
pub mod accounts;
pub mod approvals;
pub mod artifacts;
pub mod attention;
pub mod audit;
pub mod blocks;
pub mod board;
pub mod chats;
pub mod choir;
pub mod claims;
pub mod clock;
pub mod conversation;
pub mod conversations;
pub mod deliveries;
pub mod digests;
pub mod directory;
mod error;
pub mod fleet;
pub mod growing;
pub mod harness_logs;
pub mod idempotency;
pub mod inboxes;
pub mod invitations;
pub mod log;
pub mod loop_guards;
pub mod mailbox;
pub mod market;
pub mod mcp_sessions;
pub mod members;
mod metered;
mod migrate;
pub mod obligations;
mod postgres;
pub mod push;
mod queue;
pub mod readings;
pub mod relay;
pub mod reply_lines;
pub mod retention;
pub mod revocation;
pub mod sealed;
pub mod search;
pub mod sent;
pub mod settings;
mod sqlite;
pub mod streams;
mod threads;
pub mod tool_calls;
pub mod trail;
pub mod transfer;
mod tx;
pub mod usage;
mod work;
pub mod work_streams;

pub use error::StoreError;
pub use metered::Metered;
pub use postgres::PostgresOptions;
pub use sqlite::{Diagnosis, Durability, SqliteOptions, backup, diagnose};
pub use streams::{StreamKey, StreamKind};
pub use tx::{Cell, Param, Row, Tx, TxExt};

use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use work::Purpose;

/// The default time limit of a read.
const READ_TIME: Duration = Duration::from_secs(5);

/// Told after each commit, and when another node reports one: this stream now ends at this sequence number.
pub type Waker = Box<dyn Fn(StreamKey, i64) + Send + Sync>;

/// The waker, once somebody wants to be woken.
type WakerSlot = Arc<OnceLock<Waker>>;

fn wake(slot: &WakerSlot, stream: StreamKey, head: i64) {
    if let Some(waker) = slot.get() {
        work::shield(|| waker(stream, head));
    }
}

/// Told what another node passes on to whoever follows a stream here.
pub type SignTaker = Box<dyn Fn(StreamKey, &[u8]) + Send + Sync>;

/// The one who takes signs, once there is one.
type SignSlot = Arc<OnceLock<SignTaker>>;

/// The longest sign that is passed on, in bytes.
pub const MAX_SIGN: usize = 5000;

fn show(slot: &SignSlot, stream: StreamKey, sign: &[u8]) {
    if let Some(taker) = slot.get() {
        work::shield(|| taker(stream, sign));
    }
}

/// The meter of stored bytes, once somebody counts them.
pub(crate) type MeterSlot = Arc<OnceLock<Arc<dyn usage::Meter>>>;

/// A handle to the durable state. Cheap to clone; the last one to go closes the database.
#[derive(Clone)]
pub struct Store {
    backend: Arc<Backend>,
    waker: WakerSlot,
    /// The number of write transactions requested.
    writes: Arc<AtomicU64>,
    signs: SignSlot,
    meter: MeterSlot,
}

enum Backend {
    Sqlite(sqlite::Sqlite),
    InPlace(sqlite::InPlace),
    Postgres(postgres::Postgres),
}

/// The database of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One file, one process.
    Sqlite,
    /// A server, many nodes.
    Postgres,
}

impl Kind {
    /// Its name for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }
}

impl Store {
    /// Opens a SQLite file and brings its schema up to date.
    pub fn sqlite(options: SqliteOptions) -> Result<Self, StoreError> {
        let waker = WakerSlot::default();
        let backend = Backend::Sqlite(sqlite::Sqlite::open(options, Arc::clone(&waker))?);
        Ok(Self::with(backend, waker, SignSlot::default()))
    }

    /// Connects to PostgreSQL and brings its schema up to date.
    pub fn postgres(options: PostgresOptions) -> Result<Self, StoreError> {
        let (waker, signs) = (WakerSlot::default(), SignSlot::default());
        let backend = postgres::Postgres::open(options, Arc::clone(&waker), Arc::clone(&signs))?;
        Ok(Self::with(Backend::Postgres(backend), waker, signs))
    }

    /// A SQLite store in memory, for simulations: everything works but the durability.
    pub fn in_memory() -> Result<Self, StoreError> {
        Self::sqlite(SqliteOptions::in_memory())
    }

    /// A SQLite store in memory without threads, for simulations and tests: whoever asks runs its closure at once, and nothing
    /// depends on anything but the order of what is asked. Every so many-th write is taken back and run again, as after a conflict.
    pub fn in_place(rerun_every: Option<NonZeroU32>) -> Result<Self, StoreError> {
        let waker = WakerSlot::default();
        let backend = Backend::InPlace(sqlite::InPlace::open(rerun_every, Arc::clone(&waker))?);
        Ok(Self::with(backend, waker, SignSlot::default()))
    }

    /// Reopens a store in place, as a new process would after a crash. Earlier handles are closed.
    pub fn reopen(&self) -> Result<Self, StoreError> {
        let Backend::InPlace(in_place) = &*self.backend else {
            return Err(StoreError::unexpected("only a store in place can be opened again by its handle"));
        };
        let waker = WakerSlot::default();
        let backend = Backend::InPlace(in_place.reopen(Arc::clone(&waker))?);
        Ok(Self::with(backend, waker, SignSlot::default()))
    }

    fn with(backend: Backend, waker: WakerSlot, signs: SignSlot) -> Self {
        Self { backend: Arc::new(backend), waker, signs, writes: Arc::default(), meter: MeterSlot::default() }
    }

    /// From now on `waker` is told of every commit that moved a stream. The first waker stays.
    pub fn on_commit(&self, waker: Waker) {
        // A second hub on one store would be a mistake of the caller; the first goes on undisturbed.
        drop(self.waker.set(waker));
    }

    /// From now on `taker` is told the signs that other nodes pass on. The first one stays.
    pub fn on_sign(&self, taker: SignTaker) {
        drop(self.signs.set(taker));
    }

    /// From now on `meter` counts what transactions store, and may refuse it. The first one stays.
    pub fn count_with(&self, meter: Arc<dyn usage::Meter>) {
        drop(self.meter.set(meter));
    }

    /// Passes a sign on to whoever follows a stream on other nodes just now. It is kept nowhere, and may be lost; one that is
    /// longer than [`MAX_SIGN`] is.
    pub fn pass(&self, stream: StreamKey, sign: &[u8]) {
        if let Backend::Postgres(postgres) = &*self.backend
            && sign.len() <= MAX_SIGN
        {
            postgres.pass(stream, sign);
        }
    }

    pub fn kind(&self) -> Kind {
        match &*self.backend {
            Backend::Sqlite(_) | Backend::InPlace(_) => Kind::Sqlite,
            Backend::Postgres(_) => Kind::Postgres,
        }
    }

    /// Returns the number of writes in the queue.
    pub fn queued(&self) -> usize {
        match &*self.backend {
            Backend::Sqlite(sqlite) => sqlite.queued(),
            Backend::InPlace(_) => 0,
            Backend::Postgres(postgres) => postgres.queued(),
        }
    }

    /// Returns the number of commits that changed something, or `None` if other processes may write. As long
    /// as the number is the same, what was read is still current.
    pub fn changes(&self) -> Option<u64> {
        match &*self.backend {
            Backend::Sqlite(sqlite) => Some(sqlite.changes()),
            Backend::InPlace(_) | Backend::Postgres(_) => None,
        }
    }

    /// Returns the number of write transactions requested so far; several may share a commit.
    pub fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    /// Runs `work` in a transaction of its own and returns once it is committed to disk.
    ///
    /// Any error rolls everything back, also one that `work` does not pass on. `work` may be run again after a
    /// conflict with another transaction, so it must not act on the outside; what must happen outside once it is
    /// committed goes to [`Tx::after_commit`]. The work is done even if the caller stops waiting for it.
    pub async fn write<T, E, F>(&self, work: F) -> Result<T, E>
    where
        F: Fn(&mut dyn Tx) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.submit(Purpose::Write, work).await
    }

    /// The same for work that comes in crowds: it reads a little, appends rows ([`Tx::append`]) and takes one place in one
    /// stream, for which `key` stands. On PostgreSQL such work is spread by that stream, and what has gathered is done in the
    /// few round trips of one. Work that turns out to be of another kind is done all the same, only not so fast.
    pub async fn write_on<T, E, F>(&self, key: impl Hash, work: F) -> Result<T, E>
    where
        F: Fn(&mut dyn Tx) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        self.submit(Purpose::WriteOn(hasher.finish()), work).await
    }

    /// Runs `work` against one consistent snapshot. It must not write, and it ends with [`StoreError::TooLong`] when it takes
    /// longer than a read may.
    pub async fn read<T, E, F>(&self, work: F) -> Result<T, E>
    where
        F: Fn(&mut dyn Tx) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.submit(Purpose::Read, work).await
    }

    /// Like [`Store::read`], for reads that many callers make at the same moment, each of its own rows:
    /// PostgreSQL runs those that have gathered in shared round trips. All their results are held in memory
    /// together, so each should be small.
    pub async fn read_together<T, E, F>(&self, work: F) -> Result<T, E>
    where
        F: Fn(&mut dyn Tx) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.submit(Purpose::ReadTogether, work).await
    }

    /// The same for finding out who calls, on threads of their own: whatever else is read, nobody waits for it to be let in.
    pub async fn authenticate<T, E, F>(&self, work: F) -> Result<T, E>
    where
        F: Fn(&mut dyn Tx) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.submit(Purpose::Authenticate, work).await
    }

    async fn submit<T, E, F>(&self, purpose: Purpose, work: F) -> Result<T, E>
    where
        F: Fn(&mut dyn Tx) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        if matches!(purpose, Purpose::Write | Purpose::WriteOn(_)) {
            self.writes.fetch_add(1, Ordering::Relaxed);
        }
        let (work, answer) = work::pack(work, Arc::clone(&self.meter));
        match &*self.backend {
            Backend::Sqlite(sqlite) => sqlite.queue(purpose).push(work)?,
            Backend::InPlace(in_place) => in_place.run(purpose, work)?,
            Backend::Postgres(postgres) => postgres.queue(purpose).push(work)?,
        }
        // The answering end is dropped unused only when its thread died with the store.
        answer.await.unwrap_or_else(|_| Err(StoreError::Closed.into()))
    }
}
