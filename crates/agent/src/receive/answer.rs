//! Handles one request to a receiver: reads it, checks it, hands it to the program, answers as section 6.5 of
//! the transport specifies.
//!
//! Every response, of any status, is a reply of the protocol in JSON.

use super::{Busy, Letter, Shared, json_answer, read_body};
use crate::Network;
use crate::seen::turn_name;
use bytes::Bytes;
use chorus_protocol::inbox::Chat;
use chorus_protocol::json;
use chorus_protocol::relay::{
    CHORUS_VERSION, Challenge, EndpointQuestion, Envelope, MAX_BODY, ReceiverReply, ReceiverStatus,
    read_posted,
};
use chorus_protocol::words::EntryKind;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ALLOW, HeaderName, ORIGIN, RETRY_AFTER};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use serde_json::Value;
use serde_json::value::RawValue;
use std::net::IpAddr;

const INVALID: Option<&str> = Some("INVALID_ENVELOPE");
const UNSUPPORTED: Option<&str> = Some("UNSUPPORTED_VERSION");

/// The longest challenge that is echoed, in bytes.
const MAX_CHALLENGE: usize = 255;

/// An accepted request.
enum Taken {
    /// An envelope, with the program's reply.
    Envelope(ReceiverReply),
    /// A hub's check that this is an endpoint.
    Challenge(Challenge),
}

/// The reason why an envelope was not accepted.
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

    /// Creates a refusal that asks the sender to try again.
    fn busy(detail: &str) -> Self {
        let header = Some((RETRY_AFTER, "1"));
        Self { header, ..Self::new(StatusCode::SERVICE_UNAVAILABLE, None, detail) }
    }
}

pub(super) async fn answer(
    shared: &Shared,
    from: IpAddr,
    request: Request<Incoming>,
) -> Response<Full<Bytes>> {
    let (status, header, reply) = match take(shared, from, request).await {
        Ok(Taken::Challenge(challenge)) => {
            return json_answer(StatusCode::OK, None, &challenge);
        }
        Ok(Taken::Envelope(reply)) => (StatusCode::OK, None, reply),
        Err(Refusal { status, error_code, detail, header }) => {
            let error_code = error_code.map(str::to_owned);
            (
                status,
                header,
                ReceiverReply { status: ReceiverStatus::Error, error_code, detail: Some(detail) },
            )
        }
    };
    json_answer(status, header, &reply)
}

async fn take(shared: &Shared, from: IpAddr, request: Request<Incoming>) -> Result<Taken, Refusal> {
    let (head, body) = request.into_parts();
    // The body is read first, so that no sender is cut off while it writes.
    let body = read_body(body, MAX_BODY, shared.options.body_limit).await.map_err(|fault| {
        let status = fault.status();
        let error_code = INVALID.filter(|_| status != StatusCode::REQUEST_TIMEOUT);
        Refusal::new(status, error_code, fault)
    })?;
    if !Network::admit(&shared.options.sources, from) {
        let detail = "requests from this address are not taken";
        return Err(Refusal::new(StatusCode::FORBIDDEN, None, detail));
    }
    if head.uri.path() != shared.options.path {
        return Err(Refusal::new(StatusCode::NOT_FOUND, None, "there is nothing at this path"));
    }
    if head.method != Method::POST {
        let refusal = Refusal::new(StatusCode::METHOD_NOT_ALLOWED, None, "envelopes come by POST");
        return Err(Refusal { header: Some((ALLOW, "POST")), ..refusal });
    }
    if head.headers.contains_key(ORIGIN) {
        // Agents do not send this header, but browsers always do. No web page may write to the agent of a
        // person who views it.
        return Err(Refusal::new(StatusCode::FORBIDDEN, None, "envelopes do not come from web pages"));
    }
    let now = shared.options.environment.now();
    let webhook_id = authenticate(shared, &head.headers, &body, now)?;
    if let Some(challenge) = challenge(&body) {
        return Ok(Taken::Challenge(challenge));
    }
    let (letter, name) = if let Some(said) = said_on_hub(&body) {
        said?.letter(webhook_id, now)
    } else {
        let (envelope, raw) = check(&body)?;
        enveloped(&envelope, raw, webhook_id, now)
    };
    hand_over(shared, letter, name).await.map(Taken::Envelope)
}

