//! The accept loop: every connection limited in number, time and buffers, and a stop that loses nothing.
//!
//! Our own, because a plain serve loop has no time limit for headers and waits for open streams for ever when it is
//! told to stop. Here streams end first, then open requests, then whatever is left is cut.

use crate::connections::{Answering, Connections, Slot};
use crate::descriptors::{self, Room};
use crate::error::{ApiError, Format, render};
use crate::middleware::Peer;
use crate::router;
use crate::stall::StallGuard;
use crate::unread::{Watched, linger};
use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Request, header};
use axum::response::IntoResponse;
use chorus_app::App;
use chorus_app::Config;
use chorus_app::delivery::{catch_up, push, reconcile};
use chorus_app::quotas::OFF;
use chorus_app::rate::rate_key;
use chorus_environment::Environment;
use chorus_protocol::relay::Code;
use chorus_store::Store;
use futures_util::TryFutureExt;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::future::Future;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

/// hyper's smallest: what an idle connection costs is mostly this.
const READ_BUFFER: usize = 8 * 1024;
const MAX_HEADERS: usize = 64;

/// Why a hub did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The client for outbound requests could not be made.
    #[error("cannot prepare outbound requests; are CA certificates installed (Debian: ca-certificates)?")]
    Outbound(#[source] reqwest::Error),
}

/// Serves until `shutdown` resolves, then drains: streams end, open requests finish, committed work is recorded.
pub async fn run(
    listener: TcpListener,
    store: Store,
    mut config: Config,
    environment: Environment,
    shutdown: impl Future<Output = ()>,
) -> Result<(), StartError> {
    let wanted = Room { connections: config.max_connections as u64, webhooks: config.quotas.webhooks };
    let room = descriptors::fit(wanted);
    (config.max_connections, config.quotas.webhooks) = (room.connections as usize, room.webhooks);
    let stopping = CancellationToken::new();
    let on_loopback = listener.local_addr().is_ok_and(|address| address.ip().to_canonical().is_loopback());
    let app =
        App::new(store, config, environment, stopping.clone(), on_loopback).map_err(StartError::Outbound)?;
    let app = Arc::new(app);
    let router = router::router(Arc::clone(&app));
    let reconcilers = tokio::spawn(reconcile::run(Arc::clone(&app)));
    let catching_up = tokio::spawn(catch_up::run(Arc::clone(&app)));
    let pusher = tokio::spawn(push::run(Arc::clone(&app)));
    let connections = TaskTracker::new();
    let (most, quota) = (app.config.max_connections, app.config.quotas.connections);
    // One source never has all of them.
    let share = usize::try_from(quota).unwrap_or(usize::MAX).min(most - most / 4);
    let is_limited = app.config.rate_limit.is_some() && quota != OFF;
    let open = Connections::new(most, if is_limited { share } else { usize::MAX });

    tokio::pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &app, &open) => accepted,
            () = &mut shutdown => break,
        };
        let Some((stream, slot)) = accepted else { continue };
        let (app, router) = (Arc::clone(&app), router.clone());
        connections.spawn(async move {
            app.metrics.connections.inc();
            serve(stream, &app, router, &slot).await;
            app.metrics.connections.dec();
            drop(slot);
        });
    }

    drop(listener);
    stopping.cancel();
    connections.close();
    let drain = app.config.times.drain;
    if tokio::time::timeout(drain, connections.wait()).await.is_err() {
        tracing::warn!(open = connections.len(), "connections were cut");
    }
    app.tasks.close();
    if tokio::time::timeout(drain, app.tasks.wait()).await.is_err() {
        tracing::warn!(open = app.tasks.len(), "work was left unfinished");
    }
    if pusher.await.is_err() {
        tracing::error!("the pusher panicked");
    }
    if catching_up.await.is_err() {
        tracing::error!("the catching up panicked");
    }
    if reconcilers.await.is_err() {
        tracing::error!("the reconcilers panicked");
    }
    Ok(())
}

/// The next connection, once there is room for it. Until then the kernel keeps the others waiting.
async fn accept(listener: &TcpListener, app: &App, open: &Arc<Connections>) -> Option<(TcpStream, Slot)> {
    match listener.accept().await {
        Ok((stream, peer)) => {
            let is_proxy = app.config.trusted_proxies.trusts(peer.ip());
            let Some(slot) = open.enter(rate_key(peer.ip()), is_proxy).await else {
                app.metrics.rate_limited.inc();
                turn_away(stream);
                return None;
            };
            Some((stream, slot))
        }
        Err(error) => {
            // Out of file descriptors, most likely: it passes when connections end.
            tracing::warn!(%error, "cannot accept a connection");
            tokio::time::sleep(Duration::from_millis(100)).await;
            None
        }
    }
}

/// Tells a source that it has enough connections, as far as that can be done without waiting for it.
fn turn_away(stream: TcpStream) {
    const ANSWER: &[u8] =
        b"HTTP/1.1 429 Too Many Requests\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let told = stream.into_std().and_then(|mut stream| stream.write_all(ANSWER));
    if let Err(error) = told {
        tracing::debug!(%error, "a connection was turned away without a word");
    }
}

async fn serve(stream: TcpStream, app: &App, router: Router, slot: &Slot) {
    let Ok(peer) = stream.peer_addr() else { return };
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY");
    }
    let times = &app.config.times;
    let io = TokioIo::new(StallGuard::new(stream, times.stall));
    let connection = Arc::clone(&slot.connection);
    let service = service_fn(move |mut request: Request<Incoming>| {
        connection.begin();
        let connection = Arc::clone(&connection);
        request.extensions_mut().insert(Peer(peer.ip()));
        let (parts, body) = request.into_parts();
        let (body, rest) = Watched::new(body);
        let answer = router.clone().oneshot(Request::from_parts(parts, Body::new(body)));
        answer.map_ok(move |mut response| {
            if rest.is_left() {
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            response.map(|body| Answering::new(body, connection))
        })
    });
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(times.head)
        .max_buf_size(READ_BUFFER.max(64 * 1024))
        .max_headers(MAX_HEADERS)
        .serve_connection(io, service);
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = app.stopping.cancelled() => {
            std::pin::Pin::new(&mut connection).graceful_shutdown();
            (&mut connection).await
        }
        () = slot.connection.gives_way() => return,
    };
    let parts = connection.into_parts();
    let stream = parts.io.into_inner();
    let answered = match ended {
        Ok(()) => true,
        Err(error) => {
            tracing::debug!(%error, %peer, "a connection ended badly");
            // Half a request came in; one that never began is an idle connection, which just ends.
            if error.is_timeout() && !parts.read_buf.is_empty() {
                return refuse(stream, app).await;
            }
            error.is_parse()
        }
    };
    if answered {
        tokio::select! {
            () = linger(stream) => {}
            () = app.stopping.cancelled() => {}
        }
    }
}

/// Tells a client that did not finish its headers why it is cut off.
async fn refuse(mut stream: StallGuard<TcpStream>, app: &App) {
    let error = ApiError::new(Code::RequestTimeout, "the request's headers did not arrive in time");
    let response = render(&error, Format::Relay, error.clone().into_response(), app.now());
    let Ok(body) = response.into_body().collect().await else { return };
    let body = body.to_bytes();
    let head = format!(
        "HTTP/1.1 408 Request Timeout\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    let answer = [head.as_bytes(), &body].concat();
    // The connection is given up either way.
    drop(stream.write_all(&answer).await);
    drop(stream.shutdown().await);
}
