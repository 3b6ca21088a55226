//! Executes one request of the core, once, and translates its result for the core.
//!
//! The core decides whether and when to retry.

use super::core::{Posted, To};
use super::session::{Session, SessionError};
use crate::client::{REQUEST_LIMIT, may_pass};
use crate::stream::{Growing, line, reply_by};
use crate::{Callback, CallbackError, Client, ClientError, Reach, Retry, SendBody, send_direct};
use chorus_environment::Environment;
use chorus_protocol::c2a::{ChatTool, Claimed, Method, Recorded, RefusalCode, ToolFailure};
use chorus_protocol::channel::CallbackEvent;
use chorus_protocol::code::Code;
use chorus_protocol::relay::{ReceiverStatus, ReplyLine};
use chorus_protocol::words::DeliveryState;
use reqwest::Url;
use reqwest::header::CONTENT_TYPE;
use serde_json::{Map, Value};
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;

/// The message came by a C2A session, but the agent was restarted without one.
const NO_SESSION: &str = "there is no C2A session; start the agent with --c2a";

/// The number of callbacks that are kept open.
const MAX_CALLBACKS: usize = 16;

/// Executes the core's requests.
pub(super) struct Sender {
    hub: Option<Client>,
    session: Option<Session>,
    reach: Reach,
    environment: Environment,
    /// The callbacks of the current messages, newest last. All events about a message use the same connection.
    callbacks: Mutex<VecDeque<(String, Callback)>>,
    /// Streamed answers in progress, by URL. `None` marks a stream whose reader has gone.
    streams: Mutex<HashMap<String, Option<Growing>>>,
}

impl Sender {
    pub(super) fn new(
        hub: Option<Client>,
        session: Option<Session>,
        reach: Reach,
        environment: Environment,
    ) -> Self {
        Self { hub, session, reach, environment, callbacks: Mutex::default(), streams: Mutex::default() }
    }

    /// Executes a request.
    pub(super) async fn post(&self, to: To) -> Posted {
        match to {
            To::Callback { url, key, event } => self.to_callback(&url, &key, &event).await,
            To::Piece { url, text } => self.grow(&url, text).await,
            To::Stream { url, text } => self.to_stream(&url, text).await,
            To::StreamError { url, why, code } => {
                self.fail_stream(&url, &why, &code).await;
                // A missing listener is no failure here.
                Posted::Arrived
            }
            To::Peer { url, body } => self.to_peer(&url, &body).await,
            To::Hub { key, body } => self.to_hub(&body, &key).await,
            To::Tool { tool, arguments } => self.to_tool(tool, &arguments).await,
            To::Notice { method, params } => self.to_host(method, params).await,
        }
    }

