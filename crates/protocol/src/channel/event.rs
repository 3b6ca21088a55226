//! Callback requests of an agent: one event, or several as NDJSON with one event per line.

use super::{MAX_CONTENT, MAX_ERROR, MAX_ID, MAX_NAME, MAX_STATUS, optional, parse, required};
use crate::api::documents::{Encoding, MediaType, NewDocument, Slug, Title};
use crate::faults::{Faults, Fields, kind};
use crate::schema;
use crate::words::{EventKind, words};
use serde::Serialize;
use serde_json::{Map, Value};

/// The media type of several events in one body.
pub const NDJSON: &str = "application/x-ndjson";

/// The maximum number of events in one body.
pub const MAX_EVENTS: usize = 1000;

/// The maximum number of messages in one body. Each may wake many agents, so the limit equals the rate limit
/// for a minute.
pub const MAX_MESSAGES: usize = 30;

/// The largest version number that every JSON reader holds exactly.
const MAX_VERSION: i64 = 9_007_199_254_740_991;

/// All values of `type`: the five of the protocol document, and the hub's extensions.
pub const KINDS: [&str; 8] =
    ["message", "tool_call", "tool_result", "status", "error", "lifecycle", "chunk", "artifact"];

/// An event that an agent reports to a callback.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[schema(as = CallbackBody)]
pub enum CallbackEvent {
    /// A message to the conversation.
    Message {
        /// The text, plain or markdown. An `@handle` wakes the mentioned member, as in any message.
        #[schema(min_length = 1, max_length = 100_000)]
        content: String,
    },
    /// A call of a tool.
    ToolCall {
        /// The name of the tool.
        #[schema(min_length = 1, max_length = 256)]
        name: String,
        /// The arguments of the call.
        #[schema(value_type = Option<Object>)]
        args: Map<String, Value>,
        /// The id of the call, which its result repeats.
        #[schema(min_length = 1, max_length = 256)]
        id: String,
    },
    /// The result of a tool call.
    ToolResult {
        /// The id of the call.
        #[schema(min_length = 1, max_length = 256)]
        id: String,
        /// The result.
        #[schema(max_length = 100_000)]
        content: String,
    },
    /// The agent's current activity.
    Status {
        // An empty status removes the previous one.
        /// The activity in a few words.
        #[schema(max_length = 1000)]
        status: String,
    },
    /// A failure of the agent.
    Error {
        /// The error message for a person.
        #[schema(min_length = 1, max_length = 10_000)]
        message: String,
        /// The error code for a program.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(max_length = 256)]
        code: Option<String>,
    },
    // This event is an extension of the protocol document.
    /// The beginning or end of the agent's work on the message.
    Lifecycle {
        /// The state: `processing` or `idle`.
        #[schema(value_type = String, pattern = "^(processing|idle)$")]
        status: Lifecycle,
    },
    // This event is an extension of the protocol document.
    /// A piece of a message in progress, shown to readers as it grows. Only the final `message` is stored.
    Chunk {
        /// The text to append.
        #[schema(min_length = 1, max_length = 100_000)]
        text: String,
    },
    // This event is an extension: the protocol document leaves files to MCP, which not every agent supports.
    /// A new document in the conversation, or a new version of one.
    Artifact {
        /// The document's name in URLs.
        slug: Slug,
        /// The title; unchanged, or the slug for a new document, by default.
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<Title>,
        /// The content. Credentials in it are masked.
        content: String,
        /// The encoding of `content`: `utf-8` (the default) or `base64`.
        #[serde(skip_serializing_if = "Option::is_none")]
        encoding: Option<Encoding>,
        /// The media type; unchanged by default.
        #[serde(skip_serializing_if = "Option::is_none")]
        content_type: Option<MediaType>,
        /// The version that the change is based on; the newest by default.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(minimum = 1, maximum = 9_007_199_254_740_991_i64)]
        base_version: Option<i64>,
    },
}

