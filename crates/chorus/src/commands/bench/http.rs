//! As much HTTP/1.1 as a load client needs: it shares the machine with the server it measures, so it does little.
//!
//! One connection, one request at a time, kept alive. Requests come encoded; of an answer the status and the body
//! are looked at, whose end is told by `content-length` or by chunks.

use anyhow::{Context, bail, ensure};
use std::net::{IpAddr, SocketAddr};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// What is read at a time, and the most an answer or an unfinished event may hold.
const PIECE: usize = 16 * 1024;
const MAX_ANSWER: usize = 4 * 1024 * 1024;

/// The head of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) status: u16,
    /// Its own length, with the empty line.
    pub(crate) length: usize,
    pub(crate) body: Framing,
}

/// How the end of a body is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(usize),
    Chunked,
    /// It ends with the connection.
    Open,
}

/// Reads the head of an answer; nothing if it is not complete yet.
pub(crate) fn head(bytes: &[u8]) -> anyhow::Result<Option<Head>> {
    let Some(end) = find(bytes, b"\r\n\r\n") else { return Ok(None) };
    let mut lines = bytes[..end].split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let first = lines.next().unwrap_or_default();
    let status = first.strip_prefix(b"HTTP/1.").and_then(|rest| number(rest.get(2..5)?));
    let status = status.with_context(|| format!("not an answer: {}", String::from_utf8_lossy(first)))? as u16;
    // What has no content has no length either.
    let mut body = if status == 204 { Framing::Length(0) } else { Framing::Open };
    for line in lines {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            body = Framing::Length(number(value).context("a length that is no number")? as usize);
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") && value.eq_ignore_ascii_case(b"chunked") {
            body = Framing::Chunked;
        }
    }
    Ok(Some(Head { status, length: end + 4, body }))
}

/// A decimal number and nothing else.
pub(crate) fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Where `needle` begins.
pub(crate) fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    let first = *needle.first()?;
    let mut from = 0;
    while let Some(at) = haystack[from..].iter().position(|byte| *byte == first) {
        if haystack[from + at..].starts_with(needle) {
            return Some(from + at);
        }
        from += at + 1;
    }
    None
}

/// Takes the frames off a chunked body, wherever its pieces break.
#[derive(Debug, Default)]
pub(crate) struct Chunks {
    at: At,
}

#[derive(Debug, Clone, Copy)]
enum At {
    Size(usize),
    /// Behind the digits of a size, up to the line's end.
    SizeEnd(usize),
    Data(usize),
    DataEnd,
    /// In the lines behind the last chunk; so many bytes into one.
    Trailer(usize),
    End,
}

impl Default for At {
    fn default() -> Self {
        Self::Size(0)
    }
}

impl Chunks {
    /// Takes the next piece, appends its data to `body`, and says whether the body is complete.
    pub(crate) fn push(&mut self, mut piece: &[u8], body: &mut Vec<u8>) -> anyhow::Result<bool> {
        while let [byte, rest @ ..] = piece {
            self.at = match self.at {
                At::Data(left) => {
                    let (data, rest) = piece.split_at(left.min(piece.len()));
                    body.extend_from_slice(data);
                    piece = rest;
                    self.at = if data.len() == left { At::DataEnd } else { At::Data(left - data.len()) };
                    continue;
                }
                At::End => bail!("bytes behind the end of an answer"),
                At::Size(size) | At::SizeEnd(size) if *byte == b'\n' => {
                    if size == 0 {
                        At::Trailer(0)
                    } else {
                        At::Data(size)
                    }
                }
                At::Size(size) => match char::from(*byte).to_digit(16) {
                    Some(digit) => {
                        ensure!(size <= MAX_ANSWER, "a chunk that is too large");
                        At::Size(size * 16 + digit as usize)
                    }
                    None => At::SizeEnd(size),
                },
                At::DataEnd if *byte == b'\n' => At::Size(0),
                At::Trailer(0) if *byte == b'\n' => At::End,
                At::Trailer(_) if *byte == b'\n' => At::Trailer(0),
                At::Trailer(length) if *byte != b'\r' => At::Trailer(length + 1),
                same => same,
            };
            piece = rest;
        }
        Ok(matches!(self.at, At::End))
    }
}

