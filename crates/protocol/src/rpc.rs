//! JSON-RPC 2.0 as used by the Chorus protocols: one message at a time, ids that are texts or integers,
//! parameters by name.
//!
//! This module reads and writes messages. Callers define the methods and map errors to their transport.

use crate::json::{self, Rules};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Number, Value};
use std::fmt;

/// The id of a request, which its response repeats.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Id {
    Text(String),
    Number(Number),
}

impl Id {
    fn read(value: Value) -> Option<Self> {
        match value {
            Value::String(text) => Some(Self::Text(text)),
            Value::Number(number) if number.is_i64() || number.is_u64() => Some(Self::Number(number)),
            _ => None,
        }
    }
}

impl From<i64> for Id {
    fn from(number: i64) -> Self {
        Self::Number(number.into())
    }
}

impl From<&str> for Id {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// A request that expects a response.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The id that the response repeats.
    pub id: Id,
    pub method: String,
    pub params: Map<String, Value>,
}

/// A message without a response.
#[derive(Debug, Clone, PartialEq)]
pub struct Notification {
    pub method: String,
    pub params: Map<String, Value>,
}

/// The response to a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    /// The id of the request; `None` if it could not be read.
    pub id: Option<Id>,
    /// The result or the error.
    pub outcome: Result<Value, RpcError>,
}

#[derive(Debug, Clone, PartialEq, Serialize, thiserror::Error)]
#[error("{message}")]
pub struct RpcError {
    /// One of the constants below, or a code of the protocol on top.
    pub code: i64,
    /// The message for people.
    pub message: String,
    /// Details for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl RpcError {
    /// The body is not JSON.
    pub const PARSE: i64 = -32700;
    /// The body is JSON but not a message.
    pub const INVALID_REQUEST: i64 = -32600;
    /// The method does not exist.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The parameters do not fit the method.
    pub const INVALID_PARAMS: i64 = -32602;
    /// The receiver failed.
    pub const INTERNAL: i64 = -32603;

    /// Creates an error without data.
    pub fn new(code: i64, message: impl fmt::Display) -> Self {
        Self { code, message: message.to_string(), data: None }
    }

    /// Creates an error for invalid parameters.
    pub fn params(message: impl fmt::Display) -> Self {
        Self::new(Self::INVALID_PARAMS, message)
    }

    /// Creates an error for an unknown method.
    pub fn method(method: &str) -> Self {
        Self::new(Self::METHOD_NOT_FOUND, format_args!("there is no method {method:?} in this revision"))
    }

    /// Adds data to the error.
    #[must_use]
    pub fn with(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    /// Reads an error from a response.
    fn read(value: &Value) -> Option<Self> {
        let (code, message) = (value["code"].as_i64()?, value["message"].as_str()?.to_owned());
        Some(Self { code, message, data: value.get("data").cloned() })
    }
}

/// A JSON-RPC message of any kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    Request(Request),
    Notification(Notification),
    Response(Response),
}

/// The reason why a text is not a message, with the id of its request.
#[derive(Debug, Clone, PartialEq)]
pub struct Unreadable {
    /// The id of the request; `None` if it could not be read.
    pub id: Option<Id>,
    pub error: RpcError,
}

impl From<Unreadable> for Response {
    fn from(unreadable: Unreadable) -> Self {
        Self { id: unreadable.id, outcome: Err(unreadable.error) }
    }
}

