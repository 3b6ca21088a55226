//! Sending: accept, commit, and find out the outcome where that takes longer than the commit.

use super::bodies::SendBody;
use super::stream::{self, Source};
use super::success;
use crate::credentials::bearer;
use crate::doors::answers::{Overloaded, ServerSentEvent, TooFast, TooLarge, TooSlow};
use crate::doors::body;
use crate::error::ApiError;
use crate::extract::By;
use crate::middleware::Client;
use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use chorus_app::caller::{Caller, Identity, key_hash};
use chorus_app::delivery::bridge;
use chorus_app::delivery::challenge;
use chorus_app::delivery::limits::{Cause, Limited};
use chorus_app::delivery::outbound::{PostError, Signed, To};
use chorus_app::delivery::push::LEASE_MARGIN_MS;
use chorus_app::delivery::replies::MAX_STREAM;
use chorus_app::finish_detached::ToTheEnd;
use chorus_app::usage::event_bytes;
use chorus_app::webhooks;
use chorus_app::{App, AppState};
use chorus_protocol::ids::{AgentId, EventId, TraceId};
use chorus_protocol::relay::{
    Code, Delivery, Failure, InboxMessage, MAX_BODY, Metadata, Outcome, Send, Success,
};
use chorus_protocol::sse;
use chorus_protocol::time::rfc3339;
use chorus_store::deliveries::{Lease, Transport};
use chorus_store::directory::{self as agents, KeyHash};
use chorus_store::idempotency::{Answer, Key};
use chorus_store::relay::{self, Pending, SendError, Sent, Turn};
use chorus_store::{StoreError, Tx, push};
use serde_json::Value;
use serde_json::value::RawValue;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

/// How long an `Idempotency-Key` is remembered.
const KEY_LIFE_MS: i64 = 24 * 60 * 60 * 1000;

/// Send an envelope to an agent
///
/// Success means committed to disk. `delivered_sse`: the receiver's inbox was open. `queued` (202): it waits for the
/// inbox. `delivered`: the receiver's endpoint took it. `failed`: it did not; the hub does not try again by itself.
/// The same `Idempotency-Key` within a day, or the same `conversation_id` and `turn_number` within 30 days, is delivered
/// once; what the receiver answered is told again for a day.
#[utoipa::path(post, path = "/messages", tag = "relay", security(("key" = [])),
    params(("Idempotency-Key" = Option<String>, Header, nullable = false, max_length = 255, pattern = r"^[!-~]([\t -~]*[!-~])?$",
            description = "The same for every retry of the same send")),
    request_body(content_type = "application/json", content = SendBody),
    responses(
        (status = 200, description = "Delivered, or failed to be; with `stream` an event stream",
         content((Success<Outcome> = "application/json"), (ServerSentEvent = "text/event-stream"))),
        (status = 202, description = "Queued for the receiver's inbox", body = Success<Outcome>),
        (status = 400, description = "`ERR_VALIDATION`, `ERR_SENDER_NOT_REGISTERED`", body = Failure),
        (status = 401, description = "`ERR_UNAUTHORIZED`", body = Failure),
        (status = 403, description = "`ERR_SENDER_MISMATCH`, `ERR_FORBIDDEN` (the receiver keeps the sender out, or the sender is disabled), `ERR_QUOTA_EXCEEDED`", body = Failure),
        (status = 404, description = "`ERR_AGENT_NOT_FOUND`", body = Failure),
        (status = 409, description = "`ERR_IDEMPOTENCY_CONFLICT`, `ERR_IDEMPOTENCY_IN_PROGRESS`", body = Failure),
        TooSlow, TooLarge, TooFast, Overloaded,
    ))]
