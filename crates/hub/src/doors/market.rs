//! The market's door: Chorus Registry 0.1, under `/market`.
//!
//! Errors are `{"error": {"code": "SKILL_MISMATCH", …}}`: the hub's own format with the codes of the document.

pub(crate) mod agents;
mod answers;
pub(crate) mod jobs;
pub(crate) mod money;
pub(crate) mod quotes;

use crate::route::{Credentials, Grant, Route};
use crate::routes::Routes;
use utoipa_axum::routes;

/// A route of the market.
const MARKET: Route = Route::API;
/// Result callbacks: an agent reports without a key, at an address made for one job.
const RESULT: Route = Route {
    credentials: Credentials::Ignored,
    grant: Some(Grant { purpose: "results", read: jobs::agent_of }),
    ..MARKET
};

pub(crate) fn routes() -> Routes {
    Routes::default()
        .at(MARKET, routes!(agents::register))
        .at(MARKET, routes!(agents::discover))
        .at(MARKET, routes!(agents::skills))
        .at(MARKET, routes!(agents::heartbeat))
        .at(MARKET, routes!(agents::one, agents::unregister))
        .at(MARKET, routes!(agents::reputation))
        .at(MARKET, routes!(jobs::hire, jobs::list))
        .at(MARKET, routes!(jobs::one))
        .at(MARKET, routes!(jobs::cancel))
        .at(MARKET, routes!(jobs::report))
        .at(RESULT, routes!(jobs::take))
        .at(MARKET, routes!(quotes::ask))
        .at(MARKET, routes!(quotes::one))
        .at(MARKET, routes!(quotes::offer))
        .at(MARKET, routes!(quotes::accept))
        .at(MARKET, routes!(money::transfer))
        .at(MARKET, routes!(money::wallet))
        .at(MARKET, routes!(money::reset_owner_key))
        .at(MARKET, routes!(money::ledger))
        .at(MARKET, routes!(money::mint))
        .at(MARKET, routes!(money::burn))
        .at(MARKET, routes!(money::economy))
        .under("/market/", MARKET)
}
