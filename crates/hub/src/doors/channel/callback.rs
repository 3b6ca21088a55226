//! Callbacks: what agents say about a message they were sent, without a key, at the address that came with it.
//!
//! The address is bound to one delivery, and ends after a day, with the agent's place in the conversation, and with any
//! change of what the agent is reached by. A body is all or nothing: one transaction for all its events.

use super::bodies::CallbackBody;
use crate::doors::api::answers::{
    Conflict, Invalid, Missing, Overloaded, Refused, TooFast, TooLarge, TooSlow,
};
use crate::doors::api::{self, Written};
use crate::doors::body;
use crate::error::{ApiError, OwnFailure};
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use chorus_app::attention;
use chorus_app::caller::{Caller, disabled};
use chorus_app::charge::may_say;
use chorus_app::delivery::push::LEASE_MARGIN_MS;
use chorus_app::relay::pursue;
use chorus_app::secrets::CallbackToken;
use chorus_app::usage::event_bytes;
use chorus_app::{App, AppState};
use chorus_protocol::channel::{CallbackEvent, Lifecycle, MAX_BODY, NDJSON, read_events};
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{AgentId, ConversationId, DeliveryId, EventId};
use chorus_protocol::mentions::mentions;
use chorus_protocol::redact::redact;
use chorus_protocol::relay::{CHORUS_VERSION, Code};
use chorus_protocol::words::{Disposition, EventKind};
use chorus_store::Tx;
use chorus_store::conversation::{self, Act, ConversationError, Post};
use chorus_store::conversations::{self, ConversationKind, Event};
use chorus_store::deliveries::{self, Lease};
use chorus_store::directory::{self, Agent};
use chorus_store::push;
use chorus_store::relay::{self, SendError, Sent};
use serde::Serialize;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::runtime::Handle;

/// How long an address takes events.
const LIFE_MS: i64 = 24 * 60 * 60 * 1000;
/// The longest text of an envelope, in characters.
const MAX_TEXT: usize = 10_000;

/// The events are recorded.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct Recorded {
    /// Always `true`.
    ok: bool,
    /// What they became, in order.
    #[schema(value_type = Vec<String>, example = json!(["evt_0190a3c4d5e67f8090a1b2c3d4e5f607"]))]
    events: Vec<EventId>,
    /// The kinds of credentials that were masked in them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    masked: Vec<&'static str>,
}

/// `GONE`: the address has ended: after 24 h, because the agent left or was unregistered, or its key or connection was replaced
#[derive(utoipa::IntoResponses)]
#[response(status = 410)]
#[expect(dead_code, reason = "describes an answer for the OpenAPI document")]
pub(crate) struct Over(OwnFailure);

/// Say something about a message you were sent
///
/// The path is the `callback` that came with the message. One JSON event, or several as `application/x-ndjson`, which
/// are recorded in order, all or none. A `message` is said in the thread of the message it answers.
#[utoipa::path(post, path = "/channels/{id}/inbox/{token}", tag = "channel",
    params(("id" = String, Path, pattern = "^ch_[0-9a-f]{32}$", description = "The conversation"),
           ("token" = String, Path, pattern = "^tok_[A-Za-z0-9_-]+$", description = "What proves the agent"),
           ("Idempotency-Key" = Option<String>, Header, nullable = false, max_length = 255, pattern = r"^[!-~]([\t -~]*[!-~])?$",
            description = "The same for every retry of the same events")),
    request_body(content((CallbackBody = "application/json"), (String = "application/x-ndjson"))),
    responses((status = 200, description = "Recorded", body = Recorded),
              Invalid, Refused, Missing, Conflict, Over, TooSlow, TooLarge, TooFast, Overloaded))]
