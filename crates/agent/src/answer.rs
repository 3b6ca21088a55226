//! Reads a hub's responses: a bounded number of bytes, then the common response format or a clear error.
//!
//! The server is not trusted to be a hub. A proxy's error page, a redirect or a wrong port ends in an error
//! message that says so.

use crate::{ClientError, Skill};
use bytes::{Bytes, BytesMut};
use chorus_protocol::relay::{ErrorBody, Success};
use reqwest::Response;
use reqwest::header::{CONTENT_LANGUAGE, CONTENT_TYPE, HeaderMap, LOCATION, RETRY_AFTER};
use serde::de::DeserializeOwned;
use std::time::Duration;

/// The largest response that is read, in bytes: a page of a hundred messages of the largest size, with some
/// room.
const MAX_ANSWER: usize = 32 * 1024 * 1024;

/// The largest skill text that is read from a hub, in bytes.
const MAX_SKILL: usize = 256 * 1024;

/// The longest error message of a hub that is passed on, in characters.
const MAX_MESSAGE: usize = 2000;

/// Reads a response in the common format.
pub(crate) async fn read<T: DeserializeOwned>(response: Response) -> Result<Success<T>, ClientError> {
    if !response.status().is_success() {
        return Err(refusal(response).await);
    }
    let at = response.url().clone();
    parse(&at, &body(response).await?)
}

/// Reads a response as plain JSON. The discovery document is the only one without the common format.
pub(crate) async fn read_bare<T: DeserializeOwned>(response: Response) -> Result<T, ClientError> {
    let at = response.url().clone();
    parse(&at, &body(response).await?)
}

/// Reads a response in the format of `/api/v1`: plain JSON. An empty body counts as `null`.
pub(crate) async fn read_any<T: DeserializeOwned>(response: Response) -> Result<T, ClientError> {
    if !response.status().is_success() {
        return Err(refusal(response).await);
    }
    let at = response.url().clone();
    let body = body(response).await?;
    parse(&at, if body.is_empty() { b"null" } else { &body })
}

/// Reads an unsuccessful response of JSON-RPC. Any other is an error, as [`refusal`] explains it.
pub(crate) async fn rpc_refusal(response: Response) -> Result<serde_json::Value, ClientError> {
    let (status, retry_after) = (response.status().as_u16(), retry_after(response.headers()));
    let body = body(response).await?;
    if let Ok(told) = serde_json::from_slice::<serde_json::Value>(&body)
        && told["jsonrpc"] == "2.0"
    {
        return Ok(told);
    }
    let (code, message) = match serde_json::from_slice::<Refusal>(&body) {
        Ok(failure) => (failure.error.code, failure.error.message),
        Err(_) => (format!("HTTP_{status}"), format!("HTTP {status} and no reason a hub would give")),
    };
    let message = message.chars().take(MAX_MESSAGE).collect();
    Err(ClientError::Refused { status, code, message, retry_after })
}

/// The part that all error formats of a hub share.
#[derive(serde::Deserialize)]
struct Refusal {
    error: ErrorBody,
}

/// Reads the hub's skill text for agents, and its language.
pub(crate) async fn read_skill(response: Response) -> Result<Skill, ClientError> {
    if !response.status().is_success() {
        return Err(refusal(response).await);
    }
    let at = response.url().clone();
    let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let (kind, language) = (header(CONTENT_TYPE).unwrap_or_default(), header(CONTENT_LANGUAGE));
    let odd = |what: &str| ClientError::Protocol(format!("{at} answered {what}; is this a Chorus hub?"));
    if !kind.starts_with("text/markdown") && !kind.starts_with("text/plain") {
        return Err(odd("something else than text"));
    }
    let text = collect(response, MAX_SKILL).await;
    let text = text.map_err(|error| error.at(&at, || odd("more than 256 KiB")))?;
    let text = String::from_utf8(text.into()).map_err(|_| odd("something else than UTF-8"))?;
    Ok(Skill { language, text })
}

/// Turns an unsuccessful response into an error, using the response's own reason if it has one.
pub(crate) async fn refusal(response: Response) -> ClientError {
    let status = response.status().as_u16();
    let retry_after = retry_after(response.headers());
    let location = response.headers().get(LOCATION).and_then(|to| to.to_str().ok()).map(str::to_owned);
    let at = response.url().clone();
    let body = match body(response).await {
        Ok(body) => body,
        Err(error) => return error,
    };
    let (code, message) = match (serde_json::from_slice::<Refusal>(&body), location) {
        (Ok(failure), _) => (failure.error.code, failure.error.message),
        // Redirects are not followed: they could carry the key to another server.
        (Err(_), Some(to)) if (300..400).contains(&status) => {
            (format!("HTTP_{status}"), format!("{at} redirects to {to}; use that address instead"))
        }
        (Err(_), _) => {
            let text = format!("{at} answered HTTP {status} and no reason a hub would give");
            (format!("HTTP_{status}"), text)
        }
    };
    let message = message.chars().take(MAX_MESSAGE).collect();
    ClientError::Refused { status, code, message, retry_after }
}

fn parse<T: DeserializeOwned>(at: &reqwest::Url, body: &[u8]) -> Result<T, ClientError> {
    serde_json::from_slice(body).map_err(|error| {
        ClientError::Protocol(format!("{at} did not answer as a hub does: {error}; is this a Chorus hub?"))
    })
}

async fn body(response: Response) -> Result<Bytes, ClientError> {
    let at = response.url().clone();
    let too_large = || ClientError::Protocol(format!("{at} answered more than 32 MiB"));
    collect(response, MAX_ANSWER).await.map_err(|error| error.at(&at, too_large))
}

/// The reason why a response body was not read.
pub(crate) enum ReadError {
    /// The body is larger than allowed.
    TooLarge,
    Broken(reqwest::Error),
}

impl ReadError {
    fn at(self, url: &reqwest::Url, too_large: impl FnOnce() -> ClientError) -> ClientError {
        match self {
            Self::TooLarge => too_large(),
            Self::Broken(source) => {
                ClientError::Unreachable { url: url.origin().ascii_serialization(), source }
            }
        }
    }
}

/// Reads the whole body if it has at most `limit` bytes.
pub(crate) async fn collect(mut response: Response, limit: usize) -> Result<Bytes, ReadError> {
    let mut body = BytesMut::new();
    while let Some(piece) = response.chunk().await.map_err(ReadError::Broken)? {
        if body.len() + piece.len() > limit {
            return Err(ReadError::TooLarge);
        }
        body.extend_from_slice(&piece);
    }
    Ok(body.freeze())
}

/// Returns `Retry-After` if it is given in seconds. A date is ignored: it would require the hub's clock to be
/// right.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}