pub(crate) async fn send(
    State(app): State<AppState>,
    By(caller): By,
    Extension(client): Extension<Client>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    if !caller.is_known() {
        return Err(ApiError::unauthorized("sending needs the sender's key or the operator's"));
    }
    let body = body::read(&app, &headers, body, MAX_BODY).await?;
    let request = Send::read(&body).map_err(ApiError::validation)?;
    let key = body::idempotency_key(&headers)?;
    // Only a stream outlives the moment in which its sender was let in.
    let outlives = request.stream && caller != Caller::Operator;
    let shown = if outlives { bearer(&headers)?.map(key_hash) } else { None };
    let sender = sender(&app, caller, &request).await?;
    let receiver = request.receiver.local_name(&app.config.host_name).ok_or_else(not_found)?.to_owned();

    let now = app.now();
    let longest = if request.stream { MAX_STREAM } else { app.config.webhook_timeout };
    let lease = Lease { owner: app.config.node, until: now + longest.as_millis() as i64 + LEASE_MARGIN_MS };
    let trace = TraceId(app.sources.uuid_v7());
    let keys = key.map(|key| {
        Key::new("idempotency-key", &[sender.id.as_bytes(), key.as_bytes()], &body, Some(now + KEY_LIFE_MS))
    });
    let (envelope, turn) = (request.raw, request.envelope.turn.zip(request.normal));
    let turn = turn.map(|((conversation, number), content)| Turn { conversation, number, content });
    let command = relay::Send {
        sender: sender.id,
        receiver,
        envelope: envelope.get().to_owned(),
        event: EventId(app.sources.uuid_v7()),
        trace,
        keys: keys.into_iter().collect(),
        turn,
        stream: request.stream,
        lease,
        now,
    };
    // The sender may go at any moment: what is committed is delivered all the same, and its outcome recorded.
    let cause = Cause::Send(client.source());
    ToTheEnd::new(&app.tasks, deliver(Arc::clone(&app), sender, (shown, cause), command, envelope.into()))
        .await
}

async fn deliver(
    app: AppState,
    sender: Identity,
    (shown, cause): (Option<KeyHash>, Cause),
    command: relay::Send,
    envelope: Arc<RawValue>,
) -> Result<Response, ApiError> {
    let (hub, wants_stream) = (Arc::clone(&app), command.stream);
    let (from, sender_address) = (sender.id, app.address(&sender.name));
    // One line at a time: whoever replies waits for whoever listens.
    let (listener, lines) = mpsc::channel(1);
    let to = command.receiver.to_ascii_lowercase();
    let accepted = app.store.write_on::<_, ApiError, _>(to, {
        let envelope = Arc::clone(&envelope);
        move |tx: &mut dyn Tx| {
            let sent = relay::send(tx, &command).map_err(refusal)?;
            if !matches!(sent, Sent::Again(_)) {
                hub.count_bytes(tx, command.sender.into(), event_bytes(command.envelope.len()))?;
            }
            let (receiver, seq, replied) = match &sent {
                Sent::Stored { receiver, seq, .. } => (receiver, *seq, false),
                Sent::Pending(pending) if pending.transport == Transport::Inbox => {
                    (&pending.receiver, pending.seq, true)
                }
                // A sender with enough to wait for is told so, and nothing is stored. The place is a value like any
                // other: should this run again, the first one is given back.
                Sent::Pending(_) => {
                    let place = hub.outbound.limits().begin_send(sender.id, cause);
                    return Ok((sent, Some(place.map_err(|limited| too_many(&hub, limited))?)));
                }
                Sent::Again(_) => return Ok((sent, None)),
            };
            if replied {
                let (hub, agent, listener) = (Arc::clone(&hub), receiver.id, listener.clone());
                tx.after_commit(Box::new(move || hub.replies.wait(agent, seq, listener)));
            }
            if hub.live.is_open(receiver.id) {
                let reply_stream = replied.then(|| hub.reply_stream(receiver.id, seq));
                let frame = frame(&hub, &sender, &receiver.name, &command, &envelope, seq, reply_stream);
                let frame = frame.map_err(ApiError::internal)?;
                let (hub, stream) = (Arc::clone(&hub), receiver.id.0);
                tx.after_commit(Box::new(move || hub.live.frames.put(stream, seq, frame)));
            }
            Ok((sent, None))
        }
    });
    // Held until the outcome is known, whether or not the sender still waits for it.
    let (sent, place) = accepted.await?;
    let pending = match sent {
        Sent::Stored { outcome, .. } => return Ok(answer(&app, outcome)),
        Sent::Again(first) => return again(&app, &first),
        Sent::Pending(pending) => pending,
    };
    if pending.transport == Transport::Inbox {
        let sender = stream::Sender::new(&app, from, shown);
        return Ok(stream::answer(&app, pending, Source::Reply(lines), sender));
    }
    let posting = posting(&app, (from, cause), &sender_address, &pending, &envelope, wants_stream)?;
    Ok(match posting {
        Some(posting) if wants_stream => {
            let sender = stream::Sender::new(&app, from, shown);
            stream::answer(&app, pending, Source::Endpoint(Box::new(posting), place), sender)
        }
        // Boxed, because most messages go to an inbox and need no room for this.
        Some((to, message)) => answer(&app, Box::pin(post(&app, pending, &to, message)).await),
        None => answer(&app, Box::pin(fail_unreadable(&app, pending)).await),
    })
}

