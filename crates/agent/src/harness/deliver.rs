//! The way back: an answer reaches whoever asked, once.
//!
//! To a callback and through the hub it goes under a key made of the message, the same for every try and after every
//! restart; that the key was used for something else means that the message was answered before. While the hub is
//! away there is nothing better to do than to wait for it; others are given minutes. Other services and peers know no
//! keys: an answer that may have reached one is not sent again, unless it is a numbered turn.

use super::peers::Peers;
use super::turn::{Back, EnvelopeBack, Kind, Turn};
use crate::client::{REQUEST_LIMIT, may_pass};
use crate::random::random;
use crate::stream::reply_by;
use crate::{Backoff, Callback, Client, ClientError, Reach, Retry, SendBody, send_direct};
use chorus_protocol::channel::{CallbackEvent, MAX_BODY, MAX_CONTENT};
use chorus_protocol::relay::{Code, Delivery, ReceiverStatus};
use reqwest::header::CONTENT_TYPE;
use reqwest::{Method, Url};
use serde_json::json;
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
    pub(super) peers: Peers,
    pub(super) reach: Reach,
}

/// Why an answer was not sent.
#[derive(Debug)]
pub(super) struct Unsent {
    pub(super) why: String,
    /// Whether it may have arrived all the same: then it must never be made again.
    pub(super) perhaps_sent: bool,
}

impl From<String> for Unsent {
    fn from(why: String) -> Self {
        Self { why, perhaps_sent: false }
    }
}

impl Sender {
    /// The callback of a message. Only the hub is known to know keys.
    pub(super) fn callback(&self, turn: &Turn) -> Option<Callback> {
        let Back::Callback(url) = &turn.back else { return None };
        let callback = Callback::open(url, &self.reach).ok()?;
        Some(if self.is_own(turn, &callback) { callback } else { callback.at_most_once() })
    }

    /// Whether a callback leads to the agent's own hub.
    fn is_own(&self, turn: &Turn, callback: &Callback) -> bool {
        let hub = self.hub.as_ref().and_then(|hub| Url::parse(hub.base()).ok());
        turn.kind == Kind::Chat
            || hub.is_some_and(|hub| hub.origin().ascii_serialization() == callback.origin())
    }

    /// What of an answer fits on its way, and whether it had to be cut.
    pub(super) fn fit(&self, turn: &Turn, callback: Option<&Callback>, text: &str) -> (String, bool) {
        // The hub says an envelope to a connection string as a message of this name, and makes one of its answer.
        let envelope = match callback {
            Some(callback) => turn.message_id.starts_with("msg_") && self.is_own(turn, callback),
            None => true,
        };
        let most = if envelope { MAX_ENVELOPE } else { MAX_CONTENT };
        let fits = most.min(characters_in(text, MAX_BODY - 1024));
        let cut = super::report::cut(text, fits);
        let shorter = cut.len() != text.len();
        (cut, shorter)
    }

