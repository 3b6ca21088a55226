//! What an agent sends to a callback: one event, or several as NDJSON, one in each line.

use super::{MAX_CONTENT, MAX_ERROR, MAX_ID, MAX_NAME, MAX_STATUS, optional, parse, required};
use crate::api::documents::{Encoding, MediaType, NewDocument, Slug, Title};
use crate::faults::{Faults, Fields, kind};
use crate::schema;
use crate::words::{EventKind, words};
use serde::Serialize;
use serde_json::{Map, Value};

/// The media type of several events in one body.
pub const NDJSON: &str = "application/x-ndjson";

/// The most events in one body.
pub const MAX_EVENTS: usize = 1000;

/// The most messages among them. Each may wake many agents, so no more than an agent may say in a minute.
pub const MAX_MESSAGES: usize = 30;

/// The largest number of a version that every reader of JSON knows exactly.
const MAX_VERSION: i64 = 9_007_199_254_740_991;

/// Every `type` there is: the five of the document, and ours.
pub const KINDS: [&str; 8] =
    ["message", "tool_call", "tool_result", "status", "error", "lifecycle", "chunk", "artifact"];

/// One thing an agent shows of itself.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[schema(as = CallbackBody)]
pub enum CallbackEvent {
    /// It says something.
    Message {
        /// Plain text or markdown. Whom it mentions with `@handle` is woken, as by anybody's message.
        #[schema(min_length = 1, max_length = 100_000)]
        content: String,
    },
    /// It called a tool.
    ToolCall {
        /// Which.
        #[schema(min_length = 1, max_length = 256)]
        name: String,
        /// With what.
        #[schema(value_type = Option<Object>)]
        args: Map<String, Value>,
        /// What the result will name.
        #[schema(min_length = 1, max_length = 256)]
        id: String,
    },
    /// What a tool gave.
    ToolResult {
        /// The call's id.
        #[schema(min_length = 1, max_length = 256)]
        id: String,
        /// What it gave.
        #[schema(max_length = 100_000)]
        content: String,
    },
    /// What it is doing.
    Status {
        // None takes back what was said before.
        /// In a few words.
        #[schema(max_length = 1000)]
        status: String,
    },
    /// Something went wrong.
    Error {
        /// What, for a person.
        #[schema(min_length = 1, max_length = 10_000)]
        message: String,
        /// What, for a program.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(max_length = 256)]
        code: Option<String>,
    },
    // Ours, not the document's.
    /// Whether it is at work on the message.
    Lifecycle {
        /// `processing` or `idle`.
        #[schema(value_type = String, pattern = "^(processing|idle)$")]
        status: Lifecycle,
    },
    // Ours, too.
    /// A piece of the message it is making, which is seen while it grows. What is kept is the `message` that follows.
    Chunk {
        /// What is added.
        #[schema(min_length = 1, max_length = 100_000)]
        text: String,
    },
    // And this: the document leaves files to MCP, which not every agent speaks.
    /// It puts a document into the conversation: a new one, or a new version.
    Artifact {
        /// Its name in addresses.
        slug: Slug,
        /// What people call it; as before, or its slug, unless said.
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<Title>,
        /// The document. Credentials in it are masked.
        content: String,
        /// How `content` carries it: `utf-8`, unless said, or `base64`.
        #[serde(skip_serializing_if = "Option::is_none")]
        encoding: Option<Encoding>,
        /// What it is made of; as before, unless said.
        #[serde(skip_serializing_if = "Option::is_none")]
        content_type: Option<MediaType>,
        /// The version that was changed; the newest, if there is one, unless said.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(minimum = 1, maximum = 9_007_199_254_740_991_i64)]
        base_version: Option<i64>,
    },
}

words! {
    /// Whether an agent is at work on a message.
    pub enum Lifecycle {
        /// It is.
        Processing = "processing",
        /// It is done with it.
        Idle = "idle",
    }
}

impl CallbackEvent {
    /// What it is in the log; a chunk is nowhere there.
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

    /// Its `type`.
    pub fn word(&self) -> &'static str {
        self.kind().map_or("chunk", EventKind::as_str)
    }

    /// Reads and checks one event.
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
        "message" => CallbackEvent::Message { content: required(&mut fields, "content", MAX_CONTENT)? },
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

/// A document, checked as where the API takes one.
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

/// What a tool was called with; a tool that takes nothing may be given nothing.
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

    /// The events of the document, as they stand there.
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
