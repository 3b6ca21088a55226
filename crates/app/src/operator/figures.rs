//! The hub's metrics.

use chorus_node::App;
use chorus_node::Error;
use chorus_store::{Tx, usage};
use std::sync::atomic::Ordering;

/// Returns the metrics for Prometheus as OpenMetrics text.
pub async fn figures(app: &App) -> Result<String, Error> {
    let total = app.store.read::<_, Error, _>(|tx: &mut dyn Tx| Ok(usage::total(tx)?)).await?;
    app.telemetry.metrics.stored_bytes.set(total);
    app.telemetry.metrics.writes.inner().store(app.store.writes(), Ordering::Relaxed);
    app.telemetry.metrics.render().map_err(Error::internal)
}
