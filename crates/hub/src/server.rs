//! The accept loop: bounds connections in number, time and buffers, and stops without losing work.
//!
//! It exists because a plain serve loop has no timeout for headers and waits for open streams for ever when
//! told to stop. Here streams end first, then open requests finish, then the rest is cut.
//!
//! A handler may upgrade its connection (`hyper::upgrade`), for example to a WebSocket, and then owns the
//! stream. The connection counts until the stream is dropped, is never closed in favour of another, and is cut
//! when its peer stops reading. Its handler ends with [`Tasks::stopping`](chorus_node::tasks::Tasks), as streams do, and
//! the hub waits for it.

use crate::connections::{Answering, Connections, Slot};
use crate::descriptors::{self, Room};
use crate::error::{ApiError, Format, render};
use crate::http_errors::{Formats, HttpErrors};
use crate::middleware::Peer;
use crate::router;
use crate::stall::StallGuard;
use crate::unread::{Watched, linger};
use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Request, StatusCode, header};
use axum::response::IntoResponse;
use chorus_app::market;
use chorus_app::market::outages::OutageWatch;
use chorus_app::reconcilers::{catch_up, push, skill_words, ticks};
use chorus_environment::Environment;
use chorus_node::config::quotas::OFF;
use chorus_node::source::rate_key;
use chorus_node::{App, AppState, Config};
use chorus_protocol::code::Code;
use chorus_store::{Store, StoreError, usage};
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
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tower::ServiceExt;

/// The largest request head, in bytes. The buffer starts smaller and grows as needed.
const MAX_HEAD: usize = 64 * 1024;
const MAX_HEADERS: usize = 64;
/// The time in which a connection that makes room for another must end.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// The error of a request on a connection that was told to close.
#[derive(Debug, thiserror::Error)]
#[error("the connection gave way to another")]
struct GaveWay;

/// An error that keeps the hub from starting or running.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The client for outbound requests could not be created.
    #[error("cannot prepare outbound requests; are CA certificates installed (Debian: ca-certificates)?")]
    Outbound(#[source] reqwest::Error),
    /// A background task ended. Deadlines, pushes or leases would stop silently.
    #[error(
        "background work panicked (see the log above), and the hub does not go on without it: start it again"
    )]
    BackgroundWork,
}

/// Serves until `shutdown` resolves, then drains: streams end, open requests finish, committed work is
/// recorded. It also stops if a background task ends, so that a supervisor can restart the hub.
pub async fn run(
    listener: TcpListener,
    store: Store,
    mut config: Config,
    environment: Environment,
    shutdown: impl Future<Output = ()>,
) -> Result<(), RunError> {
    let wanted = Room { connections: config.max_connections as u64, webhooks: config.quotas.webhooks };
    let room = descriptors::fit(wanted);
    (config.max_connections, config.quotas.webhooks) = (room.connections as usize, room.webhooks);
    let stopping = CancellationToken::new();
    let on_loopback = listener.local_addr().is_ok_and(|address| address.ip().to_canonical().is_loopback());
    let app =
        App::new(store, config, environment, stopping.clone(), on_loopback).map_err(RunError::Outbound)?;
    let app = Arc::new(app);
    // This must come before anything that depends on elapsed time.
    let mut outages = OutageWatch::new();
    if let Err(error) = outages.tick(&app).await {
        tracing::warn!(error = error.message, "could not look for an outage; it is tried again");
    }
    // A former process may have died before it wrote its counters.
    if let Err(error) = app.store.write::<_, StoreError, _>(usage::recount).await {
        tracing::warn!(%error, "could not count what is stored; the figures are those of the last run");
    }
    let router = router::router(Arc::clone(&app));
    let fell = CancellationToken::new();
    let background = [
        watch("reconcilers", &app, &fell, ticks::run(Arc::clone(&app))),
        watch("catching up", &app, &fell, catch_up::run(Arc::clone(&app))),
        watch("index of skills", &app, &fell, skill_words::run(Arc::clone(&app))),
        watch("pusher", &app, &fell, push::run(Arc::clone(&app))),
        watch("market's background work", &app, &fell, market::reconcile::run(Arc::clone(&app), outages)),
    ];
    let shutdown = async {
        tokio::select! {
            () = shutdown => {}
            () = fell.cancelled() => {}
        }
    };
    serve_until(shutdown, listener, &app, &router).await;
    app.tasks.tracker.close();
    let drain = app.config.times.drain;
    if tokio::time::timeout(drain, app.tasks.tracker.wait()).await.is_err() {
        tracing::warn!(open = app.tasks.tracker.len(), "work was left unfinished");
    }
    for work in background {
        drop(work.await);
    }
    if fell.is_cancelled() { Err(RunError::BackgroundWork) } else { Ok(()) }
}

