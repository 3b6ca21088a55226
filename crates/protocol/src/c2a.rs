//! C2A: the Chat-to-Agents Protocol of 2026-06-02. What params and results hold; the frames around them are JSON-RPC's.
//!
//! `initialize` is how two begin, `event` what was said, `deliver` how it is brought to an agent, `notices` what either
//! tells the other, `calling` how tools are called, `tools` what the chat tools take and `results` what they give,
//! `spelling` the same words in snake_case.
//!
//! Host and harness use the same types, each checked and described from one definition ([`crate::schema`]). What we
//! write is what our documents say. Reading is lenient where the document leaves things open: ids are any text, only what
//! it requires is required, and members nobody knows are ignored. How large a frame may be is the door's decision;
//! every text and list inside it is bounded here. Who may do what, and what follows from an event, is decided elsewhere.

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

/// The code of the JSON-RPC error that a call gets before `initialize`.
pub const NOT_INITIALIZED: i64 = -32002;

words! {
    /// What one end asks of the other, or tells it.
    pub enum Method {
        /// The harness begins.
        Initialize = "initialize",
        /// The host brings an event.
        Deliver = "chat/deliver",
        /// The harness asks which tools there are.
        ListTools = "tools/list",
        /// The harness calls one.
        CallTool = "tools/call",
        /// The harness tells which events entered a model's turn.
        Injected = "notifications/injected",
        /// The harness tells what it made of an event.
        Disposition = "notifications/disposition",
        /// The harness tells how far it came.
        Progress = "notifications/progress",
        /// Either tells that something is not wanted any more.
        Cancelled = "notifications/cancelled",
        /// Either tells that somebody types.
        Typing = "notifications/typing",
        /// The harness logs something.
        Log = "notifications/message",
    }
}

/// An id as it stands on the wire. Ours are those of [`crate::ids`]; another host's may be any text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[schema(min_length = 1, max_length = 256, example = "evt_0190a3c4d5e67f8090a1b2c3d4e5f607")]
pub struct WireId(pub String);

impl WireId {
    /// The event of this hub it names, if it is such an id.
    pub fn event(&self) -> Option<EventId> {
        EventId::parse(&self.0)
    }

    /// The conversation of this hub it names, if it is such an id.
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

/// What is the same each time something is sent again.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[schema(min_length = 1, max_length = 255, example = "evt_123:agent_lead")]
pub struct IdempotencyKey(pub String);

impl IdempotencyKey {
    /// The key of an event's deliveries to one agent.
    pub fn of_delivery(event: EventId, agent: AgentId) -> Self {
        Self(format!("{event}:{agent}"))
    }
}

/// Where to go on in a list: `next` of the page before, which says nothing to whoever reads it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(min_length = 1, max_length = 256)]
pub struct Cursor(pub String);

/// A time, as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Time {
    text: String,
    ms: i64,
}

impl Time {
    /// This time, in our own spelling.
    pub fn at(ms: i64) -> Self {
        Self { text: rfc3339(ms), ms }
    }

    /// In milliseconds since 1970.
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

/// The schema of an object that has the members of several: `serde`'s `flatten`, as [`crate::schema`] understands it.
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
