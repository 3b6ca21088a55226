//! The relay's door: Chorus Transport 0.4, at the paths of its document.

pub(crate) mod bodies;
pub(crate) mod directory;
pub(crate) mod inbox;
pub(crate) mod reply;
pub(crate) mod send;

use crate::route::{Credentials, Route};
use crate::routes::Routes;
use utoipa_axum::routes;

pub(crate) fn routes() -> Routes {
    // A client that registers again may send a stale key. The door checks the key itself.
    let register = Route { credentials: Credentials::Ignored, ..Route::RELAY };
    Routes::default()
        .at(register, routes!(directory::register))
        .at(Route::RELAY, routes!(directory::list, directory::register_by_operator))
        .at(Route::RELAY, routes!(directory::one, directory::unregister))
        .at(Route::RELAY, routes!(send::send))
        .at(reply::REPLIES, routes!(reply::reply))
        .at(inbox::INBOX, routes!(inbox::open))
        .at(Route::RELAY, routes!(inbox::session))
        .at(Route::RELAY, routes!(inbox::history))
        .at(Route::RELAY, routes!(inbox::sent))
        .at(Route::RELAY, routes!(inbox::sent_one))
}