/// Runs a background task until the hub stops. If it ends earlier or panics, this logs it and notifies `fell`.
fn watch(
    what: &'static str,
    app: &AppState,
    fell: &CancellationToken,
    work: impl Future<Output = ()> + Send + 'static,
) -> JoinHandle<()> {
    let (stopping, fell) = (app.tasks.stopping.clone(), fell.clone());
    tokio::spawn(async move {
        let ended = tokio::spawn(work).await;
        if ended.is_err() || !stopping.is_cancelled() {
            tracing::error!("the {what} panicked: the hub stops");
            fell.cancel();
        }
    })
}

/// Accepts connections until `shutdown` resolves, then tells all of them to end, and waits.
async fn serve_until(
    shutdown: impl Future<Output = ()>,
    listener: TcpListener,
    app: &AppState,
    router: &Router,
) {
    let connections = TaskTracker::new();
    let (most, quota) = (app.config.max_connections, app.config.quotas.connections);
    // One source never gets all connections.
    let share = usize::try_from(quota).unwrap_or(usize::MAX).min(most - most / 4);
    let is_limited = app.config.rate_limit.is_some() && quota != OFF;
    let open = Connections::new(most, if is_limited { share } else { usize::MAX });
    let formats = router::formats();

    tokio::pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, app, &open) => accepted,
            () = &mut shutdown => break,
        };
        let Some((stream, slot)) = accepted else { continue };
        let open = Open::new(slot, Arc::clone(app), connections.token());
        // The hub waits for the connection while it is open, even after this task has handed it on.
        tokio::spawn(serve(stream, Arc::clone(app), router.clone(), Arc::clone(&formats), open));
    }

    drop(listener);
    app.tasks.stopping.cancel();
    connections.close();
    if tokio::time::timeout(app.config.times.drain, connections.wait()).await.is_err() {
        tracing::warn!(open = connections.len(), "connections were cut");
    }
}

/// Everything held by a counted connection: its slot, its place in the metrics, and a token that the drain
/// waits for.
struct Open {
    slot: Slot,
    app: AppState,
    _waited_for: TaskTrackerToken,
}

impl Open {
    fn new(slot: Slot, app: AppState, waited_for: TaskTrackerToken) -> Self {
        app.telemetry.metrics.connections.inc();
        Self { slot, app, _waited_for: waited_for }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.app.telemetry.metrics.connections.dec();
    }
}

/// Accepts the next connection once a slot is free. Until then others wait in the kernel's queue.
async fn accept(listener: &TcpListener, app: &App, open: &Arc<Connections>) -> Option<(TcpStream, Slot)> {
    match listener.accept().await {
        Ok((stream, peer)) => {
            let is_proxy = app.config.trusted_proxies.trusts(peer.ip());
            let Some(slot) = open.take_slot(rate_key(peer.ip()), is_proxy).await else {
                app.telemetry.metrics.rate_limited.inc();
                turn_away(stream);
                return None;
            };
            Some((stream, slot))
        }
        Err(error) => {
            // Most likely the process is out of file descriptors; connections that end will free some.
            tracing::warn!(%error, "cannot accept a connection");
            tokio::time::sleep(Duration::from_millis(100)).await;
            None
        }
    }
}

