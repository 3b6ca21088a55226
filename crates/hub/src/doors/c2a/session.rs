//! One C2A session over one WebSocket: what is delivered, what is acknowledged, what is asked and answered.
//!
//! Before `initialize` nothing else is answered, and nothing delivered. At most [`MAX_UNACKED`] deliveries are unacknowledged;
//! what a harness has not taken after a while comes again. What the two did not agree on is not used. A few calls run side by side; whoever asks for more waits, and so
//! does everything it says behind them. The connection ends with the key, with another session, with the hub, with a peer
//! that says nothing any more; and what was not acknowledged comes to the next one.
//!
//! [`MAX_UNACKED`]: chorus_app::transport::window::MAX_UNACKED

use super::upgrade::Socket;
use chorus_app::c2a::{self, Harness};
use chorus_app::charge::charge;
use chorus_app::delivery::REDELIVERY_MS;
use chorus_app::delivery::reader::{Holds, Piece, Reader};
use chorus_app::transport::dialect::{End, delivered, is_cancellation, told};
use chorus_app::transport::window::Window;
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

/// How many calls run at a time.
const MAX_CALLS: usize = 16;
/// So many pings may go unanswered.
const MAX_SILENT_PINGS: u32 = 3;
/// How long the last frames may take.
const GOODBYE: Duration = Duration::from_secs(5);

/// Why a session ends.
enum Over {
    /// The connection is gone, or its peer has said goodbye.
    Gone,
    /// This is said to the peer.
    Close(u16, &'static str),
}

const TOO_MANY: Over = Over::Close(1008, "too many messages; wait, and connect again");

const fn close(end: End) -> Over {
    match end {
        End::TakenOver => Over::Close(TAKEN_OVER, "another connection opened this inbox"),
        End::Revoked => Over::Close(4003, "this key is not valid any more"),
    }
}

/// Serves a harness until its session is over.
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
        // The peer may be gone already; then there is nobody to say it to.
        drop(timeout(GOODBYE, socket.close(Some(frame))).await);
        drop(timeout(GOODBYE, async { while let Some(Ok(_)) = socket.next().await {} }).await);
    }
}

