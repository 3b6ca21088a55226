//! Records that are written to the store a moment later and many at once, so that a record costs no commit.
//!
//! The number of unwritten records is bounded; further ones are dropped. A crash loses the last half second.

use chorus_store::{Store, StoreError, Tx};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use uuid::Uuid;

/// Records that one transaction writes.
const TOGETHER: usize = 200;

/// Limits on unwritten records, so that nobody displaces the records of others.
pub(super) struct UnwrittenLimits {
    pub(super) all: usize,
    pub(super) of_one_writer: usize,
}

/// Unwritten records of one kind.
pub(super) struct WriteBehind<T> {
    waiting: Mutex<Waiting<T>>,
    limits: UnwrittenLimits,
    write: fn(&mut dyn Tx, &[T]) -> Result<(), StoreError>,
}

struct Waiting<T> {
    records: Vec<T>,
    /// The number of records by writer.
    counts: HashMap<Uuid, usize>,
}

impl<T: Clone + Send + Sync + 'static> WriteBehind<T> {
    pub(super) fn new(
        limits: UnwrittenLimits,
        write: fn(&mut dyn Tx, &[T]) -> Result<(), StoreError>,
    ) -> Self {
        let waiting = Mutex::new(Waiting { records: vec![], counts: HashMap::new() });
        Self { waiting, limits, write }
    }

    /// Adds a record unless a limit is reached, and returns whether it is kept.
    pub(super) fn push(&self, writer: Uuid, record: impl FnOnce() -> T) -> bool {
        let mut waiting = self.waiting();
        let own = waiting.counts.get(&writer).copied().unwrap_or_default();
        let has_room = waiting.records.len() < self.limits.all && own < self.limits.of_one_writer;
        if has_room {
            waiting.counts.insert(writer, own + 1);
            waiting.records.push(record());
        }
        has_room
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting<T>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the records since the last flush, in their order. Those that could not be written stay for the
    /// next flush.
    pub(super) async fn flush(&self, store: &Store) -> Result<(), StoreError> {
        let records = {
            let mut waiting = self.waiting();
            waiting.counts.clear();
            Arc::new(std::mem::take(&mut waiting.records))
        };
        for start in (0..records.len()).step_by(TOGETHER) {
            let (write, all) = (self.write, Arc::clone(&records));
            let write = move |tx: &mut dyn Tx| {
                let end = all.len().min(start + TOGETHER);
                write(tx, &all[start..end])
            };
            if let Err(error) = store.write::<_, StoreError, _>(write).await {
                self.waiting().records.splice(..0, records[start..].iter().cloned());
                return Err(error);
            }
        }
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn unwritten(&self) -> Vec<T> {
        self.waiting().records.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    static FAILS: AtomicBool = AtomicBool::new(true);
    static WRITTEN: Mutex<Vec<usize>> = Mutex::new(vec![]);

    fn write(_: &mut dyn Tx, records: &[usize]) -> Result<(), StoreError> {
        if FAILS.load(Ordering::SeqCst) && records.contains(&TOGETHER) {
            return Err(StoreError::Unexpected("the disk is full".into()));
        }
        WRITTEN.lock().unwrap().extend(records);
        Ok(())
    }

    #[tokio::test]
    async fn records_that_cannot_be_written_stay_in_order_and_are_bounded() {
        let store = Store::in_place(None).unwrap();
        let records = WriteBehind::new(UnwrittenLimits { all: 500, of_one_writer: 450 }, write);
        let (one, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        assert_eq!((0..1000).filter(|n| records.push(one, || *n)).count(), 450);
        assert_eq!((1000..2000).filter(|n| records.push(other, || *n)).count(), 50);
        records.flush(&store).await.unwrap_err();
        assert_eq!(*WRITTEN.lock().unwrap(), (0..TOGETHER).collect::<Vec<_>>());
        assert!(records.push(other, || 2000));
        FAILS.store(false, Ordering::SeqCst);
        records.flush(&store).await.unwrap();
        assert_eq!(*WRITTEN.lock().unwrap(), (0..450).chain(1000..1050).chain([2000]).collect::<Vec<_>>());
        assert!(records.unwritten().is_empty());
    }
}
