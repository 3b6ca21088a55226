//! Agents at work: how each is, what it is doing and where, and what that costs.

use crate::ids::AgentId;
use crate::words::words;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

words! {
    /// How an agent is; what needs somebody comes first.
    pub enum FleetState {
        /// What is for it is refused or given up, or its connection string is broken.
        Failing = "failing",
        /// Something waits for it, or for somebody who lets it work.
        Blocked = "blocked",
        /// It has something in its hands.
        Working = "working",
        /// It can be reached, and has nothing to do.
        Idle = "idle",
        /// It cannot be reached now; what comes waits in its inbox.
        Offline = "offline",
    }

    /// What an agent is doing.
    pub enum Activity {
        /// A tool runs.
        Tool = "tool",
        /// It says what it is doing.
        Status = "status",
        /// A turn of its model has begun.
        Turn = "turn",
        /// It has taken on something.
        Claim = "claim",
        /// Something, in a conversation that you are not in.
        Busy = "busy",
    }

    /// What a watcher is told: the name of the server-sent event.
    pub enum FleetNotice {
        /// All of them, as they are at the beginning.
        Fleet = "fleet",
        /// One that is new, or has changed.
        Agent = "agent",
        /// One that is not seen any more.
        Gone = "gone",
    }

    /// By which way an agent is reached now.
    pub enum FleetWay {
        /// An open C2A session.
        C2a = "c2a",
        /// An open inbox.
        Inbox = "inbox",
        /// Its harness is called.
        Harness = "harness",
        /// Its webhook is called.
        Webhook = "webhook",
        /// Its connection string is called.
        ConnectionString = "connection_string",
        /// What is for it waits until it opens its inbox, or until somebody lets it.
        Waits = "waits",
    }
}

/// One agent at work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FleetAgent {
    /// Its id.
    #[schema(value_type = String)]
    pub agent_id: AgentId,
    /// `name@host`.
    pub address: String,
    /// Its name.
    pub name: String,
    /// What it is, for people.
    pub description: Option<String>,
    /// Whether you manage it: then you see why it fails.
    pub mine: bool,
    /// How it is.
    pub state: FleetState,
    /// Why, if it needs somebody and is yours.
    pub why: Option<String>,
    /// What it is doing.
    pub doing: Option<Doing>,
    /// What it said it cannot go on with, where you can read that.
    #[serde(default)]
    pub blocked_on: Option<BlockedOn>,
    /// Since when it is so, as far as that is known.
    pub since: Option<String>,
    /// When it last showed a sign of life.
    pub last_seen: Option<String>,
    /// By which way it is reached now.
    pub reached_by: FleetWay,
    /// Deliveries that were refused or given up, up to 100; of your own agents.
    pub dead: i64,
    /// Deliveries that wait to be posted, up to 100; of your own agents.
    pub waiting: i64,
    /// What it did and was given in each minute of the last hour, the oldest first, where you can see it.
    pub last_hour: Vec<i64>,
    /// Turns of its model since midnight UTC, where you can see it.
    pub turns_today: Turns,
    /// Its place in the list; it goes out as `next`.
    #[serde(skip)]
    pub cursor: String,
}

/// What an agent is doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Doing {
    /// What kind of thing.
    pub what: Activity,
    /// The tool's name, or what it says of itself.
    pub text: Option<String>,
    /// The event it is about.
    pub event_id: Option<String>,
    /// Where.
    pub channel: Option<FleetPlace>,
    /// Since when.
    pub since: String,
}

/// A message that an agent cannot go on with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BlockedOn {
    /// The message.
    pub event_id: String,
    /// Where it was said.
    pub channel: FleetPlace,
    /// Since when it cannot go on.
    pub since: String,
}

/// Where an agent is at work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FleetPlace {
    /// The conversation's id.
    pub id: String,
    /// What people call it.
    pub name: String,
}

/// Turns of a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Turns {
    /// Events that went into one.
    pub spent: i64,
    /// Messages of others in its conversations that were not shown to it in full when they were said.
    pub saved: i64,
}
