//! The agent's activities, reported to an observer: a person at a terminal, or a program.
//!
//! An activity contains no secret, except a new connection string. Texts of other people are included
//! unchanged; the printer must sanitize them.

use serde::Serialize;
use std::sync::Arc;

/// One thing that an agent did, or that happened to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "activity", rename_all = "snake_case")]
pub enum Activity {
    /// The agent has registered itself.
    Registered,
    Listening {
        /// The inbox or the address it listens on.
        to: String,
    },
    /// The agent can be reached by a connection string, which is a secret.
    Connection {
        /// The connection string. `None` if it was shown before.
        #[serde(skip_serializing_if = "Option::is_none")]
        connection_string: Option<String>,
        /// The file with the connection string.
        kept_in: String,
    },
    /// The hub knows the connection string and posts to it.
    Announced,
    /// The hub could not be told the connection string. Other services may still use it.
    Unannounced { why: String },
    /// The address accepts unsigned messages from everyone who can reach it, under any name.
    Unguarded { address: String },
    /// The agent's membership in a channel named in its options.
    Membership {
        channel: String,
        /// The channel's display name. `None` if the agent is not a member.
        name: Option<String>,
    },
    /// The connection to the hub is lost.
    Reconnecting {
        /// The pause before the next try, in milliseconds.
        in_ms: u64,
        why: String,
    },
    /// An event that is not a valid message was skipped.
    Skipped {
        /// The event and the reason.
        what: String,
    },
    /// A message is being processed.
    Took {
        message: String,
        from: String,
        /// The channel. `None` for a message outside of channels.
        channel: Option<String>,
        /// The number of messages that were merged into this one.
        pieces: usize,
    },
    /// Another piece of the message came before the answer was sent. The turn starts again with all pieces.
    BrokenOff { message: String },
    /// A message was withdrawn before it was answered.
    Superseded { message: String },
    /// A tool is called.
    ToolCall { name: String },
    /// A tool has answered.
    ToolResult {
        name: String,
        /// `false` if the tool reported an error.
        ok: bool,
        elapsed_ms: u64,
    },
    /// A program asks the people of the conversation for permission to call a tool.
    PermissionAsked {
        tool: String,
        /// The approval at the hub.
        approval: String,
    },
    /// A permission request has ended.
    PermissionDecided {
        tool: String,
        /// `agreed`, `declined` or `no answer`.
        answer: String,
    },
    /// A program told the usage of a turn.
    Used {
        #[serde(skip_serializing_if = "Option::is_none")]
        input_tokens: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        output_tokens: Option<u64>,
        /// The cost of the session so far, with its currency.
        #[serde(skip_serializing_if = "Option::is_none")]
        cost: Option<String>,
    },
    /// A step failed and is retried.
    Retrying {
        why: String,
        /// The pause before the next try, in milliseconds.
        in_ms: u64,
    },
    /// A progress report of the agent was not delivered. The answer is sent separately.
    Unseen { why: String },
    /// A message was answered.
    Answered {
        /// The length of the answer, in characters.
        characters: usize,
        /// `true` if the answer was cut to fit.
        cut: bool,
        elapsed_ms: u64,
    },
    /// The turn ended without an answer.
    Silent {
        /// The reason. `None` if it was the program's own decision.
        why: Option<String>,
        elapsed_ms: u64,
    },
    /// The turn failed.
    Failed { why: String, elapsed_ms: u64 },
    /// The agent stops in the middle of a message, which is processed again at the next start.
    PutOff { message: String },
    /// A message came again that was processed before.
    Repeated { message: String },
    /// The agent is listed on the market.
    Offering {
        /// The skills, each as `name=price`.
        skills: Vec<String>,
        /// The owner whose wallet is paid.
        owner: String,
        /// The file with the owner's key. `None` if the owner existed before.
        #[serde(skip_serializing_if = "Option::is_none")]
        kept_in: Option<String>,
    },
    /// A job has started.
    JobBegan { job: String, skill: String },
    /// The agent was asked for an offer and made one.
    OfferMade { skill: String, price: String },
    /// The hub accepted a job's result.
    JobReported {
        job: String,
        /// The job's status after the report.
        status: String,
        /// The amount that was paid.
        paid: String,
    },
    /// A job ended at the hub, so the worker stopped it.
    JobLeft { job: String },
    /// The agent stops because it was told to.
    Stopped,
}

/// A callback that receives the agent's activities.
#[derive(Clone)]
pub struct Observer(Arc<dyn Fn(Activity) + Send + Sync>);

impl Observer {
    /// Creates an observer. `tell` is called synchronously and must not block.
    pub fn new(tell: impl Fn(Activity) + Send + Sync + 'static) -> Self {
        Self(Arc::new(tell))
    }

    pub(crate) fn tell(&self, activity: Activity) {
        (self.0)(activity);
    }
}

impl std::fmt::Debug for Observer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Observer")
    }
}
