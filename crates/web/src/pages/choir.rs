//! Choir's pages: what anybody may read and check of a receipt, and where Scores are written by whoever may.

mod charts;
mod compare;
mod desk;
mod editor;
mod evidence;
mod form;
mod plain;
mod receipt;
mod records;
mod scores;
mod verify;

use axum::Router;
use chorus_app::AppState;

/// For everybody, on ids that nobody can guess; and what an edit link opens.
pub(crate) fn public() -> Router<AppState> {
    receipt::routes()
        .merge(verify::routes())
        .merge(compare::routes())
        .merge(at("/scores/{id}/edit/{link}"))
        .merge(desk::claim_routes())
}

/// Of whoever is signed in.
pub(crate) fn own() -> Router<AppState> {
    scores::routes().merge(at("/scores/{id}"))
}

/// The pages of one Score: the same for its owner and for whoever holds its edit link.
fn at(path: &str) -> Router<AppState> {
    editor::routes(path).merge(evidence::routes(path)).merge(records::routes(path))
}
