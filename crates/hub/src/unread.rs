//! Responses to requests whose body was not read to the end, because they were refused early.
//!
//! Closing a connection while its peer still sends resets it, and the client may lose the response. Keeping it
//! open would take the rest of the body for the next request. So such a response says `Connection: close`, and
//! the hub reads on for a while, only so that the client sees the response.

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The time for which, and the bytes up to which, the hub reads on after an early response.
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES: u64 = 4 * 1024 * 1024;

/// A request body that records whether it was read to its end.
pub(crate) struct Watched {
    body: Incoming,
    unread: Arc<AtomicBool>,
}

/// Tells whether part of a [`Watched`] body is unread.
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

/// Ends the sending side, and reads on until the peer closes or the limit is reached.
pub(crate) async fn linger(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    if stream.shutdown().await.is_err() {
        return;
    }
    let (mut rest, mut nowhere) = (stream.take(LINGER_BYTES), tokio::io::sink());
    // The result does not matter: the connection ends now.
    drop(tokio::time::timeout(LINGER, tokio::io::copy(&mut rest, &mut nowhere)).await);
}
