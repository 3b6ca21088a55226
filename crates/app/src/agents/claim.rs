//! Bringing an agent that registered itself into an account.

use super::{own, view};
use chorus_node::AppState;
use chorus_node::Error;
use chorus_node::audit::{Deed, RequestContext};
use chorus_node::caller::{Caller, Person, disabled, key_hash};
use chorus_node::idempotency::{Done, Once};
use chorus_protocol::api::agents::{AgentProof, AgentView};
use chorus_protocol::code::Code;
use chorus_store::Tx;
use chorus_store::audit::{Action, Subject};
use chorus_store::directory::{self, Agent};
use serde_json::json;
use std::sync::Arc;

/// Gives a self-registered agent to the caller's account. The caller proves it by the agent's key. Fails if
/// the agent belongs to an account already.
pub async fn claim(
    app: &AppState,
    person: Person,
    context: RequestContext,
    proof: AgentProof,
    once: Once,
) -> Result<Done<AgentView>, Error> {
    let (key, owner, caller) = (key_hash(&proof.api_key), person.id, Caller::Account(person));
    let hub = Arc::clone(app);
    let work = move |tx: &mut dyn Tx| {
        let agent = directory::by_key(tx, &key)?
            .ok_or_else(|| Error::new(Code::NotFound, "api_key: no agent here has this key"))?;
        // The lock orders two concurrent claims with the same key.
        tx.lock(agent.id.into())?;
        let agent = directory::by_id(tx, agent.id)?.ok_or_else(|| Error::not_found("agent"))?;
        if agent.disabled_at.is_some() {
            return Err(disabled("agent"));
        }
        if agent.owner.is_some() {
            return Err(Error::new(Code::Conflict, "this agent belongs to an account already"));
        }
        own(tx, &hub, agent.id, owner, None)?;
        let (subject, detail) = (Subject::Agent(agent.id), json!({"name": agent.name}));
        context.record(tx, &hub, Deed::new(caller.actor(), Action::AgentClaimed, subject, detail))?;
        Ok(view(&hub, &caller, &Agent { owner: Some(owner), ..agent }))
    };
    app.once(once, |_| Ok(()), work).await
}
