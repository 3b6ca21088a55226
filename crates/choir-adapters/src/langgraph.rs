//! The adapter `langgraph.stream.v1`: the output of `graph.stream` and related methods, in all its envelopes.
//!
//! Modes come bare, as `[mode, data]`, with namespaces of subgraphs, as typed parts (`{type, ns, data}`), as
//! the platform's `{event, data}`, as `astream_events`, or as `astream_log`, which [`run_log`] reads. This
//! file reads modes and [`envelopes`] opens their envelopes; [`output`] maps a node's output, [`calls`] finds
//! tool calls in messages, and [`progress`] tracks whether the run has ended. A fact that is repeated in
//! another mode, by a parent graph or in the next snapshot counts once.

mod calls;
mod envelopes;
mod output;
mod progress;
mod run_log;

use super::clean::{self, explanation};
use super::collector::{Collector, event};
use super::node::{Keep, Node};
use super::records::Adapter;
use super::signs::is_message;
use chorus_protocol::choir::evidence::EventType;
use output::Told;
use progress::Progress;
use run_log::RunLog;

const MODES: [&str; 8] =
    ["updates", "values", "messages", "messages-tuple", "debug", "tasks", "checkpoints", "custom"];

/// The maximum number of members that are searched for an envelope's markers. Objects with more are no
/// envelopes.
const ENVELOPE: usize = 16;
/// The maximum depth of nested graphs that are distinguished. Deeper ones count as the last.
const DEEPEST_GRAPH: usize = 8;

/// The origin of an output.
#[derive(Debug, Clone, Copy, Default)]
struct Origin<'a> {
    /// The graphs around the node, outermost first, as `name:task`.
    namespace: &'a [&'a str],
    node: Option<&'a str>,
    /// The agent's own name, if it has one.
    agent: Option<&'a str>,
    occurred_at: Option<&'a str>,
    source: Source,
    /// Set if the graph had paused for a decision and this is its continuation.
    resumed: bool,
}

/// The mode that reported a node's output. One run may use several.
#[derive(Debug, Clone, Copy, Default)]
enum Source {
    #[default]
    Updates = 0,
    Tasks = 1,
    Events = 2,
    Debug = 3,
}

impl<'a> Origin<'a> {
    /// Returns the possible names of the voice, most likely first.
    fn names(&self, message: Option<&'a str>) -> [Option<&'a str>; 4] {
        [self.node, message, self.agent, self.namespace.first().map(|head| before_colon(head))]
    }
}

fn before_colon(text: &str) -> &str {
    text.split(':').next().unwrap_or(text)
}

#[derive(Default)]
pub(super) struct LangGraph {
    told: Told,
    /// The number of states without a node's name, and whether any output had one.
    snapshots: usize,
    nodes: bool,
    /// The number of messages that were streamed without the rest of their node's output.
    messages: usize,
    progress: Progress,
    /// Set if an interrupt was the last report.
    interrupted: bool,
    /// The newest state of a history, which comes first.
    newest: Option<Node>,
    run_log: RunLog,
}

impl Adapter for LangGraph {
    const RULE: super::node::Rule = rule;
    const TUPLES: bool = true;

    fn is_tuple(items: &[Node]) -> bool {
        match items {
            [Node::Text(mode), _] => is_mode(&mode.text),
            [namespace, data] => {
                (is_namespace(namespace) && (data.is_object() || data.is_list()))
                    || (is_message(namespace) && data.has("langgraph_node"))
            }
            [namespace, Node::Text(mode), _] if is_namespace(namespace) => is_mode(&mode.text),
            items => envelopes::is_part(items),
        }
    }

    fn record(&mut self, record: Node, collector: &mut Collector<'_>) {
        match &record {
            Node::Object(_) => self.object(&record, &[], collector),
            Node::List(items) => self.tuple(items, collector),
            Node::Text(_) => {
                collector.incomplete("some records are texts, which are not read");
                collector.warn(
                    "text_record",
                    "a record is a text (json.dumps(default=str) writes Python's repr): texts are never parsed",
                );
            }
            other => collector.warn("unmapped_record", format!("a record is {}", other.kind())),
        }
    }

