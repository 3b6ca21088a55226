//! Stops of work: by a request, a reaction, a message, or the owner of an agent.
//!
//! The engine decides who may stop what. Stopped work ends as superseded, its harness is notified, and the thread says who
//! stopped what.

use super::follow::tell_attention;
use super::{act, act_by};
use crate::agents::{AgentRef, managed};
use crate::attention::{cancellations::tell_stopped, planned};
use chorus_attention::plan::{Facts, StopFacts, Work};
use chorus_node::caller::Caller;
use chorus_node::{AppState, Error};
use chorus_protocol::api::messages::{StopResult, StoppedWork};
use chorus_protocol::code::Code;
use chorus_protocol::ids::{ConversationId, EventId, Principal};
use chorus_store::Tx;
use chorus_store::attention::{
    self, Stopper, conversations_with_work, load_stop, load_stop_of_agent, tell_of_stop,
};
use chorus_store::conversation::{self, Act};
use chorus_store::conversations::{self, Conversation, Event};
use chorus_store::members::{self, Member};
use std::sync::Arc;

/// Stops the work that a message is about: that on the message and in its thread, or that of the agent that wrote it.
pub async fn stop(
    app: &AppState,
    who: Principal,
    (conversation, target): (ConversationId, EventId),
) -> Result<StopResult, Error> {
    let (act, hub) = (act(app, who, conversation), Arc::clone(app));
    let work = move |tx: &mut dyn Tx| {
        let (place, member) = conversation::lock_as_speaker(tx, conversation, who)?;
        let said = conversation::message(tx, &place, who, target)?;
        let facts = load_stop(tx, &place, Stopper::member(&place, &member), &said, act.now)?;
        stop_work(&hub, tx, &act, facts)
    };
    let stopped = app.store.write::<_, Error, _>(work).await?;
    Ok(StopResult { stopped })
}

/// Stops the work of an agent, in all its conversations, or only that on one event. The agent's owner may do this.
pub async fn stop_agent(
    app: &AppState,
    caller: Caller,
    named: &str,
    event: Option<EventId>,
) -> Result<StopResult, Error> {
    let (named, hub) = (AgentRef::parse(app, named)?, Arc::clone(app));
    let work = move |tx: &mut dyn Tx| {
        let agent = managed(tx, &caller, &named)?;
        let owner = match &caller {
            Caller::Account(person) if agent.owner == Some(person.id) => Principal::from(person.id),
            _ => return Err(Error::new(Code::Forbidden, "Only the agent's owner may stop all its work.")),
        };
        let mut stopped = vec![];
        let places = conversations_with_work(tx, agent.id)?;
        // All conversations are locked before the first inbox, in the order of their ids.
        places.iter().try_for_each(|id| tx.lock((*id).into()))?;
        for id in places {
            let Some(place) = conversations::by_id(tx, id)?.filter(|place| place.archived_at.is_none())
            else {
                continue;
            };
            let member = members::of(tx, id, owner)?;
            // An owner that is no member is called by what it is.
            let name = member.map_or_else(|| format!("the owner of {}", agent.name), |member| member.handle);
            let stopper = Stopper { principal: owner, name: &name, leads: false };
            let act = act_by(&hub, id)(owner);
            let facts = load_stop_of_agent(tx, &place, stopper, (agent.id, event), act.now)?;
            stopped.extend(stop_work(&hub, tx, &act, facts)?);
        }
        Ok(stopped)
    };
    let stopped = app.store.write::<_, Error, _>(work).await?;
    Ok(StopResult { stopped })
}

/// Stops the work that a reaction with the signal `stop` is about. A reaction of somebody without authority is only a reaction.
pub(super) fn stop_by_reaction(
    app: &AppState,
    tx: &mut dyn Tx,
    act: &Act,
    (place, member): (&Conversation, &Member),
    said: &Event,
) -> Result<(), Error> {
    let facts = load_stop(tx, place, Stopper::member(place, member), said, act.now)?;
    if !facts.is_refused() {
        stop_work(app, tx, act, facts)?;
    }
    Ok(())
}

/// Ends the work that the facts allow, and tells everybody concerned.
fn stop_work(
    app: &AppState,
    tx: &mut dyn Tx,
    act: &Act,
    facts: StopFacts,
) -> Result<Vec<StoppedWork>, Error> {
    let (name, facts) = (facts.name.clone(), Facts::Stop(facts));
    let effects = planned(tx, act.conversation, &facts, act.now)?;
    let applied = attention::apply(tx, None, &effects, act.now)?;
    tell(app, tx, act, &name, &applied.stopped, false)?;
    let stopped = applied
        .stopped
        .into_iter()
        .map(|(work, _)| StoppedWork { agent: work.handle, event_id: work.obligation.message() });
    let mut stopped: Vec<_> = stopped.collect();
    stopped.dedup();
    Ok(stopped)
}

/// Notifies the harnesses of stopped work after the commit, and says in its threads who stopped it. `is_message` is `true` if
/// the work was stopped by a message, which reaches the agents itself.
pub(super) fn tell(
    app: &AppState,
    tx: &mut dyn Tx,
    act: &Act,
    name: &str,
    stopped: &[(Work, String)],
    is_message: bool,
) -> Result<(), Error> {
    if stopped.is_empty() {
        return Ok(());
    }
    for (work, reason) in stopped {
        let given = (work.obligation.id, work.obligation.event);
        tell_stopped(app, tx, given, reason, act.now)?;
        let (hub, conversation, message) = (Arc::clone(app), act.conversation, work.obligation.message());
        tx.after_commit(Box::new(move || tell_attention(&hub, conversation, message)));
    }
    let work: Vec<_> = stopped.iter().map(|(work, _)| work.clone()).collect();
    tell_of_stop(tx, act, name, &work, is_message, &|| app.environment.uuid_v7())?;
    app.push_after(tx);
    Ok(())
}
