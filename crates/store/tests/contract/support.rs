//! A store on either database, and helpers for the cases.

use chorus_protocol::ids::{AgentId, EventId, TraceId};
use chorus_protocol::relay::Outcome;
use chorus_protocol::words::DeliveryState;
use chorus_store::deliveries::{Entry, Lease};
use chorus_store::directory::{Agent, KeyHash, Record};
use chorus_store::relay::{self, Pending, SendError, Sent};
use chorus_store::{PostgresOptions, SqliteOptions, Store, StoreError, StreamKey, Tx, deliveries, directory};
use chorus_testkit::postgres::{self, Database};
use sha2::{Digest, Sha256};
use std::future::{Future, poll_fn};
use std::num::NonZeroU32;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, mpsc};
use std::task::Poll;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use uuid::Uuid;

/// The time of the cases, in milliseconds.
pub(crate) const NOW: i64 = 1_000_000;
/// The end of the leases of their messages.
pub(crate) const LEASE_END: i64 = NOW + 1_000;
/// The node that sends the messages.
pub(crate) const NODE: Uuid = Uuid::from_u128(7);
/// The bound of every wait. Only a hanging test reaches it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Turns each case, an `async fn(Fixture)`, into a test on SQLite, one on an in-place store, and one on
/// PostgreSQL. Cases in which work waits for other work, or a file is closed, come last: they do not run in
/// place.
macro_rules! on_both {
    ($($case:ident),* $(,)? $(; with_threads: $($threaded:ident),+ $(,)?)?) => {
        mod sqlite {
            $crate::support::on_both!(@sqlite $($case)* $($($threaded)+)?);
        }
        mod in_place {
            $(#[tokio::test]
            async fn $case() {
                super::$case($crate::support::Fixture::in_place()).await;
            })*
        }
        mod postgres {
            $crate::support::on_both!(@postgres $($case)* $($($threaded)+)?);
        }
    };
    (@$database:ident $($case:ident)+) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $case() {
            super::$case($crate::support::Fixture::$database()).await;
        })+
    };
}
pub(crate) use on_both;

/// An open store, and the place where it can be reopened.
pub(crate) struct Fixture {
    pub(crate) store: Store,
    /// `None` for an in-place store, which can only be reopened itself.
    place: Option<Place>,
}

pub(crate) enum Place {
    Sqlite(TempDir),
    Postgres(Database),
}

impl Place {
    pub(crate) fn sqlite() -> Self {
        Self::Sqlite(tempfile::tempdir().unwrap())
    }

    pub(crate) fn postgres() -> Self {
        Self::Postgres(postgres::database())
    }

    /// Returns the options of a file in this place.
    pub(crate) fn file(&self) -> SqliteOptions {
        let Self::Sqlite(dir) = self else { panic!("not a place for a file") };
        SqliteOptions::file(dir.path().join("chorus.db"))
    }

    pub(crate) fn open(&self) -> Result<Store, StoreError> {
        match self {
            Self::Sqlite(_) => Store::sqlite(self.file()),
            Self::Postgres(database) => {
                Store::postgres(PostgresOptions { workers: 5, ..PostgresOptions::new(&database.url, NODE) })
            }
        }
    }

    /// Opens a store with one writing thread and room for `queue` closures.
    fn open_narrow(&self, queue: usize) -> Store {
        match self {
            Self::Sqlite(_) => Store::sqlite(SqliteOptions { queue, ..self.file() }),
            Self::Postgres(database) => {
                let options = PostgresOptions::new(&database.url, NODE);
                Store::postgres(PostgresOptions { workers: 2, queue, ..options })
            }
        }
        .unwrap()
    }
}

impl Fixture {
    pub(crate) fn sqlite() -> Self {
        Self::at(Place::sqlite())
    }

    /// Creates an in-place store that runs every second write twice.
    pub(crate) fn in_place() -> Self {
        Self { store: Store::in_place(NonZeroU32::new(2)).unwrap(), place: None }
    }

    pub(crate) fn postgres() -> Self {
        Self::at(Place::postgres())
    }

