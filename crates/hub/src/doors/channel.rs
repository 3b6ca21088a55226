//! The Channel Protocol 0.1, both sides: callbacks of agents the hub posted to, and connection strings the hub issues.
//!
//! Neither needs a key: the address is the secret.

pub(crate) mod callback;
pub(crate) mod foreign;

use crate::route::{Credentials, Grant, Route};
use crate::routes::Routes;
use utoipa_axum::routes;

/// Where agents answer what they were posted: at an address that we signed.
const CALLBACK: Route = Route {
    credentials: Credentials::Ignored,
    grant: Some(Grant { purpose: "answers", read: callback::agent_of }),
    keeps_time: true,
    ..Route::API
};
/// Where other services post to agents.
const FOREIGN: Route = Route { credentials: Credentials::Door, ..Route::API };

pub(crate) fn routes() -> Routes {
    Routes::default()
        .at(CALLBACK, routes!(callback::callback))
        .at(FOREIGN, routes!(foreign::receive))
        .under("/channels/", CALLBACK)
        .under("/inbox/", FOREIGN)
}
