//! Agents as their owners see them: making, finding and claiming them, and how they are reached.

mod change;
mod claim;
mod connection;
mod find;
mod harness;
mod make;
mod reference;
mod view;

pub use change::{change, remove_endpoint};
pub use claim::claim;
pub use connection::{connect, disconnect, mend, rotate};
pub use find::{agent, count, list, some};
pub use harness::{harness_trouble, remove_harness, set_harness};
pub use make::make;
pub use reference::{AgentRef, managed, may_manage};
pub use view::{host, view};

use crate::app::App;
use crate::caller::Caller;
use crate::error::Error;
use crate::usage::room;
use chorus_protocol::ids::{AccountId, AgentId};
use chorus_store::directory::{self, Agent};
use chorus_store::{Tx, usage};
use serde_json::Value;
use url::Url;

/// Whether a card is as large as it may be, or what is wrong with it.
pub fn card_fits(app: &App, card: &Value) -> Result<(), String> {
    let (bytes, most) = (card.to_string().len() as u64, app.config.quotas.card_bytes);
    if bytes <= most {
        return Ok(());
    }
    Err(format!("has {bytes} bytes and may have {most} on this hub; say less in it"))
}

/// Gives an agent to an account, if that may own one more.
pub(crate) fn own(
    tx: &mut dyn Tx,
    app: &App,
    agent: AgentId,
    owner: AccountId,
    description: Option<&str>,
) -> Result<(), Error> {
    // Of two at once the second counts the first.
    tx.lock(owner.0)?;
    room("agents", usage::agents(tx, owner)?, app.config.quotas.agents)?;
    Ok(directory::set_owner(tx, agent, Some(owner), description)?)
}

/// A connection string that the hub issues.
fn issued(app: &App, secret: &str) -> String {
    format!("{}/inbox/{secret}", app.config.public_url)
}

/// The agent that is named, if the caller may manage it: for what takes its time before anything is written.
async fn find_managed(app: &App, caller: &Caller, named: &AgentRef) -> Result<Agent, Error> {
    let (caller, named) = (caller.clone(), named.clone());
    app.store.read::<_, Error, _>(move |tx: &mut dyn Tx| managed(tx, &caller, &named)).await
}

/// Whether the hub may call it, as far as that can be known now.
async fn check_url(app: &App, name: &str, url: Option<&Url>) -> Result<(), Error> {
    match url {
        Some(url) => app.outbound.check(name, url).await,
        None => Ok(()),
    }
}

fn seal(app: &App, agent: AgentId, url: &Url) -> Result<Vec<u8>, Error> {
    let sealed = app.config.master_key.seal(app.environment.bytes(), agent.as_bytes(), url.as_str());
    sealed.ok_or_else(|| Error::internal("a connection string could not be sealed"))
}
