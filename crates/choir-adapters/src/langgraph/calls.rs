//! Tool calls in messages. A repeated call is recognised by its id; its first reporter is its voice.

use super::Origin;
use crate::collector::{Collector, event};
use crate::node::Node;
use crate::openai::BUILT_IN;
use crate::signs::is_message;
use chorus_protocol::choir::evidence::EventType;
use std::collections::HashSet;

/// Unwraps the envelope that `dumpd` adds.
pub(super) fn plain(node: &Node) -> &Node {
    let kwargs = node.get("kwargs");
    if kwargs.is_object() && node.has("lc") { kwargs } else { node }
}

/// Maps the calls of one message. `place` is its index in a list that is reported repeatedly.
pub(super) fn in_message(
    message: &Node,
    origin: &Origin<'_>,
    place: Option<usize>,
    collector: &mut Collector<'_>,
) {
    if matches!(message, Node::Text(_)) {
        collector.warn(
            "text_message",
            "a message is a text (json.dumps(default=str) writes Python's repr): texts are never parsed",
        );
        return;
    }
    let message = plain(message);
    // The result of a tool carries the tool's name.
    let is_result = matches!(message.get("type").text(), Some("tool" | "function" | "ToolMessage"));
    if let (Some(name), false) = (message.get("name").text(), is_result) {
        collector.took_part([Some(name)]);
    }
    if let (Some(id), true) = (message.get("tool_call_id").text(), is_result) {
        collector.has_result(id);
    }
    let is_chunk = message.get("type").text() == Some("AIMessageChunk");
    for (index, call) in calls_of(message, collector).into_iter().enumerate() {
        if let Some(name) = name_of(call) {
            made(name, call, &Place { message, index, row: place }, origin, collector);
        } else if is_chunk {
            collector
                .warn("call_fragments", "later pieces of streamed tool calls have no name and are no calls");
        } else {
            collector.warn("nameless_call", "a tool call names no tool");
        }
    }
    if is_refused(message) && message_id_is_new(message, collector) {
        collector
            .warn("refusal", "a message holds a model's refusal: it is a warning only where a guard says so");
    }
    for call in message.get("invalid_tool_calls").items() {
        if let Some(name) = name_of(call).filter(|_| first_sight(call, collector)) {
            let message = format!("a call of \"{name}\" was invalid and not made");
            collector.warn("invalid_call", message);
        }
    }
}

/// Returns `true` if a model refuses in a dedicated field of its message.
fn is_refused(message: &Node) -> bool {
    let is_refusal = |block: &Node| block.get("type").text() == Some("refusal");
    message.get("additional_kwargs").get("refusal").text().is_some()
        || message.get("content").items().iter().any(is_refusal)
}

fn message_id_is_new(message: &Node, collector: &mut Collector<'_>) -> bool {
    message.get("id").text().is_none_or(|id| collector.first(&format!("refusal:{id}")))
}

/// Returns the calls of a message: the parsed ones, or else those in the form of the model's server and of
/// content blocks.
fn calls_of<'a>(message: &'a Node, collector: &mut Collector<'_>) -> Vec<&'a Node> {
    let parsed = match message.get("tool_calls") {
        Node::Null => vec![],
        Node::List(items) => items.iter().collect(),
        one if name_of(one).is_some() => vec![one],
        other => {
            collector.warn("odd_tool_calls", format!("\"tool_calls\" is {}, no list", other.kind()));
            vec![]
        }
    };
    if matches!(message.get("type").text().or(message.get("role").text()), Some("human" | "user" | "tool")) {
        return parsed;
    }
    let raw = message.get("additional_kwargs");
    let calls = if parsed.is_empty() {
        let old = [raw.get("function_call"), message.get("function_call")];
        let old = old.into_iter().filter(|call| name_of(call).is_some()).take(1);
        raw.get("tool_calls").items().iter().chain(old).collect()
    } else {
        parsed
    };
    let ids: HashSet<_> = calls.iter().filter_map(|call| plain(call).get("id").text()).collect();
    // Calls that a server executed itself appear only here; all other blocks are parsed as well.
    let content = message.get("content").items().iter().chain(raw.get("tool_outputs").items());
    let blocks = content.filter(|block| {
        let kind = block.get("type").text().unwrap_or_default();
        let parsed_too = matches!(kind, "tool_use" | "tool_call" | "function_call");
        let by_server = matches!(kind, "server_tool_use" | "server_tool_call" | "mcp_tool_use" | "mcp_call")
            || built_in(block).is_some();
        let known = block.get("id").text().is_some_and(|id| ids.contains(id));
        name_of(block).is_some() && (by_server || (parsed_too && calls.is_empty())) && !known
    });
    let blocks: Vec<_> = blocks.collect();
    calls.into_iter().chain(blocks).collect()
}

