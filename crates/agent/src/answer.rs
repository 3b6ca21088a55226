//! Reading what a hub answers: at most so many bytes, then the common response format or a clear complaint.
//!
//! Servers are not trusted to be hubs: a proxy's error page, a redirect or a wrong port must end in a sentence
//! that says so.

use crate::ClientError;
use bytes::{Bytes, BytesMut};
use chorus_protocol::relay::{Failure, Success};
use reqwest::Response;
use reqwest::header::{HeaderMap, LOCATION, RETRY_AFTER};
use serde::de::DeserializeOwned;
use std::time::Duration;

/// The largest answer that is read: a hundred messages of the largest size, and some room.
const MAX_ANSWER: usize = 32 * 1024 * 1024;

/// The longest sentence of a hub that is passed on.
const MAX_MESSAGE: usize = 2000;

/// The answer in the common format, or why there is none.
pub(crate) async fn read<T: DeserializeOwned>(response: Response) -> Result<Success<T>, ClientError> {
    if !response.status().is_success() {
        return Err(refusal(response).await);
    }
    let at = response.url().clone();
    parse(&at, &body(response).await?)
}

/// The answer as plain JSON: the discovery document is the one that is not wrapped.
pub(crate) async fn read_bare<T: DeserializeOwned>(response: Response) -> Result<T, ClientError> {
    let at = response.url().clone();
    parse(&at, &body(response).await?)
}

/// Why a request was refused, from whatever the answer says.
pub(crate) async fn refusal(response: Response) -> ClientError {
    let status = response.status().as_u16();
    let retry_after = retry_after(response.headers());
    let location = response.headers().get(LOCATION).and_then(|to| to.to_str().ok()).map(str::to_owned);
    let at = response.url().clone();
    let body = match body(response).await {
        Ok(body) => body,
        Err(error) => return error,
    };
    let (code, message) = match (serde_json::from_slice::<Failure>(&body), location) {
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

async fn body(mut response: Response) -> Result<Bytes, ClientError> {
    let url = response.url().origin().ascii_serialization();
    let mut body = BytesMut::new();
    while let Some(piece) =
        response.chunk().await.map_err(|source| ClientError::Unreachable { url: url.clone(), source })?
    {
        if body.len() + piece.len() > MAX_ANSWER {
            return Err(ClientError::Protocol(format!("{} answered more than 32 MiB", response.url())));
        }
        body.extend_from_slice(&piece);
    }
    Ok(body.freeze())
}

/// `Retry-After` in seconds. The form with a date is left alone: it needs the hub's clock to be right.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}
