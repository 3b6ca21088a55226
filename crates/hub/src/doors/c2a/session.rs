//! One C2A session over one WebSocket: deliveries, acknowledgements, calls and their results.
//!
//! Before `initialize` no other call is answered and nothing is delivered. At most [`MAX_UNACKED`] deliveries
//! are unacknowledged; a delivery without acknowledgement is sent again after a while. Capabilities that were
//! not negotiated are not used. A few calls run concurrently; further ones wait, and all later messages wait
//! behind them. The session ends when its key is revoked, another session takes over, the hub stops, or the
//! peer falls silent. Unacknowledged deliveries go to the next session.
//!
//! [`MAX_UNACKED`]: chorus_node::transport::window::MAX_UNACKED

use super::counted_stream::ReadRefusal;
use super::upgrade::Socket;
use bytes::Bytes;
use chorus_app::c2a::{self, Harness};
use chorus_app::delivery::REDELIVERY_MS;
use chorus_app::delivery::reader::{Holds, Piece, Reader};
use chorus_node::limits::body_budget::BodyLease;
use chorus_node::transport::dialect::{End, delivered, is_cancellation, told};
use chorus_node::transport::window::Window;
use chorus_protocol::c2a::{Capabilities, InitializeResult, Method, NOT_INITIALIZED, TAKEN_OVER};
use chorus_protocol::rpc::{Id, Message, Notification, Request, Response, RpcError};
use futures_util::stream::FuturesUnordered;
use futures_util::{SinkExt, StreamExt};
use serde_json::json;
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_tungstenite::tungstenite::Message as Frame;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

/// The number of calls that run at a time.
const MAX_CALLS: usize = 16;
/// The number of pings that may go unanswered.
const MAX_SILENT_PINGS: u32 = 3;
/// The time for sending the last frames.
const GOODBYE: Duration = Duration::from_secs(5);

/// The reason why a session ends.
enum Over {
    /// The connection is closed, or the peer has sent a close frame.
    Gone,
    /// The hub sends a close frame with this code and reason.
    Close(u16, &'static str),
}

const TOO_MANY: Over = Over::Close(1008, "too many messages; wait, and connect again");

const fn close(end: End) -> Over {
    match end {
        End::TakenOver => Over::Close(TAKEN_OVER, "another connection opened this inbox"),
        End::Revoked => Over::Close(4003, "this key is not valid any more"),
    }
}

/// Serves a harness until its session ends.
pub(super) async fn run(harness: Harness, mut socket: Socket) {
    let over = match begin(&harness, &mut socket).await {
        Ok((reader, can)) => {
            let harness = Harness { can, ..harness };
            Session::new(harness, reader, &mut socket).serve().await
        }
        Err(over) => over,
    };
    if let Over::Close(code, reason) = over {
        let frame = CloseFrame { code: CloseCode::from(code), reason: reason.into() };
        // The peer may already be gone, so an error here does not matter.
        drop(timeout(GOODBYE, socket.close(Some(frame))).await);
        drop(timeout(GOODBYE, async { while let Some(Ok(_)) = socket.next().await {} }).await);
    }
}

/// Waits for `initialize` and answers it. Any other call gets an error.
async fn begin(harness: &Harness, socket: &mut Socket) -> Result<(Reader, Capabilities), Over> {
    let app = &harness.app;
    let late = tokio::time::sleep(app.config.times.head);
    tokio::pin!(late);
    loop {
        let frame = tokio::select! {
            frame = socket.next() => frame,
            () = &mut late => return Err(Over::Close(1008, "initialize was not sent in time")),
            () = app.tasks.stopping.cancelled() => return Err(Over::Close(1001, "the hub stops")),
        };
        let Some((text, _lease)) = text_of(socket, frame)? else { continue };
        if app.limits.charge(harness.key).is_err() {
            return Err(TOO_MANY);
        }
        let answer = match Message::read(&text) {
            Ok(Message::Request(Request { id, method, params })) if method == Method::Initialize.as_str() => {
                match c2a::initialize(harness, params).await {
                    Ok((reader, result)) => {
                        send(socket, &accepted(id, &result)).await?;
                        socket.get_mut().lift_limit();
                        return Ok((reader, result.capabilities));
                    }
                    Err(error) => Response { id: Some(id), outcome: Err(error) },
                }
            }
            Ok(Message::Request(Request { id, .. })) => {
                let error = RpcError::new(NOT_INITIALIZED, "send initialize first");
                Response { id: Some(id), outcome: Err(error) }
            }
            Ok(Message::Notification(_) | Message::Response(_)) => continue,
            Err(unreadable) => unreadable.into(),
        };
        send(socket, &answer).await?;
    }
}

fn accepted(id: Id, result: &InitializeResult) -> Response {
    Response { id: Some(id), outcome: Ok(json!(result)) }
}

/// Returns the text of a frame with its lease, or the end of the session for a close frame.
fn text_of(
    socket: &mut Socket,
    frame: Option<Result<Frame, tokio_tungstenite::tungstenite::Error>>,
) -> Result<Option<(Bytes, BodyLease)>, Over> {
    use tokio_tungstenite::tungstenite::Error;
    match frame {
        Some(Ok(Frame::Text(text))) => Ok(Some((text.into(), socket.get_mut().complete_message()))),
        Some(Ok(Frame::Binary(_))) => Err(Over::Close(1003, "messages are text")),
        Some(Ok(Frame::Ping(payload) | Frame::Pong(payload))) => {
            socket.get_mut().forget_control_frame(&payload);
            Ok(None)
        }
        Some(Ok(Frame::Frame(_))) => Ok(None),
        Some(Err(Error::Capacity(_))) => Err(Over::Close(1009, "a message has 1 MiB at most")),
        Some(Err(Error::Utf8(_))) => Err(Over::Close(1007, "messages are UTF-8")),
        Some(Err(Error::Protocol(_))) => Err(Over::Close(1002, "this is not how WebSockets speak")),
        Some(Err(error)) => Err(match ReadRefusal::of(&error) {
            Some(ReadRefusal::TooLong) => {
                Over::Close(1009, "before initialize, a message has 64 KiB at most")
            }
            Some(ReadRefusal::NoRoom) => Over::Close(1013, "too many large messages at once; connect again"),
            None => Over::Gone,
        }),
        Some(Ok(Frame::Close(_))) | None => Err(Over::Gone),
    }
}

async fn send(socket: &mut Socket, answer: &Response) -> Result<(), Over> {
    let Ok(text) = serde_json::to_string(answer) else { return Err(Over::Close(1011, "an answer was lost")) };
    socket.send(Frame::text(text)).await.map_err(|_| Over::Gone)
}

/// A session after `initialize`.
struct Session<'s> {
    harness: Harness,
    reader: Reader,
    socket: &'s mut Socket,
    window: Window,
    calls: FuturesUnordered<futures_util::future::BoxFuture<'static, Response>>,
    /// The time by which the peer must send something.
    silent_at: Instant,
    patience: Duration,
}

