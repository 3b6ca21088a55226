//! Counts stored bytes, and refuses what exceeds a quota.
//!
//! The store says what is stored for whom (`store/src/usage.rs`). The figures are kept in memory and written to the database
//! every second: an act costs no statement for it, but one read when its author is first seen. Bytes count from the moment they
//! are checked, so many requests at once get no further than one after the other. A node that dies loses what it counted in its
//! last second; a hub that starts counts everything again. Nodes learn of each other's figures when they write their own, and
//! after a minute anyway.
//!
//! Each row counts its texts and [`ROW_BYTES`](chorus_store::usage::ROW_BYTES): an event for its author, a version of a document
//! until it is replaced for good, an agent's record and offers for the agent, jobs and transfers for the owner who pays. A post
//! from another service counts for the agent it is for. Leaving, archiving and deleting count and are never refused.

use crate::config::quotas::{OFF, Quotas};
use chorus_protocol::ids::{AccountId, AgentId, Principal};
use chorus_store::usage::{self, Exceeded, Meter, Refusal, Stored};
use chorus_store::{Store, StoreError, Tx};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most that are remembered without need.
const MOST_KNOWN: usize = 20_000;
/// Turns of [`Usage::flush`] after which a principal's stored bytes are read again.
const LASTS_TURNS: u64 = 60;
/// The bytes of the largest result of a job.
const LARGEST_RESULT: u64 = 256 * 1024;
/// Rows that one transaction writes, because other writers wait for it.
const TOGETHER: usize = 200;

/// The known usage of one agent or account.
#[derive(Debug, Default)]
struct Entry {
    /// The value of the database, if it was read lately.
    stored: Option<i64>,
    /// The turn of that read.
    learned: u64,
    /// Of an agent: whose it is.
    owner: Option<AccountId>,
    /// Committed bytes that are not written yet. Removals are negative.
    pending: i64,
    /// The same of an account's agents, which write it.
    passing: i64,
    /// Checked and not committed yet.
    held: i64,
}

impl Entry {
    fn used(&self) -> i64 {
        (self.stored.unwrap_or(0) + self.pending + self.passing).max(0).saturating_add(self.held)
    }

    fn is_idle(&self) -> bool {
        (self.pending, self.passing, self.held) == (0, 0, 0)
    }
}

#[derive(Debug, Default)]
struct State {
    known: HashMap<Principal, Entry>,
    turn: u64,
}

impl State {
    fn learn(&mut self, who: Principal, stored: Stored) {
        let turn = self.turn;
        let owner = stored.owner.map(|(owner, _)| owner);
        let entry = self.known.entry(who).or_default();
        (entry.stored, entry.learned) = (Some(stored.bytes), turn);
        let (before, pending) = (std::mem::replace(&mut entry.owner, owner), entry.pending);
        // It may have got an owner meanwhile, who waits for the same bytes from now on.
        for (account, sign) in [(before, -1), (owner, 1)] {
            if let Some(account) = account.filter(|_| before != owner) {
                self.known.entry(account.into()).or_default().passing += sign * pending;
            }
        }
        if let Some((owner, bytes)) = stored.owner {
            let entry = self.known.entry(owner.into()).or_default();
            (entry.stored, entry.learned) = (Some(bytes), turn);
        }
    }

    /// Counts something committed, or removed.
    fn add(&mut self, who: Principal, bytes: i64) {
        let entry = self.known.entry(who).or_default();
        entry.pending += bytes;
        if let Some(owner) = entry.owner {
            self.known.entry(owner.into()).or_default().passing += bytes;
        }
    }
}

/// The storage usage of principals. See the [module](self).
pub struct Usage {
    state: Mutex<State>,
    agent_bytes: u64,
    account_bytes: u64,
}

