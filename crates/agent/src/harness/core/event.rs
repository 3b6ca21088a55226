//! The input and output of the core, as plain data.

use super::post::{Post, Posted};
use crate::harness::activity::Activity;
use crate::harness::ledger::{Record, Taken};
use crate::harness::prompt::{Own, after_digests, prompt};
use crate::harness::texts::without_nul;
use crate::harness::turn::Turn;
use chorus_attention::turn::Source;
use chorus_protocol::channel::CallbackEvent;

/// An input of the core.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The inbox was opened for the first time, and begins after this position.
    Began { cursor: String },
    /// The inbox handed over a message. It stays in the inbox until the journal records it as done, so none
    /// may be skipped: the inbox is not read while there is no room.
    Arrived {
        turn: Box<Turn>,
        /// The position in the inbox.
        cursor: Option<String>,
    },
    /// There is nothing to answer at this position of the inbox.
    Nothing { cursor: String },
    /// A service, a peer or a session offers a message. The core answers at once with [`Command::Accept`] or
    /// [`Command::Refuse`].
    Offered(Taken),
    /// An author is typing.
    Typing(Source),
    /// A message was withdrawn, or no longer requires an answer.
    Withdrawn {
        /// The id that the other side uses.
        message: String,
    },
    /// A running turn reports progress to its channel and waits for [`Command::Resume`].
    Shows { task: u64, event: CallbackEvent },
    /// A running turn has produced a piece of its answer and waits for [`Command::Resume`].
    Grows { task: u64, text: String },
    /// A running turn is about to call a tool that may change something and waits for [`Command::Resume`].
    Acts { task: u64, tool: String },
    /// A running turn has ended.
    Ended { task: u64, outcome: Outcome },
    /// A request has ended.
    Posted { number: u64, posted: Posted },
    /// Time has passed: see [`Core::wake_at_ms`](super::Core::wake_at_ms).
    Time,
    /// Somebody stopped the work on a message. A running turn ends, even if it has called tools.
    Stopped {
        /// The id that the other side uses.
        message: String,
        /// The reason, for people.
        why: Option<String>,
    },
    /// No further messages will come. The agent stops once all messages are processed.
    Closed,
    /// The agent is to stop.
    Stop,
}

/// An output of the core. Commands are executed in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Writes a record to the journal, durably, before the next command. If that fails, the agent stops.
    Write(Record),
    /// Accepts the offered message. From now on this agent must answer it.
    Accept,
    /// Refuses the offered message.
    Refuse { why: String },
    /// Starts a turn.
    Run(Box<Run>),
    /// Lets a running turn continue.
    Resume { task: u64 },
    /// Ends a running turn with everything it started. It sends no further events.
    CancelTurn { task: u64 },
    /// Tells a running turn that its answer is no longer wanted. It ends soon, with [`Event::Ended`].
    GiveUp { task: u64 },
    /// Starts a request.
    Post(Post),
    /// Drops a request in flight. Its result no longer matters.
    CancelPost { number: u64 },
    /// Reports an activity to the observer.
    Tell(Activity),
    /// The agent has stopped.
    End,
}

/// A turn to run.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// The unique number of the task.
    pub task: u64,
    /// The last of the merged messages.
    pub turn: Turn,
    /// The earlier of the merged messages, in order.
    pub earlier: Vec<Turn>,
    /// The digests to show before the prompt.
    pub digests: Vec<String>,
    /// An unguessable text that delimits the words of others in the prompt.
    pub delimiter: String,
}

impl Run {
    /// Returns all merged messages, in order.
    pub fn turns(&self) -> impl Iterator<Item = &Turn> {
        self.earlier.iter().chain([&self.turn])
    }

    /// Returns the prompt for an agent of this name and culture.
    pub fn prompt(&self, name: &str, culture: &str) -> String {
        let asked = prompt(&self.earlier, &self.turn, Own { name, culture }, &self.delimiter);
        after_digests(&self.digests, asked, &self.delimiter)
    }
}

/// The result of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Say {
        text: String,
        /// `true` if the answer was cut.
        cut: bool,
    },
    /// There is no answer.
    Silence,
    /// A tool call has given the answer.
    Answered,
    /// Messages of the turn were withdrawn: some before it ran, or all of them.
    Withdrawn {
        /// The ids that the other side uses.
        messages: Vec<String>,
    },
    Failed {
        why: String,
        /// A code for programs.
        code: &'static str,
    },
}

impl Outcome {
    /// Converts a printed answer. A blank one is silence.
    pub(crate) fn of(text: &str) -> Self {
        let text = without_nul(text.trim_end().to_owned());
        if text.trim().is_empty() { Self::Silence } else { Self::Say { text, cut: false } }
    }

    pub(crate) fn failed(why: impl Into<String>, code: &'static str) -> Self {
        Self::Failed { why: why.into(), code }
    }
}