/// Returns `true` for a call outside of a message.
pub(super) fn is_call(node: &Node) -> bool {
    let is_call = matches!(plain(node).get("type").text(), Some("tool_call" | "server_tool_call"));
    is_call && name_of(node).is_some()
}

/// Maps a call outside of a message.
pub(super) fn alone(call: &Node, index: usize, origin: &Origin<'_>, collector: &mut Collector<'_>) {
    if let Some(name) = name_of(call).filter(|_| is_call(call)) {
        made(name, call, &Place { message: &Node::Null, index, row: None }, origin, collector);
    }
}

/// Returns `true` if an invalid call is seen for the first time, so that it causes one warning.
fn first_sight(call: &Node, collector: &mut Collector<'_>) -> bool {
    call.get("id").text().is_none_or(|id| collector.first(&format!("invalid:{id}")))
}

fn name_of(call: &Node) -> Option<&str> {
    let call = plain(call);
    call.get("name").text().or_else(|| call.get("function").get("name").text()).or_else(|| built_in(call))
}

/// Returns the name of a tool that OpenAI executed itself, whose block has only a type.
fn built_in(block: &Node) -> Option<&str> {
    block.get("type").text().filter(|kind| BUILT_IN.contains(kind)).map(|kind| kind.trim_end_matches("_call"))
}

/// The position of a call.
struct Place<'a> {
    message: &'a Node,
    index: usize,
    row: Option<usize>,
}

fn made(name: &str, call: &Node, at: &Place<'_>, origin: &Origin<'_>, collector: &mut Collector<'_>) {
    let message_id = at.message.get("id").text();
    let id = plain(call).get("id").text().map(str::to_owned);
    if let Some(id) = &id {
        collector.has_call(id);
    }
    let id = id.or_else(|| message_id.map(|message| format!("{message}#{}", at.index)));
    // A call without an id in a state is identified by its position.
    let key = id.clone().or_else(|| at.row.map(|row| format!("{row}#{}", at.index)));
    if let Some(key) = key {
        let is_new = match message_id {
            Some(message) => collector.first_call_in(&key, name, message),
            None => collector.first_call(&key, name, None),
        };
        if !is_new {
            return;
        }
    }
    collector.asked_for(name);
    let reference = id.unwrap_or_else(|| format!("{}#{}", collector.path(), at.index));
    tool_call(name, reference, at.message.get("name").text(), origin, collector);
}

fn tool_call(
    name: &str,
    reference: String,
    message: Option<&str>,
    origin: &Origin<'_>,
    collector: &mut Collector<'_>,
) {
    let mut call = event(EventType::ToolCall);
    call.voice_name = collector.voice(origin.names(message));
    call.reference = Some(reference);
    call.action = Some(name.to_owned());
    call.occurred_at = origin.occurred_at.map(str::to_owned);
    collector.event(call);
}

/// Maps the calls in a state, whose messages are repeated in the next state.
pub(super) fn in_state(state: &Node, origin: &Origin<'_>, collector: &mut Collector<'_>) {
    for (_, value) in state.members() {
        for (index, message) in value.items().iter().enumerate() {
            if plain(message).has("tool_calls") || is_message(message) {
                in_message(message, origin, Some(index), collector);
            }
        }
    }
}

/// Maps an executed tool, as reported by `astream_events`: requested by a message, or by a node alone. A tool
/// that failed or handed off does not name its call; it counts as one of the requested calls, if there are
/// any.
pub(super) fn executed(
    name: Option<&str>,
    run: Option<&str>,
    output: &Node,
    origin: &Origin<'_>,
    collector: &mut Collector<'_>,
) {
    let asked = plain(output).get("tool_call_id").text();
    let (Some(name), Some(id)) = (name, asked.or(run)) else {
        collector.warn("nameless_call", "a tool call names no tool");
        return;
    };
    let is_new = collector.first_call(id, name, None);
    let was_asked_for = collector.was_asked_for(name);
    if is_new && (asked.is_some() || !was_asked_for) {
        collector.has_call(id);
        tool_call(name, id.to_owned(), None, origin, collector);
    }
}
