//! What an agent is started with: who it is, how messages come, what answers them, and until when.

use super::core::Profile;
use super::exec::Exec;
use super::jobs::Offering;
use super::openai::OpenAi;
use super::peers::Peers;
use crate::{Client, Network, Reach, WebhookSecret};
use chorus_environment::Environment;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::watch;

/// How long a person must have paused unless said.
pub const QUIET: Duration = Duration::from_secs(3);

/// Becomes true when the agent is to end.
pub type Stop = watch::Receiver<bool>;

/// Whether the agent is to end; a stop that nobody can give any more counts as given.
pub(super) async fn stopped(stop: &mut Stop) {
    stop.wait_for(|stop| *stop).await.ok();
}

/// What makes the answers.
#[derive(Debug, Clone)]
pub enum Driver {
    /// A program.
    Exec(Exec),
    /// A model.
    OpenAi(Box<OpenAi>),
}

/// How messages come.
#[derive(Debug, Clone)]
pub enum Listen {
    /// By the hub's inbox: no public address is needed.
    Inbox,
    /// By a C2A session with the hub: no public address either, and the hub learns what became of each event.
    C2a,
    /// By a connection string of one's own.
    Connection {
        /// Where to listen.
        address: String,
        /// This server as services reach it, if that is not the address.
        base: Option<String>,
        /// Whom it admits.
        guard: Guard,
    },
    /// Envelopes straight from peers.
    Direct {
        /// Where to listen.
        address: String,
        /// Where peers are answered; others are answered through the hub, if the agent has a key.
        peers: Peers,
        /// Whom it admits.
        guard: Guard,
    },
}

/// Whom one's own server admits.
#[derive(Debug, Clone, Default)]
pub struct Guard {
    /// What requests must be signed with (Standard Webhooks), if anything.
    pub secret: Option<WebhookSecret>,
    /// From where requests may come; from anywhere if there is none. Behind a proxy this is the proxy's address.
    pub sources: Vec<Network>,
}

/// One agent.
#[derive(Clone)]
pub struct AgentOptions {
    /// Its name, or its address.
    pub name: String,
    /// The hub. An agent that only its connection string or its peers reach needs none.
    pub url: Option<String>,
    /// What lets it in where sign-up is by invitation.
    pub invitation: Option<String>,
    /// Its key at the hub, if it was registered elsewhere; kept like one that it got itself.
    pub key: Option<String>,
    /// The token of a person to whom it belongs when it is registered; without one it belongs to nobody.
    pub token: Option<String>,
    /// Where it keeps its key and its journal.
    pub state: PathBuf,
    /// The culture its user lives in.
    pub culture: String,
    /// What a program is told before each prompt.
    pub system: Option<String>,
    /// Channels it is expected to be in.
    pub channels: Vec<String>,
    /// How messages come.
    pub listen: Listen,
    /// What makes the answers.
    pub driver: Driver,
    /// Private networks where callbacks and tool servers that messages name are called all the same.
    pub allow_private: Vec<Network>,
    /// Whether tool servers that are not the hub's are used.
    pub foreign_mcp: bool,
    /// How many conversations it works on side by side.
    pub at_once: usize,
    /// How long a person must have paused before what it said is answered; if 0, every message is answered by itself.
    pub quiet: Duration,
    /// Whether what must be answered, and gets no words, is answered with the reaction `seen`.
    pub seen: bool,
    /// What it offers on the market; jobs go to its program.
    pub offering: Offering,
    /// Where time and randomness come from.
    pub environment: Environment,
}

impl AgentOptions {
    /// Whom it calls because a message says so.
    pub(super) fn reach(&self) -> Reach {
        Reach::new(self.url.as_deref(), self.allow_private.clone()).with_foreign_mcp(self.foreign_mcp)
    }

    /// Who it is, and whom it answers.
    pub(super) fn profile(&self, hub: Option<&Client>) -> Profile {
        let peers = match &self.listen {
            Listen::Direct { peers, .. } => peers.clone(),
            Listen::Inbox | Listen::C2a | Listen::Connection { .. } => Peers::default(),
        };
        // The address as it was given: without a hub nobody else knows the host.
        let (name, culture) = (self.name.clone(), self.culture.clone());
        let quiet_ms = i64::try_from(self.quiet.as_millis()).unwrap_or(i64::MAX);
        let hub = hub.map(|hub| hub.base().to_owned());
        Profile { name, culture, hub, peers, at_once: self.at_once, quiet_ms, seen: self.seen }
    }
}
