//! Whether a run came to its end, as far as its stream shows: a trace that shows that it did not is not complete.

use crate::adapters::collector::Collector;
use crate::adapters::node::Node;
use std::collections::HashSet;

/// Tasks and runs whose ends are waited for.
const MAX_OPEN: usize = 10_000;

/// How far a run got.
#[derive(Default)]
pub(super) struct Progress {
    /// It stopped for somebody, and nothing came after that.
    pub(super) paused: bool,
    /// The last checkpoint names nodes that come next.
    goes_on: bool,
    /// Tasks and runs that began and did not end yet.
    open: HashSet<String>,
}

impl Progress {
    /// Notes whether the graph itself, and not one inside it, has come to its end.
    pub(super) fn checkpoint(&mut self, checkpoint: &Node, namespace: &[&str]) {
        if namespace.is_empty() && checkpoint.get("next").is_list() {
            self.goes_on = !checkpoint.get("next").items().is_empty();
        }
    }

    /// Notes that something began or ended. What is resumed begins again, and does not end twice.
    pub(super) fn opened(&mut self, key: &str, is_start: bool, collector: &mut Collector<'_>) {
        if !is_start {
            self.open.remove(key);
            collector.first(key);
        } else if self.open.len() < MAX_OPEN && !collector.told(key) {
            self.open.insert(key.to_owned());
        }
    }

    /// Why what was told cannot be all.
    pub(super) fn unfinished(&self) -> Option<&'static str> {
        if self.paused {
            Some("the run stopped for somebody to decide, and did not go on")
        } else if self.goes_on || !self.open.is_empty() {
            Some("something began and did not end: the stream was cut")
        } else {
            None
        }
    }
}
