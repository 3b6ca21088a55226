//! What the relay answers, and what it sends by SSE. All of it both ways: the hub writes it, clients read it.

use super::CHORUS_VERSION;
use crate::ids::{AgentId, TraceId};
use crate::words::{DeliveryState, EntryKind, Word, words};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::fmt;

words! {
    /// How far a sent envelope came.
    pub enum EnvelopeRung {
        /// It is committed.
        Stored = "stored",
        /// The receiver's connection was given it.
        Handed = "handed",
        /// The receiver's endpoint took it.
        Delivered = "delivered",
        /// It did not arrive.
        Failed = "failed",
    }

    /// By which way a message came to its receiver.
    pub enum DeliveredVia {
        /// By its open inbox.
        Sse = "sse",
        /// Its harness was called.
        Harness = "harness",
        /// Its webhook was called.
        Webhook = "webhook",
        /// Its connection string was called.
        Channel = "channel",
        /// By none yet: it waits until it is handed.
        Queued = "queued",
    }
}

/// The common format of a success.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Success<T> {
    /// Always `true`.
    pub success: bool,
    /// What was asked for.
    pub data: T,
    /// When, and what else is worth saying.
    pub metadata: Metadata,
}

/// The common format of a failure.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Failure {
    /// Always `false`.
    pub success: bool,
    /// What went wrong.
    pub error: ErrorBody,
    /// When.
    pub metadata: Metadata,
}

/// A stable code and a sentence for a person.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ErrorBody {
    /// One of the transport's codes, such as `ERR_VALIDATION`.
    pub code: String,
    /// What is wrong, and what to do about it.
    pub message: String,
}

/// Beside every answer.
#[derive(Debug, Clone, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Metadata {
    /// RFC 3339, UTC, milliseconds.
    pub timestamp: String,
    /// Where the next page of a list begins; absent on the last page and on everything else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// One agent in the directory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Registration {
    // A hub that goes by the document alone says neither this, nor who is online, nor what changed when.
    /// The agent's own id, which outlives its address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(required, value_type = String, format = "uuid")]
    pub id: Option<AgentId>,
    /// Its address, `name@host`.
    pub agent_id: String,
    /// Where it receives; shown to callers with a key only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// What it says of itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_card: Option<Value>,
    /// Whether its inbox is open now.
    #[serde(default)]
    #[schema(required, value_type = bool)]
    pub online: Option<bool>,
    /// When the address was first registered.
    #[serde(default)]
    #[schema(required)]
    pub registered_at: String,
    /// When the record last changed.
    #[serde(default)]
    #[schema(required)]
    pub updated_at: String,
}

/// What ties a message to everything it causes. Ours are [`TraceId`]s; another hub's may be any text, or nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trace(pub String);

impl From<TraceId> for Trace {
    fn from(id: TraceId) -> Self {
        Self(id.to_string())
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The answer to unregistering.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Unregistered {
    /// Who.
    pub agent_id: String,
    /// Whether there was something to remove.
    pub removed: bool,
}

/// The answer to a registration. It holds secrets, so it has no `Debug`.
#[derive(Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Registered {
    /// The address, as the hub spells it.
    pub agent_id: String,
    /// The agent's key, shown this once; absent when an operator updates an agent that has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key: Option<String>,
    /// With which requests to the endpoint are signed (Standard Webhooks); absent without an endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook_secret: Option<String>,
    /// Whether the endpoint has echoed the hub's challenge, where it must before anything else is sent to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint_proven: Option<bool>,
    /// The record.
    pub registration: Registration,
}

/// The outcome of a send.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Outcome {
    /// What became of it.
    pub delivery: DeliveryState,
    /// What the receiver's endpoint answered, whatever it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receiver_response: Option<Value>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    /// The same for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// What ties this message to everything it causes. A hub that goes by the document alone sends none.
    #[schema(value_type = Option<String>)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<Trace>,
}

/// SSE event `connected`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Connected {
    /// Whose inbox this is; nothing, where a stream is a conversation's.
    #[serde(default)]
    pub agent_id: String,
    /// Messages after this id follow. A hub that goes by the document alone does not say so.
    #[serde(default)]
    pub after: Option<i64>,
}

/// SSE event `message`: an envelope and where it came from.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct InboxMessage {
    /// What ties this message to everything it causes.
    #[serde(default)]
    #[schema(required, value_type = String)]
    pub trace_id: Trace,
    /// Who sent it, as the hub knows it.
    pub sender_id: String,
    // A hub that goes by the document alone says neither this nor when.
    /// Whom it is for.
    #[serde(default)]
    #[schema(required)]
    pub receiver_id: String,
    /// When the hub committed it.
    #[serde(default)]
    #[schema(required)]
    pub created_at: String,
    /// The same, under the name that clients of the document's origin look for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(required)]
    pub timestamp: String,
    /// Where the receiver may POST its answer as it is made, because the sender wants to see it so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_stream: Option<String>,
    /// The envelope as it was received.
    #[schema(value_type = Object)]
    pub envelope: Box<RawValue>,
}

/// The kind of what has none: a hub that knows only envelopes sends no other.
fn message() -> Word<EntryKind> {
    EntryKind::Message.into()
}