impl Message {
    /// Parses a message. A failure carries the id of the request if that could be read.
    pub fn read(bytes: &[u8]) -> Result<Self, Unreadable> {
        let body = json::parse(bytes).map_err(|error| Unreadable {
            id: id_despite_nul(bytes),
            error: RpcError::new(RpcError::PARSE, error),
        })?;
        let invalid =
            |id, what: &str| Err(Unreadable { id, error: RpcError::new(RpcError::INVALID_REQUEST, what) });
        let mut body = match body {
            Value::Object(body) => body,
            Value::Array(_) => {
                return invalid(None, "batches are not part of this protocol; send one message a request");
            }
            _ => return invalid(None, "a message is an object"),
        };
        let given = body.remove("id");
        let (has_id, is_null) = (given.is_some(), given == Some(Value::Null));
        let id = given.and_then(Id::read);
        if body.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return invalid(id, "jsonrpc: must be \"2.0\"");
        }
        let method = match body.remove("method") {
            Some(Value::String(method)) => method,
            Some(_) => return invalid(id, "method: must be a text"),
            None => {
                let outcome = match (body.remove("result"), body.remove("error")) {
                    (Some(result), None) => Some(Ok(result)),
                    (None, Some(error)) => RpcError::read(&error).map(Err),
                    _ => None,
                };
                return match (id, outcome) {
                    (Some(id), Some(outcome)) => Ok(Self::Response(Response { id: Some(id), outcome })),
                    // This is the peer's error about a message of ours that it could not read. Answering it
                    // could cause an endless exchange of errors.
                    (None, Some(Err(error))) if is_null => {
                        Ok(Self::Response(Response { id: None, outcome: Err(error) }))
                    }
                    (id, _) => {
                        invalid(id, "a message has a method, or is a response with a result or an error")
                    }
                };
            }
        };
        if has_id && id.is_none() {
            return invalid(None, "id: must be a text or an integer");
        }
        let params = match body.remove("params") {
            None => Map::new(),
            Some(Value::Object(params)) => params,
            Some(_) => return Err(Unreadable { id, error: RpcError::params("params: must be an object") }),
        };
        Ok(match id {
            Some(id) => Self::Request(Request { id, method, params }),
            None => Self::Notification(Notification { method, params }),
        })
    }
}

/// Returns the id of a request that is refused only because a text in it contains U+0000, so that its sender does
/// not wait for an answer.
fn id_despite_nul(bytes: &[u8]) -> Option<Id> {
    let mut body = json::parse_by(bytes, Rules { nul: true, ..Rules::default() }).ok()?;
    let members = body.as_object_mut().filter(|members| members.contains_key("method"))?;
    let id = members.remove("id").and_then(Id::read)?;
    let is_clean = !matches!(&id, Id::Text(text) if text.contains('\0'));
    is_clean.then_some(id)
}

impl Response {
    /// Reads a response leniently: the version may be missing, and an error needs only a message. A response
    /// with neither result nor error has the result `null`. Returns `None` if the value is no response.
    pub fn read(mut answer: Value) -> Option<Self> {
        let members = answer.as_object_mut()?;
        if members.get("method").is_some_and(|method| !method.is_null()) {
            return None;
        }
        let id = members.remove("id").and_then(Id::read);
        let error = members.get("error").unwrap_or(&Value::Null);
        let outcome = match error["message"].as_str() {
            Some(message) => {
                let code = error["code"].as_i64().unwrap_or(RpcError::INTERNAL);
                Err(RpcError { code, message: message.to_owned(), data: error.get("data").cloned() })
            }
            None => Ok(members.remove("result").unwrap_or_default()),
        };
        Some(Self { id, outcome })
    }
}

impl Serialize for Request {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(4))?;
        map.serialize_entry("jsonrpc", "2.0")?;
        map.serialize_entry("id", &self.id)?;
        map.serialize_entry("method", &self.method)?;
        map.serialize_entry("params", &self.params)?;
        map.end()
    }
}

impl Serialize for Notification {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("jsonrpc", "2.0")?;
        map.serialize_entry("method", &self.method)?;
        map.serialize_entry("params", &self.params)?;
        map.end()
    }
}

