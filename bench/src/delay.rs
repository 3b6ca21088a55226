//! A proxy in front of a database that delays requests and keeps their order.
//!
//! Threads carry the bytes, because a sleeping thread wakes within a tenth of a millisecond. The timers of the
//! async runtime count whole milliseconds, and would turn one into two.

use anyhow::Context;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;
use tokio::time::Instant;
use url::Url;

/// The most pieces that may be under way on a connection.
const MAX_PIECES: usize = 1024;

/// A running proxy. It ends with the process.
#[derive(Debug)]
pub(crate) struct Delay {
    /// The URL of the database through the proxy.
    pub(crate) url: String,
}

impl Delay {
    /// Starts a proxy to the database at `url` that delays every request by at least `delay`.
    pub(crate) async fn start(url: &str, delay: Duration) -> anyhow::Result<Self> {
        let mut url =
            Url::parse(url).context("the database is not an address like postgres://user@host/name")?;
        let host = url.host_str().context("the database URL names no host")?;
        let target = tokio::net::lookup_host((host, url.port().unwrap_or(5432))).await?.next();
        let target = target.with_context(|| format!("cannot find {host}"))?;
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        url.set_ip_host(address.ip()).ok().context("a database URL whose host cannot be changed")?;
        url.set_port(Some(address.port())).ok().context("a database URL whose port cannot be changed")?;
        std::thread::spawn(move || serve(&listener, target, delay));
        Ok(Self { url: url.into() })
    }
}

fn serve(listener: &TcpListener, target: SocketAddr, delay: Duration) {
    while let Ok((client, _)) = listener.accept() {
        std::thread::spawn(move || carry(client, target, delay));
    }
}

/// Carries a connection until one end closes it.
fn carry(client: TcpStream, target: SocketAddr, delay: Duration) -> io::Result<()> {
    let server = TcpStream::connect(target)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut from_server, mut to_client) = (server.try_clone()?, client.try_clone()?);
    std::thread::spawn(move || {
        let copied = io::copy(&mut from_server, &mut to_client);
        // The shutdown tells the other end. It fails only if that has hung up already.
        drop(to_client.shutdown(Shutdown::Both));
        copied
    });
    let (coming, going) = sync_channel(MAX_PIECES);
    let to_server = server.try_clone()?;
    std::thread::spawn(move || write(to_server, &going));
    let read = read(client, delay, &coming);
    drop(coming);
    read
}

/// Reads bytes, and queues each piece with the time at which it is due.
fn read(mut from: TcpStream, delay: Duration, coming: &SyncSender<(Instant, Vec<u8>)>) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let length = from.read(&mut buffer)?;
        if length == 0 || coming.send((Instant::now() + delay, buffer[..length].to_vec())).is_err() {
            return Ok(());
        }
    }
}

/// Writes each piece when it is due.
fn write(mut to: TcpStream, going: &Receiver<(Instant, Vec<u8>)>) -> io::Result<()> {
    for (when, piece) in going {
        std::thread::sleep(when.saturating_duration_since(Instant::now()));
        to.write_all(&piece)?;
    }
    to.shutdown(Shutdown::Both)
}
