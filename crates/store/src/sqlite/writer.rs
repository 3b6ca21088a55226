//! The one who writes to a SQLite database: runs closures in a transaction, commits them together, and only then does what
//! follows a commit.
//!
//! It has no thread of its own and answers nobody: that is for whoever has it, a thread with a queue or a caller in place.

use super::heads::Heads;
use super::migrate::migrate;
use super::options::SqliteOptions;
use super::session::{Session, SqliteTx};
use crate::work::{Work, shield};
use crate::{StoreError, WakerSlot, wake};

pub(super) struct Writer {
    pub(super) session: Session,
    heads: Heads,
    waker: WakerSlot,
}

impl Writer {
    /// Opens the database and brings its schema up to date.
    pub(super) fn open(options: &SqliteOptions, waker: WakerSlot) -> Result<Self, StoreError> {
        let mut session = Session::open(options, false)?;
        migrate(&mut session.connection)?;
        Self::begin(session, waker)
    }

    /// Goes on with a database that another one has left, whatever it was doing.
    pub(super) fn begin(mut session: Session, waker: WakerSlot) -> Result<Self, StoreError> {
        forget_the_dead(&mut session)?;
        Ok(Self { session, heads: Heads::default(), waker })
    }

    /// Runs a batch in one transaction. An error means that nothing of the batch was kept.
    pub(super) fn commit(&mut self, batch: &mut [Box<dyn Work>]) -> Result<(), StoreError> {
        // A savepoint makes SQLite copy each page before it changes, for a closure that will hardly ever be taken back. So
        // the first try does without; if a closure fails after it wrote, all of them run again, each in its savepoint.
        if self.attempt(batch, false)? {
            return Ok(());
        }
        self.heads = Heads::default();
        self.session.batch("ROLLBACK")?;
        self.attempt(batch, true).map(drop)
    }

    /// Whether the batch was committed; without savepoints, one closure that has to be taken back spoils all.
    fn attempt(&mut self, batch: &mut [Box<dyn Work>], savepoints: bool) -> Result<bool, StoreError> {
        self.session.batch("BEGIN IMMEDIATE")?;
        let mut actions = Vec::new();
        for work in batch {
            if savepoints {
                self.session.batch("SAVEPOINT work")?;
            }
            let mut tx = SqliteTx::new(&mut self.session, &mut self.heads);
            let keep = work.run(&mut tx);
            let (mut after, fatal, wrote) = (tx.actions, tx.fatal, tx.wrote);
            if let Some(error) = fatal {
                return Err(error);
            }
            if keep {
                actions.append(&mut after);
                self.heads.keep();
            } else {
                self.heads.restore();
                if savepoints {
                    self.session.batch("ROLLBACK TO work")?;
                } else if wrote {
                    return Ok(false);
                }
            }
            if savepoints {
                self.session.batch("RELEASE work")?;
            }
        }
        let moved = self.heads.moved();
        for (stream, head) in &moved {
            self.session.run(
                "INSERT INTO streams (id, head) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET head = excluded.head",
                &[stream.into(), (*head).into()],
            )?;
        }
        self.session.batch("COMMIT")?;
        actions.into_iter().for_each(shield);
        for (stream, head) in moved {
            wake(&self.waker, stream, head);
        }
        Ok(true)
    }

    /// Runs a closure and takes back all it did, as if it had met another transaction: it will be run again.
    pub(super) fn run_and_roll_back(&mut self, work: &mut dyn Work) -> Result<(), StoreError> {
        self.session.batch("BEGIN IMMEDIATE")?;
        work.run(&mut SqliteTx::new(&mut self.session, &mut self.heads));
        self.heads.restore();
        self.session.batch("ROLLBACK")
    }

    /// After a failed batch: nothing cached is trusted, and a connection that cannot even roll back is replaced.
    pub(super) fn recover(&mut self, options: &SqliteOptions) {
        self.heads = Heads::default();
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
