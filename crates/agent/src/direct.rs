//! Sends envelopes straight to a peer, without a hub and without a key.
//!
//! Only transient failures are retried. A peer recognizes a duplicate only if the envelope is a numbered turn.
//! Any other envelope is retried only if it certainly has not arrived.

use crate::answer::{ReadError, collect, retry_after};
use crate::client::{REQUEST_LIMIT, http_client, web_address};
use crate::{ExitClass, Retry, SendBody};
use bytes::Bytes;
use chorus_environment::Environment;
use chorus_outbound::Blocked;
use chorus_protocol::faults::Faults;
use chorus_protocol::relay::ReceiverReply;
use reqwest::header::{CONTENT_TYPE, LOCATION};
use reqwest::{Client, Response, Url};
use std::time::Duration;

/// The largest response that is read, in bytes.
const MAX_ANSWER: usize = 64 * 1024;

/// The reason why a direct send failed.
#[derive(Debug, thiserror::Error)]
pub enum DirectError {
    /// The input is wrong; nothing was sent.
    #[error("{0}")]
    Invalid(Faults),
    #[error("cannot reach the agent at {url}")]
    Unreachable {
        url: Url,
        #[source]
        source: reqwest::Error,
    },
    /// The peer refused the envelope.
    #[error("{url} refused: {detail} (HTTP {status})")]
    Refused {
        url: Url,
        status: u16,
        /// The peer's own reason, or ours if it gave none.
        detail: String,
        /// The pause that the peer asks for.
        retry_after: Option<Duration>,
    },
    /// The address is blocked by the outbound policy; nothing was sent.
    #[error("{url} is not called: {blocked}")]
    Blocked { url: Url, blocked: Blocked },
    /// A response came that is not part of the protocol.
    #[error("{0}")]
    Protocol(String),
    /// The HTTP client could not be set up.
    #[error("cannot set up the HTTP client")]
    Setup(#[source] reqwest::Error),
}

impl DirectError {
    /// Returns the exit class of this error.
    pub fn exit_class(&self) -> ExitClass {
        match self {
            Self::Invalid(_) => ExitClass::Usage,
            Self::Refused { .. } | Self::Blocked { .. } => ExitClass::Refused,
            Self::Unreachable { .. } => ExitClass::Unreachable,
            Self::Protocol(_) | Self::Setup(_) => ExitClass::Failed,
        }
    }

    /// Checks whether the peer may have received the envelope despite this error.
    pub(crate) fn may_have_arrived(&self) -> bool {
        match self {
            Self::Unreachable { source, .. } => !source.is_connect() && !source.is_builder(),
            Self::Refused { status, .. } => matches!(status, 500..=599) && *status != 503,
            Self::Protocol(_) => true,
            Self::Invalid(_) | Self::Blocked { .. } | Self::Setup(_) => false,
        }
    }

    /// Returns the minimum pause before a retry. `None` if a retry cannot succeed, or could deliver the
    /// envelope twice; a `numbered` turn may be sent twice.
    pub(crate) fn transient(&self, numbered: bool) -> Option<Duration> {
        match self {
            Self::Unreachable { source, .. } => {
                (source.is_connect() || numbered && !source.is_builder()).then_some(Duration::ZERO)
            }
            Self::Refused { status, retry_after, .. } => {
                let not_taken = matches!(status, 408 | 429 | 503);
                // A proxy's answer does not tell whether the peer received the envelope.
                let unknown = matches!(status, 502 | 504);
                (not_taken || unknown && numbered).then(|| retry_after.unwrap_or_default())
            }
            Self::Invalid(_) | Self::Blocked { .. } | Self::Protocol(_) | Self::Setup(_) => None,
        }
    }
}

/// Sends an envelope to the agent at `url` and returns the agent's reply.
pub async fn send_direct(
    url: &str,
    body: &SendBody,
    retry: Retry,
    environment: &Environment,
) -> Result<ReceiverReply, DirectError> {
    let form = "must be the address where an agent receives, such as http://127.0.0.1:8788/receive";
    let url = web_address(url, form).map_err(|what| DirectError::Invalid(Faults::one("url", what)))?;
    let (body, numbered) = body.checked_direct().map_err(DirectError::Invalid)?;
    let http = http_client(url.as_str()).map_err(DirectError::Setup)?;
    let mut failures = 0;
    loop {
        let result = post(&http, &url, body.clone()).await;
        let asked = result.as_ref().err().and_then(|error| error.transient(numbered));
        let random = environment.random_u64();
        let Some(pause) = asked.and_then(|asked| retry.pause(failures, asked, random)) else { return result };
        tokio::time::sleep(pause).await;
        failures += 1;
    }
}

async fn post(http: &Client, url: &Url, body: Bytes) -> Result<ReceiverReply, DirectError> {
    let unreachable = |source| DirectError::Unreachable { url: url.clone(), source };
    let request = http.post(url.clone()).header(CONTENT_TYPE, "application/json").body(body);
    let response = request.timeout(REQUEST_LIMIT).send().await.map_err(unreachable)?;
    let (status, retry_after) = (response.status(), retry_after(response.headers()));
    let otherwise = reason(&response);
    let answer = collect(response, MAX_ANSWER).await.map_err(|error| match error {
        ReadError::TooLarge => DirectError::Protocol(format!("{url} answered more than 64 KiB")),
        ReadError::Broken(source) => unreachable(source),
    })?;
    let reply = serde_json::from_slice::<ReceiverReply>(&answer);
    match reply {
        Ok(reply) if status.is_success() || status.as_u16() == 400 => Ok(reply),
        Err(error) if status.is_success() => Err(DirectError::Protocol(format!(
            "{url} did not answer as an agent does: {error}; is this where an agent receives?"
        ))),
        reply => {
            let detail = reply.ok().and_then(|reply| reply.detail).unwrap_or(otherwise);
            Err(DirectError::Refused { url: url.clone(), status: status.as_u16(), detail, retry_after })
        }
    }
}

/// Returns the reason to show for a refusal that gives none.
pub(crate) fn reason(response: &Response) -> String {
    match response.headers().get(LOCATION).and_then(|to| to.to_str().ok()) {
        Some(to) if response.status().is_redirection() => {
            format!("it redirects to {to}; use that address instead")
        }
        _ => "it gave no reason an agent would give".into(),
    }
}
