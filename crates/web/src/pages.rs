//! The pages, one file each. A new page needs a file with `routes()`, a line in [`own`], and an entry in the
//! rail.

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
use chorus_node::AppState;

/// The pages of a signed-in person.
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
