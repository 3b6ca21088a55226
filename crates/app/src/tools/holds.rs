//! Checks whether a caller's credential is still valid: at the start of a call, and again during a long one.

use chorus_node::AppState;
use chorus_node::Error;
use chorus_node::caller::disabled;
use chorus_node::secrets::{MCP_LIFE_MS, McpToken};
use chorus_protocol::ids::Principal;
use chorus_store::accounts::{self, CredentialKind};
use chorus_store::directory::{self, Agent, KeyHash};
use chorus_store::members::{self, Member};
use chorus_store::{StoreError, Tx};
use std::sync::Arc;

/// The difference between the clocks of two nodes that is overlooked.
const CLOCK_SLACK_MS: i64 = 1000;

/// A lookup that returns whether a caller's credential is still valid.
pub type Holds = Arc<dyn Fn(&mut dyn Tx) -> Result<bool, StoreError> + Send + Sync>;

/// The error for a credential revoked during the request.
pub(super) fn no_longer_valid() -> Error {
    Error::unauthorized("this key or token is not valid (any more)")
}

/// Returns a check that a key or token still belongs to its principal.
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

/// Checks a token that was given to an agent. It holds until it expires, the agent is reached in another way, or the agent leaves
/// the channel; it does not hold again when the agent comes back. A token that does not hold now is refused.
pub async fn token_holds(app: &AppState, token: McpToken) -> Result<Holds, Error> {
    let find = move |tx: &mut dyn Tx| {
        Ok((directory::by_id(tx, token.agent)?, members::of(tx, token.channel, token.agent.into())?))
    };
    let found = app.store.read::<_, StoreError, _>(find).await?;
    if found.0.as_ref().is_some_and(|agent| agent.disabled_at.is_some()) {
        return Err(disabled("agent"));
    }
    let hub = Arc::clone(app);
    let is_good = move |(agent, member): (Option<Agent>, Option<Member>)| {
        let same = agent.is_some_and(|agent| agent.epoch == token.epoch && agent.disabled_at.is_none());
        // The conversation of a job has no members.
        let stayed =
            member.is_none_or(|member| member.joined_at - CLOCK_SLACK_MS <= token.expires_at - MCP_LIFE_MS);
        same && stayed && hub.now() < token.expires_at
    };
    if !is_good(found) {
        return Err(no_longer_valid());
    }
    Ok(Arc::new(move |tx| Ok(is_good(find(tx)?))))
}
