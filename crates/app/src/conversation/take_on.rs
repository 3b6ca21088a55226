//! Taking on an event that is for several, giving it back, putting it off, and saying that it is done.
//!
//! Agents do; a person who takes something on signals it ([`react`](super::react)). Who may not read an event is told that there is none.

use super::follow::tell_attention;
use crate::app::App;
use crate::attention::claiming::{self, Standing};
use crate::attention::taking;
use crate::attention::{disposing, replying};
use crate::error::{Error, Refused};
use chorus_attention::claims::{DEFAULT_TTL_MS, Request};
use chorus_attention::disposition::{Cause, PolicyForbidden};
use chorus_protocol::code::Code;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{AgentId, ConversationId, EventId};
use chorus_protocol::words::{Directedness, Disposition, EventKind, Policy};
use chorus_store::conversation::{self, ConversationError};
use chorus_store::conversations::{self, Conversation, Event};
use chorus_store::members::Member;
use chorus_store::{StoreError, Tx, obligations};

/// Claims an event or renews the claim, gives it back, or says that it is dealt with: how it stands then, and what the agent is
/// called there.
pub async fn claim(
    app: &App,
    who: AgentId,
    event: EventId,
    request: Request,
) -> Result<(Standing, String), Error> {
    let now = app.now();
    let work = move |tx: &mut dyn Tx| {
        if signal_to(tx, who, event, now)?.is_some() {
            let what = "is a reaction to what you said: there is nothing to claim. Answer it, or say what becomes of it with \
                        chat.defer, chat.resolve or chat.react";
            return Err(Faults::one("eventId", what).into());
        }
        let (place, member, said) = enter(tx, who, event)?;
        if matches!(request, Request::Take { .. }) {
            replying::may_take_on(tx, (&place, &member), &said, now)?;
        }
        let (standing, _) = taking::ask_and_dispose(tx, (place.id, said.id), who.into(), request, now)?;
        Ok((standing, member.handle, (place.id, said.id)))
    };
    let (standing, handle, at) = app.store.write::<_, Error, _>(work).await?;
    tell_attention(app, at);
    Ok((standing, handle))
}

/// Says that an event is dealt with, whether or not it was claimed; and how, if that is to be known.
pub async fn resolve(
    app: &App,
    who: AgentId,
    event: EventId,
    why: Option<String>,
) -> Result<Option<Disposition>, Error> {
    let now = app.now();
    let work = move |tx: &mut dyn Tx| {
        if let Some(place) = signal_to(tx, who, event, now)? {
            return Ok((
                dispose_signal(tx, (event, who), Cause::Resolved, why.as_deref(), now)?,
                (place, event),
            ));
        }
        let (place, member, said) = enter(tx, who, event)?;
        replying::may_take_on(tx, (&place, &member), &said, now)?;
        let at = (place.id, said.id);
        if claiming::of(tx, said.id)?.is_some() {
            let (_, disposed) = taking::ask_and_dispose(tx, at, who.into(), Request::Resolve, now)?;
            disposing::explain_message(tx, said.id, who, why.as_deref(), now)?;
            return Ok((disposed, at));
        }
        let disposed = disposing::record_of_message(tx, said.id, who, Cause::Resolved, None, now)?;
        disposing::explain_message(tx, said.id, who, why.as_deref(), now)?;
        Ok((disposed, at))
    };
    let (disposed, at) = app.store.write::<_, Error, _>(work).await?;
    tell_attention(app, at);
    Ok(disposed)
}

/// Says that an answer comes later, and why.
pub async fn defer(
    app: &App,
    who: AgentId,
    event: EventId,
    why: String,
) -> Result<Option<Disposition>, Error> {
    let now = app.now();
    let work = move |tx: &mut dyn Tx| {
        if let Some(place) = signal_to(tx, who, event, now)? {
            return Ok((dispose_signal(tx, (event, who), Cause::Deferred, Some(&why), now)?, (place, event)));
        }
        let (place, member, said) = enter(tx, who, event)?;
        may_put_off(tx, (&place, &member, &said), who, now)?;
        let deferred = disposing::record_of_message(tx, said.id, who, Cause::Deferred, None, now)?;
        if deferred.is_none() {
            let what = "this was not brought to you: nobody waits for you, so there is nothing to put off";
            return Err(Error::new(Code::PolicyForbidden, what).refused(Refused::Policy));
        }
        disposing::explain_message(tx, said.id, who, Some(&why), now)?;
        Ok((deferred, (place.id, said.id)))
    };
    let (deferred, at) = app.store.write::<_, Error, _>(work).await?;
    tell_attention(app, at);
    Ok(deferred)
}

/// Refuses to put off what is not to be answered, or is another's.
fn may_put_off(
    tx: &mut dyn Tx,
    (place, member, said): (&Conversation, &Member, &Event),
    who: AgentId,
    now: i64,
) -> Result<(), Error> {
    let meant = replying::meaning(tx, place, member, said, now)?;
    if meant.policy == Policy::MustNotRespond {
        return Err(disposing::forbidden(PolicyForbidden { policy: meant.policy }));
    }
    if meant.directedness == Directedness::ToMe {
        return Ok(());
    }
    let Some(claim) = claiming::of(tx, said.id)? else { return Ok(()) };
    let take = Request::Take { ttl_ms: None };
    match claim.apply(now, who.into(), take) {
        Ok(_) => Ok(()),
        Err(refusal) => Err(claiming::refused(tx, place.id, refusal)?),
    }
}

/// Where an agent was given this, if it is a reaction to something that it said, or tells that its wait for a person is over: that is
/// for this agent alone.
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

/// What an agent makes of such a one, and why.
pub(super) fn dispose_signal(
    tx: &mut dyn Tx,
    (event, who): (EventId, AgentId),
    cause: Cause,
    why: Option<&str>,
    now: i64,
) -> Result<Option<Disposition>, Error> {
    let until = Some(now + DEFAULT_TTL_MS);
    let disposed = disposing::record(tx, event, who, cause, until, now)?;
    disposing::explain(tx, event, who, why, now)?;
    Ok(disposed)
}

/// Who may not know of a place is told that what was said there is not there.
fn missing_if_not_found(error: ConversationError) -> Error {
    match error {
        ConversationError::NotFound => ConversationError::NoTarget.into(),
        error => error.into(),
    }
}

/// The message, and where it was said, for an agent that may do something about it.
fn enter(tx: &mut dyn Tx, who: AgentId, event: EventId) -> Result<(Conversation, Member, Event), Error> {
    let missing = || Error::from(ConversationError::NoTarget);
    let said = conversations::event_by_id(tx, event)?.ok_or_else(missing)?;
    let entered = conversation::lock_as_speaker(tx, said.conversation, who.into());
    let (place, member) = entered.map_err(missing_if_not_found)?;
    let said = conversation::message(tx, &place, who.into(), event)?;
    Ok((place, member, said))
}

/// In which conversation something was said, as far as somebody may know.
pub fn conversation_of(
    tx: &mut dyn Tx,
    who: AgentId,
    event: EventId,
) -> Result<Option<ConversationId>, StoreError> {
    let Some(said) = conversations::event_by_id(tx, event)? else { return Ok(None) };
    let here = conversation::as_reader(tx, said.conversation, who.into());
    Ok(here.is_ok().then_some(said.conversation))
}
