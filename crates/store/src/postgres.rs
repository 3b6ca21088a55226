//! The served database: the same closures on a few worker threads, and wake-ups between nodes.
//!
//! Workers are threads with a blocking client each, never part of the async runtime. Like SQLite's writer, a worker takes
//! what has gathered into one transaction, commits, and only then answers all of it: group commit, without a timer. `worker`
//! says how, and why nothing is lost or done twice; `together` how closures of one kind share their round trips as well.
//!
//! Writes that come in crowds and number one stream each (`Store::write_on`) are spread over lanes, one worker each, by that
//! stream: so workers of one node hardly ever want the same row. All other writes are taken by whichever worker is free.

mod many;
mod migrate;
mod session;
mod target;
mod tls;
mod together;
mod wakeups;
mod worker;

pub(crate) use migrate::migrate;
use session::classify;

use crate::migrate::MIGRATIONS;
use crate::queue::Queue;
use crate::threads::{join, spawn};
use crate::work::{Purpose, Work};
use crate::{READ_TIME, SignSlot, StoreError, StreamKey, WakerSlot};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use target::Target;
use uuid::Uuid;
use wakeups::{News, listen_loop, notify_loop};
use worker::{Duty, Worker};

/// Options for opening a PostgreSQL store.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// `postgres://…`
    pub url: String,
    /// The id of this node. Its own wake-ups are ignored.
    pub node: Uuid,
    pub workers: usize,
    /// The maximum number of waiting closures.
    pub queue: usize,
    /// The time limit of a read.
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
    writes: Queue<Box<dyn Work>>,
    lanes: Vec<Queue<Box<dyn Work>>>,
    reads: Queue<Box<dyn Work>>,
    shared_reads: Queue<Box<dyn Work>>,
    authentications: Queue<Box<dyn Work>>,
    news: Queue<News>,
    stopping: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Postgres {
    pub(crate) fn open(
        options: PostgresOptions,
        waker: WakerSlot,
        signs: SignSlot,
    ) -> Result<Self, StoreError> {
        let target = Target::parse(&options.url)?;
        target.alone(|client| migrate(client, MIGRATIONS))?;

        let (writes, reads) = (Queue::new(options.queue), Queue::new(options.queue));
        let (shared_reads, authentications) = (Queue::new(options.queue), Queue::new(options.queue));
        let news = Queue::new(100_000);
        let stopping = Arc::new(AtomicBool::new(false));
        let mut threads = vec![];
        // A quarter of the workers serves reads, so that a burst of writes leaves them a way through. As many more find out
        // who calls, and one does the reads that share their round trips: the longer it is busy, the more share the next. Lanes have workers of their own: a write that waits for a lock keeps its worker from all others. They are few: a transaction costs the
        // server about as much as the rows of ten messages, so that it is worth more to share one than to make two at a time.
        let workers = options.workers.max(2);
        let readers = (workers + 2) / 4;
        let writers = workers - readers;
        let lanes: Vec<_> = (0..writers.div_ceil(3)).map(|_| Queue::new(options.queue)).collect();
        let (read, together) = (Duty::Read(options.read_time), Duty::ReadTogether(options.read_time));
        let queues = lanes.iter().map(|lane| (lane, Duty::Crowd));
        let queues = queues.chain((0..writers).map(|_| (&writes, Duty::Write)));
        let queues = queues.chain((0..readers).map(|_| (&reads, read)));
        let queues = queues.chain((0..workers.div_ceil(4)).map(|_| (&authentications, together)));
        let queues = queues.chain([(&shared_reads, together)]);
        for (n, (queue, duty)) in queues.enumerate() {
            let worker = Worker::new(target.clone(), duty, Arc::clone(&waker), news.clone());
            let queue = queue.clone();
            threads.push(spawn(&format!("store-{n}"), move || worker.run(&queue))?);
        }
        threads.push(spawn("store-notify", {
            let (target, news, node) = (target.clone(), news.clone(), options.node);
            move || notify_loop(&target, &news, node)
        })?);
        threads.push(spawn("store-listen", {
            let stopping = Arc::clone(&stopping);
            move || listen_loop(&target, options.node, &waker, &signs, &stopping)
        })?);
        Ok(Self { writes, lanes, reads, shared_reads, authentications, news, stopping, threads })
    }

    /// Returns the queue for closures of this purpose.
    pub(crate) fn queue(&self, purpose: Purpose) -> &Queue<Box<dyn Work>> {
        match purpose {
            Purpose::Write => &self.writes,
            Purpose::WriteOn(key) => {
                let count = self.lanes.len().max(1) as u64;
                self.lanes.get((key % count) as usize).unwrap_or(&self.writes)
            }
            Purpose::Read => &self.reads,
            Purpose::ReadTogether => &self.shared_reads,
            Purpose::Authenticate => &self.authentications,
        }
    }

    /// Sends a sign to other nodes. It is dropped if the queue is full.
    pub(crate) fn pass(&self, stream: StreamKey, sign: &[u8]) {
        drop(self.news.push(News::Sign(stream, sign.to_vec())));
    }

    /// Returns the number of writes in the queue.
    pub(crate) fn queued(&self) -> usize {
        self.writes.len() + self.lanes.iter().map(Queue::len).sum::<usize>()
    }
}

impl Drop for Postgres {
    /// Everything queued is finished before the connections are closed.
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        self.writes.close();
        self.lanes.iter().for_each(Queue::close);
        self.reads.close();
        self.shared_reads.close();
        self.authentications.close();
        self.news.close();
        join(self.threads.drain(..));
    }
}
