//! Limits how many agents may register, how often an agent on the market changes what it offers, and how many bytes agents and Scores
//! without an owner take a day. The operator is not counted, nor is an agent of the relay that registers again.

use crate::config::quotas::{OFF, Quotas};
use crate::limits::fair_share::FairShare;
use crate::limits::rate::Limiter;
use crate::source::Source;
use chorus_protocol::ids::AgentId;
use std::time::Duration;

const MINUTE: Duration = Duration::from_mins(1);
/// The number of registrations with the market are looked at for each new agent that one address may register. Programs register on each
/// start, mostly without a change.
const TRIES: u64 = 6;
const DAY: Duration = Duration::from_hours(24);

pub struct Registrations {
    of_source: Limiter<Source>,
    of_hub: FairShare<(), Source>,
    tries: Limiter<Source>,
    changes: Limiter<AgentId>,
    changes_of_source: Limiter<Source>,
    bytes: Limiter<Source>,
    bytes_of_source: u64,
    per_source: u64,
    in_all: u64,
    per_agent: u64,
}

impl Registrations {
    pub fn new(quotas: &Quotas) -> Self {
        let per_source = quotas.registrations;
        Self {
            of_source: Limiter::at_once(per_source, MINUTE),
            of_hub: FairShare::new(quotas.registrations_hub, MINUTE),
            tries: Limiter::at_once(per_source.saturating_mul(TRIES), MINUTE),
            changes: Limiter::at_once(quotas.offer_changes, MINUTE),
            changes_of_source: Limiter::at_once(per_source, MINUTE),
            per_source,
            in_all: quotas.registrations_hub,
            per_agent: quotas.offer_changes,
            bytes: Limiter::at_once(quotas.registration_bytes, DAY),
            bytes_of_source: quotas.registration_bytes,
        }
    }

    /// Counts bytes by which records grew, or says for how long there is no room for them, and why.
    pub fn take_bytes(&self, source: Source, bytes: i64, elapsed: i64) -> Result<(), (i64, String)> {
        let Ok(bytes @ 1..) = u32::try_from(bytes.clamp(0, u32::MAX.into())) else { return Ok(()) };
        if self.bytes_of_source == OFF {
            return Ok(());
        }
        self.bytes.take_several(source, bytes, elapsed).map_err(|wait| {
            let most = self.bytes_of_source;
            let what = format!(
                "from one address {most} bytes of cards, offers and Scores without an account a day (CHORUS_QUOTA_REGISTRATION_BYTES)"
            );
            (wait, what)
        })
    }

    /// Returns the limit per source, or `None` if there is none.
    pub fn limit_of_source(&self) -> Option<u64> {
        (self.per_source != OFF).then_some(self.per_source)
    }

    pub fn of_source(&self) -> &Limiter<Source> {
        &self.of_source
    }

    /// Counts a new agent, or says for how long there is none, and why.
    pub fn take(&self, source: Source, elapsed: i64) -> Result<(), (i64, String)> {
        self.take_from(&self.of_source, source, self.per_source, "new agents", elapsed)?;
        self.of_hub.take((), source, elapsed).map_err(|wait| {
            let most = self.in_all;
            let what = format!(
                "{most} new agents a minute in all, and an address gets a tenth of what is left \
                 (CHORUS_QUOTA_REGISTRATIONS_HUB)"
            );
            (wait, what)
        })
    }

    /// Counts a registration with the market before it is looked at, or returns the wait in milliseconds and the limit.
    pub fn try_listing(&self, source: Source, elapsed: i64) -> Result<(), (i64, String)> {
        let most = self.per_source.saturating_mul(TRIES);
        self.take_from(&self.tries, source, most, "registrations with the market", elapsed)
    }

    /// Counts a registration that changes what an agent offers, or returns the wait in milliseconds and the limit.
    pub fn change_listing(&self, agent: AgentId, source: Source, elapsed: i64) -> Result<(), (i64, String)> {
        if self.per_agent != OFF {
            self.changes.take(agent, elapsed).map_err(|wait| {
                let most = self.per_agent;
                (wait, format!("{most} changes a minute of one agent's offers (CHORUS_QUOTA_OFFER_CHANGES)"))
            })?;
        }
        self.take_from(&self.changes_of_source, source, self.per_source, "changes of offers", elapsed)
    }

    fn take_from(
        &self,
        limiter: &Limiter<Source>,
        source: Source,
        most: u64,
        what: &str,
        elapsed: i64,
    ) -> Result<(), (i64, String)> {
        if self.per_source == OFF {
            return Ok(());
        }
        limiter.take(source, elapsed).map_err(|wait| {
            (wait, format!("from one address {most} {what} a minute (CHORUS_QUOTA_REGISTRATIONS)"))
        })
    }
}
