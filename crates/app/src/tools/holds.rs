//! Whether what a caller showed still holds: looked up when it comes, and again by what lasts.

use crate::app::AppState;
use crate::caller::disabled;
use crate::error::Error;
use crate::secrets::McpToken;
use chorus_protocol::ids::Principal;
use chorus_store::accounts::{self, CredentialKind};
use chorus_store::directory::{self, Agent, KeyHash};
use chorus_store::{StoreError, Tx};
use std::sync::Arc;

/// Looks up whether what a caller showed still holds.
pub type Holds = Arc<dyn Fn(&mut dyn Tx) -> Result<bool, StoreError> + Send + Sync>;

/// What a caller is told who has lost what he showed.
pub(super) fn no_longer_valid() -> Error {
    Error::unauthorized("this key or token is not valid (any more)")
}

/// A key or token of somebody, as long as it is his.
pub fn key_holds(app: &AppState, who: Principal, shown: KeyHash) -> Holds {
    let app = Arc::clone(app);
    Arc::new(move |tx| match who {
        Principal::Agent(agent) => {
            let found = directory::by_key(tx, &shown)?;
            Ok(found.is_some_and(|found| found.id == agent && found.disabled_at.is_none()))
        }
        Principal::Account(account) => {
            let found = accounts::by_credential(tx, CredentialKind::Token, &shown, app.now())?;
            Ok(found.is_some_and(|found| found.id == account && found.disabled_at.is_none()))
        }
    })
}

/// A token that was given to an agent, as long as it has not run out and the agent is reached by what it was reached by then.
/// One that does not hold now is refused.
pub async fn token_holds(app: &AppState, token: McpToken) -> Result<Holds, Error> {
    let find = move |tx: &mut dyn Tx| directory::by_id(tx, token.agent);
    let found = app.store.read::<_, StoreError, _>(find).await?;
    if found.as_ref().is_some_and(|agent| agent.disabled_at.is_some()) {
        return Err(disabled("agent"));
    }
    let hub = Arc::clone(app);
    let is_good = move |agent: Option<Agent>| {
        let same = agent.is_some_and(|agent| agent.epoch == token.epoch && agent.disabled_at.is_none());
        same && hub.now() < token.expires_at
    };
    if !is_good(found) {
        return Err(no_longer_valid());
    }
    Ok(Arc::new(move |tx| Ok(is_good(directory::by_id(tx, token.agent)?))))
}
