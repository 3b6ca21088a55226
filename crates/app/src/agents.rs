//! Agents as their owners manage them: making, finding and claiming them, and the ways to reach them.

mod allowance;
mod change;
mod claim;
mod connection;
mod find;
mod harness;
mod make;
mod reference;
mod view;

pub use allowance::{remove_allowance, set_allowance};
pub use change::{change, remove_endpoint};
pub use claim::claim;
pub use connection::{connect, disconnect, mend, rotate};
pub use find::{agent, count, list, some};
pub use harness::{harness_trouble, remove_harness, set_harness};
pub use make::make;
pub use reference::{AgentRef, managed, may_manage, may_unregister};
pub use view::{host, view, whole_view};

use chorus_node::App;
use chorus_node::Error;
use chorus_node::caller::{Caller, key_hash};
use chorus_node::limits::usage::room;
use chorus_protocol::credentials::SecretKind;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{AccountId, AgentId};
use chorus_store::directory::{self, Agent};
use chorus_store::market::allowances;
use chorus_store::{StoreError, Tx, usage};
use serde_json::Value;
use url::{Url, form_urlencoded};

/// Checks the size of an agent card. The error says what is wrong with it.
pub fn card_fits(app: &App, card: &Value) -> Result<(), String> {
    let (bytes, most) = (card.to_string().len() as u64, app.config.quotas.card_bytes);
    if bytes <= most {
        return Ok(());
    }
    Err(format!("has {bytes} bytes and may have {most} on this hub; say less in it"))
}

/// Gives an agent to an account. Fails if the account has reached its quota of agents. Clears an allowance
/// that a former owner set.
pub(crate) fn own(
    tx: &mut dyn Tx,
    app: &App,
    agent: AgentId,
    owner: AccountId,
    description: Option<&str>,
) -> Result<(), Error> {
    // The lock makes the second of two concurrent requests count the first.
    tx.lock(owner.into())?;
    room("agents", usage::agents(tx, owner)?, app.config.quotas.agents)?;
    allowances::clear(tx, agent)?;
    directory::set_owner(tx, agent, Some(owner), description)?;
    app.limits.usage.pass_after(tx, agent, None, Some(owner));
    Ok(())
}

/// Returns a connection string that the hub issues.
fn issued(app: &App, secret: &str) -> String {
    format!("{}/inbox/{secret}", app.config.public_url)
}

/// Returns the named agent if the caller may manage it. Acts call this before slow work that precedes their
/// transaction.
async fn find_managed(app: &App, caller: &Caller, named: &AgentRef) -> Result<Agent, Error> {
    let (caller, named) = (caller.clone(), named.clone());
    app.store.read::<_, Error, _>(move |tx: &mut dyn Tx| managed(tx, &caller, &named)).await
}

/// Checks that the hub may call a URL, as far as this can be known now.
async fn check_url(app: &App, name: &'static str, url: Option<&Url>) -> Result<(), Error> {
    let Some(url) = url else { return Ok(()) };
    refuse_issued(app, name, url).await?;
    app.transport.outbound.check(name, url).await
}

/// Refuses a connection string that this hub issued, because requests there would come back to this hub and
/// reach no agent. The string is recognized by its secret, however the host is spelled. A string that was
/// replaced since is recognized by the hub's own origin.
async fn refuse_issued(app: &App, name: &'static str, url: &Url) -> Result<(), Error> {
    let decoded = |segment: &str| {
        let mut pairs = form_urlencoded::parse(segment.as_bytes());
        pairs.next().map(|(text, _)| text.into_owned()).unwrap_or_default()
    };
    let segments = url.path_segments().into_iter().flatten().map(decoded);
    let secrets = segments.filter(|text| text.starts_with(SecretKind::ConnectionString.prefix()));
    let hashes: Vec<_> = secrets.map(|secret| key_hash(&secret)).collect();
    if hashes.is_empty() {
        return Ok(());
    }
    let is_here = Url::parse(&app.config.public_url).is_ok_and(|here| here.origin() == url.origin());
    let find = move |tx: &mut dyn Tx| {
        let mut found = false;
        for hash in &hashes {
            found |= directory::by_foreign_secret(tx, hash)?.is_some();
        }
        Ok::<_, StoreError>(found)
    };
    if is_here || app.store.read(find).await? {
        let what = "is a connection string of this hub, for other services; give the one that the agent's own server has";
        return Err(Faults::one(name, what).into());
    }
    Ok(())
}

fn seal(app: &App, agent: AgentId, url: &Url) -> Result<Vec<u8>, Error> {
    let sealed = app.config.master_key.seal(app.environment.bytes(), agent.as_bytes(), url.as_str());
    sealed.ok_or_else(|| Error::internal("a connection string could not be sealed"))
}
