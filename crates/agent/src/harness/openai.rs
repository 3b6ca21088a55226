//! A model as an agent: any endpoint with the chat completions API, with the channel's own tools.
//!
//! A turn is a loop of completions and tool calls, bounded in time, calls and length. Every call is shown in
//! the channel. An invalid call is answered to the model as an error; the third one ends the turn. Transient
//! failures (too many requests, a server error, a broken stream) are retried. A completion counts only when it
//! is complete, so nothing is said twice. A tool is never called again because a model's server failed.

use super::activity::Activity;
use super::completion::{Broken, Completion, error_of};
use super::core::Outcome;
use super::history;
use super::prompt::{Own, RULES, said_before};
use super::report::Reporter;
use super::session::Session;
use super::texts::clean;
use super::tools::{Said, Tools};
use super::turn::{Back, Turn};
use crate::answer::{collect, retry_after};
use crate::client::{http_client, web_address};
use crate::{Backoff, Client, Reach};
use chorus_environment::Environment;
use chorus_protocol::sse::{Item, Parser};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Response, Url};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// The limit of tool calls in one turn.
const MAX_CALLS: usize = 16;

/// The number of invalid calls that end the turn.
const STRIKES: usize = 3;

/// The minimum interval between two pieces of an answer streamed to a channel, in milliseconds.
const PIECE_MS: i64 = 200;

/// The largest response of a server that does not stream, in bytes.
const MAX_ANSWER: usize = 1024 * 1024;

const ADDRESS_FORM: &str = "must be the address before /chat/completions, such as http://127.0.0.1:11434/v1";

/// The reason why a model cannot be used. It never contains the key.
#[derive(Debug, thiserror::Error)]
pub enum ModelFault {
    /// The address is not valid.
    #[error("{0}")]
    Address(&'static str),
    /// The key is not a valid header value.
    #[error("the key must be printable ASCII")]
    Key,
    /// The HTTP client could not be set up.
    #[error("cannot set up the HTTP client")]
    Setup(#[source] reqwest::Error),
}

/// A model and its settings.
#[derive(Clone)]
pub struct OpenAi {
    url: Url,
    http: reqwest::Client,
    /// Marked as sensitive, so that `Debug` does not show it.
    authorization: Option<HeaderValue>,
    pub model: String,
    /// The system prompt. `None` uses a default.
    pub system: Option<String>,
    /// The limit of tokens in one completion.
    pub max_tokens: u32,
    /// The time limit of a whole turn.
    pub turn_limit: Duration,
    /// The longest silence of the server.
    pub idle_limit: Duration,
    /// The number of retries of one completion.
    pub retries: u32,
    pub backoff: Backoff,
    /// Set once the server has asked for `max_completion_tokens`, which newer OpenAI models require and many
    /// other servers do not support.
    new_limit: Arc<AtomicBool>,
}

impl std::fmt::Debug for OpenAi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenAi")
            .field("url", &self.url.as_str())
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}

impl OpenAi {
    /// Creates settings for the model `model` at `url`, the address before `/chat/completions`.
    pub fn new(url: &str, model: &str, key: Option<&str>) -> Result<Self, ModelFault> {
        let base = web_address(url.trim_end_matches('/'), ADDRESS_FORM).map_err(ModelFault::Address)?;
        let url = Url::parse(&format!("{}/chat/completions", base.as_str().trim_end_matches('/')));
        let url = url.map_err(|_| ModelFault::Address(ADDRESS_FORM))?;
        let bearer = |key: &str| {
            let mut value = HeaderValue::from_str(&format!("Bearer {key}")).map_err(|_| ModelFault::Key)?;
            value.set_sensitive(true);
            Ok(value)
        };
        Ok(Self {
            http: http_client(url.as_str()).map_err(ModelFault::Setup)?,
            authorization: key.map(bearer).transpose()?,
            url,
            model: model.to_owned(),
            system: None,
            max_tokens: 2048,
            turn_limit: Duration::from_mins(5),
            idle_limit: Duration::from_mins(1),
            retries: 4,
            backoff: Backoff { base_ms: 1000, max_ms: 30_000 },
            new_limit: Arc::default(),
        })
    }

    /// Has the model answer a turn.
    pub(super) async fn answer(&self, asked: Asked<'_>) -> Outcome {
        let mut tools = Tools::default();
        let outcome = match timeout(self.turn_limit, self.turn(&asked, &mut tools)).await {
            Ok(outcome) => outcome,
            Err(_) => {
                Outcome::failed(format!("no answer after {} s", self.turn_limit.as_secs_f64()), "timeout")
            }
        };
        tools.close().await;
        outcome
    }

