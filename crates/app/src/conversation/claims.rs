//! Claims, resolutions and deferrals of messages by agents.
//!
//! A person claims a message by reacting to it ([`react`](super::react)). For an agent that may not read a
//! message, it does not exist.

use super::end_status;
use super::follow::tell_attention;
use crate::attention::{dispositions, handle};
use chorus_attention::claims::{DEFAULT_TTL_MS, Request};
use chorus_attention::disposition::Cause;
use chorus_attention::plan::{ClaimStatus, HandlingRequest};
use chorus_node::App;
use chorus_node::Error;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{AgentId, ConversationId, EventId};
use chorus_protocol::words::{Disposition, EventKind};
use chorus_store::attention::load_handling;
use chorus_store::conversation::{self, ConversationError};
use chorus_store::conversations::{self, Conversation, Event};
use chorus_store::members::Member;
use chorus_store::{StoreError, Tx, obligations};

/// Claims a message, renews the claim, or releases it. Returns the state of the claim, and the agent's handle
/// in the conversation.
pub async fn claim(
    app: &App,
    who: AgentId,
    event: EventId,
    request: Request,
) -> Result<(ClaimStatus, String), Error> {
    let now = app.now();
    let act_in = super::act_by_agent(app, who);
    let work = move |tx: &mut dyn Tx| {
        if signal_to(tx, who, event, now)?.is_some() {
            let what = "is a reaction to what you said: there is nothing to claim. Answer it, or say what becomes of it with \
                        chat.defer, chat.resolve or chat.react";
            return Err(Faults::one("eventId", what).into());
        }
        let (place, member, said) = enter(tx, who, event)?;
        let facts = load_handling(tx, &place, &member, &said, HandlingRequest::Claim(request), now)?;
        let (_, effects) = handle(tx, facts, now)?;
        if request == Request::Release {
            end_status(tx, &act_in(place.id))?;
        }
        Ok((ClaimStatus::of(&effects, who.into(), now), member.handle, place.id, said.id))
    };
    let (status, handle, place, said) = app.store.write::<_, Error, _>(work).await?;
    tell_attention(app, place, said);
    Ok((status, handle))
}

/// Resolves a message, whether or not it was claimed, with a reason if there is one.
pub async fn resolve(
    app: &App,
    who: AgentId,
    event: EventId,
    why: Option<String>,
) -> Result<Option<Disposition>, Error> {
    dispose(app, who, event, HandlingRequest::Resolve, Cause::Resolved, why).await
}

/// Defers a message, with a reason.
pub async fn defer(
    app: &App,
    who: AgentId,
    event: EventId,
    why: String,
) -> Result<Option<Disposition>, Error> {
    dispose(app, who, event, HandlingRequest::Defer, Cause::Deferred, Some(why)).await
}

/// Applies a request to a message. For a signal to the agent it only records the cause, because nobody else is
/// concerned.
async fn dispose(
    app: &App,
    who: AgentId,
    event: EventId,
    request: HandlingRequest,
    cause: Cause,
    why: Option<String>,
) -> Result<Option<Disposition>, Error> {
    let now = app.now();
    let work = move |tx: &mut dyn Tx| {
        if let Some(place) = signal_to(tx, who, event, now)? {
            return Ok((dispose_signal(tx, event, who, cause, why.as_deref(), now)?, place, event));
        }
        let (place, member, said) = enter(tx, who, event)?;
        let facts = load_handling(tx, &place, &member, &said, request, now)?;
        let (facts, effects) = handle(tx, facts, now)?;
        dispositions::explain_message(tx, said.id, who, why.as_deref(), now)?;
        Ok((facts.disposition(&effects), place.id, said.id))
    };
    let (disposition, place, said) = app.store.write::<_, Error, _>(work).await?;
    tell_attention(app, place, said);
    Ok(disposition)
}

/// Returns the conversation of a signal that the agent was given: a reaction to its own message, or the
/// decision about a message of its that awaited approval. Such a signal is for this agent alone. Returns
/// `None` for any other event.
pub(super) fn signal_to(
    tx: &mut dyn Tx,
    who: AgentId,
    event: EventId,
    now: i64,
) -> Result<Option<ConversationId>, Error> {
    let signal = conversations::event_by_id(tx, event)?.filter(|event| event.kind == EventKind::Reaction);
    let Some(signal) = signal else { return Ok(None) };
    if obligations::of(tx, event, who, now)?.is_none() {
        return Ok(None);
    }
    conversation::lock_as_speaker(tx, signal.conversation, who.into()).map_err(missing_if_not_found)?;
    Ok(Some(signal.conversation))
}

/// Records the disposition of such a signal, with a reason if one was given.
pub(super) fn dispose_signal(
    tx: &mut dyn Tx,
    event: EventId,
    who: AgentId,
    cause: Cause,
    why: Option<&str>,
    now: i64,
) -> Result<Option<Disposition>, Error> {
    let until = Some(now + DEFAULT_TTL_MS);
    let disposed = dispositions::record(tx, event, who, cause, until, now)?;
    dispositions::explain(tx, event, who, why, now)?;
    Ok(disposed)
}

/// Turns the error for an unknown conversation into one for an unknown message, so that the caller does not
/// learn of the conversation.
fn missing_if_not_found(error: ConversationError) -> Error {
    match error {
        ConversationError::NotFound => ConversationError::NoTarget.into(),
        error => error.into(),
    }
}

/// Returns a message with its conversation and the agent's membership, and locks the conversation.
fn enter(tx: &mut dyn Tx, who: AgentId, event: EventId) -> Result<(Conversation, Member, Event), Error> {
    let missing = || Error::from(ConversationError::NoTarget);
    let said = conversations::event_by_id(tx, event)?.ok_or_else(missing)?;
    let entered = conversation::lock_as_speaker(tx, said.conversation, who.into());
    let (place, member) = entered.map_err(missing_if_not_found)?;
    let said = conversation::message(tx, &place, who.into(), event)?;
    Ok((place, member, said))
}

/// Returns the conversation of an event. Returns `None` if the agent may not read it.
pub fn conversation_of(
    tx: &mut dyn Tx,
    who: AgentId,
    event: EventId,
) -> Result<Option<ConversationId>, StoreError> {
    let Some(said) = conversations::event_by_id(tx, event)? else { return Ok(None) };
    let here = conversation::as_reader(tx, said.conversation, who.into());
    Ok(here.is_ok().then_some(said.conversation))
}
