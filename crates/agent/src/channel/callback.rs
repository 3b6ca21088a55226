//! The way back: what an agent shows of itself, POSTed to the callback that came with a message.
//!
//! Every event is checked before it leaves the machine. Only what may pass is tried again, always with the same
//! `Idempotency-Key`, so that a service that knows it sees the event once. Keys are an extension that a hub understands:
//! for other services there is [`Callback::at_most_once`]. Events keep the order in which they are sent one after the
//! other. A callback is a secret: no error repeats more of it than where it leads.

use crate::answer::{collect, retry_after};
use crate::client::REQUEST_LIMIT;
use crate::reach::Http;
use crate::{ExitClass, Reach, Retry};
use bytes::Bytes;
use chorus_environment::Environment;
use chorus_outbound::Blocked;
use chorus_protocol::channel::CallbackEvent;
use chorus_protocol::code::Code;
use chorus_protocol::faults::Faults;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, Method, Response, Url};
use serde::Deserialize;
use std::fmt;
use std::time::Duration;

/// The largest answer that is read.
const MAX_ANSWER: usize = 64 * 1024;

/// The longest sentence of a service that is passed on.
const MAX_MESSAGE: usize = 2000;

/// Why an event did not arrive.
#[derive(Debug, thiserror::Error)]
pub enum CallbackError {
    /// The input is wrong; nothing was sent.
    #[error("{0}")]
    Invalid(Faults),
    /// The callback has ended, or never was: no event will ever arrive by it.
    #[error("the callback at {origin} takes no more events (HTTP {status})")]
    Closed {
        /// Where it leads.
        origin: String,
        /// 404 or 410.
        status: u16,
    },
    /// The service did not take it.
    #[error("{origin} refused: {message} (HTTP {status})")]
    Refused {
        /// Where the callback leads.
        origin: String,
        /// The HTTP status.
        status: u16,
        /// The service's own code, if it gave one.
        code: Option<String>,
        /// The service's own sentence, or ours.
        message: String,
        /// How long the service asks to wait.
        retry_after: Option<Duration>,
    },
    /// No answer came.
    #[error("cannot reach the service at {origin}")]
    Unreachable {
        /// Where the callback leads.
        origin: String,
        /// What the network said.
        #[source]
        source: reqwest::Error,
    },
    /// It leads where an agent does not go because a stranger says so; nothing was sent.
    #[error("the callback at {origin} is not called: {blocked}")]
    Blocked {
        /// Where it leads.
        origin: String,
        /// Why not there.
        blocked: Blocked,
    },
    /// The HTTP client could not be set up.
    #[error("cannot set up the HTTP client")]
    Setup(#[source] reqwest::Error),
}

impl CallbackError {
    /// The class of this failure.
    pub fn exit_class(&self) -> ExitClass {
        match self {
            Self::Invalid(_) => ExitClass::Usage,
            Self::Closed { .. } | Self::Refused { .. } | Self::Blocked { .. } => ExitClass::Refused,
            Self::Unreachable { .. } => ExitClass::Unreachable,
            Self::Setup(_) => ExitClass::Failed,
        }
    }

    /// The code, if the service refused with one that this version knows.
    pub(crate) fn code(&self) -> Option<Code> {
        match self {
            // Callbacks are not the relay's, whose codes have a prefix.
            Self::Refused { code, .. } => {
                code.as_deref().and_then(|code| Code::parse(&format!("ERR_{code}")))
            }
            _ => None,
        }
    }

    /// Whether the event may have been taken all the same.
    pub(crate) fn may_have_arrived(&self) -> bool {
        match self {
            Self::Unreachable { source, .. } => !source.is_connect() && !source.is_builder(),
            Self::Refused { status, .. } => matches!(status, 408 | 500..=599) && *status != 503,
            Self::Invalid(_) | Self::Closed { .. } | Self::Blocked { .. } | Self::Setup(_) => false,
        }
    }

    /// How long to wait at least before the same event may arrive; `None` when it never will.
    pub(crate) fn transient(&self) -> Option<Duration> {
        match self {
            Self::Unreachable { source, .. } => (!source.is_builder()).then_some(Duration::ZERO),
            Self::Refused { status, retry_after, .. } => {
                // 409: an earlier try is still being worked on, if a time is given with it.
                let again =
                    matches!(status, 408 | 429 | 500..=599) || *status == 409 && retry_after.is_some();
                again.then(|| retry_after.unwrap_or_default())
            }
            Self::Invalid(_) | Self::Closed { .. } | Self::Blocked { .. } | Self::Setup(_) => None,
        }
    }
}

/// The callback of one message.
#[derive(Clone)]
pub struct Callback {
    http: Http,
    url: Url,
    retry: Retry,
    at_most_once: bool,
    environment: Environment,
}

impl fmt::Debug for Callback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callback").field("origin", &self.origin()).finish_non_exhaustive()
    }
}

impl Callback {
    /// The callback at `url`, wherever that leads. Nothing is sent yet.
    pub fn new(http: Client, url: &str) -> Result<Self, CallbackError> {
        Ok(Self::with(Http::Free(http), read(url)?))
    }