/// A connection to a server.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    filled: usize,
    /// Bodies that came in chunks are put together here.
    joined: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let told = || format!("cannot connect to {address}");
        let stream = TcpStream::connect(address).await.with_context(told)?;
        stream.set_nodelay(true).with_context(told)?;
        Ok(Self { stream, buffer: vec![0; PIECE], filled: 0, joined: Vec::new() })
    }

    /// The same from this address of ours.
    pub(crate) async fn open_from(local: IpAddr, address: SocketAddr) -> anyhow::Result<Self> {
        let told = || format!("cannot connect to {address} from {local}");
        let socket =
            if local.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }.with_context(told)?;
        socket.bind(SocketAddr::new(local, 0)).with_context(told)?;
        let stream = socket.connect(address).await.with_context(told)?;
        stream.set_nodelay(true).with_context(told)?;
        Ok(Self { stream, buffer: vec![0; PIECE], filled: 0, joined: Vec::new() })
    }

    /// Sends a request and returns status and body of its answer.
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> anyhow::Result<(u16, &[u8])> {
        let head = self.ask(request).await?;
        match head.body {
            Framing::Length(length) => {
                let end = head.length + length;
                while self.filled < end {
                    self.read().await?;
                }
                ensure!(self.filled == end, "bytes behind the end of an answer");
                Ok((head.status, &self.buffer[head.length..end]))
            }
            Framing::Chunked => {
                self.joined.clear();
                let (mut chunks, mut from) = (Chunks::default(), head.length);
                while !chunks.push(&self.buffer[from..self.filled], &mut self.joined)? {
                    ensure!(self.joined.len() <= MAX_ANSWER, "an answer that is too large");
                    (from, self.filled) = (0, 0);
                    self.read().await?;
                }
                Ok((head.status, &self.joined))
            }
            Framing::Open => bail!("an answer without a length"),
        }
    }

    /// Sends a request and returns the head of its answer; what follows is in the buffer or still to come.
    async fn ask(&mut self, request: &[u8]) -> anyhow::Result<Head> {
        self.filled = 0;
        self.stream.write_all(request).await.context("cannot send a request")?;
        loop {
            self.read().await?;
            if let Some(head) = head(&self.buffer[..self.filled])? {
                return Ok(head);
            }
        }
    }

    async fn read(&mut self) -> anyhow::Result<()> {
        if self.filled == self.buffer.len() {
            ensure!(self.filled < MAX_ANSWER, "an answer that is too large");
            self.buffer.resize(self.filled * 2, 0);
        }
        let read =
            self.stream.read(&mut self.buffer[self.filled..]).await.context("cannot read an answer")?;
        ensure!(read > 0, "the server closed the connection");
        self.filled += read;
        Ok(())
    }

    /// Sends a request that is answered with another protocol, and returns the connection with what came behind the answer.
    pub(crate) async fn upgrade(mut self, request: &[u8]) -> anyhow::Result<(TcpStream, Vec<u8>)> {
        let head = self.ask(request).await?;
        let rest = self.buffer[head.length..self.filled].to_vec();
        ensure!(head.status == 101, "status {}: {}", head.status, String::from_utf8_lossy(&rest));
        Ok((self.stream, rest))
    }

    /// Sends a request whose answer is a stream of events.
    pub(crate) async fn listen(mut self, request: &[u8]) -> anyhow::Result<Events> {
        let head = self.ask(request).await?;
        let rest = &self.buffer[head.length..self.filled];
        ensure!(head.status == 200, "status {}: {}", head.status, String::from_utf8_lossy(rest));
        let mut events = Events { chunks: None, pending: Vec::new(), done: 0, connection: self };
        if head.body == Framing::Chunked {
            events.chunks = Some(Chunks::default());
        }
        events.take(head.length)?;
        Ok(events)
    }
}

/// A stream of server-sent events, as bytes: each event up to the empty line that ends it.
#[derive(Debug)]
pub(crate) struct Events {
    connection: Connection,
    chunks: Option<Chunks>,
    pending: Vec<u8>,
    /// How much of `pending` was given away.
    done: usize,
}

impl Events {
    /// The next event, if all of it is there already.
    pub(crate) fn ready(&mut self) -> Option<&[u8]> {
        let end = find(&self.pending[self.done..], b"\n\n")?;
        let event = self.done..self.done + end;
        self.done = event.end + 2;
        Some(&self.pending[event])
    }

