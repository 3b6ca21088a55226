//! The answers of models in spans, in their events and in log records: refusals, withheld answers, and
//! requested calls.

use super::rule;
use super::span::untyped;
use crate::clean::explanation;
use crate::collector::Collector;
use crate::node::{Node, embedded};

/// Collects messages in any form: values, typed values, or JSON in texts; in lists or single.
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

/// Iterates over the parts of messages, and of the message inside a choice.
fn parts(messages: &Node) -> impl Iterator<Item = &Node> {
    let both = |message| [message, Node::get(message, "message")];
    messages.items().iter().flat_map(both).flat_map(|message| message.get("parts").items())
}

/// Returns the text of each refusal; or one entry if an answer was withheld, by its own finish reason or by
/// one reported elsewhere.
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

/// Returns `true` for the finish reason of a withheld answer.
pub(super) fn filtered(reason: &Node) -> bool {
    reason.text().or_else(|| reason.get("stringValue").text()) == Some("content_filter")
}

/// Returns the ids and tools of the calls that messages request.
pub(super) fn asked(messages: &Node) -> Vec<(&str, Option<&str>)> {
    let in_parts = parts(messages).filter(|part| part.get("type").text() == Some("tool_call"));
    // Older events have the calls in a choice, without parts.
    let both = |choice| [choice, Node::get(choice, "message")];
    let in_choices = messages.items().iter().flat_map(both).flat_map(|one| one.get("tool_calls").items());
    in_parts.chain(in_choices).filter_map(|call| Some((call.get("id").text()?, tool(call)))).collect()
}

fn tool(call: &Node) -> Option<&str> {
    call.get("name").text().or_else(|| call.get("function").get("name").text())
}
