//! Health that proves itself: the store is healthy when it has just written, not when nothing complained.
//!
//! A proof is good for a second, so that many who ask cost no more than one.

use chorus_environment::Environment;
use chorus_store::{Store, StoreError, Tx, settings};
use tokio::sync::Mutex;

/// A proof is as large as a message may be: on a disk with room for a few bytes only, the hub is not well.
const PROOF_BYTES: usize = 64 * 1024;
const GOOD_FOR_MS: i64 = 1000;

pub struct Health {
    /// By the clock that only goes on.
    pub started_at: i64,
    /// Held while a proof is made, so that everybody who asks meanwhile gets the same one.
    last: Mutex<Option<Proof>>,
}

/// That the store wrote.
#[derive(Debug, Clone, Copy)]
pub struct Proof {
    /// By the clock that only goes on.
    made_at: i64,
    pub latency_ms: u64,
}

impl Health {
    pub fn new(started_at: i64) -> Self {
        Self { started_at, last: Mutex::new(None) }
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
