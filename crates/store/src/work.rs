//! A unit of work on its way through the store's threads: the closure, and the promise of its answer.
//!
//! The answer is kept back until the commit is known: `run` computes it, `finish` delivers it, or the reason why
//! there is none.

use crate::usage::Meter;
use crate::{Kind, MeterSlot, Param, Row, StoreError, StreamKey, Tx};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use tokio::sync::oneshot;

/// A closure as the threads see it.
pub(crate) trait Work: Send {
    /// Does the work and says whether to keep its changes.
    fn run(&mut self, tx: &mut dyn Tx) -> bool;
    /// Answers the caller: with the result of the last run, or with the failure of the commit.
    fn finish(self: Box<Self>, committed: Result<(), StoreError>);
}

/// The purpose of a closure, which decides which thread runs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Write,
    /// To write where many do; the number stands for the stream that it numbers.
    WriteOn(u64),
    Read,
    /// To read a little, as many others do at the same moment.
    ReadTogether,
    /// To find out who calls.
    Authenticate,
}

struct Closure<T, E, F> {
    work: F,
    meter: MeterSlot,
    result: Option<Result<T, E>>,
    answer: oneshot::Sender<Result<T, E>>,
}

/// Packs `work`, and returns where its answer will arrive. Bytes that it stores are counted by `meter`.
pub(crate) fn pack<T, E, F>(work: F, meter: MeterSlot) -> (Box<dyn Work>, oneshot::Receiver<Result<T, E>>)
where
    F: Fn(&mut dyn Tx) -> Result<T, E> + Send + 'static,
    T: Send + 'static,
    E: From<StoreError> + Send + 'static,
{
    let (answer, receiver) = oneshot::channel();
    (Box::new(Closure { work, meter, result: None, answer }), receiver)
}

impl<T, E, F> Work for Closure<T, E, F>
where
    F: Fn(&mut dyn Tx) -> Result<T, E> + Send,
    T: Send,
    E: From<StoreError> + Send,
{
    fn run(&mut self, tx: &mut dyn Tx) -> bool {
        let mut tx = Watched { tx, meter: &self.meter, failed: None };
        // A panic fails this work, not the thread it shares with everybody else's.
        let mut result = catch_unwind(AssertUnwindSafe(|| (self.work)(&mut tx)))
            .unwrap_or_else(|_| Err(StoreError::Panicked.into()));
        if let (Ok(_), Some(failed)) = (&result, tx.failed) {
            result = Err(StoreError::unexpected(format!("the work went on after {failed}")).into());
        }
        let keep = result.is_ok();
        self.result = Some(result);
        keep
    }

    fn finish(self: Box<Self>, committed: Result<(), StoreError>) {
        let result = match (committed, self.result) {
            (Ok(()), Some(result)) => result,
            (Ok(()), None) => Err(StoreError::Closed.into()),
            (Err(error), _) => Err(error.into()),
        };
        // A caller that stopped waiting is no fault: the work is done either way.
        drop(self.answer.send(result));
    }
}

/// Notes the first error of a transaction. Nothing may be committed after one: PostgreSQL has given everything up
/// by then, and would answer COMMIT as if it had not.
struct Watched<'a> {
    tx: &'a mut dyn Tx,
    meter: &'a MeterSlot,
    failed: Option<String>,
}

impl Watched<'_> {
    fn note<T>(&mut self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        if let (Err(error), None) = (&result, &self.failed) {
            self.failed = Some(format!("{error:?}"));
        }
        result
    }
}

impl Tx for Watched<'_> {
    fn execute(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<u64, StoreError> {
        let result = self.tx.execute(sql, params);
        self.note(result)
    }

    fn append(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<(), StoreError> {
        let result = self.tx.append(sql, params);
        self.note(result)
    }

    fn each(
        &mut self,
        sql: &'static str,
        params: &[Param<'_>],
        take: &mut dyn FnMut(Row) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        let result = self.tx.each(sql, params, take);
        self.note(result)
    }

    fn first_cached(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<Option<Row>, StoreError> {
        let result = self.tx.first_cached(sql, params);
        self.note(result)
    }

    fn next_seq(&mut self, stream: StreamKey) -> Result<i64, StoreError> {
        let result = self.tx.next_seq(stream);
        self.note(result)
    }

    fn head(&mut self, stream: StreamKey) -> Result<i64, StoreError> {
        let result = self.tx.head(stream);
        self.note(result)
    }

    fn set_head(&mut self, stream: StreamKey, head: i64) -> Result<(), StoreError> {
        let result = self.tx.set_head(stream, head);
        self.note(result)
    }

    fn lock(&mut self, stream: StreamKey) -> Result<(), StoreError> {
        let result = self.tx.lock(stream);
        self.note(result)
    }

    fn kind(&self) -> Kind {
        self.tx.kind()
    }

    fn after_commit(&mut self, action: Box<dyn FnOnce() + Send>) {
        self.tx.after_commit(action);
    }

    fn meter(&self) -> Option<Arc<dyn Meter>> {
        self.meter.get().cloned()
    }
}

/// Runs what follows a commit. If it panics, the commit stands, and the thread goes on for everybody else.
pub(crate) fn shield(work: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(work)).is_err() {
        tracing::error!("what follows a commit panicked");
    }
}
