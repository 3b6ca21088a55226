//! Posts of a service to an agent's connection string.

use super::{
    MAX_CONTENT, MAX_CONTEXT, MAX_HEADER, MAX_HEADERS, MAX_ID, MAX_MCP_SERVERS, MAX_NAME, WebUrl, optional,
    parse, required,
};
use crate::faults::{Faults, Fields, kind};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;

/// A message in another service's channel, with what an agent needs to answer. Unknown members are kept.
#[derive(Clone, PartialEq, Serialize, utoipa::ToSchema)]
#[schema(as = ForeignPost)]
pub struct Post {
    /// The channel of the message.
    pub channel: Channel,
    /// The message.
    pub message: Message,
    // The URL is kept verbatim. Anyone who knows it can speak as the agent.
    /// The URL to which the agent POSTs its output.
    #[schema(value_type = WebUrl)]
    pub callback: String,
    // On the wire one server is an object and several are an array.
    /// The tools for the agent.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "one_or_several")]
    #[schema(value_type = Option<McpServer>)]
    pub mcp: Vec<McpServer>,
}

/// The response to a post, sent after the message is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Received {
    /// Always `true`.
    pub ok: bool,
}

/// A channel of another service.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, utoipa::ToSchema)]
#[schema(as = ForeignChannel)]
pub struct Channel {
    /// The channel's id, the same for all its messages.
    #[schema(min_length = 1, max_length = 256)]
    pub id: String,
    /// The channel's current name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 256)]
    pub name: Option<String>,
    /// The name of the service.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 256)]
    pub service: Option<String>,
    /// The purpose and the owner of the channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 10_000)]
    pub context: Option<String>,
}

/// A message of another service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[schema(as = ForeignMessage)]
pub struct Message {
    /// The message's id, unique in its channel. A repeated id is not delivered again within 48 hours.
    #[schema(min_length = 1, max_length = 256)]
    pub id: String,
    // A display name.
    /// The author of the message.
    #[schema(min_length = 1, max_length = 256)]
    pub sender: String,
    /// The text, plain or markdown.
    #[schema(min_length = 1, max_length = 100_000)]
    pub content: String,
}

// The server is passed to an MCP client unchanged. The rules for headers exceed what a schema can express, so
// the schema omits them.
/// An MCP server. The object `headers` holds the headers to send with each request. Several servers may be
/// given as an array.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = ForeignMcp)]
pub struct McpServer {
    /// The name that distinguishes it from other servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(ignore)]
    pub name: Option<String>,
    /// The URL of the server.
    #[schema(value_type = WebUrl)]
    pub url: String,
    /// The headers to send with every request.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(ignore)]
    pub headers: BTreeMap<String, String>,
    /// All other members that the service sent.
    #[serde(flatten)]
    #[schema(ignore)]
    pub other: Map<String, Value>,
}

impl fmt::Debug for Post {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Post")
            .field("channel", &self.channel)
            .field("message", &self.message)
            .field("mcp", &self.mcp)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for McpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpServer").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Post {
    /// Reads and validates a body.
    pub fn read(bytes: &[u8]) -> Result<Self, Faults> {
        Self::of(&parse(bytes, "body")?)
    }

    fn of(body: &Value) -> Result<Self, Faults> {
        let mut faults = Faults::new();
        let post = read_post(body, &mut faults);
        post.filter(|_| faults.is_empty()).ok_or(faults)
    }
}

/// The server-sent event `channel` of an inbox: a post of another service with the hub's trace id.
#[derive(Debug, Clone, PartialEq)]
pub struct InboxPost {
    /// The trace id shared by everything this message causes.
    pub trace_id: Option<String>,
    /// The post as the service sent it.
    pub post: Post,
}

impl InboxPost {
    /// Reads and validates the data of the event.
    pub fn read(bytes: &[u8]) -> Result<Self, Faults> {
        let body = parse(bytes, "body")?;
        let trace_id = body.get("trace_id").and_then(Value::as_str).map(str::to_owned);
        Ok(Self { trace_id, post: Post::of(&body)? })
    }
}

