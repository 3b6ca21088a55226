//! Sources that a node or task cites: one event for each, with what names it and nothing of its text.

use super::clean;
use super::collector::{Collector, event};
use super::node::Node;
use chorus_protocol::canonical;
use chorus_protocol::choir::evidence::EventType;

/// What names a source, the best first.
const NAMES: [&str; 9] =
    ["url", "uri", "link", "source", "file_path", "path", "filename", "file_name", "title"];
const IDS: [&str; 5] = ["id", "_id", "doc_id", "document_id", "chunk_id"];

/// Whose sources these are, and where they stand.
pub(super) struct Citing<'a> {
    pub(super) voice: Option<String>,
    /// The node or task, for the limit.
    pub(super) who: &'a str,
    /// The member that holds them.
    pub(super) member: &'a str,
    pub(super) occurred_at: Option<String>,
}

/// Cites every source of a list, or the one that stands in its place. `told` says that a source, by its key, was
/// cited before in another way.
pub(super) fn cite(
    node: &Node,
    citing: &Citing<'_>,
    collector: &mut Collector<'_>,
    mut told: impl FnMut(&mut Collector<'_>, &str) -> bool,
) {
    let items = match node {
        Node::List(items) => items.as_slice(),
        Node::Null => return,
        one => std::slice::from_ref(one),
    };
    for (index, item) in items.iter().enumerate() {
        let place = format!(".{}[{index}]", citing.member);
        let Some(source) = source(item, index) else {
            let message =
                format!("an element of \"{}\" names no source: it is {}", citing.member, described(item));
            collector.warn_at("odd_source", message, &place);
            continue;
        };
        let reference = source.key.unwrap_or_else(|| format!("{}{place}", collector.path()));
        // A passage is known again by itself, of which nothing is copied.
        let known =
            source.passage.map(|passage| format!("{index}\u{1f}{}", canonical::sha256(passage.as_bytes())));
        if told(collector, known.as_deref().unwrap_or(&reference)) || !collector.may_cite(citing.who) {
            continue;
        }
        let mut cited = event(EventType::EvidenceCited);
        cited.voice_name.clone_from(&citing.voice);
        cited.reference = Some(reference);
        cited.detail = source.name;
        cited.occurred_at.clone_from(&citing.occurred_at);
        collector.event(cited);
    }
}

fn described(item: &Node) -> &'static str {
    match item {
        Node::Text(_) => "an empty text",
        other => other.kind(),
    }
}

struct Source<'a> {
    /// By what it is known again; nothing if only its place tells it apart.
    key: Option<String>,
    name: Option<String>,
    /// The text itself, where it is all there is.
    passage: Option<&'a str>,
}

fn source(item: &Node, index: usize) -> Option<Source<'_>> {
    match item {
        Node::Text(_) => {
            let text = item.text()?;
            // A passage is a source as well, but nothing of it is copied.
            let name = clean::identifier(item).map(str::to_owned);
            Some(Source { key: name.clone(), passage: name.is_none().then_some(text), name })
        }
        Node::Object(members) if !members.is_empty() => {
            let kwargs = item.get("kwargs");
            let item = if kwargs.is_object() { kwargs } else { item };
            let holders =
                [item, item.get("metadata"), item.get("document"), item.get("document").get("metadata")];
            let members = |names: &'static [&'static str]| {
                holders.iter().flat_map(move |holder| names.iter().map(move |name| holder.get(name)))
            };
            let (id, name) = (members(&IDS).find_map(id), members(&NAMES).find_map(named));
            // Parts of one file may differ in nothing but their place.
            let key = id.clone().or_else(|| name.as_ref().map(|name| format!("{name}#{index}")));
            Some(Source { key, name: name.or(id), passage: None })
        }
        Node::Omitted => Some(Source { key: None, name: None, passage: None }),
        _ => None,
    }
}

fn named(node: &Node) -> Option<String> {
    match node {
        Node::Integer(number) => Some(number.to_string()),
        other => clean::title(other).map(str::to_owned),
    }
}

/// An id is one word.
fn id(node: &Node) -> Option<String> {
    named(node).filter(|id| !id.contains(char::is_whitespace))
}
