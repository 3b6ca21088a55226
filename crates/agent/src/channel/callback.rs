//! Sends an agent's events to the callback that came with a message.
//!
//! Every event is checked before it is sent. Only transient failures are retried, always with the same
//! `Idempotency-Key`, so that a service that supports it processes the event once. The key is an extension
//! that hubs support; for other services there is [`Callback::at_most_once`]. Events sent one after the other
//! keep their order. A callback URL is a secret: errors contain only its origin.

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

/// The largest response that is read, in bytes.
const MAX_ANSWER: usize = 64 * 1024;

/// The longest error message of a service that is passed on, in characters.
const MAX_MESSAGE: usize = 2000;

/// The reason why an event was not delivered.
#[derive(Debug, thiserror::Error)]
pub enum CallbackError {
    /// The input is wrong; nothing was sent.
    #[error("{0}")]
    Invalid(Faults),
    /// The callback has ended or never existed. No later event can be delivered.
    #[error("the callback at {origin} takes no more events (HTTP {status})")]
    Closed {
        origin: String,
        /// 404 or 410.
        status: u16,
    },
    /// The service refused the event.
    #[error("{origin} refused: {message} (HTTP {status})")]
    Refused {
        origin: String,
        status: u16,
        /// The service's own code, if it gave one.
        code: Option<String>,
        /// The service's own message, or ours if it gave none.
        message: String,
        /// The pause that the service asks for.
        retry_after: Option<Duration>,
    },
    #[error("cannot reach the service at {origin}")]
    Unreachable {
        origin: String,
        #[source]
        source: reqwest::Error,
    },
    /// The callback is blocked by the outbound policy; nothing was sent.
    #[error("the callback at {origin} is not called: {blocked}")]
    Blocked { origin: String, blocked: Blocked },
    /// The HTTP client could not be set up.
    #[error("cannot set up the HTTP client")]
    Setup(#[source] reqwest::Error),
}

impl CallbackError {
    /// Returns the exit class of this error.
    pub fn exit_class(&self) -> ExitClass {
        match self {
            Self::Invalid(_) => ExitClass::Usage,
            Self::Closed { .. } | Self::Refused { .. } | Self::Blocked { .. } => ExitClass::Refused,
            Self::Unreachable { .. } => ExitClass::Unreachable,
            Self::Setup(_) => ExitClass::Failed,
        }
    }

    /// Returns the error code if the service refused with one that this version knows.
    pub(crate) fn code(&self) -> Option<Code> {
        match self {
            // Callbacks use codes without the relay's `ERR_` prefix.
            Self::Refused { code, .. } => {
                code.as_deref().and_then(|code| Code::parse(&format!("ERR_{code}")))
            }
            _ => None,
        }
    }

    /// Checks whether the service may have received the event despite this error.
    pub(crate) fn may_have_arrived(&self) -> bool {
        match self {
            Self::Unreachable { source, .. } => !source.is_connect() && !source.is_builder(),
            Self::Refused { status, .. } => matches!(status, 408 | 500..=599) && *status != 503,
            Self::Invalid(_) | Self::Closed { .. } | Self::Blocked { .. } | Self::Setup(_) => false,
        }
    }

    /// Returns the minimum pause before a retry. `None` if a retry cannot succeed.
    pub(crate) fn transient(&self) -> Option<Duration> {
        match self {
            Self::Unreachable { source, .. } => (!source.is_builder()).then_some(Duration::ZERO),
            Self::Refused { status, retry_after, .. } => {
                // A 409 with a time means that an earlier try is still in progress.
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
    /// Creates a callback to `url` without an outbound policy. Nothing is sent yet.
    pub fn new(http: Client, url: &str) -> Result<Self, CallbackError> {
        Ok(Self::with(Http::Free(http), read(url)?))
    }

    /// Creates a callback to the `url` that came with a message, if `reach` allows it. Redirects are not
    /// followed.
    pub fn open(url: &str, reach: &Reach) -> Result<Self, CallbackError> {
        let url = read(url)?;
        Ok(Self::with(reach.http(&url).map_err(CallbackError::Setup)?, url))
    }

    fn with(http: Http, url: Url) -> Self {
        let (retry, environment) = (Retry::default(), Environment::system());
        Self { http, url, retry, at_most_once: false, environment }
    }

    /// Replaces the retry policy.
    pub fn with_retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// Limits retries to failures where the event certainly did not arrive, for a service that may not support
    /// idempotency keys.
    pub fn at_most_once(mut self) -> Self {
        self.at_most_once = true;
        self
    }

    /// Replaces the source of randomness.
    pub fn with_environment(mut self, environment: Environment) -> Self {
        self.environment = environment;
        self
    }

    pub async fn send(&self, event: &CallbackEvent) -> Result<(), CallbackError> {
        self.send_as(&self.environment.random_hex(), event).await
    }

    /// Sends one event under the caller's own idempotency key, which may outlive this process.
    pub async fn send_as(&self, key: &str, event: &CallbackEvent) -> Result<(), CallbackError> {
        self.deliver(key, checked(event).map_err(CallbackError::Invalid)?.into()).await
    }

    /// Sends JSON under this idempotency key.
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

    /// Returns the callback's origin, the only part of it that may be shown.
    fn origin(&self) -> String {
        self.url.origin().ascii_serialization()
    }
}

fn read(url: &str) -> Result<Url, CallbackError> {
    let url = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let fault = || Faults::one("callback", "must be an absolute http or https URL");
    url.ok_or_else(|| CallbackError::Invalid(fault()))
}

/// Serializes an event on one line, or returns all its faults.
fn checked(event: &CallbackEvent) -> Result<Vec<u8>, Faults> {
    let line = serde_json::to_vec(event).map_err(|error| Faults::one("event", error))?;
    CallbackEvent::read(&line).map(|_| line)
}

/// Returns the code and the message of a refusal, if the response has a hub's error format.
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