/// Waits for `initialize`, and answers it. Everything else is told to wait.
async fn begin(harness: &Harness, socket: &mut Socket) -> Result<(Reader, Capabilities), Over> {
    let app = &harness.app;
    let late = tokio::time::sleep(app.config.times.head);
    tokio::pin!(late);
    loop {
        let frame = tokio::select! {
            frame = socket.next() => frame,
            () = &mut late => return Err(Over::Close(1008, "initialize was not sent in time")),
            () = app.stopping.cancelled() => return Err(Over::Close(1001, "the hub stops")),
        };
        let Some(text) = text_of(frame)? else { continue };
        if charge(app, harness.key).is_err() {
            return Err(TOO_MANY);
        }
        let answer = match Message::read(&text) {
            Ok(Message::Request(Request { id, method, params })) if method == Method::Initialize.as_str() => {
                match c2a::initialize(harness, params).await {
                    Ok((reader, result)) => {
                        send(socket, &accepted(id, &result)).await?;
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

/// The text of a frame that has one; the end, if it is one.
fn text_of(
    frame: Option<Result<Frame, tokio_tungstenite::tungstenite::Error>>,
) -> Result<Option<Vec<u8>>, Over> {
    use tokio_tungstenite::tungstenite::Error;
    match frame {
        Some(Ok(Frame::Text(text))) => Ok(Some(text.as_bytes().to_vec())),
        Some(Ok(Frame::Binary(_))) => Err(Over::Close(1003, "messages are text")),
        Some(Ok(Frame::Ping(_) | Frame::Pong(_) | Frame::Frame(_))) => Ok(None),
        Some(Err(Error::Capacity(_))) => Err(Over::Close(1009, "a message has 1 MiB at most")),
        Some(Err(Error::Utf8(_))) => Err(Over::Close(1007, "messages are UTF-8")),
        Some(Err(Error::Protocol(_))) => Err(Over::Close(1002, "this is not how WebSockets speak")),
        Some(Ok(Frame::Close(_)) | Err(_)) | None => Err(Over::Gone),
    }
}

async fn send(socket: &mut Socket, answer: &Response) -> Result<(), Over> {
    let Ok(text) = serde_json::to_string(answer) else { return Err(Over::Close(1011, "an answer was lost")) };
    socket.send(Frame::text(text)).await.map_err(|_| Over::Gone)
}

/// A session that has begun.
struct Session<'s> {
    harness: Harness,
    reader: Reader,
    socket: &'s mut Socket,
    window: Window,
    calls: FuturesUnordered<futures_util::future::BoxFuture<'static, Response>>,
    /// When the peer must have said something.
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
        // Set anew only for what is sooner: a timer for each frame would cost as much as the frame.
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
                    None if self.harness.app.stopping.is_cancelled() => {
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
                    match text_of(frame) {
                        Ok(Some(text)) => self.hear(&text).await,
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

    /// When it is time to look what is due.
    fn wake_at(&self) -> Instant {
        let now = self.harness.app.elapsed();
        let next = self.window.next_due().filter(|_| self.harness.can.delivery.takes_again());
        let wait = next.map(|due| Duration::from_millis((due - now).max(0) as u64));
        wait.map_or(self.silent_at, |wait| self.silent_at.min(Instant::now() + wait))
    }

    /// Something may be due: that the peer says something, or that it is sent something once more. Who is not listened to while its
    /// calls are worked on has not been silent.
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
            // It was removed as too old, or taken back: nobody waits for it, and the harness has said nothing of it.
            Ok(None) => {
                self.end_wait(seq);
                Ok(())
            }
            Err(_) => Err(Over::Close(1011, "the inbox could not be read; connect again")),
        }
    }

    /// Gives this piece and those that are at hand behind it, all at once.
    async fn give_all(&mut self, first: Piece) -> Result<(), Over> {
        let mut next = Some(first);
        while let Some(piece) = next {
            self.give(piece).await?;
            next = if self.window.has_room() { self.reader.next_at_hand() } else { None };
        }
        self.socket.flush().await.map_err(|_| Over::Gone)
    }

    /// Gives a piece, at the latest when the socket is flushed.
    async fn give(&mut self, Piece { bytes, through, holds }: Piece) -> Result<(), Over> {
        let can = self.harness.can;
        let frame = match holds {
            Holds::Farewell(end) => return Err(close(end)),
            Holds::Ping => Frame::Ping(bytes),
            Holds::Notice if is_cancellation(&bytes) && !can.utilities.cancellation => return Ok(()),
            Holds::Notice => text(bytes)?,
            // Who does not acknowledge is told, not asked; it has what it was sent, which must have left before.
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

    async fn hear(&mut self, text: &[u8]) -> Result<(), Over> {
        match Message::read(text) {
            Ok(Message::Response(Response { id, outcome })) => {
                // What was waited for costs nothing: as much is given as the harness takes.
                if !self.take(id, outcome.is_ok()) && charge(&self.harness.app, self.harness.key).is_err() {
                    return Err(TOO_MANY);
                }
                Ok(())
            }
            Ok(Message::Request(Request { id, method, params })) => {
                if let Err(error) = charge(&self.harness.app, self.harness.key) {
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
                    Response { id: Some(id), outcome }
                }));
                Ok(())
            }
            Ok(Message::Notification(Notification { method, params })) => {
                if charge(&self.harness.app, self.harness.key).is_err() {
                    return Err(TOO_MANY);
                }
                if let Err(error) = c2a::tell(&self.harness, &method, params).await {
                    tracing::debug!(%error, method, "a notification of a harness was not taken");
                }
                Ok(())
            }
            Err(unreadable) => {
                if charge(&self.harness.app, self.harness.key).is_err() {
                    return Err(TOO_MANY);
                }
                send(self.socket, &unreadable.into()).await
            }
        }
    }

    /// The harness answered a delivery: it has it, unless it says that it could not take it; then it comes again. Whether that was
    /// waited for.
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

fn text(bytes: bytes::Bytes) -> Result<Frame, Over> {
    let text = bytes.try_into().map_err(|_| Over::Close(1011, "an entry could not be written"))?;
    Ok(Frame::Text(text))
}
