//! `/api/v1`: the hub's own JSON API.

pub(crate) mod accounts;
pub(crate) mod agents;
pub(crate) mod answers;
pub(crate) mod artifacts;
pub(crate) mod blocks;
pub(crate) mod channels;
mod conversation;
pub(crate) mod deliveries;
mod events;
pub(crate) mod invitations;
pub(crate) mod me;
mod members;
pub(crate) mod messages;
pub(crate) mod operator;
pub(crate) mod overview;
pub(crate) mod recovery;
mod search;
mod stream;

use crate::error::ApiError;
use crate::route::Route;
use crate::routes::Routes;
use chorus_app::App;
pub(crate) use chorus_app::page::{fitting, page};
pub(crate) use chorus_protocol::api::Items;
use chorus_store::Tx;

pub(crate) fn routes() -> Routes {
    accounts::routes()
        .and(me::routes())
        .and(invitations::routes())
        .and(blocks::routes())
        .and(agents::routes())
        .and(channels::routes())
        .and(messages::routes())
        .and(deliveries::routes())
        .and(recovery::routes())
        .and(operator::routes())
        .and(overview::routes())
        .under("/api/v1", Route::API)
}

/// Reads in one snapshot.
pub(crate) async fn read<T, F>(app: &App, work: F) -> Result<T, ApiError>
where
    F: Fn(&mut dyn Tx) -> Result<T, ApiError> + Send + 'static,
    T: Send + 'static,
{
    app.store.read::<_, ApiError, _>(work).await
}