impl Serialize for Response {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("jsonrpc", "2.0")?;
        // The id is always written; it is `null` if the request's id could not be read.
        map.serialize_entry("id", &self.id)?;
        match &self.outcome {
            Ok(result) => map.serialize_entry("result", result)?,
            Err(error) => map.serialize_entry("error", error)?,
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn messages_are_told_apart_and_written_as_they_were_read() {
        let params = json!({"x": [1]}).as_object().cloned().unwrap();
        let request = Request { id: 7.into(), method: "ping".into(), params: params.clone() };
        let notification = Notification { method: "notifications/initialized".into(), params };
        let result = Response { id: Some("a".into()), outcome: Ok(json!({})) };
        let error = RpcError::params("wrong").with(json!({"uri": "x"}));
        let unread = Response { id: None, outcome: Err(error.clone()) };
        assert_eq!(json!(unread)["id"], Value::Null);
        assert!(json!(unread).as_object().unwrap().contains_key("id"));
        let error = Response { id: Some("b".into()), outcome: Err(error) };
        for (message, written) in [
            (Message::Request(request.clone()), json!(request)),
            (Message::Notification(notification.clone()), json!(notification)),
            (Message::Response(result.clone()), json!(result)),
            (Message::Response(error.clone()), json!(error)),
            (Message::Response(unread.clone()), json!(unread)),
        ] {
            assert_eq!(written["jsonrpc"], "2.0");
            assert_eq!(Message::read(written.to_string().as_bytes()), Ok(message), "{written}");
        }
        assert_eq!(json!(error)["error"], json!({"code": -32602, "message": "wrong", "data": {"uri": "x"}}));
    }

    #[test]
    fn an_answer_is_read_as_far_as_it_is_understood() {
        let (one, refused) = (Some(Id::from(1)), Err(RpcError::new(RpcError::INTERNAL, "no")));
        for (answer, outcome) in [
            (json!({"id": 1, "result": {"a": 1}}), Ok(json!({"a": 1}))),
            (json!({"jsonrpc": "2.0", "id": 1, "result": [], "error": null}), Ok(json!([]))),
            (json!({"id": 1, "error": {"message": "no"}}), refused),
            (json!({"id": 1}), Ok(Value::Null)),
        ] {
            assert_eq!(Response::read(answer), Some(Response { id: one.clone(), outcome }));
        }
        for none in [json!([]), json!(7), json!({"id": 1, "method": "sampling/createMessage"})] {
            assert_eq!(Response::read(none), None);
        }
    }

    #[test]
    fn what_is_no_message_is_refused_to_its_id() {
        let (none, one): (Option<Id>, Option<Id>) = (None, Some(1.into()));
        for (body, id, code) in [
            ("", &none, RpcError::PARSE),
            ("{", &none, RpcError::PARSE),
            (r#"{"jsonrpc": "2.0", "id": 1, "id": 2, "method": "ping"}"#, &none, RpcError::PARSE),
            // Its sender waits for the answer.
            (
                r#"{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"a": "\u0000"}}"#,
                &one,
                RpcError::PARSE,
            ),
            (r#"{"jsonrpc": "2.0", "id": "\u0000", "method": "ping"}"#, &none, RpcError::PARSE),
            (r#"{"jsonrpc": "2.0", "id": 1, "result": {"a": "\u0000"}}"#, &none, RpcError::PARSE),
            ("[]", &none, RpcError::INVALID_REQUEST),
            (r#"[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]"#, &none, RpcError::INVALID_REQUEST),
            ("7", &none, RpcError::INVALID_REQUEST),
            ("{}", &none, RpcError::INVALID_REQUEST),
            (r#"{"jsonrpc": "1.0", "id": 1, "method": "ping"}"#, &one, RpcError::INVALID_REQUEST),
            (r#"{"jsonrpc": "2.0", "id": 1, "method": 5}"#, &one, RpcError::INVALID_REQUEST),
            (r#"{"jsonrpc": "2.0", "id": null, "method": "ping"}"#, &none, RpcError::INVALID_REQUEST),
            (r#"{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}"#, &none, RpcError::INVALID_REQUEST),
            (r#"{"jsonrpc": "2.0", "id": {}, "method": "ping"}"#, &none, RpcError::INVALID_REQUEST),
            (r#"{"jsonrpc": "2.0", "id": 1}"#, &one, RpcError::INVALID_REQUEST),
            (r#"{"jsonrpc": "2.0", "id": null, "result": {}}"#, &none, RpcError::INVALID_REQUEST),
            (r#"{"jsonrpc": "2.0", "id": 1, "result": {}, "error": {}}"#, &one, RpcError::INVALID_REQUEST),
            (r#"{"jsonrpc": "2.0", "id": 1, "error": {"code": "x"}}"#, &one, RpcError::INVALID_REQUEST),
            (
                r#"{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}"#,
                &one,
                RpcError::INVALID_PARAMS,
            ),
        ] {
            let told = Message::read(body.as_bytes()).unwrap_err();
            assert_eq!((&told.id, told.error.code), (id, code), "{body}");
        }
    }
}
