//! Answers to requests that were not read to their end, because they were refused before.
//!
//! To close a connection while its peer still sends is to reset it, and a client that is reset may lose the answer;
//! to keep it open would take the rest of the body for the next request. So such an answer says `Connection: close`,
//! and the hub then reads on for a while, to no purpose but that the answer is seen.

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// How long, and how much, is read of a client that was answered before it had said everything.
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES: u64 = 4 * 1024 * 1024;

/// A request's body that remembers whether it was read to its end.
pub(crate) struct Watched {
    body: Incoming,
    unread: Arc<AtomicBool>,
}

/// Whether something of a [`Watched`] body is left.
pub(crate) struct Rest(Arc<AtomicBool>);

impl Watched {
    pub(crate) fn new(body: Incoming) -> (Self, Rest) {
        let unread = Arc::new(AtomicBool::new(!body.is_end_stream()));
        (Self { body, unread: Arc::clone(&unread) }, Rest(unread))
    }
}

impl Rest {
    pub(crate) fn is_left(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl Body for Watched {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if frame.is_none() {
            self.unread.store(false, Ordering::Release);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Says that no more will be said, and reads on until the peer has heard it or it has been long enough.
pub(crate) async fn linger(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    if stream.shutdown().await.is_err() {
        return;
    }
    let (mut rest, mut nowhere) = (stream.take(LINGER_BYTES), tokio::io::sink());
    // However it ends, that was it.
    drop(tokio::time::timeout(LINGER, tokio::io::copy(&mut rest, &mut nowhere)).await);
}
