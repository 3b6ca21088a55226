//! What must hold of everything that reads bytes from outside, whatever the bytes are.
//!
//! Each check is a plain function that panics when something does not hold. Coverage-guided fuzzing (`fuzz_targets`,
//! nightly) and a plain loop over random and mutated seeds (`examples/random.rs`, stable) call the same functions.
//! An input that once failed belongs into `seeds`, where it is tried first for ever after.

use chorus_choir_adapters::{About, AdaptError, Format};
use chorus_protocol::address::{self, Address};
use chorus_protocol::choir::evidence::{Bundle, MAX_EVENTS, MAX_WARNINGS};
use chorus_protocol::code::Code;
use chorus_protocol::ids::{AgentId, ConversationId, EventId, TraceId};
use chorus_protocol::json::{self as strict, MAX_DEPTH};
use chorus_protocol::relay::{
    Connected, Discovery, Failure, Gap, InboxMessage, Outcome, ReceiverReply, Register, Registered,
    Registration, RequestFault, Send, StoredMessage, Success,
};
use chorus_protocol::sse::{self as events, Event, Item, Parser};
use chorus_protocol::time::{parse_rfc3339, rfc3339};
use chorus_protocol::words::DeliveryState;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The first and the last millisecond there is a date for: from the year -9999 to 9999.
const FIRST_MS: i64 = -377_705_023_201_000;
const LAST_MS: i64 = 253_402_207_200_000;

/// What must hold of some bytes; it panics if it does not.
pub type Check = fn(&[u8]);

/// Every check, by the name of its target and of its folder in `seeds`.
pub const TARGETS: &[(&str, Check)] = &[
    ("json", json),
    ("envelope", envelope),
    ("address", address),
    ("sse", sse),
    ("time", time),
    ("answer", answer),
    ("adapt", adapt),
];

/// Strict JSON: what is accepted is what a plain reader sees, keeps the promised bounds, and survives being written
/// and read again.
pub fn json(data: &[u8]) {
    let value = match strict::parse(data) {
        Ok(value) => value,
        Err(error) => return assert_ne!(error.to_string(), ""),
    };
    assert_eq!(serde_json::from_slice::<Value>(data).expect("a plain reader takes it too"), value);
    assert!(depth(&value) <= MAX_DEPTH, "{} levels", depth(&value));
    assert!(!holds_nul(&value), "U+0000 in {value:?}");
    assert_eq!(members(&value), colons(data), "a member is lost: it was there twice");
    let text = value.to_string();
    assert_eq!(strict::parse(text.as_bytes()).expect("it is accepted again"), value);
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or_default(),
        _ => 0,
    }
}

fn holds_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(holds_nul),
        Value::Object(members) => members.iter().any(|(name, value)| name.contains('\0') || holds_nul(value)),
        _ => false,
    }
}

fn members(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(members).sum(),
        Value::Object(object) => object.values().map(|value| 1 + members(value)).sum(),
        _ => 0,
    }
}

/// Colons outside strings: one for each member of each object.
fn colons(json: &[u8]) -> usize {
    let (mut count, mut inside, mut escaped) = (0, false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = inside,
            b'"' => inside = !inside,
            b':' if !inside => count += 1,
            _ => {}
        }
    }
    count
}

/// The bodies of requests: a send, plain or wrapped for A2A, and a registration.
pub fn envelope(data: &[u8]) {
    let value = strict::parse(data);
    match (Send::read(data), &value) {
        (Ok(send), Ok(value)) => accepted(data, value, &send),
        (Ok(_), Err(error)) => panic!("read although {error}"),
        // What is JSON is refused for what it says.
        (Err(RequestFault::Json(error)), Ok(_)) => panic!("refused as no JSON: {error}"),
        (Err(error), _) => assert_ne!(error.to_string(), ""),
    }
    if let Ok(value) = value {
        register(&value);
    }
}

