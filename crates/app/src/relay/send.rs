//! Sends envelopes: accepts, commits, and waits for an outcome that comes after the commit.

use super::answer::{Listener, Output};
use super::post::{EnvelopeSender, fail_unreadable, post, posting};
use crate::delivery::c2a;
use chorus_node::Error;
use chorus_node::caller::{Caller, Identity, key_hash};
use chorus_node::idempotency::KEY_LIFE_MS;
use chorus_node::source::Source;
use chorus_node::tasks::detached::FinishDetached;
use chorus_node::transport::dialect::Dialect;
use chorus_node::transport::outbound::lease_ms;
use chorus_node::transport::outbound_limits::{Cause, Limited, Slot};
use chorus_node::transport::replies::{Line, MAX_STREAM};
use chorus_node::{App, AppState};
use chorus_protocol::code::Code;
use chorus_protocol::ids::{ConversationId, EventId, TraceId};
use chorus_protocol::relay::{InboxMessage, Outcome, Send};
use chorus_protocol::time::rfc3339;
use chorus_protocol::words::EntryKind;
use chorus_store::deliveries::{Lease, Transport};
use chorus_store::directory::{self, Agent, KeyHash};
use chorus_store::idempotency::Key;
use chorus_store::relay::{self, NumberedEnvelope, SendError};
use chorus_store::{StoreError, Tx};
use serde_json::value::RawValue;
use std::sync::Arc;
use tokio::sync::mpsc;

/// The answer to a send. The status is that of the HTTP response, which is stored with it for repeated
/// requests.
pub enum SendAnswer {
    /// The outcome of the envelope.
    Known(u16, Outcome),
    /// The stored answer to an earlier request with the same idempotency key.
    Again(u16, Box<RawValue>),
    /// The receiver's answer as a stream.
    Streamed(Listener),
}

/// The parts of a send request besides its body.
pub struct Showing<'a> {
    pub key: Option<&'a str>,
    pub idempotency_key: Option<&'a str>,
    /// The network address of the request, for rate limits.
    pub source: Source,
}

/// Checks that a caller may send.
pub fn may_send(caller: &Caller) -> Result<(), Error> {
    if caller.is_known() {
        return Ok(());
    }
    Err(Error::unauthorized("sending needs the sender's key or the operator's"))
}

/// Sends an envelope. It is committed when this returns, and a sender that hangs up does not stop its
/// delivery.
pub async fn send(
    app: &AppState,
    caller: Caller,
    shows: Showing<'_>,
    body: &[u8],
) -> Result<SendAnswer, Error> {
    may_send(&caller)?;
    let request = Send::read(body).map_err(Error::validation)?;
    // Only a stream outlives the check of the sender's key.
    let outlives = request.stream && caller != Caller::Operator;
    let shown = shows.key.filter(|_| outlives).map(key_hash);
    let sender = sender(app, caller, &request).await?;
    let receiver = request.receiver.local_name(&app.config.host_name).ok_or_else(not_found)?.to_owned();

    let now = app.now();
    let longest = if request.stream { MAX_STREAM } else { app.config.webhook_timeout };
    let lease = Lease { owner: app.config.node, until: now + lease_ms(longest) };
    let keys = shows.idempotency_key.map(|key| {
        Key::new("idempotency-key", &[sender.id.as_bytes(), key.as_bytes()], body, Some(now + KEY_LIFE_MS))
    });
    let (envelope, turn) = (request.raw, request.envelope.turn.zip(request.normal));
    let turn =
        turn.map(|((conversation, number), content)| NumberedEnvelope { conversation, number, content });
    let command = relay::Send {
        sender: sender.id,
        receiver,
        envelope: envelope.get().to_owned(),
        event: EventId(app.environment.uuid_v7()),
        trace: TraceId(app.environment.uuid_v7()),
        keys: keys.into_iter().collect(),
        turn,
        stream: request.stream,
        lease,
        now,
    };
    // The sender may hang up at any moment. A committed envelope is still delivered and its outcome recorded.
    let cause = Cause::Send(shows.source);
    FinishDetached::new(
        &app.tasks.tracker,
        deliver(Arc::clone(app), sender, shown, cause, command, envelope.into()),
    )
    .await
}

