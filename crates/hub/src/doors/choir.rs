//! Choir: Scores, evidence and receipts for their owners, and public verification.

mod adapt;
mod public;
mod receipts;
mod scores;

use crate::routes::Routes;

pub(crate) fn routes() -> Routes {
    scores::routes().and(adapt::routes()).and(receipts::routes()).and(public::routes())
}