fn accepted(data: &[u8], body: &Value, send: &Send) {
    let raw = send.raw.get();
    assert!(data.windows(raw.len()).any(|part| part == raw.as_bytes()), "the envelope is not as received");
    let inside = strict::parse(raw.as_bytes()).expect("the envelope is JSON");
    assert_eq!(send.normal, send.envelope.turn.is_some().then(|| inside.to_string()));

    let plain =
        format!("{{\"receiver_id\":\"{}\",\"envelope\":{raw},\"stream\":{}}}", send.receiver, send.stream);
    for again in [body.to_string(), plain] {
        let again = Send::read(again.as_bytes()).expect("it is accepted again");
        assert_eq!(
            (&again.receiver, &again.envelope, &again.normal, again.stream),
            (&send.receiver, &send.envelope, &send.normal, send.stream)
        );
    }

    // As an inbox carries it.
    let items = Parser::new().push(&events::encode("message", Some(1), raw)).expect("it is small");
    let [Item::Event(event)] = items.as_slice() else { panic!("not one event: {items:?}") };
    assert_eq!(strict::parse(event.data.as_bytes()).expect("it arrives as JSON"), inside);
}

fn register(body: &Value) {
    let (by_itself, by_operator) = (Register::read(body, false), Register::read(body, true));
    let request = match by_itself {
        Ok(request) => request,
        Err(faults) => {
            assert!(!faults.is_empty() && by_operator.is_err());
            return;
        }
    };
    assert_eq!(by_operator.is_ok(), request.endpoint.is_some());
    let mut again = json!({"agent_id": request.agent.to_string()});
    if let Some(endpoint) = &request.endpoint {
        assert!(matches!(endpoint.scheme(), "http" | "https") && endpoint.has_host(), "{endpoint}");
        assert!(endpoint.username().is_empty() && endpoint.password().is_none(), "{endpoint}");
        assert_eq!(endpoint.fragment(), None, "{endpoint}");
        again["endpoint"] = endpoint.as_str().into();
    }
    if let Some(card) = &request.card {
        again["agent_card"] = card.clone();
    }
    let again = Register::read(&again, false).expect("it is accepted again");
    assert_eq!((again.agent, again.endpoint, again.card), (request.agent, request.endpoint, request.card));
}

/// Addresses, ids and the words of closed lists: what is read prints so that it is read again as the same.
pub fn address(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(address) = Address::parse(&text) {
        assert!(text.is_ascii() && text.len() <= address::MAX_LEN);
        assert_eq!(address.to_string(), text);
        assert_eq!(Address::parse(&text), Ok(address.clone()));
        if let Some(host) = address.host() {
            assert_eq!(address.local_name(&host.to_ascii_uppercase()), Some(address.name()));
        }
    }
    if let Some(id) = AgentId::parse(&text) {
        assert_eq!(AgentId::parse(&id.to_string()), Some(id));
        assert_eq!(AgentId::from_slice(id.as_bytes()), Some(id));
    }
    if let Some(id) = EventId::parse(&text) {
        assert_eq!(EventId::parse(&id.to_string()), Some(id));
    }
    if let Some(id) = ConversationId::parse(&text) {
        assert_eq!(ConversationId::parse(&id.to_string()), Some(id));
    }
    if let Some(id) = TraceId::parse(&text) {
        assert_eq!(TraceId::parse(&id.to_string()), Some(id));
    }
    if let Some(code) = Code::parse(&text) {
        assert_eq!(code.as_str(), text);
    }
    if let Some(delivery) = DeliveryState::parse(&text) {
        assert_eq!(delivery.as_str(), text);
    }
}

/// Server-sent events: the same items wherever the stream breaks, and what was encoded comes back.
pub fn sse(data: &[u8]) {
    let whole = Parser::new().push(data).expect("it is small");
    assert_eq!(in_pieces(data, std::iter::repeat(1)), whole);
    // The bytes themselves say where it breaks.
    assert_eq!(in_pieces(data, data.iter().map(|byte| usize::from(byte % 7))), whole);

    let text = String::from_utf8_lossy(data);
    let id = data.first().map(|byte| i64::from(*byte) - 1);
    let mut stream = events::encode("message", id, &text);
    stream.extend_from_slice(events::PING);
    stream.extend(events::encode("done", None, "{}"));
    let data = text.replace("\r\n", "\n").replace('\r', "\n");
    let expected = [
        Item::Event(Event { event: "message".into(), data, id: id.map(|id| id.to_string()) }),
        Item::Comment("ping".into()),
        Item::Event(Event { event: "done".into(), data: "{}".into(), id: None }),
    ];
    assert_eq!(Parser::new().push(&stream).expect("it is small"), expected);
}

