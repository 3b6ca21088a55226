//! Something that leaves the agent, and how often and how long it is tried.
//!
//! Pure: whoever sends it says what came of one try, and the [`Outgoing`] whether there is another, and when. While the
//! hub is away there is nothing better to do than to wait for it; others are given minutes. What knows no keys is not
//! sent again once it may have arrived.

use crate::{Backoff, Retry, SendBody};
use chorus_protocol::c2a::{ChatTool, Claimed, Method};
use chorus_protocol::channel::CallbackEvent;
use serde_json::{Map, Value};
use std::fmt;
use std::time::Duration;

/// How often a receiver that the hub cannot reach is tried.
const RECEIVER_TRIES: u32 = 4;

/// How answers are tried again: as long as there is time.
pub(super) const PERSISTENT: Retry =
    Retry { tries: u32::MAX, failed_deliveries: false, backoff: Backoff { base_ms: 500, max_ms: 30_000 } };

/// How reports are.
pub(super) const REPORTS: Retry =
    Retry { tries: 2, failed_deliveries: false, backoff: Backoff { base_ms: 250, max_ms: 1000 } };

/// How the last one is.
pub(super) const LAST: Retry =
    Retry { tries: 10, failed_deliveries: false, backoff: Backoff { base_ms: 250, max_ms: 10_000 } };

/// One request, to be made once. Whatever comes of it is told with its number.
#[derive(Debug, Clone, PartialEq)]
pub struct Post {
    /// Of this try, and of no other.
    pub number: u64,
    /// Where to, and what.
    pub to: To,
}

/// Where something goes, and what. The addresses are secrets.
#[derive(Clone, PartialEq)]
pub enum To {
    /// An event to a message's callback.
    Callback {
        /// The callback.
        url: String,
        /// The same for every try of the same event.
        key: String,
        /// What is said or shown.
        event: CallbackEvent,
    },
    /// A piece of an answer that is being made, to a sender that listens.
    Piece {
        /// Where it listens, once.
        url: String,
        /// The piece.
        text: String,
    },
    /// An answer to a sender that listens for it: all of it, whatever pieces went before.
    Stream {
        /// Where it listens, once.
        url: String,
        /// The answer.
        text: String,
    },
    /// Why a sender that listens gets no answer.
    StreamError {
        /// Where it listens, once.
        url: String,
        /// Why.
        why: String,
        /// The same for programs.
        code: String,
    },
    /// An envelope straight to a peer.
    Peer {
        /// Where it receives.
        url: String,
        /// The envelope.
        body: SendBody,
    },
    /// A tool of the session's host.
    Tool {
        /// Which.
        tool: ChatTool,
        /// With what; a key among it, where a second call would be a second message.
        arguments: Map<String, Value>,
    },
    /// Something that the session's host is told.
    Notice {
        /// What.
        method: Method,
        /// The same in full.
        params: Map<String, Value>,
    },
    /// An envelope through the hub.
    Hub {
        /// The same for every try.
        key: String,
        /// The envelope, and for whom.
        body: SendBody,
    },
}

impl fmt::Debug for To {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Callback { event, .. } => f.debug_tuple("Callback").field(event).finish(),
            Self::Piece { text, .. } => f.debug_tuple("Piece").field(text).finish(),
            Self::Stream { text, .. } => f.debug_tuple("Stream").field(text).finish(),
            Self::StreamError { code, .. } => f.debug_tuple("StreamError").field(code).finish(),
            Self::Peer { body, .. } => f.debug_tuple("Peer").field(body).finish(),
            Self::Tool { tool, .. } => f.debug_tuple("Tool").field(tool).finish(),
            Self::Notice { method, params } => f.debug_tuple("Notice").field(method).field(params).finish(),
            Self::Hub { body, .. } => f.debug_tuple("Hub").field(body).finish(),
        }
    }
}

