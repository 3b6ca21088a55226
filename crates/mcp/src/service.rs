//! What is served by the protocol, and the words in which the two talk: nothing here knows how it is done.

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

/// A request, read and authenticated.
#[derive(Debug)]
pub struct Request {
    /// GET, POST or DELETE.
    pub method: Method,
    /// All of them.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
}

/// Why something is not done.
#[derive(Debug)]
pub enum Failure<R> {
    /// The caller may not be here: it is told this and nothing else.
    Refused(R),
    /// What was asked cannot be asked so, or there is trouble. What a tool could not do is a result.
    Rpc(RpcError),
}

impl<R> From<RpcError> for Failure<R> {
    fn from(error: RpcError) -> Self {
        Self::Rpc(error)
    }
}

/// What a server says of itself.
#[derive(Debug, Clone)]
pub struct About {
    /// What it serves.
    pub capabilities: Value,
    /// For a model.
    pub instructions: String,
}

/// One request.
#[derive(Debug, Clone)]
pub struct Ask {
    /// How the client speaks.
    pub revision: Revision,
    /// Its session, if it has one.
    pub session: Option<String>,
    /// What is asked.
    pub method: String,
    /// With what.
    pub params: Map<String, Value>,
    /// What a stateless client can do.
    pub capabilities: Value,
}

/// For what is said before a result.
#[derive(Debug, Clone)]
pub struct Outlet(pub(crate) mpsc::Sender<Value>);

impl Outlet {
    /// Says something; it waits for a slow client.
    pub async fn say(&self, message: Value) {
        // Who does not listen any more will not hear the result either.
        drop(self.0.send(message).await);
    }
}

/// What a stream of notices is to tell.
#[derive(Debug, Clone)]
pub enum Wants {
    /// Whatever the session asked for, going on after this notice.
    Session {
        /// Which session.
        id: String,
        /// The last notice that was seen.
        after: Option<i64>,
    },
    /// What this filter of `subscriptions/listen` names.
    Filter(Map<String, Value>),
}

/// A stream of notices.
pub struct Notices {
    /// What of the filter is honoured.
    pub accepted: Value,
    /// Until there will be no more.
    pub stream: BoxStream<'static, Notice>,
}

/// Something that a client is told unasked.
#[derive(Debug, Clone, PartialEq)]
pub struct Notice {
    /// Where a stream goes on after it.
    pub id: Option<i64>,
    /// `notifications/…`.
    pub method: &'static str,
    /// With what.
    pub params: Map<String, Value>,
}

/// What is served.
///
/// Everything is asked for one caller, of whom only the service knows whether he may be here. [`check_session`](Self::check_session) looks;
/// nothing else but [`call`](Self::call) is asked before it has let somebody in.
pub trait Service: Send + Sync + 'static {
    /// Why a caller may not be here.
    type Refusal: Send + 'static;

    /// Whether the caller may be here at all, and whether this is a session of his.
    fn check_session(
        &self,
        session: Option<&str>,
    ) -> impl Future<Output = Result<bool, Self::Refusal>> + Send;
    /// Which server this is: `name`, `title`, `version`.
    fn info(&self) -> Value;
    /// What the server says of itself.
    fn about(&self) -> impl Future<Output = Result<About, Failure<Self::Refusal>>> + Send;
    /// Opens a session.
    fn begin(&self) -> impl Future<Output = Result<String, Failure<Self::Refusal>>> + Send;
    /// Ends one.
    fn end(&self, session: &str) -> impl Future<Output = Result<(), Failure<Self::Refusal>>> + Send;
    /// Answers a request. Without a session nobody has let the caller in yet: it is looked up here, where what is answered is
    /// read, so that it costs one visit to the store and not two.
    fn call(
        &self,
        ask: Ask,
        out: Outlet,
    ) -> impl Future<Output = Result<Value, Failure<Self::Refusal>>> + Send;
    /// Tells what changes, from now on.
    fn notices(&self, wants: Wants) -> impl Future<Output = Result<Notices, Failure<Self::Refusal>>> + Send;
    /// A client's answer to something it was asked.
    fn heard(&self, _session: &str, _response: rpc::Response) {}
    /// How often a quiet stream shows that it lives.
    fn ping(&self) -> Duration;
    /// Cancelled when the server stops.
    fn stopping(&self) -> CancellationToken;
}
