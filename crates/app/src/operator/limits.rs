//! Which rates are limited on this node, and who is at a limit now.

use crate::app::App;
use crate::error::Error;
use crate::rate::{Limiter, Source};
use crate::registrations::Registrations;
use chorus_store::accounts::{self, CredentialKind};
use chorus_store::directory::{self, KeyHash};
use chorus_store::{StoreError, Tx, conversations};
use std::hash::Hash;

/// Of each limit so many who are at it are named.
const MOST: usize = 20;

/// One rate that is limited.
#[derive(Debug)]
pub struct RateLimit {
    /// What is counted, for whom.
    pub what: &'static str,
    /// Where it is set.
    pub setting: &'static str,
    /// How many there may be in a minute; none for no limit.
    pub per_minute: Option<u64>,
    /// Who is refused now, and for how many milliseconds, the longest first.
    pub at_limit: Vec<(String, i64)>,
}

/// The rates that are limited on this node, with who is at a limit.
pub async fn rate_limits(app: &App) -> Result<Vec<RateLimit>, Error> {
    let (keys, says) = (at_limit(app, app.keyed_rate.as_ref()), at_limit(app, app.say_rate.as_ref()));
    let now = app.now();
    let name = move |tx: &mut dyn Tx| {
        let mut named = vec![];
        for (key, wait) in &keys {
            named.push((whose_key(tx, key, now)?, *wait));
        }
        let mut said = vec![];
        for ((agent, place), wait) in &says {
            let agent = directory::by_id(tx, *agent)?.map_or_else(|| agent.to_string(), |agent| agent.name);
            let place = conversations::by_id(tx, *place)?.map_or_else(|| place.to_string(), |one| one.name);
            said.push((format!("{agent} in {place}"), *wait));
        }
        Ok((named, said))
    };
    let (keys, says) = app.store.read::<_, StoreError, _>(name).await?;
    let source = |limiter: Option<&Limiter<Source>>| {
        let found = at_limit(app, limiter).into_iter();
        found.map(|(from, wait)| (from.to_string(), wait)).collect::<Vec<_>>()
    };
    let (keyed, anonymous) = ("CHORUS_RATE_LIMIT", "CHORUS_RATE_LIMIT_ANONYMOUS");
    let limit =
        |what, setting, per_minute: Option<u64>, at_limit| RateLimit { what, setting, per_minute, at_limit };
    let (of_key, of_source) =
        (app.config.rate_limit.map(u64::from), app.config.rate_limit_anonymous.map(u64::from));
    let registrations = app.registrations.as_ref();
    Ok(vec![
        limit("requests of one key", keyed, of_key, keys),
        limit(
            "requests of one address without a key",
            anonymous,
            of_source,
            source(app.anonymous_rate.as_ref()),
        ),
        limit("wrong keys from one address", anonymous, of_source, source(app.bad_secret_rate.as_ref())),
        limit(
            "messages of one agent in one conversation",
            keyed,
            app.say_rate.as_ref().map(Limiter::in_a_minute),
            says,
        ),
        limit(
            "new agents from one address",
            "CHORUS_QUOTA_REGISTRATIONS",
            registrations.and_then(Registrations::limit_of_source),
            source(registrations.map(Registrations::of_source)),
        ),
    ])
}

fn at_limit<K: Eq + Hash + Clone>(app: &App, limiter: Option<&Limiter<K>>) -> Vec<(K, i64)> {
    limiter.map(|limiter| limiter.at_limit(app.elapsed(), MOST)).unwrap_or_default()
}

/// Whom a key stands for. Some stand for one purpose of an agent, and cannot be told from others.
fn whose_key(tx: &mut dyn Tx, key: &KeyHash, now: i64) -> Result<String, StoreError> {
    if let Some(agent) = directory::by_key(tx, key)? {
        return Ok(format!("agent {}", agent.name));
    }
    for kind in [CredentialKind::Token, CredentialKind::Session] {
        if let Some(account) = accounts::by_credential(tx, kind, key, now)? {
            return Ok(account.email);
        }
    }
    Ok("a key for one purpose".to_owned())
}
