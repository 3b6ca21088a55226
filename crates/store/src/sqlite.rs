//! The embedded database: one writer thread, one that flushes what it wrote, a few readers, one checkpointer.
//!
//! The writer drains its queue into one transaction per batch and commits; once that is flushed, all of it is answered. While one
//! batch is flushed the next one is run and a third one gathers; there is no timer.
//! One process only: heads of streams are cached in the writer, so a lock file keeps a second hub out.

mod appends;
mod backup;
mod checkpoint;
mod files;
mod flushing;
mod heads;
mod in_place;
mod inspect;
mod migrate;
mod options;
mod remembered;
mod session;
mod tables;
mod writer;

pub use backup::backup;
pub(crate) use in_place::InPlace;
pub use inspect::{Diagnosis, diagnose};
pub(crate) use migrate::migrate;
pub use options::{Durability, SqliteOptions};

use crate::queue::Queue;
use crate::threads::{join, spawn};
use crate::work::{Purpose, Work};
use crate::{StoreError, WakerSlot};
use flushing::{Committed, Flushing};
use session::Session;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use writer::Writer;

/// The most closures in one transaction.
const MAX_BATCH: usize = 256;

pub(crate) struct Sqlite {
    writes: Queue<Box<dyn Work>>,
    reads: Queue<Box<dyn Work>>,
    authentications: Queue<Box<dyn Work>>,
    threads: Vec<JoinHandle<()>>,
    /// The number of commits that changed something.
    changes: Arc<AtomicU64>,
    /// Dropped to end the checkpointer.
    checkpointer: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Sqlite {
    pub(crate) fn open(options: SqliteOptions, waker: WakerSlot) -> Result<Self, StoreError> {
        // Held until the last write is done and answered.
        let lock = Arc::new(options.path.as_deref().map(files::lock).transpose()?);
        options.path.as_deref().map(files::make_private).transpose()?;
        let mut writer = Writer::open(&options)?;
        let changes = Arc::clone(&writer.changes);
        // Set by the checkpointer when the log has grown large.
        let crowded = Arc::new(AtomicBool::new(false));
        let flushing = Arc::new(Flushing::default());

        let writes = Queue::new(options.queue);
        let mut threads = vec![];
        let (mut reads, mut authentications) = (writes.clone(), writes.clone());
        let (mut checkpointer, mut flusher) = (None, None);
        if let Some(path) = options.path.as_deref() {
            reads = Queue::new(options.queue);
            for n in 0..options.readers.max(1) {
                threads.push(reader(&format!("store-read-{n}"), &options, &reads, &flushing)?);
            }
            authentications = Queue::new(options.queue);
            threads.push(reader("store-authenticate", &options, &authentications, &flushing)?);
            let session = Session::open(&options, false)?;
            let crowded = Arc::clone(&crowded);
            let database = File::open(path).map_err(StoreError::unexpected)?;
            let (stop, stopped) = channel();
            let thread = spawn("store-checkpoint", move || {
                checkpoint::run(&session, &database, &crowded, &stopped);
            })?;
            checkpointer = Some((stop, thread));
            if options.durability == Durability::Full {
                let log = File::open(files::beside(path, "-wal")).map_err(StoreError::unexpected)?;
                // No place in it: the writer waits here until the batch before this one is flushed.
                let (sender, committed) = sync_channel(0);
                flusher = Some((sender, Arc::clone(&flushing)));
                let (waker, lock) = (Arc::clone(&waker), Arc::clone(&lock));
                threads.push(spawn("store-flush", move || {
                    flushing::run(&committed, &flushing, &waker, || log.sync_data());
                    drop(lock);
                })?);
            }
        }
        threads.push(spawn("store-write", {
            let (queue, options) = (writes.clone(), options);
            move || {
                write_loop(&mut writer, &queue, &options, &crowded, flusher.as_ref(), &waker);
                drop(lock);
            }
        })?);
        Ok(Self { writes, reads, authentications, threads, changes, checkpointer })
    }

    /// Returns the queue for closures of this purpose.
    pub(crate) fn queue(&self, purpose: Purpose) -> &Queue<Box<dyn Work>> {
        match purpose {
            Purpose::Write | Purpose::WriteOn(_) => &self.writes,
            Purpose::Read | Purpose::ReadTogether => &self.reads,
            Purpose::Authenticate => &self.authentications,
        }
    }

    /// Returns the number of commits that changed something.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Returns the number of writes in the queue.
    pub(crate) fn queued(&self) -> usize {
        self.writes.len()
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

/// A thread that reads what is queued.
fn reader(
    name: &str,
    options: &SqliteOptions,
    queue: &Queue<Box<dyn Work>>,
    flushing: &Arc<Flushing>,
) -> Result<JoinHandle<()>, StoreError> {
    let (mut session, queue, time) = (Session::open(options, true)?, queue.clone(), options.read_time);
    let flushing = Arc::clone(flushing);
    session.interrupt_when_over()?;
    spawn(name, move || {
        loop {
            let batch = queue.take(1);
            if batch.is_empty() {
                return;
            }
            for mut work in batch {
                let outcome = session.read(&mut *work, time);
                flushing.finish_read(work, outcome);
            }
        }
    })
}

/// The thread that flushes commits, and its state.
type Flusher = (SyncSender<Committed>, Arc<Flushing>);

/// Writes what is queued. Without a flusher what was committed is answered at once.
fn write_loop(
    writer: &mut Writer,
    queue: &Queue<Box<dyn Work>>,
    options: &SqliteOptions,
    crowded: &AtomicBool,
    flusher: Option<&Flusher>,
    waker: &WakerSlot,
) {
    let mut number = 0;
    loop {
        let mut batch = queue.take(MAX_BATCH);
        if batch.is_empty() {
            return;
        }
        let outcome = writer.commit(&mut batch, &mut || {
            if let Some((_, flushing)) = flusher {
                number = flushing.next();
            }
        });
        if let Err(error) = &outcome {
            tracing::error!(
                error = error as &dyn std::error::Error,
                closures = batch.len(),
                "a batch was not committed"
            );
            writer.recover(options);
        }
        let committed = Committed { number, batch, outcome };
        match flusher {
            // Gone only if its thread died, and then nobody may be told that it is kept.
            Some((flusher, _)) => drop(flusher.send(committed)),
            None => committed.finish(waker),
        }
        if crowded.swap(false, Ordering::AcqRel) {
            checkpoint::finish(&writer.session.connection);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn success_means_on_the_disk_unless_told_otherwise() {
        let folder = tempfile::tempdir().unwrap();
        for (durability, flushes) in [(Durability::Full, true), (Durability::Relaxed, false)] {
            let options =
                SqliteOptions { durability, ..SqliteOptions::file(folder.path().join("chorus.db")) };
            let store = Sqlite::open(options, WakerSlot::default()).unwrap();
            let flusher = store.threads.iter().any(|thread| thread.thread().name() == Some("store-flush"));
            assert_eq!(flusher, flushes, "{durability:?}");
        }
    }
}
