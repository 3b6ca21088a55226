//! Renewals: while a turn runs, its claim is renewed, and the deadline of its messages moves, after half of a
//! claim's time.
//!
//! A claim that another has meanwhile is lost: the running turn is told, and its answer is dropped.

use super::Core;
use super::event::Command;
use super::notice::{claim, worked_on};
use super::post::{Post, Posted, To};
use super::task::Task;
use crate::harness::turn::{Back, Turn};
use chorus_protocol::c2a::CLAIM_TTL_MS;
use chorus_protocol::channel::{CallbackEvent, Lifecycle};
use chorus_protocol::words::{Directedness, EntryKind, Reason};

/// The time between two renewals.
const RENEW_MS: i64 = CLAIM_TTL_MS / 2;

/// The time before a renewal that failed is tried again.
const RETRY_MS: i64 = 10_000;

impl Task {
    /// Returns the time of the next renewal.
    pub(super) fn renewal_due_ms(&self) -> Option<i64> {
        let waits = self.running && self.renewal.is_none() && self.lost.is_none();
        self.renew_at_ms.filter(|_| waits)
    }

    /// Starts the time of the first renewal, for a turn that was just started.
    pub(super) fn keep_claim(&mut self, now_ms: i64) {
        self.renew_at_ms = Some(now_ms + RENEW_MS);
    }

    /// Handles the result of a renewal.
    pub(super) fn renewed(&mut self, posted: Posted, now_ms: i64, out: &mut Vec<Command>) {
        self.renewal = None;
        match posted {
            Posted::Taken { why, .. } if self.running && self.lost.is_none() => {
                self.lost = Some(format!("it is not ours any more: {why}"));
                out.push(Command::GiveUp { task: self.number });
            }
            Posted::Failed { retry_after_ms: Some(_), .. } => self.renew_at_ms = Some(now_ms + RETRY_MS),
            // A renewal that cannot succeed is tried again at its usual time: the claim may not be needed.
            _ => {}
        }
    }

    /// Checks whether the message is for whoever claims it, so that the answer needs the claim.
    fn needs_claim(&self) -> bool {
        let for_several = matches!(self.turn.reason, Some(Reason::RoleMention | Reason::StreamOwner));
        self.turn.directedness != Some(Directedness::ToMe) && (self.claimed || for_several)
    }
}

impl Core {
    /// Sends the renewal of a task if it is due.
    pub(super) fn renew(&mut self, task: &mut Task, now_ms: i64, out: &mut Vec<Command>) {
        if task.renewal_due_ms().is_none_or(|due_ms| due_ms > now_ms) {
            return;
        }
        let Some(to) = self.renewal(task, now_ms) else { return task.renew_at_ms = None };
        self.posts += 1;
        (task.renewal, task.renew_at_ms) = (Some(self.posts), Some(now_ms + RENEW_MS));
        out.push(Command::Post(Post { number: self.posts, to }));
    }

    /// Returns the request that renews the claim of a task, or reports that it works on its messages.
    fn renewal(&self, task: &Task, now_ms: i64) -> Option<To> {
        let at_hub = match &task.turn.back {
            Back::Session(_) => task.turn.kind == EntryKind::Chat,
            Back::Callback(_) => task.turn.kind == EntryKind::Chat && self.profile.hub.is_some(),
            Back::Envelope(_) => return None,
        };
        if at_hub && task.needs_claim() {
            return Some(claim(&task.turn, now_ms).to);
        }
        if at_hub {
            return Some(worked_on(task));
        }
        let Turn { back: Back::Callback(url), .. } = &task.turn else { return None };
        let event = CallbackEvent::Lifecycle { status: Lifecycle::Processing };
        Some(To::Callback { url: url.clone(), key: self.environment.random_hex(), event })
    }
}
