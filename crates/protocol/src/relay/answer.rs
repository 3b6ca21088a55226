//! Responses and server-sent events of the relay. The hub writes these types and clients read them.

use super::CHORUS_VERSION;
use crate::ids::{AgentId, TraceId};
use crate::words::{DeliveryState, EntryKind, Word, words};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::fmt;

words! {
    /// A step in the progress of a sent envelope.
    pub enum EnvelopeRung {
        /// The envelope is committed.
        Stored = "stored",
        /// The envelope was sent to the recipient's connection.
        Handed = "handed",
        /// The recipient's endpoint accepted the envelope.
        Delivered = "delivered",
        Failed = "failed",
    }

    /// The way in which a message reached its recipient.
    pub enum DeliveredVia {
        /// Through its open inbox stream.
        Sse = "sse",
        /// By a call of its harness.
        Harness = "harness",
        /// By a call of its webhook.
        Webhook = "webhook",
        /// By a call of its connection string.
        Channel = "channel",
        /// Not yet: the message waits.
        Queued = "queued",
    }
}

/// The common format of a success.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Success<T> {
    /// Always `true`.
    pub success: bool,
    /// The result.
    pub data: T,
    /// The time, and the cursor of the next page.
    pub metadata: Metadata,
}

/// The common format of a failure.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Failure {
    /// Always `false`.
    pub success: bool,
    /// The error.
    pub error: ErrorBody,
    /// The time.
    pub metadata: Metadata,
}

/// An error code with a message.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ErrorBody {
    /// A code of the transport document, such as `ERR_VALIDATION`.
    pub code: String,
    /// The problem and the remedy, for a person.
    pub message: String,
}

/// The metadata of every response.
#[derive(Debug, Clone, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Metadata {
    /// The time of the response (RFC 3339, UTC, with milliseconds).
    pub timestamp: String,
    /// The cursor of the next page of a list; absent on the last page and in all other responses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// An agent in the directory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Registration {
    // Hubs that follow only the transport document omit `id`, `online` and the times.
    /// The agent's permanent id, which outlives its address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(required, value_type = String, format = "uuid")]
    pub id: Option<AgentId>,
    /// The agent's address, `name@host`.
    pub agent_id: String,
    /// The agent's endpoint. Visible to callers with a key only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// The agent card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_card: Option<Value>,
    /// `true` if the agent's inbox stream is open.
    #[serde(default)]
    #[schema(required, value_type = bool)]
    pub online: Option<bool>,
    /// The time of the first registration of the address.
    #[serde(default)]
    #[schema(required)]
    pub registered_at: String,
    /// The time of the last change.
    #[serde(default)]
    #[schema(required)]
    pub updated_at: String,
}

/// A trace id as text. The hub's own are [`TraceId`]s; other hubs may send any text or none.
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

/// The response to unregistering.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Unregistered {
    /// The agent's address.
    pub agent_id: String,
    /// `true` if there was a registration to remove.
    pub removed: bool,
}

/// The response to a registration. It holds secrets and therefore has no `Debug`.
#[derive(Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Registered {
    /// The address as the hub spells it.
    pub agent_id: String,
    /// The agent's key, shown once; absent if an operator updates an agent that has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key: Option<String>,
    /// The secret that signs requests to the endpoint (Standard Webhooks); absent without an endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook_secret: Option<String>,
    /// `true` if the endpoint has echoed the hub's challenge, `false` if it must still do so; absent if no
    /// challenge is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint_proven: Option<bool>,
    /// The registration.
    pub registration: Registration,
}

/// The outcome of a send.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Outcome {
    /// The state of the delivery.
    pub delivery: DeliveryState,
    /// The response of the recipient's endpoint, unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receiver_response: Option<Value>,
    /// The error code of a failed delivery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    /// The error message of a failed delivery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The trace id shared by everything this message causes. Hubs that follow only the transport document
    /// send none.
    #[schema(value_type = Option<String>)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<Trace>,
}

/// The server-sent event `connected`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Connected {
    /// The address of the inbox's agent; empty if the stream is that of a conversation.
    #[serde(default)]
    pub agent_id: String,
    /// The id after which the stream begins. Hubs that follow only the transport document omit it.
    #[serde(default)]
    pub after: Option<i64>,
}

/// The server-sent event `message`: an envelope with its origin.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct InboxMessage {
    /// The trace id shared by everything this message causes.
    #[serde(default)]
    #[schema(required, value_type = String)]
    pub trace_id: Trace,
    /// The sender, as authenticated by the hub.
    pub sender_id: String,
    // Hubs that follow only the transport document omit the recipient and the times.
    /// The address of the recipient.
    #[serde(default)]
    #[schema(required)]
    pub receiver_id: String,
    /// The time at which the hub committed the message.
    #[serde(default)]
    #[schema(required)]
    pub created_at: String,
    /// The same time under the name that clients of the original protocol expect.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(required)]
    pub timestamp: String,
    /// The URL to which the recipient may POST its answer as it is produced; present if the sender requested a
    /// stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_stream: Option<String>,
    /// The envelope as received.
    #[schema(value_type = Object)]
    pub envelope: Box<RawValue>,
}

