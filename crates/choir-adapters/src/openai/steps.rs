//! Run steps of the Assistants API. They are deprecated like that API; new integrations use Responses.

use crate::collector::{Collector, event};
use crate::node::Node;
use chorus_protocol::choir::evidence::EventType;

/// Maps one `thread.run.step`.
pub(super) fn map(step: &Node, collector: &mut Collector<'_>) {
    collector.warn(
        "deprecated_api",
        "run steps of the Assistants API are deprecated: bring Responses (openai.responses.v1) instead",
    );
    if !step.get("last_error").is_null() {
        collector.incomplete("a run step ended with an error");
        collector.warn("run_error", "a run step ended with an error");
    }
    if matches!(step.get("status").text(), Some("in_progress" | "failed" | "cancelled" | "expired")) {
        collector.incomplete("a run step was not completed");
    }
    let details = step.get("step_details");
    match details.get("type").text() {
        Some("message_creation") => {}
        Some("tool_calls") => {
            details.get("tool_calls").items().iter().for_each(|call| tool_call(call, collector));
        }
        Some(kind) => collector.warn("unmapped_item", format!("a run step of type \"{kind}\" is no event")),
        None => collector.warn("unmapped_item", "a run step has no details"),
    }
}

fn tool_call(call: &Node, collector: &mut Collector<'_>) {
    let name = match call.get("type").text() {
        Some("function") => call.get("function").get("name").text(),
        kind => kind,
    };
    let Some(name) = name else {
        return collector.warn("nameless_call", "a tool call of a run step names no tool");
    };
    let id = call.get("id").text();
    if id.is_some_and(|id| !collector.first_call(id, name, None)) {
        return;
    }
    let mut made = event(EventType::ToolCall);
    made.reference = Some(id.map_or_else(|| collector.path().to_owned(), str::to_owned));
    made.action = Some(name.to_owned());
    collector.event(made);
}
