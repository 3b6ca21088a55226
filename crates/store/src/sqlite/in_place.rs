//! The embedded database without threads: whoever asks runs its closure itself, at once, and has the answer before it waits.
//!
//! In memory, for simulations and tests: what happens depends on nothing but the order in which things are asked for. A closure
//! may run twice, and here it can be made to: every so many-th write is taken back first, and run again.
//!
//! Everything else is as on a thread, by the same code. But a closure, an action and a waker run while the database is held, so none
//! of them may wait for it.

use super::options::SqliteOptions;
use super::writer::Writer;
use crate::work::{Purpose, Work};
use crate::{StoreError, WakerSlot};
use std::num::NonZeroU32;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub(crate) struct InPlace {
    /// None once another one has it.
    database: Mutex<Option<Box<Database>>>,
}

struct Database {
    writer: Writer,
    rerun_every: Option<NonZeroU32>,
    writes: u32,
    waker: WakerSlot,
}

impl InPlace {
    pub(crate) fn open(rerun_every: Option<NonZeroU32>, waker: WakerSlot) -> Result<Self, StoreError> {
        let writer = Writer::open(&SqliteOptions::in_memory())?;
        Ok(Self::new(Database { writer, rerun_every, writes: 0, waker }))
    }

    fn new(database: Database) -> Self {
        Self { database: Mutex::new(Some(Box::new(database))) }
    }

    /// The same database as a new process finds it. For the former one it is closed.
    pub(crate) fn reopen(&self, waker: WakerSlot) -> Result<Self, StoreError> {
        let Database { writer, rerun_every, writes, .. } =
            *self.database().take().ok_or(StoreError::Closed)?;
        let writer = Writer::begin(writer.session)?;
        Ok(Self::new(Database { writer, rerun_every, writes, waker }))
    }

    pub(crate) fn run(&self, purpose: Purpose, work: Box<dyn Work>) -> Result<(), StoreError> {
        let mut batch = [work];
        let outcome = {
            let mut database = self.database();
            let database = database.as_mut().ok_or(StoreError::Closed)?;
            match purpose {
                Purpose::Write | Purpose::WriteOn(_) => database.write(&mut batch),
                Purpose::Read | Purpose::ReadTogether | Purpose::Authenticate => database.read(&mut batch),
            }
        };
        let [work] = batch;
        work.finish(outcome);
        Ok(())
    }

    /// Closures that panic are caught, so a poisoned lock is still good.
    fn database(&self) -> MutexGuard<'_, Option<Box<Database>>> {
        self.database.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Database {
    fn write(&mut self, batch: &mut [Box<dyn Work>; 1]) -> Result<(), StoreError> {
        self.writes = self.writes.wrapping_add(1);
        let [work] = &mut *batch;
        let rolled_back = match self.rerun_every {
            Some(every) if self.writes % every == 0 => self.writer.run_and_roll_back(&mut **work),
            _ => Ok(()),
        };
        let outcome = rolled_back.and_then(|()| self.writer.commit(batch, &mut || ()));
        if outcome.is_err() {
            self.writer.recover(&SqliteOptions::in_memory());
        }
        outcome.map(|after| after.happen(&self.waker))
    }

    fn read(&mut self, [work]: &mut [Box<dyn Work>; 1]) -> Result<(), StoreError> {
        // There is one connection, and whoever reads must not write.
        let session = &mut self.writer.session;
        session.only_reads = true;
        let outcome = session.read(&mut **work, Duration::MAX);
        session.only_reads = false;
        outcome
    }
}
