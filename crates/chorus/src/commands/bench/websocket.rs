//! As much of WebSockets as a C2A session of the load needs: it shares the machine with the hub, so it does little.
//!
//! What the hub sends is looked at, not parsed: a text is a message, a delivery is acknowledged by its id, a ping is answered.
//! Frames to the hub are masked with zeros, which the protocol allows and which changes no byte.

use super::http::{Connection, find};
use super::target::Target;
use anyhow::{Context, bail, ensure};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// What is read at a time, and the most an unfinished message may hold.
const PIECE: usize = 16 * 1024;
const MAX_MESSAGE: usize = 4 * 1024 * 1024;

const TEXT: u8 = 1;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;
/// With these bits set a frame is the last of its message, and masked.
const LAST: u8 = 0x80;
const MASKED: u8 = 0x80;
/// What the id of a delivery is found by, and what it begins with.
const ID: &[u8] = br#""id":""#;
const DELIVERY: &[u8] = br#""id":"deliver-"#;

/// An open session: what comes, and what is to be answered with the next step.
#[derive(Debug)]
pub(crate) struct Session {
    stream: TcpStream,
    pending: Vec<u8>,
    /// How much of `pending` was given away.
    done: usize,
    answers: Vec<u8>,
}

impl Session {
    /// Opens a session of the agent with this key, and returns once it has begun.
    pub(crate) async fn open(target: &Target, key: &str) -> anyhow::Result<Self> {
        let request = format!(
            "{}connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
             sec-websocket-key: YmVuY2hiZW5jaGJlbmNoIQ==\r\n\r\n",
            target.head("GET", "/c2a", key)
        );
        let (stream, pending) = Connection::open(target.address).await?.upgrade(request.as_bytes()).await?;
        let mut session = Self { stream, pending, done: 0, answers: vec![] };
        let all = json!({"immediate": true, "buffered": true, "notify": true, "tool_mailbox": true});
        let begin = json!({
            "jsonrpc": "2.0", "id": "1", "method": "initialize",
            "params": {
                "protocolVersion": "2026-06-02",
                "clientInfo": {"name": "bench", "version": "1"},
                "capabilities": {"delivery": {"ack": true, "redelivery": true, "idempotency": true}, "injection": all},
            },
        });
        append(&mut session.answers, TEXT, begin.to_string().as_bytes());
        loop {
            session.wait().await?;
            if let Some(answer) = session.ready()? {
                let said = String::from_utf8_lossy(answer);
                ensure!(find(answer, br#""result""#).is_some(), "the session did not begin: {said}");
                return Ok(session);
            }
        }
    }

    /// The next message, if all of it is there already. If it is a delivery, it counts as taken with the next [`Self::wait`].
    pub(crate) fn ready(&mut self) -> anyhow::Result<Option<&[u8]>> {
        while let Some(frame) = frame(&self.pending[self.done..])? {
            let (from, to) = (self.done + frame.head, self.done + frame.head + frame.length);
            self.done = to;
            let payload = &self.pending[from..to];
            match frame.kind {
                TEXT => {
                    acknowledge(&mut self.answers, payload);
                    return Ok(Some(&self.pending[from..to]));
                }
                PING => append(&mut self.answers, PONG, payload),
                CLOSE => bail!("the hub closed the session: {}", String::from_utf8_lossy(payload)),
                _ => {}
            }
        }
        Ok(None)
    }

    /// Says what is to be answered, and waits for more bytes; an error at the end of the session.
    pub(crate) async fn wait(&mut self) -> anyhow::Result<()> {
        self.pending.drain(..self.done);
        self.done = 0;
        ensure!(self.pending.len() <= MAX_MESSAGE, "a message that is too large");
        self.stream.write_all(&self.answers).await.context("cannot answer")?;
        self.answers.clear();
        self.pending.reserve(PIECE);
        let read = self.stream.read_buf(&mut self.pending).await.context("cannot read a message")?;
        ensure!(read > 0, "the hub closed the connection");
        Ok(())
    }
}

/// The answer to a delivery, if it is one: it was taken.
fn acknowledge(answers: &mut Vec<u8>, message: &[u8]) {
    let Some(from) = find(message, DELIVERY).map(|at| at + ID.len()) else { return };
    let Some(length) = find(&message[from..], b"\"") else { return };
    let id = &message[from..from + length];
    let (before, behind) = (br#"{"jsonrpc":"2.0","id":""#, br#"","result":{"status":"accepted"}}"#);
    append(answers, TEXT, &[before, id, behind].concat());
}

/// A frame from us, masked with zeros.
fn append(to: &mut Vec<u8>, kind: u8, payload: &[u8]) {
    to.push(LAST | kind);
    match u8::try_from(payload.len()) {
        Ok(length) if length < 126 => to.push(MASKED | length),
        _ => {
            to.push(MASKED | 0x7e);
            // Nothing that is said here is longer.
            to.extend((payload.len() as u16).to_be_bytes());
        }
    }
    to.extend([0; 4]);
    to.extend(payload);
}

/// Where a frame's payload lies.
#[derive(Debug, PartialEq, Eq)]
struct Frame {
    kind: u8,
    head: usize,
    length: usize,
}

/// The first frame of these bytes, if all of it is there. The hub sends each message in one frame.
fn frame(bytes: &[u8]) -> anyhow::Result<Option<Frame>> {
    let [first, second, ..] = *bytes else { return Ok(None) };
    ensure!(first & LAST != 0 && second & MASKED == 0, "a frame that is masked or only a part");
    let number = |from: usize, digits: usize| {
        let digits = bytes.get(from..from + digits)?;
        Some(digits.iter().fold(0_usize, |number, digit| (number << 8) | usize::from(*digit)))
    };
    let (head, length) = match second {
        126 => (4, number(2, 2)),
        127 => (10, number(2, 8)),
        short => (2, Some(usize::from(short))),
    };
    let Some(length) = length else { return Ok(None) };
    ensure!(length <= MAX_MESSAGE, "a message that is too large");
    let whole = bytes.len() >= head + length;
    Ok(whole.then_some(Frame { kind: first & 0x0f, head, length }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_once_they_are_whole() {
        for length in [0_usize, 5, 125, 126, 70_000] {
            let mut bytes = vec![LAST | TEXT];
            match length {
                0..126 => bytes.push(length as u8),
                126..65_536 => bytes.extend([&[126][..], &(length as u16).to_be_bytes()].concat()),
                _ => bytes.extend([&[127][..], &(length as u64).to_be_bytes()].concat()),
            }
            let head = bytes.len();
            bytes.extend(vec![b'x'; length]);
            assert_eq!(frame(&bytes).unwrap(), Some(Frame { kind: TEXT, head, length }));
            for cut in (0..bytes.len()).take(200) {
                assert_eq!(frame(&bytes[..cut]).unwrap(), None, "{cut} of {length}");
            }
        }
        assert!(frame(&[TEXT, 0]).is_err(), "only a part");
        assert!(frame(&[LAST | TEXT, MASKED]).is_err(), "masked");
    }

    #[test]
    fn deliveries_are_acknowledged_and_nothing_else() {
        let mut answers = vec![];
        acknowledge(&mut answers, br#"{"jsonrpc":"2.0","id":"1","result":{}}"#);
        acknowledge(&mut answers, br#"{"jsonrpc":"2.0","method":"notifications/gap","params":{}}"#);
        assert!(answers.is_empty());
        acknowledge(
            &mut answers,
            br#"{"jsonrpc":"2.0","id":"deliver-17","method":"chat/deliver","params":{}}"#,
        );
        let expected = br#"{"jsonrpc":"2.0","id":"deliver-17","result":{"status":"accepted"}}"#;
        assert_eq!(&answers[6..], expected);
        assert_eq!(answers[..2], [LAST | TEXT, MASKED | expected.len() as u8]);
    }
}
