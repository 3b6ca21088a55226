//! A message that is being dealt with, and what is still to be done about it.

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

/// A message that is being dealt with, perhaps together with what was said before it.
#[derive(Debug)]
pub(super) struct Task {
    /// Of this one, and of no other.
    pub(super) number: u64,
    /// Whose words, if more of them may come.
    pub(super) source: Option<Source>,
    /// When the first of them came.
    pub(super) began_ms: i64,
    /// What belongs to it and was said before, in order.
    pub(super) earlier: Vec<Turn>,
    pub(super) turn: Turn,
    pub(super) begun_ms: i64,
    /// Something was sent, or a tool was called that may have changed something: there is no way back.
    pub(super) committed: bool,
    /// What became of it is written; what is left to do is only to be seen.
    pub(super) recorded: bool,
    /// How much was shown of it.
    pub(super) shown: u64,
    /// It was said already that reports do not arrive.
    pub(super) complained: bool,
    pub(super) running: bool,
    pub(super) request: Option<Request>,
    /// What is to be done after that, in order.
    pub(super) steps: VecDeque<Step>,
}

/// What was sent and is not answered yet.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) purpose: Purpose,
    pub(super) post: Outgoing,
}

impl Request {
    /// Whether it is the one that was sent under this number.
    pub(super) fn is(&self, number: u64) -> bool {
        self.post.flies() == Some(number)
    }
}

/// What a request is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To be seen; nothing depends on it.
    Report,
    /// The same, of a turn that runs and waits for it.
    Shown,
    Claim,
    Answer(Answer),
}

impl Purpose {
    /// Whether this may have been done before, by a process that died.
    pub(super) fn is_again(&self) -> bool {
        matches!(self, Self::Answer(answer) if answer.again)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) text: String,
    /// Whether it ends before its end.
    pub(super) cut: bool,
    /// Whether it may have been sent before, by a process that died.
    pub(super) again: bool,
}

#[derive(Debug)]
pub(super) enum Step {
    Report(CallbackEvent),
    /// Asks whether it may be answered by us, and for what was said.
    Claim,
    /// Tells what became of an event, where somebody wants to know.
    Dispose(Box<Turn>, Disposition, Option<String>),
    /// Says by a reaction that it was read, and that there is nothing to say.
    See,
    /// Tells a sender that listens why there is no answer.
    TellSender {
        why: String,
        code: &'static str,
    },
    Run,
    /// Sends an answer that is in the journal. Whether the sender may still listen.
    Answer(Answer, bool),
    PutOff,
    Done(Verdict),
    /// The last word: the agent is done with the message.
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
        /// Whether it may come again.
        end: End,
    },
    Failed {
        why: String,
        end: End,
    },
    /// It was taken back.
    Superseded,
}

impl Task {
    pub(super) fn cancel_post(&mut self, out: &mut Vec<Command>) {
        let flies = self.request.take().and_then(|request| request.post.flies());
        out.extend(flies.map(|number| Command::CancelPost { number }));
    }

    /// A turn that is being made from this.
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
            request: None,
            steps: VecDeque::new(),
        }
    }

    /// What it was made from, if nothing came of it yet.
    pub(super) fn into_batch(self) -> Batch {
        Batch { source: self.source, began_ms: self.began_ms, earlier: self.earlier, turn: self.turn }
    }

    /// The ids of what was put together with the last.
    pub(super) fn merged(&self) -> Vec<String> {
        self.earlier.iter().map(|turn| turn.id.clone()).collect()
    }

    /// Whether it is only being thought about, or asked for.
    pub(super) fn can_be_broken_off(&self) -> bool {
        let to_run = self.steps.iter().any(|step| matches!(step, Step::Run | Step::Claim));
        let claims = matches!(self.request, Some(Request { purpose: Purpose::Claim, .. }));
        !self.committed && (self.running || to_run || claims)
    }

    /// Whether a turn runs, or is about to.
    pub(super) fn is_thinking(&self) -> bool {
        self.running || self.steps.iter().any(|step| matches!(step, Step::Run))
    }

    /// Whether this message is dealt with here.
    pub(super) fn turns(&self) -> impl Iterator<Item = &Turn> {
        self.earlier.iter().chain([&self.turn])
    }

    /// It is worked on.
    pub(super) fn work(&mut self) {
        let processing = CallbackEvent::Lifecycle { status: Lifecycle::Processing };
        self.steps.extend([Step::Report(processing), Step::Run]);
    }

    /// No turn is spent on it.
    pub(super) fn leave(&mut self, disposition: Disposition, why: Option<String>) {
        self.dispose(disposition, why.as_deref());
        self.steps.extend([Step::Done(Verdict::Silent { why, end: End::Silent }), Step::Idle]);
    }

    /// Somebody else has it. That is not to let it pass: if that one lets it go, it comes again, and is tried again.
    pub(super) fn not_ours(&mut self, why: String) {
        self.supersede_earlier();
        self.steps.extend([Step::Done(Verdict::Silent { why: Some(why), end: End::Failed }), Step::Idle]);
    }

    /// Tells what became of it, and that what was put together with it is part of that.
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
        // That the last was answered is known from the answer.
        self.supersede_earlier();
        self.steps.extend([Step::Done(Verdict::Answered { characters, cut: answer.cut }), Step::Idle]);
    }

    pub(super) fn unsent(&mut self, why: &str, perhaps_sent: bool) {
        // What may have arrived must not be said again, even if the message comes again.
        let end = if perhaps_sent { End::Answered } else { End::Failed };
        self.fail(&format!("the answer could not be sent: {why}"), "unsent", end);
    }

    pub(super) fn be_silent(&mut self, told: &str, code: &'static str, why: Option<String>) {
        self.be_silent_until(End::Silent, told, code, why);
    }

    /// There is nothing to say to it, for now: what must be answered stays open, and is asked again.
    pub(super) fn have_no_answer(&mut self, end: End) {
        self.be_silent_until(end, "there is no answer", "silent", None);
    }

    fn be_silent_until(&mut self, end: End, told: &str, code: &'static str, why: Option<String>) {
        let told = Step::TellSender { why: told.to_owned(), code };
        self.dispose(Disposition::Ignored, why.as_deref());
        self.steps.extend([told, Step::Done(Verdict::Silent { why, end }), Step::Idle]);
    }

    /// Somebody wants no answer any more: nobody is to wait for one.
    pub(super) fn put_an_end(&mut self, why: &str) {
        let step = |turn: &Turn| {
            Step::Dispose(Box::new(turn.clone()), Disposition::Superseded, Some(why.to_owned()))
        };
        self.steps.extend(self.earlier.iter().chain([&self.turn]).map(step));
        let told = Step::TellSender { why: why.to_owned(), code: "interrupted" };
        let verdict = Verdict::Silent { why: Some(why.to_owned()), end: End::Superseded };
        self.steps.extend([told, Step::Done(verdict), Step::Idle]);
    }

    /// There is nothing to say to what must be answered: that it was read is the answer.
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
