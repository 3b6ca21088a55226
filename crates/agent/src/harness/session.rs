//! A C2A session: receives deliveries, sends acknowledgements, notifications and tool calls, and reconnects.
//!
//! A separate task reads and writes the socket; [`Session`] is the handle for callers of tools. A delivery is
//! acknowledged only when the journal contains it. A delivery without room is refused and comes again. Calls
//! in flight when a connection is lost fail with an error; they may have arrived. Everything is bounded. The
//! task never waits for the agent's turns, because these wait for the responses to their calls.

use super::activity::{Activity, Observer};
use super::core::Event;
use super::error::{HarnessError, sentence};
use super::incoming::{Incoming, Offer, SessionDelivery, accepted, busy};
use super::jobs::Jobs;
use crate::reconnect::Reconnect;
use crate::{Client, ClientError, Socket};
use chorus_attention::turn::Source;
use chorus_environment::Environment;
use chorus_protocol::c2a::{
    Cancelled, Capabilities, Initialize, InitializeResult, Method, PROTOCOL_VERSION, Program, ToolList,
    ToolResult, Typing, WireId,
};
use chorus_protocol::rpc::{Id, Message, Notification, Request, Response, RpcError};
use chorus_protocol::schema;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::{HashMap, VecDeque};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};

/// The number of deliveries that may wait, which is more than a host sends before the first acknowledgement.
const WAITING: usize = 64;

/// The number of calls that may wait to be sent.
const CALLS: usize = 64;

/// The number of deliveries that are remembered by their request.
const REQUESTS: usize = 256;

/// The time limit of a call, including a reconnection.
const CALL_LIMIT: Duration = Duration::from_secs(90);

/// A handle to a session.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    out: mpsc::Sender<Out>,
}

/// The reason why a call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SessionError {
    /// There is no connection, or it was lost. The call may have arrived.
    #[error("the session with the hub is interrupted")]
    Lost,
    /// The host refused the call.
    #[error("{0}")]
    Refused(String),
}

#[derive(Debug)]
enum Out {
    Call { method: Method, params: Map<String, Value>, answer: oneshot::Sender<Result<Value, SessionError>> },
    Tell(Notification, oneshot::Sender<()>),
}

impl Session {
    /// Creates a session and the task that keeps it open. The task ends when the hub refuses the agent or the
    /// receiver is dropped.
    pub(crate) fn start(
        client: Client,
        name: String,
        observer: Observer,
        jobs: Option<Jobs>,
        incoming: mpsc::Sender<Incoming>,
    ) -> (Self, impl Future<Output = ()>) {
        let (out, outs) = mpsc::channel(CALLS);
        let (answer, answers) = mpsc::channel(WAITING);
        let keeper = Keeper {
            environment: client.environment().clone(),
            client,
            name,
            observer,
            jobs,
            incoming,
            outs,
            answer,
            answers,
            pending: HashMap::new(),
            requests: VecDeque::new(),
            calls: 0,
            reconnect: Reconnect::default(),
        };
        (Self { out }, keeper.keep())
    }

    /// Returns the capacity of the channel between the session and the agent.
    pub(crate) const fn room() -> usize {
        WAITING
    }

    /// Sends a request to the host and waits for the response.
    pub(crate) async fn call(
        &self,
        method: Method,
        params: Map<String, Value>,
    ) -> Result<Value, SessionError> {
        let (answer, answered) = oneshot::channel();
        let asked = async {
            self.out.send(Out::Call { method, params, answer }).await.map_err(|_| SessionError::Lost)?;
            answered.await.map_err(|_| SessionError::Lost)?
        };
        timeout(CALL_LIMIT, asked).await.map_err(|_| SessionError::Lost)?
    }

    /// Sends a notification. It is written when this returns.
    pub(crate) async fn tell(&self, method: Method, params: Map<String, Value>) -> Result<(), SessionError> {
        let (written, done) = oneshot::channel();
        let told = async {
            let notification = Notification { method: method.as_str().to_owned(), params };
            self.out.send(Out::Tell(notification, written)).await.map_err(|_| SessionError::Lost)?;
            done.await.map_err(|_| SessionError::Lost)
        };
        timeout(CALL_LIMIT, told).await.map_err(|_| SessionError::Lost)?
    }

