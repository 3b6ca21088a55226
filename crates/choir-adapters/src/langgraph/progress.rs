//! Tracks whether a run has ended, as far as its stream shows. A trace of an unfinished run is incomplete.

use crate::collector::Collector;
use crate::node::Node;
use std::collections::HashSet;

/// The maximum number of tasks and runs that are tracked.
const MAX_OPEN: usize = 10_000;

/// The progress of a run.
#[derive(Default)]
pub(super) struct Progress {
    /// Set if the run paused for a person and nothing followed.
    pub(super) paused: bool,
    /// Set if the last checkpoint names further nodes.
    goes_on: bool,
    /// The tasks and runs that have begun and not ended.
    open: HashSet<String>,
}

impl Progress {
    /// Records from a checkpoint whether the outermost graph has ended.
    pub(super) fn checkpoint(&mut self, checkpoint: &Node, namespace: &[&str]) {
        if namespace.is_empty() && checkpoint.get("next").is_list() {
            self.goes_on = !checkpoint.get("next").items().is_empty();
        }
    }

    /// Records a beginning or an end. A resumed task begins again and does not end twice.
    pub(super) fn opened(&mut self, key: &str, is_start: bool, collector: &mut Collector<'_>) {
        if !is_start {
            self.open.remove(key);
            collector.first(key);
        } else if self.open.len() < MAX_OPEN && !collector.told(key) {
            self.open.insert(key.to_owned());
        }
    }

    /// Returns the reason why the trace is incomplete, if it is.
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
