//! The accept loop: every connection limited in number, time and buffers, and a stop that loses nothing.
//!
//! Our own, because a plain serve loop has no time limit for headers and waits for open streams for ever when it is
//! told to stop. Here streams end first, then open requests, then whatever is left is cut.
//!
//! A handler may answer that it upgrades its connection (`hyper::upgrade`), to a WebSocket for example, and owns the stream
//! then. The connection counts until the stream is dropped, never gives way to another, and is cut when its peer takes no more bytes; its
//! handler ends with [`App::stopping`](chorus_app::App), as streams do, and is waited for like them.

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
use chorus_app::quotas::OFF;
use chorus_app::rate::rate_key;
use chorus_app::reconcilers::{catch_up, push, ticks};
use chorus_app::{App, AppState, Config};
use chorus_environment::Environment;
use chorus_protocol::code::Code;
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
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tower::ServiceExt;

/// The largest head of a request, in bytes. A connection begins with less, and grows with what it is sent.
const MAX_HEAD: usize = 64 * 1024;
const MAX_HEADERS: usize = 64;
/// How long a connection that gives way may take to end.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// A request came on a connection that had to give way.
#[derive(Debug, thiserror::Error)]
#[error("the connection gave way to another")]
struct GaveWay;

/// Why a hub did not start, or did not go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The client for outbound requests could not be made.
    #[error("cannot prepare outbound requests; are CA certificates installed (Debian: ca-certificates)?")]
    Outbound(#[source] reqwest::Error),
    /// Background work ended: deadlines, pushes or leases would stand still, and nobody would be told.
    #[error(
        "background work panicked (see the log above), and the hub does not go on without it: start it again"
    )]
    BackgroundWork,
}

/// Serves until `shutdown` resolves, then drains: streams end, open requests finish, committed work is recorded. The same if its
/// background work ends before, so that whoever watches over the hub starts it again.
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
    let router = router::router(Arc::clone(&app));
    let fell = CancellationToken::new();
    let background = [
        watch("reconcilers", &app, &fell, ticks::run(Arc::clone(&app))),
        watch("catching up", &app, &fell, catch_up::run(Arc::clone(&app))),
        watch("pusher", &app, &fell, push::run(Arc::clone(&app))),
        watch("market's background work", &app, &fell, market::reconcile::run(Arc::clone(&app))),
    ];
    let shutdown = async {
        tokio::select! {
            () = shutdown => {}
            () = fell.cancelled() => {}
        }
    };
    serve_until(shutdown, listener, &app, &router).await;
    app.tasks.close();
    let drain = app.config.times.drain;
    if tokio::time::timeout(drain, app.tasks.wait()).await.is_err() {
        tracing::warn!(open = app.tasks.len(), "work was left unfinished");
    }
    for work in background {
        drop(work.await);
    }
    if fell.is_cancelled() { Err(RunError::BackgroundWork) } else { Ok(()) }
}

/// Runs what goes on until the hub stops; if it ends before, or panics, that is said at once, by the log and by `fell`.
fn watch(
    what: &'static str,
    app: &AppState,
    fell: &CancellationToken,
    work: impl Future<Output = ()> + Send + 'static,
) -> JoinHandle<()> {
    let (stopping, fell) = (app.stopping.clone(), fell.clone());
    tokio::spawn(async move {
        let ended = tokio::spawn(work).await;
        if ended.is_err() || !stopping.is_cancelled() {
            tracing::error!("the {what} panicked: the hub stops");
            fell.cancel();
        }
    })
}

/// Takes connections until `shutdown` resolves, then tells all of them to end, and waits.
async fn serve_until(
    shutdown: impl Future<Output = ()>,
    listener: TcpListener,
    app: &AppState,
    router: &Router,
) {
    let connections = TaskTracker::new();
    let (most, quota) = (app.config.max_connections, app.config.quotas.connections);
    // One source never has all of them.
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
        // It is waited for as long as it is open, also after this task has handed it on.
        tokio::spawn(serve(stream, Arc::clone(app), (router.clone(), Arc::clone(&formats)), open));
    }

    drop(listener);
    app.stopping.cancel();
    connections.close();
    if tokio::time::timeout(app.config.times.drain, connections.wait()).await.is_err() {
        tracing::warn!(open = connections.len(), "connections were cut");
    }
}

/// What makes a connection count: its room among the others, its place in the figures, and that it is waited for.
struct Open {
    slot: Slot,
    app: AppState,
    _waited_for: TaskTrackerToken,
}