    fn finish(&mut self, collector: &mut Collector<'_>) {
        if let Some(state) = self.newest.take() {
            self.snapshot(&state, &[], collector);
        }
        self.finish_log(collector);
        if let Some(why) = self.progress.unfinished() {
            collector.incomplete(why);
        }
        if collector.orphans() > 0 {
            collector.incomplete("results of tools stand without their calls");
            let count = collector.orphans();
            let message = format!(
                "results of tools stand without their calls, {count} in all, and are no events: subgraphs may have made \
                 them; stream with subgraphs=True"
            );
            collector.warn("result_without_call", message);
        }
        if self.snapshots > 0 && !self.nodes {
            collector.incomplete("states do not say which node did what");
            collector.warn(
                "snapshots_only",
                "states (stream_mode=\"values\") name no node: guards, retrievers, reviewers and escalations cannot \
                 be told from them; stream \"updates\"",
            );
        }
        if self.messages > 0 && !self.nodes {
            collector.incomplete("messages are not all that a node gives");
            collector.warn(
                "messages_only",
                "messages (stream_mode=\"messages\") hold nothing of guards, retrievers, reviewers and escalations; \
                 stream \"updates\" as well",
            );
        }
    }
}

/// Skips bodies, prompts and arguments.
fn rule(parent: Keep, name: &str, before: &[(Box<str>, Node)]) -> Keep {
    let after = |name: &str| before.iter().take(ENVELOPE).any(|(known, _)| **known == *name);
    match name {
        // Of a message's content only the types, names and ids of its blocks are kept.
        "content" | "additional_kwargs" => Keep::Blocks,
        _ if parent == Keep::Blocks => match name {
            "type" | "id" | "name" | "refusal" => Keep::All,
            "tool_calls" | "function_call" | "function" | "tool_outputs" => Keep::Blocks,
            _ => Keep::Skip,
        },
        "response_metadata" | "usage_metadata" | "args" | "arguments" | "page_content" | "artifact"
        | "tool_call_chunks" | "langgraph_path" | "langgraph_triggers" | "lc_versions" | "embedding"
        | "parent_config" | "config" => Keep::Skip,
        // This is the input state of a task, not a node with the name `input`.
        "input" if after("name") || after("output") => Keep::Skip,
        _ => parent,
    }
}

fn is_mode(text: &str) -> bool {
    MODES.contains(&text)
}

/// Returns `true` for a namespace: `[]` or `["node:task", …]`.
fn is_namespace(node: &Node) -> bool {
    node.is_list()
        && node.items().iter().all(|item| matches!(item, Node::Text(_)))
        && !node.items().first().and_then(Node::text).is_some_and(is_mode)
}

/// Returns `true` if a name can be that of a task: an identifier that envelopes do not use as a member.
fn is_step(name: &str) -> bool {
    let is_identifier = name.chars().all(|sign| sign.is_alphanumeric() || sign == '_');
    is_identifier
        && !matches!(name, "error" | "type" | "event" | "data" | "id" | "name" | "hello" | "message")
}

fn texts(node: &Node) -> Vec<&str> {
    node.items().iter().filter_map(Node::text).collect()
}

impl LangGraph {
    /// Maps a record, with the namespace of its tuple.
    fn object(&mut self, record: &Node, namespace: &[&str], collector: &mut Collector<'_>) {
        if self.run_log(record, collector) {
            return;
        }
        let (kind, data) = (record.get("type").text(), record.get("data"));
        match record.get("event").text() {
            Some(name) if name.starts_with("on_") => return self.stream_event(name, record, collector),
            Some(name) if record.has("data") => return self.named(name, data, collector),
            _ => {}
        }
        match kind {
            Some(mode) if record.has("ns") && record.has("data") => {
                let namespace = texts(record.get("ns"));
                self.part(mode, record, &namespace, collector);
            }
            Some("event") if record.get("params").is_object() => self.protocol_event(record, collector),
            Some(_) if record.has("payload") => self.debug(record, namespace, collector),
            _ if is_task(record) => {
                let source = Source::Tasks;
                self.task(record, &Origin { namespace, source, ..Origin::default() }, collector);
            }
            _ if record.has("values") && record.has("next") => {
                self.progress.checkpoint(record, namespace);
                self.snapshot(record.get("values"), namespace, collector);
            }
            _ if is_message(record) => {
                collector.recognise();
                self.messages += 1;
                calls::in_message(record, &Origin { namespace, ..Origin::default() }, None, collector);
            }
            _ => self.bare(record, namespace, collector),
        }
    }