/// Tells a source that it has too many connections, as far as possible without waiting.
fn turn_away(stream: TcpStream) {
    const ANSWER: &[u8] =
        b"HTTP/1.1 429 Too Many Requests\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let told = stream.into_std().and_then(|mut stream| stream.write_all(ANSWER));
    if let Err(error) = told {
        tracing::debug!(%error, "a connection was turned away without a word");
    }
}

async fn serve(stream: TcpStream, app: AppState, router: Router, formats: Formats, open: Open) {
    let Ok(peer) = stream.peer_addr() else { return };
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY");
    }
    let times = &app.config.times;
    let slot = Arc::clone(&open.slot.connection);
    let stream = StallGuard::new(stream, times.stall, open);
    let io = TokioIo::new(HttpErrors::new(stream, Arc::clone(&app), Arc::clone(&slot), formats));
    let connection = Arc::clone(&slot);
    let service = service_fn(move |mut request: Request<Incoming>| {
        let (begun, connection) = (connection.begin(), Arc::clone(&connection));
        request.extensions_mut().insert(Peer(peer.ip()));
        let (parts, body) = request.into_parts();
        let (body, rest) = Watched::new(body);
        let router = router.clone();
        let answer = async move {
            // The client sees the connection end and can be sure that the request was not executed.
            if !begun {
                return Err(GaveWay);
            }
            let answer = router.oneshot(Request::from_parts(parts, Body::new(body))).await;
            Ok(answer.unwrap_or_else(|never| match never {}))
        };
        answer.map_ok(move |mut response| {
            if rest.is_left() {
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            // An upgraded connection is busy until it ends.
            let is_upgraded = response.status() == StatusCode::SWITCHING_PROTOCOLS;
            response.map(|body| Answering::new(body, (!is_upgraded).then_some(connection)))
        })
    });
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(times.head)
        .max_buf_size(MAX_HEAD)
        .max_headers(MAX_HEADERS)
        .serve_connection(io, service)
        .with_upgrades();
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = app.tasks.stopping.cancelled() => {
            std::pin::Pin::new(&mut connection).graceful_shutdown();
            (&mut connection).await
        }
        () = slot.gives_way() => {
            // No further request starts, and finished responses have been sent.
            std::pin::Pin::new(&mut connection).graceful_shutdown();
            drop(tokio::time::timeout(LAST_WORDS, &mut connection).await);
            return;
        }
    };
    // An upgraded connection now belongs to its handler.
    let Some(parts) = connection.into_parts() else { return };
    let stream = parts.io.into_inner().into_inner();
    let answered = match ended {
        Ok(()) => true,
        Err(error) => {
            tracing::debug!(%error, %peer, "a connection ended badly");
            // Part of a request arrived. A connection that never started one was idle and just ends.
            if error.is_timeout() && !parts.read_buf.is_empty() {
                return refuse(stream, &app).await;
            }
            error.is_parse()
        }
    };
    if answered {
        tokio::select! {
            () = linger(stream) => {}
            () = app.tasks.stopping.cancelled() => {}
        }
    }
}

