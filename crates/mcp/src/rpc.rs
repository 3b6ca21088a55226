//! JSON-RPC 2.0 as MCP speaks it: one message a body, ids that are texts or integers, parameters by name.

use chorus_protocol::json;
use serde_json::{Map, Value, json};

/// An error of the protocol: what was asked cannot be asked so. What a tool could not do is a result.
#[derive(Debug, Clone, PartialEq)]
pub struct RpcError {
    /// One of the constants.
    pub code: i64,
    /// For a person.
    pub message: String,
    /// For a program.
    pub data: Option<Value>,
}

impl RpcError {
    /// Not JSON.
    pub const PARSE: i64 = -32700;
    /// JSON, but no message.
    pub const INVALID_REQUEST: i64 = -32600;
    /// No such method in this revision.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// A method, but not with these parameters.
    pub const INVALID_PARAMS: i64 = -32602;
    /// Our own mistake, or trouble.
    pub const INTERNAL: i64 = -32603;
    /// What revisions up to 2025-11-25 call a resource that is not there.
    pub const RESOURCE_NOT_FOUND: i64 = -32002;
    /// The headers do not say what the body says.
    pub const HEADER_MISMATCH: i64 = -32020;
    /// It needs something that the client did not say it can do.
    pub const MISSING_CAPABILITY: i64 = -32021;
    /// This revision is not spoken here.
    pub const UNSUPPORTED_VERSION: i64 = -32022;

    /// An error without data.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// The parameters are wrong.
    pub fn params(message: impl Into<String>) -> Self {
        Self::new(Self::INVALID_PARAMS, message)
    }

    /// There is no such method.
    pub fn method(method: &str) -> Self {
        Self::new(Self::METHOD_NOT_FOUND, format!("there is no method {method:?} in this revision"))
    }

    /// The same with data.
    #[must_use]
    pub fn with(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    /// The response that carries it; without an id if none could be read.
    pub(crate) fn response(&self, id: Option<&Value>) -> Value {
        let mut error = json!({"code": self.code, "message": self.message});
        if let Some(data) = &self.data {
            error["data"] = data.clone();
        }
        let mut response = json!({"jsonrpc": "2.0", "error": error});
        if let Some(id) = id {
            response["id"] = id.clone();
        }
        response
    }
}

/// An object of these fields. It takes what is in them, where `json!` would copy all of it.
pub(crate) fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// One message of a client.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Message {
    Request { id: Value, method: String, params: Map<String, Value> },
    Notification { method: String },
    Response(Value),
}

impl Message {
    /// Reads a body, or says what is wrong with it, to the request of this id if it can be told.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, (Option<Value>, RpcError)> {
        let invalid = |id: Option<&Value>, what: &str| {
            (id.cloned(), RpcError::new(RpcError::INVALID_REQUEST, what.to_owned()))
        };
        let body =
            json::parse(bytes).map_err(|error| (None, RpcError::new(RpcError::PARSE, error.to_string())))?;
        let Value::Object(mut body) = body else {
            let batch = body.is_array();
            let what = if batch {
                "batches are not part of this protocol; send one message a request"
            } else {
                "a message is an object"
            };
            return Err(invalid(None, what));
        };
        let id = body.remove("id");
        let readable = id.as_ref().filter(|id| id.is_string() || id.is_i64() || id.is_u64());
        if body.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return Err(invalid(readable, "jsonrpc: must be \"2.0\""));
        }
        let method = match body.remove("method") {
            Some(Value::String(method)) => method,
            Some(_) => return Err(invalid(readable, "method: must be a text")),
            None if readable.is_some() && (body.contains_key("result") != body.contains_key("error")) => {
                body.extend(id.map(|id| ("id".to_owned(), id)));
                return Ok(Self::Response(Value::Object(body)));
            }
            None => {
                return Err(invalid(
                    readable,
                    "a message has a method, or is a response with a result or an error",
                ));
            }
        };
        if id.is_some() && readable.is_none() {
            return Err(invalid(None, "id: must be a text or an integer"));
        }
        let params = match body.remove("params") {
            None => Map::new(),
            Some(Value::Object(params)) => params,
            Some(_) => return Err((id, RpcError::params("params: must be an object"))),
        };
        Ok(match id {
            Some(id) => Self::Request { id, method, params },
            None => Self::Notification { method },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_told_apart() {
        let read = |body: Value| Message::read(body.to_string().as_bytes());
        let request = read(json!({"jsonrpc": "2.0", "id": 7, "method": "ping"}));
        assert_eq!(request, Ok(Message::Request { id: json!(7), method: "ping".into(), params: Map::new() }));
        let notification =
            read(json!({"jsonrpc": "2.0", "method": "notifications/initialized", "params": {}}));
        assert_eq!(notification, Ok(Message::Notification { method: "notifications/initialized".into() }));
        let response = json!({"jsonrpc": "2.0", "id": "a", "result": {}});
        assert_eq!(read(response.clone()), Ok(Message::Response(response)));
    }

    #[test]
    fn what_is_no_message_is_refused_to_its_id() {
        for (body, id, code) in [
            ("", None, RpcError::PARSE),
            ("{", None, RpcError::PARSE),
            (r#"{"jsonrpc": "2.0", "id": 1, "id": 2, "method": "ping"}"#, None, RpcError::PARSE),
            ("[]", None, RpcError::INVALID_REQUEST),
            (r#"[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]"#, None, RpcError::INVALID_REQUEST),
            ("7", None, RpcError::INVALID_REQUEST),
            ("{}", None, RpcError::INVALID_REQUEST),
            (r#"{"jsonrpc": "1.0", "id": 1, "method": "ping"}"#, Some(json!(1)), RpcError::INVALID_REQUEST),
            (r#"{"jsonrpc": "2.0", "id": 1, "method": 5}"#, Some(json!(1)), RpcError::INVALID_REQUEST),
            (r#"{"jsonrpc": "2.0", "id": null, "method": "ping"}"#, None, RpcError::INVALID_REQUEST),
            (r#"{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}"#, None, RpcError::INVALID_REQUEST),
            (r#"{"jsonrpc": "2.0", "id": {}, "method": "ping"}"#, None, RpcError::INVALID_REQUEST),
            (r#"{"jsonrpc": "2.0", "id": 1}"#, Some(json!(1)), RpcError::INVALID_REQUEST),
            (
                r#"{"jsonrpc": "2.0", "id": 1, "result": {}, "error": {}}"#,
                Some(json!(1)),
                RpcError::INVALID_REQUEST,
            ),
            (
                r#"{"jsonrpc": "2.0", "id": "x", "method": "ping", "params": []}"#,
                Some(json!("x")),
                RpcError::INVALID_PARAMS,
            ),
        ] {
            let (told, error) = Message::read(body.as_bytes()).unwrap_err();
            assert_eq!((told, error.code), (id, code), "{body}");
        }
    }
}