    /// Maps the data of a named mode.
    fn mode(&mut self, mode: &str, data: &Node, namespace: &[&str], collector: &mut Collector<'_>) {
        collector.recognise();
        collector.told_in(mode);
        match mode {
            "updates" => self.updates(data, namespace, collector),
            "values" => self.snapshot(data, namespace, collector),
            "checkpoints" => {
                self.progress.checkpoint(data, namespace);
                self.snapshot(data.get("values"), namespace, collector);
            }
            "debug" => self.debug(data, namespace, collector),
            "tasks" => {
                let source = Source::Tasks;
                self.task(data, &Origin { namespace, source, ..Origin::default() }, collector);
            }
            "messages" | "messages-tuple" => match data.items() {
                [message, metadata] if !is_message(metadata) => {
                    self.said(message, metadata, namespace, collector);
                }
                [] if data.is_object() => self.said(data, &Node::Null, namespace, collector),
                _ => self.messages(data, namespace, collector),
            },
            "messages/partial" | "messages/complete" => self.messages(data, namespace, collector),
            "tools" => tool_started(data, namespace, collector),
            "input.requested" => {
                let origin = Origin { namespace, ..Origin::default() };
                self.interrupts(&Node::List(vec![data.clone()]), &origin, collector);
            }
            "lifecycle" if data.get("event").text() == Some("failed") => {
                collector.incomplete("a graph ended with an error");
                collector.warn("run_error", "a graph ended with an error");
            }
            // LangServe sends the patches of a log in this form.
            "events" | "data" => self.object(data, namespace, collector),
            "metadata" | "messages/metadata" | "end" | "feedback" | "heartbeat" | "lifecycle" => {}
            "error" => {
                collector.incomplete("the run ended with an error");
                collector.warn("run_error", "the run ended with an error");
            }
            mode if mode == "custom" || mode.starts_with("custom:") => {
                let what = if data.has("tool_calls") { ", not even with \"tool_calls\" in it" } else { "" };
                collector
                    .warn("custom_data", format!("what nodes write to the custom stream is no event{what}"));
            }
            other => {
                let other = clean::label(other).unwrap_or("…");
                collector.warn("unknown_mode", format!("\"{other}\" is no stream mode that is known here"));
            }
        }
    }

    /// Maps a record without a mode: updates of nodes, or a state.
    fn bare(&mut self, record: &Node, namespace: &[&str], collector: &mut Collector<'_>) {
        let members = record.members();
        let is_nested = |value: &Node| matches!(value, Node::Null | Node::Object(_) | Node::List(_));
        // Tasks of the functional API may return any value, so an object with one member can be a task's
        // result. Errors have the same form.
        let is_task = matches!(members, [(name, _)] if is_step(name));
        let is_state = record.get("messages").is_list()
            || (!is_task && members.iter().any(|(_, value)| !is_nested(value)));
        if record.has("__interrupt__") || (!members.is_empty() && !is_state) {
            self.updates(record, namespace, collector);
        } else if record.get("messages").is_list() || (is_state && holds_messages(record)) {
            self.snapshot(record, namespace, collector);
        } else {
            let names: Vec<_> = members.iter().take(4).filter_map(|(name, _)| clean::label(name)).collect();
            let message =
                format!("a record is neither an update of a node nor an envelope ({})", names.join(", "));
            collector.warn("unmapped_record", message);
        }
    }