/// A message in a conversation of a hub, from a webhook.
struct Said {
    event_id: String,
    sender_id: String,
    raw: Box<RawValue>,
}

impl Said {
    /// Returns the letter and its name, which is the same each time it comes.
    fn letter(self, webhook_id: Option<String>, received_at: i64) -> (Letter, Option<String>) {
        let Self { event_id, sender_id, raw } = self;
        let kind = EntryKind::Chat;
        (Letter { kind, envelope: raw, sender_id, received_at, webhook_id }, Some(format!("chat {event_id}")))
    }
}

/// Reads a body as a hub's message. Returns `None` if it has another form.
fn said_on_hub(body: &[u8]) -> Option<Result<Said, Refusal>> {
    let value = json::parse(body).ok()?;
    let shaped = value.get("envelope").is_none() && value.get("event").is_some_and(Value::is_object);
    if !shaped {
        return None;
    }
    let invalid = |detail: String| Refusal::new(StatusCode::BAD_REQUEST, INVALID, detail);
    let read = || {
        let chat: Chat = serde_json::from_value(value).map_err(|error| invalid(error.to_string()))?;
        let raw = serde_json::from_slice(body).map_err(|error| invalid(error.to_string()))?;
        let author = chat.event.author;
        Ok(Said { event_id: chat.event.event_id, sender_id: author.handle.unwrap_or(author.id), raw })
    };
    Some(read())
}

/// Reads the challenge that a hub sends before it uses an endpoint.
pub(crate) fn challenge(body: &[u8]) -> Option<Challenge> {
    let EndpointQuestion::Challenge(asked) = serde_json::from_value(json::parse(body).ok()?).ok()?;
    (asked.challenge.len() <= MAX_CHALLENGE).then_some(asked)
}

/// Returns the id of a signed request. `None` if no signature is required.
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

/// Returns the envelope of a body, checked, and its original text.
fn check(body: &[u8]) -> Result<(Envelope, Box<RawValue>), Refusal> {
    read_posted(body).map_err(|fault| {
        let value = json::parse(body).unwrap_or_default();
        let version = value.pointer("/envelope/chorus_version").and_then(Value::as_str);
        // Another version may have other rules, so its number matters more than its other faults.
        let other = version.is_some_and(|version| version != CHORUS_VERSION);
        let error_code = if other { UNSUPPORTED } else { INVALID };
        Refusal::new(StatusCode::BAD_REQUEST, error_code, fault)
    })
}

/// Returns an envelope's letter and its name.
fn enveloped(
    envelope: &Envelope,
    raw: Box<RawValue>,
    webhook_id: Option<String>,
    received_at: i64,
) -> (Letter, Option<String>) {
    let sender_id = envelope.sender.to_string();
    // Names are case-insensitive. An envelope without a turn number is identified by the hub's request id,
    // which prevents the replay of a signed request.
    let turn = envelope.turn.as_ref();
    let name = turn.map(|(id, number)| turn_name(&sender_id.to_ascii_lowercase(), id, *number));
    let name = name.or_else(|| webhook_id.as_ref().map(|id| format!("id {id}")));
    (Letter { kind: EntryKind::Message, envelope: raw, sender_id, received_at, webhook_id }, name)
}

/// Hands the envelope to the program, once, and waits for its decision.
async fn hand_over(shared: &Shared, letter: Letter, name: Option<String>) -> Result<ReceiverReply, Refusal> {
    match shared.desk.hand_over(letter, name, shared.options.answer_limit).await {
        Ok(Some(reply)) => Ok(reply),
        Ok(None) => Ok(ReceiverReply { status: ReceiverStatus::Ok, error_code: None, detail: None }),
        Err(Busy::Pending) => Err(Refusal::busy("this turn is being taken; ask again")),
        Err(Busy::Full) => Err(Refusal::busy("too many envelopes wait for this agent; try again")),
        Err(Busy::Late) => Err(Refusal::busy("the agent did not take it; try again")),
    }
}
