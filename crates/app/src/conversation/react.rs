//! Reactions to messages. A signal also sets the disposition of the message, in the same transaction: it
//! claims the message, resolves it or releases it. A person who removes the signal of a claim releases the
//! claim.

use super::claims::{dispose_signal, signal_to};
use super::follow::tell_attention;
use super::stop::stop_by_reaction;
use super::{act, is_member, kinds, masked, post};
use crate::attention::handle;
use chorus_attention::disposition::Cause;
use chorus_attention::plan::HandlingRequest;
use chorus_node::AppState;
use chorus_node::Error;
use chorus_node::idempotency::{Done, Once};
use chorus_protocol::api::messages::{NewReaction, Noted};
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{AgentId, ConversationId, EventId, Principal};
use chorus_protocol::words::Signal;
use chorus_store::attention::load_handling;
use chorus_store::conversation::{self, Act, ConversationError, Reaction};
use chorus_store::{Tx, conversations, obligations};
use std::sync::Arc;

/// Reacts to a message. A repeated reaction changes nothing; the result names the one that stands.
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
            return to_signal(tx, target, agent, &new, act.now);
        }
        let (event_id, sequence) = match conversation::draft_reaction(tx, &act, target, new.signal, &body)? {
            Reaction::New(draft) => {
                let posted = post(&hub, tx, &draft)?;
                let message = draft.kind.target().unwrap_or(target);
                // An agent gives a claim back by saying so, not by removing a reaction.
                if who.agent().is_none() || !new.removed {
                    signal(tx, conversation, message, who, &new, act.now)?;
                }
                stop_if_asked(&hub, tx, &act, message, &new)?;
                (act.event, posted.seq)
            }
            Reaction::Stands(event, seq) => {
                // The reaction may be older than an edit of the message. Then it answers the edit as well.
                let message = conversations::event_by_id(tx, event)?.and_then(|stands| stands.target);
                if let (Some(agent), Some(message)) = (who.agent().filter(|_| !new.removed), message)
                    && let Some(given) = obligations::current(tx, message, agent)?
                    && obligations::disposition(tx, given, agent)?.is_none()
                {
                    signal(tx, conversation, message, who, &new, act.now)?;
                }
                // A person whose claim has expired claims the message again.
                if let Some(message) = message {
                    stop_if_asked(&hub, tx, &act, message, &new)?;
                }
                if let (Principal::Account(_), Some(message)) = (who, message) {
                    signal(tx, conversation, message, who, &new, act.now)?;
                    let hub = Arc::clone(&hub);
                    tx.after_commit(Box::new(move || tell_attention(&hub, conversation, message)));
                }
                (event, seq)
            }
        };
        Ok(Noted { event_id, sequence, masked: kinds(&body), unknown: vec![] })
    };
    app.once(once, is_member(who, conversation), work).await
}

/// Stops the work that a message is about if the reaction says so.
fn stop_if_asked(
    app: &AppState,
    tx: &mut dyn Tx,
    act: &Act,
    message: EventId,
    new: &NewReaction,
) -> Result<(), Error> {
    if new.signal != Signal::Stop || new.removed {
        return Ok(());
    }
    let (place, member) = conversation::as_reader(tx, act.conversation, act.author)?;
    let said = conversations::event_by_id(tx, message)?.ok_or(ConversationError::NoTarget)?;
    stop_by_reaction(app, tx, act, (&place, &member), &said)
}

/// Records a reaction of an agent to a reaction to its own message. Nobody else sees it; it is only the
/// disposition of that signal.
fn to_signal(
    tx: &mut dyn Tx,
    event_id: EventId,
    agent: AgentId,
    new: &NewReaction,
    now: i64,
) -> Result<Noted, Error> {
    if new.removed {
        let what = "cannot be true here: what you made of this stands until you make something else of it";
        return Err(Faults::one("removed", what).into());
    }
    dispose_signal(tx, event_id, agent, Cause::Reacted(new.signal), new.eta.as_deref(), now)?;
    let sequence = conversations::event_by_id(tx, event_id)?.map_or(0, |event| event.seq);
    Ok(Noted { event_id, sequence, masked: vec![], unknown: vec![] })
}

/// Applies the meaning of a reaction to a message and to the claim on it.
fn signal(
    tx: &mut dyn Tx,
    conversation: ConversationId,
    message: EventId,
    who: Principal,
    new: &NewReaction,
    now: i64,
) -> Result<(), Error> {
    let (place, member) = conversation::as_reader(tx, conversation, who)?;
    let said = conversations::event_by_id(tx, message)?.ok_or(ConversationError::NoTarget)?;
    let request = match who {
        Principal::Agent(_) => HandlingRequest::React(new.signal),
        Principal::Account(_) => HandlingRequest::PersonReacts { signal: new.signal, removed: new.removed },
    };
    let facts = load_handling(tx, &place, &member, &said, request, now)?;
    handle(tx, facts, now).map(drop)
}