    async fn turn(&self, asked: &Asked<'_>, tools: &mut Tools) -> Outcome {
        let Asked { turn, reporter, .. } = asked;
        reporter.status(&format!("asking {}", self.model)).await;
        tools.open(turn, asked.session, asked.reach, reporter, asked.delimiter).await;
        let mut messages = self.opening(asked).await;
        let (mut calls, mut strikes) = (0, 0);
        loop {
            let exhausted = calls >= MAX_CALLS;
            let said = match self.complete(&messages, tools, exhausted, asked).await {
                Ok(said) => said,
                Err(why) => return Outcome::failed(why, "model_error"),
            };
            let wanted: Vec<_> = said.calls().cloned().collect();
            if wanted.is_empty() {
                // A message that was answered by a tool is not answered again by the final text.
                return match (tools.said, spoken_last(&said)) {
                    (Said::Answer, _) | (Said::Sign, Outcome::Silence) => Outcome::Answered,
                    (Said::Nothing | Said::Sign, last) => last,
                };
            }
            if exhausted {
                return Outcome::failed("the model does not stop calling tools", "tool_limit");
            }
            messages.push(spoken(&said));
            for call in wanted {
                calls += 1;
                let (text, sensible) = if calls > MAX_CALLS {
                    ("error: no more tools may be called for this message; answer now".to_owned(), true)
                } else {
                    tools.call(&call, calls, turn, reporter, asked.environment).await
                };
                messages.push(json!({"role": "tool", "tool_call_id": call.id, "content": text}));
                strikes += usize::from(!sensible);
                if strikes >= STRIKES {
                    return Outcome::failed(
                        "the model called tools in ways that make no sense",
                        "tool_error",
                    );
                }
            }
        }
    }

    /// Builds the messages that open the conversation with the model.
    async fn opening(&self, asked: &Asked<'_>) -> Vec<Value> {
        let own = asked.own.name;
        let usual = || format!("You are {own}, an agent that talks with people and other agents.");
        let system = self.system.clone().unwrap_or_else(usual);
        let system = format!("{}\n\n{RULES}", system.trim_end());
        let mut messages = vec![json!({"role": "system", "content": system})];
        let earlier = history::read(asked.hub, asked.begins).await;
        messages.extend(earlier.iter().map(|one| {
            if one.own {
                json!({"role": "assistant", "content": one.text})
            } else {
                json!({"role": "user", "content": said_before(&one.author, &one.text, asked.delimiter)})
            }
        }));
        messages.push(json!({"role": "user", "content": asked.prompt}));
        messages
    }

    /// Requests one completion, retrying transient failures.
    async fn complete(
        &self,
        messages: &[Value],
        tools: &Tools,
        exhausted: bool,
        asked: &Asked<'_>,
    ) -> Result<Completion, String> {
        let mut body = json!({"model": self.model, "messages": messages, "stream": true});
        if !tools.described.is_empty() {
            body["tools"] = tools.described.clone().into();
            if exhausted {
                body["tool_choice"] = "none".into();
            }
        }
        let mut failures = 0;
        loop {
            let new_limit = self.new_limit.load(Ordering::Relaxed);
            let mut body = body.clone();
            body[if new_limit { "max_completion_tokens" } else { "max_tokens" }] = self.max_tokens.into();
            let fault = match self.once(body.to_string(), asked).await {
                Ok(said) => return Ok(said),
                Err(fault) => fault,
            };
            if fault.old_limit && !new_limit {
                self.new_limit.store(true, Ordering::Relaxed);
                continue;
            }
            let Some(least) = fault.again.filter(|_| failures < self.retries) else { return Err(fault.why) };
            let own = Duration::from_millis(self.backoff.delay_ms(failures, asked.environment.random_u64()));
            let pause = own.max(least);
            if pause > self.turn_limit {
                return Err(fault.why);
            }
            failures += 1;
            let in_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
            asked.reporter.observer().tell(Activity::Retrying { why: fault.why, in_ms });
            asked.reporter.status("the model does not answer, trying again").await;
            sleep(pause).await;
        }
    }

    async fn once(&self, body: String, asked: &Asked<'_>) -> Result<Completion, Fault> {
        let mut request =
            self.http.post(self.url.clone()).header(CONTENT_TYPE, "application/json").body(body);
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let sent = timeout(self.idle_limit, request.send()).await;
        let response = sent
            .map_err(|_| Fault::again("the model's server does not answer"))?
            .map_err(|_| Fault::again("the model's server cannot be reached"))?;
        if !response.status().is_success() {
            return Err(refusal(response).await);
        }
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        if kind.is_some_and(|kind| kind.starts_with("text/event-stream")) {
            return self.read(response, asked).await;
        }
        let body = timeout(self.idle_limit, collect(response, MAX_ANSWER)).await;
        let body = body.map_err(|_| Fault::again("the model's server went silent"))?;
        let body = body.map_err(|_| Fault::again("the model's answer broke off"))?;
        let body: Value =
            serde_json::from_slice(&body).map_err(|_| Fault::last("the model's server answered no JSON"))?;
        finished(Completion::whole(&body).map_err(Fault::from)?)
    }

