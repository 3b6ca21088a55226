//! A real hub on a free port.
//!
//! It runs in its own threads, so that it continues while a test blocks. Dropping it stops it, and asserts
//! that `run` returned in time and that none of its threads panicked.

use super::{HOST, OPERATOR};
use chorus_hub::Policy;
use chorus_hub::{Config, Environment, MasterKey, RunError, key_hash, run};
use chorus_store::{PostgresOptions, SqliteOptions, Store, StoreError, Tx};
use chorus_testkit::clock::ManualClock;
use chorus_testkit::postgres::{self, Database};
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::runtime::Builder;
use tokio::sync::oneshot;

/// The longest time that a stop may take.
const STOPS_WITHIN: Duration = Duration::from_secs(15);

/// The names of threads that panicked.
static PANICKED: Mutex<Vec<String>> = Mutex::new(Vec::new());
static HUBS: AtomicU32 = AtomicU32::new(0);

/// The configuration of a test hub. Its data lives as long as any clone.
#[derive(Clone)]
pub(crate) struct Setup {
    config: Config,
    clock: Option<ManualClock>,
    queue: usize,
    everywhere: bool,
    data: Data,
}

#[derive(Clone)]
enum Data {
    Sqlite(Arc<TempDir>),
    Postgres(Arc<Database>),
}

impl Setup {
    /// SQLite in a temporary folder, loopback allowed for webhooks, no rate limits, short timeouts.
    pub(crate) fn new() -> Self {
        Self::on(Data::Sqlite(Arc::new(tempfile::tempdir().unwrap())))
    }

    /// The same on a fresh PostgreSQL database. Clones share it, as the nodes of one hub do.
    pub(crate) fn postgres() -> Self {
        Self::on(Data::Postgres(Arc::new(postgres::database())))
    }

    fn on(data: Data) -> Self {
        let node = Environment::system().uuid_v4();
        let mut config = Config::new(node, HOST, key_hash(OPERATOR), MasterKey::new([7; 32]));
        config.outbound = Policy { allow: vec!["127.0.0.0/8".parse().unwrap()] };
        config.rate_limit = None;
        config.rate_limit_anonymous = None;
        config.webhook_timeout = Duration::from_secs(10);
        config.times.drain = Duration::from_secs(3);
        Self { config, clock: None, queue: 4096, everywhere: false, data }
    }

    pub(crate) fn config(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        self
    }

    /// Uses this clock as the hub's time.
    pub(crate) fn clock(mut self, clock: &ManualClock) -> Self {
        self.clock = Some(clock.clone());
        self
    }

    /// Sets how many writes may wait for the store.
    pub(crate) fn queue(mut self, queue: usize) -> Self {
        self.queue = queue;
        self
    }

    /// Listens on all interfaces.
    pub(crate) fn listen_everywhere(mut self) -> Self {
        self.everywhere = true;
        self
    }

    pub(crate) fn start(&self) -> TestHub {
        watch_panics();
        // The client comes first, because it installs the TLS provider that the hub's own client needs.
        let client = chorus_testkit::http::client();
        let mut config = self.config.clone();
        config.node = Environment::system().uuid_v4();
        let open = || match &self.data {
            Data::Sqlite(dir) => Store::sqlite(SqliteOptions {
                queue: self.queue,
                ..SqliteOptions::file(dir.path().join("db"))
            }),
            Data::Postgres(database) => Store::postgres(PostgresOptions {
                workers: 4,
                queue: self.queue,
                ..PostgresOptions::new(&database.url, config.node)
            }),
        };
        // The last task of a stopped hub may still hold the store.
        let mut store = open();
        for _ in 0..100 {
            if store.is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
            store = open();
        }
        let store = store.expect("nobody else uses the data");
        let address = if self.everywhere { "0.0.0.0:0" } else { "127.0.0.1:0" };
        let listener = std::net::TcpListener::bind(address).unwrap();
        listener.set_nonblocking(true).unwrap();
        let addr = SocketAddr::from(([127, 0, 0, 1], listener.local_addr().unwrap().port()));
        if config.public_url == format!("http://{HOST}") {
            config.public_url = format!("http://{addr}");
        }
        let environment = self.clock.clone().map_or_else(Environment::system, |clock| {
            let passing = clock.clone();
            Environment::with_clocks(move || clock.now(), move || passing.elapsed())
        });

        let name = format!("hub-{}.", HUBS.fetch_add(1, Ordering::Relaxed));
        let (stop, stopped) = oneshot::channel::<()>();
        let (end, ended) = mpsc::channel();
        let runtime =
            Builder::new_multi_thread().worker_threads(2).thread_name(&name).enable_all().build().unwrap();
        let serve = {
            let store = store.clone();
            async move {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                let shutdown = async move { drop(stopped.await) };
                run(listener, store, config, environment, shutdown).await
            }
        };
        let thread = thread::Builder::new().name(name.clone());
        let work = move || {
            end.send(runtime.block_on(serve)).ok();
            runtime.shutdown_background();
        };
        thread.spawn(work).unwrap();
        let running = Some(Running { name, stop, ended });
        TestHub {
            url: format!("http://{addr}"),
            addr,
            client,
            store: Some(store),
            running,
            setup: self.clone(),
        }
    }
}

