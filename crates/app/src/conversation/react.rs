//! Reacting to a message. What somebody signals about one is also what becomes of it, in the same transaction: it takes it on, says
//! that it is done, gives it back. A person who takes its signal back gives back what it took on by it.

use super::follow::tell_attention;
use super::take_on::{dispose_signal, signal_to};
use super::{act, is_member, kinds, masked, post};
use crate::app::AppState;
use crate::attention::{claiming, disposing, replying};
use crate::error::Error;
use crate::once::{Done, Once};
use chorus_attention::claims::Request;
use chorus_attention::disposition::Cause;
use chorus_protocol::api::messages::{NewReaction, Noted};
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{AgentId, ConversationId, EventId, Principal};
use chorus_protocol::words::{ClaimState, Disposition, Signal};
use chorus_store::conversation::{self, Reaction};
use chorus_store::{Tx, conversations, obligations};
use std::sync::Arc;

/// Reacts to a message. The same reaction again, while it stands, changes nothing: the result names the one there is.
pub async fn react(
    app: &AppState,
    who: Principal,
    (conversation, target): (ConversationId, EventId),
    new: NewReaction,
    once: Once,
) -> Result<Done<Noted>, Error> {
    let (body, act, hub) = (masked(&new)?, act(app, who, conversation), Arc::clone(app));
    let work = move |tx: &mut dyn Tx| {
        if let Some(agent) = who.agent()
            && signal_to(tx, agent, target, act.now)?.is_some()
        {
            return to_signal(tx, (target, agent), &new, act.now);
        }
        let (event_id, sequence) = match conversation::draft_reaction(tx, &act, target, new.signal, &body)? {
            Reaction::New(draft) => {
                let posted = post(&hub, tx, &draft)?;
                let at = (conversation, draft.kind.target().unwrap_or(target));
                match who {
                    Principal::Agent(agent) if !new.removed => signal(tx, at, agent, new.signal, act.now)?,
                    // What an agent took on it gives back by saying so.
                    Principal::Agent(_) => {}
                    Principal::Account(_) => person_signals(tx, at, who, &new, act.now)?,
                }
                (act.event, posted.seq)
            }
            Reaction::Stands(event, seq) => {
                // It may stand from before the message was changed: then it is an answer to the change, too.
                let message = conversations::event_by_id(tx, event)?.and_then(|stands| stands.target);
                if let (Some(agent), Some(message)) = (who.agent().filter(|_| !new.removed), message)
                    && let Some(given) = obligations::current(tx, message, agent)?
                    && obligations::disposition(tx, given, agent)?.is_none()
                {
                    signal(tx, (conversation, message), agent, new.signal, act.now)?;
                }
                // Whose time was over takes it on anew.
                if let (Principal::Account(_), Some(message)) = (who, message) {
                    person_signals(tx, (conversation, message), who, &new, act.now)?;
                    let hub = Arc::clone(&hub);
                    tx.after_commit(Box::new(move || tell_attention(&hub, (conversation, message))));
                }
                (event, seq)
            }
        };
        Ok(Noted { event_id, sequence, masked: kinds(&body), unknown: vec![] })
    };
    app.once(once, is_member(who, conversation), work).await
}

/// A reaction to a reaction to what the agent said: nobody else sees it, it is what becomes of that.
fn to_signal(
    tx: &mut dyn Tx,
    (event_id, agent): (EventId, AgentId),
    new: &NewReaction,
    now: i64,
) -> Result<Noted, Error> {
    if new.removed {
        let what = "cannot be true here: what you made of this stands until you make something else of it";
        return Err(Faults::one("removed", what).into());
    }
    dispose_signal(tx, (event_id, agent), Cause::Reacted(new.signal), new.eta.as_deref(), now)?;
    let sequence = conversations::event_by_id(tx, event_id)?.map_or(0, |event| event.seq);
    Ok(Noted { event_id, sequence, masked: vec![], unknown: vec![] })
}

/// What a person's signal, or that it is taken back, means for the claim on a message. Whoever may not read the message is not
/// here any more.
fn person_signals(
    tx: &mut dyn Tx,
    at: (ConversationId, EventId),
    who: Principal,
    new: &NewReaction,
    now: i64,
) -> Result<(), Error> {
    let request = match (new.signal, new.removed) {
        (Signal::Claimed | Signal::Working, false) => Request::Take { ttl_ms: None },
        (Signal::Claimed | Signal::Working, true) | (Signal::Declined, false) => Request::Release,
        (Signal::Done, false) => Request::Resolve,
        (Signal::Done | Signal::Declined, true)
        | (Signal::Seen | Signal::Agree | Signal::Queued | Signal::Blocked | Signal::Unclear, _) => {
            return Ok(());
        }
    };
    let takes = matches!(request, Request::Take { .. });
    if takes || claiming::holder(tx, at.1, now)? == Some(who) {
        claiming::ask(tx, at, who, request, now)?;
    }
    Ok(())
}

/// Whether the last word on a message was spoken for an agent.
fn is_settled(tx: &mut dyn Tx, message: EventId, agent: AgentId) -> Result<bool, Error> {
    let given = obligations::current(tx, message, agent)?.unwrap_or(message);
    let disposition = obligations::disposition(tx, given, agent)?;
    // Who was not given it, and has answered it all the same, held the claim on it.
    let held = claiming::of(tx, message)?.and_then(|claim| claim.held);
    let was_its = held.is_some_and(|held| held.state == ClaimState::Resolved && held.holder == agent.into());
    Ok(was_its || matches!(disposition, Some(Disposition::Responded | Disposition::Superseded)))
}

/// What an agent's signal means for the event and the claim on it.
fn signal(
    tx: &mut dyn Tx,
    at: (ConversationId, EventId),
    agent: AgentId,
    signal: Signal,
    now: i64,
) -> Result<(), Error> {
    let holds = |tx: &mut dyn Tx| -> Result<bool, Error> {
        Ok(claiming::holder(tx, at.1, now)? == Some(agent.into()))
    };
    let mut until = None;
    match signal {
        // Who has answered, or whose event was replaced, has nothing left to take on.
        Signal::Working | Signal::Claimed if is_settled(tx, at.1, agent)? => {}
        Signal::Working | Signal::Claimed => {
            let (place, member) = conversation::as_reader(tx, at.0, agent.into())?;
            let said = conversation::message(tx, &place, agent.into(), at.1)?;
            replying::may_take_on(tx, (&place, &member), &said, now)?;
            until = Some(claiming::ask(tx, at, agent.into(), Request::Take { ttl_ms: None }, now)?.until);
        }
        Signal::Done if holds(tx)? => {
            claiming::ask(tx, at, agent.into(), Request::Resolve, now)?;
        }
        Signal::Declined if claiming::may_give_back(tx, at.1, agent.into(), now)? => {
            claiming::ask(tx, at, agent.into(), Request::Release, now)?;
        }
        Signal::Seen
        | Signal::Agree
        | Signal::Queued
        | Signal::Done
        | Signal::Declined
        | Signal::Blocked
        | Signal::Unclear => {}
    }
    disposing::record_of_message(tx, at.1, agent, Cause::Reacted(signal), until, now)?;
    Ok(())
}