pub(crate) async fn callback(
    State(app): State<AppState>,
    Path((id, token)): Path<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let token = app.config.master_key.read_callback_token(&token);
    let (conversation, token) = ConversationId::parse(&id).zip(token).ok_or_else(unknown)?;
    if app.now() >= token.made_at + LIFE_MS {
        return Err(gone("a callback takes events for 24 hours after it was given out"));
    }
    let body = body::read(&app, &headers, body, MAX_BODY).await?;
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let is_ndjson = kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case(NDJSON));
    let events = read_events(is_ndjson, &body)?;
    let messages = events.iter().filter(|event| matches!(event, CallbackEvent::Message { .. })).count();
    let delivery = token.delivery;
    if messages > 0 {
        // Or it would be counted for whatever conversation the path names.
        let answers = move |tx: &mut dyn Tx| answered(tx, delivery, conversation).map(drop);
        app.store.read::<_, ApiError, _>(answers).await?;
        may_say(&app, delivery.agent.into(), conversation, messages as u32)?;
    }
    let turn = Turn {
        // Made here: the transaction may run again.
        events: events.into_iter().map(|event| (EventId(app.environment.uuid_v7()), event)).collect(),
        runtime: Handle::current(),
        now: app.now(),
        app: Arc::clone(&app),
        conversation,
        token,
    };
    let scope = format!("callback {}", token.delivery);
    api::write(&app, &Caller::Nobody, &headers, &scope, &body, move |tx| turn.record(tx)).await
}

/// The agent that may answer at this address, if it is one that we signed.
pub(super) fn agent_of(app: &App, request: &Request) -> Option<AgentId> {
    let token = request.uri().path().rsplit('/').next()?;
    Some(app.config.master_key.read_callback_token(token)?.delivery.agent)
}

fn unknown() -> ApiError {
    ApiError::new(
        Code::NotFound,
        "there is no such callback; post to the one that came with the message, as it is",
    )
}

fn gone(why: &str) -> ApiError {
    ApiError::new(Code::Gone, why)
}

/// The message that a delivery brought, if it was in this conversation.
fn answered(tx: &mut dyn Tx, delivery: DeliveryId, conversation: ConversationId) -> Result<Event, ApiError> {
    let sent = deliveries::event_of(tx, delivery)?.ok_or_else(unknown)?;
    let Some(sent) = conversations::event_by_id(tx, sent)? else {
        return Err(gone("the message this answers is not kept any more"));
    };
    if sent.conversation == conversation { Ok(sent) } else { Err(unknown()) }
}

/// Events on their way into the log.
struct Turn {
    app: AppState,
    runtime: Handle,
    conversation: ConversationId,
    token: CallbackToken,
    events: Vec<(EventId, CallbackEvent)>,
    now: i64,
}

impl Turn {
    fn record(&self, tx: &mut dyn Tx) -> Result<Written, ApiError> {
        let sent = answered(tx, self.token.delivery, self.conversation)?;
        let agent = directory::by_id(tx, self.token.delivery.agent)?;
        let agent = agent.ok_or_else(|| gone("the agent is not registered any more"))?;
        if agent.epoch != self.token.epoch {
            return Err(gone(
                "the agent's key or connection was replaced since; newer messages carry valid callbacks",
            ));
        }
        if agent.disabled_at.is_some() {
            return Err(disabled("agent").into());
        }
        let (events, mut masked) = match sent.kind {
            EventKind::Envelope => (self.answer_envelope(tx, &agent, &sent)?, vec![]),
            EventKind::Message
            | EventKind::Edit
            | EventKind::Delete
            | EventKind::Reaction
            | EventKind::Status
            | EventKind::ToolCall
            | EventKind::ToolResult
            | EventKind::Error
            | EventKind::Lifecycle
            | EventKind::Join
            | EventKind::Leave
            | EventKind::Change
            | EventKind::Artifact
            | EventKind::Foreign => self.say(tx, &agent, &sent)?,
        };
        self.dispose(tx)?;
        masked.sort_unstable();
        masked.dedup();
        Ok((StatusCode::OK, api::value(&Recorded { ok: true, events, masked })?))
    }

