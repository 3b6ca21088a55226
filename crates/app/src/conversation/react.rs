//! Reacting to a message. What an agent signals about one is also what becomes of it, in the same transaction: it takes it on, says
//! that it is done, gives it back.

use super::{act, is_member, kinds, masked, post};
use crate::app::AppState;
use crate::attention::{claiming, disposing};
use crate::error::Error;
use crate::once::{Done, Once};
use chorus_attention::claims::Request;
use chorus_attention::disposition::Cause;
use chorus_protocol::api::messages::{NewReaction, Noted};
use chorus_protocol::ids::{AgentId, ConversationId, EventId, Principal};
use chorus_protocol::words::Signal;
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
        let (event_id, sequence) = match conversation::draft_reaction(tx, &act, target, new.signal, &body)? {
            Reaction::New(draft) => {
                let posted = post(&hub, tx, &draft)?;
                if let Some(agent) = who.agent().filter(|_| !new.removed) {
                    signal(
                        tx,
                        (conversation, draft.kind.target().unwrap_or(target)),
                        agent,
                        new.signal,
                        act.now,
                    )?;
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
                (event, seq)
            }
        };
        Ok(Noted { event_id, sequence, masked: kinds(&body), unknown: vec![] })
    };
    app.once(once, is_member(who, conversation), work).await
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
        Ok(claiming::of(tx, at.1)?.and_then(|claim| claim.holder(now)) == Some(agent))
    };
    let mut until = None;
    match signal {
        Signal::Working | Signal::Claimed => {
            until = Some(claiming::ask(tx, at, agent, Request::Take { ttl_ms: None }, now)?.until);
        }
        Signal::Done if holds(tx)? => {
            claiming::ask(tx, at, agent, Request::Resolve, now)?;
        }
        Signal::Declined if claiming::may_give_back(tx, at.1, agent, now)? => {
            claiming::ask(tx, at, agent, Request::Release, now)?;
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
