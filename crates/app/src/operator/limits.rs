//! The rate limits of this node, and the callers that have reached one.

use chorus_node::App;
use chorus_node::Error;
use chorus_node::limits::rate::Limiter;
use chorus_node::limits::registrations::Registrations;
use chorus_node::source::Source;
use chorus_store::accounts::{self, CredentialKind};
use chorus_store::directory::{self, KeyHash};
use chorus_store::{StoreError, Tx, conversations};
use std::hash::Hash;

/// Callers at a limit that are named per limit.
const MOST: usize = 20;

/// A rate limit.
#[derive(Debug)]
pub struct RateLimit {
    /// A description of the counted requests and their scope.
    pub what: &'static str,
    /// The name of the setting.
    pub setting: &'static str,
    /// Requests per minute. `None` means no limit.
    pub per_minute: Option<u64>,
    /// Callers that are refused now, each with the milliseconds left, the longest first.
    pub at_limit: Vec<(String, i64)>,
}

/// Returns the rate limits of this node with the callers that have reached one.
pub async fn rate_limits(app: &App) -> Result<Vec<RateLimit>, Error> {
    let (keys, says) =
        (at_limit(app, app.limits.keyed_rate.as_ref()), at_limit(app, app.limits.say_rate.as_ref()));
    let now = app.now();
    let name = move |tx: &mut dyn Tx| {
        let mut named = vec![];
        for (key, wait) in &keys {
            named.push((whose_key(tx, key, now)?, *wait));
        }
        let mut said = vec![];
        for ((agent, place), wait) in &says {
            let agent = directory::by_id(tx, *agent)?.map_or_else(|| agent.to_string(), |agent| agent.name);
            let place =
                conversations::by_id(tx, *place)?.map_or_else(|| place.to_string(), |one| one.name.into());
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
    let registrations = app.limits.registrations.as_ref();
    Ok(vec![
        limit("requests of one key", keyed, of_key, keys),
        limit(
            "requests of one address without a key",
            anonymous,
            of_source,
            source(app.limits.anonymous_rate.as_ref()),
        ),
        limit(
            "wrong keys from one address",
            anonymous,
            of_source,
            source(app.limits.bad_secret_rate.as_ref()),
        ),
        limit(
            "messages of one agent in one conversation",
            keyed,
            app.limits.say_rate.as_ref().map(Limiter::in_a_minute),
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

/// Names the party that a limiter key stands for. Some keys stand for one purpose of an agent and cannot be
/// resolved.
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
