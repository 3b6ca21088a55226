//! How many new agents there may be in a minute, from one source and in all. The operator's are not counted, nor is an agent
//! that registers again.

use crate::app::App;
use crate::budget::Budgets;
use crate::error::Error;
use crate::quotas::{OFF, Quotas};
use crate::rate::{Limiter, Source};
use chorus_protocol::relay::Code;
use std::time::Duration;

const MINUTE: Duration = Duration::from_mins(1);

pub struct Registrations {
    of_source: Limiter<Source>,
    of_hub: Budgets<(), Source>,
}

impl Registrations {
    pub fn new(quotas: &Quotas) -> Self {
        let of_source = Limiter::at_once(quotas.registrations, MINUTE);
        Self { of_source, of_hub: Budgets::new(quotas.registrations_hub, MINUTE) }
    }
}

/// Counts a new agent, or says why there is none.
pub fn count(app: &App, source: Source) -> Result<(), Error> {
    let Some(registrations) = &app.registrations else { return Ok(()) };
    let (now, quotas) = (app.elapsed(), &app.config.quotas);
    let own = match quotas.registrations {
        OFF => Ok(()),
        most => registrations.of_source.take(source, now).map_err(|wait| {
            (wait, format!("from one address {most} new agents a minute (CHORUS_QUOTA_REGISTRATIONS)"))
        }),
    };
    let all = own.and_then(|()| {
        registrations.of_hub.take((), source, now).map_err(|wait| {
            let most = quotas.registrations_hub;
            let what = format!(
                "{most} new agents a minute in all, and an address gets a tenth of what is left \
                 (CHORUS_QUOTA_REGISTRATIONS_HUB)"
            );
            (wait, what)
        })
    });
    all.map_err(|(wait, limit)| {
        app.metrics.rate_limited.inc();
        let what = format_args!("this hub takes {limit}; wait as long as Retry-After says");
        Error::new(Code::RateLimited, what).retry_after_ms(wait)
    })
}
