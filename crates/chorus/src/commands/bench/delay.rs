//! A way to a database that takes longer: what is sent into it arrives later, in the same order.
//!
//! Threads carry the bytes, because a sleeping thread is woken to the tenth of a millisecond: a timer of the async runtime counts in
//! whole ones, and would make two of one.

use anyhow::Context;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;
use tokio::time::Instant;
use url::Url;

/// How many pieces may be under way on a connection.
const MAX_PIECES: usize = 1024;

/// It ends with the bench.
#[derive(Debug)]
pub(crate) struct Delay {
    /// The same database by this way.
    pub(crate) url: String,
}

impl Delay {
    /// A way to the database at `url` on which every request is under way for so long, and a little more.
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

/// Carries a connection, until one of its ends closes it.
fn carry(client: TcpStream, target: SocketAddr, delay: Duration) -> io::Result<()> {
    let server = TcpStream::connect(target)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut from_server, mut to_client) = (server.try_clone()?, client.try_clone()?);
    std::thread::spawn(move || {
        let copied = io::copy(&mut from_server, &mut to_client);
        // The other end has hung up, or this one is told of it.
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

/// Takes what comes, and notes when it is to arrive.
fn read(mut from: TcpStream, delay: Duration, coming: &SyncSender<(Instant, Vec<u8>)>) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let length = from.read(&mut buffer)?;
        if length == 0 || coming.send((Instant::now() + delay, buffer[..length].to_vec())).is_err() {
            return Ok(());
        }
    }
}

/// Passes each piece on when its time has come.
fn write(mut to: TcpStream, going: &Receiver<(Instant, Vec<u8>)>) -> io::Result<()> {
    for (when, piece) in going {
        std::thread::sleep(when.saturating_duration_since(Instant::now()));
        to.write_all(&piece)?;
    }
    to.shutdown(Shutdown::Both)
}
