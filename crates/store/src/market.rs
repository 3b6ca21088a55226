//! The market's durable state: wallets and the ledger, agents with their skills, jobs, offers.
//!
//! Money moves only by [`ledger::apply`], which applies what the engine decided. A decision that depends on a
//! balance locks that wallet ([`wallets::hold`]), the smaller id first, and locks agents' inboxes only
//! afterwards. There are no rules about prices or reputations here.

pub mod agents;
pub mod allowances;
pub mod books;
pub mod discovery;
pub mod handing;
pub mod jobs;
pub mod ledger;
pub mod outages;
pub mod quotes;
pub mod reputation;
pub mod wallets;
pub mod withdrawal;
pub mod word_index;

use crate::StoreError;
use chorus_protocol::market::{Credits, Reputation};

/// An amount, as a column holds it.
fn credits(hundredths: i64) -> Result<Credits, StoreError> {
    let amount = Credits::from_hundredths(hundredths);
    amount.ok_or_else(|| StoreError::unexpected(format!("the amount {hundredths}")))
}

/// Returns the difference to the best reputation. Smaller is better, so that one ascending order serves for
/// reputation, cost and id.
fn shortfall(reputation: Reputation) -> i64 {
    Reputation::MAX.ten_thousandths() - reputation.ten_thousandths()
}
