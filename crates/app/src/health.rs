//! Health that proves itself: the store is healthy when it has just written, not when nothing complained.
//!
//! A proof is good for a second, so that many who ask cost no more than one.

use chorus_store::{Store, StoreError, Tx, settings};
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// A proof is as large as a message may be: on a disk with room for a few bytes only, the hub is not well.
const PROOF_BYTES: usize = 64 * 1024;
const GOOD_FOR: Duration = Duration::from_secs(1);

pub struct Health {
    /// By the clock that only goes on.
    pub started_at: i64,
    /// Held while a proof is made, so that everybody who asks meanwhile gets the same one.
    last: Mutex<Option<Proof>>,
}

/// That the store wrote.
#[derive(Debug, Clone, Copy)]
pub struct Proof {
    made: Instant,
    pub latency_ms: u64,
}

impl Health {
    pub fn new(started_at: i64) -> Self {
        Self { started_at, last: Mutex::new(None) }
    }

    /// Has the store write, unless it did a moment ago.
    pub async fn prove(&self, store: &Store, now: i64) -> Result<Proof, StoreError> {
        let mut last = self.last.lock().await;
        if let Some(proof) = *last
            && proof.made.elapsed() < GOOD_FOR
        {
            return Ok(proof);
        }
        let begun = Instant::now();
        let write =
            move |tx: &mut dyn Tx| settings::set(tx, "health", &format!("{now}{}", " ".repeat(PROOF_BYTES)));
        store.write::<_, StoreError, _>(write).await?;
        let proof = Proof { made: Instant::now(), latency_ms: begun.elapsed().as_millis() as u64 };
        *last = Some(proof);
        Ok(proof)
    }
}
