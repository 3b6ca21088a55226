//! HTTP as bytes on a socket, for traffic that no proper client sends.
//!
//! It neither checks what it writes nor decodes what it reads: a chunked body stays chunked.

use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Writes `bytes` and returns everything that the server sends until it closes or `timeout` is over.
///
/// The sending side stays open, so a closed connection is the server's own decision.
pub async fn raw_exchange(addr: SocketAddr, bytes: &[u8], timeout: Duration) -> Vec<u8> {
    let mut stream = TcpStream::connect(addr).await.expect("the server under test listens");
    let (mut reader, mut writer) = stream.split();
    let mut answer = Vec::new();
    // Reading runs in parallel with writing, because a server may reject a large body before it has read all
    // of it.
    let write = async {
        writer.write_all(bytes).await.ok();
        std::future::pending::<()>().await;
    };
    let read = async { while let Ok(1..) = reader.read_buf(&mut answer).await {} };
    tokio::select! {
        () = read => {}
        () = write => {}
        () = tokio::time::sleep(timeout) => {}
    }
    answer
}

/// Returns the status of a response, or `None` if it has no status line.
pub fn status_of(answer: &[u8]) -> Option<u16> {
    let line = answer.strip_prefix(b"HTTP/1.")?.get(1..5)?;
    std::str::from_utf8(line).ok()?.strip_prefix(' ')?.parse().ok()
}

/// Returns the body of a response; empty if its headers never ended.
pub fn body_of(answer: &[u8]) -> &[u8] {
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n");
    end.map_or(&[], |end| &answer[end + 4..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receiver::{FakeAgent, Reply};

    #[test]
    fn parts_of_an_answer() {
        let answer = b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}";
        assert_eq!(status_of(answer), Some(404));
        assert_eq!(body_of(answer), b"{}");
        assert_eq!(status_of(b"HTTP/1.1 4"), None);
        assert_eq!(status_of(b"garbage"), None);
        assert_eq!(body_of(b"HTTP/1.1 200 OK\r\n"), b"");
    }

    #[tokio::test]
    async fn ends_with_the_connection_or_with_the_time() {
        let agent = FakeAgent::start().await;
        let refused = raw_exchange(agent.addr(), b"\x00\x01nonsense\r\n\r\n", Duration::from_secs(10)).await;
        assert_eq!(status_of(&refused), Some(400));
        agent.set(Reply::Hang);
        let request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        assert_eq!(raw_exchange(agent.addr(), request, Duration::from_millis(100)).await, b"");
    }
}
