//! The meaning of a node's output: its name and its structure must both indicate it.

use super::calls::{self, plain};
use super::{DEEPEST_GRAPH, Origin, before_colon};
use crate::clean::label;
use crate::collector::{Collector, event};
use crate::node::Node;
use crate::reviews::dissents;
use crate::signs::{
    almost_guarded, fired, guarded, is_escalation, is_guard, is_message, is_retriever, is_reviewer, reason,
};
use crate::sources::{Citing, cite};
use chorus_protocol::choir::evidence::{Event, EventType};
use std::collections::HashMap;

const CITED: [&str; 4] = ["documents", "citations", "sources", "context"];
/// The separator of a key's parts.
const BETWEEN: char = '\u{1f}';

/// The outputs that were reported in any mode.
#[derive(Default)]
pub(super) struct Told {
    /// For each namespace and node, the number of reports in each mode and the number that counted.
    outputs: HashMap<String, ([u32; 4], u32)>,
}

impl Told {
    /// Records an output. Returns `true` if it counts. The n-th output of a node in one mode is the n-th in
    /// every mode; the first report counts.
    pub(super) fn is_new(&mut self, origin: &Origin<'_>) -> bool {
        let key = format!("{}{BETWEEN}{}", origin.namespace.join("|"), origin.node.unwrap_or_default());
        let (told, taken) = self.outputs.entry(key).or_default();
        let count = &mut told[origin.source as usize];
        *count += 1;
        let is_new = *count > *taken;
        *taken = (*taken).max(*count);
        is_new
    }
}

/// Maps one output of a node.
pub(super) fn map(output: &Node, origin: &Origin<'_>, collector: &mut Collector<'_>) {
    let output = plain(output);
    let name = origin.node.unwrap_or_default();
    match output {
        // This is the result of a task of the functional API, or of the whole graph.
        Node::Object(members) if matches!(&**members, [(name, _)] if is_returned(name)) => {
            map(&members[0].1, origin, collector);
        }
        Node::Object(_) if calls::is_call(output) => calls::alone(output, 0, origin, collector),
        Node::Object(_) if is_message(output) => {
            calls::in_message(output, origin, None, collector);
            if is_escalation(name) {
                empty_escalation(name, collector);
            }
        }
        Node::Object(_) => structured(output, origin, collector),
        // Older versions report results as pairs of channel and value.
        Node::List(items) if !items.is_empty() && items.iter().all(is_pair) => {
            let members = items.iter().filter_map(|pair| {
                let [name, value] = pair.items() else { return None };
                Some((name.text()?.into(), value.clone()))
            });
            structured(&Node::Object(members.collect()), origin, collector);
        }
        Node::List(items) if is_retriever(name) && items.iter().any(is_document) => {
            sources(output, "documents", name, origin, collector);
        }
        // A list holds several updates.
        Node::List(items) => {
            if is_retriever(name) && items.iter().map(plain).any(is_unnamed) {
                let what = "found something (a list), but not as documents, citations, sources or context";
                collector.warn("unclear_sources", format!("\"{name}\" {what}"));
            }
            for item in items {
                map(item, origin, collector);
            }
        }
        Node::Null if is_escalation(name) => empty_escalation(name, collector),
        Node::Text(_) if is_guard(name) || is_reviewer(name) || is_escalation(name) => {
            let message =
                format!("the output of \"{name}\" is a text, and a text alone is never an incident");
            collector.warn("text_output", message);
        }
        Node::Omitted => {
            collector.warn("unread_output", format!("the output of \"{name}\" was not read"));
        }
        _ => {}
    }
}

fn is_returned(member: &str) -> bool {
    matches!(member, "__return__" | "__end__")
}

fn is_document(node: &Node) -> bool {
    plain(node).has("page_content")
}

/// Returns `true` for a value that may have been retrieved and is neither a message nor an update.
fn is_unnamed(node: &Node) -> bool {
    let is_update = || CITED.iter().chain(&["messages", "tool_calls"]).any(|member| node.has(member));
    match node {
        Node::Text(_) => true,
        Node::Object(_) => !is_message(node) && !calls::is_call(node) && !is_update(),
        _ => false,
    }
}

fn is_pair(node: &Node) -> bool {
    matches!(node.items(), [Node::Text(_), _])
}

fn empty_escalation(name: &str, collector: &mut Collector<'_>) {
    let message = format!("\"{name}\" ran and says of no escalation that it happened");
    collector.warn("empty_escalation", message);
}

fn structured(output: &Node, origin: &Origin<'_>, collector: &mut Collector<'_>) {
    in_messages(output, origin, collector);
    let Some(name) = origin.node else { return };
    if is_guard(name) {
        let flags = guarded(output);
        if flags.raised {
            let detail = flags.text.or_else(|| reason(output));
            emit(EventType::Warning, None, detail, origin, collector);
        } else if almost_guarded(output) || output.get("jump_to").text() == Some("end") {
            let message =
                format!("\"{name}\" found something, but does not say that it flagged, blocked or refused");
            collector.warn("unclear_guard", message);
        }
    }
    if is_retriever(name) {
        for member in CITED {
            sources(output.get(member), member, name, origin, collector);
        }
        if !CITED.iter().any(|member| output.has(member)) {
            unclear_sources(output, name, collector);
        }
    }
    if is_reviewer(name) {
        for dissent in dissents(output, name, collector) {
            emit(EventType::Dissent, dissent.who, dissent.why, origin, collector);
        }
    }
    // A node that paused for a question has reported it already; this is the continuation.
    if is_escalation(name) && !origin.resumed {
        if fired(output) {
            emit(EventType::Escalation, None, reason(output), origin, collector);
        } else {
            empty_escalation(name, collector);
        }
    }
}

