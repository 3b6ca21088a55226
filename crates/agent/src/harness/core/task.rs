//! The message that is being dealt with, and what is still to be done about it.

use super::event::Command;
use super::post::Outgoing;
use crate::harness::ledger::End;
use crate::harness::texts::{clean, error_event};
use crate::harness::turn::Turn;
use chorus_protocol::channel::CallbackEvent;
use std::collections::VecDeque;

/// The message that is being dealt with.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) turn: Turn,
    pub(super) cursor: Option<String>,
    pub(super) begun_ms: i64,
    /// It was said already that reports do not arrive.
    pub(super) complained: bool,
    pub(super) running: bool,
    pub(super) outgoing: Option<(Purpose, Outgoing)>,
    /// What is to be done after that, in order.
    pub(super) steps: VecDeque<Step>,
}

/// What a request is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To be seen; nothing depends on it.
    Report,
    /// The same, of a turn that runs and waits for it.
    Shown,
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
    Answered { characters: usize, cut: bool },
    Silent { why: Option<String> },
    Failed { why: String, end: End },
}

impl Task {
    pub(super) fn cancel_post(&mut self, out: &mut Vec<Command>) {
        let outgoing = self.outgoing.take();
        out.extend(outgoing.and_then(|(_, outgoing)| outgoing.flies()).map(|_| Command::CancelPost));
    }

    pub(super) fn answered(&mut self, answer: &Answer) {
        let characters = answer.text.chars().count();
        self.steps.extend([Step::Done(Verdict::Answered { characters, cut: answer.cut }), Step::Idle]);
    }

    pub(super) fn unsent(&mut self, why: &str, perhaps_sent: bool) {
        // What may have arrived must not be said again, even if the message comes again.
        let end = if perhaps_sent { End::Answered } else { End::Failed };
        self.fail(&format!("the answer could not be sent: {why}"), "unsent", end);
    }

    pub(super) fn be_silent(&mut self, told: &str, code: &'static str, why: Option<String>) {
        let told = Step::TellSender { why: told.to_owned(), code };
        self.steps.extend([told, Step::Done(Verdict::Silent { why }), Step::Idle]);
    }

    pub(super) fn fail(&mut self, why: &str, code: &'static str, end: End) {
        let why = clean(why, 2000);
        self.steps.extend([
            Step::Report(error_event(&why, code)),
            Step::TellSender { why: why.clone(), code },
            Step::Done(Verdict::Failed { why, end }),
            Step::Idle,
        ]);
    }
}