words! {
    /// The state of an agent's work on a message.
    pub enum Lifecycle {
        /// The agent is working on the message.
        Processing = "processing",
        /// The agent has finished.
        Idle = "idle",
    }
}

impl CallbackEvent {
    /// Returns the kind of the resulting event; `None` for a chunk, which is not stored.
    pub fn kind(&self) -> Option<EventKind> {
        match self {
            Self::Message { .. } => Some(EventKind::Message),
            Self::ToolCall { .. } => Some(EventKind::ToolCall),
            Self::ToolResult { .. } => Some(EventKind::ToolResult),
            Self::Status { .. } => Some(EventKind::Status),
            Self::Error { .. } => Some(EventKind::Error),
            Self::Lifecycle { .. } => Some(EventKind::Lifecycle),
            Self::Chunk { .. } => None,
            Self::Artifact { .. } => Some(EventKind::Artifact),
        }
    }

    /// Returns the `type`.
    pub fn word(&self) -> &'static str {
        self.kind().map_or("chunk", EventKind::as_str)
    }

    /// Reads and validates one event.
    pub fn read(bytes: &[u8]) -> Result<Self, Faults> {
        let body = parse(bytes, "body")?;
        let mut faults = Faults::new();
        let event = read_event(&body, &mut faults);
        event.filter(|_| faults.is_empty()).ok_or(faults)
    }
}

fn read_event(body: &Value, faults: &mut Faults) -> Option<CallbackEvent> {
    let mut fields = Fields::of(body, "", faults)?;
    let event = match fields.required_text("type")? {
        "message" => {
            // Ignored, it would be said without a person's consent.
            for name in ["requires_approval", "requiresApproval"] {
                if fields.get(name) == Some(&Value::Bool(true)) {
                    fields.fault(
                        name,
                        "is not possible in a callback: send this with the tool chat_send_message",
                    );
                }
            }
            CallbackEvent::Message { content: required(&mut fields, "content", MAX_CONTENT)? }
        }
        "tool_call" => {
            let name = required(&mut fields, "name", MAX_NAME);
            let args = read_args(&mut fields);
            let id = required(&mut fields, "id", MAX_ID);
            CallbackEvent::ToolCall { name: name?, args, id: id? }
        }
        "tool_result" => {
            let id = required(&mut fields, "id", MAX_ID);
            fields.required("content");
            let content = optional(&mut fields, "content", MAX_CONTENT);
            CallbackEvent::ToolResult { id: id?, content: content? }
        }
        "status" => {
            fields.required("status");
            CallbackEvent::Status { status: optional(&mut fields, "status", MAX_STATUS)? }
        }
        "error" => {
            let message = required(&mut fields, "message", MAX_ERROR);
            let code = optional(&mut fields, "code", MAX_ID);
            CallbackEvent::Error { message: message?, code }
        }
        "lifecycle" => {
            let Some(status) = Lifecycle::parse(fields.required_text("status")?) else {
                fields.fault("status", "must be one of processing, idle");
                return None;
            };
            CallbackEvent::Lifecycle { status }
        }
        "chunk" => CallbackEvent::Chunk { text: required(&mut fields, "text", MAX_CONTENT)? },
        "artifact" => read_artifact(body, &mut fields)?,
        _ => {
            fields.fault("type", format_args!("must be one of {}", KINDS.join(", ")));
            return None;
        }
    };
    Some(event)
}

/// Reads a document under the same rules as the API.
fn read_artifact(body: &Value, fields: &mut Fields<'_, '_>) -> Option<CallbackEvent> {
    let base_version = match fields.get("base_version") {
        None => None,
        Some(version) => {
            let number = version.as_i64().filter(|number| (1..=MAX_VERSION).contains(number));
            if number.is_none() {
                fields.fault("base_version", "must be the number of a version, from 1");
            }
            number
        }
    };
    match schema::read(body.clone()) {
        Ok(NewDocument { slug, title, content, encoding, content_type }) => {
            Some(CallbackEvent::Artifact { slug, title, content, encoding, content_type, base_version })
        }
        Err(found) => {
            fields.faults().extend(found);
            None
        }
    }
}