impl<'s> Session<'s> {
    fn new(harness: Harness, reader: Reader, socket: &'s mut Socket) -> Self {
        let redelivery = harness.app.config.times.redelivery.as_millis() as i64;
        let patience = harness.app.config.times.ping * (MAX_SILENT_PINGS + 1);
        Self {
            harness,
            reader,
            socket,
            window: Window::new(redelivery, *REDELIVERY_MS.end()),
            calls: FuturesUnordered::new(),
            silent_at: Instant::now() + patience,
            patience,
        }
    }

    async fn serve(mut self) -> Over {
        // The timer is only moved to an earlier time, because setting it for each frame would cost as much as
        // the frame.
        let wake = sleep_until(self.wake_at());
        tokio::pin!(wake);
        loop {
            let (has_room, may_call) = (self.window.has_room(), self.calls.len() < MAX_CALLS);
            let stepped = tokio::select! {
                piece = self.reader.next_if(has_room) => match piece {
                    Some(piece) => {
                        let given = self.give_all(piece).await;
                        let at = self.wake_at();
                        if at < wake.deadline() {
                            wake.as_mut().reset(at);
                        }
                        given
                    }
                    None if self.harness.app.tasks.stopping.is_cancelled() => {
                        Err(Over::Close(1001, "the hub stops"))
                    }
                    None => Err(Over::Close(1011, "the inbox could not be read; connect again")),
                },
                () = &mut wake => {
                    let looked = self.look_at_time(may_call).await;
                    wake.as_mut().reset(self.wake_at());
                    looked
                }
                Some(answer) = self.calls.next() => send(self.socket, &answer).await,
                frame = self.socket.next(), if may_call => {
                    self.silent_at = Instant::now() + self.patience;
                    match text_of(self.socket, frame) {
                        Ok(Some((text, lease))) => self.hear(&text, lease).await,
                        Ok(None) => Ok(()),
                        Err(over) => Err(over),
                    }
                }
            };
            if let Err(over) = stepped {
                return over;
            }
        }
    }

    /// Returns the time of the next check.
    fn wake_at(&self) -> Instant {
        let now = self.harness.app.elapsed();
        let next = self.window.next_due().filter(|_| self.harness.can.delivery.takes_again());
        let wait = next.map(|due| Duration::from_millis((due - now).max(0) as u64));
        wait.map_or(self.silent_at, |wait| self.silent_at.min(Instant::now() + wait))
    }

    /// Handles expired timers: an overdue sign of life, or an overdue acknowledgement. A peer that is not read
    /// while its calls run does not count as silent.
    async fn look_at_time(&mut self, listens: bool) -> Result<(), Over> {
        if !listens {
            self.silent_at = Instant::now() + self.patience;
        }
        if self.silent_at <= Instant::now() { Err(Over::Gone) } else { self.give_again().await }
    }

