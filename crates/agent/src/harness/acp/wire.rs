//! JSON-RPC with an ACP program: our requests, the updates of its sessions, and its requests.
//!
//! A [`Wire`] is a handle that turns share. A line that is too long or no message is skipped. Requests that
//! this client does not support are refused, and a permission request of a session without a running turn is
//! cancelled.

use chorus_protocol::rpc::{Id, Message, Notification, Request, Response, RpcError};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

/// The longest line of a program, in bytes. A longer one is skipped.
const MAX_LINE: usize = 8 * 1024 * 1024;

/// The number of events that may wait for a turn.
const EVENTS: usize = 256;

/// The method by which a program asks for permission.
const PERMISSION: &str = "session/request_permission";

/// A handle to a running program.
#[derive(Clone)]
pub(super) struct Wire(Arc<Shared>);

struct Shared {
    out: mpsc::Sender<String>,
    state: Mutex<State>,
    /// The reason why the program has ended, once it has.
    ended: watch::Sender<Option<String>>,
}

#[derive(Default)]
struct State {
    calls: i64,
    pending: HashMap<i64, oneshot::Sender<RpcAnswer>>,
    /// The turns in progress, by their sessions.
    listeners: HashMap<String, mpsc::Sender<SessionEvent>>,
    /// The leader of the program's process group, as long as the program is not reaped.
    leader: Option<Pid>,
}

pub(super) type RpcAnswer = Result<Value, RpcError>;

/// An event of a session with a running turn.
pub(super) enum SessionEvent {
    /// The update of a `session/update`.
    Update(Value),
    /// A permission request. It must be answered by [`Wire::respond`].
    Permission { id: Id, params: Value },
}

/// The reason why a request failed.
#[derive(Debug)]
pub(super) enum WireFault {
    /// The program has ended. The text says why, as far as it is known.
    Ended(String),
    /// The program answered with an error.
    Refused(RpcError),
    /// The program did not answer in time.
    Slow(Duration),
}

