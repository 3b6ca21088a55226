//! The Channel Protocol 0.1, both sides: callbacks of agents, and connection strings issued by the hub.
//!
//! Neither needs a key: the address is the secret.

pub(crate) mod callback;
pub(crate) mod foreign;

use crate::route::{Credentials, Grant, Route};
use crate::routes::Routes;
use utoipa_axum::routes;

/// Callbacks: agents answer a posted message at a signed address.
const CALLBACK: Route = Route {
    credentials: Credentials::Ignored,
    grant: Some(Grant { purpose: "answers", read: callback::agent_of }),
    keeps_time: true,
    ..Route::API
};
/// Connection strings: other services post to agents.
const FOREIGN: Route = Route { credentials: Credentials::Door, ..Route::API };

pub(crate) fn routes() -> Routes {
    Routes::default()
        .at(CALLBACK, routes!(callback::callback))
        .at(FOREIGN, routes!(foreign::receive))
        .under("/channels/", CALLBACK)
        .under("/inbox/", FOREIGN)
}
