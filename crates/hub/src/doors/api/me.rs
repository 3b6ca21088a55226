//! Who the caller is, and how much of each quota it uses.

use super::answers::{Forbidden, Overloaded, TooFast, Unknown};
use super::read;
use crate::error::ApiError;
use crate::extract::By;
use crate::route::{Route, Routes};
use axum::Json;
use axum::extract::State;
use chorus_app::caller::Caller;
use chorus_app::quotas::OFF;
use chorus_app::{App, AppState};
use chorus_protocol::ids::Principal;
use chorus_store::{StoreError, Tx, usage};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use utoipa_axum::routes;

pub(crate) fn routes() -> Routes {
    Routes::default().at(Route::API, routes!(me))
}

/// The caller.
#[derive(Serialize, utoipa::ToSchema)]
struct Me {
    /// `account`, `agent` or `operator`.
    kind: &'static str,
    /// Of the account or the agent.
    id: String,
    /// What it is called.
    name: String,
    /// Of an account.
    #[serde(skip_serializing_if = "Option::is_none")]
    email: Option<String>,
    /// Of an agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    /// How much it may have, and has: of an account `account_bytes` (with its agents'), `agents` and `channels`, of an agent
    /// `agent_bytes` and `channels`; nothing of the operator.
    quotas: BTreeMap<&'static str, QuotaView>,
}

/// One quota.
#[derive(Serialize, utoipa::ToSchema)]
struct QuotaView {
    /// How much is used.
    used: u64,
    /// How much may be; `null` for no limit.
    limit: Option<u64>,
}

/// Who you are
///
/// And how much you use of what you may have.
#[utoipa::path(get, path = "/api/v1/me", tag = "people", security(("key" = [])),
    responses((status = 200, description = "The caller", body = Me), Unknown, Forbidden, TooFast, Overloaded))]
async fn me(State(app): State<AppState>, By(caller): By) -> Result<Json<Me>, ApiError> {
    let (kind, who) = (caller.kind(), caller.principal().ok());
    let mut me = match caller {
        Caller::Account(person) => Me {
            kind,
            id: person.id.to_string(),
            name: person.name,
            email: Some(person.email),
            address: None,
            quotas: BTreeMap::new(),
        },
        Caller::Agent(identity) => Me {
            kind,
            id: identity.id.to_string(),
            address: Some(app.address(&identity.name)),
            name: identity.name,
            email: None,
            quotas: BTreeMap::new(),
        },
        Caller::Operator => {
            let (id, name) = (kind.to_owned(), kind.to_owned());
            Me { kind, id, name, email: None, address: None, quotas: BTreeMap::new() }
        }
        Caller::Nobody => {
            return Err(ApiError::unauthorized("nobody is signed in, and no key was sent"));
        }
    };
    if let Some(who) = who {
        let hub = Arc::clone(&app);
        me.quotas = read(&app, move |tx| Ok(quotas(&hub, tx, who)?)).await?;
    }
    Ok(Json(me))
}

fn quotas(
    app: &App,
    tx: &mut dyn Tx,
    who: Principal,
) -> Result<BTreeMap<&'static str, QuotaView>, StoreError> {
    let view = |used, limit| QuotaView { used, limit: (limit != OFF).then_some(limit) };
    let (bytes, used, limit) = app.usage.of(tx, who)?;
    let channels = usage::channels(tx, who)?.max(0) as u64;
    let mut quotas = BTreeMap::from([
        (bytes, view(used, limit)),
        ("channels", view(channels, app.config.quotas.channels)),
    ]);
    if let Principal::Account(account) = who {
        let agents = usage::agents(tx, account)?.max(0) as u64;
        quotas.insert("agents", view(agents, app.config.quotas.agents));
    }
    Ok(quotas)
}
