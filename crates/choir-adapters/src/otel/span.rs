//! Spans in the form of OTLP/JSON or of an SDK's printer.

use crate::node::Node;
use chorus_protocol::time::{parse_rfc3339, rfc3339};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

pub(super) struct Span<'a> {
    pub(super) name: &'a str,
    pub(super) id: u64,
    /// The trace's id; 0 if unknown.
    pub(super) trace: u64,
    /// The parent's id; 0 for none.
    pub(super) parent: u64,
    /// The start in nanoseconds since 1970.
    pub(super) start: i64,
    start_text: Option<&'a str>,
    attributes: Vec<(&'a str, &'a Node)>,
    /// The events of the span.
    pub(super) events: &'a Node,
    /// Set for the server side of a call.
    pub(super) is_served: bool,
}

const NOTHING: &Node = &Node::Null;

impl<'a> Span<'a> {
    /// Reads a span. Returns `None` if the value is none.
    pub(super) fn read(record: &'a Node) -> Option<Self> {
        let any = |names: &[&str]| names.iter().find_map(|name| record.get(name).text());
        let id =
            any(&["spanId", "span_id", "spanID"]).or_else(|| record.get("context").get("span_id").text())?;
        let trace =
            any(&["traceId", "trace_id", "traceID"]).or_else(|| record.get("context").get("trace_id").text());
        let parent = any(&["parentSpanId", "parent_span_id", "parent_id"]);
        let parent = parent.or_else(|| record.get("parent").get("span_id").text());
        // Jaeger has its own references, and times in microseconds.
        let is_parent = |one: &&Node| one.get("refType").text() == Some("CHILD_OF");
        let by_jaeger = record.get("references").items().iter().find(is_parent);
        let parent = parent.or_else(|| by_jaeger.and_then(|one| one.get("spanID").text()));
        let is_jaeger = record.has("operationName");
        let start = ["startTimeUnixNano", "start_time_unix_nano", "start_time", "startTime"]
            .iter()
            .find_map(|name| record.member(name))
            .unwrap_or(NOTHING);
        let start_text = start.text();
        let nanoseconds = start.integer().or_else(|| start_text.and_then(nanoseconds));
        let nanoseconds =
            if is_jaeger { nanoseconds.and_then(|time| time.checked_mul(1000)) } else { nanoseconds };
        let tagged = if is_jaeger { "tags" } else { "attributes" };
        Some(Self {
            name: any(&["name", "operationName"]).unwrap_or("?"),
            id: span_id(id),
            trace: trace.map_or(0, span_id),
            parent: parent.map_or(0, span_id),
            start: nanoseconds.unwrap_or_default(),
            start_text: start_text.filter(|text| parse_rfc3339(text).is_some()),
            attributes: attributes(record.get(tagged)),
            events: record.get("events"),
            is_served: match record.get("kind") {
                Node::Integer(kind) => *kind == 2,
                kind => kind.text().is_some_and(|kind| kind.ends_with("SERVER")),
            },
        })
    }

    pub(super) fn attribute(&self, name: &str) -> &'a Node {
        found(&self.attributes, name)
    }

    pub(super) fn text(&self, name: &str) -> Option<&'a str> {
        self.attribute(name).text()
    }

    /// Iterates over a model's answers in attributes of OpenInference and Traceloop with a wanted name.
    pub(super) fn flattened(&self, wanted: impl Fn(&str) -> bool) -> impl Iterator<Item = &'a str> {
        let is_output = |name: &str| {
            ["llm.output_messages.", "llm.finish_reason", "gen_ai.completion."]
                .iter()
                .any(|beginning| name.starts_with(beginning))
        };
        let known = self.attributes.iter().filter(move |(name, _)| is_output(name) && wanted(name));
        known.filter_map(|(_, value)| value.text())
    }

    /// Collects numbered attributes, as OpenInference flattens lists: `{prefix}N.document.id` and so on.
    pub(super) fn numbered(&self, prefix: &str) -> Node {
        let mut items = BTreeMap::<u32, Vec<(Box<str>, Node)>>::new();
        for (name, value) in &self.attributes {
            let Some((number, rest)) = name.strip_prefix(prefix).and_then(|rest| rest.split_once('.')) else {
                continue;
            };
            if let (Ok(number), Some(field)) = (number.parse(), rest.strip_prefix("document.")) {
                items.entry(number).or_default().push((field.into(), (*value).clone()));
            }
        }
        Node::List(items.into_values().map(Node::Object).collect())
    }

    /// Returns the start as an RFC 3339 time.
    pub(super) fn occurred_at(&self) -> Option<String> {
        let known = self.start_text.map(str::to_owned);
        known.or_else(|| (self.start > 0).then(|| rfc3339(self.start / 1_000_000)))
    }
}