    pub(crate) async fn call_tool(
        &self,
        name: &str,
        arguments: &Map<String, Value>,
    ) -> Result<ToolResult, SessionError> {
        let params = object(json!({"name": name, "arguments": arguments}));
        let result = self.call(Method::CallTool, params).await?;
        schema::read(result).map_err(|faults| SessionError::Refused(format!("not a tool's result: {faults}")))
    }

    /// Returns the host's tools.
    pub(crate) async fn tools(&self) -> Result<ToolList, SessionError> {
        let list = self.call(Method::ListTools, Map::new()).await?;
        schema::read(list).map_err(|faults| SessionError::Refused(format!("not a list of tools: {faults}")))
    }
}

/// The task that keeps a session open.
struct Keeper {
    client: Client,
    environment: Environment,
    name: String,
    observer: Observer,
    /// The receiver of jobs. `None` if the agent offers no skill.
    jobs: Option<Jobs>,
    incoming: mpsc::Sender<Incoming>,
    outs: mpsc::Receiver<Out>,
    /// The channel for acknowledgements, used once the journal contains the delivery.
    answer: mpsc::Sender<Response>,
    answers: mpsc::Receiver<Response>,
    pending: HashMap<i64, oneshot::Sender<Result<Value, SessionError>>>,
    /// The requests of the last deliveries and the events they brought.
    requests: VecDeque<(Value, String)>,
    calls: i64,
    reconnect: Reconnect,
}

impl Keeper {
    async fn keep(mut self) {
        loop {
            let lost = match self.open().await {
                Ok(socket) => {
                    self.reconnect.opened(&self.environment);
                    self.serve(socket).await
                }
                Err(error) => error,
            };
            // Dropping the senders fails the calls of the lost connection.
            self.pending.clear();
            let Some(in_ms) = self.reconnect.lost(&lost, &self.environment) else {
                let why = match lost {
                    ClientError::TakenOver => HarnessError::Takeover(self.name.clone()),
                    lost => lost.into(),
                };
                self.incoming.send(Incoming::Closed(Err(why))).await.ok();
                return;
            };
            self.observer.tell(Activity::Reconnecting { in_ms, why: sentence(&lost) });
            tokio::select! {
                () = sleep(Duration::from_millis(in_ms)) => {}
                () = self.incoming.closed() => return,
            }
        }
    }

    /// Opens a session and sends `initialize`.
    async fn open(&mut self) -> Result<Socket, ClientError> {
        let mut socket = self.client.open_c2a().await?;
        let program = Program { name: "chorus-agent".into(), version: env!("CARGO_PKG_VERSION").into() };
        let greeting = Initialize {
            protocol_version: PROTOCOL_VERSION.into(),
            client_info: program,
            capabilities: Capabilities::ALL,
        };
        self.calls += 1;
        let id = Id::from(self.calls);
        let request =
            Request { id: id.clone(), method: Method::Initialize.as_str().into(), params: object(greeting) };
        socket.send(json!(request).to_string()).await?;
        let answered = async {
            while let Some(text) = socket.next().await? {
                if let Ok(Message::Response(response)) = Message::read(text.as_bytes())
                    && response.id.as_ref() == Some(&id)
                {
                    return Ok(response.outcome);
                }
            }
            Err(ClientError::Lost("the hub closed the session"))
        };
        let answer =
            timeout(CALL_LIMIT, answered).await.map_err(|_| ClientError::Lost("no greeting came"))??;
        let odd =
            |what: String| ClientError::Protocol(format!("the hub does not speak C2A as we do: {what}"));
        let result = answer.map_err(|error| odd(error.message))?;
        let agreed: InitializeResult = schema::read(result).map_err(|faults| odd(faults.to_string()))?;
        if agreed.protocol_version != PROTOCOL_VERSION {
            return Err(odd(format!("its version is {}", agreed.protocol_version)));
        }
        // The session is open. For this notice the bare name is enough.
        let to = self.client.whole_name(&self.name).await.unwrap_or_else(|_| self.name.clone());
        self.observer.tell(Activity::Listening { to });
        self.jobs.iter().for_each(Jobs::take_open);
        Ok(socket)
    }

