//! A thread with its own connection: takes closures, runs them in a transaction, commits, and answers.
//!
//! # Why nothing is lost or done twice
//!
//! Closures that write are taken as they have gathered, and tried in up to three ways. Each way is a
//! transaction of its own. The next one is tried only when the last was rolled back or failed before its
//! COMMIT was sent, so that nothing of it remains:
//!
//! 1. *Batched* (only in a lane, or for shared reads): closures that read a little, append rows and number one stream each share their round trips; see `together`.
//!
//! 2. *In sequence* in one transaction, without savepoints. A closure that fails without having written leaves nothing to roll back, and the others continue. After any other failure (an error or a panic after a write, a refused statement, a conflict, a lock that is not granted at once) everything is rolled back.
//!
//! 3. *Alone*: each closure in a transaction of its own, repeated after conflicts, waiting for locks as long as needed. A failing closure fails here by itself, with its own error.
//!
//! Closures are pure except for their transaction (they may be run again, see `Store::write`). Their answers,
//! actions and wake-ups wait for the COMMIT of the transaction they were kept in. When the result of a COMMIT
//! is unknown because the connection broke, all closures of the batch get that error, and none is run again.
//!
//! # Why no deadlock lasts
//!
//! Transactions of the second way hold the locks of several closures in no agreed order, so two of them may
//! wait for each other. They wait for a lock only briefly ([`BEGIN_BATCH`]); then their closures run alone, in
//! the lock order that each act keeps (`Tx::next_seq`). A deadlock that PostgreSQL detects is a conflict like
//! any other.

use super::session::{After, PostgresTx, Session, classify};
use super::target::Target;
use super::together;
use super::wakeups::News;
use crate::queue::Queue;
use crate::work::{Work, shield};
use crate::{StoreError, WakerSlot, wake};
use std::error::Error;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The number of tries of a closure against conflicts.
const MAX_TRIES: u32 = 10;
/// The most closures in one transaction.
const MAX_BATCH: usize = 128;
/// The same of reads, whose answers are in memory all at once.
const MAX_READS: usize = 32;
/// Every statement sees what was committed before it; whoever waited for a lock sees what the holder did.
const BEGIN_WRITE: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";
/// The same for closures one after the other, which wait for a lock only briefly.
const BEGIN_BATCH: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL lock_timeout = '50ms'";
/// All statements see the same.
const BEGIN_READ: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// The task of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Duty {
    /// Reads, which may take so long each.
    Read(Duration),
    /// Writes of all kinds.
    Write,
    /// Writes that come in crowds.
    Crowd,
    /// Reads that come in crowds, and may take so long each.
    ReadTogether(Duration),
}

impl Duty {
    /// Returns whether it runs closures in batches.
    fn is_shared(self) -> bool {
        matches!(self, Self::Crowd | Self::ReadTogether(_))
    }

    /// Returns the time limit of a statement.
    fn time(self) -> Option<Duration> {
        match self {
            Self::Read(time) | Self::ReadTogether(time) => Some(time),
            Self::Write | Self::Crowd => None,
        }
    }
}

pub(super) struct Worker {
    target: Target,
    duty: Duty,
    session: Option<Session>,
    waker: WakerSlot,
    news: Queue<News>,
}

/// The point where a transaction failed: before the server had begun it, or later.
enum Failed {
    Begin(StoreError),
    Work(StoreError),
}

/// One attempt to run closures in a transaction. `Some` is to be committed; `None` means that everything is
/// rolled back.
type Attempt<'a> = &'a mut dyn FnMut(&mut Session) -> Result<Option<After>, StoreError>;

impl Worker {
    pub(super) fn new(target: Target, duty: Duty, waker: WakerSlot, news: Queue<News>) -> Self {
        Self { target, duty, session: None, waker, news }
    }

    pub(super) fn run(mut self, queue: &Queue<Box<dyn Work>>) {
        let most = match self.duty {
            // It shares nothing with others, and they need not wait for it.
            Duty::Read(_) => 1,
            Duty::ReadTogether(_) => MAX_READS,
            Duty::Write | Duty::Crowd => MAX_BATCH,
        };
        loop {
            let mut batch = queue.take(most);
            if batch.is_empty() {
                return;
            }
            match self.batch(&mut batch) {
                Ok(true) => batch.into_iter().for_each(|work| work.finish(Ok(()))),
                Ok(false) => batch.into_iter().for_each(|work| self.alone(work)),
                Err(error) => {
                    tracing::error!(
                        error = &error as &dyn Error,
                        closures = batch.len(),
                        "a batch was not committed"
                    );
                    for work in batch {
                        work.finish(Err(error.for_the_batch()));
                    }
                }
            }
        }
    }

