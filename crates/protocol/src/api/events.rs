//! Events of a conversation.
//!
//! The hub writes every member. A client reads what is present and keeps unknown words and members, so that it
//! works with newer hubs. Therefore ids and times are texts here, and kinds may be unknown words.

use crate::json;
use crate::words::{EventKind, PrincipalKind, Signal, Word};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// The author of an event.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuthorView {
    /// The id of an account or an agent, or `system` for the hub.
    #[serde(default)]
    #[schema(required)]
    pub id: String,
    /// The kind of author: `account`, `agent` or `system`.
    #[serde(default)]
    #[schema(required, value_type = PrincipalKind)]
    pub kind: Word<PrincipalKind>,
    /// The author's latest handle in the conversation.
    pub handle: Option<String>,
}

impl AuthorView {
    /// Returns `true` if the author is an agent.
    pub fn is_agent(&self) -> bool {
        self.kind.known() == Some(PrincipalKind::Agent)
    }
}

/// The reactions to a message with one signal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReactionView {
    /// The signal: `seen`, `agree`, `working`, `queued`, `claimed`, `done`, `declined`, `blocked`, `unclear` or
    /// `stop`.
    pub signal: String,
    /// The handles of the members who reacted.
    pub by: Vec<String>,
}

/// An event of a conversation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EventView {
    /// The event's id.
    #[serde(default)]
    #[schema(required, example = "evt_0190a3c4d5e67f8090a1b2c3d4e5f607")]
    pub event_id: String,
    /// The position in the conversation, counted from 1 without gaps.
    #[serde(default)]
    #[schema(required)]
    pub sequence: i64,
    /// The kind of event.
    #[serde(default)]
    #[schema(required, value_type = EventKind)]
    pub kind: Word<EventKind>,
    /// The author of the event.
    #[serde(default)]
    #[schema(required)]
    pub author: AuthorView,
    /// The current text of a message in markdown, or the text of another event.
    pub content: Option<String>,
    /// The message that began the thread.
    pub thread: Option<String>,
    /// The message that this one replies to.
    pub reply_to: Option<String>,
    /// The message that an edit, a deletion or a reaction refers to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The time of creation.
    #[serde(default)]
    #[schema(required)]
    pub created_at: String,
    /// The time of the last edit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edited_at: Option<String>,
    /// `true` if the message was deleted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deleted: bool,
    /// The reactions to the message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reactions: Vec<ReactionView>,
    /// The number of messages in its thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replies: Option<i64>,
    /// The trace id shared by everything this event causes.
    #[serde(default)]
    #[schema(required)]
    pub trace_id: String,
    /// Further members that depend on the kind: `signal`, `status`, `name`, `args`, `intent` and others.
    #[serde(flatten)]
    #[schema(value_type = Object)]
    pub more: Map<String, Value>,
}

/// Members of some kinds of events, for display. Members of an unexpected type count as absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Details {
    /// The signal of a reaction.
    #[serde(default, deserialize_with = "json::known")]
    pub signal: Option<Word<Signal>>,
    /// The author's status.
    #[serde(default, deserialize_with = "json::known")]
    pub status: Option<String>,
    /// The name of the called tool.
    #[serde(default, deserialize_with = "json::known")]
    pub name: Option<String>,
    /// The error message.
    #[serde(default, deserialize_with = "json::known")]
    pub message: Option<String>,
}

impl EventView {
    /// Returns the members that depend on the kind.
    pub fn details(&self) -> Details {
        serde_json::from_value(Value::Object(self.more.clone())).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_missing_and_what_is_new_is_no_fault() {
        let read = |event: &Value| serde_json::from_value::<EventView>(event.clone()).unwrap();
        let short = read(&json!({"kind": "message", "content": "hi", "author": {"id": "anna"}}));
        assert_eq!((short.content.as_deref(), short.author.id.as_str()), (Some("hi"), "anna"));
        assert_eq!((short.sequence, short.more.len()), (0, 0));
        let newer = read(&json!({"kind": "poll", "question": "when?", "sequence": 3}));
        assert_eq!((newer.kind, &newer.more["question"]), (Word::Unknown("poll".into()), &json!("when?")));
        let reaction =
            read(&json!({"kind": "reaction", "signal": "shrug", "status": 7, "name": "x"})).details();
        assert_eq!(reaction.signal, Some(Word::Unknown("shrug".into())));
        assert_eq!((reaction.status, reaction.name.as_deref()), (None, Some("x")));
    }

    #[test]
    fn what_is_written_is_read() {
        let event = json!({"event_id": "evt_1", "sequence": 7, "kind": "message", "thread": null, "reply_to": "evt_0",
            "author": {"id": "a", "kind": "agent", "handle": "bob"}, "content": "hi", "created_at": "t", "trace_id": "x",
            "deleted": true, "reactions": [{"signal": "seen", "by": ["anna"]}], "replies": 2, "intent": "chat"});
        let read: EventView = serde_json::from_value(event.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), event);
    }
}