fn watch_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let name = thread::current().name().unwrap_or_default().to_owned();
            PANICKED.lock().unwrap_or_else(PoisonError::into_inner).push(name);
            usual(info);
        }));
    });
}

struct Running {
    name: String,
    stop: oneshot::Sender<()>,
    ended: mpsc::Receiver<Result<(), RunError>>,
}

/// A running hub.
pub(crate) struct TestHub {
    pub(crate) url: String,
    pub(crate) addr: SocketAddr,
    pub(crate) client: reqwest::Client,
    store: Option<Store>,
    running: Option<Running>,
    setup: Setup,
}

impl Drop for TestHub {
    fn drop(&mut self) {
        self.end();
    }
}

impl TestHub {
    pub(crate) fn start() -> Self {
        Setup::new().start()
    }

    pub(crate) fn postgres() -> Self {
        Setup::postgres().start()
    }

    /// Returns the database, for data that no door shows.
    pub(crate) fn store(&self) -> &Store {
        self.store.as_ref().expect("it is there until the hub is stopped")
    }

    /// Returns the setup for another hub on the same data.
    pub(crate) fn setup(&self) -> Setup {
        self.setup.clone()
    }

    fn end(&mut self) {
        let Some(Running { name, stop, ended }) = self.running.take() else { return };
        drop(stop);
        drop(self.store.take());
        let ended = ended.recv_timeout(STOPS_WITHIN);
        if thread::panicking() {
            return;
        }
        assert!(matches!(ended, Ok(Ok(()))), "the hub did not stop well: {ended:?}");
        let panicked = {
            let threads = PANICKED.lock().unwrap_or_else(PoisonError::into_inner);
            // This is not inside the assertion, because its panic would take the same lock.
            threads.iter().any(|thread| thread.starts_with(&name))
        };
        assert!(!panicked, "the hub panicked; see above");
    }

    /// Stops the hub as SIGTERM would. Returns the time it took.
    pub(crate) async fn stop(mut self) -> Duration {
        let begun = Instant::now();
        tokio::task::spawn_blocking(move || self.end()).await.unwrap();
        begun.elapsed()
    }

    /// Stops the hub and starts another one on the same data.
    pub(crate) async fn restart(self, change: impl FnOnce(&mut Config)) -> Self {
        let setup = self.setup().config(change);
        self.stop().await;
        setup.start()
    }

    /// Keeps the readers of a SQLite store busy until the returned values are dropped. Authentication still
    /// works.
    pub(crate) async fn block_reads(&self) -> Vec<mpsc::Sender<()>> {
        let mut held = vec![];
        for _ in 0..SqliteOptions::in_memory().readers {
            let (work, begun, release) = held_work();
            let store = self.store().clone();
            tokio::spawn(async move { store.read(work).await });
            begun.await.expect("there is room in the queue");
            held.push(release);
        }
        held
    }

    /// Keeps the store's writer busy until the returned value is dropped.
    pub(crate) async fn block_writes(&self) -> mpsc::Sender<()> {
        let (work, begun, release) = held_work();
        let store = self.store().clone();
        tokio::spawn(async move { store.write(work).await });
        begun.await.expect("there is room in the queue");
        release
    }

    /// Blocks the writer and fills its queue.
    pub(crate) async fn fill_queue(&self) -> mpsc::Sender<()> {
        let release = self.block_writes().await;
        while self.store().queued() < self.setup.queue {
            let store = self.store().clone();
            tokio::spawn(async move { store.write(|_: &mut dyn Tx| Ok::<_, StoreError>(())).await });
            tokio::task::yield_now().await;
        }
        release
    }

    /// Returns everything the database has on disk.
    pub(crate) fn bytes_on_disk(&self) -> Vec<u8> {
        let Data::Sqlite(dir) = &self.setup.data else { panic!("not in a folder") };
        let files = std::fs::read_dir(dir.path()).unwrap().map(|file| file.unwrap().path());
        files.flat_map(|file| std::fs::read(file).unwrap()).collect()
    }
}

type Work = Box<dyn Fn(&mut dyn Tx) -> Result<(), StoreError> + Send>;

/// Returns work for the store, a signal that it has begun, and a value whose drop ends it.
fn held_work() -> (Work, oneshot::Receiver<()>, mpsc::Sender<()>) {
    let (begin, begun) = oneshot::channel();
    let (release, released) = mpsc::channel();
    let hold = Mutex::new(Some((begin, released)));
    let work = move |_: &mut dyn Tx| {
        if let Some((begin, released)) = hold.lock().unwrap_or_else(PoisonError::into_inner).take() {
            begin.send(()).ok();
            released.recv().ok();
        }
        Ok(())
    };
    (Box::new(work), begun, release)
}

/// Every test relies on this when it drops its hub.
#[tokio::test]
async fn a_panic_inside_the_hub_is_noticed() {
    let hub = TestHub::start();
    let thread = thread::Builder::new().name(hub.running.as_ref().unwrap().name.clone());
    thread.spawn(|| panic!("on purpose")).unwrap().join().unwrap_err();
    std::panic::catch_unwind(AssertUnwindSafe(|| drop(hub))).unwrap_err();
}
