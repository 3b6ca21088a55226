//! Arriving messages: new, known, a piece of another, an edit, or a withdrawal.

use super::Core;
use super::event::Command;
use super::line::Batch;
use super::task::{Step, Task, Verdict};
use crate::harness::activity::Activity;
use crate::harness::ledger::{End, Known, Record, Taken};
use crate::harness::turn::Turn;
use chorus_attention::turn::LONGEST_MS;
use chorus_protocol::c2a::Claimed;
use chorus_protocol::words::{Disposition, Reason};

impl Core {
    /// Handles a message from the inbox.
    pub(super) fn arrived(
        &mut self,
        turn: Turn,
        cursor: Option<String>,
        now_ms: i64,
        out: &mut Vec<Command>,
    ) {
        let done = self.ledger.known(&turn.id) == Known::Done;
        if let Some(cursor) = cursor {
            self.line.arrived(&turn.id, cursor);
        }
        if done || self.line.holds(&turn.id) || self.works_on(&turn.id) {
            if done {
                self.line.passed(&turn.id);
            }
            out.push(Command::Tell(Activity::Repeated { message: turn.message_id }));
            return self.move_cursor(out);
        }
        self.line_up(turn, now_ms, out);
    }

    /// Handles a message offered by a service, a peer or a session.
    pub(super) fn offered(&mut self, taken: Taken, now_ms: i64, out: &mut Vec<Command>) {
        let turn = match taken.turn() {
            Ok(turn) if self.has_room() => turn,
            Ok(_) => {
                return out.push(Command::Refuse { why: "too many messages wait for this agent".into() });
            }
            Err(faults) => return out.push(Command::Refuse { why: faults.to_string() }),
        };
        let waits = self.line.holds(&turn.id);
        if waits || self.works_on(&turn.id) || self.ledger.known(&taken.id) == Known::Done {
            if waits {
                // The newer version replaces the waiting one, which nobody has seen yet. A text received with
                // a claim is kept.
                self.write(Record::Took(taken), out);
                let same = turn.message_id.clone();
                if !(turn.withheld && self.line.shows(&turn.id)) {
                    self.line.edit(&same, turn.clone(), now_ms).ok();
                }
            }
            // The journal decides whether the message may come again: a failed one may.
            out.push(Command::Accept);
            return out.push(Command::Tell(Activity::Repeated { message: turn.message_id }));
        }
        self.write(Record::Took(taken), out);
        out.push(Command::Accept);
        self.line_up(turn, now_ms, out);
    }

    /// Queues a new message.
    fn line_up(&mut self, turn: Turn, now_ms: i64, out: &mut Vec<Command>) {
        if turn.reason == Some(Reason::Cancellation) {
            self.stop_by_message(&turn, now_ms, out);
            return self.line.push(Batch::single(turn, now_ms));
        }
        // A message whose processing had begun continues separately.
        if self.ledger.known(&turn.id) != Known::New {
            return self.line.push(Batch::single(turn, now_ms));
        }
        let turn = match turn.supersedes.clone() {
            None => turn,
            Some(before) => {
                self.break_off_at_any_time(now_ms, out, |task| {
                    task.turns().any(|one| one.stands_for(&before))
                });
                match self.line.edit(&before, turn, now_ms) {
                    Ok(superseded) => return self.supersede(&superseded, out),
                    // The earlier version was processed before, or never came, so this is a message like any
                    // other.
                    Err(turn) => *turn,
                }
            }
        };
        let source = turn.source().filter(|_| self.profile.quiet_ms > 0);
        let Some(source) = source else { return self.line.push(Batch::single(turn, now_ms)) };
        self.break_off(now_ms, out, |task| task.source.as_ref() == Some(&source));
        self.line.say(source, turn, now_ms);
    }

    /// Cancels a turn to merge another piece into it, if nothing was sent and its first piece is recent
    /// enough.
    fn break_off(&mut self, now_ms: i64, out: &mut Vec<Command>, which: impl Fn(&Task) -> bool) {
        let may = |task: &Task| {
            task.source.is_some() && now_ms.saturating_sub(task.began_ms) < LONGEST_MS && which(task)
        };
        self.break_off_at_any_time(now_ms, out, may);
    }

