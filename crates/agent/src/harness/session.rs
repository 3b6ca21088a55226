//! A C2A session: deliveries come in, acknowledgements, notices and tool calls go out, and lost connections are opened anew.
//!
//! A task of its own reads and writes the socket; [`Session`] is the way to it for whoever calls tools. A delivery is
//! acknowledged when the journal has it, never before; one that nobody has room for is refused, and comes again. Calls
//! that were under way when a connection was lost are told so: they may have arrived. Everything is bounded, and nothing
//! here waits for the agent's turns, which themselves wait for calls to be answered.

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

/// How many deliveries wait to be taken: more than a host sends before it hears of one.
const WAITING: usize = 64;

/// How many calls wait to be sent.
const CALLS: usize = 64;

/// How many deliveries are remembered by the request they came with.
const REQUESTS: usize = 256;

/// How long a call may take, a connection that is being opened included.
const CALL_LIMIT: Duration = Duration::from_secs(90);

/// The way to a session.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    out: mpsc::Sender<Out>,
}

/// Why a call came to nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SessionError {
    /// There is no connection, or it was lost; the call may have arrived.
    #[error("the session with the hub is interrupted")]
    Lost,
    /// The host does not take the call.
    #[error("{0}")]
    Refused(String),
}

#[derive(Debug)]
enum Out {
    Call { method: Method, params: Map<String, Value>, answer: oneshot::Sender<Result<Value, SessionError>> },
    Tell(Notification, oneshot::Sender<()>),
}

impl Session {
    /// A session, and the task that keeps it: it ends when the hub will not have the agent, or nobody listens.
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

    /// How many deliveries may wait between the session and the agent.
    pub(crate) const fn room() -> usize {
        WAITING
    }

    /// Asks the host for something.
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

    /// Tells the host something; when this returns it was written.
    pub(crate) async fn tell(&self, method: Method, params: Map<String, Value>) -> Result<(), SessionError> {
        let (written, done) = oneshot::channel();
        let told = async {
            let notification = Notification { method: method.as_str().to_owned(), params };
            self.out.send(Out::Tell(notification, written)).await.map_err(|_| SessionError::Lost)?;
            done.await.map_err(|_| SessionError::Lost)
        };
        timeout(CALL_LIMIT, told).await.map_err(|_| SessionError::Lost)?
    }

    /// Calls a tool.
    pub(crate) async fn call_tool(
        &self,
        name: &str,
        arguments: &Map<String, Value>,
    ) -> Result<ToolResult, SessionError> {
        let params = object(json!({"name": name, "arguments": arguments}));
        let result = self.call(Method::CallTool, params).await?;
        schema::read(result).map_err(|faults| SessionError::Refused(format!("not a tool's result: {faults}")))
    }

    /// The tools of the host.
    pub(crate) async fn tools(&self) -> Result<ToolList, SessionError> {
        let list = self.call(Method::ListTools, Map::new()).await?;
        schema::read(list).map_err(|faults| SessionError::Refused(format!("not a list of tools: {faults}")))
    }
}

/// Who keeps a session.
struct Keeper {
    client: Client,
    environment: Environment,
    name: String,
    observer: Observer,
    /// Where jobs go, if the agent does any.
    jobs: Option<Jobs>,
    incoming: mpsc::Sender<Incoming>,
    outs: mpsc::Receiver<Out>,
    /// Where answers to deliveries come from, once the journal has them.
    answer: mpsc::Sender<Response>,
    answers: mpsc::Receiver<Response>,
    pending: HashMap<i64, oneshot::Sender<Result<Value, SessionError>>>,
    /// The requests of the last deliveries, and which events they brought.
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
            // Whoever waits for an answer of that connection is told.
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

    /// Opens a session and says who we are.
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
        // The session is open: for a line about it the name alone will do.
        let to = self.client.whole_name(&self.name).await.unwrap_or_else(|_| self.name.clone());
        self.observer.tell(Activity::Listening { to });
        self.jobs.iter().for_each(Jobs::take_open);
        Ok(socket)
    }

    /// Carries everything both ways until the connection is lost; why it was.
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
                    // Whether anybody listens does not matter any more.
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
                // Whether anybody waits does not matter.
                written.send(()).ok();
                Ok(())
            }
        }
    }

    /// What a message means; the answer to it, if it is given at once.
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
            // It is answered once it is in the journal; or the agent ends.
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => None,
        }
    }

    fn told(&mut self, Notification { method, params }: Notification) {
        let params = Value::Object(params);
        let event = match Method::parse(&method) {
            Some(Method::Cancelled) => {
                let Ok(Cancelled { request_id, event_id, .. }) = schema::read(params) else { return };
                let known = || self.requests.iter().rev().find(|(id, _)| *id == request_id);
                let message = event_id.map(|id| id.0).or_else(|| known().map(|(_, event)| event.clone()));
                let Some(message) = message else { return };
                Event::Withdrawn { message }
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
            // What else a host tells is not for us.
            _ => return,
        };
        // Best effort: what does not fit is told again, or seen when the event comes again.
        self.incoming.try_send(Incoming::Event(event)).ok();
    }
}

/// An object, as parameters are.
fn object(value: impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(value) {
        Ok(Value::Object(members)) => members,
        _ => Map::new(),
    }
}
