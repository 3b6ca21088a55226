//! The Channel Protocol 0.1. A service POSTs messages to an agent's connection string, and the agent POSTs its
//! output to a callback.
//!
//! `post` defines the service's request and `event` the agent's callback. Both readers report every fault at
//! once and ignore unknown members. The door limits the size of a body; this module limits everything inside
//! it.
//!
//! Posts hold secrets (the callback, the headers of an MCP server), so their `Debug` output hides them.

mod event;
mod post;
mod web_url;

pub use event::{CallbackEvent, KINDS, Lifecycle, MAX_EVENTS, MAX_MESSAGES, NDJSON};
pub use post::{Channel, InboxPost, McpServer, Message, Post, Received};
pub use web_url::WebUrl;

use crate::faults::{Faults, Fields};
use crate::json::{self, JsonError};
use serde_json::Value;

/// The largest body of a post that the hub and its clients accept, in bytes.
pub const MAX_BODY: usize = 256 * 1024;
/// The longest id of any kind, in characters.
pub const MAX_ID: usize = 256;
/// The longest name of a channel, service, sender, tool or MCP server, in characters.
pub const MAX_NAME: usize = 256;
/// The longest context of a channel, in characters.
pub const MAX_CONTEXT: usize = 10_000;
/// The longest message or result of a tool, in characters.
pub const MAX_CONTENT: usize = 100_000;
/// The longest status of an agent, in characters.
pub const MAX_STATUS: usize = 1000;
/// The longest error message, in characters.
pub const MAX_ERROR: usize = 10_000;
/// The longest URL, in bytes.
pub const MAX_URL: usize = 4096;
/// The maximum number of MCP servers in one post.
pub const MAX_MCP_SERVERS: usize = 20;
/// The maximum number of headers of an MCP server.
pub const MAX_HEADERS: usize = 50;
/// The longest value of an MCP server's header, in bytes.
pub const MAX_HEADER: usize = 8192;

/// Parses a body as JSON. Faults are reported under `path`.
fn parse(bytes: &[u8], path: &str) -> Result<Value, Faults> {
    json::parse(bytes).map_err(|error| match error {
        JsonError::NotUtf8(place) => Faults::one(path, format_args!("is not valid UTF-8 (byte {place})")),
        JsonError::Malformed(error) => Faults::one(path, format_args!("is not acceptable JSON: {error}")),
    })
}

/// Reads a required text of 1 to `max` characters.
fn required(fields: &mut Fields<'_, '_>, name: &str, max: usize) -> Option<String> {
    let text = fields.required_text(name)?;
    fields.check_length(name, text, 1, max);
    Some(text.to_owned())
}

/// Reads an optional text of at most `max` characters.
fn optional(fields: &mut Fields<'_, '_>, name: &str, max: usize) -> Option<String> {
    let text = fields.optional_text(name)?;
    fields.check_length(name, text, 0, max);
    Some(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use utoipa::PartialSchema;

    /// Checks that every text of an object is accepted with exactly the lengths its schema states. `takes` is
    /// given a member's name and a length. (Schema attributes hold numbers only, so they cannot name the
    /// constants.)
    fn as_described(schema: &Value, texts: &[&str], takes: impl Fn(&str, usize) -> bool) {
        let mut described = vec![];
        for (name, property) in schema["properties"].as_object().unwrap() {
            let Some(max) = property["maxLength"].as_u64() else { continue };
            let (min, max) = (property["minLength"].as_u64().unwrap_or(0) as usize, max as usize);
            assert!(takes(name, min) && takes(name, max) && !takes(name, max + 1), "{name}: {property}");
            assert!(min == 0 || !takes(name, min - 1), "{name}: {property}");
            described.push(name.as_str());
        }
        described.sort_unstable();
        assert_eq!(described, texts);
    }

    #[test]
    fn posts_are_bounded_as_they_are_described() {
        for (part, schema, texts) in [
            ("channel", json!(Channel::schema()), &["context", "id", "name", "service"][..]),
            ("message", json!(Message::schema()), &["content", "id", "sender"]),
        ] {
            as_described(&schema, texts, |name, length| {
                let message = json!({"id": "m", "sender": "s", "content": "x"});
                let mut body = json!({"channel": {"id": "c"}, "message": message, "callback": "http://s/"});
                body[part][name] = "x".repeat(length).into();
                Post::read(body.to_string().as_bytes()).is_ok()
            });
        }
        assert_eq!(json!(WebUrl::schema())["maxLength"], MAX_URL);
    }

    #[test]
    fn events_are_bounded_as_they_are_described() {
        let schema = json!(CallbackEvent::schema());
        let kinds = schema["oneOf"].as_array().unwrap();
        assert_eq!(kinds.len(), KINDS.len());
        for kind in kinds {
            let (event, texts) = match kind["properties"]["type"]["enum"][0].as_str().unwrap() {
                "message" => (json!({"type": "message"}), &["content"][..]),
                "chunk" => (json!({"type": "chunk"}), &["text"][..]),
                "artifact" => (json!({"type": "artifact", "slug": "x", "content": "x"}), &[][..]),
                "tool_call" => (json!({"type": "tool_call", "name": "n", "id": "i"}), &["id", "name"][..]),
                "tool_result" => {
                    (json!({"type": "tool_result", "id": "i", "content": "x"}), &["content", "id"][..])
                }
                "status" => (json!({"type": "status"}), &["status"][..]),
                "error" => (json!({"type": "error", "message": "m"}), &["code", "message"][..]),
                "lifecycle" => (json!({"type": "lifecycle", "status": "idle"}), &[][..]),
                other => panic!("{other} is new"),
            };
            as_described(kind, texts, |name, length| {
                let mut event = event.clone();
                event[name] = "x".repeat(length).into();
                CallbackEvent::read(event.to_string().as_bytes()).is_ok()
            });
        }
    }
}