/// One message of `GET /agent/messages`.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct StoredMessage {
    /// Its place in the inbox; the same as the SSE `id`, and a valid `after`.
    pub id: String,
    /// What ties this message to everything it causes.
    #[serde(default)]
    #[schema(required, value_type = String)]
    pub trace_id: Trace,
    /// Which SSE event it is: `message` (an envelope), `chat` (said in a channel), `channel` (another service's message).
    #[serde(default = "message")]
    #[schema(value_type = String)]
    pub kind: Word<EntryKind>,
    /// Who sent it, if an agent of this hub did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender_id: Option<String>,
    /// Whom it is for.
    pub receiver_id: String,
    /// The envelope as it was received, if it is one.
    #[schema(value_type = Option<Object>)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub envelope: Option<Box<RawValue>>,
    /// The data of the SSE event, if it is no envelope.
    #[schema(value_type = Option<Object>)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Box<RawValue>>,
    /// What became of it.
    pub delivery: DeliveryState,
    /// By which way it came, or waits to.
    #[serde(default)]
    #[schema(required, value_type = DeliveredVia)]
    pub delivered_via: Word<DeliveredVia>,
    /// When the hub committed it.
    #[serde(default)]
    #[schema(required)]
    pub created_at: String,
    /// The same, under the name that clients of the document's origin look for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(required)]
    pub timestamp: String,
}

/// A page of `GET /agent/messages`, in inbox order, as a client keeps it: `next` comes in `metadata`.
#[derive(Debug)]
pub struct Page {
    /// In inbox order.
    pub messages: Vec<StoredMessage>,
    /// The `after` of the next page; nothing on the last.
    pub next: Option<String>,
}

impl Page {
    /// Reads the `data` of an answer and `next` of its metadata. Hubs before this one put both into an object.
    pub fn read(data: &RawValue, next: Option<String>) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct Former {
            messages: Vec<StoredMessage>,
            next: Option<String>,
        }
        if data.get().starts_with('[') {
            return Ok(Self { messages: serde_json::from_str(data.get())?, next });
        }
        let Former { messages, next } = serde_json::from_str(data.get())?;
        Ok(Self { messages, next })
    }
}

/// The answer to `POST /agent/session`. It holds a secret, so it has no `Debug`.
#[derive(Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct InboxSession {
    /// For `GET /agent/inbox?session=…`, and for nothing else.
    pub session_token: String,
    /// How long a stream may be opened with it. One that is open goes on.
    pub expires_in_seconds: i64,
}

/// What became of an envelope, for its sender. It holds nothing of its content.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SentMessage {
    /// What ties this message to everything it causes.
    #[schema(value_type = String)]
    pub trace_id: TraceId,
    /// Who sent it.
    pub sender_id: String,
    /// Whom it is for.
    pub receiver_id: String,
    /// How it stands now.
    pub delivery: DeliveryState,
    /// How far it came, one rung after the other.
    pub rungs: Vec<SentRung>,
    /// When the hub committed it.
    pub timestamp: String,
}

/// One rung that a sent envelope has reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SentRung {
    /// Which.
    #[schema(value_type = EnvelopeRung)]
    pub rung: Word<EnvelopeRung>,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// SSE event `gap`: history that was asked for is gone.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Gap {
    /// What was asked for.
    pub after: i64,
    /// The oldest id there still is.
    pub oldest: i64,
}

/// What a receiver's endpoint answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiverReply {
    /// Whether it took the envelope.
    pub status: ReceiverStatus,
    /// `INVALID_ENVELOPE`, `UNSUPPORTED_VERSION` or `ADAPTATION_FAILED`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    /// The same for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// Whether a receiver took an envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReceiverStatus {
    /// It did.
    Ok,
    /// It did not.
    Error,
}

/// The answer to a reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Replied {
    /// Always `ok`.
    pub status: String,
}

/// `GET /.well-known/chorus.json`, the one answer outside the common format.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Discovery {
    /// Version of the envelopes it takes.
    pub chorus_version: String,
    /// What the hub calls itself.
    pub server_name: String,
    /// Where things are.
    pub endpoints: Endpoints,
}

/// Paths of the operations. The first four are the document's, the others ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Endpoints {
    /// Register by an operator.
    pub register: String,
    /// The directory.
    pub discover: String,
    /// Send.
    pub send: String,
    /// Health.
    pub health: String,
    /// Register oneself.
    #[serde(default = "defaults::self_register")]
    pub self_register: String,
    /// The inbox stream.
    #[serde(default = "defaults::inbox")]
    pub inbox: String,
    /// The inbox by cursor.
    #[serde(default = "defaults::messages")]
    pub messages: String,
    /// What became of sent messages.
    #[serde(default = "defaults::sent")]
    pub sent: String,
}

mod defaults {
    pub(super) fn self_register() -> String {
        "/register".into()
    }
    pub(super) fn inbox() -> String {
        "/agent/inbox".into()
    }
    pub(super) fn messages() -> String {
        "/agent/messages".into()
    }
    pub(super) fn sent() -> String {
        "/agent/sent".into()
    }
}

impl Default for Endpoints {
    fn default() -> Self {
        Self {
            register: "/agents".into(),
            discover: "/agents".into(),
            send: "/messages".into(),
            health: "/health".into(),
            self_register: defaults::self_register(),
            inbox: defaults::inbox(),
            messages: defaults::messages(),
            sent: defaults::sent(),
        }
    }
}

impl Discovery {
    /// The document of a hub of this name.
    pub fn new(server_name: &str) -> Self {
        Self {
            chorus_version: CHORUS_VERSION.into(),
            server_name: server_name.into(),
            endpoints: Endpoints::default(),
        }
    }
}

#[cfg(test)]
mod tests;
