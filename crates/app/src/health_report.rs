//! How the hub is, for everybody.

use crate::app::App;
use crate::error::Error;
use chorus_protocol::relay::{CHORUS_VERSION, HealthReport, MarketReport, StoreReport};
use chorus_protocol::time::rfc3339;

/// How the hub is, once the store has proved that it writes.
pub async fn report(app: &App) -> Result<HealthReport, Error> {
    let proof = app.health.prove(&app.store, &app.environment).await?;
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
        market: app
            .market
            .reconciled()
            .map(|(balanced, at)| MarketReport { balanced, checked_at: rfc3339(at) }),
        uptime_s: ((app.elapsed() - app.health.started_at).max(0) / 1000) as u64,
    })
}
