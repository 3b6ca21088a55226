//! Rewrites errors of the HTTP library into the hub's formats.
//!
//! A malformed or oversized request head never reaches a handler: the library answers with a bare status. This
//! wrapper sits between the library and its connection and adds the body that the door would have sent.
//! Responses of handlers pass unchanged: a write is inspected only if everything before it has been flushed
//! and no request is in progress.

use crate::connections::Connection;
use crate::error::{ApiError, Format, render};
use axum::response::IntoResponse;
use chorus_node::AppState;
use chorus_protocol::code::Code;
use futures_util::FutureExt;
use http_body_util::BodyExt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The number of bytes kept of a request's head: enough to find the door of its path.
const HEAD: usize = 64;

/// The error formats of path prefixes.
pub(crate) type Formats = Arc<[(&'static str, Format)]>;

pub(crate) struct HttpErrors<S> {
    stream: S,
    app: AppState,
    connection: Arc<Connection>,
    formats: Formats,
    /// The first bytes received since the last response.
    head: Vec<u8>,
    /// True if all responses so far have been sent.
    quiet: bool,
    /// The rewritten response, and the number of its bytes already sent.
    instead: Vec<u8>,
    said: usize,
}

impl<S> HttpErrors<S> {
    pub(crate) fn new(stream: S, app: AppState, connection: Arc<Connection>, formats: Formats) -> Self {
        let (head, instead) = (vec![], vec![]);
        Self { stream, app, connection, formats, head, quiet: true, instead, said: 0 }
    }

    pub(crate) fn into_inner(self) -> S {
        self.stream
    }

    /// Returns the replacement of these bytes if they are the library's own error.
    fn instead_of(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        if !self.quiet || self.connection.is_answering() {
            return None;
        }
        let status = bytes.strip_prefix(b"HTTP/1.1 ").and_then(|rest| rest.get(..3))?;
        let (code, why) = match status {
            b"400" => (Code::Validation, "this is no HTTP request that can be read"),
            // An oversized address arrives as an oversized head.
            b"414" | b"431" => {
                (Code::HeadTooLarge, "the request's address or headers are too large, or too many")
            }
            _ => return None,
        };
        let error = ApiError::new(code, why);
        let response = render(&error, self.format(), error.clone().into_response(), self.app.now());
        let status = response.status();
        // The body is complete, so this does not wait.
        let body = response.into_body().collect().now_or_never()?.ok()?.to_bytes();
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
             x-content-type-options: nosniff\r\ncache-control: no-store\r\nconnection: close\r\n\r\n",
            body.len()
        );
        Some([head.as_bytes(), &body].concat())
    }

    /// Returns the error format of the path, as far as it was received.
    fn format(&self) -> Format {
        let path = self.head.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
        let door = self.formats.iter().find(|(prefix, _)| path.starts_with(prefix.as_bytes()));
        door.map_or(Format::Relay, |(_, format)| *format)
    }
}

impl<S: AsyncWrite + Unpin> HttpErrors<S> {
    /// Writes the rewritten response before anything else.
    fn say(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(rest) = self.instead.get(self.said..).filter(|rest| !rest.is_empty()) {
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, rest))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.said += written;
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for HttpErrors<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        if self.head.len() < HEAD {
            let new = buf.filled().get(before..).unwrap_or_default();
            let room = HEAD - self.head.len();
            self.head.extend(new.iter().take(room));
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for HttpErrors<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if let Some(instead) = self.instead_of(bytes) {
            (self.instead, self.said) = (instead, 0);
            return Poll::Ready(Ok(bytes.len()));
        }
        ready!(self.say(cx))?;
        (self.quiet, self.head) = (false, vec![]);
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // The library writes its own error in one piece.
        if let [one] = bufs {
            return self.poll_write(cx, one);
        }
        ready!(self.say(cx))?;
        (self.quiet, self.head) = (false, vec![]);
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.say(cx))?;
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        self.connection.flushed();
        self.quiet = !self.connection.is_answering();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.say(cx))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
