//! The way back: an answer reaches whoever asked, once.
//!
//! To a callback and through the hub it goes under a key made of the message, the same for every try and after every
//! restart; that the key was used for something else means that the message was answered before. While the hub is
//! away there is nothing better to do than to wait for it; others are given minutes. A peer knows no keys: an answer
//! that may have reached it is not sent again, unless it is a numbered turn.

use super::turn::{Back, EnvelopeBack, Kind, Turn};
use crate::client::{REQUEST_LIMIT, http_client};
use crate::retry::random;
use crate::{Backoff, Callback, CallbackError, Client, ClientError, Retry, SendBody, send_direct};
use chorus_protocol::channel::CallbackEvent;
use chorus_protocol::relay::{Code, Delivery, ReceiverStatus};
use reqwest::header::CONTENT_TYPE;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

/// The longest text of an envelope, in characters.
const MAX_ENVELOPE: usize = 10_000;

/// How long the hub is waited for: as long as a callback is good.
const HUB_PATIENCE: Duration = Duration::from_hours(24);

/// How long anybody else is.
const PATIENCE: Duration = Duration::from_mins(5);

/// How often a receiver that the hub cannot reach is tried.
const RECEIVER_TRIES: u32 = 4;

const BACKOFF: Backoff = Backoff { base_ms: 500, max_ms: 30_000 };
const RETRY: Retry = Retry { tries: u32::MAX, failed_deliveries: false, backoff: BACKOFF };

/// Who sends the answers, and how.
pub(super) struct Sender {
    pub(super) name: String,
    pub(super) culture: String,
    pub(super) hub: Option<Client>,
    pub(super) peers: BTreeMap<String, String>,
}

impl Sender {
    /// What of an answer fits on its way, and whether it had to be cut.
    pub(super) fn fit(turn: &Turn, text: String) -> (String, bool) {
        let fits = matches!(turn.back, Back::Callback(_)) || text.chars().count() <= MAX_ENVELOPE;
        if fits { (text, false) } else { (super::report::cut(&text, MAX_ENVELOPE), true) }
    }

    /// Sends an answer. `again` is whether it may have been sent before, by a process that died.
    pub(super) async fn answer(
        &self,
        turn: &Turn,
        callback: Option<&Callback>,
        text: &str,
        again: bool,
    ) -> Result<(), String> {
        let key = turn.answer_key();
        match (&turn.back, callback) {
            (Back::Callback(_), Some(callback)) => {
                let patience = if turn.kind == Kind::Chat { HUB_PATIENCE } else { PATIENCE };
                to_callback(callback, text, &key, patience).await
            }
            (Back::Callback(_), None) => Err("its callback is none".into()),
            (Back::Envelope(back), _) => self.envelope(turn, back, text, &key, again).await,
        }
    }

    async fn envelope(
        &self,
        turn: &Turn,
        back: &EnvelopeBack,
        text: &str,
        key: &str,
        again: bool,
    ) -> Result<(), String> {
        if let Some(url) = &back.reply_stream {
            match to_stream(url, text).await {
                Ok(()) => return Ok(()),
                // It works once, so one that is used up has perhaps carried the answer.
                Err(ClientError::Refused { .. }) if again => return Ok(()),
                // The sender no longer listens: it gets an envelope.
                Err(ClientError::Refused { .. }) => {}
                Err(ClientError::Unreachable { source, .. }) if source.is_connect() => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        let body = |to: Option<&str>| {
            let body = match to {
                Some(to) => SendBody::new(&self.name, to, &self.culture, text),
                None => SendBody::direct(&self.name, &self.culture, text),
            };
            reply_members(body, turn, back)
        };
        if let Some(url) = self.peers.get(&turn.sender) {
            let numbered = back.conversation.is_some() && back.turn.is_some();
            // It may have arrived, and a peer could not tell.
            return if again && !numbered { Ok(()) } else { to_peer(url, &body(None)).await };
        }
        let Some(hub) = &self.hub else {
            return Err(format!("nobody knows where {} can be reached", turn.sender));
        };
        to_hub(hub, &body(Some(&turn.sender)), key).await
    }

    /// Tells a sender that listens why there is no answer. Nobody else can be told.
    pub(super) async fn fail(&self, turn: &Turn, why: &str, code: &str) {
        let Back::Envelope(back) = &turn.back else { return };
        let Some(url) = &back.reply_stream else { return };
        let Ok(http) = http_client(url) else { return };
        let line = format!("{}\n", json!({"type": "error", "code": code, "message": why}));
        let request = http.post(url.as_str()).header(CONTENT_TYPE, "application/x-ndjson").body(line);
        // Whether it listens any more does not matter.
        request.timeout(REQUEST_LIMIT).send().await.ok();
    }
}

/// What an answer takes over from its question.
fn reply_members(mut body: SendBody, turn: &Turn, back: &EnvelopeBack) -> SendBody {
    body = body.with("in_reply_to", turn.message_id.as_str()).with("reply_depth", back.depth + 1);
    if let Some(conversation) = &back.conversation {
        body = body.with("conversation_id", conversation.as_str());
        if let Some(number) = back.turn {
            body = body.with("turn_number", number.saturating_add(1));
        }
    }
    body
}

async fn to_callback(callback: &Callback, text: &str, key: &str, patience: Duration) -> Result<(), String> {
    let event = CallbackEvent::Message { content: text.to_owned() };
    let callback = callback.clone().with_retry(RETRY);
    match timeout(patience, callback.send_as(key, &event)).await {
        // Something else was said under this key: it was answered before.
        Ok(Ok(()) | Err(CallbackError::Refused { status: 409, .. })) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("nobody took the answer in time".into()),
    }
}

async fn to_stream(url: &str, text: &str) -> Result<(), ClientError> {
    let (pieces, output) = mpsc::channel(1);
    pieces.send(text.to_owned()).await.ok();
    drop(pieces);
    crate::reply(url, output).await
}

async fn to_hub(hub: &Client, body: &SendBody, key: &str) -> Result<(), String> {
    let (begun, mut failures) = (Instant::now(), 0);
    loop {
        let why = match hub.send(body, Some(key)).await {
            Ok(outcome) if outcome.delivery != Delivery::Failed => return Ok(()),
            Ok(outcome) => {
                let why = outcome.detail.or(outcome.error_code).unwrap_or_else(|| "no reason".into());
                let why = format!("the receiver did not get it: {why}");
                if failures + 1 >= RECEIVER_TRIES {
                    return Err(why);
                }
                why
            }
            Err(error) if error.code() == Some(Code::IdempotencyConflict) => return Ok(()),
            Err(error) if error.transient().is_none() => return Err(error.to_string()),
            Err(error) => error.to_string(),
        };
        if begun.elapsed() > HUB_PATIENCE {
            return Err(why);
        }
        sleep(Duration::from_millis(BACKOFF.delay_ms(failures, random()))).await;
        failures = failures.saturating_add(1);
    }
}

async fn to_peer(url: &str, body: &SendBody) -> Result<(), String> {
    match timeout(PATIENCE, send_direct(url, body, RETRY)).await {
        Ok(Ok(reply)) if reply.status == ReceiverStatus::Ok => Ok(()),
        Ok(Ok(reply)) => Err(reply.detail.unwrap_or_else(|| "the peer could not use it".into())),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("the peer did not take the answer in time".into()),
    }
}
