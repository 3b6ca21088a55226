//! Sources that a node or task cites: one event for each, with its name and nothing of its text.

use super::clean;
use super::collector::{Collector, event};
use super::node::Node;
use chorus_protocol::canonical;
use chorus_protocol::choir::evidence::EventType;

/// The members that name a source, best first.
const NAMES: [&str; 9] =
    ["url", "uri", "link", "source", "file_path", "path", "filename", "file_name", "title"];
const IDS: [&str; 5] = ["id", "_id", "doc_id", "document_id", "chunk_id"];

/// The author and the place of citations.
pub(super) struct Citing<'a> {
    pub(super) voice: Option<String>,
    /// The node or task, for the limit of citations.
    pub(super) who: &'a str,
    /// The member that holds the sources.
    pub(super) member: &'a str,
    pub(super) occurred_at: Option<String>,
}

/// Cites every source of a list, or a single source. `told` returns `true` if a source with this key was cited
/// before in another mode.
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
        // A passage is identified by its hash; nothing of it is copied.
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
    /// The key that identifies the source; `None` if only its position does.
    key: Option<String>,
    name: Option<String>,
    /// The text of the source, if there is nothing else.
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
            // Parts of one file may differ only by their position.
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

/// Returns an id, which must be one word.
fn id(node: &Node) -> Option<String> {
    named(node).filter(|id| !id.contains(char::is_whitespace))
}
