//! The hub in figures.

use crate::app::App;
use crate::error::Error;
use chorus_store::{Tx, usage};
use std::sync::atomic::Ordering;

/// Figures for Prometheus, as OpenMetrics text.
pub async fn figures(app: &App) -> Result<String, Error> {
    let total = app.store.read::<_, Error, _>(|tx: &mut dyn Tx| Ok(usage::total(tx)?)).await?;
    app.metrics.stored_bytes.set(total);
    app.metrics.writes.inner().store(app.store.writes(), Ordering::Relaxed);
    app.metrics.render().map_err(Error::internal)
}
