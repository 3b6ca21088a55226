//! `astream_log`: a run as JSON patches of its log, with or without the resulting log, or the log alone.
//!
//! The log has an entry for each run inside the whole, with its result in `final_output`. The stream of the
//! whole repeats the outputs of the graph's own nodes and adds what their entries lack: commands, which are
//! texts in them, and interrupts.

use super::{LangGraph, Origin, Source, calls, output};
use crate::collector::Collector;
use crate::node::Node;
use crate::records::Adapter as _;
use crate::signs::is_message;
use std::collections::{HashMap, HashSet};

/// The maximum number of open entries, and of nodes of one graph.
const MAX_ENTRIES: usize = 10_000;

/// The state of a log.
#[derive(Default)]
pub(super) struct RunLog {
    /// The unfinished entries, by their name in the log.
    open: HashMap<String, Entry>,
    /// The graph's own nodes, and those whose entry ended without a result.
    nodes: HashSet<String>,
    silent: HashSet<String>,
    /// The id of the run, and the number of streamed items that were read, for logs that are reported
    /// repeatedly.
    run: String,
    streamed: usize,
}

/// A run inside the whole.
struct Entry {
    id: Option<String>,
    name: Option<String>,
    kind: Option<String>,
    node: Option<String>,
    agent: Option<String>,
    began: Option<String>,
    /// The graphs around its node.
    graphs: Vec<String>,
}

impl Entry {
    fn read(entry: &Node) -> Self {
        let own = |node: &Node| node.text().map(str::to_owned);
        let metadata = entry.get("metadata");
        let around = metadata.get("langgraph_checkpoint_ns").text().unwrap_or_default();
        let mut graphs: Vec<_> = around.split('|').map(str::to_owned).collect();
        // The last one is the node's own task.
        graphs.pop();
        Self {
            id: own(entry.get("id")),
            name: own(entry.get("name")),
            kind: own(entry.get("type")),
            node: own(metadata.get("langgraph_node")),
            agent: own(metadata.get("lc_agent_name")),
            began: own(entry.get("start_time")),
            graphs,
        }
    }

    /// Returns `true` for a node's own run, as opposed to a run inside it.
    fn is_node(&self) -> bool {
        self.kind.as_deref() == Some("chain") && self.node.is_some() && self.node == self.name
    }
}

fn is_log(node: &Node) -> bool {
    node.get("logs").is_object() && node.get("streamed_output").is_list()
}

fn is_patch(node: &Node) -> bool {
    // The path of the whole log is empty.
    node.get("op").text().is_some() && matches!(node.get("path"), Node::Text(_))
}

impl LangGraph {
    /// Maps a record of `astream_log`. Returns `false` if it is none.
    pub(super) fn run_log(&mut self, record: &Node, collector: &mut Collector<'_>) -> bool {
        let (ops, state) = (record.get("ops").items(), record.get("state"));
        if is_log(state) {
            // The log already includes the patches beside it.
            self.log(state, collector);
        } else if is_log(record) {
            self.log(record, collector);
        } else if !ops.is_empty() && ops.iter().all(is_patch) {
            for patch in ops {
                self.patch(patch, collector);
            }
        } else if is_patch(record) {
            self.patch(record, collector);
        } else {
            return false;
        }
        collector.recognise();
        true
    }

    fn patch(&mut self, patch: &Node, collector: &mut Collector<'_>) {
        let (path, value) = (patch.get("path").text().unwrap_or_default(), patch.get("value"));
        if !matches!(patch.get("op").text(), Some("add" | "replace")) {
            return collector.warn("unmapped_patch", "a patch of the log neither adds nor replaces anything");
        }
        match path {
            "" => return self.log(value, collector),
            "/streamed_output/-" => return self.streamed(value, collector),
            "/final_output" => return,
            _ => {}
        }
        let Some(place) = path.strip_prefix("/logs/") else {
            return collector.warn("unmapped_patch", "a patch is of no part of a log that is known here");
        };
        // Names may contain any character, a slash too, so the end of the path decides.
        if let Some(name) = place.strip_suffix("/final_output") {
            self.came_to(name, value, collector);
        } else if let Some(name) = place.strip_suffix("/end_time") {
            self.ended(name, collector);
        } else if !place.ends_with("/streamed_output/-") && !place.ends_with("/streamed_output_str/-") {
            self.began(place, value, collector);
        }
    }

    /// Maps the current state of the log, without what was read of it before.
    fn log(&mut self, log: &Node, collector: &mut Collector<'_>) {
        let run = log.get("id").text().unwrap_or_default();
        if run != self.run_log.run {
            run.clone_into(&mut self.run_log.run);
            self.run_log.streamed = 0;
            self.run_log.open.clear();
        }
        for (name, entry) in log.get("logs").members() {
            let ended = !entry.get("end_time").is_null();
            let is_new = |id| collector.first(&format!("entry:{id}"));
            if ended && !entry.get("id").text().is_none_or(is_new) {
                continue;
            }
            self.began(name, entry, collector);
            if ended {
                self.came_to(name, entry.get("final_output"), collector);
                self.ended(name, collector);
            }
        }
        let chunks = log.get("streamed_output").items();
        for chunk in chunks.iter().skip(self.run_log.streamed) {
            self.streamed(chunk, collector);
        }
        self.run_log.streamed = self.run_log.streamed.max(chunks.len());
    }

