//! The hub as its operator sees it: how it is set, how busy it is, and what is dangerous about it.

use super::answers::{Forbidden, Overloaded, TooFast, Unknown};
use crate::error::ApiError;
use crate::extract::By;
use crate::route::{Route, Routes};
use axum::Json;
use axum::extract::State;
use chorus_app::AppState;
use chorus_app::Signup;
use chorus_app::dangers::{Danger, dangers};
use chorus_app::quotas::{OFF, Quotas};
use serde::Serialize;
use std::collections::BTreeMap;
use utoipa_axum::routes;

pub(crate) fn routes() -> Routes {
    Routes::default().at(Route::API, routes!(overview))
}

/// The hub as its operator sees it.
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct Overview {
    /// Where people and agents reach it.
    public_url: String,
    /// Who may register: `open`, `invite` or `closed`.
    signup: &'static str,
    /// Whether endpoints must answer a challenge before anything is sent to them.
    endpoint_challenge: bool,
    /// Open connections on this node.
    connections: i64,
    /// Open inboxes on this node.
    open_inboxes: usize,
    /// Writes that wait for the store.
    queued_writes: usize,
    /// How much anybody may have or do, by setting; `null` for no limit.
    quotas: BTreeMap<&'static str, Option<u64>>,
    /// What is dangerous in the present settings.
    warnings: Vec<Danger>,
}

/// Look at the hub as its operator
///
/// How it is set, how busy it is, and what is dangerous in its present settings, the worst first.
#[utoipa::path(get, path = "/api/v1/operator/overview", tag = "operator", security(("key" = [])),
    responses((status = 200, description = "The hub", body = Overview), Unknown, Forbidden, TooFast, Overloaded))]
async fn overview(State(app): State<AppState>, By(caller): By) -> Result<Json<Overview>, ApiError> {
    caller.operator()?;
    let quotas = Quotas::TABLE.iter().zip(app.config.quotas.values());
    Ok(Json(Overview {
        public_url: app.config.public_url.clone(),
        signup: match app.config.signup {
            Signup::Open => "open",
            Signup::Invite => "invite",
            Signup::Closed => "closed",
        },
        endpoint_challenge: app.config.endpoint_challenge,
        connections: app.metrics.connections.get(),
        open_inboxes: app.live.len(),
        queued_writes: app.store.queued(),
        quotas: quotas
            .map(|(quota, limit)| (quota.variable, Some(limit).filter(|limit| *limit != OFF)))
            .collect(),
        warnings: dangers(&app.config, app.on_loopback),
    }))
}
