//! A TCP proxy that can be broken and restored while connections run through it.
//!
//! It keeps its port while it lives, even when cut. It copies bytes without looking at them. It counts round
//! trips: each time a client sends after the server has sent.

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A TCP proxy; see the [module](self).
#[derive(Debug)]
pub struct Proxy {
    addr: SocketAddr,
    target: SocketAddr,
    frozen: watch::Sender<bool>,
    round_trips: Arc<AtomicU64>,
    /// The task that owns the listener and all connections, which end with it. `None` while cut.
    task: Mutex<Option<JoinHandle<()>>>,
    /// A bound socket that never listens. It keeps the port reserved while the proxy is cut, and the system
    /// refuses connections.
    _reserved: TcpSocket,
}

impl Proxy {
    /// Starts a proxy in front of `target`.
    #[expect(clippy::unused_async, reason = "it spawns, so it must be called inside a runtime")]
    pub async fn start(target: SocketAddr) -> Self {
        let reserved = bind((Ipv4Addr::LOCALHOST, 0).into());
        let addr = reserved.local_addr().expect("a bound socket has an address");
        let proxy = Self {
            addr,
            target,
            frozen: watch::Sender::new(false),
            round_trips: Arc::default(),
            task: Mutex::default(),
            _reserved: reserved,
        };
        proxy.restore();
        proxy
    }

    /// Returns the address to use instead of the target.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns the number of round trips of all connections.
    pub fn round_trips(&self) -> u64 {
        self.round_trips.load(Ordering::Relaxed)
    }

    /// Refuses new connections and drops existing ones. Both are done when this returns.
    pub async fn cut(&self) {
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task {
            task.abort();
            task.await.ok();
        }
    }

    /// Keeps connections open and accepts new ones, but forwards no bytes and no end of stream.
    pub fn freeze(&self) {
        self.frozen.send_replace(true);
    }

    /// Undoes [`Self::cut`] and [`Self::freeze`], and forwards the bytes held back by the latter.
    pub fn restore(&self) {
        self.frozen.send_replace(false);
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if task.is_none() {
            let listener = bind(self.addr).listen(128).expect("the port is ours");
            let round_trips = Arc::clone(&self.round_trips);
            *task = Some(tokio::spawn(serve(listener, self.target, self.frozen.subscribe(), round_trips)));
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(task) = self.task.get_mut().unwrap_or_else(PoisonError::into_inner) {
            task.abort();
        }
    }
}

fn bind(addr: SocketAddr) -> TcpSocket {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_reuseaddr(true).expect("the option exists");
    socket.bind(addr).expect("the port is free or ours");
    socket
}

async fn serve(
    listener: TcpListener,
    target: SocketAddr,
    frozen: watch::Receiver<bool>,
    round_trips: Arc<AtomicU64>,
) {
    let mut connections = FuturesUnordered::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (client, _) = accepted.expect("accepting works while the proxy lives");
                connections.push(carry(client, target, frozen.clone(), Arc::clone(&round_trips)));
            }
            // Both ends see for themselves how the connection ended.
            Some(_) = connections.next() => {}
        }
    }
}

async fn carry(
    mut client: TcpStream,
    target: SocketAddr,
    frozen: watch::Receiver<bool>,
    round_trips: Arc<AtomicU64>,
) -> io::Result<()> {
    let mut server = TcpStream::connect(target).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let listened = AtomicBool::new(true);
    let asks = || {
        if listened.swap(false, Ordering::Relaxed) {
            round_trips.fetch_add(1, Ordering::Relaxed);
        }
    };
    tokio::try_join!(
        copy(from_client, to_server, frozen.clone(), asks),
        copy(from_server, to_client, frozen.clone(), || listened.store(true, Ordering::Relaxed))
    )?;
    Ok(())
}

async fn copy(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    mut frozen: watch::Receiver<bool>,
    told: impl Fn(),
) -> io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let length = from.read(&mut buffer).await?;
        // Bytes read while frozen wait here. A missing sender means that the proxy is gone.
        frozen.wait_for(|frozen| !frozen).await.map_err(io::Error::other)?;
        if length == 0 {
            return to.shutdown().await;
        }
        told();
        to.write_all(&buffer[..length]).await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::timeout;

    /// Starts a server that echoes what it receives.
    async fn echo() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut reader, mut writer) = stream.split();
                    tokio::io::copy(&mut reader, &mut writer).await
                });
            }
        });
        addr
    }

    async fn send(stream: &mut TcpStream, byte: u8) -> io::Result<u8> {
        stream.write_u8(byte).await?;
        stream.read_u8().await
    }

    #[tokio::test]
    async fn cut_and_restored() {
        let proxy = Proxy::start(echo().await).await;
        let mut stream = TcpStream::connect(proxy.addr()).await.unwrap();
        assert_eq!(send(&mut stream, 1).await.unwrap(), 1);
        proxy.cut().await;
        send(&mut stream, 2).await.unwrap_err();
        let refused = TcpStream::connect(proxy.addr()).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        proxy.restore();
        let mut stream = TcpStream::connect(proxy.addr()).await.unwrap();
        assert_eq!(send(&mut stream, 3).await.unwrap(), 3);
    }

    #[tokio::test]
    async fn frozen_bytes_arrive_later() {
        let proxy = Proxy::start(echo().await).await;
        let mut stream = TcpStream::connect(proxy.addr()).await.unwrap();
        assert_eq!(send(&mut stream, 1).await.unwrap(), 1);
        proxy.freeze();
        timeout(Duration::from_millis(100), send(&mut stream, 2)).await.unwrap_err();
        proxy.restore();
        assert_eq!(stream.read_u8().await.unwrap(), 2);
    }

    #[tokio::test]
    async fn one_closed_half_leaves_the_other_open() {
        let proxy = Proxy::start(echo().await).await;
        let mut stream = TcpStream::connect(proxy.addr()).await.unwrap();
        stream.write_all(b"last words").await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, "last words");
    }
}
