//! The fleet: the state, activity and cost of agents.

use crate::ids::AgentId;
use crate::words::words;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

words! {
    /// The state of an agent. States that need attention come first.
    pub enum FleetState {
        /// Deliveries to the agent fail, or its connection string is broken.
        Failing = "failing",
        /// The agent is paused or disabled, reports a blocker, or has waiting or overdue deliveries.
        Blocked = "blocked",
        /// The agent is working on something.
        Working = "working",
        /// The agent can be reached and has nothing to do.
        Idle = "idle",
        /// The agent cannot be reached; messages wait in its inbox.
        Offline = "offline",
    }

    /// The activity of an agent.
    pub enum Activity {
        /// The agent is running a tool.
        Tool = "tool",
        /// The agent has reported a status.
        Status = "status",
        /// A turn of the agent's model is under way.
        Turn = "turn",
        /// The agent holds a claim.
        Claim = "claim",
        /// The agent works in a conversation that you are not a member of.
        Busy = "busy",
    }

    /// A notice to a watcher of the fleet, which is the name of its server-sent event.
    pub enum FleetNotice {
        /// All agents at the start of the stream.
        Fleet = "fleet",
        /// An agent that is new or has changed.
        Agent = "agent",
        /// An agent that is no longer visible.
        Gone = "gone",
    }

    /// The way in which an agent is reached now.
    pub enum FleetWay {
        /// An open C2A session.
        C2a = "c2a",
        /// An open inbox stream.
        Inbox = "inbox",
        /// A call of its harness.
        Harness = "harness",
        /// A call of its webhook.
        Webhook = "webhook",
        /// A call of its connection string.
        ConnectionString = "connection_string",
        /// Not at all: deliveries wait until the agent opens its inbox or is resumed.
        Waits = "waits",
    }
}

/// The state and activity of one agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FleetAgent {
    /// The agent's id.
    #[schema(value_type = String)]
    pub agent_id: AgentId,
    /// The agent's address, `name@host`.
    pub address: String,
    /// The agent's name.
    pub name: String,
    /// The description for people.
    pub description: Option<String>,
    /// `true` if you manage the agent. Only then can you see why it fails.
    pub mine: bool,
    /// The agent's state.
    pub state: FleetState,
    /// The reason for a state that needs attention. Only for agents you manage.
    pub why: Option<String>,
    /// The agent's current activity.
    pub doing: Option<Doing>,
    /// The message that the agent reported as blocking, if you can read it.
    #[serde(default)]
    pub blocked_on: Option<BlockedOn>,
    /// The time since which the state holds, if known.
    pub since: Option<String>,
    /// The time of the agent's last activity.
    pub last_seen: Option<String>,
    /// The way in which the agent is reached now.
    pub reached_by: FleetWay,
    /// The number of failed deliveries, up to 100. Only for agents you manage.
    pub dead: i64,
    /// The number of deliveries waiting to be posted, up to 100. Only for agents you manage.
    pub waiting: i64,
    /// The number of the agent's events and deliveries in each minute of the last hour, oldest first, as far
    /// as you can see them.
    pub last_hour: Vec<i64>,
    /// The turns of its model since midnight UTC, as far as you can see them.
    pub turns_today: Turns,
    /// The agent's position in the list, sent as `next`.
    #[serde(skip)]
    pub cursor: String,
}

/// The current activity of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Doing {
    /// The kind of activity.
    pub what: Activity,
    /// The name of the tool, or the agent's status text.
    pub text: Option<String>,
    /// The event that the activity is about.
    pub event_id: Option<String>,
    /// The conversation of the activity.
    pub channel: Option<FleetPlace>,
    /// The time at which the activity began.
    pub since: String,
}

/// A message that blocks an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BlockedOn {
    /// The message's id.
    pub event_id: String,
    /// The conversation of the message.
    pub channel: FleetPlace,
    /// The time since which the agent is blocked.
    pub since: String,
}

/// A conversation in which an agent works.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FleetPlace {
    /// The conversation's id.
    pub id: String,
    /// The conversation's name.
    pub name: String,
}

/// The use of a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Turns {
    /// The number of events that entered a turn.
    pub spent: i64,
    /// The number of messages by others that were not shown to the agent in full when they were posted.
    pub saved: i64,
}
