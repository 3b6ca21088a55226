//! `/api/v1`: the hub's own JSON API.

pub(crate) mod accounts;
pub(crate) mod agents;
mod approvals;
pub(crate) mod artifacts;
mod audit;
pub(crate) mod blocks;
pub(crate) mod channels;
pub(crate) mod deliveries;
mod events;
mod fleet;
pub(crate) mod invitations;
pub(crate) mod me;
mod members;
pub(crate) mod messages;
pub(crate) mod operator;
pub(crate) mod overview;
pub(crate) mod recovery;
mod search;
mod stream;
mod unread;
mod work_streams;

use crate::route::Route;
use crate::routes::Routes;
pub(crate) use chorus_protocol::api::Items;

pub(crate) fn routes() -> Routes {
    accounts::routes()
        .and(me::routes())
        .and(invitations::routes())
        .and(blocks::routes())
        .and(agents::routes())
        .and(channels::routes())
        .and(messages::routes())
        .and(approvals::routes())
        .and(deliveries::routes())
        .and(fleet::routes())
        .and(recovery::routes())
        .and(operator::routes())
        .and(audit::routes())
        .and(overview::routes())
        .and(unread::routes())
        .and(work_streams::routes())
        .under("/api/", Route::API)
}
