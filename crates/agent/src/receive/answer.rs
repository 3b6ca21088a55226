//! One request to a receiver: read, check, hand to the program, answer as section 6.5 of the transport says.
//!
//! Every answer, whatever its status, is a reply of the protocol in JSON.

use super::turns::Turn;
use super::{Received, Shared};
use crate::seen::turn_name;
use bytes::Bytes;
use chorus_protocol::faults::{Faults, Fields};
use chorus_protocol::json;
use chorus_protocol::relay::{
    CHORUS_VERSION, Envelope, MAX_BODY, ReceiverReply, ReceiverStatus, check_envelope,
};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderName, HeaderValue, ORIGIN, RETRY_AFTER};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// What is read of a body that is too large, so that its sender gets to see the answer.
const DRAIN: usize = 4 * 1024 * 1024;
const DRAIN_TIME: Duration = Duration::from_secs(2);

const INVALID: Option<&str> = Some("INVALID_ENVELOPE");
const UNSUPPORTED: Option<&str> = Some("UNSUPPORTED_VERSION");

/// Why an envelope was not taken.
struct Refusal {
    status: StatusCode,
    error_code: Option<&'static str>,
    detail: String,
    header: Option<(HeaderName, &'static str)>,
}

impl Refusal {
    fn new(status: StatusCode, error_code: Option<&'static str>, detail: impl ToString) -> Self {
        Self { status, error_code, detail: detail.to_string(), header: None }
    }

    /// It may be taken later.
    fn busy(detail: &str) -> Self {
        let header = Some((RETRY_AFTER, "1"));
        Self { header, ..Self::new(StatusCode::SERVICE_UNAVAILABLE, None, detail) }
    }
}

/// Answers one request.
pub(super) async fn answer(shared: &Shared, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let (status, header, reply) = match take(shared, request).await {
        Ok(reply) => (StatusCode::OK, None, reply),
        Err(Refusal { status, error_code, detail, header }) => {
            let error_code = error_code.map(str::to_owned);
            (
                status,
                header,
                ReceiverReply { status: ReceiverStatus::Error, error_code, detail: Some(detail) },
            )
        }
    };
    let body = serde_json::to_vec(&reply).unwrap_or_default();
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some((name, value)) = header {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

async fn take(shared: &Shared, request: Request<Incoming>) -> Result<ReceiverReply, Refusal> {
    let (head, body) = request.into_parts();
    // First of all, so that no sender is cut off while it writes.
    let body = read(body, shared.options.body_limit).await?;
    if head.uri.path() != shared.options.path {
        return Err(Refusal::new(StatusCode::NOT_FOUND, None, "there is nothing at this path"));
    }
    if head.method != Method::POST {
        let refusal = Refusal::new(StatusCode::METHOD_NOT_ALLOWED, None, "envelopes come by POST");
        return Err(Refusal { header: Some((ALLOW, "POST")), ..refusal });
    }
    if head.headers.contains_key(ORIGIN) {
        // Agents do not send it, browsers always do: no page may write to an agent of the person who looks at it.
        return Err(Refusal::new(StatusCode::FORBIDDEN, None, "envelopes do not come from web pages"));
    }
    let now = (shared.options.clock)();
    let webhook_id = authenticate(shared, &head.headers, &body, now)?;
    let (envelope, raw) = check(&body)?;
    hand_over(shared, &envelope, raw, webhook_id, now).await
}

/// The whole body, if it is not too large and comes in time.
async fn read(body: Incoming, limit: Duration) -> Result<Bytes, Refusal> {
    let too_large = || {
        let detail = format!("the body must be at most {MAX_BODY} bytes");
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, INVALID, detail)
    };
    if body.size_hint().lower() > MAX_BODY as u64 {
        // Its outcome does not matter: the answer is the same.
        drop(timeout(DRAIN_TIME, Limited::new(body, DRAIN).collect()).await);
        return Err(too_large());
    }
    match timeout(limit, Limited::new(body, MAX_BODY).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(Refusal::new(StatusCode::BAD_REQUEST, INVALID, "the body broke off")),
        Err(_) => Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, None, "the body did not arrive in time")),
    }
}

/// The id of a signed request; none where nothing need be signed.
fn authenticate(
    shared: &Shared,
    headers: &HeaderMap,
    body: &[u8],
    now: i64,
) -> Result<Option<String>, Refusal> {
    let Some(secret) = &shared.options.secret else { return Ok(None) };
    let verified = secret.verify(headers, body, now);
    verified.map(Some).map_err(|fault| Refusal::new(StatusCode::UNAUTHORIZED, None, fault))
}

/// The envelope of a body, checked and as it came.
fn check(body: &[u8]) -> Result<(Envelope, Box<RawValue>), Refusal> {
    #[derive(Deserialize)]
    struct Raw {
        envelope: Box<RawValue>,
    }

    let invalid = |detail: String| Refusal::new(StatusCode::BAD_REQUEST, INVALID, detail);
    let value = json::parse(body).map_err(|error| invalid(error.to_string()))?;
    let mut faults = Faults::new();
    let envelope = Fields::of(&value, "", &mut faults)
        .and_then(|mut fields| fields.required("envelope"))
        .and_then(|envelope| check_envelope(envelope, "envelope", &mut faults));
    let Some(envelope) = envelope.filter(|_| faults.is_empty()) else {
        let version = value.pointer("/envelope/chorus_version").and_then(Value::as_str);
        // Another version may have other rules: its number says more than its other faults.
        let other = version.is_some_and(|version| version != CHORUS_VERSION);
        let error_code = if other { UNSUPPORTED } else { INVALID };
        return Err(Refusal::new(StatusCode::BAD_REQUEST, error_code, faults));
    };
    let raw = serde_json::from_slice::<Raw>(body).map_err(|error| invalid(error.to_string()))?;
    Ok((envelope, raw.envelope))
}

/// Gives the envelope to the program, once, and waits for what it says.
async fn hand_over(
    shared: &Shared,
    envelope: &Envelope,
    raw: Box<RawValue>,
    webhook_id: Option<String>,
    now: i64,
) -> Result<ReceiverReply, Refusal> {
    let sender_id = envelope.sender.to_string();
    // Names are compared without regard to case. What has no number is known by the hub's id for it, which keeps
    // a signed request from being played again.
    let turn = envelope.turn.as_ref();
    let name = turn.map(|(id, number)| turn_name(&sender_id.to_ascii_lowercase(), id, *number));
    let name = name.or_else(|| webhook_id.as_ref().map(|id| format!("id {id}")));
    let claim = match name.map(|name| shared.turns.claim(name)) {
        None => None,
        Some(Turn::New(claim)) => Some(claim),
        Some(Turn::Pending) => return Err(Refusal::busy("this turn is being taken; ask again")),
        Some(Turn::Taken) => {
            return Ok(ReceiverReply { status: ReceiverStatus::Ok, error_code: None, detail: None });
        }
    };
    let (answer, answered) = oneshot::channel();
    let received = Received { envelope: raw, sender_id, received_at: now, webhook_id, claim, answer };
    if shared.queue.try_send(received).is_err() {
        return Err(Refusal::busy("too many envelopes wait for this agent; try again"));
    }
    match timeout(shared.options.answer_limit, answered).await {
        Ok(Ok(reply)) => Ok(reply),
        _ => Err(Refusal::busy("the agent did not take it; try again")),
    }
}
