//! The route of an answer: its destination and its size limit.
//!
//! To a callback and through the hub, an answer is sent under a key derived from the message, the same for
//! every try and after every restart. Other services and peers do not support keys: an answer that may have
//! reached one is not sent again, unless it is a numbered turn.

use super::notice;
use super::post::{LAST, Outgoing, PERSISTENT, REPORTS, Receiver, To};
use crate::SendBody;
use crate::harness::peers::Peers;
use crate::harness::texts::cut;
use crate::harness::turn::{Back, EnvelopeBack, Turn};
use chorus_attention::turn::QUIET_MS;
use chorus_protocol::channel::{CallbackEvent, MAX_BODY, MAX_CONTENT};
use chorus_protocol::words::EntryKind;
use url::Url;

/// The default number of threads processed in parallel.
pub const AT_ONCE: usize = 3;

/// The longest text of an envelope, in characters.
const MAX_ENVELOPE: usize = 10_000;

/// The time for which the hub is retried: the lifetime of a callback.
const HUB_PATIENCE_MS: i64 = 24 * 60 * 60 * 1000;

/// The time for which any other receiver is retried.
const PATIENCE_MS: i64 = 5 * 60 * 1000;

/// The time that one progress report may delay the turn.
pub(super) const REPORT_PATIENCE_MS: i64 = 5000;

/// The agent's identity, settings and peers.
#[derive(Debug, Clone)]
pub struct Profile {
    /// The agent's name, or its address.
    pub name: String,
    /// The culture of the agent's user.
    pub culture: String,
    /// The URL of its hub. `None` for an agent without a hub.
    pub hub: Option<String>,
    /// The addresses for replies to peers. Others are answered through the hub.
    pub peers: Peers,
    /// The number of threads processed in parallel.
    pub at_once: usize,
    /// The pause after a person's last message before the agent answers. With 0 every message is answered
    /// separately.
    pub quiet_ms: i64,
    /// Adds the reaction `seen` to a message that requires an answer if the driver gives none.
    pub seen: bool,
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            name: String::new(),
            culture: String::new(),
            hub: None,
            peers: Peers::default(),
            at_once: AT_ONCE,
            quiet_ms: QUIET_MS,
            seen: false,
        }
    }
}

/// The decision about an answer.
pub(super) enum Route {
    Send(Box<Outgoing>),
    /// The answer may have arrived, and the receiver would not recognize a duplicate.
    PerhapsSent,
    Nowhere(String),
}

impl Route {
    fn send(outgoing: Outgoing) -> Self {
        Self::Send(Box::new(outgoing))
    }
}

impl Profile {
    /// Checks whether a callback leads to the agent's own hub. Only that is known to support idempotency keys.
    fn is_own(&self, turn: &Turn, callback: &str) -> bool {
        let origin = |url: &str| Url::parse(url).ok().map(|url| url.origin().ascii_serialization());
        turn.kind == EntryKind::Chat || self.hub.as_deref().is_some_and(|hub| origin(hub) == origin(callback))
    }

    fn receiver(&self, turn: &Turn, callback: &str) -> (Receiver, i64) {
        if self.is_own(turn, callback) {
            (Receiver::KnowsKeys, HUB_PATIENCE_MS)
        } else {
            (Receiver::Forgetful, PATIENCE_MS)
        }
    }

    /// Cuts an answer to the limit of its route. Returns whether it was cut.
    pub(super) fn fit(&self, turn: &Turn, text: &str) -> (String, bool) {
        // The hub delivers an envelope to a connection string under such an id, and turns the answer back into
        // an envelope.
        let envelope = match &turn.back {
            Back::Callback(url) => turn.message_id.starts_with("msg_") && self.is_own(turn, url),
            Back::Envelope(_) => true,
            Back::Session(_) => turn.kind == EntryKind::Message,
        };
        let most = if envelope { MAX_ENVELOPE } else { MAX_CONTENT };
        let fits = most.min(characters_in(text, MAX_BODY - 1024));
        let cut = cut(text, fits);
        let shorter = cut.len() != text.len();
        (cut, shorter)
    }