impl Open {
    fn new(slot: Slot, app: AppState, waited_for: TaskTrackerToken) -> Self {
        app.metrics.connections.inc();
        Self { slot, app, _waited_for: waited_for }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.app.metrics.connections.dec();
    }
}

/// The next connection, once there is room for it. Until then the kernel keeps the others waiting.
async fn accept(listener: &TcpListener, app: &App, open: &Arc<Connections>) -> Option<(TcpStream, Slot)> {
    match listener.accept().await {
        Ok((stream, peer)) => {
            let is_proxy = app.config.trusted_proxies.trusts(peer.ip());
            let Some(slot) = open.take_slot(rate_key(peer.ip()), is_proxy).await else {
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

async fn serve(stream: TcpStream, app: AppState, (router, formats): (Router, Formats), open: Open) {
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
            // The client reads an end instead of an answer, and may be sure that nothing was done.
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
            // What is upgraded is busy until it ends.
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
        () = app.stopping.cancelled() => {
            std::pin::Pin::new(&mut connection).graceful_shutdown();
            (&mut connection).await
        }
        () = slot.gives_way() => {
            // No request is begun any more, and what was answered has gone out.
            std::pin::Pin::new(&mut connection).graceful_shutdown();
            drop(tokio::time::timeout(LAST_WORDS, &mut connection).await);
            return;
        }
    };
    // An upgraded connection is its handler's from now on.
    let Some(parts) = connection.into_parts() else { return };
    let stream = parts.io.into_inner().into_inner();
    let answered = match ended {
        Ok(()) => true,
        Err(error) => {
            tracing::debug!(%error, %peer, "a connection ended badly");
            // Half a request came in; one that never began is an idle connection, which just ends.
            if error.is_timeout() && !parts.read_buf.is_empty() {
                return refuse(stream, &app).await;
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
    // The connection is given up either way.
    drop(stream.write_all(&answer).await);
    drop(stream.shutdown().await);
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::extract::{Request, State};
    use axum::response::Response;
    use axum::routing::get;
    use chorus_app::MasterKey;
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
    /// More than buffers of sockets hold.
    const LARGE: usize = 32 * 1024 * 1024;

    /// Says what it hears, until the hub stops; then it takes its time to say goodbye.
    async fn echo(State(app): State<AppState>, mut request: Request) -> Response {
        let upgrade = hyper::upgrade::on(&mut request);
        tokio::spawn(async move {
            let (mut read, mut write) = tokio::io::split(TokioIo::new(upgrade.await.unwrap()));
            tokio::select! {
                copied = tokio::io::copy(&mut read, &mut write) => drop(copied),
                () = app.stopping.cancelled() => {
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
        // It brings the TLS provider which the hub's own client needs.
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

    /// What is answered to this, or before anything was asked.
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
        assert_eq!(app.metrics.connections.get(), 1);
        // It is busy, whatever was answered: nobody gets its place.
        assert!(answer_to(b"", address).await.starts_with("HTTP/1.1 429 "));
        drop(stream);
        let ended = async {
            while app.metrics.connections.get() > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(SOON, ended).await.unwrap();
        assert!(answer_to(ASK, address).await.ends_with("plain"));
    }

    /// However long the rest of an answer takes, it arrives; whoever waits for room then gets it although the other stays.
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
        assert_eq!(app.metrics.connections.get(), 0, "it ended before the hub did");
    }

    #[tokio::test]
    async fn an_upgraded_connection_that_takes_no_bytes_is_cut() {
        let Served { app, address, stop: _running, .. } = served(10, Duration::from_millis(200)).await;
        let mut stream = upgraded(address).await;
        // More than buffers hold; what comes back is not read.
        let flood = tokio::spawn(async move {
            let piece = vec![0; 64 * 1024];
            while stream.write_all(&piece).await.is_ok() {}
            stream
        });
        let cut = async {
            while app.metrics.connections.get() > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(SOON, cut).await.unwrap();
        drop(flood.await.unwrap());
    }

    /// A hub whose background work stands still serves nobody well: it stops, and says why.
    #[tokio::test]
    async fn a_hub_does_not_go_on_without_its_background_work() {
        drop(chorus_testkit::http::client());
        let store = Store::sqlite(SqliteOptions::in_memory()).unwrap();
        let breaks = Arc::new(AtomicBool::new(false));
        let clock = Arc::clone(&breaks);
        // Nobody calls, so that the next one to ask for the time is background work.
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
