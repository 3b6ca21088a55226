//! The hub's own API, `/api/v1`: conversations, agents and deliveries, as plain JSON.
//!
//! Reads and writes are retried by the client's [`crate::Retry`] policy. All tries of a write carry the same
//! idempotency key, so that the write happens once. Responses are read as a type of `chorus_protocol::api`, or
//! as a [`serde_json::Value`] by callers that pass them on unchanged.

use crate::client::IDEMPOTENCY_KEY;
use crate::{Client, ClientError, Inbox, answer};
use chorus_protocol::c2a::{ChatTool, ToolResult};
use chorus_protocol::code::Code;
use chorus_protocol::rpc::Notification;
use chorus_protocol::schema;
use reqwest::RequestBuilder;
use reqwest::header::CONTENT_TYPE;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use url::Url;

pub use reqwest::Method;

const API: &str = "/api/v1";

/// The segments of a path below `/api/v1`. Each is percent-encoded, so that it stays one segment.
pub type ApiPath<'a> = &'a [&'a str];

impl Client {
    /// Sends a GET request below `/api/v1`.
    pub async fn api_get<T: DeserializeOwned>(
        &self,
        path: ApiPath<'_>,
        query: &[(&str, &str)],
    ) -> Result<T, ClientError> {
        self.read_at(API, path, query).await
    }

    /// Sends a GET request below another path of the hub.
    pub(crate) async fn read_at<T: DeserializeOwned>(
        &self,
        base: &str,
        path: ApiPath<'_>,
        query: &[(&str, &str)],
    ) -> Result<T, ClientError> {
        let url = self.url_at(base, path, query)?;
        self.api_call(|| self.request(Method::GET, url.clone())).await
    }

    /// Sends a writing request below `/api/v1`, with a JSON body if there is one.
    pub async fn api_write<T: DeserializeOwned>(
        &self,
        method: Method,
        path: ApiPath<'_>,
        query: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Result<T, ClientError> {
        self.write_at(API, method, path, query, body).await
    }

    /// Sends a writing request below another path of the hub.
    pub(crate) async fn write_at<T: DeserializeOwned>(
        &self,
        base: &str,
        method: Method,
        path: ApiPath<'_>,
        query: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Result<T, ClientError> {
        let url = self.url_at(base, path, query)?;
        let key = self.key_header(None)?;
        self.api_call(|| {
            let request = self.request(method.clone(), url.clone()).header(IDEMPOTENCY_KEY, key.clone());
            match body {
                Some(body) => request.header(CONTENT_TYPE, "application/json").body(body.to_string()),
                None => request,
            }
        })
        .await
    }

    /// Sends one C2A notification to the hub. A hub without C2A answers 404, which counts as success.
    pub(crate) async fn tell_c2a(
        &self,
        method: chorus_protocol::c2a::Method,
        params: Map<String, Value>,
    ) -> Result<(), ClientError> {
        let notice = json!(Notification { method: method.as_str().to_owned(), params });
        match self.write_at::<Value>("/c2a", Method::POST, &[], &[], Some(&notice)).await {
            Err(error) if error.code() == Some(Code::NotFound) => Ok(()),
            told => told.map(drop),
        }
    }

    /// Calls a tool of the hub by a single C2A request.
    pub(crate) async fn call_c2a(
        &self,
        tool: ChatTool,
        arguments: &Map<String, Value>,
    ) -> Result<ToolResult, ClientError> {
        let params = json!({"name": tool.as_str(), "arguments": arguments});
        let method = chorus_protocol::c2a::Method::CallTool.as_str();
        let call = json!({"jsonrpc": "2.0", "id": "1", "method": method, "params": params});
        let mut answer: Value = self.write_at("/c2a", Method::POST, &[], &[], Some(&call)).await?;
        if let Some(why) = answer.pointer("/error/message").and_then(Value::as_str) {
            return Err(ClientError::Protocol(format!("the hub refused the call: {why}")));
        }
        let result = answer.get_mut("result").map(Value::take).unwrap_or_default();
        schema::read(result).map_err(|faults| ClientError::Protocol(format!("not a tool's result: {faults}")))
    }

    /// Follows a conversation: from after the sequence number `after`, or from now on.
    pub fn follow(&self, channel: &str, after: Option<&str>) -> Result<Inbox, ClientError> {
        let url = self.url_at(API, &["channels", channel, "stream"], &[])?;
        Ok(Inbox::of_stream(self.clone(), url, after.map(str::to_owned)))
    }

    fn url_at(&self, base: &str, path: ApiPath<'_>, query: &[(&str, &str)]) -> Result<Url, ClientError> {
        let mut url = self.url(base)?;
        let segments = url.path_segments_mut().map(|mut segments| {
            segments.extend(path);
        });
        segments.map_err(|()| ClientError::Protocol("the hub's address cannot have paths".into()))?;
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        Ok(url)
    }

    async fn api_call<T: DeserializeOwned>(
        &self,
        request: impl Fn() -> RequestBuilder,
    ) -> Result<T, ClientError> {
        let mut failures = 0;
        loop {
            let result = async { answer::read_any(self.call(request()).await?).await }.await;
            let asked = result.as_ref().err().and_then(ClientError::transient);
            let Some(pause) = asked.and_then(|asked| self.pause(failures, asked)) else {
                return result.map_err(ClientError::beyond_relay);
            };
            tokio::time::sleep(pause).await;
            failures += 1;
        }
    }
}