/// Where a message is POSTed, and what; nothing, if the receiver's connection string cannot be read.
fn posting(
    app: &AppState,
    (from, cause): (AgentId, Cause),
    sender: &str,
    pending: &Pending,
    envelope: &RawValue,
    stream: bool,
) -> Result<Option<(To, Signed)>, ApiError> {
    let posting = match pending.transport {
        Transport::Channel => bridge::envelope_post(app, sender, pending, envelope)?,
        Transport::Webhook | Transport::Inbox => Some((
            pending.receiver.endpoint.clone().unwrap_or_default(),
            format!("{{\"envelope\":{}}}", envelope.get()),
        )),
    };
    let Some((url, body)) = posting else { return Ok(None) };
    let secrets = webhooks::signing(&app.config.master_key, &pending.receiver, app.now());
    let message = Signed::new(&secrets, format!("msg_{}", pending.trace), app.now(), body.into(), stream);
    let receiver = &pending.receiver;
    let proven = receiver.proven || pending.transport == Transport::Channel;
    if !proven {
        challenge::ask_again(app, &Handle::current(), receiver.id, url.clone());
    }
    Ok(Some((To { url, receiver: receiver.id, sender: Some(from), cause, proven }, message)))
}

/// Nobody can be reached by a connection string that was sealed with another master key: the sender learns that it failed,
/// the receiver's owner that it is broken and why.
async fn fail_unreadable(app: &App, pending: Pending) -> Outcome {
    let (agent, epoch, now) = (pending.receiver.id, pending.receiver.epoch, app.now());
    let outcome = Outcome {
        delivery: Delivery::Failed,
        receiver_response: None,
        error_code: Some(Code::AgentUnreachable.as_str().into()),
        detail: Some("the receiver's owner must set its connection string again".into()),
        trace_id: Some(pending.trace),
    };
    let broken = app.store.write::<_, StoreError, _>(move |tx: &mut dyn Tx| {
        push::break_connection(tx, agent, epoch, bridge::UNREADABLE_CONNECTION, now)
    });
    if let Err(error) = broken.await {
        tracing::error!(error = &error as &dyn std::error::Error, "a broken connection was not recorded");
    }
    record(app, pending, &outcome).await;
    outcome
}

/// POSTs an envelope whose sender does not wait for the outcome, and records it.
pub(crate) async fn pursue(
    app: AppState,
    (from, sender): (AgentId, String),
    pending: Pending,
    envelope: String,
) {
    let posting = RawValue::from_string(envelope)
        .map_err(ApiError::internal)
        .and_then(|envelope| posting(&app, (from, Cause::Push), &sender, &pending, &envelope, false));
    // It counts for its sender like any other; the hub sends it on its own.
    let place = app.outbound.limits().begin_send(from, Cause::Push);
    match posting {
        Ok(posting) => {
            let outcome = match posting {
                Some((to, message)) => match place {
                    Ok(_held) => post(&app, pending, &to, message).await,
                    Err(limited) => conclude(&app, pending, Err(limited.into())).await,
                },
                None => fail_unreadable(&app, pending).await,
            };
            app.metrics.delivery(outcome.delivery.as_str());
        }
        // The lease runs out and the record says "failed".
        Err(error) => tracing::error!(message = error.message, "an envelope could not be posted"),
    }
}

/// The SSE frame of a message, encoded once, for a reader that is waiting.
fn frame(
    app: &App,
    sender: &Identity,
    receiver: &str,
    command: &relay::Send,
    envelope: &RawValue,
    seq: i64,
    reply_stream: Option<String>,
) -> Result<Bytes, serde_json::Error> {
    let message = InboxMessage {
        trace_id: command.trace,
        sender_id: app.address(&sender.name),
        receiver_id: app.address(receiver),
        created_at: rfc3339(command.now),
        reply_stream,
        envelope: envelope.to_owned(),
    };
    let data = serde_json::to_string(&message)?;
    Ok(sse::encode("message", Some(seq), &data).into())
}