    pub(crate) fn at(place: Place) -> Self {
        Self { store: place.open().unwrap(), place: Some(place) }
    }

    /// Creates an empty store of the same kind.
    pub(crate) fn another(&self) -> Self {
        match self.place {
            Some(Place::Sqlite(_)) => Self::sqlite(),
            Some(Place::Postgres(_)) => Self::postgres(),
            None => Self::in_place(),
        }
    }

    /// Returns the URL of its PostgreSQL database.
    pub(crate) fn url(&self) -> String {
        let Some(Place::Postgres(database)) = &self.place else { panic!("not on a server") };
        database.url.clone()
    }

    /// Closes the store, of which this must be the only handle.
    pub(crate) fn close(self) -> Place {
        self.place.expect("a place where it can be opened again")
    }

    pub(crate) fn reopen(self) -> Self {
        match self.place {
            Some(_) => Self::at(self.close()),
            None => Self { store: self.store.reopen().unwrap(), place: None },
        }
    }

    /// Reopens the store with one writing thread and room for `queue` closures.
    pub(crate) fn narrow(self, queue: usize) -> Self {
        let place = self.close();
        Self { store: place.open_narrow(queue), place: Some(place) }
    }
}

/// Returns a unique id, spread over the whole range.
pub(crate) fn fresh() -> Uuid {
    static COUNTER: AtomicU64 = AtomicU64::new(1);
    let n = u128::from(COUNTER.fetch_add(1, Ordering::Relaxed));
    Uuid::from_u128(n.wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835))
}

/// Returns a unique stream.
pub(crate) fn fresh_stream() -> StreamKey {
    AgentId(fresh()).into()
}

pub(crate) fn key(word: &str) -> KeyHash {
    Sha256::digest(word).into()
}

/// Runs a write that must succeed.
pub(crate) async fn write<T, F>(store: &Store, work: F) -> T
where
    F: Fn(&mut dyn Tx) -> Result<T, StoreError> + Send + 'static,
    T: Send + 'static,
{
    soon(store.write(work)).await.unwrap()
}

/// Runs a read that must succeed.
pub(crate) async fn read<T, F>(store: &Store, work: F) -> T
where
    F: Fn(&mut dyn Tx) -> Result<T, StoreError> + Send + 'static,
    T: Send + 'static,
{
    soon(store.read(work)).await.unwrap()
}

/// Returns the result of `future`, and panics if it hangs.
pub(crate) async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future).await.expect("it does not hang")
}

/// Waits until `condition` holds.
pub(crate) async fn until(condition: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "it does not come about");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Starts `future` and stops waiting for it, like a caller whose connection broke.
pub(crate) async fn abandon(future: impl Future) {
    let mut future = pin!(future);
    poll_fn(|cx| {
        drop(future.as_mut().poll(cx));
        Poll::Ready(())
    })
    .await;
}

/// Keeps one writing thread busy until the returned value is dropped.
pub(crate) async fn hold(store: &Store) -> mpsc::Sender<()> {
    hold_with(|work| store.write(work)).await
}

/// Keeps the thread that writes `key` busy until the returned value is dropped.
pub(crate) async fn hold_on(store: &Store, key: &str) -> mpsc::Sender<()> {
    hold_with(|work| store.write_on(key, work)).await
}

async fn hold_with<F: Future>(write: impl FnOnce(Held) -> F) -> mpsc::Sender<()> {
    let (entered, mut entering) = tokio::sync::mpsc::unbounded_channel();
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(released);
    abandon(write(Box::new(move |_| {
        entered.send(()).ok();
        released.lock().unwrap().recv().ok();
        Ok::<_, StoreError>(())
    })))
    .await;
    soon(entering.recv()).await.unwrap();
    release
}

/// Work that keeps a thread busy.
type Held = Box<dyn Fn(&mut dyn Tx) -> Result<(), StoreError> + Send>;

