//! What an agent is doing, for whoever watches: a person at a terminal, or a program.
//!
//! Nothing here is a secret, except a new connection string. Texts of others are in it as they are; whoever prints them
//! makes them harmless.

use serde::Serialize;
use std::sync::Arc;

/// One thing that an agent did, or that happened to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "activity", rename_all = "snake_case")]
pub enum Activity {
    /// It has registered itself.
    Registered,
    /// It listens.
    Listening {
        /// To what: an inbox, or an address.
        to: String,
    },
    /// It can be reached by a connection string, which is a secret.
    Connection {
        /// The connection string, when it is new.
        #[serde(skip_serializing_if = "Option::is_none")]
        connection_string: Option<String>,
        /// The file where it is kept.
        kept_in: String,
    },
    /// The hub knows the connection string and posts to it.
    Announced,
    /// The hub does not know the connection string; what comes by it from elsewhere is another matter.
    Unannounced {
        /// Why.
        why: String,
    },
    /// Whoever can reach the address can write to it, under any name.
    Unguarded {
        /// The address.
        address: String,
    },
    /// Whether it is in a channel that was named.
    Membership {
        /// The channel.
        channel: String,
        /// What people call it, if the agent is a member.
        name: Option<String>,
    },
    /// The connection to the hub is lost.
    Reconnecting {
        /// The pause before the next try, in milliseconds.
        in_ms: u64,
        /// What was wrong.
        why: String,
    },
    /// Something came that is no message; it is skipped.
    Skipped {
        /// What, and why.
        what: String,
    },
    /// A message is being worked on.
    Took {
        /// Its id.
        message: String,
        /// Who wrote it.
        from: String,
        /// Where, if it was in a channel.
        channel: Option<String>,
        /// Of how many messages it is put together.
        pieces: usize,
    },
    /// More of it came before anything was said: it is begun anew, together with that.
    BrokenOff {
        /// The message's id.
        message: String,
    },
    /// A message was taken back before it was answered.
    Superseded {
        /// Its id.
        message: String,
    },
    /// A tool is called.
    ToolCall {
        /// Which.
        name: String,
    },
    /// A tool has answered.
    ToolResult {
        /// Which.
        name: String,
        /// Whether it did what it was asked to.
        ok: bool,
        /// How long it took.
        elapsed_ms: u64,
    },
    /// Something went wrong and is tried again.
    Retrying {
        /// What.
        why: String,
        /// The pause before, in milliseconds.
        in_ms: u64,
    },
    /// What the agent shows of itself did not arrive; its answer is another matter.
    Unseen {
        /// Why.
        why: String,
    },
    /// A message was answered.
    Answered {
        /// How long the answer is, in characters.
        characters: usize,
        /// Whether it had to be cut to fit.
        cut: bool,
        /// How long it took.
        elapsed_ms: u64,
    },
    /// There was nothing to say.
    Silent {
        /// Why, if it was not the program's own decision.
        why: Option<String>,
        /// How long it took.
        elapsed_ms: u64,
    },
    /// A message was not answered.
    Failed {
        /// Why.
        why: String,
        /// How long it took.
        elapsed_ms: u64,
    },
    /// The agent ends in the middle of a message, which is begun anew at its next start.
    PutOff {
        /// The message's id.
        message: String,
    },
    /// A message came that was dealt with before.
    Repeated {
        /// Its id.
        message: String,
    },
    /// It is on the market.
    Offering {
        /// With what, each `name=price`.
        skills: Vec<String>,
        /// Whose wallet is paid.
        owner: String,
        /// The file where the owner's key is kept, if the owner is new.
        #[serde(skip_serializing_if = "Option::is_none")]
        kept_in: Option<String>,
    },
    /// A job is being done.
    JobBegan {
        /// Its id.
        job: String,
        /// Of which skill.
        skill: String,
    },
    /// It was asked what it would do a job for, and said so.
    OfferMade {
        /// Of what.
        skill: String,
        /// For how much.
        price: String,
    },
    /// A job's result was taken by the hub.
    JobReported {
        /// Its id.
        job: String,
        /// How it stands now.
        status: String,
        /// What was paid.
        paid: String,
    },
    /// A job has ended at the hub, and is left.
    JobLeft {
        /// Its id.
        job: String,
    },
    /// It ends because it was asked to.
    Stopped,
}

/// Who is told.
#[derive(Clone)]
pub struct Observer(Arc<dyn Fn(Activity) + Send + Sync>);

impl Observer {
    /// Somebody who is told everything, at once, and takes no time for it.
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
