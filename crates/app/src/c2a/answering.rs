//! Answers to events from outside the conversations of this hub. An envelope is answered by an envelope, a job
//! by its result, and a post of another service at the callback that came with it.
//!
//! Each answer is made once per idempotency key. The POST to another service is made while the caller waits. A
//! failed POST is forgotten, so that the caller can try again with the same key. The service recognizes a
//! repetition by its `Idempotency-Key`.

use super::harness::Harness;
use super::outside;
use crate::attention::{dispositions, envelopes};
use crate::market::results::{self, WorkerReport};
use crate::relay::{EnvelopeAnswer, answer_envelope, say_to_listener};
use chorus_attention::disposition::Cause;
use chorus_node::AppState;
use chorus_node::caller::disabled;
use chorus_node::idempotency::{KEY_LIFE_MS, Once};
use chorus_node::secrets::sealed_posts;
use chorus_node::secrets::webhooks;
use chorus_node::transport::outbound::{PostError, Signed, To, lease_ms};
use chorus_node::transport::outbound_limits;
use chorus_node::{Error, Refused};
use chorus_protocol::c2a::{Reached, SendMessage, Sent};
use chorus_protocol::channel::CallbackEvent;
use chorus_protocol::code::Code;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{AgentId, DeliveryId, EventId};
use chorus_protocol::relay::ReplyLine;
use chorus_protocol::words::{DeliveryState, EventSource};
use chorus_store::conversations::Event;
use chorus_store::directory::{self, Agent};
use chorus_store::idempotency::{self, Answer, Key, Known};
use chorus_store::{StoreError, Tx, sent};
use data_encoding::HEXLOWER;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::sync::{Arc, OnceLock};
use tokio::runtime::Handle;

/// Returns the event if it came from outside the conversations of this hub and was delivered to this agent.
pub(super) async fn from_outside(harness: &Harness, event: Option<EventId>) -> Result<Option<Event>, Error> {
    let (agent, now, Some(event)) = (harness.agent(), harness.app.now(), event) else { return Ok(None) };
    let find = move |tx: &mut dyn Tx| outside::find(tx, agent, event, now);
    Ok(harness.app.store.read::<_, StoreError, _>(find).await?)
}

/// Sends an answer to the origin of the event.
pub(super) async fn answer(
    harness: &Harness,
    sent: Event,
    message: &SendMessage,
    once: Once,
    words: &[u8],
) -> Result<Sent, Error> {
    match sent.kind.source() {
        EventSource::Envelope => by_envelope(harness, sent, message.text.clone(), once).await,
        EventSource::Foreign => by_callback(harness, &sent, message, words).await,
        EventSource::Job => by_result(harness, sent, &message.text, once).await,
        EventSource::Conversation | EventSource::Digest => {
            Err(Faults::one("inReplyTo", "is told by the hub, and nobody waits for an answer").into())
        }
    }
}

/// Records an answer as a job's result, or as the price if the event asks for a quote.
async fn by_result(harness: &Harness, sent: Event, text: &str, once: Once) -> Result<Sent, Error> {
    let (app, me) = (Arc::clone(&harness.app), harness.agent());
    let told_of = results::answered_by_text(&harness.app, sent.id, text).await?;
    let told_of = told_of.ok_or_else(|| Faults::one("inReplyTo", "is not kept any more"))?;
    let (id, now) = (EventId(app.environment.uuid_v7()), app.now());
    let work = move |tx: &mut dyn Tx| {
        present(tx, me)?;
        results::apply_report(tx, &app, me, &told_of)?;
        // A job records its own disposition when it ends.
        if matches!(told_of, WorkerReport::Offer(..)) {
            dispositions::record(tx, sent.id, me, Cause::Replied, None, now)?;
        }
        Ok(told(id, DeliveryState::Delivered))
    };
    Ok(harness.app.once(once, |_: &mut dyn Tx| Ok(()), work).await?.result)
}

async fn by_envelope(harness: &Harness, sent: Event, text: String, once: Once) -> Result<Sent, Error> {
    let (app, runtime, me) = (Arc::clone(&harness.app), Handle::current(), harness.agent());
    let (id, now, counted) = (EventId(app.environment.uuid_v7()), app.now(), OnceLock::new());
    let work = move |tx: &mut dyn Tx| {
        let agent = present(tx, me)?;
        // The cell keeps the decision when the transaction is retried.
        counted.get_or_init(|| app.limits.may_say(me.into(), sent.conversation, 1)).clone()?;
        envelopes::check_answer(tx, &sent, me, &text, now)?;
        dispositions::record(tx, sent.id, me, Cause::Replied, None, now)?;
        if say_to_sender(tx, &sent, me, &text, now)? {
            return Ok(told(id, DeliveryState::Delivered));
        }
        let answer = EnvelopeAnswer { agent: &agent, sent: &sent, id, content: &text, now };
        let delivery = answer_envelope(tx, &app, &runtime, &answer)?;
        Ok(told(id, delivery))
    };
    Ok(harness.app.once(once, |_: &mut dyn Tx| Ok(()), work).await?.result)
}

