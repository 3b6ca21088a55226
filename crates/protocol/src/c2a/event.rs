//! What was said, as C2A shows it: the members that every event has, and its content.

use super::{Glyphs, Time, WireId, merged};
use crate::attention;
use crate::ids::{ConversationId, EventId};
use crate::words::{
    AuthorKind, ConversationKind, Directedness, Disposition, Intent, Policy, Priority, Reason,
    WireConversationKind,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;
use utoipa::{PartialSchema, ToSchema};

/// What every event has, whatever of it an agent is shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// Its id, the same each time it comes.
    pub event_id: WireId,
    /// Where it comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// Where it was said.
    pub conversation: Conversation,
    /// Who said it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<Author>,
    /// At whom it is aimed.
    pub target: Target,
    /// When.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timing: Option<Timing>,
    /// What the agent is to do about it.
    pub attention: Attention,
    /// The event it takes the place of: what that said was edited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supersedes: Option<WireId>,
    /// The event it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_reply_to: Option<WireId>,
    /// What the agent made of it, if it did already.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disposition: Option<Disposition>,
}

/// Where an event comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = C2aSource)]
#[serde(rename_all = "camelCase")]
pub struct Source {
    /// What carries the chat.
    #[schema(min_length = 1, max_length = 256, example = "chorus")]
    pub platform: String,
    /// Which of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 256)]
    pub workspace_id: Option<String>,
}

impl Source {
    /// A hub of ours, by its host.
    pub fn hub(host: &str) -> Self {
        Self { platform: "chorus".into(), workspace_id: Some(host.into()) }
    }
}

/// Where an event was said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = C2aConversation)]
#[serde(rename_all = "camelCase")]
pub struct Conversation {
    /// Its id. What the hub says itself may have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<WireId>,
    /// What it is.
    pub kind: WireConversationKind,
    /// The work stream it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream_id: Option<WireId>,
    /// The thread in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<WireId>,
    /// What people call it. The document has no such member; whoever does not know it loses nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How signals are shown there, if that is not as `initialize` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub glyphs: Option<Glyphs>,
}

impl Conversation {
    /// A conversation of ours, or a thread of it by the message that began it.
    pub fn new(id: ConversationId, kind: ConversationKind, thread: Option<EventId>) -> Self {
        let kind = match kind {
            _ if thread.is_some() => WireConversationKind::Thread,
            ConversationKind::Dm => WireConversationKind::Dm,
            ConversationKind::Channel => WireConversationKind::Channel,
        };
        let thread_id = thread.map(Into::into);
        Self { id: Some(id.into()), kind, stream_id: None, thread_id, name: None, glyphs: None }
    }
}

/// Who said something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = C2aAuthor)]
#[serde(rename_all = "camelCase")]
pub struct Author {
    /// The id of a person or an agent. The hub itself has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<WireId>,
    /// What it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<AuthorKind>,
    /// What it is called.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 256)]
    pub display_name: Option<String>,
}

/// Somebody or some role: `agent:`, `human:` or `role:` and the handle; another host's may be any text.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[schema(min_length = 1, max_length = 256, example = "agent:lead")]
pub struct Addressee(pub String);

impl Addressee {
    /// An agent, by its handle.
    pub fn agent(handle: impl fmt::Display) -> Self {
        Self(format!("agent:{handle}"))
    }

    /// A person, by its handle.
    pub fn human(handle: impl fmt::Display) -> Self {
        Self(format!("human:{handle}"))
    }

    /// A role, by its name.
    pub fn role(name: impl fmt::Display) -> Self {
        Self(format!("role:{name}"))
    }

    /// What it is called, without what it is.
    pub fn handle(&self) -> &str {
        let known = ["agent:", "human:", "role:"];
        known.iter().find_map(|prefix| self.0.strip_prefix(prefix)).unwrap_or(&self.0)
    }
}

/// At whom an event is aimed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = C2aTarget)]
pub struct Target {
    /// Whom it names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(nullable, max_items = 100)]
    pub mentions: Vec<Addressee>,
    /// For whom it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recipient: Option<Addressee>,
    /// At whom, seen from the agent that gets it.
    pub directedness: Directedness,
}

/// When something was said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = C2aTiming)]
#[serde(rename_all = "camelCase")]
pub struct Timing {
    /// The time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Time>,
    /// Its place in the conversation; digests and envelopes have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub sequence: Option<i64>,
}

/// What an agent is to do about an event, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = C2aAttention)]
#[serde(rename_all = "camelCase")]
pub struct Attention {
    /// Whether it must, may or must not answer.
    pub policy: Policy,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// What the message is meant as, where its author said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intent: Option<Intent>,
    /// How much it matters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// How long an answer may take, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub deadline_ms: Option<i64>,
}

impl From<attention::Attention> for Attention {
    fn from(decided: attention::Attention) -> Self {
        Self {
            policy: decided.policy,
            reason: Some(decided.reason),
            intent: None,
            priority: Some(decided.priority),
            deadline_ms: decided.deadline_ms,
        }
    }
}

/// A piece of what was said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    /// Words.
    Text {
        /// Plain text or markdown, untrusted whoever said it.
        #[schema(max_length = 100_000)]
        text: String,
    },
}

/// What was said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = C2aContent)]
pub struct Content {
    /// Its pieces, in order.
    #[serde(rename = "content")]
    #[schema(min_items = 1, max_items = 100)]
    pub parts: Vec<Part>,
    /// The relay envelope that the text comes from, as it was received.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub envelope: Option<Map<String, Value>>,
    /// The job that the text tells of, as the market has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub job: Option<Map<String, Value>>,
}

impl Content {
    /// A message.
    pub fn text(text: impl Into<String>) -> Self {
        Self { parts: vec![Part::Text { text: text.into() }], envelope: None, job: None }
    }

    /// All its words: pieces are paragraphs.
    pub fn to_text(&self) -> String {
        let texts = self.parts.iter().map(|Part::Text { text }| text.as_str());
        texts.collect::<Vec<_>>().join("\n\n")
    }
}

/// An event that an agent asked for, with everything that was said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// What every event has.
    #[serde(flatten)]
    pub header: Header,
    /// What was said.
    #[serde(flatten)]
    pub content: Content,
}

impl ToSchema for Event {
    fn name() -> std::borrow::Cow<'static, str> {
        "C2aEvent".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        Header::schemas(schemas);
        Content::schemas(schemas);
    }
}

impl PartialSchema for Event {
    fn schema() -> RefOr<Schema> {
        merged([Header::schema(), Content::schema()])
    }
}
