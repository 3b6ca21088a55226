//! An HTTP server of the agent's own, with connections and bodies bounded in number, size and time.
//!
//! One request for each connection, answered in JSON. The caller of `bind` provides the function that answers.

use super::BindError;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::Serialize;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

/// The number of parallel connections. The kernel keeps further ones waiting.
const MAX_CONNECTIONS: usize = 128;
/// The time for writing the last answers when the server stops, and some room beyond the other limits.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// The number of bytes read of a body that is too large, so that its sender sees the answer.
const DRAIN: usize = 4 * 1024 * 1024;
const DRAIN_TIME: Duration = Duration::from_secs(2);

/// The time limit for each step of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) head: Duration,
    pub(crate) body: Duration,
    pub(crate) answer: Duration,
}

/// A server. Dropping it stops it; [`Server::close`] sends the last answers first.
#[derive(Debug)]
pub(crate) struct Server {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Server {
    /// Listens on `address`, such as `127.0.0.1:8788` (port 0 picks a free port), and answers with `answer`.
    pub(crate) async fn bind<A, F>(address: &str, limits: Limits, answer: A) -> Result<Self, BindError>
    where
        A: Fn(IpAddr, Request<Incoming>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Response<Full<Bytes>>> + Send + 'static,
    {
        let failed = |source| BindError::Listen { address: address.to_owned(), source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(serve(listener, limits, answer, stopped));
        Ok(Self { address, stop, task })
    }

    /// Returns the address it listens on.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops taking requests and waits for a short while until the last answers are sent.
    pub(crate) async fn close(self) {
        drop(self.stop);
        // The task returns nothing, and a panic was printed already.
        self.task.await.ok();
    }
}

async fn serve<A, F>(listener: TcpListener, limits: Limits, answer: A, mut stopped: oneshot::Receiver<()>)
where
    A: Fn(IpAddr, Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<Full<Bytes>>> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let full = connections.len() >= MAX_CONNECTIONS;
        tokio::select! {
            _ = &mut stopped => break,
            _ = connections.join_next(), if full => {}
            accepted = listener.accept(), if !full => match accepted {
                Ok((stream, peer)) => {
                    let (answer, from) = (answer.clone(), peer.ip().to_canonical());
                    connections.spawn(connection(stream, limits, move |request| answer(from, request)));
                }
                // This is most likely a lack of file descriptors, which passes when connections end.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            },
        }
    }
    drop(listener);
    let ended = async { while connections.join_next().await.is_some() {} };
    // Connections that are still open after that are cut.
    timeout(LAST_WORDS, ended).await.ok();
}

/// Handles one connection with one request. It always ends in time.
async fn connection<F>(stream: TcpStream, limits: Limits, answer: impl Fn(Request<Incoming>) -> F)
where
    F: Future<Output = Response<Full<Bytes>>>,
{
    let service = service_fn(|request| {
        let answer = answer(request);
        async { Ok::<_, Infallible>(answer.await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_headers(64)
        .max_buf_size(64 * 1024)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    let limit = limits.head + limits.body + limits.answer + 2 * LAST_WORDS;
    // A peer that has disconnected cannot be told of an error.
    drop(timeout(limit, connection).await);
}

/// The reason why a body was not read.
#[derive(Debug, Clone, Copy, thiserror::Error)]
pub(crate) enum BodyFault {
    #[error("the body must be at most {0} bytes")]
    TooLarge(usize),
    #[error("the body broke off")]
    Broken,
    #[error("the body did not arrive in time")]
    Late,
}

impl BodyFault {
    /// Returns the status of the response.
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Broken => StatusCode::BAD_REQUEST,
            Self::Late => StatusCode::REQUEST_TIMEOUT,
        }
    }
}

/// Reads the whole body if it has at most `max` bytes and comes in time.
pub(crate) async fn read_body(body: Incoming, max: usize, limit: Duration) -> Result<Bytes, BodyFault> {
    if body.size_hint().lower() > max as u64 {
        // The result is ignored: the answer is the same.
        drop(timeout(DRAIN_TIME, Limited::new(body, DRAIN).collect()).await);
        return Err(BodyFault::TooLarge(max));
    }
    match timeout(limit, Limited::new(body, max).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(BodyFault::TooLarge(max)),
        Ok(Err(_)) => Err(BodyFault::Broken),
        Err(_) => Err(BodyFault::Late),
    }
}

/// Builds a response in JSON.
pub(crate) fn json_answer(
    status: StatusCode,
    header: Option<(HeaderName, &'static str)>,
    body: &impl Serialize,
) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(serde_json::to_vec(body).unwrap_or_default()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some((name, value)) = header {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
