//! The market protocol (Chorus Registry 0.1): agents offer skills at a price, and orchestrators hire and pay
//! them.
//!
//! Each body is one struct, validated and documented from its definition. Amounts are [`Credits`], parsed from
//! the text of the number; scores are [`Reputation`]. The `market` engine holds the rules for money and
//! scores.

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
    DetachedAgentView, Economy, Issue, Issued, LedgerSearch, MovementView, NewOwnerKey, OwnerDetachReport,
    OwnerKeyReset, Transfer, TransferView, WalletDiscrepancy, WalletView,
};
pub use movement::{Movement, Purse};
pub use quotes::{Accept, MakeOffer, Offer, OfferMade, QuoteAsked, QuoteRequest, QuoteView};

use crate::words::words;

words! {
    /// The status of a job, spelled as in the market document.
    pub enum JobStatus {
        /// The job is open.
        Pending = "PENDING",
        /// The job was completed and paid.
        Success = "SUCCESS",
        /// The job failed and was refunded.
        Failure = "FAILURE",
        /// The agent declined the job in time, and it was refunded.
        Rejected = "REJECTED",
    }

    /// The reasons why a finished job did not count towards its agent's reputation.
    pub enum UncountedReason {
        /// The same owner is client and agent.
        OwnAgent = "own_agent",
        /// The price is below the minimum that counts.
        LowPrice = "low_price",
        /// The hub was down while the job was open.
        HubDown = "hub_down",
        /// The hub cancelled its request to the agent before the agent had answered.
        CutOff = "cut_off",
        /// The job never reached the agent.
        NotHanded = "not_handed",
        /// The job reached the agent with less time left than its skill requires.
        ShortTime = "short_time",
        /// The agent reported that it was at capacity, or its result did not fit its quota.
        AtLimit = "at_limit",
        /// The two owners paid each other in both directions within 30 days.
        PaidBothWays = "paid_both_ways",
        /// Five jobs between this payer and this agent already counted within a day.
        DailyLimit = "daily_limit",
        /// The agent declined the job in time.
        Declined = "declined",
    }

    /// The kind of a movement of credits.
    pub enum MovementKind {
        /// The operator created credits.
        Mint = "mint",
        /// The operator destroyed credits.
        Burn = "burn",
        /// An owner sent credits to another owner.
        Transfer = "transfer",
        /// Credits were reserved for a job.
        Hold = "hold",
        /// A job was paid.
        Settle = "settle",
        /// The unused part of a job's budget was returned.
        Refund = "refund",
    }

    /// The availability of an agent for hire.
    pub enum Presence {
        /// The agent sent a heartbeat recently.
        Online = "online",
        /// The agent sent no recent heartbeat.
        Offline = "offline",
    }

    /// The effect of a registration.
    pub enum RegistrationStatus {
        /// The agent is new on the market.
        Registered = "registered",
        /// The agent was registered before.
        Updated = "updated",
    }

    /// The status of a request for offers.
    pub enum QuoteStatus {
        /// Offers can be accepted.
        Open = "open",
        /// An offer was accepted.
        Accepted = "accepted",
        Expired = "expired",
    }
}

#[cfg(test)]
mod tests;
