//! What an inbox holds besides envelopes: what was said in conversations of the hub.
//!
//! Both ends use it: the hub writes all of it, to an inbox as the event `chat` and to an agent's endpoint as a body. An
//! agent reads it by what it needs to answer; the rest may be missing. What comes from other services is
//! [`crate::channel::InboxPost`].

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

/// Something that was said, where, why it comes, and where to answer. It holds secrets, so it has no `Debug`.
#[derive(Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Chat<E = EventView> {
    /// What ties it to everything it causes.
    pub trace_id: Option<String>,
    /// Where it was said.
    pub channel: ConversationView,
    /// What was said. (The hub encodes it once for all who get it.)
    pub event: E,
    /// The message that it is about, if it tells that somebody has not answered one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<EventView>)]
    pub about: Option<Box<EventView>>,
    /// What the agent is called there: by this it knows itself among those that are named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
    /// Why it comes to this agent.
    #[serde(default)]
    pub attention: ChatAttention,
    /// Where the agent POSTs its output. Whoever knows it speaks for the agent.
    pub callback: String,
    /// The tools of the conversation.
    #[schema(value_type = Option<ChatTools>)]
    pub mcp: Option<McpServer>,
}

/// The tools of a conversation, as they are described: an MCP server.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes what the hub writes")]
struct ChatTools {
    /// Where it is.
    url: String,
    /// What to send with every request to it.
    headers: std::collections::BTreeMap<String, String>,
}

/// What comes from other services, as it is described: [`crate::channel::InboxPost`] reads it, and is narrower than what may come
/// through.
#[derive(Debug, ToSchema)]
pub struct ForeignEntry {
    /// What ties it to everything it causes.
    pub trace_id: String,
    /// Where it was said.
    pub channel: Channel,
    /// What was said.
    pub message: Message,
    /// Where the agent POSTs its output.
    pub callback: String,
    /// Tools for the agent: an object with `url` and `headers`, or an array of such.
    pub mcp: Option<Value>,
}

/// Why something comes to an agent, and what is expected of it. What this program does not know counts as not said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChatAttention {
    /// Why; nothing, if it is for a reason that this program does not know.
    #[serde(default, deserialize_with = "json::known")]
    pub reason: Option<Reason>,
    /// At whom it is aimed.
    #[serde(default, deserialize_with = "json::known", skip_serializing_if = "Option::is_none")]
    pub directedness: Option<Directedness>,
    /// What is expected of the agent.
    #[serde(default, deserialize_with = "json::known", skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    /// When it enters the agent's work.
    #[serde(default, deserialize_with = "json::known", skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// How much it matters.
    #[serde(default, deserialize_with = "json::known", skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// How long an answer may take, in milliseconds.
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

/// How much happened in a channel or a work stream, for who leads it: counts and ids, and nothing that anybody wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DigestBody {
    /// The channel, if it is of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation: Option<ConversationId>,
    /// The work stream, if it is of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamId>,
    /// Since when.
    pub since: String,
    /// How much, in words of the hub's own.
    pub summary: String,
    /// How often what was done by whom.
    pub counts: Vec<DigestCount>,
    /// The newest messages of it, the newest first.
    pub references: Vec<EventId>,
    /// `after` with which a list of events begins where this one does.
    pub after: String,
}

/// How often something was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DigestCount {
    /// What.
    pub kind: EventKind,
    /// By whom.
    pub author: AuthorKind,
    /// How often.
    pub count: u32,
}

impl DigestBody {
    /// As a model reads it.
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