    /// Cancels a turn for an edit, regardless of its age: only one version of a message is answered.
    fn break_off_at_any_time(&mut self, now_ms: i64, out: &mut Vec<Command>, which: impl Fn(&Task) -> bool) {
        let place = self.tasks.iter().position(|task| task.can_be_broken_off() && which(task));
        let Some(place) = place else { return };
        let mut task = self.tasks.remove(place);
        self.digests.release(task.number);
        out.extend(task.running.then_some(Command::CancelTurn { task: task.number }));
        task.cancel_post(out);
        out.push(Command::Tell(Activity::BrokenOff { message: task.turn.message_id.clone() }));
        self.line.give_back(task.into_batch(), now_ms);
    }

    /// Ends the work that a message stops. The hub has decided that its author may.
    fn stop_by_message(&mut self, by: &Turn, now_ms: i64, out: &mut Vec<Command>) {
        let why = format!("{} put an end to it", by.message_id);
        self.stop_work(|turn| by.stops(turn), &why, now_ms, out);
    }

    /// Ends the work on some messages. A turn that was merged from these and others begins again with the others, if nothing
    /// was sent, and otherwise ends too.
    pub(super) fn stop_work(
        &mut self,
        is_stopped: impl Fn(&Turn) -> bool,
        why: &str,
        now_ms: i64,
        out: &mut Vec<Command>,
    ) {
        self.break_off(now_ms, out, |task| task.turns().any(&is_stopped) && !task.turns().all(&is_stopped));
        let may_end = |task: &&mut Task| task.is_thinking() || task.can_be_broken_off();
        let tasks = self.tasks.iter_mut().filter(may_end);
        for task in tasks.filter(|task| task.turns().any(&is_stopped)) {
            out.extend(task.running.then_some(Command::CancelTurn { task: task.number }));
            task.cancel_post(out);
            (task.running, task.committed) = (false, true);
            task.steps.clear();
            task.put_an_end(why);
        }
        let waiting: Vec<_> = self.line.turns().filter(|turn| is_stopped(turn)).cloned().collect();
        for turn in waiting {
            if let Some(id) = self.line.withdraw(&turn.message_id, now_ms) {
                self.supersede(&id, out);
            }
        }
    }

    /// Handles the withdrawal of a message.
    pub(super) fn withdraw(&mut self, message: &str, now_ms: i64, out: &mut Vec<Command>) {
        self.break_off(now_ms, out, |task| task.turns().any(|one| one.stands_for(message)));
        if let Some(id) = self.line.withdraw(message, now_ms) {
            return self.supersede(&id, out);
        }
        // A message that was not merged with others, and to which nothing was sent.
        let alone = |task: &&mut Task| task.turn.stands_for(message) && task.can_be_broken_off();
        let Some(task) = self.tasks.iter_mut().find(alone) else { return };
        out.extend(task.running.then_some(Command::CancelTurn { task: task.number }));
        task.cancel_post(out);
        (task.running, task.committed) = (false, true);
        task.steps.clear();
        task.steps.extend([Step::Done(Verdict::Superseded), Step::Idle]);
    }

    /// Removes withdrawn messages from a turn and runs it again with the others, if there are any.
    pub(super) fn leave_out(&mut self, task: &mut Task, messages: &[String], out: &mut Vec<Command>) {
        let is_gone = |turn: &Turn| messages.contains(&turn.message_id);
        let (gone, mut rest): (Vec<_>, Vec<_>) = task.turns().cloned().partition(is_gone);
        let Some(last) = rest.pop() else {
            return task.steps.extend([Step::Done(Verdict::Superseded), Step::Idle]);
        };
        (task.earlier, task.turn, task.committed) = (rest, last, false);
        task.steps.push_back(Step::Run);
        for turn in gone {
            self.supersede(&turn.id, out);
        }
    }

    /// Handles a successful claim. A withheld text that came with it is queued until its author has paused.
    pub(super) fn claimed(&mut self, task: &mut Task, claimed: Claimed, now_ms: i64) {
        let Some(event) = claimed.event else {
            let why = "nobody tells what was said".to_owned();
            return task.leave(Disposition::Ignored, Some(why));
        };
        task.turn = task.turn.revealed(*event, &claimed.holder);
        task.claimed = true;
        match task.turn.source().filter(|_| self.profile.quiet_ms > 0) {
            // Until then there is nothing to do.
            Some(source) => self.line.say(source, task.turn.clone(), now_ms),
            None => task.work(),
        }
    }

    /// Records that a message was replaced or withdrawn.
    fn supersede(&mut self, id: &str, out: &mut Vec<Command>) {
        let done = Record::Done { id: id.to_owned(), end: End::Superseded, cursor: None, merged: vec![] };
        self.line.done(id, done).into_iter().for_each(|record| self.write(record, out));
    }
}
