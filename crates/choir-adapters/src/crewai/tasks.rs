//! Maps the structured output of tasks: cited sources and reviews. The text of an output is not read.

use super::{Record, dissent};
use crate::collector::Collector;
use crate::node::Node;
use crate::signs::is_reviewer;
use crate::sources::{Citing, cite};

const CITED: [&str; 4] = ["citations", "sources", "knowledge", "references"];

/// Returns `true` for the output of a task or of a crew's kickoff.
pub(super) fn is_output(node: &Node) -> bool {
    let structured = node.has("pydantic") || node.has("json_dict");
    (structured && (node.has("raw") || node.has("output_format")))
        || CITED.iter().any(|member| node.has(member))
}

/// Maps the sources and reviews in one output.
pub(super) fn map(output: &Node, record: &Record<'_>, collector: &mut Collector<'_>) {
    let reviewer = names(output, record).into_iter().flatten().any(is_reviewer);
    let lost =
        output.get("output_format").text() == Some("pydantic") && output.get("pydantic").members().is_empty();
    if lost {
        collector.warn(
            "lost_fields",
            "a task's pydantic output is empty: model_dump() loses it without serialize_as_any=True",
        );
    }
    // Structured output is in one of two members, or the caller put it beside them.
    let holders = [output.get("pydantic"), output.get("json_dict"), output];
    for member in CITED {
        if let Some(holder) = holders.iter().find(|holder| holder.has(member)) {
            sources(holder.get(member), member, output, record, collector);
        }
    }
    if reviewer {
        let holder = holders.into_iter().find(|holder| holder.is_object() && !holder.members().is_empty());
        dissent(holder.unwrap_or(output), record, collector);
    }
}

/// Maps the task outputs in a crew's end, if they were not reported one by one.
pub(super) fn of_crew(record: &Record<'_>, collector: &mut Collector<'_>) {
    let (place, output) = (collector.path().to_owned(), record.get("output"));
    let tasks = output.get("tasks_output").items();
    for (index, task) in tasks.iter().enumerate() {
        collector.at(format!("{place}.output.tasks_output[{index}]"));
        map(task, &Record { node: task, outer: &Node::Null }, collector);
    }
    collector.at(place);
    if tasks.is_empty() {
        map(output, &Record { node: output, outer: record.node }, collector);
    }
}

/// Maps knowledge that an agent received. A single text of passages names no source.
pub(super) fn retrieved(record: &Record<'_>, collector: &mut Collector<'_>) {
    match record.get("retrieved_knowledge") {
        found @ (Node::List(_) | Node::Object(_)) => {
            sources(found, "retrieved_knowledge", &Node::Null, record, collector);
        }
        found if found.text().is_some() => collector.warn(
            "nameless_knowledge",
            "knowledge was retrieved as one text: that names no source, and is no event",
        ),
        _ => {}
    }
}

/// Returns the possible authors: an agent's role, or a task whose name is one word.
fn names<'a>(output: &'a Node, record: &Record<'a>) -> [Option<&'a str>; 2] {
    let who = record.names().into_iter().flatten().next();
    [who, output.get("name").text().filter(|name| !name.trim().contains(char::is_whitespace))]
}

fn sources(node: &Node, member: &str, output: &Node, record: &Record<'_>, collector: &mut Collector<'_>) {
    if node.is_null() || matches!(node, Node::List(items) if items.is_empty()) {
        return;
    }
    let place = collector.path().to_owned();
    let citing = Citing {
        voice: collector.voice(record.names()),
        who: record.id().or_else(|| output.get("name").text()).unwrap_or(&place),
        member,
        occurred_at: record.text("timestamp").map(str::to_owned),
    };
    cite(node, &citing, collector, |_, _| false);
}
