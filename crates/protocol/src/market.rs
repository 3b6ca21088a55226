//! The market's words (Chorus Registry 0.1): agents offer skills at a price, orchestrators hire and pay them.
//!
//! One struct for each body, checked and described from its definition. Amounts are [`Credits`], read from the text of the
//! number; scores are [`Reputation`]. What money and scores do is the `market` engine's business.

mod agents;
mod amounts;
mod jobs;
mod money;
mod movement;
mod quotes;

pub use agents::{
    Discover, Discovered, Found, Heartbeat, MarketAgent, OfferedSkill, OwnerId, Registered, Registration,
    ReputationView, Skill, SkillName, SkillSearch, SkillSummary, Step, Text, Timestamp,
};
pub use amounts::{Credits, NotCredits, Reputation};
pub use jobs::{
    CURRENCY, JobError, JobHandout, JobRequest, JobResult, JobSearch, JobView, MAX_DEADLINE_MS, ResultTaken,
    USUAL_DEADLINE_MS,
};
pub use money::{
    Economy, Issue, Issued, LedgerSearch, MovementView, NewOwnerKey, Transfer, TransferView, WalletView,
};
pub use movement::{Movement, Purse};
pub use quotes::{Accept, MakeOffer, Offer, OfferMade, QuoteAsked, QuoteRequest, QuoteView};

use crate::words::words;

words! {
    /// How a job stands, as the document spells it.
    pub enum JobStatus {
        /// It is being worked on.
        Pending = "PENDING",
        /// It was done, and paid.
        Success = "SUCCESS",
        /// It came to nothing, and was refunded.
        Failure = "FAILURE",
    }

    /// Why credits moved.
    pub enum MovementKind {
        /// The operator made them.
        Mint = "mint",
        /// The operator took them away.
        Burn = "burn",
        /// One owner gave them to another.
        Transfer = "transfer",
        /// They are kept for a job.
        Hold = "hold",
        /// A job was paid.
        Settle = "settle",
        /// What a job did not cost went back.
        Refund = "refund",
    }

    /// Whether an agent can be hired now.
    pub enum Presence {
        /// It showed a sign of life not long ago.
        Online = "online",
        /// It did not.
        Offline = "offline",
    }

    /// What became of a registration.
    pub enum RegistrationStatus {
        /// It is new on the market.
        Registered = "registered",
        /// It was there before.
        Updated = "updated",
    }

    /// How a request for offers stands.
    pub enum QuoteStatus {
        /// One can be taken.
        Open = "open",
        /// One was taken.
        Accepted = "accepted",
        /// Its time is over.
        Expired = "expired",
    }
}

#[cfg(test)]
mod tests;