/// Tells a client that did not finish its headers why it is cut off.
async fn refuse(mut stream: impl AsyncWrite + Unpin, app: &App) {
    let error = ApiError::new(Code::RequestTimeout, "the request's headers did not arrive in time");
    let response = render(&error, Format::Relay, error.clone().into_response(), app.now());
    let Ok(body) = response.into_body().collect().await else { return };
    let body = body.to_bytes();
    let head = format!(
        "HTTP/1.1 408 Request Timeout\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    let answer = [head.as_bytes(), &body].concat();
    // The connection is closed either way.
    drop(stream.write_all(&answer).await);
    drop(stream.shutdown().await);
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::extract::{Request, State};
    use axum::response::Response;
    use axum::routing::get;
    use chorus_node::secrets::MasterKey;
    use chorus_store::SqliteOptions;
    use std::net::SocketAddr;
    use std::sync::atomic::{AtomicBool, Ordering};
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpSocket;
    use tokio::sync::oneshot;

    const HANDSHAKE: &[u8] =
        b"GET /echo HTTP/1.1\r\nhost: hub\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n";
    const ASK: &[u8] = b"GET /plain HTTP/1.1\r\nhost: hub\r\nconnection: close\r\n\r\n";
    const SOON: Duration = Duration::from_secs(10);
    /// More bytes than socket buffers hold.
    const LARGE: usize = 32 * 1024 * 1024;

    /// Echoes until the hub stops, and then takes its time to end.
    async fn echo(State(app): State<AppState>, mut request: Request) -> Response {
        let upgrade = hyper::upgrade::on(&mut request);
        tokio::spawn(async move {
            let (mut read, mut write) = tokio::io::split(TokioIo::new(upgrade.await.unwrap()));
            tokio::select! {
                copied = tokio::io::copy(&mut read, &mut write) => drop(copied),
                () = app.tasks.stopping.cancelled() => {
                    tokio::time::sleep(Duration::from_millis(300)).await;
                    write.write_all(b"goodbye").await.unwrap();
                }
            }
        });
        let headers = [(header::CONNECTION, "upgrade"), (header::UPGRADE, "echo")];
        (StatusCode::SWITCHING_PROTOCOLS, headers).into_response()
    }

    struct Served {
        app: AppState,
        address: SocketAddr,
        stop: oneshot::Sender<()>,
        ended: JoinHandle<()>,
    }

    async fn served(max_connections: usize, stall: Duration) -> Served {
        // The client installs the TLS provider that the hub's own client needs.
        drop(chorus_testkit::http::client());
        let store = Store::sqlite(SqliteOptions::in_memory()).unwrap();
        let environment = Environment::system();
        let key = MasterKey::new([7; 32]);
        let mut config = Config::new(environment.uuid_v4(), "hub", [0; 32], key);
        (config.max_connections, config.times.stall) = (max_connections, stall);
        let app = App::new(store, config, environment, CancellationToken::new(), true).unwrap();
        let app = Arc::new(app);
        let router = Router::new()
            .route("/echo", get(echo))
            .route("/plain", get(|| async { "plain" }))
            .route("/large", get(|| async { vec![b'#'; LARGE] }))
            .with_state(Arc::clone(&app));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let hub = Arc::clone(&app);
        let ended = tokio::spawn(async move {
            serve_until(async { drop(stopped.await) }, listener, &hub, &router).await;
        });
        Served { app, address, stop, ended }
    }

    async fn upgraded(address: SocketAddr) -> TcpStream {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(HANDSHAKE).await.unwrap();
        let mut head = vec![];
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        assert!(head.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&head));
        stream
    }

    /// Returns the response to these bytes, or the bytes received before anything was sent.
    async fn answer_to(request: &[u8], address: SocketAddr) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let mut answer = String::new();
        stream.write_all(request).await.unwrap();
        tokio::time::timeout(SOON, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
        answer
    }

    #[tokio::test]
    async fn an_upgraded_connection_counts_until_it_ends() {
        let Served { app, address, stop: _running, .. } = served(1, SOON).await;
        let mut stream = upgraded(address).await;
        stream.write_all(b"hello").await.unwrap();
        let mut heard = [0; 5];
        stream.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"hello");
        assert_eq!(app.telemetry.metrics.connections.get(), 1);
        // The upgraded connection is busy, so it is not closed for another.
        assert!(answer_to(b"", address).await.starts_with("HTTP/1.1 429 "));
        drop(stream);
        let ended = async {
            while app.telemetry.metrics.connections.get() > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(SOON, ended).await.unwrap();
        assert!(answer_to(ASK, address).await.ends_with("plain"));
    }

    /// A response is sent completely, however long it takes. A waiting connection is served afterwards,
    /// although the first one stays open.
    #[tokio::test]
    async fn an_answer_that_is_not_all_out_keeps_its_place() {
        let Served { address, stop: _running, .. } = served(1, SOON).await;
        let mut slow = TcpStream::connect(address).await.unwrap();
        slow.write_all(b"GET /large HTTP/1.1\r\nhost: hub\r\n\r\n").await.unwrap();
        let mut begun = [0; 12];
        slow.read_exact(&mut begun).await.unwrap();
        assert_eq!(&begun, b"HTTP/1.1 200");
        let waits = TcpSocket::new_v4().unwrap();
        waits.bind("127.0.0.2:0".parse().unwrap()).unwrap();
        let mut waits = waits.connect(address).await.unwrap();
        waits.write_all(ASK).await.unwrap();
        let mut answer = String::new();
        let early =
            tokio::time::timeout(LAST_WORDS + Duration::from_millis(500), waits.read_to_string(&mut answer));
        assert!(early.await.is_err(), "there was no room: {answer}");
        let mut rest = vec![];
        tokio::time::timeout(SOON, slow.read_to_end(&mut rest)).await.unwrap().unwrap();
        assert!(rest.ends_with(&vec![b'#'; LARGE]), "it arrived whole, and then the connection gave way");
        tokio::time::timeout(SOON, waits.read_to_string(&mut answer)).await.unwrap().unwrap();
        assert!(answer.ends_with("plain"), "{answer}");
    }

    #[tokio::test]
    async fn an_upgraded_connection_is_told_to_end_and_waited_for() {
        let Served { app, address, stop, ended } = served(10, SOON).await;
        let mut stream = upgraded(address).await;
        drop(stop);
        let mut last = String::new();
        tokio::time::timeout(SOON, stream.read_to_string(&mut last)).await.unwrap().unwrap();
        assert_eq!(last, "goodbye");
        tokio::time::timeout(SOON, ended).await.unwrap().unwrap();
        assert_eq!(app.telemetry.metrics.connections.get(), 0, "it ended before the hub did");
    }

    #[tokio::test]
    async fn an_upgraded_connection_that_takes_no_bytes_is_cut() {
        let Served { app, address, stop: _running, .. } = served(10, Duration::from_millis(200)).await;
        let mut stream = upgraded(address).await;
        // More bytes than the buffers hold; the echo is not read.
        let flood = tokio::spawn(async move {
            let piece = vec![0; 64 * 1024];
            while stream.write_all(&piece).await.is_ok() {}
            stream
        });
        let cut = async {
            while app.telemetry.metrics.connections.get() > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(SOON, cut).await.unwrap();
        drop(flood.await.unwrap());
    }

    /// A hub whose background work has stopped shuts down and says why.
    #[tokio::test]
    async fn a_hub_does_not_go_on_without_its_background_work() {
        drop(chorus_testkit::http::client());
        let store = Store::sqlite(SqliteOptions::in_memory()).unwrap();
        let breaks = Arc::new(AtomicBool::new(false));
        let clock = Arc::clone(&breaks);
        // There is no request, so the next one to read the clock is a background task.
        let elapsed = move || {
            assert!(!clock.swap(false, Ordering::AcqRel), "this clock breaks once");
            0
        };
        let environment = Environment::with_clocks(|| 1_774_000_800_000, elapsed);
        let config = Config::new(environment.uuid_v4(), "hub", [0; 32], MasterKey::new([7; 32]));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let running = tokio::spawn(run(listener, store, config, environment, std::future::pending()));
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!running.is_finished());
        breaks.store(true, Ordering::Release);
        let ended = tokio::time::timeout(SOON, running).await.unwrap().unwrap();
        assert!(matches!(ended, Err(RunError::BackgroundWork)), "{ended:?}");
    }
}
