//! The daily allowance of an agent's key.

use super::{AgentRef, whole_view};
use crate::allowance;
use chorus_node::AppState;
use chorus_node::Error;
use chorus_node::audit::{Deed, RequestContext};
use chorus_node::caller::Caller;
use chorus_node::idempotency::{Done, Once};
use chorus_protocol::api::agents::{AgentView, NewAllowance};
use chorus_protocol::code::Code;
use chorus_protocol::market::Credits;
use chorus_store::Tx;
use chorus_store::audit::{Action, Subject};
use chorus_store::directory::Agent;
use chorus_store::market::allowances;
use serde_json::json;
use std::sync::Arc;

/// Sets the credits that an agent's key may spend per day. The owner and the operator may do this; the agent's
/// own key may not.
pub async fn set_allowance(
    app: &AppState,
    caller: Caller,
    context: RequestContext,
    named: &str,
    new: NewAllowance,
    once: Once,
) -> Result<Done<AgentView>, Error> {
    change(app, caller, context, named, Some(new.credits_per_day), once).await
}

/// Removes an allowance. An agent of an account can then spend nothing; other agents spend without a limit.
pub async fn remove_allowance(
    app: &AppState,
    caller: Caller,
    context: RequestContext,
    named: &str,
) -> Result<AgentView, Error> {
    Ok(change(app, caller, context, named, None, Once::NO_KEY).await?.result)
}

async fn change(
    app: &AppState,
    caller: Caller,
    context: RequestContext,
    named: &str,
    per_day: Option<Credits>,
    once: Once,
) -> Result<Done<AgentView>, Error> {
    let (named, hub) = (AgentRef::parse(app, named)?, Arc::clone(app));
    let (who, which) = (caller.clone(), named.clone());
    let may = move |tx: &mut dyn Tx| settable(tx, &who, &which).map(drop);
    let work = move |tx: &mut dyn Tx| {
        // The lock orders this against a claim of the agent.
        let found = settable(tx, &caller, &named)?;
        tx.lock(found.id.into())?;
        let agent = settable(tx, &caller, &named)?;
        let is_news = match per_day {
            Some(per_day) => allowances::set(tx, agent.id, per_day, hub.now()).map(|()| true)?,
            None => allowances::clear(tx, agent.id)?,
        };
        if is_news {
            let (subject, detail) = (Subject::Agent(agent.id), json!({"amount": per_day}));
            context.record(tx, &hub, Deed::new(caller.actor(), Action::AllowanceSet, subject, detail))?;
        }
        Ok(whole_view(tx, &hub, &caller, &agent)?)
    };
    app.once(once, may, work).await
}

/// Returns the named agent if the caller may set its allowance.
fn settable(tx: &mut dyn Tx, caller: &Caller, named: &AgentRef) -> Result<Agent, Error> {
    let agent = named.find(tx)?.ok_or_else(|| Error::not_found("agent"))?;
    if allowance::may_set(tx, caller, &agent)? {
        return Ok(agent);
    }
    let what =
        "only the agent's owner sets its allowance: its account, or the key cw_… of an owner without one";
    Err(Error::new(Code::Forbidden, what))
}