    fn began(&mut self, name: &str, entry: &Node, collector: &mut Collector<'_>) {
        let entry = Entry::read(entry);
        if let Some(id) = &entry.id {
            self.progress.opened(&format!("run:{id}"), true, collector);
        }
        let RunLog { open, nodes, .. } = &mut self.run_log;
        if let Some(node) = entry.node.as_ref().filter(|_| entry.is_node() && entry.graphs.is_empty())
            && nodes.len() < MAX_ENTRIES
        {
            nodes.insert(node.clone());
        }
        if open.len() < MAX_ENTRIES {
            open.insert(name.to_owned(), entry);
        }
    }

    fn ended(&mut self, name: &str, collector: &mut Collector<'_>) {
        if let Some(id) = self.run_log.open.remove(name).and_then(|entry| entry.id) {
            self.progress.opened(&format!("run:{id}"), false, collector);
        }
    }

    /// Maps the result of an entry by its kind.
    fn came_to(&mut self, name: &str, value: &Node, collector: &mut Collector<'_>) {
        let Some(entry) = self.run_log.open.remove(name) else {
            return collector.warn("unknown_entry", "a patch is of an entry that the log does not have");
        };
        let graphs: Vec<_> = entry.graphs.iter().map(String::as_str).collect();
        let origin = Origin {
            namespace: &graphs,
            node: entry.node.as_deref(),
            agent: entry.agent.as_deref(),
            occurred_at: entry.began.as_deref(),
            source: Source::Events,
            ..Origin::default()
        };
        let (own, id) = (entry.name.as_deref(), entry.id.as_deref());
        match entry.kind.as_deref() {
            Some("llm" | "chat_model") => {
                for generation in value.get("generations").items().iter().flat_map(Node::items) {
                    calls::in_message(generation.get("message"), &origin, None, collector);
                }
            }
            // A failed tool was called nevertheless.
            Some("tool") => calls::executed(own, id, value.get("output"), &origin, collector),
            Some("retriever") => output::retrieved(value.get("documents"), own, &origin, collector),
            Some(_) if entry.is_node() => self.node_came_to(value, &origin, collector),
            _ => {}
        }
        self.run_log.open.insert(name.to_owned(), entry);
    }

    fn node_came_to(&mut self, value: &Node, origin: &Origin<'_>, collector: &mut Collector<'_>) {
        // A value that is not an object is wrapped. Of a command written as an object, the update is the
        // output.
        let told = match value.members() {
            [(name, inner)] if &**name == "output" && (inner.has("update") || !inner.is_object()) => {
                if inner.has("update") { inner.get("update") } else { inner }
            }
            _ => value,
        };
        // The node failed, paused or returned a text. For the graph's own nodes the stream of the whole has
        // more.
        let is_empty = told.is_object() && told.members().is_empty();
        let says_nothing = is_empty || matches!(told, Node::Text(_) | Node::Null);
        if let Some(node) = origin.node.filter(|_| says_nothing && origin.namespace.is_empty()) {
            self.run_log.silent.insert(node.to_owned());
        } else {
            self.output(told, origin, collector);
        }
    }

    /// Maps an item of the whole run's stream.
    fn streamed(&mut self, chunk: &Node, collector: &mut Collector<'_>) {
        let log = &mut self.run_log;
        let is_told = |name: &str| name.starts_with("__") || log.nodes.contains(name);
        match chunk {
            Node::Object(members) if members.is_empty() => {}
            Node::Object(members) if members.iter().all(|(name, _)| is_told(name)) => {
                if chunk.has("__interrupt__") {
                    // The node paused and did not fail.
                    log.silent.clear();
                }
                log.silent.retain(|node| !chunk.has(node));
                self.updates(chunk, &[], collector);
            }
            Node::Object(_) if is_message(calls::plain(chunk)) => {
                self.said(chunk, &Node::Null, &[], collector);
            }
            Node::List(items) if Self::is_tuple(items) => self.tuple(items, collector),
            Node::Object(_) | Node::List(_) => collector.warn(
                "unmapped_output",
                "what a run streams as a whole is neither a message nor of nodes that its log knows",
            ),
            // These are pieces of an answer's text.
            Node::Text(_) | Node::Null | Node::Bool(_) | Node::Integer(_) | Node::Float | Node::Omitted => {}
        }
    }

    /// Warns about nodes without a known result.
    pub(super) fn finish_log(&self, collector: &mut Collector<'_>) {
        let mut silent: Vec<_> = self.run_log.silent.iter().collect();
        silent.sort_unstable();
        for node in silent {
            collector.incomplete("a node ended without saying what came of it");
            collector
                .warn("silent_node", format!("node \"{node}\" failed, or what it returned cannot be read"));
        }
    }
}
