//! The state of committed batches: flushed to disk or not.
//!
//! The writer commits to the log and leaves the flush to another thread, so that it runs the next batch
//! meanwhile. Results of a commit are reported only after its flush: to its caller, to waiting readers and to
//! those who read it, because data that was read once must survive a power failure.
//!
//! The log is flushed in the order of commits; the writer is never more than one batch ahead. After a failed
//! flush the content of the disk is unknown, so nothing is answered until the hub is restarted.

use super::writer::After;
use crate::work::Work;
use crate::{StoreError, WakerSlot};
use std::io;
use std::sync::mpsc::Receiver;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A batch that was committed to the log, or was not.
pub(super) struct Committed {
    /// The commit that others may have seen since, counted from 1.
    pub(super) number: u64,
    pub(super) batch: Vec<Box<dyn Work>>,
    pub(super) outcome: Result<After, StoreError>,
}

impl Committed {
    /// Does what follows the commit, and answers whoever asked for it.
    pub(super) fn finish(self, waker: &WakerSlot) {
        let outcome = self.outcome.map(|after| after.happen(waker));
        for work in self.batch {
            work.finish(outcome.as_ref().copied().map_err(StoreError::for_the_batch));
        }
    }
}

/// Up to where the log is flushed, and reads that saw more than that.
#[derive(Default)]
pub(super) struct Flushing(Mutex<State>);

#[derive(Default)]
struct State {
    /// Commits that others may see.
    visible: u64,
    flushed: u64,
    failed: bool,
    reads: Vec<Read>,
}

/// A read that is done.
struct Read {
    /// The last commit that it may have seen.
    seen: u64,
    work: Box<dyn Work>,
    outcome: Result<(), StoreError>,
}

impl Flushing {
    /// From now on others may see one more commit, which is about to be made. Returns its number.
    pub(super) fn next(&self) -> u64 {
        let mut state = self.state();
        state.visible += 1;
        state.visible
    }

    /// Answers a read, once all that it may have seen is flushed.
    pub(super) fn finish_read(&self, work: Box<dyn Work>, outcome: Result<(), StoreError>) {
        let mut state = self.state();
        if !state.failed && state.visible > state.flushed {
            let seen = state.visible;
            return state.reads.push(Read { seen, work, outcome });
        }
        let failed = state.failed;
        drop(state);
        work.finish(if failed { Err(lost()) } else { outcome });
    }

    /// All commits up to this one are on the disk, or nobody knows.
    fn reached(&self, number: u64, failed: bool) {
        let mut state = self.state();
        state.flushed = state.flushed.max(number);
        state.failed |= failed;
        let (flushed, failed) = (state.flushed, state.failed);
        let (done, wait): (Vec<_>, Vec<_>) =
            std::mem::take(&mut state.reads).into_iter().partition(|read| failed || read.seen <= flushed);
        state.reads = wait;
        drop(state);
        for Read { work, outcome, .. } in done {
            work.finish(if failed { Err(lost()) } else { outcome });
        }
    }

    /// A panic cannot leave the state half changed, so a poisoned lock is still good.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lost() -> StoreError {
    StoreError::Unavailable("the disk failed to keep what was written; start the hub again".into())
}

/// Flushes what comes, and only then answers it. Ends when nobody commits any more.
pub(super) fn run(
    committed: &Receiver<Committed>,
    flushing: &Flushing,
    waker: &WakerSlot,
    mut flush: impl FnMut() -> io::Result<()>,
) {
    let mut failed = false;
    for mut commit in committed {
        if commit.outcome.is_ok()
            && !failed
            && let Err(error) = flush()
        {
            tracing::error!(%error, "the log could not be flushed; nothing is answered any more");
            failed = true;
        }
        if failed {
            commit.outcome = Err(lost());
        }
        let number = commit.number;
        commit.finish(waker);
        flushing.reached(number, failed);
    }
}

#[cfg(test)]
mod tests {
    use super::super::heads::Heads;
    use super::super::options::SqliteOptions;
    use super::super::session::{Session, SqliteTx};
    use super::*;
    use crate::MeterSlot;
    use crate::Tx;
    use crate::work::pack;
    use std::sync::mpsc::sync_channel;
    use tokio::sync::oneshot::{Receiver as Answer, error::TryRecvError};

    type Outcome = Result<(), StoreError>;

    fn work() -> (Box<dyn Work>, Answer<Outcome>) {
        let (mut work, answer) = pack(|_: &mut dyn Tx| Ok::<_, StoreError>(()), MeterSlot::default());
        let (mut session, mut heads) =
            (Session::open(&SqliteOptions::in_memory(), false).unwrap(), Heads::default());
        work.run(&mut SqliteTx::new(&mut session, &mut heads));
        (work, answer)
    }

    fn is_waiting(answer: &mut Answer<Outcome>) -> bool {
        matches!(answer.try_recv(), Err(TryRecvError::Empty))
    }

    #[test]
    fn who_wrote_and_who_read_is_told_after_the_flush() {
        let (flushing, waker) = (Flushing::default(), WakerSlot::default());
        let (read, mut before) = work();
        flushing.finish_read(read, Ok(()));
        before.try_recv().unwrap().unwrap();

        let number = flushing.next();
        let ((write, mut written), (read, mut seen)) = (work(), work());
        flushing.finish_read(read, Ok(()));
        let (sender, receiver) = sync_channel(1);
        sender.send(Committed { number, batch: vec![write], outcome: Ok(After::default()) }).unwrap();
        drop(sender);
        let mut flushes = 0;
        run(&receiver, &flushing, &waker, || {
            assert!(is_waiting(&mut written) && is_waiting(&mut seen), "nobody was told before");
            flushes += 1;
            Ok(())
        });
        assert_eq!(flushes, 1);
        written.try_recv().unwrap().unwrap();
        seen.try_recv().unwrap().unwrap();
    }

    #[test]
    fn a_read_waits_for_no_later_commit_than_it_can_have_seen() {
        let flushing = Flushing::default();
        let first = flushing.next();
        let (read, mut answer) = work();
        flushing.finish_read(read, Ok(()));
        flushing.next();
        flushing.reached(first, false);
        answer.try_recv().unwrap().unwrap();
        let (read, mut answer) = work();
        flushing.finish_read(read, Ok(()));
        assert!(is_waiting(&mut answer));
    }

    #[test]
    fn after_a_flush_that_failed_nothing_is_answered_any_more() {
        let (flushing, waker) = (Flushing::default(), WakerSlot::default());
        let (sender, receiver) = sync_channel(2);
        let mut answers = vec![];
        for _ in 0..2 {
            let (work, answer) = work();
            answers.push(answer);
            let (number, outcome) = (flushing.next(), Ok(After::default()));
            sender.send(Committed { number, batch: vec![work], outcome }).unwrap();
        }
        drop(sender);
        let mut flushes = 0;
        run(&receiver, &flushing, &waker, || {
            flushes += 1;
            Err(io::Error::other("the disk is gone"))
        });
        assert_eq!(flushes, 1, "a second one might succeed, and prove nothing");
        let (read, answer) = work();
        flushing.finish_read(read, Ok(()));
        for mut answer in answers.into_iter().chain([answer]) {
            assert!(matches!(answer.try_recv().unwrap(), Err(StoreError::Unavailable(_))));
        }
    }
}