    fn updates(&mut self, data: &Node, namespace: &[&str], collector: &mut Collector<'_>) {
        let origin = Origin { namespace, ..Origin::default() };
        match data {
            Node::Object(members) => {
                for (name, output) in members {
                    match &**name {
                        "__interrupt__" => self.interrupts(output, &origin, collector),
                        "__metadata__" | "__end__" => {}
                        "__start__" | "__root__" => self.output(output, &origin, collector),
                        node => self.output(output, &Origin { node: Some(node), ..origin }, collector),
                    }
                }
            }
            Node::Null => {}
            other => collector.warn("odd_update", format!("an update is {}", other.kind())),
        }
    }

    fn debug(&mut self, record: &Node, namespace: &[&str], collector: &mut Collector<'_>) {
        let payload = record.get("payload");
        let occurred_at = record.get("timestamp").text();
        match record.get("type").text() {
            Some("checkpoint") => {
                collector.recognise();
                self.progress.checkpoint(payload, namespace);
                calls::in_state(payload.get("values"), &Origin { namespace, ..Origin::default() }, collector);
            }
            Some("task" | "task_result") => {
                let source = Source::Debug;
                self.task(
                    payload,
                    &Origin { namespace, occurred_at, source, ..Origin::default() },
                    collector,
                );
            }
            other => {
                let other = other.map_or("nothing", |other| clean::label(other).unwrap_or("…"));
                collector.warn("unmapped_record", format!("a record of type \"{other}\" is not known here"));
            }
        }
    }

    /// Maps a task: its start, which carries nothing, or its result.
    fn task(&mut self, task: &Node, origin: &Origin<'_>, collector: &mut Collector<'_>) {
        collector.recognise();
        let origin = Origin { node: task.get("name").text(), ..*origin };
        let is_start = !task.has("result") && !task.has("error");
        if let Some(id) = task.get("id").text() {
            self.progress.opened(&format!("task:{id}"), is_start, collector);
        }
        if is_start {
            return;
        }
        if !task.get("error").is_null() {
            collector.incomplete("a node ended with an error");
            let node = origin.node.unwrap_or("?");
            collector.warn("node_error", format!("node \"{node}\" ended with an error"));
        }
        let interrupts = task.get("interrupts");
        self.output(task.get("result"), &origin, collector);
        if !interrupts.items().is_empty() {
            self.interrupts(interrupts, &origin, collector);
        }
    }

    /// Maps a state. It names no node, so only its tool calls are mapped.
    fn snapshot(&mut self, state: &Node, namespace: &[&str], collector: &mut Collector<'_>) {
        collector.recognise();
        self.snapshots += 1;
        self.progress.paused &= state.is_null();
        let origin = Origin { namespace, ..Origin::default() };
        if state.has("__interrupt__") {
            self.interrupts(state.get("__interrupt__"), &origin, collector);
        }
        calls::in_state(state, &origin, collector);
    }

    fn output(&mut self, output: &Node, origin: &Origin<'_>, collector: &mut Collector<'_>) {
        self.nodes |= origin.node.is_some();
        self.progress.paused = false;
        collector.recognise();
        if origin.node.is_some() {
            collector.took_part(origin.names(None));
        }
        if self.told.is_new(origin) {
            let resumed = std::mem::take(&mut self.interrupted);
            output::map(output, &Origin { resumed, ..*origin }, collector);
        }
    }

    /// Maps interrupts, at which the graph waits for a decision. The list is empty if it stopped before a
    /// node.
    fn interrupts(&mut self, list: &Node, origin: &Origin<'_>, collector: &mut Collector<'_>) {
        collector.recognise();
        self.progress.paused = true;
        self.interrupted = true;
        let anonymous = self.told.is_new(&Origin { node: Some("__interrupt__"), ..*origin });
        let items = list.items();
        for (index, item) in items.iter().enumerate() {
            let item = calls::plain(item);
            let id =
                item.get("id").text().or_else(|| item.get("interrupt_id").text()).or_else(|| repr_id(item));
            let is_new = id.map_or(anonymous, |id| collector.first(&format!("interrupt:{id}")));
            if is_new {
                let graphs = texts(item.get("ns"));
                let node = origin.node.or_else(|| graphs.last().map(|graph| before_colon(graph)));
                let place = format!("{}.__interrupt__[{index}]", collector.path());
                escalate(item, id.map_or(place, str::to_owned), &Origin { node, ..*origin }, collector);
            }
        }
        if items.is_empty() && anonymous {
            escalate(&Node::Null, format!("{}.__interrupt__", collector.path()), origin, collector);
        }
    }