    /// Reads a streamed completion and passes its text on to listeners.
    async fn read(&self, response: Response, asked: &Asked<'_>) -> Result<Completion, Fault> {
        let mut shown = 0;
        let read = self.read_to_end(response, asked, &mut shown).await;
        // A streamed piece that a sender has seen cannot be replaced, so the completion is not retried.
        let heard = shown > 0 && matches!(asked.turn.back, Back::Envelope(_));
        read.map_err(|fault| if heard { Fault { again: None, ..fault } } else { fault })
    }

    async fn read_to_end(
        &self,
        mut response: Response,
        asked: &Asked<'_>,
        shown: &mut usize,
    ) -> Result<Completion, Fault> {
        let (mut parser, mut said) = (Parser::new(), Completion::default());
        // For an answer streamed to a channel, the text of each interval is sent in one piece.
        let pause = if matches!(asked.turn.back, Back::Envelope(_)) { 0 } else { PIECE_MS };
        let mut next_at = i64::MIN;
        loop {
            let piece = timeout(self.idle_limit, response.chunk()).await;
            let piece = piece.map_err(|_| Fault::again("the model's server went silent"))?;
            let Some(piece) = piece.map_err(|_| Fault::again("the model's answer broke off"))? else {
                return finished(said);
            };
            for item in parser.push(&piece).map_err(|_| Fault::from(Broken::TooLong))? {
                let Item::Event(event) = item else { continue };
                said.push(&event.data)?;
                let new = said.text.get(*shown..).unwrap_or_default();
                let now = asked.environment.elapsed();
                // An answer of white space only counts as no answer, so it is not streamed.
                if !new.trim().is_empty() && now >= next_at && asked.turn.is_listened_to() {
                    next_at = now + pause;
                    asked.reporter.grows(new).await;
                    *shown = said.text.len();
                }
                if event.data.trim() == "[DONE]" {
                    return finished(said);
                }
            }
        }
    }
}

/// One turn, as presented to a model.
pub(super) struct Asked<'a> {
    pub(super) turn: &'a Turn,
    /// The first of the merged messages. Earlier messages are history.
    pub(super) begins: &'a Turn,
    pub(super) own: Own<'a>,
    pub(super) prompt: &'a str,
    pub(super) delimiter: &'a str,
    /// The hub, which provides the history.
    pub(super) hub: Option<&'a Client>,
    /// The session that the turn came by, which provides tools.
    pub(super) session: Option<&'a Session>,
    /// The outbound policy for tool servers.
    pub(super) reach: &'a Reach,
    pub(super) reporter: &'a Reporter,
    pub(super) environment: &'a Environment,
}

/// The reason why a completion failed. `again` is the server's requested pause if a retry may succeed.
struct Fault {
    why: String,
    again: Option<Duration>,
    /// `true` if the server rejects `max_tokens`.
    old_limit: bool,
}

impl Fault {
    fn again(why: &str) -> Self {
        Self { why: why.into(), again: Some(Duration::ZERO), old_limit: false }
    }

    fn last(why: &str) -> Self {
        Self { why: why.into(), again: None, old_limit: false }
    }
}

impl From<Broken> for Fault {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Told(why) => Self::again(&format!("the model's server says: {}", clean(&why, 500))),
            Broken::TooLong => Self::last("the model's answer is too long"),
            Broken::Withheld => Self::last("the model's server withheld the answer (content filter)"),
        }
    }
}

fn finished(said: Completion) -> Result<Completion, Fault> {
    if said.finished { Ok(said) } else { Err(Fault::again("the model's answer broke off")) }
}

async fn refusal(response: Response) -> Fault {
    let (status, asked) = (response.status().as_u16(), retry_after(response.headers()));
    let body = collect(response, MAX_ANSWER).await.unwrap_or_default();
    let told = serde_json::from_slice(&body).ok().as_ref().and_then(error_of);
    let told = told.map_or_else(String::new, |told| format!(": {}", clean(&told, 500)));
    let again = matches!(status, 408 | 409 | 429 | 500..=599).then(|| asked.unwrap_or_default());
    let old_limit = status == 400 && told.contains("max_tokens");
    Fault { why: format!("the model's server answered HTTP {status}{told}"), again, old_limit }
}

/// Converts the model's final completion to an outcome. A cut answer ends with an ellipsis.
fn spoken_last(said: &Completion) -> Outcome {
    match Outcome::of(&said.text) {
        Outcome::Say { text, .. } if said.cut => Outcome::Say { text: format!("{text}…"), cut: true },
        Outcome::Silence if said.cut => {
            Outcome::failed("the model used up its tokens before it said anything", "too_long")
        }
        outcome => outcome,
    }
}

/// Converts a completion to a message of the conversation with the model.
fn spoken(said: &Completion) -> Value {
    let calls: Vec<_> = said
        .calls()
        .map(|call| {
            // Some servers refuse a request with arguments that are not JSON.
            let sound = serde_json::from_str::<Map<String, Value>>(&call.arguments).is_ok();
            let arguments = if sound { call.arguments.as_str() } else { "{}" };
            json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}})
        })
        .collect();
    let text = if said.text.is_empty() { Value::Null } else { said.text.as_str().into() };
    json!({"role": "assistant", "content": text, "tool_calls": calls})
}
