//! C2A: the Chat-to-Agents Protocol of 2026-06-02. This module defines params and results; JSON-RPC defines
//! the frames around them.
//!
//! `initialize` holds the handshake, `event` the wire form of events, `deliver` their delivery, `notices` the
//! notifications of both sides, `calling` tool calls, `tools` the arguments of the chat tools, `results` their
//! results, and `spelling` the same words in snake_case.
//!
//! Host and harness share these types. Each type is validated and documented from one definition
//! ([`crate::schema`]). Output follows the protocol document exactly. Input is lenient where the document
//! leaves room: ids are any text, only required members are required, and unknown members are ignored. The
//! door limits the size of a frame; this module limits every text and list inside it. Authorization and
//! attention are decided elsewhere.

mod calling;
mod deliver;
mod event;
mod initialize;
mod notices;
mod results;
mod spelling;
#[cfg(test)]
mod tests;
mod tools;

pub use calling::{Refusal, RefusalCode, ToolCall, ToolFailure, ToolHints, ToolInfo, ToolList, ToolResult};
pub use deliver::{Accepted, AcceptedStatus, Delivery, Exposure, Knock, Reliability, ShownMode};
pub use event::{
    Addressee, Attention, Author, Content, Conversation, Event, Header, Part, Source, Target, Timing,
};
pub use initialize::{
    Capabilities, ChatToolCapabilities, DeliveryCapabilities, Glyphs, Initialize, InitializeResult,
    InjectionCapabilities, PROTOCOL_VERSION, PROTOCOL_VERSIONS, Program, Resume, TAKEN_OVER,
    UtilityCapabilities, default_glyph, negotiate_version,
};
pub use notices::{Cancelled, Disposed, Injected, LogLevel, LogMessage, Progress, Typing};
pub use results::{Claimed, EventPage, Reached, Recorded, Sent};
pub use spelling::{Snake, snake, to_snake};
pub use tools::{
    CLAIM_TTL_MS, Call, CallFault, ChatTool, Claim, Defer, Destination, ListEvents, React, ReadThread,
    Resolve, SendMessage, Spelling, read_as,
};

use crate::ids::{AgentId, ConversationId, EventId, Principal};
use crate::time::{parse_rfc3339, rfc3339};
use crate::words::words;
use serde::{Deserialize, Serialize};
use std::fmt;
use utoipa::ToSchema;
use utoipa::openapi::schema::{ObjectBuilder, Schema};
use utoipa::openapi::{RefOr, Type};

/// The JSON-RPC error code for a call made before `initialize`.
pub const NOT_INITIALIZED: i64 = -32002;

words! {
    /// The methods and notifications of C2A.
    pub enum Method {
        /// Starts the session. Sent by the harness.
        Initialize = "initialize",
        /// Delivers an event. Sent by the host.
        Deliver = "chat/deliver",
        /// Lists the available tools. Sent by the harness.
        ListTools = "tools/list",
        /// Calls a tool. Sent by the harness.
        CallTool = "tools/call",
        /// Reports which events entered a model's turn. Sent by the harness.
        Injected = "notifications/injected",
        /// Reports the disposition of an event. Sent by the harness.
        Disposition = "notifications/disposition",
        /// Reports progress. Sent by the harness.
        Progress = "notifications/progress",
        /// Cancels a request or a delivery. Sent by either side.
        Cancelled = "notifications/cancelled",
        /// Shows that someone is typing. Sent by either side.
        Typing = "notifications/typing",
        /// Writes a log entry. Sent by the harness.
        Log = "notifications/message",
    }
}

/// An id as written on the wire. The hub's ids are those of [`crate::ids`]; other hosts may use any text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[schema(min_length = 1, max_length = 256, example = "evt_0190a3c4d5e67f8090a1b2c3d4e5f607")]
pub struct WireId(pub String);

impl WireId {
    /// Returns the id of the event of this hub, or `None` if the text is no such id.
    pub fn event(&self) -> Option<EventId> {
        EventId::parse(&self.0)
    }

    /// Returns the id of the conversation of this hub, or `None` if the text is no such id.
    pub fn conversation(&self) -> Option<ConversationId> {
        ConversationId::parse(&self.0)
    }
}

impl From<EventId> for WireId {
    fn from(id: EventId) -> Self {
        Self(id.to_string())
    }
}

impl From<ConversationId> for WireId {
    fn from(id: ConversationId) -> Self {
        Self(id.to_string())
    }
}

impl From<Principal> for WireId {
    fn from(id: Principal) -> Self {
        Self(id.to_string())
    }
}

impl fmt::Display for WireId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A key that stays the same when a request is retried, so that it takes effect once.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[schema(min_length = 1, max_length = 255, example = "evt_123:agent_lead")]
pub struct IdempotencyKey(pub String);

impl IdempotencyKey {
    /// Returns the key shared by all deliveries of an event to one agent.
    pub fn of_delivery(event: EventId, agent: AgentId) -> Self {
        Self(format!("{event}:{agent}"))
    }
}

/// An opaque cursor: the `next` value of the previous page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(min_length = 1, max_length = 256)]
pub struct Cursor(pub String);

/// An RFC 3339 time that keeps its original spelling.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Time {
    text: String,
    ms: i64,
}

impl Time {
    /// Creates a time from milliseconds since 1970, in the hub's spelling.
    pub fn at(ms: i64) -> Self {
        Self { text: rfc3339(ms), ms }
    }

    /// Returns the time in milliseconds since 1970.
    pub fn ms(&self) -> i64 {
        self.ms
    }
}

impl TryFrom<String> for Time {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let ms = parse_rfc3339(&text).ok_or("there is no such time")?;
        Ok(Self { text, ms })
    }
}

impl From<Time> for String {
    fn from(time: Time) -> Self {
        time.text
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl ToSchema for Time {}

impl utoipa::PartialSchema for Time {
    fn schema() -> RefOr<Schema> {
        let (date, time) =
            (r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])", r"([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)");
        ObjectBuilder::new()
            .schema_type(Type::String)
            .title(Some("an RFC 3339 time such as 2026-06-02T19:10:00Z"))
            .max_length(Some(40))
            .pattern(Some(format!(r"^{date}[Tt ]{time}(\.\d{{1,9}})?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)$")))
            .into()
    }
}

/// Merges object schemas into one with the members of all, as `serde`'s `flatten` does, in a form that
/// [`crate::schema`] understands.
fn merged(schemas: impl IntoIterator<Item = RefOr<Schema>>) -> RefOr<Schema> {
    let mut whole = ObjectBuilder::new().schema_type(Type::Object).build();
    for schema in schemas {
        if let RefOr::T(Schema::Object(part)) = schema {
            whole.properties.extend(part.properties);
            whole.required.extend(part.required);
        }
    }
    whole.into()
}
