//! The chat tools as C2A's document calls them: under their dotted names they take its camelCase arguments.
//!
//! What a tool does here it does in one channel, whose address was called: the document's `conversationId` may be said, and must be
//! that one. What the document has and these tools have no use for is left out; what neither has is told as a fault.

use crate::error::Error;
use chorus_protocol::c2a::{ChatTool, Spelling};
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::ConversationId;
use serde_json::{Map, Value, json};

/// Arguments in the document's words, as the tools here take them. Those under any other name are left as they are.
pub(super) fn arguments(
    name: &str,
    place: ConversationId,
    given: Map<String, Value>,
) -> Result<Map<String, Value>, Error> {
    let Some((tool, Spelling::Camel)) = ChatTool::named(name) else { return Ok(given) };
    let mut arguments = Map::new();
    let mut members: Vec<_> = given.into_iter().collect();
    if let Some(at) = members.iter().position(|(name, value)| name == "target" && value.is_object()) {
        let (_, target) = members.remove(at);
        members.extend(
            target.as_object().into_iter().flatten().map(|(name, value)| (name.clone(), value.clone())),
        );
    }
    for (name, value) in members {
        let name = match (tool, name.as_str()) {
            (_, "conversationId") if value == place.to_string() => continue,
            (_, "conversationId") => {
                let what = format_args!("must be {place}: this address is for one channel alone");
                return Err(Faults::one("conversationId", what).into());
            }
            (ChatTool::SendMessage, "visibility") => {
                if value == "ephemeral" {
                    arguments.insert("ephemeral".into(), true.into());
                }
                continue;
            }
            // A place is a number here.
            (ChatTool::ListEvents | ChatTool::ReadThread, "after") => {
                let place = value.as_str().and_then(|text| text.parse::<i64>().ok());
                arguments.insert("after".into(), place.map_or(value, |place| json!(place)));
                continue;
            }
            (ChatTool::Defer, "eta") | (ChatTool::Resolve, "reason") => continue,
            (ChatTool::SendMessage, "text") => "content",
            (ChatTool::SendMessage, "inReplyTo") => "reply_to",
            (ChatTool::SendMessage, "streamId") => "stream",
            (ChatTool::SendMessage | ChatTool::ReadThread, "threadId") => "thread",
            (ChatTool::SendMessage, "idempotencyKey") => "idempotency_key",
            (ChatTool::SendMessage, "deadlineMs") => "deadline_ms",
            (ChatTool::SendMessage, "requiresApproval") => "requires_approval",
            (ChatTool::React, "inReplyTo")
            | (ChatTool::Claim | ChatTool::Defer | ChatTool::Resolve, "eventId") => "event_id",
            (ChatTool::Claim, "ttlMs") => "ttl_ms",
            (_, same) => same,
        };
        arguments.insert(name.to_owned(), value);
    }
    Ok(arguments)
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn the_documents_arguments_become_those_of_the_tools_here() {
        let place = ConversationId(Uuid::from_u128(7));
        let read = |name: &str, given: Value| {
            let read = arguments(name, place, given.as_object().unwrap().clone());
            read.map_or_else(|error| json!(error.message), Value::Object)
        };
        let here = place.to_string();
        assert_eq!(
            read(
                "chat.send_message",
                json!({"target": {"conversationId": here, "threadId": "t"}, "inReplyTo": "e", "idempotencyKey": "k",
                    "visibility": "ephemeral", "directedness": "to_me", "text": "x", "deadlineMs": 1000})
            ),
            json!({"thread": "t", "reply_to": "e", "idempotency_key": "k", "ephemeral": true, "directedness": "to_me",
                "content": "x", "deadline_ms": 1000})
        );
        assert_eq!(
            read("chat.react", json!({"inReplyTo": "e", "signal": "done"})),
            json!({"event_id": "e", "signal": "done"})
        );
        assert_eq!(
            read("chat.claim", json!({"eventId": "e", "ttlMs": 10_000})),
            json!({"event_id": "e", "ttl_ms": 10_000})
        );
        assert_eq!(
            read("chat.list_events", json!({"conversationId": here, "after": "12"})),
            json!({"after": 12})
        );
        // Other names have arguments of their own.
        for name in ["chat_react", "react", "search"] {
            assert_eq!(read(name, json!({"inReplyTo": "e"})), json!({"inReplyTo": "e"}));
        }
        let elsewhere = read("chat.list_events", json!({"conversationId": "ch_1"}));
        assert!(elsewhere.as_str().unwrap().contains("must be ch_"), "{elsewhere}");
    }
}
