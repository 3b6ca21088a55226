//! How many new agents there may be in a minute, from one source and in all. The operator's are not counted, nor is an agent
//! that registers again.

use crate::budget::Budgets;
use crate::quotas::{OFF, Quotas};
use crate::rate::{Limiter, Source};
use std::time::Duration;

const MINUTE: Duration = Duration::from_mins(1);

pub struct Registrations {
    of_source: Limiter<Source>,
    of_hub: Budgets<(), Source>,
    per_source: u64,
    in_all: u64,
}

impl Registrations {
    pub fn new(quotas: &Quotas) -> Self {
        let of_source = Limiter::at_once(quotas.registrations, MINUTE);
        Self {
            of_source,
            of_hub: Budgets::new(quotas.registrations_hub, MINUTE),
            per_source: quotas.registrations,
            in_all: quotas.registrations_hub,
        }
    }

    /// How many there may be from one source, if that is limited.
    pub fn limit_of_source(&self) -> Option<u64> {
        (self.per_source != OFF).then_some(self.per_source)
    }

    pub fn of_source(&self) -> &Limiter<Source> {
        &self.of_source
    }

    /// Counts a new agent, or says for how long there is none, and why.
    pub fn take(&self, source: Source, elapsed: i64) -> Result<(), (i64, String)> {
        if self.per_source != OFF {
            self.of_source.take(source, elapsed).map_err(|wait| {
                let most = self.per_source;
                (wait, format!("from one address {most} new agents a minute (CHORUS_QUOTA_REGISTRATIONS)"))
            })?;
        }
        self.of_hub.take((), source, elapsed).map_err(|wait| {
            let most = self.in_all;
            let what = format!(
                "{most} new agents a minute in all, and an address gets a tenth of what is left \
                 (CHORUS_QUOTA_REGISTRATIONS_HUB)"
            );
            (wait, what)
        })
    }
}
