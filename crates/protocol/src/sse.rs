//! Server-sent events: an encoder for the hub and an incremental parser for clients.
//!
//! Both are pure functions of bytes. The parser rejects events larger than [`MAX_EVENT`], so that a hostile
//! server cannot exhaust a client's memory.

/// The largest event that a [`Parser`] accepts, in bytes.
pub const MAX_EVENT: usize = 4 * 1024 * 1024;

/// A comment that keeps a quiet connection open.
pub const PING: &[u8] = b": ping\n\n";

/// The headers of an event stream. They forbid caching and the buffering that some proxies do.
pub const STREAM_HEADERS: [(&str, &str); 3] =
    [("content-type", "text/event-stream"), ("cache-control", "no-store"), ("x-accel-buffering", "no")];

/// Encodes one event. Line ends inside `data` become several `data:` lines, which the reader joins again.
pub fn encode(event: &str, id: Option<i64>, data: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(event.len() + data.len() + 48);
    if let Some(id) = id {
        out.extend_from_slice(b"id: ");
        out.extend_from_slice(id.to_string().as_bytes());
        out.push(b'\n');
    }
    out.extend_from_slice(b"event: ");
    out.extend_from_slice(event.as_bytes());
    out.push(b'\n');
    for line in lines(data) {
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(line.as_bytes());
        out.push(b'\n');
    }
    out.push(b'\n');
    out
}

/// Splits at `\n`, `\r\n` and `\r`, the three line ends of the format.
fn lines(data: &str) -> impl Iterator<Item = &str> {
    // `str::split` on one character is faster than on a set of characters.
    data.split("\r\n").flat_map(|part| part.split('\n')).flat_map(|part| part.split('\r'))
}

/// A parsed event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Event {
    /// The event's name; `message` if the server gave none.
    pub event: String,
    /// The data lines, joined by `\n`.
    pub data: String,
    /// The `id:` field of this event.
    pub id: Option<String>,
}

/// An item parsed from the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    Event(Event),
    /// A comment, which servers send to keep the connection alive.
    Comment(String),
    /// The pause before reconnecting that the server requests, in milliseconds.
    Retry(u64),
}

/// The error for an event larger than [`MAX_EVENT`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event of the stream is larger than {MAX_EVENT} bytes")]
pub struct TooLarge;

/// A parser that turns pieces of a byte stream into events, wherever the pieces break.
#[derive(Debug, Default)]
pub struct Parser {
    /// The bytes of an incomplete line.
    line: Vec<u8>,
    /// Set if the last byte was `\r`; a following `\n` belongs to the same line end.
    after_cr: bool,
    event: String,
    data: Option<String>,
    id: Option<String>,
    started: bool,
}

impl Parser {
    /// Creates a parser at the beginning of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Parses the next piece and returns the items it completes.
    pub fn push(&mut self, piece: &[u8]) -> Result<Vec<Item>, TooLarge> {
        let mut items = Vec::new();
        for &byte in piece {
            match byte {
                b'\n' if self.after_cr => self.after_cr = false,
                b'\n' | b'\r' => {
                    self.after_cr = byte == b'\r';
                    let line = std::mem::take(&mut self.line);
                    items.extend(self.line(&line));
                }
                _ => {
                    self.after_cr = false;
                    self.line.push(byte);
                    if self.line.len() + self.data.as_ref().map_or(0, String::len) > MAX_EVENT {
                        return Err(TooLarge);
                    }
                }
            }
        }
        Ok(items)
    }

    fn line(&mut self, line: &[u8]) -> Option<Item> {
        let line = String::from_utf8_lossy(line);
        // The stream may begin with a byte order mark.
        let line = if self.started { &*line } else { line.strip_prefix('\u{feff}').unwrap_or(&line) };
        self.started = true;
        if line.is_empty() {
            return self.dispatch();
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "" => return Some(Item::Comment(value.to_owned())),
            "event" => value.clone_into(&mut self.event),
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            "id" if !value.contains('\0') => self.id = Some(value.to_owned()),
            "retry" => return value.parse().ok().map(Item::Retry),
            _ => {}
        }
        None
    }

    fn dispatch(&mut self) -> Option<Item> {
        let (event, data, id) = (std::mem::take(&mut self.event), self.data.take(), self.id.take());
        let event = if event.is_empty() { "message".to_owned() } else { event };
        data.map(|data| Item::Event(Event { event, data, id }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_of_everything() {
        let stream = b"\xef\xbb\xbf: hi\n\nretry: 500\nevent: connected\r\ndata: {}\r\n\r\nid: 7\ndata: a\ndata:b\n\nevent: x\n\n";
        let items = Parser::new().push(stream).unwrap();
        assert_eq!(
            items,
            [
                Item::Comment("hi".into()),
                Item::Retry(500),
                Item::Event(Event { event: "connected".into(), data: "{}".into(), id: None }),
                Item::Event(Event { event: "message".into(), data: "a\nb".into(), id: Some("7".into()) }),
            ]
        );
    }

    #[test]
    fn a_giant_event_is_refused() {
        let mut parser = Parser::new();
        parser.push(b"data: ").unwrap();
        let piece = vec![b'x'; 1024 * 1024];
        let refused = (0..5).any(|_| parser.push(&piece).is_err());
        assert!(refused);
    }

    proptest! {
        #[test]
        fn encoded_events_come_back_wherever_the_stream_breaks(
            data in "[a-z\n\r:é ]{0,40}", id in proptest::option::of(0i64..9999), cut in 0usize..200,
        ) {
            let bytes = encode("message", id, &data);
            let (head, tail) = bytes.split_at(cut.min(bytes.len()));
            let mut parser = Parser::new();
            let mut items = parser.push(head).unwrap();
            items.extend(parser.push(tail).unwrap());
            let data = data.replace("\r\n", "\n").replace('\r', "\n");
            prop_assert_eq!(items, [Item::Event(Event { event: "message".into(), data, id: id.map(|n| n.to_string()) })]);
        }
    }
}