fn in_pieces(mut data: &[u8], sizes: impl Iterator<Item = usize>) -> Vec<Item> {
    let (mut parser, mut items) = (Parser::new(), vec![]);
    for size in sizes {
        let (piece, rest) = data.split_at(size.min(data.len()));
        items.extend(parser.push(piece).expect("it is small"));
        data = rest;
        if data.is_empty() {
            break;
        }
    }
    items.extend(parser.push(data).expect("it is small"));
    items
}

/// Times: what is read is printed as the same moment, and every number prints as a time.
pub fn time(data: &[u8]) {
    // The calendar ends with a second of which only the beginning can be told in milliseconds.
    if let Some(ms) = parse_rfc3339(&String::from_utf8_lossy(data)).filter(|ms| *ms <= LAST_MS) {
        assert_eq!(parse_rfc3339(&rfc3339(ms)), Some(ms));
    }
    if let Some(bytes) = data.first_chunk() {
        let ms = i64::from_le_bytes(*bytes);
        let text = rfc3339(ms);
        let read = parse_rfc3339(&text).expect("a printed time can be read");
        assert_eq!(rfc3339(read), text);
        assert!(read == ms || !(FIRST_MS..=LAST_MS).contains(&ms), "{ms} became {text}");
    }
}

/// What a client reads of a hub, and a hub of a receiver: written and read again it is the same.
pub fn answer(data: &[u8]) {
    same_again::<Success<Outcome>>(data);
    same_again::<Success<Vec<StoredMessage>>>(data);
    same_again::<Success<Registered>>(data);
    same_again::<Success<Vec<Registration>>>(data);
    same_again::<Failure>(data);
    same_again::<Discovery>(data);
    same_again::<InboxMessage>(data);
    same_again::<Connected>(data);
    same_again::<Gap>(data);
    same_again::<ReceiverReply>(data);
}

fn same_again<T: Serialize + DeserializeOwned>(data: &[u8]) {
    let Ok(read) = serde_json::from_slice::<T>(data) else { return };
    let written = serde_json::to_string(&read).expect("it can be written");
    let again: T = serde_json::from_str(&written).expect("it can be read again");
    assert_eq!(serde_json::to_string(&again).expect("it can be written"), written);
}

/// Traces: whatever is taken for one gives a bundle that can be submitted, the same every time and however it comes
/// in; and what JSON readers refuse is refused.
pub fn adapt(data: &[u8]) {
    let about = About::default();
    for format in Format::ALL {
        let bundle = match chorus_choir_adapters::adapt(Some(format), data, &about) {
            Ok(bundle) => bundle,
            Err(error) => {
                assert!(!error.to_string().is_empty());
                // A lone surrogate, great depth and many digits are no reason of theirs.
                let plain = serde_json::from_slice::<Value>(data).is_ok_and(|value| depth(&value) < 100);
                let malformed = matches!(error, AdaptError::Read(_));
                assert!(!(plain && malformed && data.len() < 300), "{error}");
                continue;
            }
        };
        assert!(bundle.events.len() <= MAX_EVENTS && bundle.adapter_warnings.len() <= MAX_WARNINGS);
        let written = serde_json::to_value(&bundle).expect("it can be written");
        assert_eq!(Bundle::read(written).expect("it is accepted"), bundle);
        let slowly = chorus_choir_adapters::adapt(Some(format), Slow(data), &about).expect("it was taken");
        assert_eq!(slowly, bundle);
    }
    drop(chorus_choir_adapters::adapt(None, data, &about));
}

/// Gives a few bytes at a time.
struct Slow<'a>(&'a [u8]);

impl std::io::Read for Slow<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = buffer.len().min(3);
        self.0.read(&mut buffer[..count])
    }
}
