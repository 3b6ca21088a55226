//! The messages of the load: encoded once, with three numbers that change from one to the next.
//!
//! Each text begins with a stamp: the sender's number, the message's number among those of its sender, and the time of
//! sending in nanoseconds of this program's clock. Listeners look for the stamp and for nothing else.

use crate::http::HttpRequest;
use crate::names::{RECEIVER, SENDER, receiver_name, sender_name};
use crate::target::Target;
use bytes::Bytes;
use std::time::{Duration, Instant};

/// The length of the shortest text, which is a bare stamp.
pub(crate) const MIN_SIZE: usize = STAMP.len() + SENDER + 1 + SEQUENCE + 1 + NANOS;
/// The length of the longest text that the protocol allows.
pub(crate) const MAX_SIZE: usize = 10_000;

const STAMP: &str = "stamp=";
/// The number of digits of the other fields.
const SEQUENCE: usize = 10;
const NANOS: usize = 20;

/// The clock of all stamps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn now(self) -> Duration {
        self.0.elapsed()
    }
}

/// Encodes an envelope whose text has `size` characters. `host` is the end of an address: `@` and the hub's name, or
/// nothing.
pub(crate) fn envelope(run: &str, host: &str, sender: usize, size: usize) -> String {
    let stamp = format!("{STAMP}{sender:0SENDER$}.{:0SEQUENCE$}.{:0NANOS$}", 0, 0);
    let words = " Shall we have a cup of tea together this afternoon?".chars().cycle();
    let text: String = stamp.chars().chain(words).take(size).collect();
    let sender = sender_name(run, sender);
    format!(
        r#"{{"chorus_version":"0.4","sender_id":"{sender}{host}","original_text":"{text}","sender_culture":"en"}}"#
    )
}

/// The stamp of a received message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) sender: usize,
    pub(crate) sequence: u64,
    pub(crate) sent: Duration,
}

impl Stamp {
    /// Finds the stamp in a message. Returns `None` for messages that are not of the load.
    pub(crate) fn find(message: &str) -> Option<Self> {
        let (_, rest) = message.split_once(STAMP)?;
        let (sender, rest) = rest.split_at_checked(SENDER)?;
        let (sequence, rest) = rest.get(1..)?.split_at_checked(SEQUENCE)?;
        let nanos = rest.get(1..=NANOS)?.parse().ok()?;
        Some(Self {
            sender: sender.parse().ok()?,
            sequence: sequence.parse().ok()?,
            sent: Duration::from_nanos(nanos),
        })
    }
}

/// The requests of one sender, which differ in three numbers.
#[derive(Debug)]
pub(crate) struct SendTemplate {
    request: HttpRequest,
    body: Vec<u8>,
    /// The offsets of the numbers in the body.
    receiver: usize,
    sequence: usize,
    nanos: usize,
}

/// The sender of a template: its number in the run, and its key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SenderKey<'a> {
    pub(crate) index: usize,
    pub(crate) key: &'a str,
}

impl SendTemplate {
    /// `host` is the end of every address at the hub; see [`envelope`].
    pub(crate) fn new(
        target: &Target,
        run: &str,
        host: &str,
        sender: SenderKey<'_>,
        size: usize,
    ) -> anyhow::Result<Self> {
        let receiver = receiver_name(run, 0);
        let envelope = envelope(run, host, sender.index, size);
        let body = format!(r#"{{"receiver_id":"{receiver}{host}","envelope":{envelope}}}"#);
        let sequence = body.find(STAMP).unwrap_or_default() + STAMP.len() + SENDER + 1;
        Ok(Self {
            request: target.post("/messages", Some(sender.key), body.clone())?,
            receiver: body.find(&receiver).unwrap_or_default() + receiver.len() - RECEIVER,
            sequence,
            nanos: sequence + SEQUENCE + 1,
            body: body.into_bytes(),
        })
    }

    /// Returns the request with these numbers.
    pub(crate) fn with(&mut self, receiver: usize, sequence: u64, now: Duration) -> HttpRequest {
        let fields = [
            (self.receiver, RECEIVER, receiver as u64),
            (self.sequence, SEQUENCE, sequence),
            (self.nanos, NANOS, now.as_nanos() as u64),
        ];
        for (from, digits, mut value) in fields {
            for byte in self.body[from..from + digits].iter_mut().rev() {
                *byte = b'0' + (value % 10) as u8;
                value /= 10;
            }
        }
        let mut request = self.request.clone();
        *request.body_mut() = Bytes::copy_from_slice(&self.body);
        request
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    async fn template(run: &str, host: &str, index: usize, size: usize) -> SendTemplate {
        let target = Target::find("http://127.0.0.1:1").await.unwrap();
        SendTemplate::new(&target, run, host, SenderKey { index, key: "ca_key" }, size).unwrap()
    }

    fn text(request: &HttpRequest) -> &str {
        std::str::from_utf8(request.body()).unwrap()
    }

    #[tokio::test]
    async fn a_written_stamp_is_found() {
        let mut template = template("abc", "@hub.example", 12, 200).await;
        let sent = Duration::from_nanos(u64::MAX);
        let request = template.with(345, 6_789_012_345, sent);
        let stamp = Stamp { sender: 12, sequence: 6_789_012_345, sent };
        assert_eq!(Stamp::find(text(&request)), Some(stamp));
        assert_eq!(request.headers()["content-length"], request.body().len().to_string());
        let body: Value = serde_json::from_str(text(&request)).unwrap();
        assert_eq!(body["receiver_id"], receiver_name("abc", 345) + "@hub.example");
        assert_eq!(body["envelope"]["sender_id"], sender_name("abc", 12) + "@hub.example");
        assert_eq!(body["envelope"]["original_text"].as_str().unwrap().chars().count(), 200);
    }

    #[tokio::test]
    async fn the_shortest_text_contains_the_stamp() {
        let sent = Duration::from_nanos(9);
        let request = template("x", "", 1, MIN_SIZE).await.with(0, 7, sent);
        assert_eq!(Stamp::find(text(&request)), Some(Stamp { sender: 1, sequence: 7, sent }));
        assert_eq!(Stamp::find("data: {\"text\":\"stamp=12"), None);
        assert_eq!(Stamp::find(": ping"), None);
    }
}
