//! The interface between the protocol and the service that it serves.

use crate::revision::Revision;
use axum::http::{HeaderMap, Method};
use bytes::Bytes;
use chorus_protocol::rpc::{self, RpcError};
use futures_util::stream::BoxStream;
use serde_json::{Map, Value};
use std::future::Future;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// An authenticated HTTP request.
#[derive(Debug)]
pub struct Request {
    pub method: Method,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// The reasons for not handling a request.
#[derive(Debug)]
pub enum Failure<R> {
    /// The caller is not admitted and is told only this.
    Refused(R),
    /// The request is invalid, or the service failed. A failed tool call is a result instead.
    Rpc(RpcError),
}

impl<R> From<RpcError> for Failure<R> {
    fn from(error: RpcError) -> Self {
        Self::Rpc(error)
    }
}

/// The server's description of itself.
#[derive(Debug, Clone)]
pub struct About {
    /// The capabilities of the server.
    pub capabilities: Value,
    /// The instructions for a model.
    pub instructions: String,
}

/// A request to the service.
#[derive(Debug, Clone)]
pub struct Ask {
    pub revision: Revision,
    /// The id of the session; `None` for stateless requests.
    pub session: Option<String>,
    pub method: String,
    pub params: Map<String, Value>,
    /// The capabilities of a stateless client.
    pub capabilities: Value,
}

/// A sender of messages that precede a result.
#[derive(Debug, Clone)]
pub struct Outlet(pub(crate) mpsc::Sender<Value>);

impl Outlet {
    /// Sends a message. It waits for a slow client.
    pub async fn say(&self, message: Value) {
        // A client that has disconnected will not receive the result either.
        drop(self.0.send(message).await);
    }
}

/// The content of a stream of notices.
#[derive(Debug, Clone)]
pub enum Wants {
    /// The subscriptions of a session, resumed after a notice.
    Session {
        id: String,
        /// The id of the last notice that the client received.
        after: Option<i64>,
    },
    /// The filter of a `subscriptions/listen` request.
    Filter(Map<String, Value>),
}

/// A stream of notices.
pub struct Notices {
    /// The accepted part of the filter.
    pub accepted: Value,
    /// The notices; the stream ends after the last one.
    pub stream: BoxStream<'static, Notice>,
}

/// A notification to a client.
#[derive(Debug, Clone, PartialEq)]
pub struct Notice {
    /// The id from which a stream can be resumed.
    pub id: Option<i64>,
    /// The method, `notifications/…`.
    pub method: &'static str,
    pub params: Map<String, Value>,
}

/// A service behind the protocol.
///
/// Every call is made for one caller, and only the service knows whether the caller is admitted.
/// [`check_session`](Self::check_session) admits callers; before that only [`call`](Self::call) may be used.
pub trait Service: Send + Sync + 'static {
    /// The error for a caller that is not admitted.
    type Refusal: Send + 'static;

    /// Admits the caller. Returns `true` if the session belongs to it.
    fn check_session(
        &self,
        session: Option<&str>,
    ) -> impl Future<Output = Result<bool, Self::Refusal>> + Send;
    /// Returns the server's `name`, `title` and `version`.
    fn info(&self) -> Value;
    /// Returns the server's description of itself.
    fn about(&self) -> impl Future<Output = Result<About, Failure<Self::Refusal>>> + Send;
    /// Opens a session and returns its id.
    fn begin(&self) -> impl Future<Output = Result<String, Failure<Self::Refusal>>> + Send;
    /// Ends a session.
    fn end(&self, session: &str) -> impl Future<Output = Result<(), Failure<Self::Refusal>>> + Send;
    /// Handles a request. A request without a session comes from a caller that is not admitted yet: the
    /// service admits it while it reads the answer, which saves one visit to the store.
    fn call(
        &self,
        ask: Ask,
        out: Outlet,
    ) -> impl Future<Output = Result<Value, Failure<Self::Refusal>>> + Send;
    /// Returns a stream of changes from now on.
    fn notices(&self, wants: Wants) -> impl Future<Output = Result<Notices, Failure<Self::Refusal>>> + Send;
    /// Receives a client's response to a request of the server.
    fn heard(&self, _session: &str, _response: rpc::Response) {}
    /// Returns the interval of keep-alive comments on a quiet stream.
    fn ping(&self) -> Duration;
    /// Returns a token that is cancelled when the server stops.
    fn stopping(&self) -> CancellationToken;
}
