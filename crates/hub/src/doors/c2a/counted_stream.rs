//! Bounds the memory of incomplete WebSocket messages.
//!
//! The WebSocket library keeps the parts of a message until it is complete. So bytes are counted when they are
//! read: against a limit, which is low until the session is initialized, and against the
//! [budget](chorus_node::limits::body_budget) of all bodies.

use chorus_node::limits::body_budget::BodyLease;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::tungstenite::Error;

/// The largest message before `initialize` is answered, in bytes.
pub(super) const MAX_FIRST_MESSAGE: usize = 64 * 1024;
/// The size of a client's control frame header, in bytes.
const CONTROL_HEADER: usize = 6;

/// An error that ends reading because a message takes too much memory.
#[derive(Debug, Clone, Copy, thiserror::Error)]
pub(super) enum ReadRefusal {
    #[error("a message before initialize is too long")]
    TooLong,
    #[error("the budget of all bodies has no room for a message")]
    NoRoom,
}

impl ReadRefusal {
    /// Returns the refusal behind a WebSocket read error, if there is one.
    pub(super) fn of(error: &Error) -> Option<Self> {
        let Error::Io(error) = error else { return None };
        error.get_ref()?.downcast_ref().copied()
    }
}

/// A stream that counts the bytes read since the last complete message.
pub(super) struct CountedStream<S> {
    stream: S,
    lease: BodyLease,
    pending: usize,
    limit: usize,
}

impl<S> CountedStream<S> {
    pub(super) fn new(stream: S, lease: BodyLease) -> Self {
        Self { stream, lease, pending: 0, limit: MAX_FIRST_MESSAGE }
    }

    /// Removes the low limit; the WebSocket's own limit remains.
    pub(super) fn lift_limit(&mut self) {
        self.limit = usize::MAX;
    }

    /// Starts counting the next message. The bytes of the complete one stay counted until the returned lease
    /// is dropped.
    pub(super) fn complete_message(&mut self) -> BodyLease {
        self.pending = 0;
        let next = self.lease.another();
        std::mem::replace(&mut self.lease, next)
    }

    /// Subtracts a control frame, which is not part of a message and may arrive between its parts.
    pub(super) fn forget_control_frame(&mut self, payload: &[u8]) {
        self.pending = self.pending.saturating_sub(CONTROL_HEADER + payload.len());
    }

    fn count(&mut self, read: usize) -> Result<(), ReadRefusal> {
        self.pending += read;
        if self.pending > self.limit {
            return Err(ReadRefusal::TooLong);
        }
        self.lease.resize(self.pending).map_err(|_| ReadRefusal::NoRoom)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for CountedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        let read = buffer.filled().len() - before;
        Poll::Ready(self.count(read).map_err(io::Error::other))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for CountedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
