//! The options of an agent: its identity, the source of its messages, and the driver that answers them.

use super::acp::Acp;
use super::core::Profile;
use super::exec::Exec;
use super::jobs::Offering;
use super::openai::OpenAi;
use super::peers::Peers;
use crate::{Client, Network, Reach, WebhookSecret};
use chorus_environment::Environment;
use std::path::PathBuf;
use std::time::Duration;

/// The default pause after a person's last message before the agent answers.
pub const QUIET: Duration = Duration::from_secs(3);

/// The driver that produces the answers.
#[derive(Debug, Clone)]
pub enum Driver {
    Exec(Exec),
    OpenAi(Box<OpenAi>),
    Acp(Box<Acp>),
}

/// The source of an agent's messages.
#[derive(Debug, Clone)]
pub enum Listen {
    /// The hub's inbox. No public address is required.
    Inbox,
    /// A C2A session with the hub. No public address is required, and the hub learns the outcome of each
    /// event.
    C2a,
    /// The agent's own connection string.
    Connection {
        /// The address to listen on.
        address: String,
        /// This server's URL as services reach it. `None` uses the address.
        base: Option<String>,
        guard: Guard,
    },
    /// Envelopes directly from peers.
    Direct {
        /// The address to listen on.
        address: String,
        /// The addresses for replies to peers. Others are answered through the hub, if the agent has a key.
        peers: Peers,
        guard: Guard,
    },
}

/// The access control of the agent's own server.
#[derive(Debug, Clone, Default)]
pub struct Guard {
    /// The secret by which requests must be signed (Standard Webhooks). `None` accepts unsigned requests.
    pub secret: Option<WebhookSecret>,
    /// The networks that requests may come from; empty allows all. Behind a proxy this is the proxy's address.
    pub sources: Vec<Network>,
}

/// The options of one agent.
#[derive(Clone)]
pub struct AgentOptions {
    /// The agent's name, or its address.
    pub name: String,
    /// The hub's URL. `None` for an agent that is reached only by its connection string or its peers.
    pub url: Option<String>,
    /// The invitation code, for a hub where signing up requires one.
    pub invitation: Option<String>,
    /// The key of an agent that was registered elsewhere. It is stored like an issued key.
    pub key: Option<String>,
    /// The token of the person who will own the agent when it is registered. `None` leaves it without an
    /// owner.
    pub token: Option<String>,
    /// The folder with its key and its journal.
    pub state: PathBuf,
    /// The culture of the agent's user.
    pub culture: String,
    /// The text before each prompt of a program.
    pub system: Option<String>,
    /// The channels that the agent is expected to be a member of.
    pub channels: Vec<String>,
    pub listen: Listen,
    pub driver: Driver,
    /// Private networks in which callbacks and tool servers named by messages are called.
    pub allow_private: Vec<Network>,
    /// Allows tool servers other than the hub's.
    pub foreign_mcp: bool,
    /// The number of threads processed in parallel.
    pub at_once: usize,
    /// The pause after a person's last message before the agent answers. With 0 every message is answered
    /// separately.
    pub quiet: Duration,
    /// Adds the reaction `seen` to a message that requires an answer if the driver gives none.
    pub seen: bool,
    /// The agent's offering on the market. Jobs are done by its program.
    pub offering: Offering,
    /// The source of time and randomness.
    pub environment: Environment,
}

impl AgentOptions {
    /// Returns the outbound policy.
    pub(super) fn reach(&self) -> Reach {
        Reach::new(self.url.as_deref(), self.allow_private.clone()).with_foreign_mcp(self.foreign_mcp)
    }

    /// Returns the core's profile of this agent.
    pub(super) fn profile(&self, hub: Option<&Client>) -> Profile {
        let peers = match &self.listen {
            Listen::Direct { peers, .. } => peers.clone(),
            Listen::Inbox | Listen::C2a | Listen::Connection { .. } => Peers::default(),
        };
        // The address is used as given: without a hub its host is unknown.
        let (name, culture) = (self.name.clone(), self.culture.clone());
        let quiet_ms = i64::try_from(self.quiet.as_millis()).unwrap_or(i64::MAX);
        let hub = hub.map(|hub| hub.base().to_owned());
        Profile { name, culture, hub, peers, at_once: self.at_once, quiet_ms, seen: self.seen }
    }
}
