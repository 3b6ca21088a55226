//! Choir's pages: public receipts and their verification, and the editor of Scores.

mod answers;
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
use chorus_node::AppState;

/// Public pages, addressed by unguessable ids, and the pages behind an edit link.
pub(crate) fn public() -> Router<AppState> {
    receipt::routes()
        .merge(verify::routes())
        .merge(compare::routes())
        .merge(at("/scores/{id}/edit/{link}"))
        .merge(desk::claim_routes())
}

/// The pages of a signed-in person.
pub(crate) fn own() -> Router<AppState> {
    scores::routes().merge(at("/scores/{id}"))
}

/// The pages of one Score. Its owner and the holder of its edit link have the same ones.
fn at(path: &str) -> Router<AppState> {
    editor::routes(path)
        .merge(evidence::routes(path))
        .merge(answers::routes(path))
        .merge(records::routes(path))
}