    /// Maps an event of `astream_events`.
    fn stream_event(&mut self, kind: &str, record: &Node, collector: &mut Collector<'_>) {
        collector.recognise();
        let (name, metadata, data) = (record.get("name").text(), record.get("metadata"), record.get("data"));
        let graphs: Vec<_> =
            metadata.get("langgraph_checkpoint_ns").text().unwrap_or_default().split('|').collect();
        let origin = Origin {
            namespace: &graphs[..graphs.len() - 1],
            node: metadata.get("langgraph_node").text(),
            agent: metadata.get("lc_agent_name").text(),
            source: Source::Events,
            ..Origin::default()
        };
        self.nodes |= origin.node.is_some();
        if let (Some(run), true) = (record.get("run_id").text(), kind.starts_with("on_chain_")) {
            match kind {
                "on_chain_start" => self.progress.opened(&format!("run:{run}"), true, collector),
                "on_chain_end" => self.progress.opened(&format!("run:{run}"), false, collector),
                _ => {}
            }
        }
        let interrupts = data.get("chunk").get("__interrupt__");
        if interrupts.is_list() {
            self.interrupts(interrupts, &origin, collector);
        }
        match kind {
            // This is the end of the node itself, not of a run inside it.
            "on_chain_end" if name.is_some() && name == origin.node => {
                self.output(data.get("output"), &origin, collector);
            }
            "on_chat_model_end" => calls::in_message(data.get("output"), &origin, None, collector),
            "on_tool_end" | "on_tool_error" => {
                let run = record.get("run_id").text();
                calls::executed(name, run, data.get("output"), &origin, collector);
            }
            "on_retriever_end" => output::retrieved(data.get("output"), name, &origin, collector),
            _ => {}
        }
    }
}

/// Returns `true` for a state that keeps its messages under another name.
fn holds_messages(state: &Node) -> bool {
    state.members().iter().any(|(_, value)| value.items().iter().any(|item| is_message(calls::plain(item))))
}

/// Maps the start of a tool. Its end carries nothing more.
fn tool_started(data: &Node, namespace: &[&str], collector: &mut Collector<'_>) {
    if data.get("event").text() == Some("tool-started") {
        let origin = Origin { namespace, ..Origin::default() };
        let (name, id) = (data.get("tool_name").text(), data.get("tool_call_id").text());
        calls::executed(name, id, &Node::Null, &origin, collector);
    }
}

/// Returns `true` for a task of the `tasks` mode, which has a name and either triggers or a result.
fn is_task(record: &Node) -> bool {
    record.get("name").text().is_some()
        && record.has("id")
        && (record.has("triggers") || (record.has("result") && record.has("interrupts")))
}

/// Returns the id in Python's repr of an interrupt, as written by `json.dumps(default=str)`. Nothing else of
/// it is read; the id identifies the interrupt in other modes.
fn repr_id(item: &Node) -> Option<&str> {
    let Node::Text(text) = item else { return None };
    let (_, rest) = text.text.strip_prefix("Interrupt(")?.rsplit_once(", id='")?;
    let id = rest.split('\'').next()?;
    (!id.is_empty() && id.chars().all(|sign| sign.is_ascii_alphanumeric() || sign == '-')).then_some(id)
}

/// Adds an escalation. The reason is copied; the question and its subject are prompts and are not.
fn escalate(item: &Node, reference: String, origin: &Origin<'_>, collector: &mut Collector<'_>) {
    let value = item.member("value").unwrap_or_else(|| item.get("payload"));
    let request = value.get("action_requests").items().first().unwrap_or(value);
    let mut escalation = event(EventType::Escalation);
    escalation.voice_name = collector.voice(origin.names(None));
    escalation.reference = Some(reference);
    escalation.detail = explanation(request.get("reason")).map(str::to_owned);
    escalation.action = request.get("name").text().map(str::to_owned);
    escalation.occurred_at = origin.occurred_at.map(str::to_owned);
    collector.event(escalation);
}