    /// Returns whether all closures are committed. If not, nothing of them remains; after an error none may be
    /// run again.
    fn batch(&mut self, batch: &mut [Box<dyn Work>]) -> Result<bool, StoreError> {
        if batch.len() < 2 {
            return Ok(false);
        }
        let together = match self.duty {
            Duty::Read(_) => return Ok(false),
            Duty::ReadTogether(_) => Some(BEGIN_READ),
            Duty::Crowd => Some(BEGIN_WRITE),
            Duty::Write => None,
        };
        if let Some(begin) = together
            && self.tried(begin, &mut |session| together::run(session, batch))?
        {
            return Ok(true);
        }
        if self.duty.time().is_some() {
            return Ok(false);
        }
        self.tried(BEGIN_BATCH, &mut |session| one_after_the_other(session, batch))
    }

    /// Returns whether this attempt succeeded. An error means that no other attempt can: the server is
    /// unavailable, its disk is full, or the result of the COMMIT is unknown.
    fn tried(&mut self, begin: &'static str, attempt: Attempt<'_>) -> Result<bool, StoreError> {
        match self.transaction(begin, attempt) {
            Ok(committed) => Ok(committed),
            Err(
                StoreError::Conflict(_)
                | StoreError::Locked(_)
                | StoreError::Unexpected(_)
                | StoreError::TooLong,
            ) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn alone(&mut self, mut work: Box<dyn Work>) {
        let time = self.duty.time();
        let begin = if time.is_some() { BEGIN_READ } else { BEGIN_WRITE };
        let mut tries = 0;
        let outcome = loop {
            tries += 1;
            #[expect(
                clippy::disallowed_methods,
                reason = "how long the database itself works is the machine's time"
            )]
            let end = time.map(|time| Instant::now() + time);
            match self.transaction(begin, &mut |session| alone(session, &mut *work, end)) {
                Err(StoreError::Conflict(_)) if tries < MAX_TRIES => {
                    sleep(Duration::from_millis(u64::from(tries * tries)));
                }
                outcome => break outcome.map(drop),
            }
        };
        if let Err(error) = &outcome {
            tracing::error!(error = error as &dyn Error, "a transaction was not committed");
        }
        work.finish(outcome);
    }

    /// Returns whether the transaction was committed rather than rolled back.
    fn transaction(&mut self, begin: &'static str, attempt: Attempt<'_>) -> Result<bool, StoreError> {
        loop {
            let fresh = self.session.is_none();
            let error = match self.try_transaction(begin, attempt) {
                Ok(committed) => return Ok(committed),
                Err(error) => error,
            };
            let lost = self.session.as_ref().is_none_or(Session::is_closed);
            if lost {
                self.session = None;
            }
            match error {
                // An idle connection the server had closed: nothing was begun yet, so a new one may do it.
                Failed::Begin(_) if lost && !fresh => {}
                Failed::Begin(error) | Failed::Work(error) => return Err(error),
            }
        }
    }

    fn try_transaction(&mut self, begin: &'static str, attempt: Attempt<'_>) -> Result<bool, Failed> {
        let session = match &mut self.session {
            Some(session) => session,
            none => {
                let opened = Session::open(&self.target, self.duty.time(), self.duty.is_shared());
                none.insert(opened.map_err(Failed::Begin)?)
            }
        };
        session.begin(begin);
        let done = attempt(session);
        let Ok(Some(after)) = done else {
            let (begun, rolled_back) = (session.has_begun(), session.roll_back());
            return match done {
                Err(error) if begun => Err(Failed::Work(error)),
                Err(error) => Err(Failed::Begin(error)),
                Ok(_) => rolled_back.map(|()| false).map_err(|error| Failed::Work(classify(error))),
            };
        };
        if let Err(error) = session.commit() {
            // Had a row not even been sent, its transaction would still be open. If there is none, this changes nothing.
            drop(session.roll_back());
            return Err(Failed::Work(classify(error)));
        }
        after.actions.into_iter().for_each(shield);
        for (stream, head) in after.moved {
            wake(&self.waker, stream, head);
            // A full queue of hints costs other nodes a second until their poll, nothing else.
            drop(self.news.push(News::Moved(stream, head)));
        }
        Ok(true)
    }
}

/// One closure, whose failure is its own.
fn alone(
    session: &mut Session,
    work: &mut dyn Work,
    end: Option<Instant>,
) -> Result<Option<After>, StoreError> {
    let mut tx = PostgresTx::new(session, end);
    let keep = work.run(&mut tx);
    match tx.broken {
        Some(error) => Err(error),
        None => Ok(keep.then_some(tx.after)),
    }
}

/// Many, as if each were alone. Nothing, if one of them has to be taken back.
fn one_after_the_other(
    session: &mut Session,
    batch: &mut [Box<dyn Work>],
) -> Result<Option<After>, StoreError> {
    let mut tx = PostgresTx::new(session, None);
    for work in batch {
        let actions = tx.after.actions.len();
        tx.wrote = false;
        let keep = work.run(&mut tx);
        if let Some(error) = tx.broken {
            return Err(error);
        }
        if !keep {
            if tx.failed || tx.wrote {
                return Ok(None);
            }
            tx.after.actions.truncate(actions);
        }
    }
    Ok(Some(tx.after))
}
