//! A request of the agent with its retry policy.
//!
//! Pure: the caller reports the result of one try, and the [`Outgoing`] decides whether and when to try again.
//! An unreachable hub is retried for a long time; other receivers for minutes. A receiver that does not
//! support idempotency keys is not sent a request again that may have arrived.

use crate::{Backoff, Retry, SendBody};
use chorus_protocol::c2a::{ChatTool, Claimed, Method};
use chorus_protocol::channel::CallbackEvent;
use serde_json::{Map, Value};
use std::fmt;
use std::time::Duration;

/// The number of tries for a receiver that the hub cannot reach.
const RECEIVER_TRIES: u32 = 4;

/// The retry policy of answers: until the deadline.
pub(super) const PERSISTENT: Retry =
    Retry { tries: u32::MAX, failed_deliveries: false, backoff: Backoff { base_ms: 500, max_ms: 30_000 } };

/// The retry policy of progress reports.
pub(super) const REPORTS: Retry =
    Retry { tries: 2, failed_deliveries: false, backoff: Backoff { base_ms: 250, max_ms: 1000 } };

/// The retry policy of final reports.
pub(super) const LAST: Retry =
    Retry { tries: 10, failed_deliveries: false, backoff: Backoff { base_ms: 250, max_ms: 10_000 } };

/// One request, to be made once. Its result is reported with its number.
#[derive(Debug, Clone, PartialEq)]
pub struct Post {
    /// The unique number of this try.
    pub number: u64,
    pub to: To,
}

/// The destination and content of a request. The addresses are secrets.
#[derive(Clone, PartialEq)]
pub enum To {
    /// An event to a message's callback.
    Callback {
        url: String,
        /// The idempotency key, the same for every try of the event.
        key: String,
        event: CallbackEvent,
    },
    /// A piece of a streamed answer, to a sender that listens.
    Piece {
        /// The sender's stream, which works once.
        url: String,
        text: String,
    },
    /// The whole answer to a sender that listens, regardless of the pieces sent before.
    Stream {
        /// The sender's stream, which works once.
        url: String,
        text: String,
    },
    /// An error to a sender that listens.
    StreamError {
        /// The sender's stream, which works once.
        url: String,
        why: String,
        /// A code for programs.
        code: String,
    },
    /// An envelope directly to a peer.
    Peer {
        /// The peer's address.
        url: String,
        body: SendBody,
    },
    /// A tool of the session's host.
    Tool {
        tool: ChatTool,
        /// The arguments, with an idempotency key if a second call would send a second message.
        arguments: Map<String, Value>,
    },
    /// A notification to the session's host.
    Notice { method: Method, params: Map<String, Value> },
    /// An envelope through the hub.
    Hub {
        /// The idempotency key, the same for every try.
        key: String,
        /// The envelope with its receiver.
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

/// The result of one try.
#[derive(Debug, Clone, PartialEq)]
pub enum Posted {
    /// The request arrived, now or before under the same key.
    Arrived,
    /// The claim succeeded. It contains the text if the host sends it.
    Given(Box<Claimed>),
    /// Another agent or person has the claim.
    Taken { why: String, retry_after_ms: Option<u64> },
    /// The stream has no listener.
    Gone {
        /// `true` if the stream's server said so. Since a stream works once, it may have carried an answer
        /// before.
        refused: bool,
    },
    /// The hub accepted the message but could not reach the receiver.
    Undelivered {
        why: String,
        /// `true` if a retry may succeed.
        again: bool,
    },
    /// The request failed, or its result is unknown.
    Failed {
        why: String,
        /// The minimum pause before a retry. `None` if a retry cannot succeed.
        retry_after_ms: Option<u64>,
        /// `true` if the request may have arrived.
        perhaps_arrived: bool,
    },
}

impl Posted {
    /// Adjusts the result for an answer that an earlier process may have sent. An unreachable stream does not
    /// tell whether it carried the answer, so it must be tried again.
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

/// The result of all tries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Conclusion {
    Arrived,
    Gone {
        refused: bool,
    },
    /// The request was not sent; or `perhaps_sent` to a receiver that would not recognize a duplicate.
    Unsent {
        why: String,
        perhaps_sent: bool,
    },
}

/// The receiver's ability to recognize duplicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Receiver {
    /// The receiver supports idempotency keys: the hub.
    KnowsKeys,
    /// The receiver recognizes a repeated request, but not a second answer that comes another way: a peer that
    /// is sent a numbered turn, or the hub if the sender might be answered on its stream next time.
    KnowsRepeats,
    /// The receiver may not recognize duplicates.
    Forgetful,
}

/// A request with its state; see the [module](self).
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Outgoing {
    pub(super) to: To,
    receiver: Receiver,
    retry: Retry,
    /// The time at which the request is given up, in milliseconds.
    pub(super) deadline_ms: i64,
    outages: u32,
    undelivered: u32,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The try with this number is in flight.
    Flies(u64),
    /// The next try is not before this time, in milliseconds.
    Rests(i64),
}

impl Outgoing {
    /// Creates a request that is due at once.
    pub(super) fn new(to: To, receiver: Receiver, retry: Retry, deadline_ms: i64) -> Self {
        Self { to, receiver, retry, deadline_ms, outages: 0, undelivered: 0, state: State::Rests(i64::MIN) }
    }

    /// Returns the number of the try in flight.
    pub(super) fn flies(&self) -> Option<u64> {
        match self.state {
            State::Flies(number) => Some(number),
            State::Rests(_) => None,
        }
    }

    /// Checks whether the receiver deduplicates by idempotency key.
    pub(super) fn knows_keys(&self) -> bool {
        self.receiver == Receiver::KnowsKeys
    }

    /// Returns the time of the next action.
    pub(super) fn due_ms(&self) -> i64 {
        match self.state {
            State::Flies(_) => self.deadline_ms,
            State::Rests(until) => until.min(self.deadline_ms),
        }
    }

    /// Starts the next try.
    pub(super) fn fly(&mut self, number: u64) -> Post {
        self.state = State::Flies(number);
        Post { number, to: self.to.clone() }
    }

    /// Returns the conclusion for a request past its deadline.
    pub(super) fn late(&self) -> Conclusion {
        let perhaps_sent = self.receiver != Receiver::KnowsKeys;
        Conclusion::Unsent { why: "nobody took it in time".into(), perhaps_sent }
    }

    /// Evaluates a try. Returns `None` if there will be another.
    pub(super) fn judge(&mut self, posted: Posted, now_ms: i64, random: u64) -> Option<Conclusion> {
        let pause = match posted {
            Posted::Taken { why, retry_after_ms } => {
                let failed = Posted::Failed { why, retry_after_ms, perhaps_arrived: false };
                return self.judge(failed, now_ms, random);
            }
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
        // The receiver, the retry pause, whether it may have arrived; then `None` for a retry, else whether it
        // counts as sent.
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
        // A try that did not reach the hub does not count as a try of the receiver.
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
