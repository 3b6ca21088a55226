//! Events on the C2A wire: the header of every event, and its content.

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

/// The members of every event, whatever part of it an agent is shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// The event's id, the same in every delivery.
    pub event_id: WireId,
    /// The platform that the event comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// The conversation of the event.
    pub conversation: Conversation,
    /// The author of the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<Author>,
    /// The target of the event.
    pub target: Target,
    /// The time and position of the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timing: Option<Timing>,
    /// The response expected of the agent.
    pub attention: Attention,
    /// The event that this one replaces by an edit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supersedes: Option<WireId>,
    /// The event that this one replies to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_reply_to: Option<WireId>,
    /// The agent's disposition of the event, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disposition: Option<Disposition>,
}

/// The origin of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = C2aSource)]
#[serde(rename_all = "camelCase")]
pub struct Source {
    /// The chat platform.
    #[schema(min_length = 1, max_length = 256, example = "chorus")]
    pub platform: String,
    /// The workspace on the platform.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 256)]
    pub workspace_id: Option<String>,
}

impl Source {
    /// Returns the source for a Chorus hub with this host.
    pub fn hub(host: &str) -> Self {
        Self { platform: "chorus".into(), workspace_id: Some(host.into()) }
    }
}

/// The conversation of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = C2aConversation)]
#[serde(rename_all = "camelCase")]
pub struct Conversation {
    /// The conversation's id. Messages of the hub itself may have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<WireId>,
    /// The kind of conversation.
    pub kind: WireConversationKind,
    /// The work stream of the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream_id: Option<WireId>,
    /// The thread of the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<WireId>,
    /// The conversation's name. It is an extension to the protocol document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The glyphs for signals, if they differ from those of `initialize`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub glyphs: Option<Glyphs>,
}

impl Conversation {
    /// Creates the wire form of a conversation, or of a thread given by its first message.
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

/// The author of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = C2aAuthor)]
#[serde(rename_all = "camelCase")]
pub struct Author {
    /// The id of a person or an agent; absent for the hub.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<WireId>,
    /// The kind of author.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<AuthorKind>,
    /// The author's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 256)]
    pub display_name: Option<String>,
}

/// A person, an agent or a role: `agent:`, `human:` or `role:` and the handle. Other hosts may use any text.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[schema(min_length = 1, max_length = 256, example = "agent:lead")]
pub struct Addressee(pub String);

impl Addressee {
    /// Creates the addressee for an agent's handle.
    pub fn agent(handle: impl fmt::Display) -> Self {
        Self(format!("agent:{handle}"))
    }

    /// Creates the addressee for a person's handle.
    pub fn human(handle: impl fmt::Display) -> Self {
        Self(format!("human:{handle}"))
    }

    /// Creates the addressee for a role.
    pub fn role(name: impl fmt::Display) -> Self {
        Self(format!("role:{name}"))
    }

    /// Returns the handle or role without its prefix.
    pub fn handle(&self) -> &str {
        let known = ["agent:", "human:", "role:"];
        known.iter().find_map(|prefix| self.0.strip_prefix(prefix)).unwrap_or(&self.0)
    }
}

/// The target of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = C2aTarget)]
pub struct Target {
    /// The parties that the event mentions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(nullable, max_items = 100)]
    pub mentions: Vec<Addressee>,
    /// The recipient of this delivery.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recipient: Option<Addressee>,
    /// The target as seen by the recipient.
    pub directedness: Directedness,
}

/// The time and position of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = C2aTiming)]
#[serde(rename_all = "camelCase")]
pub struct Timing {
    /// The time of creation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Time>,
    /// The position in the conversation; absent for digests and envelopes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub sequence: Option<i64>,
}

/// The response expected of an agent, with its reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = C2aAttention)]
#[serde(rename_all = "camelCase")]
pub struct Attention {
    /// The response policy: must, may or must not answer.
    pub policy: Policy,
    /// The reason for the policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// The intent that the author declared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intent: Option<Intent>,
    /// The priority of the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// The time allowed for an answer, in milliseconds.
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

/// A part of an event's content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    /// A text.
    Text {
        /// Plain text or markdown. It is untrusted input.
        #[schema(max_length = 100_000)]
        text: String,
    },
}

/// The content of an event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = C2aContent)]
pub struct Content {
    /// The parts, in order.
    #[serde(rename = "content")]
    #[schema(min_items = 1, max_items = 100)]
    pub parts: Vec<Part>,
    /// The relay envelope that the text comes from, as received.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub envelope: Option<Map<String, Value>>,
    /// The market job that the text describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub job: Option<Map<String, Value>>,
}

impl Content {
    /// Creates content with one text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { parts: vec![Part::Text { text: text.into() }], envelope: None, job: None }
    }

    /// Joins all text parts as paragraphs.
    pub fn to_text(&self) -> String {
        let texts = self.parts.iter().map(|Part::Text { text }| text.as_str());
        texts.collect::<Vec<_>>().join("\n\n")
    }
}

/// An event that an agent requested, with its whole content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    #[serde(flatten)]
    pub header: Header,
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
