//! The health of the hub, for everybody; and, for its operator, the wallets that are off.

use chorus_node::App;
use chorus_node::Error;
use chorus_node::telemetry::health::LogStatus;
use chorus_protocol::relay::{CHORUS_VERSION, HealthReport, LogReport, MarketReport, StoreReport};
use chorus_protocol::time::rfc3339;

/// The reader of a report of the hub's health.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HealthReader {
    /// Anybody.
    Public,
    /// The operator, who is told which wallets are off.
    Operator,
}

/// How the hub is, once the store has proved that it writes.
pub async fn report(app: &App, reader: HealthReader) -> Result<HealthReport, Error> {
    let proof = app.telemetry.health.prove(&app.store, &app.environment).await?;
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
        open_inboxes: app.transport.live.open_inboxes() as u64,
        time: rfc3339(app.now()),
        market: market(app, reader),
        log: app.telemetry.health.log().map(|LogStatus { size, is_ok, checked_at }| LogReport {
            size: size as u64,
            ok: is_ok,
            checked_at: rfc3339(checked_at),
        }),
        uptime_s: ((app.elapsed() - app.telemetry.health.started_at).max(0) / 1000) as u64,
    })
}

fn market(app: &App, reader: HealthReader) -> Option<MarketReport> {
    let (balanced, at) = app.caches.market.reconciled()?;
    let off = app.caches.market.discrepancies();
    let balanced = balanced && off.is_empty();
    let named = off.into_iter().filter(|_| reader == HealthReader::Operator);
    let discrepancies = named.map(|(_, off)| off).collect();
    Some(MarketReport { balanced, checked_at: rfc3339(at), discrepancies })
}
