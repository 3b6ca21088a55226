//! Unregisters agents.

use crate::agents::{AgentRef, may_manage, may_unregister};
use crate::market;
use chorus_node::AppState;
use chorus_node::Error;
use chorus_node::audit::{Deed, RequestContext};
use chorus_node::caller::Caller;
use chorus_protocol::code::Code;
use chorus_protocol::relay::Unregistered;
use chorus_store::audit::{Action, Subject};
use chorus_store::{Tx, access};
use serde_json::json;
use std::sync::Arc;

/// Unregisters an agent. Its owner and the operator may do this, and an agent that no account owns. Does nothing if the
/// agent is already gone.
pub async fn unregister(
    app: &AppState,
    caller: Caller,
    context: RequestContext,
    id: String,
) -> Result<Unregistered, Error> {
    if !caller.is_known() {
        return Err(Error::unauthorized("this needs the agent's key or the operator's"));
    }
    let (agent, hub, now) = (AgentRef::parse(app, &id)?, Arc::clone(app), app.now());
    let delete = move |tx: &mut dyn Tx| {
        let Some(found) = agent.find(tx)? else { return Ok(None) };
        if !may_manage(&caller, &found) {
            return Err(Error::new(
                Code::Forbidden,
                "an agent can unregister only itself, and a person only its own agents",
            ));
        }
        if !may_unregister(&caller, &found) {
            return Err(Error::new(
                Code::Forbidden,
                "this agent belongs to an account, and only its owner removes it",
            ));
        }
        market::agents::refund(tx, &hub, &[found.id])?;
        access::delete_agent(tx, found.id, now, &|| hub.environment.uuid_v7())?;
        let (subject, detail) = (Subject::Agent(found.id), json!({"name": found.name}));
        context.record(tx, &hub, Deed::new(caller.actor(), Action::AgentUnregistered, subject, detail))?;
        Ok(Some(found))
    };
    let deleted = app.store.write(delete).await?;
    let agent_id = deleted.as_ref().map_or(id, |agent| app.address(&agent.name));
    Ok(Unregistered { agent_id, removed: deleted.is_some() })
}
