//! What a model said, in a span, in an event of one, or in a log record: refusals, answers that were kept back, and calls that
//! it asks for.

use super::rule;
use super::span::untyped;
use crate::adapters::clean::explanation;
use crate::adapters::collector::Collector;
use crate::adapters::node::{Node, embedded};

/// Messages, wherever they were told: as values, typed values, or JSON in texts; in lists or alone.
pub(super) fn messages(told: Vec<&Node>, collector: &mut Collector<'_>) -> Node {
    let mut messages = Vec::new();
    for told in told {
        match told {
            Node::Text(text) if !text.whole => {
                collector.warn("long_output", "what a model said is too long to be searched for refusals");
            }
            Node::Text(text) => messages.extend(embedded(text, rule)),
            told => messages.push(untyped(told)),
        }
    }
    let alone = |told| if let Node::List(items) = told { items } else { vec![told] };
    Node::List(messages.into_iter().flat_map(alone).collect())
}

/// The parts of messages, and of the message inside a choice.
fn parts(messages: &Node) -> impl Iterator<Item = &Node> {
    let both = |message| [message, Node::get(message, "message")];
    messages.items().iter().flat_map(both).flat_map(|message| message.get("parts").items())
}

/// Each refusal with its words; or once that an answer was kept back, by its own reason or by one told elsewhere.
pub(super) fn kept_back(messages: &Node, is_filtered: bool) -> Vec<Option<String>> {
    let refusals = parts(messages).filter(|part| part.get("type").text() == Some("refusal"));
    let words = |refusal: &Node| {
        let detail = ["content", "refusal", "text"].iter().find_map(|name| explanation(refusal.get(name)));
        detail.map(str::to_owned)
    };
    let refusals: Vec<_> = refusals.map(words).collect();
    let by_message = |message: &Node| filtered(message.get("finish_reason"));
    if refusals.is_empty() && (is_filtered || messages.items().iter().any(by_message)) {
        return vec![Some("content_filter".to_owned())];
    }
    refusals
}

/// Whether this is the reason of an answer that was kept back.
pub(super) fn filtered(reason: &Node) -> bool {
    reason.text().or_else(|| reason.get("stringValue").text()) == Some("content_filter")
}

/// The calls that messages ask for: their ids, and the tools.
pub(super) fn asked(messages: &Node) -> Vec<(&str, Option<&str>)> {
    let in_parts = parts(messages).filter(|part| part.get("type").text() == Some("tool_call"));
    // In a choice, as its event was written before messages had parts.
    let both = |choice| [choice, Node::get(choice, "message")];
    let in_choices = messages.items().iter().flat_map(both).flat_map(|one| one.get("tool_calls").items());
    in_parts.chain(in_choices).filter_map(|call| Some((call.get("id").text()?, tool(call)))).collect()
}

fn tool(call: &Node) -> Option<&str> {
    call.get("name").text().or_else(|| call.get("function").get("name").text())
}