/// Returns the kind of entries without one; hubs that support only envelopes send no kind.
fn message() -> Word<EntryKind> {
    EntryKind::Message.into()
}

/// A message of `GET /agent/messages`.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct StoredMessage {
    /// The position in the inbox: equal to the server-sent event's `id`, and valid as `after`.
    pub id: String,
    /// The trace id shared by everything this message causes.
    #[serde(default)]
    #[schema(required, value_type = String)]
    pub trace_id: Trace,
    /// The name of the server-sent event: `message` (an envelope), `chat` (an event in a conversation) or
    /// `channel` (another service's message).
    #[serde(default = "message")]
    #[schema(value_type = String)]
    pub kind: Word<EntryKind>,
    /// The sender, if it is an agent of this hub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender_id: Option<String>,
    /// The address of the recipient.
    pub receiver_id: String,
    /// The envelope as received, for kind `message`.
    #[schema(value_type = Option<Object>)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub envelope: Option<Box<RawValue>>,
    /// The data of the server-sent event, for all other kinds.
    #[schema(value_type = Option<Object>)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Box<RawValue>>,
    /// The state of the delivery.
    pub delivery: DeliveryState,
    /// The way in which it reached the recipient, or `queued`.
    #[serde(default)]
    #[schema(required, value_type = DeliveredVia)]
    pub delivered_via: Word<DeliveredVia>,
    /// The time at which the hub committed the message.
    #[serde(default)]
    #[schema(required)]
    pub created_at: String,
    /// The same time under the name that clients of the original protocol expect.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(required)]
    pub timestamp: String,
}

/// A page of `GET /agent/messages` for clients, with `next` taken from `metadata`.
#[derive(Debug)]
pub struct Page {
    /// The messages, in inbox order.
    pub messages: Vec<StoredMessage>,
    /// The cursor of the next page; `None` on the last page.
    pub next: Option<String>,
}

impl Page {
    /// Reads the `data` of a response and `next` of its metadata. Earlier hubs put both into one object.
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

/// The response to `POST /agent/session`. It holds a secret and therefore has no `Debug`.
#[derive(Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct InboxSession {
    /// The token for `GET /agent/inbox?session=…`. It grants nothing else.
    pub session_token: String,
    /// The time, in seconds, in which a stream can be opened with the token. An open stream continues.
    pub expires_in_seconds: i64,
}

/// The state of a sent envelope, for its sender. It holds nothing of the content.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SentMessage {
    /// The trace id of the message.
    #[schema(value_type = String)]
    pub trace_id: TraceId,
    /// The address of the sender.
    pub sender_id: String,
    /// The address of the recipient.
    pub receiver_id: String,
    /// The current state of the delivery.
    pub delivery: DeliveryState,
    /// The steps reached so far, in order.
    pub rungs: Vec<SentRung>,
    /// The time at which the hub committed the message.
    pub timestamp: String,
}

/// A step that a sent envelope has reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SentRung {
    /// The step.
    #[schema(value_type = EnvelopeRung)]
    pub rung: Word<EnvelopeRung>,
    /// The time of the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// The reason for a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The server-sent event `gap`: part of the requested history no longer exists.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Gap {
    /// The requested position.
    pub after: i64,
    /// The oldest id that still exists.
    pub oldest: i64,
}

/// The response of a recipient's endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiverReply {
    /// The status, `ok` or `error`.
    pub status: ReceiverStatus,
    /// The error code: `INVALID_ENVELOPE`, `UNSUPPORTED_VERSION` or `ADAPTATION_FAILED`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    /// The error message for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// The status of a recipient's response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReceiverStatus {
    /// The recipient accepted the envelope.
    Ok,
    /// The recipient rejected the envelope.
    Error,
}

/// The response to a reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Replied {
    /// Always `ok`.
    pub status: String,
}

/// The response of `GET /.well-known/chorus.json`, which does not use the common format.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Discovery {
    /// The version of the envelopes that the hub accepts.
    pub chorus_version: String,
    /// The name of the hub.
    pub server_name: String,
    /// The paths of the hub's operations.
    pub endpoints: Endpoints,
}

/// The paths of the hub's operations. The first four are those of the transport document, the others are
/// extensions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Endpoints {
    /// Registration by an operator.
    pub register: String,
    /// The agent directory.
    pub discover: String,
    /// Sending a message.
    pub send: String,
    /// The health report.
    pub health: String,
    /// Self-registration of an agent.
    #[serde(default = "defaults::self_register")]
    pub self_register: String,
    /// The inbox stream.
    #[serde(default = "defaults::inbox")]
    pub inbox: String,
    /// The inbox in pages.
    #[serde(default = "defaults::messages")]
    pub messages: String,
    /// The state of sent messages.
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
    /// Creates the discovery document of a hub with this name.
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
