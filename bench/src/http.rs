//! The HTTP client of the load: one connection, one request at a time, kept alive.

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use chorus_protocol::sse::{Event, Item, Parser};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use std::net::{IpAddr, SocketAddr};
use tokio::net::{TcpSocket, TcpStream};
use tokio_util::task::AbortOnDropHandle;

/// The largest body of a response, in bytes.
const MAX_BODY: usize = 4 * 1024 * 1024;

/// A request that can be sent more than once.
pub(crate) type HttpRequest = Request<Bytes>;

/// A connection to a server. Dropping it closes it.
#[derive(Debug)]
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    _driver: AbortOnDropHandle<()>,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let failed = || format!("cannot connect to {address}");
        let stream = TcpStream::connect(address).await.with_context(failed)?;
        Self::over(stream).await.with_context(failed)
    }

    /// Opens a connection whose local address is `local`.
    pub(crate) async fn open_from(local: IpAddr, address: SocketAddr) -> anyhow::Result<Self> {
        let failed = || format!("cannot connect to {address} from {local}");
        let socket = if local.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
        let socket = socket.with_context(failed)?;
        socket.bind(SocketAddr::new(local, 0)).with_context(failed)?;
        let stream = socket.connect(address).await.with_context(failed)?;
        Self::over(stream).await.with_context(failed)
    }

    async fn over(stream: TcpStream) -> anyhow::Result<Self> {
        stream.set_nodelay(true)?;
        let (sender, driver) = handshake(TokioIo::new(stream)).await?;
        let driver = tokio::spawn(async move {
            // An error of the connection is reported to the request that is under way.
            driver.await.ok();
        });
        Ok(Self { sender, _driver: AbortOnDropHandle::new(driver) })
    }

    /// Sends a request and returns the status and the body of the response.
    pub(crate) async fn exchange(&mut self, request: HttpRequest) -> anyhow::Result<(u16, Bytes)> {
        let response = self.send(request).await?;
        let status = response.status().as_u16();
        let body = Limited::new(response.into_body(), MAX_BODY).collect().await;
        let body = body.map_err(|error| anyhow::anyhow!("cannot read a response: {error}"))?;
        Ok((status, body.to_bytes()))
    }

    async fn send(&mut self, request: HttpRequest) -> anyhow::Result<Response<Incoming>> {
        self.sender.ready().await.context("the server closed the connection")?;
        self.sender.send_request(request.map(Full::new)).await.context("cannot send a request")
    }

    /// Sends a request whose response is a stream of server-sent events.
    pub(crate) async fn listen(mut self, request: HttpRequest) -> anyhow::Result<Events> {
        let response = self.send(request).await?;
        ensure!(response.status() == 200, "status {}", response.status());
        Ok(Events { body: response.into_body(), parser: Parser::new(), _connection: self })
    }
}

/// A stream of server-sent events.
#[derive(Debug)]
pub(crate) struct Events {
    body: Incoming,
    parser: Parser,
    _connection: Connection,
}

impl Events {
    /// Waits for the next events and returns all that have arrived. Fails at the end of the stream.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Vec<Event>> {
        loop {
            let Some(frame) = self.body.frame().await else { bail!("the server ended the stream") };
            let Ok(piece) = frame.context("cannot read an event")?.into_data() else { continue };
            let items = self.parser.push(&piece)?.into_iter();
            let events: Vec<_> = items
                .filter_map(|item| if let Item::Event(event) = item { Some(event) } else { None })
                .collect();
            if !events.is_empty() {
                return Ok(events);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

    #[tokio::test]
    async fn responses_and_events_arrive_in_pieces() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let mut stream = BufReader::new(stream);
            let responses: [&[&[u8]]; 3] = [
                &[b"HTTP/1.1 200 OK\r\ncontent-le", b"ngth: 5\r\n\r\nhe", b"llo"],
                &[b"HTTP/1.1 404 No\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n", b"0\r\n\r\n"],
                &[
                    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n",
                    b"6\r\ndata: \r\n3\r\n2\n\n\r\n0\r\n\r\n",
                ],
            ];
            for pieces in responses {
                let mut line = String::new();
                while line != "\r\n" {
                    line.clear();
                    stream.read_line(&mut line).await.unwrap();
                }
                for piece in pieces {
                    stream.write_all(piece).await.unwrap();
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
        });
        let request = || Request::get("/").header("host", "localhost").body(Bytes::new()).unwrap();
        let mut connection = Connection::open(address).await.unwrap();
        assert_eq!(connection.exchange(request()).await.unwrap(), (200, Bytes::from("hello")));
        assert_eq!(connection.exchange(request()).await.unwrap(), (404, Bytes::from("hi")));
        let mut events = connection.listen(request()).await.unwrap();
        let mut seen = vec![];
        while let Ok(arrived) = events.next().await {
            seen.extend(arrived.into_iter().map(|event| event.data));
        }
        assert_eq!(seen, ["1", "2"]);
        server.await.unwrap();
    }
}
