//! The envelopes of LangGraph's stream modes: tuples, parts of its SDK, events of its protocol, and a thread's
//! history.

use super::{LangGraph, Origin, Source, calls, is_mode, is_namespace, texts};
use crate::collector::Collector;
use crate::node::Node;

/// The names of platform events that are no modes.
const EVENTS: [&str; 7] =
    ["metadata", "messages/partial", "messages/complete", "messages/metadata", "events", "error", "end"];

/// Returns `true` for a part of the SDK: `[event, data, id]`.
pub(super) fn is_part(items: &[Node]) -> bool {
    let is_event = |name: &str| {
        let name = name.split('|').next().unwrap_or_default();
        is_mode(name) || EVENTS.contains(&name)
    };
    matches!(items, [Node::Text(name), _, Node::Null | Node::Text(_)] if is_event(&name.text))
}

impl LangGraph {
    pub(super) fn tuple(&mut self, items: &[Node], collector: &mut Collector<'_>) {
        match items {
            [Node::Text(mode), data] if is_mode(&mode.text) => self.mode(&mode.text, data, &[], collector),
            [namespace, Node::Text(mode), data] if is_namespace(namespace) => {
                self.mode(&mode.text, data, &texts(namespace), collector);
            }
            [namespace, data] if is_namespace(namespace) => {
                if data.is_list() {
                    self.mode("messages", data, &texts(namespace), collector);
                } else {
                    self.object(data, &texts(namespace), collector);
                }
            }
            [Node::Text(name), data, _] if is_part(items) => self.named(&name.text, data, collector),
            [values, next, _, _, _, _, tasks, rest @ ..] if values.is_object() && is_namespace(next) => {
                self.history(values, next, tasks, rest.first(), collector);
            }
            [message, metadata] if message.is_object() && metadata.is_object() => {
                self.said(message, metadata, &[], collector);
            }
            _ => collector.warn("unmapped_record", "a record is a list in no shape that LangGraph streams"),
        }
    }

    /// Maps an event of the platform. A namespace may follow its name: `updates|graph:task`.
    pub(super) fn named(&mut self, name: &str, data: &Node, collector: &mut Collector<'_>) {
        let mut parts = name.split('|');
        let mode = parts.next().unwrap_or_default();
        self.mode(mode, data, &parts.collect::<Vec<_>>(), collector);
    }

    /// Maps the data of a mode in an object that may carry interrupts beside it, as a state does.
    pub(super) fn part(
        &mut self,
        mode: &str,
        part: &Node,
        namespace: &[&str],
        collector: &mut Collector<'_>,
    ) {
        if !part.get("interrupts").items().is_empty() {
            let origin = Origin { namespace, ..Origin::default() };
            self.interrupts(part.get("interrupts"), &origin, collector);
        }
        self.mode(mode, part.get("data"), namespace, collector);
    }

    /// Maps `{type: "event", method, params: {namespace, data}}`, as sent by `astream_events(version="v3")`
    /// and newer servers.
    pub(super) fn protocol_event(&mut self, record: &Node, collector: &mut Collector<'_>) {
        let params = record.get("params");
        let namespace = texts(params.get("namespace"));
        self.part(record.get("method").text().unwrap_or_default(), params, &namespace, collector);
    }

    /// Maps one state of a thread's history, which begins with the newest. The results of its tasks belong to
    /// their nodes; everything else in the newest state has no voice.
    fn history(
        &mut self,
        values: &Node,
        next: &Node,
        tasks: &Node,
        interrupts: Option<&Node>,
        collector: &mut Collector<'_>,
    ) {
        collector.recognise();
        let is_newest = self.newest.is_none();
        let paused = self.progress.paused;
        for task in tasks.items() {
            // The members are id, name, path, error, interrupts, state and result.
            let [_, name, _, error, _, _, result, ..] = task.items() else { continue };
            if !error.is_null() {
                collector.incomplete("a node ended with an error");
                collector.warn(
                    "node_error",
                    format!("node \"{}\" ended with an error", name.text().unwrap_or("?")),
                );
            }
            let node = name.text().filter(|name| *name != "__start__");
            self.output(result, &Origin { node, source: Source::Tasks, ..Origin::default() }, collector);
        }
        if let Some(list) = interrupts.filter(|list| !list.items().is_empty()) {
            self.interrupts(list, &Origin::default(), collector);
        }
        if is_newest {
            let state = Node::Object(vec![("next".into(), next.clone())]);
            self.progress.checkpoint(&state, &[]);
            self.newest = Some(values.clone());
        } else {
            // Pauses before the newest state are over.
            (self.progress.paused, self.interrupted) = (paused, false);
        }
    }
}

impl LangGraph {
    /// Maps a message, with its voice from the metadata.
    pub(super) fn said(
        &mut self,
        message: &Node,
        metadata: &Node,
        namespace: &[&str],
        collector: &mut Collector<'_>,
    ) {
        collector.recognise();
        self.messages += 1;
        let graphs: Vec<_> =
            metadata.get("langgraph_checkpoint_ns").text().unwrap_or_default().split('|').collect();
        // The last one is the node's own task.
        let around = if namespace.is_empty() { &graphs[..graphs.len() - 1] } else { namespace };
        let origin = Origin {
            namespace: around,
            node: metadata.get("langgraph_node").text(),
            agent: metadata.get("lc_agent_name").text(),
            ..Origin::default()
        };
        if message.get("event").text() == Some("content-block-finish") {
            calls::alone(message.get("content"), 0, &origin, collector);
        }
        calls::in_message(message, &origin, None, collector);
    }

    /// Maps messages without metadata, which repeat everything streamed so far.
    pub(super) fn messages(&mut self, data: &Node, namespace: &[&str], collector: &mut Collector<'_>) {
        let origin = Origin { namespace, ..Origin::default() };
        self.messages += 1;
        for (index, message) in data.items().iter().enumerate() {
            calls::in_message(message, &origin, Some(index), collector);
        }
    }
}
