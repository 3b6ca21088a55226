//! The operator's overview of the hub: settings, load and risky configuration.

use crate::health_report::{self, HealthReader};
use chorus_node::App;
use chorus_node::Error;
use chorus_node::Signup;
use chorus_node::config::dangers::dangers;
use chorus_node::config::quotas::{OFF, Quotas};
use chorus_protocol::api::operator::Overview;
use chorus_protocol::relay::HealthReport;
use chorus_store::{Tx, usage};

/// The state of the store.
#[derive(Debug)]
pub struct StoreHealth {
    /// The result of a test write, or `None` if it failed.
    pub report: Option<HealthReport>,
    /// Bytes stored for all principals together.
    pub bytes: i64,
    /// Write transactions since the hub started.
    pub writes: u64,
    /// Requests refused by rate limits since the hub started.
    pub refused: u64,
}

/// Checks the store with a test write.
pub async fn store_health(app: &App) -> Result<StoreHealth, Error> {
    Ok(StoreHealth {
        report: health_report::report(app, HealthReader::Operator).await.ok(),
        bytes: app.store.read::<_, Error, _>(|tx: &mut dyn Tx| Ok(usage::total(tx)?)).await?,
        writes: app.store.writes(),
        refused: app.telemetry.metrics.rate_limited.get(),
    })
}

/// Returns the hub's settings, its load and the risks of its configuration, the worst first.
pub fn overview(app: &App) -> Overview {
    let quotas = Quotas::TABLE.iter().zip(app.config.quotas.values());
    let signup = match app.config.signup {
        Signup::Open => "open",
        Signup::Invite => "invite",
        Signup::Closed => "closed",
    };
    Overview {
        public_url: app.config.public_url.clone(),
        signup: signup.into(),
        endpoint_challenge: app.config.endpoint_challenge,
        connections: app.telemetry.metrics.connections.get(),
        open_inboxes: app.transport.live.open_inboxes(),
        queued_writes: app.store.queued(),
        quotas: quotas
            .map(|(quota, limit)| (quota.variable.to_owned(), Some(limit).filter(|limit| *limit != OFF)))
            .collect(),
        warnings: dangers(&app.config, app.on_loopback),
    }
}