/// Reads the arguments of a tool call; an absent object counts as empty.
fn read_args(fields: &mut Fields<'_, '_>) -> Map<String, Value> {
    match fields.get("args") {
        None => Map::new(),
        Some(Value::Object(args)) => args.clone(),
        Some(other) => {
            fields.fault("args", format_args!("must be an object, not {}", kind(other)));
            Map::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    /// The events in the protocol document, verbatim.
    const DOCUMENT: [(&str, &str); 8] = [
        (
            "message",
            r#"{
  "type": "message",
  "content": "The weather in Oslo is 3°C and cloudy."
}"#,
        ),
        (
            "tool_call",
            r#"{
  "type": "tool_call",
  "name": "web_search",
  "args": { "query": "oslo weather" },
  "id": "tc_001"
}"#,
        ),
        (
            "tool_result",
            r#"{
  "type": "tool_result",
  "id": "tc_001",
  "content": "Oslo: 3°C, cloudy, wind 5m/s NW"
}"#,
        ),
        (
            "status",
            r#"{
  "type": "status",
  "status": "searching weather data"
}"#,
        ),
        (
            "error",
            r#"{
  "type": "error",
  "message": "Failed to connect to weather API",
  "code": "tool_error"
}"#,
        ),
        ("message", r#"{ "type": "message", "content": "Hello Alice!" }"#),
        ("status", r#"{ "type": "status", "status": "reviewing auth spec" }"#),
        ("message", r#"{ "type": "message", "content": "I've reviewed the auth spec. Two issues..." }"#),
    ];

    fn fault(body: &Value) -> String {
        CallbackEvent::read(body.to_string().as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn the_documents_events_are_read_and_written_alike() {
        for (kind, text) in DOCUMENT {
            let event = CallbackEvent::read(text.as_bytes()).unwrap();
            assert_eq!(event.word(), kind);
            let document: Value = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_value(&event).unwrap(), document);
        }
    }

    #[test]
    fn lifecycle_is_ours() {
        for (status, expected) in [("processing", Lifecycle::Processing), ("idle", Lifecycle::Idle)] {
            let body = json!({"type": "lifecycle", "status": status});
            let event = CallbackEvent::read(body.to_string().as_bytes()).unwrap();
            assert_eq!(event, CallbackEvent::Lifecycle { status: expected });
            assert_eq!(serde_json::to_value(&event).unwrap(), body);
        }
    }

    #[test]
    fn what_may_be_left_out() {
        let read = |body: Value| CallbackEvent::read(body.to_string().as_bytes()).unwrap();
        let call = read(json!({"type": "tool_call", "name": "now", "args": null, "id": "1", "extra": 1}));
        assert_eq!(call, CallbackEvent::ToolCall { name: "now".into(), args: Map::new(), id: "1".into() });
        let error = json!({"type": "error", "message": "no"});
        assert_eq!(serde_json::to_value(read(error.clone())).unwrap(), error);
        read(json!({"type": "tool_result", "id": "1", "content": ""}));
        read(json!({"type": "status", "status": ""}));
    }

    #[test]
    fn every_fault_at_once() {
        let long = "x".repeat(100_001);
        for (body, expected) in [
            (json!([]), "body: must be an object, not an array"),
            (json!({"content": "x"}), "type: is required"),
            (json!({"type": 1}), "type: must be a string, not a number"),
            (
                json!({"type": "typing"}),
                "type: must be one of message, tool_call, tool_result, status, error, lifecycle, chunk, artifact",
            ),
            (json!({"type": "message"}), "content: is required"),
            (json!({"type": "message", "content": ""}), "content: must be 1 to 100000 characters, not 0"),
            (
                json!({"type": "message", "content": long}),
                "content: must be 1 to 100000 characters, not 100001",
            ),
            (
                json!({"type": "tool_call", "args": "x", "id": "i".repeat(257)}),
                "name: is required; args: must be an object, not a string; id: must be 1 to 256 characters, not 257",
            ),
            (
                json!({"type": "tool_result", "content": {"a": 1}}),
                "id: is required; content: must be a string, not an object",
            ),
            (json!({"type": "tool_result", "id": "1"}), "content: is required"),
            (json!({"type": "status"}), "status: is required"),
            (
                json!({"type": "status", "status": "s".repeat(1001)}),
                "status: must be 0 to 1000 characters, not 1001",
            ),
            (
                json!({"type": "error", "code": 1}),
                "message: is required; code: must be a string, not a number",
            ),
            (json!({"type": "lifecycle", "status": "busy"}), "status: must be one of processing, idle"),
        ] {
            assert_eq!(fault(&body), expected);
        }
    }

    #[test]
    fn a_document_is_ours() {
        let body = json!({"type": "artifact", "slug": "plot", "content": "iVBORw==", "encoding": "base64",
            "content_type": "image/png", "base_version": 2});
        let event = CallbackEvent::read(body.to_string().as_bytes()).unwrap();
        assert_eq!((event.word(), event.kind()), ("artifact", Some(EventKind::Artifact)));
        assert_eq!(serde_json::to_value(&event).unwrap(), body);
        let wrong = fault(&json!({"type": "artifact", "slug": "No", "encoding": "hex", "base_version": 0}));
        for part in ["slug: ", "content: is required", "encoding: ", "base_version: "] {
            assert!(wrong.contains(part), "{part}: {wrong}");
        }
    }

    #[test]
    fn a_chunk_is_ours_and_in_no_log() {
        let body = json!({"type": "chunk", "text": "The weather"});
        let event = CallbackEvent::read(body.to_string().as_bytes()).unwrap();
        assert_eq!((event.word(), event.kind()), ("chunk", None));
        assert_eq!(serde_json::to_value(&event).unwrap(), body);
        assert_eq!(fault(&json!({"type": "chunk"})), "text: is required");
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (-1e300..1e300).prop_map(Value::from),
            "[^\0]{0,10}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 20, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map("[^\0]{0,5}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    fn events() -> impl Strategy<Value = CallbackEvent> {
        let (id, text) = ("[^\0]{1,20}", "[^\0]{1,40}");
        let args = proptest::collection::btree_map("[^\0]{0,5}", values(), 0..4);
        prop_oneof![
            text.prop_map(|content| CallbackEvent::Message { content }),
            (id, args, id).prop_map(|(name, args, id)| {
                CallbackEvent::ToolCall { name, args: args.into_iter().collect(), id }
            }),
            (id, "[^\0]{0,40}").prop_map(|(id, content)| CallbackEvent::ToolResult { id, content }),
            "[^\0]{0,40}".prop_map(|status| CallbackEvent::Status { status }),
            (text, proptest::option::of("[^\0]{0,20}"))
                .prop_map(|(message, code)| CallbackEvent::Error { message, code }),
            prop_oneof![Just(Lifecycle::Processing), Just(Lifecycle::Idle)]
                .prop_map(|status| CallbackEvent::Lifecycle { status }),
            text.prop_map(|text| CallbackEvent::Chunk { text }),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(event in events()) {
            let line = serde_json::to_string(&event).unwrap();
            prop_assert!(!line.contains('\n'), "a line is one line");
            prop_assert_eq!(&CallbackEvent::read(line.as_bytes()).unwrap(), &event);
            prop_assert!(KINDS.contains(&event.word()));
        }

        #[test]
        fn nothing_panics(bytes in proptest::collection::vec(any::<u8>(), 0..100), n in 0..DOCUMENT.len(), place: usize, byte: u8) {
            CallbackEvent::read(&bytes).ok();
            let mut document = DOCUMENT[n].1.as_bytes().to_vec();
            let place = place % document.len();
            document[place] = byte;
            CallbackEvent::read(&document).ok();
        }
    }
}