    /// What the agent made of the message, as far as its events tell.
    fn dispose(&self, tx: &mut dyn Tx) -> Result<(), ApiError> {
        let id = self.token.delivery;
        for (_, event) in &self.events {
            match event {
                CallbackEvent::Message { .. } => push::dispose(tx, id, Disposition::Responded, self.now)?,
                CallbackEvent::Error { .. } => push::dispose(tx, id, Disposition::Failed, self.now)?,
                CallbackEvent::Lifecycle { status: Lifecycle::Idle } => {
                    push::dispose_unless(tx, id, Disposition::Ignored, self.now)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Into the thread of the message it was sent.
    fn say(
        &self,
        tx: &mut dyn Tx,
        agent: &Agent,
        sent: &Event,
    ) -> Result<(Vec<EventId>, Vec<&'static str>), ApiError> {
        let (conversation, member) =
            conversation::as_reader(tx, self.conversation, agent.id.into()).map_err(left)?;
        if sent.seq <= member.joined_seq {
            return Err(gone("the agent has left this conversation since, and come back"));
        }
        let thread = match conversation.kind {
            ConversationKind::Channel => Some(sent.thread.unwrap_or(sent.id)),
            ConversationKind::Dm => sent.thread,
        };
        let mut masked = vec![];
        let said: Vec<Said> = self
            .events
            .iter()
            .map(|(id, event)| {
                let (author, trace) = (agent.id.into(), sent.trace);
                let act = Act { conversation: self.conversation, author, event: *id, trace, now: self.now };
                let body = body_of(event, &mut masked)?;
                if !matches!(event, CallbackEvent::Message { .. }) {
                    return Ok(Said::Note(act, event.kind(), body.to_string()));
                }
                let text = body["content"].as_str().unwrap_or_default().to_owned();
                let post = Post {
                    body: body.to_string(),
                    mentions: mentions(&text).into_iter().map(str::to_owned).collect(),
                    text,
                    thread,
                    reply_to: Some(sent.id),
                    to: vec![],
                };
                Ok(Said::Message(act, post))
            })
            .collect::<Result<_, ApiError>>()?;
        let messages: Vec<_> = said.iter().filter_map(Said::message).collect();
        if messages.len() > 1 {
            conversation::hold_inboxes(tx, messages, attention::decide_recipients).map_err(left)?;
        }
        let bytes = said.iter().map(|said| event_bytes(said.body().len())).sum();
        self.app.count_bytes(tx, agent.id.into(), bytes)?;
        for said in &said {
            match said {
                Said::Message(act, post) => {
                    conversation::post(tx, act, post, attention::decide_recipients).map(drop)
                }
                Said::Note(act, kind, body) => {
                    conversation::note(tx, act, *kind, thread, Some(sent.id), body).map(drop)
                }
            }
            .map_err(left)?;
        }
        self.app.push_after(tx);
        Ok((self.events.iter().map(|(id, _)| *id).collect(), masked))
    }

    /// Back to the sender of an envelope, as envelopes: what else the agent shows of itself has no place there.
    fn answer_envelope(
        &self,
        tx: &mut dyn Tx,
        agent: &Agent,
        sent: &Event,
    ) -> Result<Vec<EventId>, ApiError> {
        let sender = sent.author.agent().map_or(Ok(None), |id| directory::by_id(tx, id))?;
        let sender = sender.ok_or_else(|| gone("the sender is not registered any more"))?;
        let mut events = vec![];
        for (id, event) in &self.events {
            let CallbackEvent::Message { content } = event else {
                tracing::debug!(kind = event.kind().as_str(), trace_id = %sent.trace, "an agent's event about an envelope");
                continue;
            };
            let length = content.chars().count();
            if length > MAX_TEXT {
                let what = format_args!("must be at most {MAX_TEXT} characters in an envelope, not {length}");
                return Err(Faults::one("content", what).into());
            }
            let envelope = envelope(&self.app, agent, sent, content)?;
            let timeout = self.app.config.webhook_timeout.as_millis() as i64;
            let send = relay::Send {
                sender: agent.id,
                receiver: sender.name.clone(),
                envelope: envelope.clone(),
                event: *id,
                trace: sent.trace,
                keys: vec![],
                turn: None,
                stream: false,
                lease: Lease { owner: self.app.config.node, until: self.now + timeout + LEASE_MARGIN_MS },
                now: self.now,
            };
            let sent = relay::send(tx, &send).map_err(refused)?;
            self.app.count_bytes(tx, agent.id.into(), event_bytes(send.envelope.len()))?;
            if let Sent::Pending(pending) = sent {
                let (app, runtime) = (Arc::clone(&self.app), self.runtime.clone());
                let from = (agent.id, app.address(&agent.name));
                tx.after_commit(Box::new(move || {
                    let work = pursue(Arc::clone(&app), from, pending, envelope);
                    app.tasks.spawn_on(work, &runtime);
                }));
            }
            events.push(*id);
        }
        Ok(events)
    }
}

/// An event as it goes into a conversation.
enum Said {
    Message(Act, Post),
    Note(Act, EventKind, String),
}

impl Said {
    fn body(&self) -> &str {
        match self {
            Self::Message(_, post) => &post.body,
            Self::Note(.., body) => body,
        }
    }

    fn message(&self) -> Option<(&Act, &Post)> {
        match self {
            Self::Message(act, post) => Some((act, post)),
            Self::Note(..) => None,
        }
    }
}

/// Who is no member any more has no callback either.
fn left(error: ConversationError) -> ApiError {
    match error {
        ConversationError::NotFound => gone("the agent is not in this conversation any more"),
        error => error.into(),
    }
}

fn refused(error: SendError) -> ApiError {
    match error {
        SendError::ReceiverNotFound => gone("the sender is not registered any more"),
        SendError::Blocked => {
            ApiError::new(Code::Forbidden, "the sender does not take messages from this agent any more")
        }
        SendError::Store(error) => error.into(),
        // There is no key.
        SendError::Conflict | SendError::InProgress => ApiError::internal(error),
    }
}

/// The agent's answer as the envelope it would have sent.
fn envelope(app: &App, agent: &Agent, sent: &Event, content: &str) -> Result<String, ApiError> {
    let answered: Value = serde_json::from_str(&sent.body).map_err(ApiError::internal)?;
    let card: Value =
        agent.card.as_deref().and_then(|card| serde_json::from_str(card).ok()).unwrap_or_default();
    let culture =
        [&card["user_culture"], &answered["sender_culture"]].into_iter().find(|culture| culture.is_string());
    let mut envelope = json!({
        "chorus_version": CHORUS_VERSION,
        "sender_id": app.address(&agent.name),
        "original_text": content,
        "sender_culture": culture,
    });
    if let Some(conversation) = answered.get("conversation_id").filter(|id| id.is_string()) {
        envelope["conversation_id"] = conversation.clone();
    }
    Ok(envelope.to_string())
}

/// An event as the log keeps it: its kind is told elsewhere, its credentials nowhere.
fn body_of(event: &CallbackEvent, all: &mut Vec<&'static str>) -> Result<Value, ApiError> {
    let (mut body, mut masked) = (api::value(event)?, vec![]);
    mask(&mut body, &mut masked);
    if let Value::Object(body) = &mut body {
        body.remove("type");
        if !masked.is_empty() {
            body.insert("masked".into(), json!(masked));
        }
    }
    all.extend(masked);
    Ok(body)
}

/// Masks the credentials in all texts of a value.
fn mask(value: &mut Value, masked: &mut Vec<&'static str>) {
    match value {
        Value::String(text) => {
            if let Some(redacted) = redact(text) {
                *text = redacted.text;
                masked.extend(redacted.masked);
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| mask(value, masked)),
        Value::Object(members) => members.values_mut().for_each(|value| mask(value, masked)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_masked_wherever_they_stand() {
        let key = "ca_0123456789abcdef0123456789abcdef";
        let mut value =
            json!({"args": {"list": [1, format!("key {key}"), null], "deep": {"x": key}}, "id": "tc_1"});
        let mut masked = vec![];
        mask(&mut value, &mut masked);
        assert!(!value.to_string().contains("0123"), "{value}");
        assert_eq!(masked, ["agent key", "agent key"]);
        assert_eq!(value["id"], "tc_1");
    }
}