/// Who sends: the sender of the envelope, if the caller may speak for it.
async fn sender(app: &App, caller: Caller, request: &Send) -> Result<Identity, ApiError> {
    let name = request.envelope.sender.local_name(&app.config.host_name).map(str::to_owned);
    if let (Caller::Agent(identity), Some(name)) = (&caller, &name)
        && identity.name.eq_ignore_ascii_case(name)
    {
        return Ok(identity.clone());
    }
    let found = match name {
        Some(name) => {
            app.store.read::<_, StoreError, _>(move |tx: &mut dyn Tx| agents::by_name(tx, &name)).await?
        }
        None => None,
    };
    let found = found.ok_or_else(|| {
        ApiError::new(
            Code::SenderNotRegistered,
            "envelope.sender_id: this sender is not registered with this hub",
        )
    })?;
    match caller {
        Caller::Operator => Ok(Identity { id: found.id, name: found.name }),
        _ => Err(ApiError::new(
            Code::SenderMismatch,
            "envelope.sender_id: an agent can send only as itself; this key belongs to another agent",
        )),
    }
}

fn not_found() -> ApiError {
    ApiError::new(Code::AgentNotFound, "receiver_id: no agent of this address is registered here")
}

fn too_many(app: &App, limited: Limited) -> ApiError {
    app.metrics.rate_limited.inc();
    ApiError::new(Code::RateLimited, limited).retry_after_ms(limited.wait().as_millis() as i64)
}

fn refusal(error: SendError) -> ApiError {
    match error {
        SendError::ReceiverNotFound => not_found(),
        SendError::Blocked => {
            ApiError::new(Code::Forbidden, "receiver_id: this agent does not take messages from you")
        }
        SendError::Conflict => ApiError::new(
            Code::IdempotencyConflict,
            "the same Idempotency-Key or turn was sent before with other content; use a new one for new content",
        ),
        SendError::InProgress => ApiError::new(
            Code::IdempotencyInProgress,
            "the first request with this key or turn is still being delivered; ask again for its outcome",
        )
        .retry_after_ms(1000),
        SendError::Store(error) => error.into(),
    }
}

fn answer(app: &App, outcome: Outcome) -> Response {
    app.metrics.delivery(outcome.delivery.as_str());
    let status = StatusCode::from_u16(relay::status(&outcome)).unwrap_or(StatusCode::OK);
    success(&app, status, outcome)
}

/// The first answer to a request that came again.
fn again(app: &App, first: &Answer) -> Result<Response, ApiError> {
    let data: Box<RawValue> = serde_json::from_str(&first.body).map_err(ApiError::internal)?;
    let status = StatusCode::from_u16(first.status).map_err(ApiError::internal)?;
    let metadata = Metadata { timestamp: rfc3339(app.now()), next: None };
    let mut response = (status, axum::Json(Success { success: true, data, metadata })).into_response();
    response.headers_mut().insert("idempotent-replayed", HeaderValue::from_static("true"));
    Ok(response)
}

/// POSTs an envelope to its receiver's endpoint and records what came of it.
async fn post(app: &App, pending: Pending, to: &To, message: Signed) -> Outcome {
    let posted = app.outbound.post(to, message).await;
    conclude(app, pending, posted).await
}

/// Records what came of a POST.
async fn conclude(app: &App, pending: Pending, posted: Result<Value, PostError>) -> Outcome {
    let mut outcome = Outcome {
        delivery: Delivery::Delivered,
        receiver_response: None,
        error_code: None,
        detail: None,
        trace_id: Some(pending.trace),
    };
    match posted {
        Ok(response) => outcome.receiver_response = Some(response),
        Err(error) => {
            outcome.delivery = Delivery::Failed;
            outcome.error_code = Some(error.code().as_str().into());
            outcome.detail = Some(error.to_string());
        }
    }
    record(app, pending, &outcome).await;
    outcome
}

/// Records an outcome that was not known when the message was committed.
pub(super) async fn record(app: &App, pending: Pending, outcome: &Outcome) {
    let (settled, now, trace) = (outcome.clone(), app.now(), pending.trace);
    let recorded = app.store.write(move |tx: &mut dyn Tx| relay::settle(tx, &pending, &settled, now)).await;
    if let Err(error) = recorded {
        // The receiver has it or has not; that cannot be undone. The lease runs out and the record says "failed".
        tracing::error!(error = &error as &dyn std::error::Error, trace_id = %trace, "an outcome was not recorded");
    }
}
