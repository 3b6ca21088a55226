//! The messages of the load: encoded once, with three numbers that change from one to the next.
//!
//! The text of each begins with a mark: who sent it, its place among that sender's, and when, in nanoseconds of
//! this program's own clock. The mark is all that a listener looks for in what it gets.

use super::http::{find, number};
use std::time::Instant;

/// The shortest text: nothing but the mark.
pub(crate) const MIN_SIZE: usize = MARK.len() + SENDER + 1 + SEQUENCE + 1 + NANOS;
/// The longest the protocol allows.
pub(crate) const MAX_SIZE: usize = 10_000;

const MARK: &str = "stamp=";
/// How many digits the numbers have.
const SENDER: usize = 6;
const SEQUENCE: usize = 10;
const NANOS: usize = 20;
const RECEIVER: usize = 6;

/// The clock of all stamps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn nanos(self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }
}

/// The name of the `n`-th sender of a run.
pub(crate) fn sender_name(run: &str, n: usize) -> String {
    format!("bench-{run}-s{n:0SENDER$}")
}

/// The name of the `n`-th receiver of a run.
pub(crate) fn receiver_name(run: &str, n: usize) -> String {
    format!("bench-{run}-r{n:0RECEIVER$}")
}

/// An envelope whose text has `size` characters. `host` ends an address: `@` and the name of the hub, or nothing.
pub(crate) fn envelope(run: &str, host: &str, sender: usize, size: usize) -> String {
    let mark = format!("{MARK}{sender:0SENDER$}.{:0SEQUENCE$}.{:0NANOS$}", 0, 0);
    let words = " Shall we have a cup of tea together this afternoon?".chars().cycle();
    let text: String = mark.chars().chain(words).take(size).collect();
    let sender = sender_name(run, sender);
    format!(
        r#"{{"chorus_version":"0.4","sender_id":"{sender}{host}","original_text":"{text}","sender_culture":"en"}}"#
    )
}

/// What a listener reads out of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) sender: usize,
    pub(crate) sequence: u64,
    pub(crate) nanos: u64,
}

impl Mark {
    /// Finds the mark in an event, if there is one.
    pub(crate) fn find(event: &[u8]) -> Option<Self> {
        let rest = &event[find(event, MARK.as_bytes())? + MARK.len()..];
        let (sender, rest) = rest.split_at_checked(SENDER)?;
        let (sequence, rest) = rest.get(1..)?.split_at_checked(SEQUENCE)?;
        let nanos = rest.get(1..=NANOS)?;
        Some(Self { sender: number(sender)? as usize, sequence: number(sequence)?, nanos: number(nanos)? })
    }
}

/// One sender's request.
#[derive(Debug)]
pub(crate) struct Request {
    bytes: Vec<u8>,
    /// Where the numbers are.
    receiver: usize,
    sequence: usize,
    nanos: usize,
}

impl Request {
    /// `head` is the request line and the headers that say who asks, each with its line end.
    pub(crate) fn new(head: &str, run: &str, host: &str, sender: usize, size: usize) -> Self {
        let receiver = receiver_name(run, 0);
        let before = format!(r#"{{"receiver_id":"{receiver}{host}","envelope":"#);
        let body = format!("{before}{}}}", envelope(run, host, sender, size));
        let head = format!("{head}content-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
        let mark = head.len() + body.find(MARK).unwrap_or_default();
        let sequence = mark + MARK.len() + SENDER + 1;
        let receiver = head.len() + body.find(&receiver).unwrap_or_default() + receiver.len() - RECEIVER;
        Self { bytes: [head, body].concat().into(), receiver, sequence, nanos: sequence + SEQUENCE + 1 }
    }

    /// The request with these numbers.
    pub(crate) fn with(&mut self, receiver: usize, sequence: u64, nanos: u64) -> &[u8] {
        let fields = [
            (self.receiver, RECEIVER, receiver as u64),
            (self.sequence, SEQUENCE, sequence),
            (self.nanos, NANOS, nanos),
        ];
        for (from, digits, mut value) in fields {
            for byte in self.bytes[from..from + digits].iter_mut().rev() {
                *byte = b'0' + (value % 10) as u8;
                value /= 10;
            }
        }
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn what_is_written_is_found() {
        let mut request = Request::new("POST / HTTP/1.1\r\n", "abc", "@hub.example", 12, 200);
        let bytes = request.with(345, 6_789_012_345, u64::MAX).to_vec();
        let mark = Mark { sender: 12, sequence: 6_789_012_345, nanos: u64::MAX };
        assert_eq!(Mark::find(&bytes), Some(mark));
        let body = find(&bytes, b"\r\n\r\n").unwrap() + 4;
        let (head, body) = (std::str::from_utf8(&bytes[..body]).unwrap(), &bytes[body..]);
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())), "{head}");
        let body: Value = serde_json::from_slice(body).unwrap();
        assert_eq!(body["receiver_id"], receiver_name("abc", 345) + "@hub.example");
        assert_eq!(body["envelope"]["sender_id"], sender_name("abc", 12) + "@hub.example");
        assert_eq!(body["envelope"]["original_text"].as_str().unwrap().chars().count(), 200);
    }

    #[test]
    fn the_shortest_text_holds_the_mark() {
        let mut request = Request::new("", "x", "", 1, MIN_SIZE);
        assert_eq!(Mark::find(request.with(0, 7, 9)), Some(Mark { sender: 1, sequence: 7, nanos: 9 }));
        assert_eq!(Mark::find(b"data: {\"text\":\"stamp=12"), None);
        assert_eq!(Mark::find(b": ping"), None);
    }
}