    /// Transfers messages both ways until the connection is lost, and returns the reason.
    async fn serve(&mut self, mut socket: Socket) -> ClientError {
        loop {
            let done = tokio::select! {
                text = socket.next() => match text {
                    Ok(Some(text)) => match self.take(&text) {
                        Some(answer) => socket.send(answer).await,
                        None => Ok(()),
                    },
                    Ok(None) => Err(ClientError::Lost("the hub closed the session")),
                    Err(error) => Err(error),
                },
                Some(out) = self.outs.recv() => self.say(&mut socket, out).await,
                Some(response) = self.answers.recv() => socket.send(json!(response).to_string()).await,
                () = self.incoming.closed() => {
                    // The agent stops, so a failure no longer matters.
                    socket.finish().await.ok();
                    return ClientError::Lost("the agent has ended");
                }
            };
            if let Err(error) = done {
                return error;
            }
        }
    }

    async fn say(&mut self, socket: &mut Socket, out: Out) -> Result<(), ClientError> {
        match out {
            Out::Call { method, params, answer } => {
                self.calls += 1;
                self.pending.retain(|_, waits| !waits.is_closed());
                self.pending.insert(self.calls, answer);
                let request = Request { id: self.calls.into(), method: method.as_str().into(), params };
                socket.send(json!(request).to_string()).await
            }
            Out::Tell(notification, written) => {
                socket.send(json!(notification).to_string()).await?;
                // The caller may have given up waiting.
                written.send(()).ok();
                Ok(())
            }
        }
    }

    /// Handles a message. Returns the response if it is sent at once.
    fn take(&mut self, text: &str) -> Option<String> {
        match Message::read(text.as_bytes()) {
            Ok(Message::Request(request)) => self.asked(request).map(|answer| json!(answer).to_string()),
            Ok(Message::Notification(told)) => {
                self.told(told);
                None
            }
            Ok(Message::Response(response)) => {
                let answer = match response.id {
                    Some(Id::Number(number)) => number.as_i64().and_then(|id| self.pending.remove(&id)),
                    _ => None,
                };
                let outcome = response.outcome.map_err(|error| SessionError::Refused(error.message));
                answer.map(|answer| answer.send(outcome).ok());
                None
            }
            Err(unreadable) => Some(json!(Response::from(unreadable)).to_string()),
        }
    }

    fn asked(&mut self, Request { id, method, params }: Request) -> Option<Response> {
        if Method::parse(&method) != Some(Method::Deliver) {
            return Some(Response { id: Some(id), outcome: Err(RpcError::method(&method)) });
        }
        self.reconnect.delivered();
        if let Some(event) = params.get("eventId").and_then(Value::as_str) {
            if self.requests.len() >= REQUESTS {
                self.requests.pop_front();
            }
            self.requests.push_back((json!(id), event.to_owned()));
        }
        if self.jobs.as_ref().is_some_and(|jobs| jobs.take_delivery(&params)) {
            return Some(accepted(id));
        }
        let delivery =
            SessionDelivery { id: id.clone(), params: params.into(), answers: self.answer.clone() };
        match self.incoming.try_send(Incoming::Offered(Offer::Delivery(Box::new(delivery)))) {
            Err(mpsc::error::TrySendError::Full(_)) => {
                Some(busy(id, "too many messages wait for this agent"))
            }
            // The delivery is answered once it is in the journal, or the agent stops.
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => None,
        }
    }

    fn told(&mut self, Notification { method, params }: Notification) {
        let params = Value::Object(params);
        let event = match Method::parse(&method) {
            Some(Method::Cancelled) => {
                let Ok(Cancelled { request_id, event_id, reason, stopped }) = schema::read(params) else {
                    return;
                };
                let known = || self.requests.iter().rev().find(|(id, _)| *id == request_id);
                let message = event_id.map(|id| id.0).or_else(|| known().map(|(_, event)| event.clone()));
                let Some(message) = message else { return };
                if stopped { Event::Stopped { message, why: reason } } else { Event::Withdrawn { message } }
            }
            Some(Method::Typing) => {
                let Ok(Typing { conversation_id: WireId(id), thread_id, author }) = schema::read(params)
                else {
                    return;
                };
                let Some(author) = author else { return };
                let thread = thread_id.map_or_else(String::new, |thread| thread.0);
                Event::Typing(Source {
                    author: author.handle().to_owned(),
                    conversation: format!("{id} {thread}"),
                })
            }
            // Other notifications of a host are ignored.
            _ => return,
        };
        // Best effort: a notification that does not fit is repeated, or noticed when the event comes again.
        self.incoming.try_send(Incoming::Event(event)).ok();
    }
}

/// Converts parameters to a JSON object.
fn object(value: impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(value) {
        Ok(Value::Object(members)) => members,
        _ => Map::new(),
    }
}
