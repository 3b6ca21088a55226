//! Outgoing requests for a message: reports, claims and the answer; and the handling of their results.

use super::event::Command;
use super::notice::shown;
use super::post::{Conclusion, Outgoing, To};
use super::route::{REPORT_PATIENCE_MS, Route};
use super::task::{Answer, Purpose, Request, Step, Task};
use super::{Core, GRACE_MS, Stop};
use crate::harness::activity::Activity;
use crate::harness::turn::Back;
use chorus_protocol::channel::CallbackEvent;

impl Core {
    pub(super) fn report(
        &self,
        task: &mut Task,
        event: CallbackEvent,
        now_ms: i64,
        last_ms: Option<i64>,
    ) -> Option<Outgoing> {
        if matches!(task.turn.back, Back::Session(_)) {
            return shown(task, &event, now_ms, REPORT_PATIENCE_MS);
        }
        self.profile.report(&task.turn, event, self.environment.random_hex(), now_ms, last_ms)
    }

    pub(super) fn send(
        &mut self,
        task: &mut Task,
        purpose: Purpose,
        mut post: Outgoing,
        out: &mut Vec<Command>,
    ) {
        self.posts += 1;
        out.push(Command::Post(post.fly(self.posts)));
        task.request = Some(Request { purpose, post });
    }

    pub(super) fn answer(
        &mut self,
        task: &mut Task,
        answer: Answer,
        stream: bool,
        now_ms: i64,
        out: &mut Vec<Command>,
    ) {
        match self.profile.answer(&task.turn, &answer.text, answer.again, stream, now_ms) {
            Route::Send(mut outgoing) => {
                if self.stop != Stop::No {
                    outgoing.deadline_ms = outgoing.deadline_ms.min(now_ms + GRACE_MS);
                }
                self.send(task, Purpose::Answer(answer), *outgoing, out);
            }
            Route::PerhapsSent => task.answered(&answer),
            Route::Nowhere(why) => task.unsent(&why, false),
        }
    }

    /// Handles the final result of a request.
    pub(super) fn sent(
        &mut self,
        task: &mut Task,
        request: Request,
        sent: Conclusion,
        now_ms: i64,
        out: &mut Vec<Command>,
    ) {
        let Request { purpose, post } = request;
        match (purpose, sent) {
            (Purpose::Answer(answer), Conclusion::Arrived) => task.answered(&answer),
            (Purpose::Answer(answer), Conclusion::Gone { refused: true }) if answer.again => {
                task.answered(&answer);
            }
            // The sender no longer listens, so the answer goes by envelope.
            (Purpose::Answer(answer), Conclusion::Gone { .. }) => {
                self.intend(task, &answer.text, true, out);
                task.steps.push_front(Step::Answer(answer, false));
            }
            // The answer is sent at the next start. The task does not report idle while an answer is unsent.
            (Purpose::Answer(_), Conclusion::Unsent { .. })
                if self.stop != Stop::No && post.deadline_ms <= now_ms => {}
            (Purpose::Answer(answer), Conclusion::Unsent { why, perhaps_sent }) => {
                // A process that died may have sent the answer, regardless of the result now.
                let before = answer.again && !post.knows_keys();
                task.unsent(&why, perhaps_sent || before);
            }
            // Another agent has claimed the message, or the claim could not be made.
            (Purpose::Claim, sent) => {
                task.not_ours(match sent {
                    Conclusion::Unsent { why, .. } => format!("it is not ours: {why}"),
                    Conclusion::Arrived | Conclusion::Gone { .. } => "it is not ours".to_owned(),
                });
            }
            (purpose, sent) => {
                if let (Conclusion::Unsent { why, .. }, To::Callback { event, .. }) = (sent, &post.to)
                    && !std::mem::replace(&mut task.complained, true)
                {
                    let why = format!("{} was not taken: {why}", event.word());
                    out.push(Command::Tell(Activity::Unseen { why }));
                }
                out.extend((purpose == Purpose::Shown).then_some(Command::Resume { task: task.number }));
            }
        }
    }
}
