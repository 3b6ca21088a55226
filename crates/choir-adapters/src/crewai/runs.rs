//! Tracks whether crews and flows that began have ended. Otherwise the trace is incomplete.

use super::kinds::Kind;
use std::collections::HashSet;

/// The maximum number of flows that are remembered.
const MAX_FLOWS: usize = 1000;

/// The unfinished runs.
#[derive(Default)]
pub(super) struct Runs {
    /// The number of running crews. Crews with the same name may run in parallel.
    crews: u32,
    /// The names of running flows. A flow that continues begins again.
    flows: HashSet<String>,
    paused: bool,
    failed: bool,
}

impl Runs {
    /// Records an event of this kind about a crew or flow of this name.
    pub(super) fn note(&mut self, meaning: Kind, kind: &str, name: Option<&str>) {
        let flow = kind.starts_with("flow_").then(|| name.unwrap_or_default().to_owned());
        match (meaning, flow) {
            (Kind::RunStarted, Some(flow)) if self.flows.len() < MAX_FLOWS => {
                self.flows.insert(flow);
            }
            (Kind::RunStarted, None) => self.crews += 1,
            (Kind::RunEnded, Some(flow)) => {
                self.flows.remove(&flow);
                self.paused = false;
            }
            (Kind::KickoffCompleted, _) => self.crews = self.crews.saturating_sub(1),
            (Kind::RunFailed, _) => self.failed = true,
            (Kind::Paused, _) => self.paused = true,
            (Kind::HumanAnswered, _) => self.paused = false,
            _ => {}
        }
    }

    /// Returns the reason why the trace is incomplete, if it is.
    pub(super) fn unfinished(&self) -> Option<&'static str> {
        if self.failed {
            Some("the run failed")
        } else if self.paused {
            Some("a flow stopped for somebody to decide, and did not go on")
        } else if self.crews > 0 || !self.flows.is_empty() {
            Some("a crew or flow began and did not end")
        } else {
            None
        }
    }
}