impl Wire {
    /// Creates a handle and the receiver of the lines to write.
    pub(super) fn new(leader: Option<Pid>) -> (Self, mpsc::Receiver<String>) {
        let (out, outs) = mpsc::channel(64);
        let state = Mutex::new(State { leader, ..State::default() });
        (Self(Arc::new(Shared { out, state, ended: watch::Sender::new(None) })), outs)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request and waits for its answer.
    pub(super) async fn call(
        &self,
        method: &str,
        params: Value,
        limit: Duration,
    ) -> Result<Value, WireFault> {
        let answered = async {
            let answer = self.begin(method, params).await?;
            self.finish(answer.await.ok())
        };
        timeout(limit, answered).await.map_err(|_| WireFault::Slow(limit))?
    }

    /// Sends a request. Its answer comes by the receiver, which fails if the program ends first.
    pub(super) async fn begin(
        &self,
        method: &str,
        params: Value,
    ) -> Result<oneshot::Receiver<RpcAnswer>, WireFault> {
        let (answer, answered) = oneshot::channel();
        let number = {
            let mut state = self.state();
            state.calls += 1;
            let number = state.calls;
            state.pending.retain(|_, waits| !waits.is_closed());
            state.pending.insert(number, answer);
            number
        };
        // The end of the program fails all pending requests, so one that was added afterwards fails here.
        if let Some(why) = self.ended() {
            return Err(WireFault::Ended(why));
        }
        let request = Request { id: number.into(), method: method.to_owned(), params: object(params) };
        self.write(json!(request)).await;
        Ok(answered)
    }

    /// Converts the answer to a request; `None` if the program ended before it came.
    pub(super) fn finish(&self, answer: Option<RpcAnswer>) -> Result<Value, WireFault> {
        match answer {
            Some(answer) => answer.map_err(WireFault::Refused),
            None => Err(WireFault::Ended(self.ended().unwrap_or_else(|| "it has ended".to_owned()))),
        }
    }

    pub(super) async fn notify(&self, method: &str, params: Value) {
        self.write(json!(Notification { method: method.to_owned(), params: object(params) })).await;
    }

    /// Answers a request of the program.
    pub(super) async fn respond(&self, id: Id, outcome: RpcAnswer) {
        self.write(json!(Response { id: Some(id), outcome })).await;
    }

    async fn write(&self, message: Value) {
        // A program that has ended reads nothing.
        self.0.out.send(message.to_string()).await.ok();
    }

    /// Receives the events of a session from now on, instead of an earlier receiver.
    pub(super) fn listen(&self, session: &str) -> mpsc::Receiver<SessionEvent> {
        let (events, received) = mpsc::channel(EVENTS);
        self.state().listeners.insert(session.to_owned(), events);
        received
    }

    pub(super) fn stop_listening(&self, session: &str) {
        self.state().listeners.remove(session);
    }

    /// Returns the reason why the program has ended, if it has.
    pub(super) fn ended(&self) -> Option<String> {
        self.0.ended.borrow().clone()
    }

    /// Waits until the program has ended.
    pub(super) async fn wait(&self) {
        // The sender is part of this handle.
        self.0.ended.subscribe().wait_for(Option::is_some).await.ok();
    }

    /// Records the end of the program and fails all pending requests.
    pub(super) fn end(&self, why: &str) {
        self.0.ended.send_if_modified(|ended| {
            let first = ended.is_none();
            ended.get_or_insert_with(|| why.to_owned());
            first
        });
        let mut state = self.state();
        state.pending.clear();
        state.listeners.clear();
    }

    /// Kills the program with everything it started.
    pub(super) fn kill(&self, why: &str) {
        if let Some(leader) = self.state().leader.take() {
            // The group may have exited already.
            kill_process_group(leader, Signal::KILL).ok();
        }
        self.end(why);
    }

    /// Reads the program's messages until its output ends.
    pub(super) async fn read(&self, mut from: impl AsyncBufRead + Unpin) {
        let mut line = Vec::new();
        while let Ok(true) = next_line(&mut from, &mut line).await {
            self.take(&line).await;
        }
    }

    async fn take(&self, line: &[u8]) {
        match Message::read(line) {
            Ok(Message::Response(response)) => self.answered(response),
            Ok(Message::Notification(Notification { method, mut params })) => {
                // Other notifications, such as those that begin with an underscore, are the program's own.
                if method == "session/update"
                    && let Some(update) = params.remove("update")
                {
                    self.pass(&session_of(&params), SessionEvent::Update(update)).await;
                }
            }
            Ok(Message::Request(Request { id, method, params })) if method == PERMISSION => {
                let (session, again) = (session_of(&params), id.clone());
                let event = SessionEvent::Permission { id, params: Value::Object(params) };
                if !self.pass(&session, event).await {
                    self.respond(again, Ok(cancelled())).await;
                }
            }
            Ok(Message::Request(Request { id, method, .. })) => {
                self.respond(id, Err(RpcError::method(&method))).await;
            }
            // Some programs leave out members of a response, and some print what is no message.
            Err(_) => {
                if let Some(response) = serde_json::from_slice(line).ok().and_then(Response::read) {
                    self.answered(response);
                }
            }
        }
    }

    fn answered(&self, response: Response) {
        let Some(Id::Number(number)) = response.id else { return };
        let waits = number.as_i64().and_then(|number| self.state().pending.remove(&number));
        waits.map(|waits| waits.send(response.outcome).ok());
    }

    /// Passes an event to the turn of a session. Returns `false` if there is none.
    async fn pass(&self, session: &str, event: SessionEvent) -> bool {
        let listener = self.state().listeners.get(session).cloned();
        match listener {
            Some(listener) => listener.send(event).await.is_ok(),
            None => false,
        }
    }
}

/// Returns the answer to a permission request that nobody decided.
pub(super) fn cancelled() -> Value {
    json!({"outcome": {"outcome": "cancelled"}})
}

fn session_of(params: &Map<String, Value>) -> String {
    params.get("sessionId").and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

/// Reads the next line that is not too long, without its end. Returns `false` at the end of the input.
async fn next_line(from: &mut (impl AsyncBufRead + Unpin), line: &mut Vec<u8>) -> std::io::Result<bool> {
    line.clear();
    let mut too_long = false;
    loop {
        let available = from.fill_buf().await?;
        if available.is_empty() {
            return Ok(!line.is_empty());
        }
        let end = available.iter().position(|byte| *byte == b'\n');
        let piece = &available[..end.unwrap_or(available.len())];
        too_long |= line.len() + piece.len() > MAX_LINE;
        if too_long {
            // The memory of a long line is given back.
            *line = Vec::new();
        } else {
            line.extend_from_slice(piece);
        }
        let used = end.map_or(available.len(), |end| end + 1);
        from.consume(used);
        if end.is_some() && !std::mem::take(&mut too_long) {
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_line_that_is_too_long_is_skipped() {
        let text = [b"one\n".to_vec(), vec![b'x'; MAX_LINE + 1], b"\ntwo".to_vec()].concat();
        let (mut from, mut line, mut lines) = (text.as_slice(), vec![], vec![]);
        while next_line(&mut from, &mut line).await.unwrap() {
            lines.push(String::from_utf8(line.clone()).unwrap());
        }
        assert_eq!(lines, ["one", "two"]);
    }

    #[tokio::test]
    async fn requests_nobody_waits_for_are_refused_or_cancelled() {
        let (wire, mut outs) = Wire::new(None);
        let lines = "no JSON\n\
            {\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"session/request_permission\",\"params\":{\"sessionId\":\"s\"}}\n\
            {\"jsonrpc\":\"2.0\",\"id\":\"1\",\"method\":\"fs/read_text_file\",\"params\":{}}\n\
            {\"jsonrpc\":\"2.0\",\"method\":\"_own/notice\",\"params\":{}}\n\
            {\"jsonrpc\":\"2.0\",\"id\":99,\"result\":{}}\n";
        wire.read(lines.as_bytes()).await;
        let mut next = async || serde_json::from_str::<Value>(&outs.recv().await.unwrap()).unwrap();
        assert_eq!(next().await, json!({"jsonrpc": "2.0", "id": 0, "result": cancelled()}));
        let refused = next().await;
        assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!("1"), &json!(-32601)));
        wire.end("over");
        assert!(matches!(
            wire.call("initialize", json!({}), Duration::from_secs(1)).await,
            Err(WireFault::Ended(_))
        ));
    }
}
