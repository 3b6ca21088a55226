//! Health that proves itself: the store is healthy when it has just written, not when nothing complained.
//!
//! A proof is good for a second, so that many who ask cost no more than one.

use chorus_environment::Environment;
use chorus_store::{Store, StoreError, Tx, settings};
use std::sync::PoisonError;
use tokio::sync::Mutex;

/// A proof is as large as a message may be: on a disk with room for a few bytes only, the hub is not well.
const PROOF_BYTES: usize = 64 * 1024;
const GOOD_FOR_MS: i64 = 1000;

pub struct Health {
    /// By the clock that only goes on.
    pub started_at: i64,
    /// Held while a proof is made, so that everybody who asks meanwhile gets the same one.
    last: Mutex<Option<Proof>>,
    /// The last look at the transparency log.
    log: std::sync::Mutex<Option<LogStatus>>,
}

/// Evidence of a successful write of the store.
#[derive(Debug, Clone, Copy)]
pub struct Proof {
    /// By the clock that only goes on.
    made_at: i64,
    pub latency_ms: u64,
}

/// The result of a look at the transparency log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogStatus {
    /// The number of leaves.
    pub size: i64,
    /// True if the head is that of the leaves, and the newest leaf is in the tree.
    pub is_ok: bool,
    pub checked_at: i64,
}

impl Health {
    pub fn new(started_at: i64) -> Self {
        Self { started_at, last: Mutex::new(None), log: std::sync::Mutex::default() }
    }

    /// Returns the last look at the transparency log; nothing before the first.
    pub fn log(&self) -> Option<LogStatus> {
        *self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set_log(&self, status: LogStatus) {
        *self.log.lock().unwrap_or_else(PoisonError::into_inner) = Some(status);
    }

    /// Has the store write, unless it did a moment ago.
    pub async fn prove(&self, store: &Store, environment: &Environment) -> Result<Proof, StoreError> {
        let mut last = self.last.lock().await;
        if let Some(proof) = *last
            && environment.elapsed() - proof.made_at < GOOD_FOR_MS
        {
            return Ok(proof);
        }
        let (begun, now) = (environment.elapsed(), environment.now());
        let write =
            move |tx: &mut dyn Tx| settings::set(tx, "health", &format!("{now}{}", " ".repeat(PROOF_BYTES)));
        store.write::<_, StoreError, _>(write).await?;
        let made_at = environment.elapsed();
        let proof = Proof { made_at, latency_ms: (made_at - begun).max(0) as u64 };
        *last = Some(proof);
        Ok(proof)
    }
}
