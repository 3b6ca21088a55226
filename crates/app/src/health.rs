//! Health that proves itself: the store is healthy when it has just written, not when nothing complained.
//!
//! A proof is good for a second, so that many who ask cost no more than one.

use crate::App;
use crate::error::Error;
use chorus_protocol::relay::{CHORUS_VERSION, HealthReport, StoreReport};
use chorus_protocol::time::rfc3339;
use chorus_store::{Store, StoreError, Tx, settings};
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// A proof is as large as a message may be: on a disk with room for a few bytes only, the hub is not well.
const PROOF_BYTES: usize = 64 * 1024;
const GOOD_FOR: Duration = Duration::from_secs(1);

pub struct Health {
    /// By the clock that only goes on.
    started_at: i64,
    /// Held while a proof is made, so that everybody who asks meanwhile gets the same one.
    last: Mutex<Option<Proof>>,
}

/// That the store wrote.
#[derive(Debug, Clone, Copy)]
struct Proof {
    made: Instant,
    latency_ms: u64,
}

impl Health {
    pub fn new(started_at: i64) -> Self {
        Self { started_at, last: Mutex::new(None) }
    }

    /// Has the store write, unless it did a moment ago.
    async fn prove(&self, store: &Store, now: i64) -> Result<Proof, StoreError> {
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

/// How the hub is, once the store has proved that it writes.
pub async fn report(app: &App) -> Result<HealthReport, Error> {
    let proof = app.health.prove(&app.store, app.now()).await?;
    Ok(HealthReport {
        status: "ok".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        chorus_version: CHORUS_VERSION.into(),
        host: app.config.host_name.clone(),
        store: StoreReport {
            kind: app.store.kind().as_str().into(),
            durability: app.config.durability.as_str().into(),
            write_latency_ms: proof.latency_ms,
            queued: app.store.queued() as u64,
        },
        retention_days: app.config.retention.map(|keep| keep.as_secs() / 86_400),
        open_inboxes: app.live.open_inboxes() as u64,
        time: rfc3339(app.now()),
        uptime_s: ((app.elapsed() - app.health.started_at).max(0) / 1000) as u64,
    })
}