/// Returns an attribute, which may be in nested objects: `{gen_ai: {tool: {name}}}`.
pub(super) fn found<'a>(attributes: &[(&'a str, &'a Node)], name: &str) -> &'a Node {
    let own = attributes.iter().find(|(known, _)| *known == name);
    let nested = || {
        attributes.iter().find_map(|(known, value)| {
            let rest = name.strip_prefix(known)?.strip_prefix('.')?;
            let members: Vec<_> = value.members().iter().map(|(name, value)| (&**name, value)).collect();
            Some(found(&members, rest)).filter(|node| !node.is_null())
        })
    };
    own.map(|(_, value)| *value).or_else(nested).unwrap_or(NOTHING)
}

/// Parses nanoseconds: an integer, or a time with up to nine decimals.
pub(super) fn nanoseconds(text: &str) -> Option<i64> {
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    let whole = parse_rfc3339(text)?.div_euclid(1000);
    let digits = text.split_once('.').map_or("", |(_, rest)| rest);
    let fraction: String = digits.chars().take_while(char::is_ascii_digit).take(9).collect();
    let fraction: i64 = format!("{fraction:0<9}").parse().ok()?;
    whole.checked_mul(1_000_000_000)?.checked_add(fraction)
}

/// Returns attributes in the form `{name: value}` or OTLP's `[{key, value: {stringValue}}]`.
pub(super) fn attributes(node: &Node) -> Vec<(&str, &Node)> {
    match node {
        Node::List(items) => items
            .iter()
            .filter_map(|item| Some((item.get("key").text()?, any_value(item.get("value")))))
            .collect(),
        node => node.members().iter().map(|(name, value)| (&**name, value)).collect(),
    }
}

fn any_value(node: &Node) -> &Node {
    let Some((kind, value)) = node.members().first() else { return node };
    match &**kind {
        "arrayValue" | "array_value" => value.get("values"),
        // Callers that expect such a value read it themselves.
        "kvlistValue" | "kvlist_value" => node,
        _ => value,
    }
}

/// Removes OTLP's type wrappers at every depth: `{kvlistValue: {values: [{key, value}]}}` becomes an object.
pub(super) fn untyped(node: &Node) -> Node {
    if let Node::List(items) = node {
        return Node::List(items.iter().map(untyped).collect());
    }
    match node.members() {
        [(kind, value)] => match &**kind {
            "arrayValue" | "array_value" => untyped(value.get("values")),
            "kvlistValue" | "kvlist_value" => pairs(value.get("values")),
            "stringValue" | "string_value" | "boolValue" | "bool_value" | "intValue" | "int_value"
            | "doubleValue" | "double_value" => value.clone(),
            name => Node::Object(vec![(name.into(), untyped(value))]),
        },
        [] => node.clone(),
        members => Node::Object(members.iter().map(|(name, value)| (name.clone(), untyped(value))).collect()),
    }
}

fn pairs(node: &Node) -> Node {
    let pair = |item: &Node| Some((item.get("key").text()?.into(), untyped(item.get("value"))));
    Node::Object(node.items().iter().filter_map(pair).collect())
}

/// Converts an id to a number: 16 hexadecimal digits, or the hash of any other text.
pub(super) fn span_id(text: &str) -> u64 {
    let digits = text.trim_start_matches("0x");
    if text.is_empty() {
        return 0;
    }
    u64::from_str_radix(digits, 16).unwrap_or_else(|_| {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        hasher.finish()
    })
}