fn read_post(body: &Value, faults: &mut Faults) -> Option<Post> {
    let mut fields = Fields::of(body, "", faults)?;
    let channel = fields.required("channel").and_then(|value| read_channel(value, fields.faults()));
    let message = fields.required("message").and_then(|value| read_message(value, fields.faults()));
    let callback = read_url(&mut fields, "callback");
    let mcp = match fields.get("mcp") {
        None => Vec::new(),
        Some(Value::Array(servers)) if servers.len() > MAX_MCP_SERVERS => {
            fields.fault("mcp", format_args!("must hold at most {MAX_MCP_SERVERS} servers"));
            Vec::new()
        }
        Some(Value::Array(servers)) => {
            let read = |(n, server)| read_mcp(server, &format!("mcp[{n}]"), fields.faults());
            servers.iter().enumerate().filter_map(read).collect()
        }
        Some(server) => read_mcp(server, "mcp", fields.faults()).into_iter().collect(),
    };
    Some(Post { channel: channel?, message: message?, callback: callback?, mcp })
}

fn read_channel(value: &Value, faults: &mut Faults) -> Option<Channel> {
    let mut fields = Fields::of(value, "channel", faults)?;
    let id = required(&mut fields, "id", MAX_ID);
    let name = optional(&mut fields, "name", MAX_NAME);
    let service = optional(&mut fields, "service", MAX_NAME);
    let context = optional(&mut fields, "context", MAX_CONTEXT);
    Some(Channel { id: id?, name, service, context })
}

fn read_message(value: &Value, faults: &mut Faults) -> Option<Message> {
    let mut fields = Fields::of(value, "message", faults)?;
    let id = required(&mut fields, "id", MAX_ID);
    let sender = required(&mut fields, "sender", MAX_NAME);
    let content = required(&mut fields, "content", MAX_CONTENT);
    Some(Message { id: id?, sender: sender?, content: content? })
}

fn read_mcp(value: &Value, path: &str, faults: &mut Faults) -> Option<McpServer> {
    let mut fields = Fields::of(value, path, faults)?;
    let name = optional(&mut fields, "name", MAX_NAME);
    let url = read_url(&mut fields, "url");
    let headers = match fields.get("headers") {
        None => BTreeMap::new(),
        Some(Value::Object(headers)) => read_headers(headers, &mut fields),
        Some(other) => {
            fields.fault("headers", format_args!("must be an object, not {}", kind(other)));
            BTreeMap::new()
        }
    };
    let mut other = value.as_object().cloned().unwrap_or_default();
    other.retain(|name, _| !matches!(name.as_str(), "name" | "url" | "headers"));
    Some(McpServer { name, url: url?, headers, other })
}

fn read_headers(headers: &Map<String, Value>, fields: &mut Fields<'_, '_>) -> BTreeMap<String, String> {
    if headers.len() > MAX_HEADERS {
        fields.fault("headers", format_args!("must hold at most {MAX_HEADERS} headers"));
        return BTreeMap::new();
    }
    let mut read = BTreeMap::new();
    for (name, value) in headers {
        // An invalid header name is not echoed.
        if !is_token(name) {
            fields.fault("headers", "must hold names of HTTP headers only");
            continue;
        }
        let path = format!("headers.{name}");
        match value {
            Value::String(value) if is_header_value(value) => {
                read.insert(name.clone(), value.clone());
            }
            Value::String(_) => {
                fields.fault(&path, format_args!("must be at most {MAX_HEADER} printable ASCII characters"));
            }
            other => fields.fault(&path, format_args!("must be a string, not {}", kind(other))),
        }
    }
    read
}

/// Returns `true` for a header name by RFC 9110 of limited length.
fn is_token(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(plain)
}

fn is_header_value(value: &str) -> bool {
    value.len() <= MAX_HEADER && value.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}

/// Reads a web URL and keeps it verbatim, since it may be signed.
fn read_url(fields: &mut Fields<'_, '_>, name: &str) -> Option<String> {
    let text = fields.required_text(name)?;
    if let Err(fault) = WebUrl::check(text) {
        fields.fault(name, fault);
    }
    Some(text.to_owned())
}

