//! A message in progress and its remaining steps.

use super::event::Command;
use super::line::Batch;
use super::post::Outgoing;
use crate::harness::ledger::End;
use crate::harness::texts::{clean, error_event};
use crate::harness::turn::Turn;
use chorus_attention::turn::Source;
use chorus_protocol::channel::{CallbackEvent, Lifecycle};
use chorus_protocol::words::Disposition;
use std::collections::VecDeque;

/// A message in progress, perhaps merged with earlier ones.
#[derive(Debug)]
pub(super) struct Task {
    /// The unique number of the task.
    pub(super) number: u64,
    /// The author and conversation of the pieces. `None` if no more can come.
    pub(super) source: Option<Source>,
    /// The time of the first piece.
    pub(super) began_ms: i64,
    /// The earlier of the merged messages, in order.
    pub(super) earlier: Vec<Turn>,
    pub(super) turn: Turn,
    pub(super) begun_ms: i64,
    /// Set when something was sent, or a tool was called that may have changed something. The turn can no
    /// longer be cancelled.
    pub(super) committed: bool,
    /// Set when the result is in the journal. The remaining steps only report it.
    pub(super) recorded: bool,
    /// The number of progress reports so far.
    pub(super) shown: u64,
    /// Set when a lost report was reported to the observer.
    pub(super) complained: bool,
    pub(super) running: bool,
    /// The time of the next renewal of the claim, while a turn runs.
    pub(super) renew_at_ms: Option<i64>,
    /// The number of the renewal in flight.
    pub(super) renewal: Option<u64>,
    /// The message was claimed for this task.
    pub(super) claimed: bool,
    /// The reason why the answer is no longer wanted: the claim was lost. The driver was told.
    pub(super) lost: Option<String>,
    pub(super) request: Option<Request>,
    /// The remaining steps, in order.
    pub(super) steps: VecDeque<Step>,
}

/// A request in flight.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) purpose: Purpose,
    pub(super) post: Outgoing,
}

impl Request {
    /// Checks whether the try in flight has this number.
    pub(super) fn is(&self, number: u64) -> bool {
        self.post.flies() == Some(number)
    }
}

/// The purpose of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A progress report; nothing depends on it.
    Report,
    /// A progress report of a running turn, which waits for it.
    Shown,
    Claim,
    Answer(Answer),
}

impl Purpose {
    /// Checks whether a process that died may have made this request before.
    pub(super) fn is_again(&self) -> bool {
        matches!(self, Self::Answer(answer) if answer.again)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) text: String,
    /// `true` if the answer was cut.
    pub(super) cut: bool,
    /// `true` if a process that died may have sent it before.
    pub(super) again: bool,
}

#[derive(Debug)]
pub(super) enum Step {
    Report(CallbackEvent),
    /// Claims the message, which also returns its text.
    Claim,
    /// Reports the disposition of an event to a host.
    Dispose(Box<Turn>, Disposition, Option<String>),
    /// Adds the reaction `seen`, because there is no answer.
    See,
    /// Gives the claim back that the turn had, because there is no answer.
    Release,
    /// Tells a sender that listens why there is no answer.
    TellSender {
        why: String,
        code: &'static str,
    },
    Run,
    /// Sends an answer that is in the journal. The flag is `true` if the sender may still listen.
    Answer(Answer, bool),
    PutOff,
    Done(Verdict),
    /// Reports that the agent is done with the message.
    Idle,
}

#[derive(Debug)]
pub(super) enum Verdict {
    Answered {
        characters: usize,
        cut: bool,
    },
    Silent {
        why: Option<String>,
        /// Decides whether the message may come again.
        end: End,
    },
    Failed {
        why: String,
        end: End,
    },
    /// The message was withdrawn or replaced.
    Superseded,
}

impl Task {
    pub(super) fn cancel_post(&mut self, out: &mut Vec<Command>) {
        let flies = self.request.take().and_then(|request| request.post.flies());
        let renews = self.renewal.take();
        self.renew_at_ms = None;
        out.extend(flies.into_iter().chain(renews).map(|number| Command::CancelPost { number }));
    }

    /// Creates a task from a batch.
    pub(super) fn of(number: u64, batch: Batch, now_ms: i64) -> Self {
        let Batch { source, began_ms, earlier, turn } = batch;
        Self {
            number,
            source,
            began_ms,
            earlier,
            turn,
            begun_ms: now_ms,
            committed: false,
            recorded: false,
            shown: 0,
            complained: false,
            running: false,
            renew_at_ms: None,
            renewal: None,
            claimed: false,
            lost: None,
            request: None,
            steps: VecDeque::new(),
        }
    }

    /// Returns the batch that the task was created from.
    pub(super) fn into_batch(self) -> Batch {
        Batch { source: self.source, began_ms: self.began_ms, earlier: self.earlier, turn: self.turn }
    }

    /// Returns the ids of the earlier merged messages.
    pub(super) fn merged(&self) -> Vec<String> {
        self.earlier.iter().map(|turn| turn.id.clone()).collect()
    }