async fn deliver(
    app: AppState,
    sender: Identity,
    shown: Option<KeyHash>,
    cause: Cause,
    command: relay::Send,
    envelope: Arc<RawValue>,
) -> Result<SendAnswer, Error> {
    let (wants_stream, to) = (command.stream, command.receiver.to_ascii_lowercase());
    let (from, sender_address) = (sender.id, app.address(&sender.name));
    // One line at a time: the replier waits for the listener.
    let (listener, lines) = wants_stream.then(|| mpsc::channel(1)).unzip();
    let hub = Arc::clone(&app);
    let sending = Sending { hub, sender, cause, command, envelope: Arc::clone(&envelope), listener };
    let accepted = app.store.write_on::<_, Error, _>(to, move |tx: &mut dyn Tx| sending.accept(tx));
    // Held until the outcome is known, even if the sender no longer waits for it.
    let (sent, place) = accepted.await?;
    let pending = match sent {
        relay::Sent::Stored { outcome, .. } => return Ok(known(&app, outcome)),
        relay::Sent::Again(first) => {
            let data = serde_json::from_str(&first.body).map_err(Error::internal)?;
            return Ok(SendAnswer::Again(first.status, data));
        }
        relay::Sent::Pending(pending) => pending,
    };
    if let (Transport::Inbox, Some(lines)) = (pending.transport, lines) {
        return Ok(SendAnswer::Streamed(Listener::new(&app, from, shown, pending, Output::Reply(lines))));
    }
    // A connection string or a harness answers by a separate call, not in the response to the POST.
    let by_callback = pending.transport != Transport::Webhook;
    let is_streamed = wants_stream && !by_callback;
    let sender = EnvelopeSender { id: from, address: &sender_address, cause };
    let posting = posting(&app, &sender, &pending, &envelope, is_streamed)?;
    Ok(match posting {
        Some(posting) if wants_stream => {
            let posting = Box::new(posting);
            let output =
                if by_callback { Output::Callback(posting, place) } else { Output::Endpoint(posting, place) };
            SendAnswer::Streamed(Listener::new(&app, from, shown, pending, output))
        }
        // Boxed, because most messages go to an inbox and should not pay for the size of this future.
        Some((to, message)) => known(&app, Box::pin(post(&app, pending, &to, message)).await),
        None => known(&app, Box::pin(fail_unreadable(&app, pending)).await),
    })
}

/// An envelope that is being stored.
struct Sending {
    hub: AppState,
    sender: Identity,
    cause: Cause,
    command: relay::Send,
    envelope: Arc<RawValue>,
    /// The channel to a sender that wants a stream.
    listener: Option<mpsc::Sender<Line>>,
}

impl Sending {
    /// Stores the envelope, with its frame for an inbox that is open on this node. Reserves a slot among the
    /// sender's open requests if it waits for a POST.
    fn accept(&self, tx: &mut dyn Tx) -> Result<(relay::Sent, Option<Slot>), Error> {
        let Self { hub, command, .. } = self;
        // Read before the inbox assigns a number, because other writers wait from there on.
        hub.limits.usage.meet(tx, command.sender.into())?;
        let sent = relay::send(tx, command).map_err(refusal)?;
        match &sent {
            relay::Sent::Stored { receiver, seq, .. } => self.show(tx, receiver, *seq, false)?,
            relay::Sent::Pending(pending) if pending.transport == Transport::Inbox => {
                let (agent, seq) = (pending.receiver.id, pending.seq);
                if let Some(listener) = self.listener.clone() {
                    let waiting = Arc::clone(hub);
                    tx.after_commit(Box::new(move || waiting.transport.replies.wait(agent, seq, listener)));
                }
                self.show(tx, &pending.receiver, seq, true)?;
            }
            // A sender with too many open requests is refused, and nothing is stored. If the transaction runs
            // again, dropping the first slot frees it.
            relay::Sent::Pending(_) => {
                let place = hub.transport.outbound.limits().begin_send(self.sender.id, self.cause);
                return Ok((sent, Some(place.map_err(|limited| too_many(hub, limited))?)));
            }
            relay::Sent::Again(_) => {}
        }
        Ok((sent, None))
    }

