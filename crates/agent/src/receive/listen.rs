//! One's own server: connections and bodies, bounded in number, size and time.
//!
//! One connection, one request, one answer in JSON. It knows nothing of what is received: whoever binds brings what
//! answers.

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

/// The most connections at a time; the kernel keeps further ones waiting.
const MAX_CONNECTIONS: usize = 128;
/// How long answers may take to be written when receiving ends, and beyond everything else.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// What is read of a body that is too large, so that its sender gets to see the answer.
const DRAIN: usize = 4 * 1024 * 1024;
const DRAIN_TIME: Duration = Duration::from_secs(2);

/// How long each step of a request may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) head: Duration,
    pub(crate) body: Duration,
    pub(crate) answer: Duration,
}

/// A server. It ends when it is dropped; [`Server::close`] lets the last answers out first.
#[derive(Debug)]
pub(crate) struct Server {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Server {
    /// Listens on `address`, such as `127.0.0.1:8788` (port 0 takes a free one), and lets `answer` answer.
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

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no more requests and waits, a short while, until those that were answered know it.
    pub(crate) async fn close(self) {
        drop(self.stop);
        // It has nothing to tell: a panic was shown already.
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
                // Out of file descriptors, most likely: it passes when connections end.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            },
        }
    }
    drop(listener);
    let ended = async { while connections.join_next().await.is_some() {} };
    // What is left after that is cut.
    timeout(LAST_WORDS, ended).await.ok();
}

/// One connection, one request: whatever the peer does, it is over in time.
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
    // A peer that breaks off has nobody left to be told.
    drop(timeout(limit, connection).await);
}

/// Why a body was not read.
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
    /// What to answer.
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Broken => StatusCode::BAD_REQUEST,
            Self::Late => StatusCode::REQUEST_TIMEOUT,
        }
    }
}

/// The whole body, if it is at most `max` bytes and comes in time.
pub(crate) async fn read_body(body: Incoming, max: usize, limit: Duration) -> Result<Bytes, BodyFault> {
    if body.size_hint().lower() > max as u64 {
        // Its outcome does not matter: the answer is the same.
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

/// An answer in JSON.
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
