//! The hub as its operator sees it: how it is set, how busy it is, and what is dangerous about it.

use crate::app::App;
use crate::config::Signup;
use crate::dangers::dangers;
use crate::error::Error;
use crate::health_report;
use crate::quotas::{OFF, Quotas};
use chorus_protocol::api::operator::Overview;
use chorus_protocol::relay::HealthReport;
use chorus_store::{Tx, usage};

/// How the store is.
#[derive(Debug)]
pub struct StoreHealth {
    /// What a test write told; none if it failed.
    pub report: Option<HealthReport>,
    /// Bytes of what is stored for everybody.
    pub bytes: i64,
    /// Transactions that may write, since the hub was started.
    pub writes: u64,
    /// Requests that were refused for their number since then.
    pub refused: u64,
}

/// How the store is, by a test write.
pub async fn store_health(app: &App) -> Result<StoreHealth, Error> {
    Ok(StoreHealth {
        report: health_report::report(app).await.ok(),
        bytes: app.store.read::<_, Error, _>(|tx: &mut dyn Tx| Ok(usage::total(tx)?)).await?,
        writes: app.store.writes(),
        refused: app.metrics.rate_limited.get(),
    })
}

/// How the hub is set, how busy it is, and what is dangerous in its present settings, the worst first.
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
        connections: app.metrics.connections.get(),
        open_inboxes: app.live.open_inboxes(),
        queued_writes: app.store.queued(),
        quotas: quotas
            .map(|(quota, limit)| (quota.variable.to_owned(), Some(limit).filter(|limit| *limit != OFF)))
            .collect(),
        warnings: dangers(&app.config, app.on_loopback),
    }
}
