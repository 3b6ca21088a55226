//! The hub as its operator sees it: how it is set, how busy it is, and what is dangerous about it.

use crate::app::App;
use crate::config::Signup;
use crate::dangers::dangers;
use crate::quotas::{OFF, Quotas};
use chorus_protocol::api::operator::Overview;

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
