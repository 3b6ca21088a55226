//! What goes into the core and what comes out of it: plain data.

use super::post::{Post, Posted};
use crate::harness::activity::Activity;
use crate::harness::ledger::{Record, Taken};
use crate::harness::prompt::{Own, after_digests, prompt};
use crate::harness::turn::Turn;
use chorus_attention::turn::Source;
use chorus_protocol::channel::CallbackEvent;

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The inbox was opened for the first time, and begins after this place.
    Began {
        /// The place.
        cursor: String,
    },
    /// The inbox handed over a message. It stays in the inbox until the journal says that it was dealt with, so none may be
    /// left out: while there is no room the inbox is not read.
    Arrived {
        /// What is to be answered.
        turn: Box<Turn>,
        /// Its place in the inbox.
        cursor: Option<String>,
    },
    /// There is nothing to answer at this place of the inbox.
    Nothing {
        /// The place.
        cursor: String,
    },
    /// A service or a peer offers a message. It is answered with [`Command::Accept`] or [`Command::Refuse`], at once.
    Offered(Taken),
    /// Somebody types.
    Typing(Source),
    /// A message was taken back, or is not to be answered any more.
    Withdrawn {
        /// Which, as the other side calls it.
        message: String,
    },
    /// A turn that runs shows something to its channel, and waits for [`Command::Resume`].
    Shows {
        /// Which.
        task: u64,
        /// What.
        event: CallbackEvent,
    },
    /// A turn that runs has made a piece of its answer, and waits for [`Command::Resume`].
    Grows {
        /// Which.
        task: u64,
        /// The piece.
        text: String,
    },
    /// A turn that runs is about to call a tool that may change something, and waits for [`Command::Resume`].
    Acts {
        /// Which turn.
        task: u64,
        /// Which tool.
        tool: String,
    },
    /// A turn that ran has ended.
    Ended {
        /// Which.
        task: u64,
        /// What came of it.
        outcome: Outcome,
    },
    /// What came of a request.
    Posted {
        /// Which.
        number: u64,
        /// What.
        posted: Posted,
    },
    /// Nothing but that time has passed: see [`Core::wake_at_ms`](super::Core::wake_at_ms).
    Time,
    /// Nothing will come any more: the agent is to end once it has dealt with everything that came.
    Closed,
    /// The agent is to end.
    Stop,
}

/// Something to be done, in this order.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Write this to the journal, for good, before anything else is done. If that fails, the agent ends.
    Write(Record),
    /// The message that was offered is taken, and ours to answer.
    Accept,
    /// The message that was offered is not taken.
    Refuse {
        /// Why.
        why: String,
    },
    /// Have a message answered.
    Run(Box<Run>),
    /// A turn that runs may go on.
    Resume {
        /// Which.
        task: u64,
    },
    /// A turn that runs is to end, with everything it started. Nothing is heard of it any more.
    CancelTurn {
        /// Which.
        task: u64,
    },
    /// Make a request.
    Post(Post),
    /// The result of a request that is on its way does not matter any more.
    CancelPost {
        /// Which.
        number: u64,
    },
    /// Tell whoever watches.
    Tell(Activity),
    /// The agent has ended.
    End,
}

/// A message to be answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Of this turn, and of no other.
    pub task: u64,
    /// What came: the last of what is answered together.
    pub turn: Turn,
    /// What came before it and belongs to it, in order.
    pub earlier: Vec<Turn>,
    /// Digests that are shown before it.
    pub digests: Vec<String>,
    /// What stands around the words of others in the prompt, which they cannot guess.
    pub delimiter: String,
}

impl Run {
    /// What is answered together, in order.
    pub fn turns(&self) -> impl Iterator<Item = &Turn> {
        self.earlier.iter().chain([&self.turn])
    }

    /// What to answer, as an agent of this name and culture is shown it.
    pub fn prompt(&self, name: &str, culture: &str) -> String {
        let asked = prompt(&self.earlier, &self.turn, Own { name, culture }, &self.delimiter);
        after_digests(&self.digests, asked, &self.delimiter)
    }
}

/// What a driver made of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// An answer.
    Say {
        /// The answer.
        text: String,
        /// Whether it ends before its end.
        cut: bool,
    },
    /// There is nothing to say.
    Silence,
    /// A tool has said what there was to say.
    Answered,
    /// Messages of it were taken back: some before anything was made of it, or all of them.
    Withdrawn {
        /// As the other side calls them.
        messages: Vec<String>,
    },
    /// There is no answer.
    Failed {
        /// Why.
        why: String,
        /// The same for programs.
        code: &'static str,
    },
}

impl Outcome {
    /// An answer as it was printed; one that holds nothing is silence.
    pub(crate) fn of(text: &str) -> Self {
        let text = text.trim_end();
        if text.trim().is_empty() { Self::Silence } else { Self::Say { text: text.to_owned(), cut: false } }
    }

    pub(crate) fn failed(why: impl Into<String>, code: &'static str) -> Self {
        Self::Failed { why: why.into(), code }
    }
}