    /// Waits for more bytes; an error at the end of the stream.
    pub(crate) async fn wait(&mut self) -> anyhow::Result<()> {
        self.connection.filled = 0;
        self.connection.read().await?;
        self.take(0)
    }

    fn take(&mut self, from: usize) -> anyhow::Result<()> {
        self.pending.drain(..self.done);
        self.done = 0;
        ensure!(self.pending.len() <= MAX_ANSWER, "an event that is too large");
        let bytes = &self.connection.buffer[from..self.connection.filled];
        match &mut self.chunks {
            Some(chunks) => {
                ensure!(!chunks.push(bytes, &mut self.pending)?, "the server ended the stream");
            }
            None => self.pending.extend_from_slice(bytes),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read() {
        let bytes = b"HTTP/1.1 202 Accepted\r\nContent-Length:  12\r\nx: y:z\r\n\r\n{}";
        let read = head(bytes).unwrap();
        assert_eq!(read, Some(Head { status: 202, length: bytes.len() - 2, body: Framing::Length(12) }));
        for cut in 0..bytes.len() - 2 {
            assert_eq!(head(&bytes[..cut]).unwrap(), None, "{cut}");
        }
        let chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        assert_eq!(head(chunked).unwrap().unwrap().body, Framing::Chunked);
        assert_eq!(head(b"HTTP/1.0 200 OK\r\n\r\n").unwrap().unwrap().body, Framing::Open);
        assert_eq!(head(b"HTTP/1.1 204 No\r\n\r\n").unwrap().unwrap().body, Framing::Length(0));
        assert!(head(b"SSH-2.0\r\n\r\n").is_err());
        assert!(head(b"HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n").is_err());
    }

    #[test]
    fn chunks_are_joined_wherever_they_break() {
        let bytes = b"4;x=y\r\nWiki\r\nA\r\npedia in\n\n\r\n0\r\nA: b\r\n\r\n";
        for cut in 0..=bytes.len() {
            let (mut chunks, mut body) = (Chunks::default(), Vec::new());
            let early = chunks.push(&bytes[..cut], &mut body).unwrap();
            assert_eq!(early, cut == bytes.len());
            assert!(early || chunks.push(&bytes[cut..], &mut body).unwrap());
            assert_eq!(body, b"Wikipedia in\n\n", "{cut}");
        }
        assert!(Chunks::default().push(b"0\r\n\r\nHTTP", &mut Vec::new()).is_err());
        assert!(Chunks::default().push(b"fffffffff\r\n", &mut Vec::new()).is_err());
    }

    #[test]
    fn needles_are_found() {
        assert_eq!(find(b"a\r\r\n\r\n", b"\r\n\r\n"), Some(2));
        assert_eq!(find(b"aab", b"ab"), Some(1));
        assert_eq!(find(b"aa", b"ab"), None);
        assert_eq!(find(b"aa", b""), None);
        assert_eq!((number(b"0012"), number(b"1x"), number(b"")), (Some(12), None, None));
    }

    #[tokio::test]
    async fn answers_and_events_come_in_pieces() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let answers: [&[&[u8]]; 3] = [
                &[b"HTTP/1.1 200 OK\r\ncontent-le", b"ngth: 5\r\n\r\nhe", b"llo"],
                &[b"HTTP/1.1 404 No\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n", b"0\r\n\r\n"],
                &[
                    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n6\r\na: 1\n\n\r\n",
                    b"3\r\nb: \r\n3\r\n2\n\n\r\n0\r\n\r\n",
                ],
            ];
            for pieces in answers {
                let mut request = [0; 4];
                stream.read_exact(&mut request).await.unwrap();
                for piece in pieces {
                    stream.write_all(piece).await.unwrap();
                    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                }
            }
        });
        let mut connection = Connection::open(address).await.unwrap();
        assert_eq!(connection.exchange(b"ask\n").await.unwrap(), (200, &b"hello"[..]));
        assert_eq!(connection.exchange(b"ask\n").await.unwrap(), (404, &b"hi"[..]));
        let mut events = connection.listen(b"ask\n").await.unwrap();
        let mut seen = Vec::new();
        let mut open = true;
        while open {
            open = events.wait().await.is_ok();
            while let Some(event) = events.ready() {
                seen.push(String::from_utf8(event.to_vec()).unwrap());
            }
        }
        assert_eq!(seen, ["a: 1", "b: 2"]);
        server.await.unwrap();
    }
}