/// Writes one server as an object, as in the protocol document, and several as an array.
fn one_or_several<S: Serializer>(servers: &[McpServer], serializer: S) -> Result<S::Ok, S::Error> {
    match servers {
        [server] => server.serialize(serializer),
        several => several.serialize(serializer),
    }
}

#[cfg(test)]
mod tests {
    use super::super::MAX_URL;
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    /// The three posts in the protocol document, verbatim.
    const DOCUMENT: [&str; 3] = [
        include_str!("document/post_with_tools.json"),
        include_str!("document/post_without_tools.json"),
        include_str!("document/post_that_mentions.json"),
    ];

    fn read(body: &Value) -> Result<Post, Faults> {
        Post::read(body.to_string().as_bytes())
    }

    fn smallest() -> Value {
        json!({"channel": {"id": "c"}, "message": {"id": "m", "sender": "s", "content": "x"}, "callback": "http://s/cb"})
    }

    #[test]
    fn the_documents_posts_are_read_and_written_alike() {
        for text in DOCUMENT {
            let post = Post::read(text.as_bytes()).unwrap();
            let document: Value = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_value(&post).unwrap(), document);
        }
        let post = Post::read(DOCUMENT[0].as_bytes()).unwrap();
        assert_eq!(post.channel.name.as_deref(), Some("ops-team"));
        assert_eq!(post.message.sender, "alice");
        assert_eq!(post.mcp[0].headers["Authorization"], "Bearer eyJ...");
        assert!(Post::read(DOCUMENT[1].as_bytes()).unwrap().mcp.is_empty());
    }

    #[test]
    fn what_is_absent_is_not_written() {
        let mut body = smallest();
        assert_eq!(serde_json::to_value(read(&body).unwrap()).unwrap(), body);
        body["channel"]["name"] = Value::Null;
        body["mcp"] = Value::Null;
        body["novelty"] = json!({"x": 1});
        body["message"]["mood"] = "sunny".into();
        assert_eq!(serde_json::to_value(read(&body).unwrap()).unwrap(), smallest());
    }

    #[test]
    fn mcp_is_an_object_or_an_array() {
        let one = json!({"url": "https://s/mcp", "headers": {"A": "b"}, "transport": {"kind": "sse"}});
        let other = json!({"name": "files", "url": "https://s/files"});
        for (mcp, servers, written) in [
            (one.clone(), 1, one.clone()),
            (json!([one]), 1, one.clone()),
            (json!([one, other]), 2, json!([one, other])),
            (json!([]), 0, Value::Null),
        ] {
            let mut body = smallest();
            body["mcp"] = mcp;
            let post = read(&body).unwrap();
            assert_eq!(post.mcp.len(), servers);
            assert_eq!(serde_json::to_value(&post).unwrap()["mcp"], written);
        }
    }

    #[test]
    fn every_fault_at_once() {
        let body = json!({
            "channel": {"id": "", "name": 1, "service": "s".repeat(257), "context": "c".repeat(10_001)},
            "message": {"id": "i".repeat(257), "content": "c".repeat(100_001)},
            "callback": "ftp://s/cb",
            "mcp": [{"name": "n".repeat(257), "headers": {"a b": "x", "C": 1, "D": "\n"}}, 7]
        });
        assert_eq!(
            read(&body).unwrap_err().to_string(),
            "channel.id: must be 1 to 256 characters, not 0; channel.name: must be a string, not a number; \
             channel.service: must be 0 to 256 characters, not 257; \
             channel.context: must be 0 to 10000 characters, not 10001; \
             message.id: must be 1 to 256 characters, not 257; message.sender: is required; \
             message.content: must be 1 to 100000 characters, not 100001; \
             callback: must be an absolute http or https URL; \
             mcp[0].name: must be 0 to 256 characters, not 257; mcp[0].url: is required; \
             mcp[0].headers.C: must be a string, not a number; \
             mcp[0].headers.D: must be at most 8192 printable ASCII characters; \
             mcp[0].headers: must hold names of HTTP headers only; mcp[1]: must be an object, not a number"
        );
        for (body, fault) in [
            ("{}", "channel: is required; message: is required; callback: is required"),
            ("[]", "body: must be an object, not an array"),
            ("", "body: is not acceptable JSON: EOF while parsing a value at line 1 column 0"),
        ] {
            assert_eq!(Post::read(body.as_bytes()).unwrap_err().to_string(), fault);
        }
        assert_eq!(Post::read(b"\xff").unwrap_err().to_string(), "body: is not valid UTF-8 (byte 0)");
    }

    #[test]
    fn what_mcp_must_not_be() {
        for (mcp, fault) in [
            (json!("https://s/mcp"), "mcp: must be an object, not a string"),
            (json!({"url": "s/mcp"}), "mcp.url: must be an absolute http or https URL"),
            (json!({"url": "https://s", "headers": []}), "mcp.headers: must be an object, not an array"),
            (json!(vec![json!({}); 21]), "mcp: must hold at most 20 servers"),
        ] {
            let mut body = smallest();
            body["mcp"] = mcp;
            assert_eq!(read(&body).unwrap_err().to_string(), fault);
        }
        let mut body = smallest();
        let headers: Map<String, Value> = (0..51).map(|n| (format!("h{n}"), json!(""))).collect();
        body["mcp"] = json!({"url": "https://s", "headers": headers});
        assert_eq!(read(&body).unwrap_err().to_string(), "mcp.headers: must hold at most 50 headers");
    }

    #[test]
    fn callbacks() {
        for (text, good) in [
            ("https://s.example/cb?sig=%2F#x", true),
            ("http://127.0.0.1:9/cb", true),
            ("HTTPS://S.example/", true),
            (" https://s.example/", false),
            ("https://s.example/a\nb", false),
            ("//s.example/cb", false),
            ("/cb", false),
            ("javascript:alert(1)", false),
            ("", false),
        ] {
            let mut body = smallest();
            body["callback"] = text.into();
            assert_eq!(read(&body).is_ok(), good, "{text}");
        }
        let mut body = smallest();
        body["callback"] = format!("http://s/{}", "x".repeat(MAX_URL)).into();
        assert_eq!(read(&body).unwrap_err().to_string(), "callback: must be at most 4096 bytes");
    }

    #[test]
    fn debugging_shows_no_secret() {
        let shown = format!("{:?}", Post::read(DOCUMENT[0].as_bytes()).unwrap());
        assert!(shown.contains("What's the weather") && !shown.contains("tok_") && !shown.contains("Bearer"));
    }

    prop_compose! {
        fn servers()(name in proptest::option::of("[^\0]{0,20}"), path in "[a-z0-9/]{0,20}",
            headers in proptest::collection::btree_map("[A-Za-z-]{1,10}", "[ -~]{0,20}", 0..4),
            other in proptest::collection::btree_map("x_[a-z]{1,5}", "[^\0]{0,5}", 0..3)) -> McpServer {
            let other = other.into_iter().map(|(name, value)| (name, value.into())).collect();
            McpServer { name, url: format!("https://s.example/{path}"), headers, other }
        }
    }

    prop_compose! {
        fn posts()(id in "[^\0]{1,20}", optional in proptest::array::uniform3(proptest::option::of("[^\0]{0,20}")),
            said in proptest::array::uniform3("[^\0]{1,40}"), path in "[a-z0-9/]{0,20}",
            mcp in proptest::collection::vec(servers(), 0..4)) -> Post {
            let ([name, service, context], [message, sender, content]) = (optional, said);
            Post {
                channel: Channel { id, name, service, context },
                message: Message { id: message, sender, content },
                callback: format!("http://s.example/{path}"),
                mcp,
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(post in posts()) {
            prop_assert_eq!(Post::read(&serde_json::to_vec(&post).unwrap()).unwrap(), post);
        }

        #[test]
        fn nothing_panics(bytes in proptest::collection::vec(any::<u8>(), 0..100), cut in 0usize..600, byte: u8) {
            Post::read(&bytes).ok();
            let mut document = DOCUMENT[0].as_bytes().to_vec();
            let place = cut % document.len();
            document[place] = byte;
            Post::read(&document).ok();
        }
    }
}