impl Usage {
    pub fn new(quotas: &Quotas) -> Self {
        let (agent_bytes, account_bytes) = (quotas.agent_bytes, quotas.account_bytes);
        Self { state: Mutex::default(), agent_bytes, account_bytes }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn limit(&self, who: Principal) -> (&'static str, u64) {
        match who {
            Principal::Agent(_) => ("agent_bytes", self.agent_bytes),
            Principal::Account(_) => ("account_bytes", self.account_bytes),
        }
    }

    /// Reads the usage of a principal that is not cached.
    pub fn meet(&self, tx: &mut dyn Tx, who: Principal) -> Result<(), StoreError> {
        if self.state().known.get(&who).is_none_or(|entry| entry.stored.is_none()) {
            let stored = usage::of(tx, who)?;
            self.state().learn(who, stored);
        }
        Ok(())
    }

    /// Returns a principal's quota, its stored bytes and its limit.
    pub fn of(&self, tx: &mut dyn Tx, who: Principal) -> Result<(&'static str, u64, u64), StoreError> {
        self.meet(tx, who)?;
        let used = self.state().known.get(&who).map_or(0, Entry::used);
        let (quota, limit) = self.limit(who);
        Ok((quota, used.max(0) as u64, limit))
    }

    /// Returns whether a principal and its owner have room for the result of another job: for the largest one,
    /// or a tenth of the quota.
    pub fn has_room_for_result(&self, tx: &mut dyn Tx, who: Principal) -> Result<bool, StoreError> {
        self.meet(tx, who)?;
        let state = self.state();
        let owner = state.known.get(&who).and_then(|entry| entry.owner).map(Principal::Account);
        Ok([Some(who), owner].into_iter().flatten().all(|who| {
            let (_, limit) = self.limit(who);
            let used = state.known.get(&who).map_or(0, Entry::used).max(0) as u64;
            limit == OFF || used.saturating_add(LARGEST_RESULT.min(limit / 10)) <= limit
        }))
    }

    /// Reserves bytes for a principal and its owner until the transaction commits or rolls back.
    fn hold(self: &Arc<Self>, who: Principal, bytes: i64) -> Result<Held, Exceeded> {
        let mut state = self.state();
        let owner = state.known.get(&who).and_then(|entry| entry.owner).map(Principal::Account);
        for who in [Some(who), owner].into_iter().flatten() {
            let (quota, limit) = self.limit(who);
            let used = state.known.get(&who).map_or(0, Entry::used).max(0) as u64;
            if limit != OFF && used.saturating_add(bytes.max(0) as u64) > limit {
                return Err(Exceeded { quota, used, limit });
            }
        }
        for who in [Some(who), owner].into_iter().flatten() {
            state.known.entry(who).or_default().held += bytes;
        }
        Ok(Held { usage: Arc::clone(self), who, owner, bytes, kept: false })
    }

    /// Records, if this transaction is committed, that an agent has another owner. The stored figures are read again.
    pub fn pass_after(
        self: &Arc<Self>,
        tx: &mut dyn Tx,
        agent: AgentId,
        from: Option<AccountId>,
        to: Option<AccountId>,
    ) {
        let usage = Arc::clone(self);
        tx.after_commit(Box::new(move || {
            let mut state = usage.state();
            let entry = state.known.entry(agent.into()).or_default();
            let (before, pending) = (std::mem::replace(&mut entry.owner, to), entry.pending);
            entry.stored = None;
            for (account, passing) in [(before, -pending), (to, pending)] {
                if let Some(account) = account {
                    state.known.entry(account.into()).or_default().passing += passing;
                }
            }
            for account in [from, to].into_iter().flatten() {
                state.known.entry(account.into()).or_default().stored = None;
            }
        }));
    }

    /// Writes the usage counted since the last call, and forgets principals that were not seen for long.
    pub async fn flush(&self, store: &Store) -> Result<(), StoreError> {
        let mut pending: Vec<_> = {
            let mut state = self.state();
            state.turn += 1;
            let (turn, many) = (state.turn, state.known.len() > MOST_KNOWN);
            state.known.retain(|_, entry| !entry.is_idle() || (!many && turn - entry.learned < LASTS_TURNS));
            let pending = state.known.iter().filter(|(_, entry)| entry.pending != 0);
            pending.map(|(who, entry)| (*who, entry.pending)).collect()
        };
        // In order, so that two nodes seldom wait for each other.
        pending.sort_unstable();
        for together in pending.chunks(TOGETHER) {
            let counted = together.to_vec();
            let add = move |tx: &mut dyn Tx| record_counted(tx, &counted);
            let totals = store.write::<_, StoreError, _>(add).await?;
            let mut state = self.state();
            for ((who, bytes), stored) in together.iter().zip(totals) {
                state.add(*who, -bytes);
                state.learn(*who, stored);
            }
        }
        Ok(())
    }
}

impl Meter for Usage {
    fn count(
        self: Arc<Self>,
        tx: &mut dyn Tx,
        who: Principal,
        bytes: i64,
        refusal: Refusal,
    ) -> Result<(), StoreError> {
        match refusal {
            Refusal::WhenFull => {
                self.meet(tx, who)?;
                let held = self.hold(who, bytes)?;
                tx.after_commit(Box::new(move || held.keep()));
            }
            Refusal::Never => tx.after_commit(Box::new(move || self.state().add(who, bytes))),
        }
        Ok(())
    }
}

/// A reservation of bytes. Dropping it releases them, because nothing was committed.
struct Held {
    usage: Arc<Usage>,
    who: Principal,
    owner: Option<Principal>,
    bytes: i64,
    kept: bool,
}

impl Held {
    fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut state = self.usage.state();
        for who in [Some(self.who), self.owner].into_iter().flatten() {
            if let Some(entry) = state.known.get_mut(&who) {
                entry.held -= self.bytes;
            }
        }
        if self.kept {
            state.add(self.who, self.bytes);
        }
    }
}

