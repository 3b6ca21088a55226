//! What happened in a conversation, one event each.
//!
//! The hub says all of it. A client reads what there is: what is missing counts as not said, and words and members it does
//! not know are kept, so that a program is not deaf to a hub that is newer. That is why ids and times are texts here, and kinds are
//! words that may be unknown.

use crate::json;
use crate::words::{EventKind, PrincipalKind, Signal, Word};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// Who said something.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuthorView {
    /// The id of an account or an agent; of what the hub says itself, `system`.
    #[serde(default)]
    #[schema(required)]
    pub id: String,
    /// `account` or `agent`, or `system`.
    #[serde(default)]
    #[schema(required, value_type = PrincipalKind)]
    pub kind: Word<PrincipalKind>,
    /// What it was called there at last.
    pub handle: Option<String>,
}

impl AuthorView {
    /// Whether it is an agent.
    pub fn is_agent(&self) -> bool {
        self.kind.known() == Some(PrincipalKind::Agent)
    }
}

/// What was thought of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReactionView {
    /// `seen`, `agree`, `working`, `queued`, `claimed`, `done`, `declined`, `blocked` or `unclear`.
    pub signal: String,
    /// By whom.
    pub by: Vec<String>,
}

/// One event of the log.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EventView {
    /// Its id.
    #[serde(default)]
    #[schema(required, example = "evt_0190a3c4d5e67f8090a1b2c3d4e5f607")]
    pub event_id: String,
    /// Its place in the conversation, without gaps from 1.
    #[serde(default)]
    #[schema(required)]
    pub sequence: i64,
    /// What happened.
    #[serde(default)]
    #[schema(required, value_type = EventKind)]
    pub kind: Word<EventKind>,
    /// By whom.
    #[serde(default)]
    #[schema(required)]
    pub author: AuthorView,
    /// What a message says now, in markdown; what else was said in words.
    pub content: Option<String>,
    /// The message that began the thread it is in.
    pub thread: Option<String>,
    /// What a message answers.
    pub reply_to: Option<String>,
    /// What an edit, a deletion or a reaction is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// When.
    #[serde(default)]
    #[schema(required)]
    pub created_at: String,
    /// When what it says was last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edited_at: Option<String>,
    /// Whether it was taken back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deleted: bool,
    /// What was thought of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reactions: Vec<ReactionView>,
    /// How many messages its thread has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replies: Option<i64>,
    /// What ties it to everything it causes.
    #[serde(default)]
    #[schema(required)]
    pub trace_id: String,
    /// What else its kind has: `signal`, `status`, `name`, `args`, `intent`…
    #[serde(flatten)]
    #[schema(value_type = Object)]
    pub more: Map<String, Value>,
}

/// What some kinds have besides, for who shows them. What is something else than it should be counts as not said.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Details {
    /// What a reaction says.
    #[serde(default, deserialize_with = "json::known")]
    pub signal: Option<Word<Signal>>,
    /// What somebody is doing.
    #[serde(default, deserialize_with = "json::known")]
    pub status: Option<String>,
    /// Which tool is called.
    #[serde(default, deserialize_with = "json::known")]
    pub name: Option<String>,
    /// What went wrong.
    #[serde(default, deserialize_with = "json::known")]
    pub message: Option<String>,
}

impl EventView {
    /// What its kind has besides.
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