    /// Sends an answer. `again` is whether it may have been sent before, by a process that died.
    pub(super) async fn answer(
        &self,
        turn: &Turn,
        callback: Option<&Callback>,
        text: &str,
        again: bool,
    ) -> Result<(), Unsent> {
        let key = turn.answer_key();
        match (&turn.back, callback) {
            (Back::Callback(_), Some(callback)) => {
                let own = self.is_own(turn, callback);
                // It may have arrived, and the service could not tell.
                if again && !own { Ok(()) } else { to_callback(callback, text, &key, own).await }
            }
            (Back::Callback(_), None) => Err("its callback is none".to_owned().into()),
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
    ) -> Result<(), Unsent> {
        if let Some(url) = &back.reply_stream {
            match to_stream(&self.reach, url, text, PATIENCE).await {
                Ok(()) => return Ok(()),
                // It works once, so one that is used up has perhaps carried the answer.
                Err(ClientError::Refused { .. }) if again => return Ok(()),
                // The sender no longer listens: it gets an envelope.
                Err(ClientError::Refused { .. }) => {}
                Err(ClientError::Unreachable { source, .. }) if source.is_connect() => {}
                Err(error) => return Err(Unsent { why: error.to_string(), perhaps_sent: true }),
            }
        }
        let body = |to: Option<&str>| {
            let body = match to {
                Some(to) => SendBody::new(&self.name, to, &self.culture, text),
                None => SendBody::direct(&self.name, &self.culture, text),
            };
            reply_members(body, turn, back)
        };
        if let Some(url) = self.peers.url(&turn.sender) {
            let numbered = back.conversation.is_some() && back.turn.is_some();
            // It may have arrived, and a peer could not tell.
            return if again && !numbered { Ok(()) } else { to_peer(url, &body(None)).await };
        }
        let Some(hub) = &self.hub else {
            return Err(format!("nobody knows where {} can be reached", turn.sender).into());
        };
        to_hub(hub, &body(Some(&turn.sender)), key).await
    }

    /// Tells a sender that listens why there is no answer. Nobody else can be told.
    pub(super) async fn fail(&self, turn: &Turn, why: &str, code: &str) {
        let Back::Envelope(back) = &turn.back else { return };
        let Some(url) = &back.reply_stream else { return };
        let Ok(url) = Url::parse(url) else { return };
        let Ok(http) = self.reach.http(&url) else { return };
        let Ok(request) = http.request(Method::POST, url) else { return };
        let line = format!("{}\n", json!({"type": "error", "code": code, "message": why}));
        let request = request.header(CONTENT_TYPE, "application/x-ndjson").body(line);
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

/// How many characters of a text fit into so many bytes of JSON.
fn characters_in(text: &str, bytes: usize) -> usize {
    let sizes = text.chars().map(|c| match c {
        '"' | '\\' => 2,
        c if c.is_control() => 6,
        c => c.len_utf8(),
    });
    let filled = sizes.scan(0, |sum, size| {
        *sum += size;
        Some(*sum)
    });
    filled.take_while(|sum| *sum <= bytes).count()
}

fn patience(own: bool) -> Duration {
    if own { HUB_PATIENCE } else { PATIENCE }
}

async fn to_callback(callback: &Callback, text: &str, key: &str, own: bool) -> Result<(), Unsent> {
    let event = CallbackEvent::Message { content: text.to_owned() };
    let patience = patience(own);
    let callback = callback.clone().with_retry(RETRY);
    match timeout(patience, callback.send_as(key, &event)).await {
        Ok(Ok(())) => Ok(()),
        // Something else was said under this key: it was answered before.
        Ok(Err(error)) if error.code() == Some(Code::IdempotencyConflict) => Ok(()),
        Ok(Err(error)) => {
            Err(Unsent { why: error.to_string(), perhaps_sent: !own && error.may_have_arrived() })
        }
        Err(_) => Err(Unsent { why: "nobody took the answer in time".into(), perhaps_sent: !own }),
    }
}

async fn to_stream(reach: &Reach, url: &str, text: &str, patience: Duration) -> Result<(), ClientError> {
    let (pieces, output) = mpsc::channel(1);
    pieces.send(text.to_owned()).await.ok();
    drop(pieces);
    let late = |_| ClientError::Lost("nobody took the answer in time");
    timeout(patience, reply_by(Some(reach), url, output)).await.map_err(late)?
}

async fn to_hub(hub: &Client, body: &SendBody, key: &str) -> Result<(), Unsent> {
    // Tries are counted here.
    let hub = hub.clone().with_retry(Retry { tries: 1, ..RETRY });
    let begun = Instant::now();
    let (mut outages, mut failed_deliveries) = (0, 0);
    loop {
        let (why, failures) = match hub.send(body, Some(key)).await {
            Ok(outcome) if outcome.delivery != Delivery::Failed => return Ok(()),
            Ok(outcome) => {
                (outages, failed_deliveries) = (0, failed_deliveries + 1);
                let again = may_pass(&outcome) && failed_deliveries < RECEIVER_TRIES;
                let why = outcome.detail.or(outcome.error_code).unwrap_or_else(|| "no reason".into());
                let why = format!("the receiver did not get it: {why}");
                if !again {
                    return Err(why.into());
                }
                (why, failed_deliveries)
            }
            Err(error) if error.code() == Some(Code::IdempotencyConflict) => return Ok(()),
            Err(error) if error.transient().is_none() => return Err(error.to_string().into()),
            Err(error) => {
                outages = u32::saturating_add(outages, 1);
                (error.to_string(), outages)
            }
        };
        if begun.elapsed() > HUB_PATIENCE {
            return Err(why.into());
        }
        sleep(Duration::from_millis(BACKOFF.delay_ms(failures - 1, random()))).await;
    }
}

async fn to_peer(url: &str, body: &SendBody) -> Result<(), Unsent> {
    match timeout(PATIENCE, send_direct(url, body, RETRY)).await {
        Ok(Ok(reply)) if reply.status == ReceiverStatus::Ok => Ok(()),
        Ok(Ok(reply)) => Err(reply.detail.unwrap_or_else(|| "the peer could not use it".into()).into()),
        Ok(Err(error)) => Err(Unsent { why: error.to_string(), perhaps_sent: error.may_have_arrived() }),
        Err(_) => Err(Unsent { why: "the peer did not take the answer in time".into(), perhaps_sent: true }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chorus_protocol::channel::Post;

    fn turn(message: &str) -> Turn {
        let post = json!({"channel": {"id": "c"}, "message": {"id": message, "sender": "s", "content": "c"},
            "callback": "http://s/cb"});
        Turn::post(Post::read(post.to_string().as_bytes()).unwrap())
    }

    #[test]
    fn answers_fit_their_way() {
        rustls::crypto::ring::default_provider().install_default().ok();
        let hub = Some(Client::connect("http://s", None).unwrap());
        let reach = Reach::new(Some("http://s"), vec![]);
        let sender = Sender { name: "a".into(), culture: "en".into(), hub, peers: Peers::default(), reach };
        for (message, text, most) in [
            ("evt_1", "x".repeat(150_000), 100_000),
            // What an envelope may hold, also when it came by a connection string.
            ("msg_1", "x".repeat(20_000), 10_000),
            // And what a body may hold: three bytes each.
            ("evt_1", "字".repeat(99_000), 87_040),
        ] {
            let turn = turn(message);
            let (fitted, cut) = sender.fit(&turn, sender.callback(&turn).as_ref(), &text);
            assert!(cut && fitted.ends_with('…') && fitted.chars().count() == most, "{message}");
            let event = CallbackEvent::Message { content: fitted };
            assert!(serde_json::to_vec(&event).unwrap().len() <= MAX_BODY);
        }
        let turn = turn("msg_1");
        // The hub is waited for as long as its callbacks are good, whichever way the message came.
        let own = |sender: &Sender| sender.is_own(&turn, &sender.callback(&turn).unwrap());
        assert_eq!(patience(own(&sender)), HUB_PATIENCE);
        let elsewhere = Sender { hub: None, ..sender };
        assert_eq!(patience(own(&elsewhere)), PATIENCE);
        let long = "x".repeat(20_000);
        assert_eq!(elsewhere.fit(&turn, elsewhere.callback(&turn).as_ref(), &long), (long, false));
    }

    #[tokio::test]
    async fn a_hub_that_takes_nothing_does_not_hold_up_the_agent() {
        rustls::crypto::ring::default_provider().install_default().ok();
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/streams/1", silent.local_addr().unwrap());
        let reach = Reach::new(Some(&url), vec![]);
        let sending = to_stream(&reach, &url, "hello", Duration::from_millis(50));
        let sent = timeout(Duration::from_secs(20), sending).await;
        assert!(matches!(sent, Ok(Err(ClientError::Lost(_)))), "{sent:?}");
    }
}