/// What came of one try.
#[derive(Debug, Clone, PartialEq)]
pub enum Posted {
    /// It arrived, now or before under the same key.
    Arrived,
    /// A claim is ours; what was said, if the host tells.
    Given(Box<Claimed>),
    /// Nobody listens at this stream.
    Gone {
        /// Whether it says so itself: then it has perhaps carried an answer before, since it works once.
        refused: bool,
    },
    /// The hub took it and could not reach the receiver.
    Undelivered {
        /// Why.
        why: String,
        /// Whether that may pass.
        again: bool,
    },
    /// It did not arrive, or nobody can tell.
    Failed {
        /// Why.
        why: String,
        /// How long to wait at least before another try may succeed; none when it never will.
        retry_after_ms: Option<u64>,
        /// Whether it may have arrived all the same.
        perhaps_arrived: bool,
    },
}

impl Posted {
    /// The same of an answer that a process which died may have sent: a stream that cannot be reached does not tell
    /// whether it has carried it, and has to be asked again.
    pub(super) fn unless_gone(self) -> Self {
        match self {
            Self::Gone { refused: false } => {
                let why = "nobody can be reached there".into();
                Self::Failed { why, retry_after_ms: Some(0), perhaps_arrived: false }
            }
            other => other,
        }
    }
}

/// What came of all tries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Conclusion {
    Arrived,
    Gone {
        refused: bool,
    },
    /// Not sent; or `perhaps_sent` to somebody who could not tell a second one from the first.
    Unsent {
        why: String,
        perhaps_sent: bool,
    },
}

/// How much care something that leaves needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Receiver {
    /// It knows keys: the hub.
    KnowsKeys,
    /// It knows what it is sent again, but not a second answer that goes another way: a peer that is sent a numbered turn,
    /// or the hub when the sender might be answered on its stream next time.
    KnowsRepeats,
    /// It may not know what came before.
    Forgetful,
}

/// See the [module](self).
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Outgoing {
    pub(super) to: To,
    receiver: Receiver,
    retry: Retry,
    /// Given up at this moment.
    pub(super) deadline_ms: i64,
    outages: u32,
    undelivered: u32,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The try of this number is on its way.
    Flies(u64),
    /// Not tried before this moment.
    Rests(i64),
}

impl Outgoing {
    /// To be tried at once.
    pub(super) fn new(to: To, receiver: Receiver, retry: Retry, deadline_ms: i64) -> Self {
        Self { to, receiver, retry, deadline_ms, outages: 0, undelivered: 0, state: State::Rests(i64::MIN) }
    }

    /// The try that is on its way, if one is.
    pub(super) fn flies(&self) -> Option<u64> {
        match self.state {
            State::Flies(number) => Some(number),
            State::Rests(_) => None,
        }
    }

    /// Whether a second one under the same key is known for what it is.
    pub(super) fn knows_keys(&self) -> bool {
        self.receiver == Receiver::KnowsKeys
    }

    /// When something has to be done about it.
    pub(super) fn due_ms(&self) -> i64 {
        match self.state {
            State::Flies(_) => self.deadline_ms,
            State::Rests(until) => until.min(self.deadline_ms),
        }
    }

    /// The next try.
    pub(super) fn fly(&mut self, number: u64) -> Post {
        self.state = State::Flies(number);
        Post { number, to: self.to.clone() }
    }

    /// There was no more time.
    pub(super) fn late(&self) -> Conclusion {
        let perhaps_sent = self.receiver != Receiver::KnowsKeys;
        Conclusion::Unsent { why: "nobody took it in time".into(), perhaps_sent }
    }

