//! The market's durable state: wallets and the ledger, agents with their skills, jobs, offers.
//!
//! Money moves only by [`ledger::apply`], which is given what the engine said. Whoever looks at a balance to decide something
//! holds that wallet ([`wallets::hold`]), the smaller id first, and takes agents' inboxes only after it. What belongs to which
//! protocol words is decided above: here is no rule about prices or reputations.

pub mod agents;
pub mod discovery;
pub mod jobs;
pub mod ledger;
pub mod quotes;
pub mod reindex;
pub mod reputation;
pub mod wallets;

use crate::StoreError;
use chorus_protocol::market::{Credits, Reputation};

/// An amount, as a column holds it.
fn credits(hundredths: i64) -> Result<Credits, StoreError> {
    let amount = Credits::from_hundredths(hundredths);
    amount.ok_or_else(|| StoreError::unexpected(format!("the amount {hundredths}")))
}

/// What a reputation lacks of the best: small is good, so that one order serves for reputation, cost and id.
fn shortfall(reputation: Reputation) -> i64 {
    Reputation::MAX.ten_thousandths() - reputation.ten_thousandths()
}
