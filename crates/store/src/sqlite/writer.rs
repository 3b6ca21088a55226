//! The one who writes to a SQLite database: runs closures in a transaction and commits them together.
//!
//! It has no thread of its own, answers nobody and does nothing of what follows a commit: that is for whoever has it, a thread
//! with a queue or a caller in place.

use super::heads::Heads;
use super::migrate;
use super::options::SqliteOptions;
use super::session::{Session, SqliteTx};
use crate::migrate::MIGRATIONS;
use crate::work::{Work, shield};
use crate::{StoreError, StreamKey, WakerSlot, wake};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) struct Writer {
    pub(super) session: Session,
    heads: Heads,
    /// The number of commits that changed something.
    pub(super) changes: Arc<AtomicU64>,
}

/// Actions and wake-ups that follow a commit, once it is durable.
#[derive(Default)]
pub(super) struct After {
    actions: Vec<Box<dyn FnOnce() + Send>>,
    /// The streams that moved, and where they end now.
    moved: Vec<(StreamKey, i64)>,
    /// True if anything may have changed.
    wrote: bool,
}

impl After {
    pub(super) fn happen(self, waker: &WakerSlot) {
        self.actions.into_iter().for_each(shield);
        for (stream, head) in self.moved {
            wake(waker, stream, head);
        }
    }
}

impl Writer {
    /// Opens the database and brings its schema up to date.
    pub(super) fn open(options: &SqliteOptions) -> Result<Self, StoreError> {
        let mut session = Session::open(options, false)?;
        migrate(&mut session.connection, MIGRATIONS)?;
        Self::begin(session)
    }

    /// Goes on with a database that another one has left, whatever it was doing.
    pub(super) fn begin(mut session: Session) -> Result<Self, StoreError> {
        forget_the_dead(&mut session)?;
        Ok(Self { session, heads: Heads::default(), changes: Arc::default() })
    }

    /// Runs a batch in one transaction, and tells `visible` before others may see it. An error means that nothing of the
    /// batch was kept.
    pub(super) fn commit(
        &mut self,
        batch: &mut [Box<dyn Work>],
        visible: &mut dyn FnMut(),
    ) -> Result<After, StoreError> {
        // A savepoint makes SQLite copy each page before it changes, for a closure that will hardly ever be taken back. So
        // the first try does without; if a closure fails after it wrote, all of them run again, each in its savepoint.
        let mut after = self.attempt(batch, false)?;
        if after.is_none() {
            self.heads = Heads::default();
            self.session.forget();
            self.session.batch("ROLLBACK")?;
            after = self.attempt(batch, true)?;
        }
        visible();
        self.session.batch("COMMIT")?;
        let after = after.unwrap_or_default();
        // Not before others can see it, and before anybody is told that it is done.
        self.changes.fetch_add(u64::from(after.wrote), Ordering::Release);
        Ok(after)
    }

    /// All of a batch but its COMMIT; without savepoints, one closure that has to be taken back spoils all.
    fn attempt(
        &mut self,
        batch: &mut [Box<dyn Work>],
        savepoints: bool,
    ) -> Result<Option<After>, StoreError> {
        self.session.batch("BEGIN IMMEDIATE")?;
        let (mut actions, mut wrote_any) = (Vec::new(), false);
        for work in batch {
            if savepoints {
                self.session.batch("SAVEPOINT work")?;
            }
            let mut tx = if savepoints {
                SqliteTx::new(&mut self.session, &mut self.heads)
            } else {
                SqliteTx::of_whole(&mut self.session, &mut self.heads)
            };
            let keep = work.run(&mut tx);
            let (mut after, fatal, wrote) = (tx.actions, tx.fatal, tx.wrote);
            if let Some(error) = fatal {
                return Err(error);
            }
            if self.session.spoiled {
                return Ok(None);
            }
            if keep {
                wrote_any |= wrote;
                actions.append(&mut after);
                self.heads.keep();
            } else {
                self.heads.restore();
                if savepoints {
                    self.session.batch("ROLLBACK TO work")?;
                } else if wrote {
                    return Ok(None);
                }
            }
            if savepoints {
                self.session.batch("RELEASE work")?;
            }
        }
        if let Err(error) = self.session.write_appends() {
            return if error.is_fatal() { Err(error) } else { Ok(None) };
        }
        let moved = self.heads.moved();
        for (stream, head) in &moved {
            let [kind, id] = stream.params();
            let params = [kind, id, (*head).into()];
            // Hardly ever is one new.
            if self.session.run("UPDATE streams SET head = $3 WHERE kind = $1 AND id = $2", &params)? == 0 {
                self.session.run("INSERT INTO streams (kind, id, head) VALUES ($1, $2, $3)", &params)?;
            }
        }
        let wrote = wrote_any || !moved.is_empty();
        Ok(Some(After { actions, moved, wrote }))
    }

    /// Runs a closure and takes back all it did, as if it had met another transaction: it will be run again.
    pub(super) fn run_and_roll_back(&mut self, work: &mut dyn Work) -> Result<(), StoreError> {
        self.session.batch("BEGIN IMMEDIATE")?;
        work.run(&mut SqliteTx::new(&mut self.session, &mut self.heads));
        self.heads.restore();
        self.session.forget();
        self.session.batch("ROLLBACK")
    }

    /// After a failed batch: nothing cached is trusted, and a connection that cannot even roll back is replaced.
    pub(super) fn recover(&mut self, options: &SqliteOptions) {
        self.heads = Heads::default();
        self.session.forget();
        if !self.session.roll_back() && options.path.is_some() {
            match Session::open(options, false) {
                Ok(session) => self.session = session,
                Err(error) => tracing::error!(%error, "cannot reopen the database; it is tried again"),
            }
        }
    }
}

/// Only one process uses a database, so what a former one left in progress is over.
fn forget_the_dead(session: &mut Session) -> Result<(), StoreError> {
    session.batch(
        "DELETE FROM idempotency WHERE state = 'in_progress';
         UPDATE inboxes SET session = NULL, node = NULL, open_until = 0 WHERE node IS NOT NULL;
         UPDATE chats SET due_at = created_at WHERE (agent_id, seq) IN
             (SELECT agent_id, seq FROM deliveries WHERE lease_until IS NOT NULL AND state = 'waiting');
         UPDATE deliveries SET lease_owner = NULL, lease_until = NULL WHERE lease_until IS NOT NULL AND state = 'waiting';",
    )
}