    fn callback(&self, url: &str) -> Result<Callback, CallbackError> {
        let mut kept = self.callbacks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, callback)) = kept.iter().find(|(kept, _)| kept == url) {
            return Ok(callback.clone());
        }
        let callback = Callback::open(url, &self.reach)?.with_retry(Retry::ONCE);
        if kept.len() >= MAX_CALLBACKS {
            kept.pop_front();
        }
        kept.push_back((url.to_owned(), callback.clone()));
        Ok(callback)
    }

    async fn to_callback(&self, url: &str, key: &str, event: &CallbackEvent) -> Posted {
        let sent = async { self.callback(url)?.send_as(key, event).await }.await;
        match sent {
            Ok(()) => Posted::Arrived,
            // Another text was sent under this key, so the message was answered before.
            Err(error) if error.code() == Some(Code::IdempotencyConflict) => Posted::Arrived,
            Err(error) => failed(error.to_string(), error.transient(), error.may_have_arrived()),
        }
    }

    fn streams(&self) -> MutexGuard<'_, HashMap<String, Option<Growing>>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a piece of an answer while it is produced.
    async fn grow(&self, url: &str, text: String) -> Posted {
        let known = self.streams().remove(url);
        let growing = match known {
            Some(growing) => growing,
            None => Growing::open(Some(&self.reach), url).ok(),
        };
        let heard = match &growing {
            Some(growing) => growing.say(&ReplyLine::Chunk { text }).await,
            None => false,
        };
        // A stream without a reader stays in the map, until the answer is sent in another way.
        self.streams().insert(url.to_owned(), growing.filter(|_| heard));
        if heard { Posted::Arrived } else { Posted::Gone { refused: false } }
    }

    async fn to_stream(&self, url: &str, text: String) -> Posted {
        let known = self.streams().remove(url);
        let ended = match known {
            Some(None) => return Posted::Gone { refused: false },
            Some(Some(growing)) => {
                growing.say(&ReplyLine::Done { result: text.into() }).await;
                growing.end().await
            }
            None => {
                let (pieces, output) = mpsc::channel(1);
                pieces.send(text).await.ok();
                drop(pieces);
                reply_by(Some(&self.reach), url, output).await
            }
        };
        match ended {
            Ok(()) => Posted::Arrived,
            Err(ClientError::Refused { .. }) => Posted::Gone { refused: true },
            Err(ClientError::Unreachable { source, .. }) if source.is_connect() => {
                Posted::Gone { refused: false }
            }
            Err(error) => failed(error.to_string(), None, true),
        }
    }

    async fn fail_stream(&self, url: &str, why: &str, code: &str) {
        let known = self.streams().remove(url);
        if let Some(growing) = known {
            let failed = ReplyLine::Error { code: code.to_owned(), message: why.to_owned() };
            if let Some(growing) = growing {
                growing.say(&failed).await;
                // A missing listener is no failure here.
                growing.end().await.ok();
            }
            return;
        }
        let Ok(url) = Url::parse(url) else { return };
        let Ok(http) = self.reach.http(&url) else { return };
        let Ok(request) = http.request(reqwest::Method::POST, url) else { return };
        let failed = ReplyLine::Error { code: code.to_owned(), message: why.to_owned() };
        let request = request.header(CONTENT_TYPE, "application/x-ndjson").body(line(&failed));
        request.timeout(REQUEST_LIMIT).send().await.ok();
    }

    async fn to_hub(&self, body: &SendBody, key: &str) -> Posted {
        let Some(hub) = &self.hub else { return failed("there is no hub".into(), None, false) };
        match hub.clone().with_retry(Retry::ONCE).send(body, Some(key)).await {
            Ok(outcome) if outcome.delivery != DeliveryState::Failed => Posted::Arrived,
            Ok(outcome) => {
                let again = may_pass(&outcome);
                let why = outcome.detail.or(outcome.error_code).unwrap_or_else(|| "no reason".into());
                Posted::Undelivered { why, again }
            }
            Err(error) if error.code() == Some(Code::IdempotencyConflict) => Posted::Arrived,
            Err(error) => {
                // The hub is retried no matter how long a pause it asks for.
                let retry_after = error.transient().map(|_| Duration::ZERO);
                let unclear = retry_after.is_some() || matches!(error, ClientError::Protocol(_));
                failed(error.to_string(), retry_after, unclear)
            }
        }
    }

    async fn to_tool(&self, tool: ChatTool, arguments: &Map<String, Value>) -> Posted {
        let called = match (&self.session, &self.hub) {
            (Some(session), _) => session.call_tool(tool.as_str(), arguments).await,
            // Without a session the tool is called by a single request.
            (None, Some(hub)) if matches!(tool, ChatTool::React | ChatTool::Claim) => {
                match hub.clone().with_retry(Retry::ONCE).call_c2a(tool, arguments).await {
                    Ok(result) => Ok(result),
                    Err(error) => return failed(error.to_string(), error.transient(), false),
                }
            }
            (None, _) => return failed(NO_SESSION.into(), None, false),
        };
        let result = match called {
            Ok(result) => result,
            Err(SessionError::Lost) => {
                return failed(SessionError::Lost.to_string(), Some(Duration::ZERO), true);
            }
            Err(SessionError::Refused(why)) => return failed(why, None, false),
        };
        let done = match tool {
            ChatTool::Claim => result.outcome::<Claimed>().map(|claimed| Posted::Given(Box::new(claimed))),
            _ if result.is_error => result.outcome::<Recorded>().map(|_| Posted::Arrived),
            // A result without an error means success; its content is not used.
            _ => Ok(Posted::Arrived),
        };
        done.unwrap_or_else(|failure| match failure {
            // Another text was sent under this key, so the message was answered before.
            ToolFailure::Refused(refusal) if refusal.code == RefusalCode::IdempotencyConflict => {
                Posted::Arrived
            }
            ToolFailure::Refused(refusal) => {
                let wait = u64::try_from(refusal.retry_after_ms.unwrap_or(0)).unwrap_or(0);
                let again = refusal.code.is_retryable().then(|| Duration::from_millis(wait));
                let has_other =
                    matches!(refusal.code, RefusalCode::ClaimedByOther | RefusalCode::OfferedToOther);
                if tool == ChatTool::Claim && has_other {
                    let retry_after_ms = again.map(|_| wait);
                    return Posted::Taken { why: refusal.message, retry_after_ms };
                }
                failed(refusal.message, again, false)
            }
            failure @ (ToolFailure::Failed(_) | ToolFailure::Unreadable(_)) => {
                failed(failure.to_string(), None, false)
            }
        })
    }

    async fn to_host(&self, method: Method, params: Map<String, Value>) -> Posted {
        let Some(session) = &self.session else { return self.to_c2a(method, params).await };
        match session.tell(method, params).await {
            Ok(()) => Posted::Arrived,
            Err(error) => failed(error.to_string(), Some(Duration::ZERO), false),
        }
    }

    /// Sends a notification by a single request, for an agent without a session.
    async fn to_c2a(&self, method: Method, params: Map<String, Value>) -> Posted {
        let Some(hub) = &self.hub else { return failed(NO_SESSION.into(), None, false) };
        match hub.clone().with_retry(Retry::ONCE).tell_c2a(method, params).await {
            Ok(()) => Posted::Arrived,
            Err(error) => failed(error.to_string(), error.transient(), false),
        }
    }

    async fn to_peer(&self, url: &str, body: &SendBody) -> Posted {
        match send_direct(url, body, Retry::ONCE, &self.environment).await {
            Ok(reply) if reply.status == ReceiverStatus::Ok => Posted::Arrived,
            Ok(reply) => {
                failed(reply.detail.unwrap_or_else(|| "the peer could not use it".into()), None, false)
            }
            // The core decides whether the message may arrive twice.
            Err(error) => failed(error.to_string(), error.transient(true), error.may_have_arrived()),
        }
    }
}

fn failed(why: String, retry_after: Option<Duration>, perhaps_arrived: bool) -> Posted {
    let retry_after_ms = retry_after.map(|pause| u64::try_from(pause.as_millis()).unwrap_or(u64::MAX));
    Posted::Failed { why, retry_after_ms, perhaps_arrived }
}
