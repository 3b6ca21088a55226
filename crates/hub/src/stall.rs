//! Closes a connection whose peer stops reading.
//!
//! A reader that is slow for ever would hold its buffers for ever. A write that makes no progress for a while
//! is an error, which ends the connection; an inbox resumes by id and loses nothing. Reads have no timeout
//! here, because an idle connection waits for its peer.
//!
//! The slot of a connection goes with its stream, because an upgraded stream outlives the task that accepted
//! it.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

pub(crate) struct StallGuard<S, C> {
    stream: S,
    /// Dropped together with the stream.
    _counted: C,
    limit: Duration,
    /// The timer of a blocked write. It is boxed because most connections never need one.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S, C> StallGuard<S, C> {
    pub(crate) fn new(stream: S, limit: Duration, counted: C) -> Self {
        Self { stream, _counted: counted, limit, stalled: None }
    }

    fn watch<T>(&mut self, cx: &mut Context<'_>, poll: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if poll.is_ready() {
            self.stalled = None;
            return poll;
        }
        let limit = self.limit;
        let timer = self.stalled.get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + limit)));
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer takes no more bytes")))
    }
}

impl<S: AsyncRead + Unpin, C: Unpin> AsyncRead for StallGuard<S, C> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin, C: Unpin> AsyncWrite for StallGuard<S, C> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watch(cx, poll)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.watch(cx, poll)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.stream).poll_flush(cx);
        self.watch(cx, poll)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_takes_nothing_is_given_up() {
        let (ours, _theirs) = duplex(8);
        let mut guarded = StallGuard::new(ours, Duration::from_secs(10), ());
        let error = guarded.write_all(&[0; 64]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_peer_is_not() {
        let (ours, mut theirs) = duplex(8);
        let mut guarded = StallGuard::new(ours, Duration::from_secs(10), ());
        let reader = tokio::spawn(async move {
            for _ in 0..64 {
                tokio::time::sleep(Duration::from_secs(9)).await;
                theirs.read_u8().await.unwrap();
            }
        });
        guarded.write_all(&[0; 64]).await.unwrap();
        reader.await.unwrap();
    }
}