    async fn give_again(&mut self) -> Result<(), Over> {
        if !self.harness.can.delivery.takes_again() {
            return Ok(());
        }
        let now = self.harness.app.elapsed();
        let Some(seq) = self.window.take_due(now) else { return Ok(()) };
        match self.reader.again(seq).await {
            Ok(Some(frame)) => self.socket.send(text(frame)?).await.map_err(|_| Over::Gone),
            // The delivery was removed as too old, or withdrawn. The harness has not acknowledged it and will
            // not be asked again.
            Ok(None) => {
                self.end_wait(seq);
                Ok(())
            }
            Err(_) => Err(Over::Close(1011, "the inbox could not be read; connect again")),
        }
    }

    /// Sends this piece and all that are ready behind it, and flushes once.
    async fn give_all(&mut self, first: Piece) -> Result<(), Over> {
        let mut next = Some(first);
        while let Some(piece) = next {
            self.give(piece).await?;
            next = if self.window.has_room() { self.reader.next_at_hand() } else { None };
        }
        self.socket.flush().await.map_err(|_| Over::Gone)
    }

    /// Sends a piece, at the latest with the next flush.
    async fn give(&mut self, Piece { bytes, through, holds }: Piece) -> Result<(), Over> {
        let can = self.harness.can;
        let frame = match holds {
            Holds::Farewell(end) => return Err(close(end)),
            Holds::Ping => Frame::Ping(bytes),
            Holds::Notice if is_cancellation(&bytes) && !can.utilities.cancellation => return Ok(()),
            Holds::Notice => text(bytes)?,
            // A harness without acknowledgements gets notifications. A delivery counts as received once it was
            // flushed.
            Holds::Entries if !can.delivery.ack => {
                self.socket.send(text(told(&bytes, through))?).await.map_err(|_| Over::Gone)?;
                self.reader.give(through);
                self.reader.ack(through);
                self.reader.hand(through);
                return Ok(());
            }
            Holds::Entries => {
                self.window.send(through, self.harness.app.elapsed());
                self.reader.give(through);
                text(bytes)?
            }
        };
        self.socket.feed(frame).await.map_err(|_| Over::Gone)
    }

    async fn hear(&mut self, text: &[u8], lease: BodyLease) -> Result<(), Over> {
        match Message::read(text) {
            Ok(Message::Response(Response { id, outcome })) => {
                // Awaited acknowledgements are free of charge, so that the harness sets the pace.
                if !self.take(id, outcome.is_ok())
                    && self.harness.app.limits.charge(self.harness.key).is_err()
                {
                    return Err(TOO_MANY);
                }
                Ok(())
            }
            Ok(Message::Request(Request { id, method, params })) => {
                if let Err(error) = self.harness.app.limits.charge(self.harness.key) {
                    let data = json!({"code": error.code.short(), "retryAfterMs": error.retry_after_ms});
                    let error = RpcError::new(RpcError::INTERNAL, &error.message).with(data);
                    return send(self.socket, &Response { id: Some(id), outcome: Err(error) }).await;
                }
                if method == Method::Initialize.as_str() {
                    let error = RpcError::new(RpcError::INVALID_REQUEST, "this session has begun already");
                    return send(self.socket, &Response { id: Some(id), outcome: Err(error) }).await;
                }
                let harness = self.harness.clone();
                self.calls.push(Box::pin(async move {
                    let outcome = c2a::call(&harness, &method, params).await;
                    drop(lease);
                    Response { id: Some(id), outcome }
                }));
                Ok(())
            }
            Ok(Message::Notification(Notification { method, params })) => {
                if self.harness.app.limits.charge(self.harness.key).is_err() {
                    return Err(TOO_MANY);
                }
                if let Err(error) = c2a::tell(&self.harness, &method, params).await {
                    tracing::debug!(%error, method, "a notification of a harness was not taken");
                }
                Ok(())
            }
            Err(unreadable) => {
                if self.harness.app.limits.charge(self.harness.key).is_err() {
                    return Err(TOO_MANY);
                }
                send(self.socket, &unreadable.into()).await
            }
        }
    }

    /// Handles the response to a delivery: an error means that it is sent again. Returns whether a response
    /// was expected.
    fn take(&mut self, id: Option<Id>, accepted: bool) -> bool {
        let Some(Id::Text(id)) = id else { return false };
        let Some(seq) = delivered(&id).filter(|seq| accepted && self.window.awaits(*seq)) else {
            return false;
        };
        self.reader.ack(seq);
        self.end_wait(seq);
        true
    }

    fn end_wait(&mut self, seq: i64) {
        if let Some(through) = self.window.ack(seq) {
            self.reader.hand(through);
        }
    }
}

fn text(bytes: Bytes) -> Result<Frame, Over> {
    let text = bytes.try_into().map_err(|_| Over::Close(1011, "an entry could not be written"))?;
    Ok(Frame::Text(text))
}
