//! Server-sent events: the encoder of the hub and the incremental parser of its clients.
//!
//! Both are pure; bytes in, bytes out. The parser is bounded: an event larger than [`MAX_EVENT`] is an error, so that
//! a hostile server cannot fill a client's memory.

/// The largest event a [`Parser`] takes, in bytes.
pub const MAX_EVENT: usize = 4 * 1024 * 1024;

/// A comment that keeps a quiet connection open.
pub const PING: &[u8] = b": ping\n\n";

/// The headers of a stream of events, which nobody on the way may keep or hold back: there are proxies that would.
pub const STREAM_HEADERS: [(&str, &str); 3] =
    [("content-type", "text/event-stream"), ("cache-control", "no-store"), ("x-accel-buffering", "no")];

/// Encodes one event. Line ends inside `data` become several `data:` lines, which a reader joins again.
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
    // One sign at a time: a set of them is looked for character by character.
    data.split("\r\n").flat_map(|part| part.split('\n')).flat_map(|part| part.split('\r'))
}

/// One event as a client sees it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Event {
    /// Its kind; `message` when the server named none.
    pub event: String,
    /// Its data lines, joined by `\n`.
    pub data: String,
    /// The `id:` given with this very event.
    pub id: Option<String>,
}

/// What one piece of a stream can hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// A complete event.
    Event(Event),
    /// A comment: a sign of life.
    Comment(String),
    /// The server asks for this pause, in milliseconds, before reconnecting.
    Retry(u64),
}

/// An event grew past [`MAX_EVENT`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event of the stream is larger than {MAX_EVENT} bytes")]
pub struct TooLarge;

/// Turns pieces of a byte stream into events, wherever the pieces break.
#[derive(Debug, Default)]
pub struct Parser {
    /// Bytes of a line that is not complete yet.
    line: Vec<u8>,
    /// The last byte was `\r`: a `\n` that follows belongs to it.
    after_cr: bool,
    event: String,
    data: Option<String>,
    id: Option<String>,
    started: bool,
}

impl Parser {
    /// A parser at the beginning of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next piece and returns what it completes.
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
        // A byte order mark may open the stream.
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