/// Warns about values that a retriever found under an unknown name.
fn unclear_sources(output: &Node, name: &str, collector: &mut Collector<'_>) {
    let is_found = |value: &Node| match value {
        Node::List(items) => items
            .iter()
            .any(|item| matches!(item, Node::Object(_) | Node::Text(_)) && !is_message(plain(item))),
        _ => false,
    };
    let members = output.members().iter().filter(|(name, value)| &**name != "tool_calls" && is_found(value));
    let found: Vec<_> = members.take(4).filter_map(|(member, _)| label(member)).collect();
    if !found.is_empty() {
        let message = format!(
            "\"{name}\" found something ({}), but not as documents, citations, sources or context",
            found.join(", ")
        );
        collector.warn("unclear_sources", message);
    }
}

/// Maps the tool calls of an output: its own, or those of messages in it.
fn in_messages(output: &Node, origin: &Origin<'_>, collector: &mut Collector<'_>) {
    if output.has("tool_calls") {
        calls::in_message(output, origin, None, collector);
    }
    for (name, value) in output.members() {
        if &**name == "tool_calls" {
            continue;
        }
        for (index, message) in value.items().iter().chain([value]).map(plain).enumerate() {
            if calls::is_call(message) {
                calls::alone(message, index, origin, collector);
            }
            let text = &**name == "messages" && matches!(message, Node::Text(_));
            if text || message.has("tool_calls") || is_message(message) {
                calls::in_message(message, origin, None, collector);
            }
        }
    }
}

/// Maps documents that a retriever reports before its node does.
pub(super) fn retrieved(
    output: &Node,
    name: Option<&str>,
    origin: &Origin<'_>,
    collector: &mut Collector<'_>,
) {
    let documents = if output.has("documents") { output.get("documents") } else { output };
    let who = origin.node.or(name).unwrap_or_default();
    sources(documents, "documents", who, origin, collector);
}

fn sources(node: &Node, member: &str, name: &str, origin: &Origin<'_>, collector: &mut Collector<'_>) {
    if node.is_null() || matches!(node, Node::List(items) if items.is_empty()) {
        return;
    }
    let citing = Citing {
        voice: collector.voice(origin.names(None)),
        who: name,
        member,
        occurred_at: origin.occurred_at.map(str::to_owned),
    };
    cite(node, &citing, collector, |collector, key| {
        // A retriever inside a node reports the same documents as the node.
        let events = matches!(origin.source, super::Source::Events);
        let seen = events && !collector.first(&format!("document{BETWEEN}{name}{BETWEEN}{key}"));
        seen || told_below(EventType::EvidenceCited, key, origin, collector)
    });
}

fn emit(
    kind: EventType,
    who: Option<&str>,
    detail: Option<&str>,
    origin: &Origin<'_>,
    collector: &mut Collector<'_>,
) {
    let what = format!("{}{BETWEEN}{}", who.unwrap_or_default(), detail.unwrap_or_default());
    if told_below(kind, &what, origin, collector) {
        return;
    }
    let place = format!("{}.{}", collector.path(), origin.node.unwrap_or_default());
    let event = Event {
        voice_name: if who.is_some() { collector.voice([who]) } else { collector.voice(origin.names(None)) },
        reference: Some(who.map_or_else(|| place.clone(), |who| format!("{place}.{who}"))),
        detail: detail.map(str::to_owned),
        occurred_at: origin.occurred_at.map(str::to_owned),
        ..event(kind)
    };
    collector.event(event);
}

/// Returns `true` if a graph inside this node reported the same fact, since its state is the node's output.
/// Records the fact for the surrounding graphs.
fn told_below(kind: EventType, what: &str, origin: &Origin<'_>, collector: &mut Collector<'_>) -> bool {
    let key = |around: &[&str], node: &str, what: &str| {
        format!("{}{BETWEEN}{}{BETWEEN}{node}{BETWEEN}{what}", kind.as_str(), around.join("|"))
    };
    if collector.told(&key(origin.namespace, origin.node.unwrap_or_default(), what)) {
        return true;
    }
    for (index, graph) in origin.namespace.iter().enumerate().take(DEEPEST_GRAPH) {
        let (around, node) = (&origin.namespace[..index], before_colon(graph));
        collector.first(&key(around, node, what));
        // The surrounding graph may keep the flag without the reason.
        let (who, _) = what.split_once(BETWEEN).unwrap_or((what, ""));
        collector.first(&key(around, node, &format!("{who}{BETWEEN}")));
    }
    false
}
