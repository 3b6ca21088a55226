//! Counts calls against the limits. A caller with a valid secret is counted by its secret, everybody else by their address.

use super::Limits;
use super::registrations::Registrations;
use super::usage::room;
use crate::caller::key_hash;
use crate::error::Error;
use crate::source::Source;
use chorus_protocol::code::Code;
use chorus_protocol::ids::{AgentId, ConversationId, Principal};
use chorus_store::Tx;
use chorus_store::conversation::ConversationError;
use chorus_store::directory::KeyHash;
use chorus_store::usage;

/// Returns the key by which calls are counted that show a secret made for one agent and one purpose.
pub fn purpose_key(purpose: &str, agent: AgentId) -> KeyHash {
    key_hash(&format!("{purpose} of {agent}"))
}

impl Limits {
    /// Counts a call of the holder of this secret.
    pub fn charge(&self, key: KeyHash) -> Result<(), Error> {
        self.keyed_rate.as_ref().map_or(Ok(()), |limiter| self.limited(limiter.take(key, self.elapsed())))
    }

    /// Counts a call from this address.
    pub fn charge_source(&self, source: Source) -> Result<(), Error> {
        let limiter = self.anonymous_rate.as_ref();
        limiter.map_or(Ok(()), |limiter| self.limited(limiter.take(source, self.elapsed())))
    }

    /// Counts an invalid secret. Beyond the limit the error mentions the limit only.
    pub fn count_bad_secret(&self, source: Source) -> Result<(), Error> {
        let limiter = self.bad_secret_rate.as_ref();
        limiter.map_or(Ok(()), |limiter| self.limited(limiter.take(source, self.elapsed())))
    }

    /// Counts messages in a conversation. Only agents are limited, because their messages wake other agents. Call it for members only:
    /// a conversation that an outsider names may not exist.
    pub fn may_say(
        &self,
        author: Principal,
        conversation: ConversationId,
        messages: u32,
    ) -> Result<(), Error> {
        let Some((limiter, agent)) = self.say_rate.as_ref().zip(author.agent()) else { return Ok(()) };
        self.limited(limiter.take_several((agent, conversation), messages, self.elapsed()))
    }

    /// Counts a new agent.
    pub fn count_registration(&self, source: Source) -> Result<(), Error> {
        self.registered(|registrations| registrations.take(source, self.elapsed()))
    }

    /// Counts a registration with the market, before its content is read.
    pub fn count_listing(&self, source: Source) -> Result<(), Error> {
        self.registered(|registrations| registrations.try_listing(source, self.elapsed()))
    }

    /// Counts a registration that changes the offers of an agent on the market.
    pub fn count_offer_change(&self, agent: AgentId, source: Source) -> Result<(), Error> {
        self.registered(|registrations| registrations.change_listing(agent, source, self.elapsed()))
    }

    /// Counts bytes by which records of agents and Scores without an owner grow, by address: they cost nothing, so a quota for each of
    /// them would limit nothing.
    pub fn count_registered_bytes(&self, source: Source, bytes: i64) -> Result<(), Error> {
        self.registered(|registrations| registrations.take_bytes(source, bytes, self.elapsed()))
    }

    /// Checks that an owner may have one more channel.
    pub fn room_for_channel(&self, tx: &mut dyn Tx, owner: Principal) -> Result<(), ConversationError> {
        // Of two at once the second counts the first.
        tx.lock(owner.into())?;
        let used = usage::channels(tx, owner)?;
        Ok(room("channels", used, self.max_channels)?)
    }

    fn elapsed(&self) -> i64 {
        self.environment.elapsed()
    }

    fn registered(
        &self,
        take: impl FnOnce(&Registrations) -> Result<(), (i64, String)>,
    ) -> Result<(), Error> {
        let Some(registrations) = &self.registrations else { return Ok(()) };
        take(registrations).map_err(|(wait, limit)| {
            self.refusals.inc();
            let what = format_args!("this hub takes {limit}; wait as long as Retry-After says");
            Error::new(Code::RateLimited, what).retry_after_ms(wait)
        })
    }

    fn limited(&self, taken: Result<(), i64>) -> Result<(), Error> {
        taken.map_err(|wait_ms| {
            self.refusals.inc();
            Error::new(Code::RateLimited, "too many requests; wait as long as Retry-After says")
                .retry_after_ms(wait_ms)
        })
    }
}