    /// Returns the route of an answer. `again` is `true` if a process that died may have sent it; `stream` if
    /// the sender may still listen.
    pub(super) fn answer(&self, turn: &Turn, text: &str, again: bool, stream: bool, now_ms: i64) -> Route {
        let outgoing =
            |to, receiver, patience| Route::send(Outgoing::new(to, receiver, PERSISTENT, now_ms + patience));
        let back = match &turn.back {
            Back::Callback(url) => {
                let (receiver, patience) = self.receiver(turn, url);
                if again && receiver == Receiver::Forgetful {
                    return Route::PerhapsSent;
                }
                let event = CallbackEvent::Message { content: text.to_owned() };
                let to = To::Callback { url: url.clone(), key: turn.answer_key(), event };
                return outgoing(to, receiver, patience);
            }
            Back::Session(back) => {
                let outgoing = notice::answer(turn, back, text, now_ms + HUB_PATIENCE_MS);
                return outgoing.map_or_else(|| Route::Nowhere("it has no conversation".into()), Route::send);
            }
            Back::Envelope(back) => back,
        };
        if let Some(url) = back.reply_stream.as_ref().filter(|_| stream) {
            let to = To::Stream { url: url.clone(), text: text.to_owned() };
            return outgoing(to, Receiver::Forgetful, PATIENCE_MS);
        }
        if let Some(url) = self.peers.url(&turn.sender) {
            let numbered = back.conversation.is_some() && back.turn.is_some();
            if again && !numbered {
                return Route::PerhapsSent;
            }
            let body = reply_members(SendBody::direct(&self.name, &self.culture, text), turn, back);
            let receiver = if numbered { Receiver::KnowsRepeats } else { Receiver::Forgetful };
            return outgoing(To::Peer { url: url.to_owned(), body }, receiver, PATIENCE_MS);
        }
        if self.hub.is_none() {
            return Route::Nowhere(format!("nobody knows where {} can be reached", turn.sender));
        }
        let body = SendBody::new(&self.name, &turn.sender, &self.culture, text);
        let to = To::Hub { key: turn.answer_key(), body: reply_members(body, turn, back) };
        let one_way = back.reply_stream.is_none();
        let receiver = if one_way { Receiver::KnowsKeys } else { Receiver::KnowsRepeats };
        outgoing(to, receiver, HUB_PATIENCE_MS)
    }

    /// Returns the request for a piece of an answer: to a sender that listens, or to a channel of the agent's
    /// own hub. Returns `None` for all others, who see only the whole answer.
    pub(super) fn piece(&self, turn: &Turn, text: String, key: String, now_ms: i64) -> Option<Outgoing> {
        match &turn.back {
            Back::Envelope(back) => {
                let to = To::Piece { url: back.reply_stream.clone()?, text };
                Some(Outgoing::new(to, Receiver::Forgetful, REPORTS, now_ms + PATIENCE_MS))
            }
            Back::Callback(url) if self.is_own(turn, url) => {
                self.report(turn, CallbackEvent::Chunk { text }, key, now_ms, None)
            }
            Back::Callback(_) | Back::Session(_) => None,
        }
    }

    /// Returns the request for a progress report. An envelope has none. A final report (`last_ms`) is retried
    /// longer, because the channel must end in the correct state.
    pub(super) fn report(
        &self,
        turn: &Turn,
        event: CallbackEvent,
        key: String,
        now_ms: i64,
        last_ms: Option<i64>,
    ) -> Option<Outgoing> {
        let Back::Callback(url) = &turn.back else { return None };
        let (receiver, _) = self.receiver(turn, url);
        let retry = if last_ms.is_some() { LAST } else { REPORTS };
        let to = To::Callback { url: url.clone(), key, event };
        Some(Outgoing::new(to, receiver, retry, now_ms + last_ms.unwrap_or(REPORT_PATIENCE_MS)))
    }
}

/// Creates the error for a sender that listens. Other senders cannot be told.
pub(super) fn stream_error(turn: &Turn, why: &str, code: &str, deadline_ms: i64) -> Option<Outgoing> {
    let Back::Envelope(back) = &turn.back else { return None };
    let url = back.reply_stream.clone()?;
    let to = To::StreamError { url, why: why.to_owned(), code: code.to_owned() };
    Some(Outgoing::new(to, Receiver::Forgetful, REPORTS, deadline_ms))
}

/// Adds the members that an answer takes over from its envelope.
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

/// Returns the number of characters of a text that fit into so many bytes of JSON.
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

#[cfg(test)]
mod tests {
    use super::*;
    use chorus_protocol::channel::Post;
    use serde_json::json;

    fn turn(message: &str) -> Turn {
        let post = json!({"channel": {"id": "c"}, "message": {"id": message, "sender": "s", "content": "c"},
            "callback": "http://s/cb"});
        Turn::post(Post::read(post.to_string().as_bytes()).unwrap())
    }

    #[test]
    fn answers_fit_their_way() {
        let profile = Profile { name: "a".into(), hub: Some("http://s".into()), ..Profile::default() };
        for (message, text, most) in [
            ("evt_1", "x".repeat(150_000), 100_000),
            // The limit of an envelope also applies if it came by a connection string.
            ("msg_1", "x".repeat(20_000), 10_000),
            // The limit of a body: three bytes for each character.
            ("evt_1", "字".repeat(99_000), 87_040),
        ] {
            let (fitted, cut) = profile.fit(&turn(message), &text);
            assert!(cut && fitted.ends_with('…') && fitted.chars().count() == most, "{message}");
            let event = CallbackEvent::Message { content: fitted };
            assert!(serde_json::to_vec(&event).unwrap().len() <= MAX_BODY);
        }
        let turn = turn("msg_1");
        // The hub is retried for the lifetime of its callbacks, for every way the message came.
        assert_eq!(profile.receiver(&turn, "http://s/cb"), (Receiver::KnowsKeys, HUB_PATIENCE_MS));
        let elsewhere = Profile { hub: None, ..profile };
        assert_eq!(elsewhere.receiver(&turn, "http://s/cb"), (Receiver::Forgetful, PATIENCE_MS));
        let long = "x".repeat(20_000);
        assert_eq!(elsewhere.fit(&turn, &long), (long, false));
    }
}