/// Sends the answer to the sender's open connection. Returns `false` if the sender does not wait on one.
fn say_to_sender(tx: &mut dyn Tx, sent: &Event, me: AgentId, text: &str, now: i64) -> Result<bool, Error> {
    let Some(sender) = sent.author.agent() else { return Ok(false) };
    let Some(known) = sent::one(tx, sender, sent.trace)? else { return Ok(false) };
    let (to, line) = (DeliveryId { agent: me, seq: known.seq }, ReplyLine::Done { result: text.into() });
    say_to_listener(tx, to, line.kind().as_str(), &line.data(), now)
}

/// Returns the agent. Fails if it is deleted or disabled.
fn present(tx: &mut dyn Tx, agent: AgentId) -> Result<Agent, Error> {
    let agent = directory::by_id(tx, agent)?;
    let agent = agent.ok_or_else(|| Error::new(Code::Gone, "the agent is not registered any more"))?;
    if agent.disabled_at.is_some() { Err(disabled("agent")) } else { Ok(agent) }
}

fn told(id: EventId, delivery: DeliveryState) -> Sent {
    Sent {
        event_id: id.into(),
        sequence: None,
        thread_id: None,
        attention: Reached::default(),
        delivery: Some(delivery),
        awaits_approval: false,
        ephemeral: false,
        masked: vec![],
        unknown: vec![],
    }
}

async fn by_callback(
    harness: &Harness,
    sent: &Event,
    message: &SendMessage,
    words: &[u8],
) -> Result<Sent, Error> {
    let (app, me, now) = (&harness.app, harness.agent(), harness.app.now());
    let parts = [me.as_bytes(), message.idempotency_key.0.as_bytes()];
    let key = Key::new("c2a callback", &parts, words, Some(now + KEY_LIFE_MS));
    let until = now + lease_ms(app.config.webhook_timeout);
    let (event, text) = (sent.clone(), message.text.clone());
    let claim = move |tx: &mut dyn Tx| {
        let agent = present(tx, me)?;
        envelopes::check_answer(tx, &event, me, &text, now)?;
        Ok((agent, idempotency::reserve(tx, &key, now, until)?))
    };
    let (agent, known) = app.store.write::<_, Error, _>(claim).await?;
    match known {
        Known::New => {}
        Known::Answered(first) => return serde_json::from_str(&first.body).map_err(Error::internal),
        Known::InProgress => {
            let what = "the first call with this key is still being made; ask again for its outcome";
            return Err(Error::new(Code::IdempotencyInProgress, what).retry_after_ms(1000));
        }
        Known::Conflict => {
            let what = "this idempotency key was used for something else; use a new one for new content";
            return Err(Error::new(Code::IdempotencyConflict, what));
        }
    }
    // The id that the service sees is the same at each try, and reveals nothing of the key.
    let id = HEXLOWER.encode(&Sha256::digest([parts.concat(), sent.id.as_bytes().to_vec()].concat())[..16]);
    let posted = match app.limits.may_say(me.into(), sent.conversation, 1) {
        Ok(()) => post(app, &agent, sent, id, &message.text, now).await,
        Err(limited) => Err(limited),
    };
    let result = posted.map(|()| told(EventId(app.environment.uuid_v7()), DeliveryState::Delivered));
    let (event, done) = (sent.id, result.as_ref().ok().map(serde_json::to_string).transpose());
    let done = done.map_err(Error::internal)?;
    let record = move |tx: &mut dyn Tx| {
        let Some(done) = &done else { return Ok(idempotency::forget(tx, &key, until)?) };
        idempotency::answer(tx, &key, until, &Answer::new(200, done.clone()))?;
        dispositions::record(tx, event, me, Cause::Replied, None, now).map(drop)
    };
    app.store.write::<_, Error, _>(record).await?;
    result
}

/// Posts the answer to the other service.
async fn post(
    app: &AppState,
    agent: &Agent,
    sent: &Event,
    id: String,
    text: &str,
    now: i64,
) -> Result<(), Error> {
    let posted = sealed_posts::open_post(&app.config.master_key, sent.id, &sent.body);
    let posted: Value = serde_json::from_str(&posted).map_err(Error::internal)?;
    let callback = posted["callback"].as_str().unwrap_or_default().to_owned();
    let body = serde_json::to_vec(&CallbackEvent::Message { content: text.to_owned() });
    let secrets = webhooks::signing(&app.config.master_key, agent, now);
    let body = body.map_err(Error::internal)?;
    let message = Signed::new(&secrets, format!("msg_{id}"), now, body.into(), false).keyed();
    let to = To {
        url: callback,
        receiver: agent.id,
        sender: None,
        cause: outbound_limits::Cause::Push,
        proven: !app.config.endpoint_challenge,
    };
    let refused = |what: String, code: Code| Err(Error::new(code, what));
    let blocked = |what: String| Err(Error::new(Code::Forbidden, what).refused(Refused::Blocked));
    match app.transport.outbound.push(&to, message).await {
        Ok((200..300, _)) => Ok(()),
        Ok((status @ (408 | 425 | 429 | 500..600), _)) => {
            refused(format!("the other service answered {status}; try again"), Code::AgentUnreachable)
        }
        Ok((status @ (404 | 410), _)) => {
            refused(format!("the other service answered {status}: the callback is over"), Code::NotFound)
        }
        Ok((status, _)) => blocked(format!("the other service does not take it: it answered {status}")),
        Err(error @ PostError::Blocked(_)) => blocked(error.to_string()),
        Err(error) => refused(error.to_string(), error.code()),
    }
}
