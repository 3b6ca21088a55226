//! Inbox entries other than envelopes: events of the hub's conversations.
//!
//! Hub and agents share these types. The hub sends an entry to an inbox as the server-sent event `chat` and to
//! an agent's endpoint as a body. An agent reads the members it needs to answer; the others may be missing.
//! Messages from other services are [`crate::channel::InboxPost`].

use crate::api::channels::ConversationView;
use crate::api::events::EventView;
use crate::attention::Attention;
use crate::channel::{Channel, McpServer, Message};
use crate::ids::{ConversationId, EventId, StreamId};
use crate::json;
use crate::words::{AuthorKind, Directedness, EventKind, Mode, Policy, Priority, Reason};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// An event with its conversation, the attention it needs and the callback for answers. It holds secrets and
/// therefore has no `Debug`.
#[derive(Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Chat<E = EventView> {
    /// The trace id shared by everything this event causes.
    pub trace_id: Option<String>,
    /// The conversation of the event.
    pub channel: ConversationView,
    /// The event. (The hub encodes it once for all recipients.)
    pub event: E,
    /// The unanswered message, if this entry is an escalation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<EventView>)]
    pub about: Option<Box<EventView>>,
    /// The agent's handle in this conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
    /// The reason for the delivery and the expected response.
    #[serde(default)]
    pub attention: ChatAttention,
    /// The URL to which the agent POSTs its output. Anyone who knows it can speak as the agent.
    pub callback: String,
    /// The MCP server with the conversation's tools.
    #[schema(value_type = Option<ChatTools>)]
    pub mcp: Option<McpServer>,
}

/// The MCP server of a conversation's tools, as described in the API document.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes what the hub writes")]
struct ChatTools {
    /// The URL of the MCP server.
    url: String,
    /// The headers to send with every request to the server.
    headers: std::collections::BTreeMap<String, String>,
}

/// A message from another service, as described in the API document. [`crate::channel::InboxPost`] reads it
/// and is stricter than what may be relayed.
#[derive(Debug, ToSchema)]
pub struct ForeignEntry {
    /// The trace id shared by everything this message causes.
    pub trace_id: String,
    /// The other service's channel.
    pub channel: Channel,
    /// The message as the other service sent it.
    pub message: Message,
    /// The URL to which the agent POSTs its output.
    pub callback: String,
    /// Tools for the agent: an object with `url` and `headers`, or an array of such objects.
    pub mcp: Option<Value>,
}

/// The reason for a delivery and the response expected of the agent. Values unknown to this version count as
/// absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChatAttention {
    /// The reason for the delivery; `null` if this version does not know it.
    #[serde(default, deserialize_with = "json::known")]
    pub reason: Option<Reason>,
    /// The target of the event as seen by the agent.
    #[serde(default, deserialize_with = "json::known", skip_serializing_if = "Option::is_none")]
    pub directedness: Option<Directedness>,
    /// The response expected of the agent.
    #[serde(default, deserialize_with = "json::known", skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    /// The way in which the event enters the agent's work.
    #[serde(default, deserialize_with = "json::known", skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    #[serde(default, deserialize_with = "json::known", skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// The time allowed for an answer, in milliseconds.
    #[serde(default, deserialize_with = "json::known", skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<i64>,
}

impl From<Attention> for ChatAttention {
    fn from(decided: Attention) -> Self {
        let Attention { directedness, policy, mode, reason, priority, deadline_ms } = decided;
        Self {
            reason: Some(reason),
            directedness: Some(directedness),
            policy: Some(policy),
            mode: Some(mode),
            priority: Some(priority),
            deadline_ms,
        }
    }
}

/// A summary of the activity in a channel or a work stream for its lead. It holds counts and ids, and no text
/// written by members.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DigestBody {
    /// The channel, for a channel digest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation: Option<ConversationId>,
    /// The work stream, for a stream digest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamId>,
    /// The beginning of the period, as an RFC 3339 time.
    pub since: String,
    /// A sentence about the activity, written by the hub.
    pub summary: String,
    /// The number of events by kind and author kind.
    pub counts: Vec<DigestCount>,
    /// The ids of the newest messages, newest first.
    pub references: Vec<EventId>,
    /// The cursor to pass as `after` so that a list of events starts where this digest does.
    pub after: String,
}

/// The number of events of one kind by one kind of author.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DigestCount {
    pub kind: EventKind,
    pub author: AuthorKind,
    pub count: u32,
}

impl DigestBody {
    /// Formats the digest for a model.
    pub fn to_text(&self) -> String {
        let ids: Vec<_> = self.references.iter().map(ToString::to_string).collect();
        let newest = if ids.is_empty() { String::new() } else { format!("\nnewest: {}", ids.join(" ")) };
        format!(
            "{}\nsince: {}\nread it with chat.list_events, after: {}{newest}",
            self.summary, self.since, self.after
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn it_is_written_in_one_order() {
        let text = concat!(
            r#"{"trace_id":"t","channel":{"id":"ch_1","kind":"channel","name":"ops","context":null,"#,
            r#""owner":{"id":"acc_1","kind":"account"},"history":"all","created_at":"t","archived":false},"#,
            r#""event":{"event_id":"evt_1","sequence":7,"kind":"message","#,
            r#""author":{"id":"acc_1","kind":"account","handle":"anna"},"content":"hi","thread":null,"reply_to":null,"#,
            r#""created_at":"t","trace_id":"t","intent":"chat"},"attention":{"reason":"direct_mention","#,
            r#""directedness":"to_me","policy":"must_respond","mode":"buffered","priority":"normal","deadline_ms":300000},"#,
            r#""callback":"http://hub/cb","mcp":{"url":"http://hub/mcp","headers":{"Authorization":"Bearer x"}}}"#,
        );
        let chat: Chat = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&chat).unwrap(), text);
    }

    #[test]
    fn what_is_needed_to_answer_is_enough() {
        let mut chat = json!({"channel": {"id": "ch_1"}, "event": {"kind": "message", "content": "hi"},
            "callback": "http://hub/cb"});
        let read: Chat = serde_json::from_value(chat.clone()).unwrap();
        assert_eq!((read.channel.id.as_str(), read.event.content.as_deref()), ("ch_1", Some("hi")));
        assert!(read.trace_id.is_none() && read.attention.reason.is_none() && read.mcp.is_none());
        chat["attention"] = json!({"reason": "direct_mention", "policy": "must_respond"});
        let read: Chat = serde_json::from_value(chat.clone()).unwrap();
        assert_eq!(read.attention.reason, Some(Reason::DirectMention));
        assert_eq!((read.attention.policy, read.attention.mode), (Some(Policy::MustRespond), None));
        chat["attention"] = json!({"reason": "a reason of tomorrow"});
        assert_eq!(serde_json::from_value::<Chat>(chat).unwrap().attention.reason, None);
    }
}