    /// Checks whether the task can still be cancelled: it is running or claiming, and nothing was sent.
    pub(super) fn can_be_broken_off(&self) -> bool {
        let to_run = self.steps.iter().any(|step| matches!(step, Step::Run | Step::Claim));
        let claims = matches!(self.request, Some(Request { purpose: Purpose::Claim, .. }));
        !self.committed && (self.running || to_run || claims)
    }

    /// Checks whether a turn runs or is about to.
    pub(super) fn is_thinking(&self) -> bool {
        self.running || self.steps.iter().any(|step| matches!(step, Step::Run))
    }

    /// Returns all merged messages, in order.
    pub(super) fn turns(&self) -> impl Iterator<Item = &Turn> {
        self.earlier.iter().chain([&self.turn])
    }

    /// Starts a turn.
    pub(super) fn work(&mut self) {
        let processing = CallbackEvent::Lifecycle { status: Lifecycle::Processing };
        self.steps.extend([Step::Report(processing), Step::Run]);
    }

    /// Ends the task without a turn.
    pub(super) fn leave(&mut self, disposition: Disposition, why: Option<String>) {
        self.dispose(disposition, why.as_deref());
        self.steps.extend([Step::Done(Verdict::Silent { why, end: End::Silent }), Step::Idle]);
    }

    /// Ends the task because another agent has the message. It counts as failed, so that it is tried again if
    /// the other agent releases it and it comes again.
    pub(super) fn not_ours(&mut self, why: String) {
        self.supersede_earlier();
        self.steps.extend([Step::Done(Verdict::Silent { why: Some(why), end: End::Failed }), Step::Idle]);
    }

    /// Reports the disposition of the message, and that the earlier messages were merged into it.
    fn dispose(&mut self, disposition: Disposition, why: Option<&str>) {
        self.supersede_earlier();
        let last = (Box::new(self.turn.clone()), disposition, why.map(str::to_owned));
        self.steps.push_back(Step::Dispose(last.0, last.1, last.2));
    }

    fn supersede_earlier(&mut self) {
        let why = format!("merged into {}", self.turn.message_id);
        let step =
            |turn: &Turn| Step::Dispose(Box::new(turn.clone()), Disposition::Superseded, Some(why.clone()));
        self.steps.extend(self.earlier.iter().map(step));
    }

    pub(super) fn answered(&mut self, answer: &Answer) {
        let characters = answer.text.chars().count();
        // The host learns from the answer that the last message was answered.
        self.supersede_earlier();
        self.steps.extend([Step::Done(Verdict::Answered { characters, cut: answer.cut }), Step::Idle]);
    }

    pub(super) fn unsent(&mut self, why: &str, perhaps_sent: bool) {
        // An answer that may have arrived must not be sent again, even if the message comes again.
        let end = if perhaps_sent { End::Answered } else { End::Failed };
        self.fail(&format!("the answer could not be sent: {why}"), "unsent", end);
    }

    pub(super) fn be_silent(&mut self, told: &str, code: &'static str, why: Option<String>) {
        self.be_silent_until(End::Silent, told, code, why);
    }

    /// Ends the task without an answer. A message that requires an answer stays open and comes again.
    pub(super) fn have_no_answer(&mut self, end: End) {
        if end == End::Failed {
            self.steps.push_back(Step::Release);
        }
        self.be_silent_until(end, "there is no answer", "silent", None);
    }

    fn be_silent_until(&mut self, end: End, told: &str, code: &'static str, why: Option<String>) {
        let told = Step::TellSender { why: told.to_owned(), code };
        self.dispose(Disposition::Ignored, why.as_deref());
        self.steps.extend([told, Step::Done(Verdict::Silent { why, end }), Step::Idle]);
    }

    /// Ends the task because an answer is no longer wanted.
    pub(super) fn put_an_end(&mut self, why: &str) {
        let step = |turn: &Turn| {
            Step::Dispose(Box::new(turn.clone()), Disposition::Superseded, Some(why.to_owned()))
        };
        self.steps.extend(self.earlier.iter().chain([&self.turn]).map(step));
        let told = Step::TellSender { why: why.to_owned(), code: "interrupted" };
        let verdict = Verdict::Silent { why: Some(why.to_owned()), end: End::Superseded };
        self.steps.extend([told, Step::Done(verdict), Step::Idle]);
    }

    /// Ends the task with the reaction `seen`, for a message that requires an answer.
    pub(super) fn see(&mut self) {
        self.supersede_earlier();
        self.steps.extend([
            Step::See,
            Step::Done(Verdict::Silent { why: None, end: End::Silent }),
            Step::Idle,
        ]);
    }

    pub(super) fn fail(&mut self, why: &str, code: &'static str, end: End) {
        let why = clean(why, 2000);
        for turn in self.earlier.iter().chain([&self.turn]) {
            let told = (Box::new(turn.clone()), Disposition::Failed, Some(why.clone()));
            self.steps.push_back(Step::Dispose(told.0, told.1, told.2));
        }
        self.steps.extend([
            Step::Report(error_event(&why, code)),
            Step::TellSender { why: why.clone(), code },
            Step::Done(Verdict::Failed { why, end }),
            Step::Idle,
        ]);
    }
}
