//! A way to a database that takes longer: what is sent into it arrives later, in the same order.

use anyhow::Context;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep_until};
use url::Url;

/// It ends when it is dropped, and its connections with it.
#[derive(Debug)]
pub(crate) struct Delay {
    /// The same database by this way.
    pub(crate) url: String,
    task: JoinHandle<()>,
}

impl Delay {
    /// A way to the database at `url` on which every request is under way for so long, and a little more.
    pub(crate) async fn start(url: &str, delay: Duration) -> anyhow::Result<Self> {
        let mut url =
            Url::parse(url).context("the database is not an address like postgres://user@host/name")?;
        let host = url.host_str().context("the database URL names no host")?;
        let target = tokio::net::lookup_host((host, url.port().unwrap_or(5432))).await?.next();
        let target = target.with_context(|| format!("cannot find {host}"))?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        url.set_ip_host(address.ip()).ok().context("a database URL whose host cannot be changed")?;
        url.set_port(Some(address.port())).ok().context("a database URL whose port cannot be changed")?;
        let task = tokio::spawn(serve(listener, target, delay));
        Ok(Self { url: url.into(), task })
    }
}

impl Drop for Delay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, target: SocketAddr, delay: Duration) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        connections.spawn(carry(client, target, delay));
    }
}

async fn carry(client: TcpStream, target: SocketAddr, delay: Duration) -> std::io::Result<()> {
    let server = TcpStream::connect(target).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let ((from_client, mut to_client), (mut from_server, to_server)) =
        (client.into_split(), server.into_split());
    tokio::select! {
        done = later(from_client, to_server, delay) => done,
        done = tokio::io::copy(&mut from_server, &mut to_client) => done.map(drop),
    }
}

/// Copies what comes, each piece when its time has come.
async fn later(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    delay: Duration,
) -> std::io::Result<()> {
    let (coming, mut going) = mpsc::channel::<(Instant, Vec<u8>)>(1024);
    let read = async {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let length = from.read(&mut buffer).await?;
            let piece = (Instant::now() + delay, buffer[..length].to_vec());
            if length == 0 || coming.send(piece).await.is_err() {
                return Ok(());
            }
        }
    };
    let write = async {
        while let Some((when, piece)) = going.recv().await {
            sleep_until(when).await;
            to.write_all(&piece).await?;
        }
        Ok(())
    };
    tokio::select! {
        done = read => done,
        done = write => done,
    }
}
