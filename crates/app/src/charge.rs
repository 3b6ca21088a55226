//! What is counted, and for whom. Whoever shows a valid secret is charged by it, everybody else by its address.

use crate::app::App;
use crate::caller::key_hash;
use crate::error::Error;
use crate::rate::Source;
use crate::usage::room;
use chorus_protocol::code::Code;
use chorus_protocol::ids::{AgentId, ConversationId, Principal};
use chorus_store::Tx;
use chorus_store::conversation::ConversationError;
use chorus_store::directory::KeyHash;
use chorus_store::usage;

/// For whom a call counts that shows a secret which an agent was given for this purpose.
pub fn purpose_key(purpose: &str, agent: AgentId) -> KeyHash {
    key_hash(&format!("{purpose} of {agent}"))
}

/// Counts a call for whoever's secret it showed.
pub fn charge(app: &App, key: KeyHash) -> Result<(), Error> {
    app.keyed_rate.as_ref().map_or(Ok(()), |limiter| limited(app, limiter.take(key, app.elapsed())))
}

/// Counts a call for the address it comes from.
pub fn charge_source(app: &App, source: Source) -> Result<(), Error> {
    app.anonymous_rate.as_ref().map_or(Ok(()), |limiter| limited(app, limiter.take(source, app.elapsed())))
}

/// Counts a secret that was wrong. Past the limit that is all its owner is told.
pub fn count_bad_secret(app: &App, source: Source) -> Result<(), Error> {
    app.bad_secret_rate.as_ref().map_or(Ok(()), |limiter| limited(app, limiter.take(source, app.elapsed())))
}

/// Whether somebody may say so many things in a conversation now. People say what they like; what agents say wakes other
/// agents, and is limited for each conversation. Ask for members only: what others name may not even be there.
pub fn may_say(app: &App, who: Principal, conversation: ConversationId, messages: u32) -> Result<(), Error> {
    let Some((limiter, agent)) = app.say_rate.as_ref().zip(who.agent()) else { return Ok(()) };
    limited(app, limiter.take_several((agent, conversation), messages, app.elapsed()))
}

/// Counts a new agent, or says why there is none.
pub fn count_registration(app: &App, source: Source) -> Result<(), Error> {
    let Some(registrations) = &app.registrations else { return Ok(()) };
    registrations.take(source, app.elapsed()).map_err(|(wait, limit)| {
        app.metrics.rate_limited.inc();
        let what = format_args!("this hub takes {limit}; wait as long as Retry-After says");
        Error::new(Code::RateLimited, what).retry_after_ms(wait)
    })
}

impl App {
    /// Counts so many bytes for somebody, if this transaction is committed, or refuses them.
    pub fn count_bytes(&self, tx: &mut dyn Tx, who: Principal, bytes: i64) -> Result<(), ConversationError> {
        self.usage.count(tx, who, bytes)
    }

    /// Whether somebody may own one more channel.
    pub fn room_for_channel(&self, tx: &mut dyn Tx, owner: Principal) -> Result<(), ConversationError> {
        // Of two at once the second counts the first.
        tx.lock(owner.uuid())?;
        let used = usage::channels(tx, owner)?;
        Ok(room("channels", used, self.config.quotas.channels)?)
    }
}

fn limited(app: &App, taken: Result<(), i64>) -> Result<(), Error> {
    taken.map_err(|wait_ms| {
        app.metrics.rate_limited.inc();
        Error::new(Code::RateLimited, "too many requests; wait as long as Retry-After says")
            .retry_after_ms(wait_ms)
    })
}
