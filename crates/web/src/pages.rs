//! The pages, one file each. To add one: a file with `routes()`, a line in [`own`], and its place in the rail.

pub(crate) mod account;
pub(crate) mod agent;
pub(crate) mod approvals;
pub(crate) mod blocks;
pub(crate) mod channel;
pub(crate) mod choir;
pub(crate) mod deliveries;
pub(crate) mod directory;
pub(crate) mod first;
pub(crate) mod fleet;
pub(crate) mod inbox;
pub(crate) mod market;
pub mod nothing;
pub(crate) mod operator;
pub(crate) mod rail;
pub mod reference;
pub(crate) mod search;
pub(crate) mod signin;
pub(crate) mod streams;

use axum::Router;
use chorus_app::AppState;

/// Pages of somebody who is signed in.
pub(crate) fn own() -> Router<AppState> {
    account::routes()
        .merge(agent::routes())
        .merge(approvals::routes())
        .merge(blocks::routes())
        .merge(channel::routes())
        .merge(choir::own())
        .merge(deliveries::routes())
        .merge(directory::routes())
        .merge(fleet::routes())
        .merge(inbox::routes())
        .merge(market::routes())
        .merge(operator::routes())
        .merge(rail::routes())
        .merge(search::routes())
        .merge(streams::routes())
}