    /// What a try comes to: nothing yet when there will be another.
    pub(super) fn judge(&mut self, posted: Posted, now_ms: i64, random: u64) -> Option<Conclusion> {
        let pause = match posted {
            Posted::Arrived | Posted::Given(_) => return Some(Conclusion::Arrived),
            Posted::Gone { refused } => return Some(Conclusion::Gone { refused }),
            Posted::Undelivered { why, again } => {
                (self.outages, self.undelivered) = (0, self.undelivered + 1);
                if !again || self.undelivered >= RECEIVER_TRIES {
                    let why = format!("the receiver did not get it: {why}");
                    return Some(Conclusion::Unsent { why, perhaps_sent: false });
                }
                Duration::from_millis(self.retry.backoff.delay_ms(self.undelivered - 1, random))
            }
            Posted::Failed { why, retry_after_ms, perhaps_arrived } => {
                let may_repeat = !perhaps_arrived || self.receiver != Receiver::Forgetful;
                let asked = retry_after_ms.filter(|_| may_repeat).map(Duration::from_millis);
                let pause = asked.and_then(|asked| self.retry.pause(self.outages, asked, random));
                let Some(pause) = pause else {
                    let perhaps_sent = perhaps_arrived && self.receiver != Receiver::KnowsKeys;
                    return Some(Conclusion::Unsent { why, perhaps_sent });
                };
                self.outages = self.outages.saturating_add(1);
                pause
            }
        };
        let pause = i64::try_from(pause.as_millis()).unwrap_or(i64::MAX);
        self.state = State::Rests(now_ms.saturating_add(pause));
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outgoing(receiver: Receiver, retry: Retry) -> Outgoing {
        let to = To::Stream { url: "http://s".into(), text: "t".into() };
        Outgoing::new(to, receiver, retry, 1_000_000)
    }

    fn failed(retry_after_ms: Option<u64>, perhaps_arrived: bool) -> Posted {
        Posted::Failed { why: "no".into(), retry_after_ms, perhaps_arrived }
    }

    #[test]
    fn what_may_have_arrived_is_sent_again_only_to_whoever_can_tell() {
        use Receiver::{Forgetful, KnowsKeys, KnowsRepeats};
        // Whom, whether it passes, whether it may have arrived: whether it is tried again, else whether it counts as sent.
        for (receiver, retry, perhaps, expected) in [
            (KnowsKeys, Some(0), true, None),
            (KnowsKeys, None, true, Some(false)),
            (KnowsRepeats, Some(0), true, None),
            (KnowsRepeats, None, true, Some(true)),
            (Forgetful, Some(0), false, None),
            (Forgetful, Some(0), true, Some(true)),
            (Forgetful, None, false, Some(false)),
            (KnowsKeys, Some(61_000), false, Some(false)),
        ] {
            let sent = outgoing(receiver, PERSISTENT).judge(failed(retry, perhaps), 0, 0);
            let expected = expected.map(|perhaps_sent| Conclusion::Unsent { why: "no".into(), perhaps_sent });
            assert_eq!(sent, expected, "{receiver:?} {retry:?} {perhaps}");
        }
    }

    #[test]
    fn pauses_grow_and_are_at_least_what_was_asked() {
        let mut outgoing = outgoing(Receiver::KnowsKeys, PERSISTENT);
        let mut due = |asked| {
            assert_eq!(outgoing.judge(failed(Some(asked), false), 1000, 0), None);
            outgoing.due_ms() - 1000
        };
        assert_eq!([due(0), due(0), due(0), due(20_000)], [250, 500, 1000, 20_000]);
    }

    #[test]
    fn tries_end() {
        for (retry, tries) in [(REPORTS, 2), (LAST, 10)] {
            let mut outgoing = outgoing(Receiver::KnowsKeys, retry);
            let count = (1..100).find(|_| outgoing.judge(failed(Some(0), false), 0, 0).is_some());
            assert_eq!(count, Some(tries));
        }
        // A hub that was away has not tried the receiver.
        let mut outgoing = outgoing(Receiver::KnowsKeys, PERSISTENT);
        let unreachable = || Posted::Undelivered { why: "away".into(), again: true };
        for _ in 0..3 {
            assert_eq!(outgoing.judge(failed(Some(0), false), 0, 0), None);
            assert_eq!(outgoing.judge(unreachable(), 0, 0), None);
        }
        let why = "the receiver did not get it: away".to_owned();
        assert_eq!(
            outgoing.judge(unreachable(), 0, 0),
            Some(Conclusion::Unsent { why, perhaps_sent: false })
        );
    }
}