/// Checks that one more fits under a limit.
pub fn room(quota: &'static str, used: i64, limit: u64) -> Result<(), Exceeded> {
    let used = used.max(0) as u64;
    if used < limit { Ok(()) } else { Err(Exceeded { quota, used, limit }) }
}

/// Writes the counted usage and returns the stored totals.
pub fn record_counted(tx: &mut dyn Tx, counted: &[(Principal, i64)]) -> Result<Vec<Stored>, StoreError> {
    counted.iter().map(|(who, bytes)| usage::add(tx, *who, *bytes)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn agent() -> Principal {
        AgentId(Uuid::from_u128(1)).into()
    }

    fn usage(agent_bytes: u64, account_bytes: u64) -> Arc<Usage> {
        Arc::new(Usage::new(&Quotas { agent_bytes, account_bytes, ..Quotas::default() }))
    }

    #[test]
    fn what_is_held_counts_until_it_is_given_back_or_kept() {
        let usage = usage(100, OFF);
        usage.state().learn(agent(), Stored { bytes: 10, owner: None });
        let first = usage.hold(agent(), 60).unwrap();
        let refused = Exceeded { quota: "agent_bytes", used: 70, limit: 100 };
        assert_eq!(usage.hold(agent(), 31).map(drop), Err(refused));
        drop(first);
        usage.hold(agent(), 90).unwrap().keep();
        assert_eq!(usage.hold(agent(), 1).map(drop).unwrap_err().used, 100);
        usage.state().add(agent(), -50);
        usage.hold(agent(), 50).unwrap().keep();
    }

    #[test]
    fn what_agents_do_counts_for_their_owner() {
        let (usage, owner) = (usage(OFF, 100), AccountId(Uuid::from_u128(2)));
        usage.hold(agent(), 30).unwrap().keep();
        // It is claimed before that is written.
        usage.state().learn(agent(), Stored { bytes: 20, owner: Some((owner, 40)) });
        assert_eq!(usage.state().known[&owner.into()].used(), 70);
        assert_eq!(usage.hold(agent(), 31).map(drop).unwrap_err().quota, "account_bytes");
        // And written.
        usage.state().add(agent(), -30);
        usage.state().learn(agent(), Stored { bytes: 50, owner: Some((owner, 70)) });
        assert_eq!(usage.state().known[&owner.into()].used(), 70);
        assert_eq!(usage.state().known[&agent()].used(), 50);
    }
}