/// Starts a write and returns once it waits behind the one that [`hold`]s the only writing thread.
pub(crate) async fn queue<T, F>(store: &Store, work: F) -> JoinHandle<Result<T, StoreError>>
where
    F: Fn(&mut dyn Tx) -> Result<T, StoreError> + Send + 'static,
    T: Send + 'static,
{
    let before = store.queued();
    let task = tokio::spawn({
        let store = store.clone();
        async move { soon(store.write(work)).await }
    });
    until(|| store.queued() > before).await;
    task
}

/// Like [`queue`] on `key`, with errors of any kind.
pub(crate) async fn queue_on<T, E, F>(store: &Store, key: &'static str, work: F) -> JoinHandle<Result<T, E>>
where
    F: Fn(&mut dyn Tx) -> Result<T, E> + Send + 'static,
    T: Send + 'static,
    E: From<StoreError> + Send + 'static,
{
    let before = store.queued();
    let task = tokio::spawn({
        let store = store.clone();
        async move { soon(store.write_on(key, work)).await }
    });
    until(|| store.queued() > before).await;
    task
}

pub(crate) fn record(name: &str, endpoint: Option<&str>) -> Record {
    Record { name: name.into(), endpoint: endpoint.map(Into::into), card: None }
}

/// Creates an agent whose key derives from its name.
pub(crate) async fn agent(store: &Store, name: &str) -> Agent {
    add(store, record(name, None)).await
}

/// Creates an agent with an endpoint.
pub(crate) async fn webhook(store: &Store, name: &str) -> Agent {
    add(store, record(name, Some("https://agent.example/"))).await
}

async fn add(store: &Store, record: Record) -> Agent {
    let (id, trace) = (AgentId(fresh()), TraceId(fresh()));
    let insert = move |tx: &mut dyn Tx| directory::insert(tx, id, &record, &key(&record.name), trace, NOW);
    write(store, insert).await
}

/// Returns a message sent at [`NOW`] without a key.
pub(crate) fn message(sender: &Agent, receiver: &Agent) -> relay::Send {
    relay::Send {
        sender: sender.id,
        receiver: receiver.name.clone(),
        envelope: "{}".into(),
        event: EventId(fresh()),
        trace: TraceId(fresh()),
        keys: vec![],
        turn: None,
        stream: false,
        lease: Lease { owner: NODE, until: LEASE_END },
        now: NOW,
    }
}

pub(crate) async fn send(store: &Store, message: relay::Send) -> Result<Sent, SendError> {
    soon(store.write(move |tx: &mut dyn Tx| relay::send(tx, &message))).await
}

/// Sends to an inbox. Returns the message's position there and its state.
pub(crate) async fn deliver(store: &Store, message: relay::Send) -> (i64, DeliveryState) {
    match send(store, message).await.unwrap() {
        Sent::Stored { seq, outcome, .. } => (seq, outcome.delivery),
        other => panic!("not stored: {other:?}"),
    }
}

/// Sends to an endpoint. Returns the pending POST.
pub(crate) async fn post(store: &Store, message: relay::Send) -> Pending {
    match send(store, message).await.unwrap() {
        Sent::Pending(posting) => posting,
        other => panic!("not to be posted: {other:?}"),
    }
}

/// Returns everything in an inbox and its history.
pub(crate) async fn entries(store: &Store, agent: AgentId) -> Vec<Entry> {
    read(store, move |tx| deliveries::page(tx, agent, 0, 10_000, usize::MAX)).await
}

/// Returns the column `count` of a statement's first row.
pub(crate) async fn count(store: &Store, sql: &'static str) -> i64 {
    use chorus_store::TxExt as _;
    read(store, move |tx| tx.first(sql, &[])?.map_or(Ok(0), |mut row| row.int("count"))).await
}

/// Records the outcome of a POST.
pub(crate) async fn posted(store: &Store, posting: Pending, delivery: DeliveryState, now: i64) {
    let outcome = Outcome {
        delivery,
        receiver_response: None,
        error_code: None,
        detail: None,
        trace_id: Some(TraceId(fresh()).into()),
    };
    write(store, move |tx| relay::record_outcome(tx, &posting, &outcome, now)).await;
}