    /// Publishes the frame to the receiver's reader after the commit, if its inbox is open on this node.
    fn show(&self, tx: &mut dyn Tx, receiver: &Agent, seq: i64, is_replied: bool) -> Result<(), Error> {
        let Some(dialect) = self.hub.transport.live.dialect(receiver.id) else { return Ok(()) };
        let reply_stream = is_replied.then(|| self.hub.reply_stream(receiver.id, seq));
        let data = match dialect {
            Dialect::Sse => serde_json::to_string(&self.message(receiver, reply_stream)),
            Dialect::C2a => {
                let said = c2a::Envelope {
                    event: self.command.event,
                    conversation: ConversationId::of_pair(self.sender.id, receiver.id),
                    sender: &self.hub.address(&self.sender.name),
                    body: self.envelope.get(),
                    created_at: self.command.now,
                    shows: None,
                };
                c2a::envelope(&self.hub, receiver.id, &receiver.name, &said)
                    .and_then(|brought| brought.params(receiver.id, 1))
            }
        };
        let frame = dialect.entry(EntryKind::Message, seq, &data.map_err(Error::internal)?);
        let (hub, stream) = (Arc::clone(&self.hub), receiver.id.0);
        tx.after_commit(Box::new(move || hub.transport.live.frames.put(dialect, stream, seq, frame)));
        Ok(())
    }

    /// Renders the message for the receiver's inbox.
    fn message(&self, receiver: &Agent, reply_stream: Option<String>) -> InboxMessage {
        InboxMessage {
            trace_id: self.command.trace.into(),
            sender_id: self.hub.address(&self.sender.name),
            receiver_id: self.hub.address(&receiver.name),
            created_at: rfc3339(self.command.now),
            timestamp: rfc3339(self.command.now),
            reply_stream,
            envelope: self.envelope.as_ref().to_owned(),
        }
    }
}

fn known(app: &App, outcome: Outcome) -> SendAnswer {
    app.telemetry.metrics.delivery(outcome.delivery.as_str());
    SendAnswer::Known(relay::status(&outcome), outcome)
}

/// Returns the sender of the envelope, if the caller may act for it.
async fn sender(app: &App, caller: Caller, request: &Send) -> Result<Identity, Error> {
    let name = request.envelope.sender.local_name(&app.config.host_name).map(str::to_owned);
    if let (Caller::Agent(identity), Some(name)) = (&caller, &name)
        && identity.name.eq_ignore_ascii_case(name)
    {
        return Ok(identity.clone());
    }
    let found = match name {
        Some(name) => {
            app.store.read::<_, StoreError, _>(move |tx: &mut dyn Tx| directory::by_name(tx, &name)).await?
        }
        None => None,
    };
    let found = found.ok_or_else(|| {
        Error::new(
            Code::SenderNotRegistered,
            "envelope.sender_id: this sender is not registered with this hub",
        )
    })?;
    match caller {
        Caller::Operator => Ok(Identity { id: found.id, name: found.name }),
        _ => Err(Error::new(
            Code::SenderMismatch,
            "envelope.sender_id: an agent can send only as itself; this key belongs to another agent",
        )),
    }
}

fn not_found() -> Error {
    Error::new(Code::AgentNotFound, "receiver_id: no agent of this address is registered here")
}

fn too_many(app: &App, limited: Limited) -> Error {
    app.telemetry.metrics.rate_limited.inc();
    Error::new(Code::RateLimited, limited).retry_after_ms(limited.wait().as_millis() as i64)
}

fn refusal(error: SendError) -> Error {
    match error {
        SendError::ReceiverNotFound => not_found(),
        SendError::Blocked => {
            Error::new(Code::Forbidden, "receiver_id: this agent does not take messages from you")
        }
        SendError::Conflict => Error::new(
            Code::IdempotencyConflict,
            "the same Idempotency-Key or turn was sent before with other content; use a new one for new content",
        ),
        SendError::InProgress => Error::new(
            Code::IdempotencyInProgress,
            "the first request with this key or turn is still being delivered; ask again for its outcome",
        )
        .retry_after_ms(1000),
        SendError::Store(error) => error.into(),
    }
}