    /// The callback at `url`, as it came with a message, if it lies within reach. Redirects are not followed.
    pub fn open(url: &str, reach: &Reach) -> Result<Self, CallbackError> {
        let url = read(url)?;
        Ok(Self::with(reach.http(&url).map_err(CallbackError::Setup)?, url))
    }

    fn with(http: Http, url: Url) -> Self {
        let (retry, environment) = (Retry::default(), Environment::system());
        Self { http, url, retry, at_most_once: false, environment }
    }

    /// The same callback with other ideas of trying again.
    pub fn with_retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// The same callback of a service that may know no keys: only what certainly did not arrive is tried again.
    pub fn at_most_once(mut self) -> Self {
        self.at_most_once = true;
        self
    }

    /// The same callback with randomness from elsewhere than the machine.
    pub fn with_environment(mut self, environment: Environment) -> Self {
        self.environment = environment;
        self
    }

    /// Sends one event.
    pub async fn send(&self, event: &CallbackEvent) -> Result<(), CallbackError> {
        self.send_as(&self.environment.random_hex(), event).await
    }

    /// Sends one event under an idempotency key of the caller's own, which outlives this process.
    pub async fn send_as(&self, key: &str, event: &CallbackEvent) -> Result<(), CallbackError> {
        self.deliver(key, checked(event).map_err(CallbackError::Invalid)?.into()).await
    }

    /// Sends something, which is JSON, under this idempotency key.
    pub(crate) async fn deliver(&self, key: &str, body: Bytes) -> Result<(), CallbackError> {
        let mut failures = 0;
        loop {
            let result = self.post(body.clone(), key).await;
            let error = result.as_ref().err();
            let error = error.filter(|error| !(self.at_most_once && error.may_have_arrived()));
            let asked = error.and_then(CallbackError::transient);
            let random = self.environment.random_u64();
            let Some(pause) = asked.and_then(|asked| self.retry.pause(failures, asked, random)) else {
                return result;
            };
            tokio::time::sleep(pause).await;
            failures += 1;
        }
    }

    async fn post(&self, body: Bytes, key: &str) -> Result<(), CallbackError> {
        let blocked = |blocked| CallbackError::Blocked { origin: self.origin(), blocked };
        let request = self.http.request(Method::POST, self.url.clone()).map_err(blocked)?;
        let request = request.header(CONTENT_TYPE, "application/json").header("idempotency-key", key);
        let response = request.body(body).timeout(REQUEST_LIMIT).send().await;
        let response = response.map_err(|source| match Blocked::cause_of(&source) {
            Some(cause) => blocked(cause.clone()),
            None => CallbackError::Unreachable { origin: self.origin(), source: source.without_url() },
        })?;
        match response.status().as_u16() {
            200..=299 => Ok(()),
            status @ (404 | 410) => Err(CallbackError::Closed { origin: self.origin(), status }),
            status => {
                let retry_after = retry_after(response.headers());
                let (code, message) = reason(response).await;
                Err(CallbackError::Refused { origin: self.origin(), status, code, message, retry_after })
            }
        }
    }

    /// Where it leads.
    fn origin(&self) -> String {
        self.url.origin().ascii_serialization()
    }
}

fn read(url: &str) -> Result<Url, CallbackError> {
    let url = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let fault = || Faults::one("callback", "must be an absolute http or https URL");
    url.ok_or_else(|| CallbackError::Invalid(fault()))
}

/// An event on one line, or everything that is wrong with it.
fn checked(event: &CallbackEvent) -> Result<Vec<u8>, Faults> {
    let line = serde_json::to_vec(event).map_err(|error| Faults::one("event", error))?;
    CallbackEvent::read(&line).map(|_| line)
}

/// Why an event was refused, by a code and in words, if the answer says so as a hub would.
async fn reason(response: Response) -> (Option<String>, String) {
    #[derive(Deserialize)]
    struct Answer {
        error: Reason,
    }
    #[derive(Deserialize)]
    struct Reason {
        code: Option<String>,
        message: String,
    }

    let redirects = response.status().is_redirection();
    let body = collect(response, MAX_ANSWER).await.unwrap_or_default();
    match serde_json::from_slice::<Answer>(&body) {
        Ok(Answer { error }) => (error.code, error.message.chars().take(MAX_MESSAGE).collect()),
        Err(_) if redirects => (None, "it redirects, which a callback does not do".into()),
        Err(_) => (None, "it gave no reason".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, retry_after: Option<Duration>) -> CallbackError {
        CallbackError::Refused { origin: "o".into(), status, code: None, message: "no".into(), retry_after }
    }

    #[test]
    fn only_what_may_pass_is_transient() {
        let soon = Some(Duration::from_secs(2));
        for (status, asked, expected) in [
            (400, soon, None),
            (401, None, None),
            (408, None, Some(Duration::ZERO)),
            (409, None, None),
            (409, soon, soon),
            (413, None, None),
            (429, soon, soon),
            (500, None, Some(Duration::ZERO)),
            (503, soon, soon),
        ] {
            assert_eq!(refused(status, asked).transient(), expected, "{status}");
        }
        let closed = CallbackError::Closed { origin: "o".into(), status: 410 };
        assert_eq!((closed.transient(), closed.exit_class()), (None, ExitClass::Refused));
    }
}
