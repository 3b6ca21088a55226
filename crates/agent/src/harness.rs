//! An agent out of anything: a program, or a model, that answers what is said to it.
//!
//! What is done when is decided by [`Core`], a state machine without sockets or timers; everything else here surrounds it.
//! [`run`] registers the agent at its first start, listens by its inbox (or by a C2A session, or by a connection string of its own, or
//! directly), makes a prompt of each message, has it answered by a [`Driver`], and sends the answer back. Conversations
//! are worked on side by side, the messages of each one after the other; what a person types in pieces is one. What always holds: a message is answered at most once, also after `kill -9`
//! (`ledger`); the channel ends with `lifecycle` idle, whatever happened (`core`); nothing a sender writes can
//! pass for a header of the prompt (`prompt`); every step is bounded in time, size and number.
//!
//! It deliberately has no opinion on what is worth an answer: the hub decides who is woken, the driver whether to
//! speak.

mod activity;
mod announce;
mod completion;
mod core;
mod deliver;
mod exec;
mod history;
mod home;
mod incoming;
mod intake;
mod jobs;
mod journal;
mod ledger;
mod mcp;
mod openai;
mod peers;
mod prompt;
mod report;
mod session;
mod texts;
mod tools;
mod turn;
mod worker;

pub use activity::{Activity, Observer};
pub use core::{Command, Core, Event, Outcome, Post, Posted, Profile, Run, To};
pub use exec::Exec;
pub use jobs::Offering;
pub(crate) use jobs::result;
pub use ledger::{End, Known, Ledger, Record, Taken};
pub use openai::{ModelFault, OpenAi};
pub use peers::{PeerFault, Peers};
pub use turn::{Back, Culture, EnvelopeBack, Place, SessionBack, Turn};

use crate::{BindError, Client, ClientError, Network, Reach, WebhookSecret};
use chorus_environment::Environment;
use chorus_protocol::address::Address;
use chorus_protocol::api::Items;
use chorus_protocol::api::accounts::Me;
use chorus_protocol::api::channels::ConversationView;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::ConversationId;
use chorus_protocol::words::PrincipalKind;
use home::Home;
use intake::Intake;
use journal::Journal;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::watch;
use worker::Worker;

/// How many conversations are worked on side by side unless said.
pub const AT_ONCE: usize = 4;

/// How long a person must have paused unless said.
pub const QUIET: Duration = Duration::from_secs(3);

/// How long a registration that is on its way may hold up the end of the agent: its key is shown only once.
const REGISTRATION_GRACE: Duration = Duration::from_secs(5);

/// Becomes true when the agent is to end.
pub type Stop = watch::Receiver<bool>;

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
    /// What it offers on the market; jobs go to its program.
    pub offering: Offering,
    /// Where time and randomness come from.
    pub environment: Environment,
}

impl AgentOptions {
    /// Whom it calls because a message says so.
    fn reach(&self) -> Reach {
        Reach::new(self.url.as_deref(), self.allow_private.clone()).with_foreign_mcp(self.foreign_mcp)
    }

    /// Who it is, and whom it answers.
    fn profile(&self, hub: Option<&Client>) -> Profile {
        let peers = match &self.listen {
            Listen::Direct { peers, .. } => peers.clone(),
            Listen::Inbox | Listen::C2a | Listen::Connection { .. } => Peers::default(),
        };
        // The address as it was given: without a hub nobody else knows the host.
        let (name, culture) = (self.name.clone(), self.culture.clone());
        let quiet_ms = i64::try_from(self.quiet.as_millis()).unwrap_or(i64::MAX);
        let hub = hub.map(|hub| hub.base().to_owned());
        Profile { name, culture, hub, peers, at_once: self.at_once, quiet_ms }
    }
}

/// Why an agent cannot start, or cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum HarnessError {
    /// The input is wrong.
    #[error("{0}")]
    Invalid(Faults),
    /// The hub does not play along.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The name belongs to an agent whose key is not here.
    #[error("the name {name} is taken, and its key is not in {}", path.display())]
    Taken {
        /// The name.
        name: String,
        /// Where the key would be.
        path: PathBuf,
    },
    /// The key was given by another hub.
    #[error("the key of {name} is of the hub {other}, not of {hub}; {} says so", path.display())]
    OtherHub {
        /// The name.
        name: String,
        /// The hub that was asked for.
        hub: String,
        /// The one that gave the key.
        other: String,
        /// Where it is written.
        path: PathBuf,
    },
    /// The key that was given is another agent's.
    #[error("the given key is the agent {other}'s, not {name}'s")]
    OtherAgent {
        /// The name.
        name: String,
        /// Whose key it is.
        other: String,
    },
    /// The hub does not know the key.
    #[error("the hub does not take the key in {}", path.display())]
    KeyRefused {
        /// Where the key is.
        path: PathBuf,
        /// What the hub said.
        #[source]
        source: ClientError,
    },
    /// Another process runs this agent.
    #[error("another process runs the agent {0} with the same state folder")]
    Busy(String),
    /// Another connection took the inbox.
    #[error("another listener opened the inbox of {0} and took it over")]
    Takeover(String),
    /// Nothing can be received.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The program is not there.
    #[error("there is no program {}", .0.display())]
    NoProgram(PathBuf),
    /// The program is there and cannot be run.
    #[error("{} is not executable", .0.display())]
    NotExecutable(PathBuf),
    /// What must not be lost cannot be kept.
    #[error("cannot keep the agent's state in {}", path.display())]
    State {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl HarnessError {
    fn state(path: &Path, source: io::Error) -> Self {
        Self::State { path: path.to_owned(), source }
    }
}

/// Runs an agent until it is told to stop, or cannot go on.
pub async fn run(options: AgentOptions, observer: Observer, mut stop: Stop) -> Result<(), HarnessError> {
    let address =
        Address::parse(&options.name).map_err(|fault| HarnessError::Invalid(Faults::one("name", fault)))?;
    let name = address.name().to_owned();
    if let Driver::Exec(exec) = &options.driver {
        exec::check(exec)?;
    }
    let home = Home::open(&options.state, &name)?;
    // First of all, so that two processes do not register the same name.
    let mut journal = home.journal()?;
    let hub = tokio::select! {
        hub = connect(&options, &home, &mut journal, &observer) => hub?,
        () = async { stopped(&mut stop).await; tokio::time::sleep(REGISTRATION_GRACE).await } => {
            observer.tell(Activity::Stopped);
            return Ok(());
        }
    };
    if let Some(hub) = &hub {
        tokio::select! {
            // The work that follows sees it too.
            () = stopped(&mut stop) => {}
            offered = async {
                look_for(hub, &options.channels, &observer).await;
                jobs::offer(hub, &options, &home, &observer).await
            } => offered.map_err(|error| home.blame_key(error))?,
        }
    }
    let ledger = journal.ledger().clone();
    let mut intake = Intake::start(&options, &home, hub.as_ref(), ledger.cursor(), &observer).await?;
    let core = Core::new(options.profile(hub.as_ref()), ledger, options.environment.clone());
    let ways = (hub, intake.session());
    let worked = Worker::new(options, ways, core, journal, observer.clone()).work(&mut intake, stop).await;
    intake.close().await;
    worked.map_err(|error| home.blame_key(error))?;
    observer.tell(Activity::Stopped);
    Ok(())
}

/// The hub as this agent, which is registered if it has no key; an agent that listens directly needs no hub.
async fn connect(
    options: &AgentOptions,
    home: &Home,
    journal: &mut Journal,
    observer: &Observer,
) -> Result<Option<Client>, HarnessError> {
    let Some(url) = &options.url else { return Ok(None) };
    let connect =
        |key| Client::connect(url, key).map(|hub| hub.with_environment(options.environment.clone()));
    let anybody = connect(options.token.clone())?;
    if let Some(key) = &options.key {
        check_whose(&connect(Some(key.clone()))?, home.name()).await?;
        home.keep_key(anybody.base(), key)?;
    }
    let mut key = home.key(anybody.base())?;
    if key.is_none() && matches!(options.listen, Listen::Direct { .. }) {
        return Ok(None);
    }
    if key.is_none() {
        let (owned, invitation) = (options.token.is_some(), options.invitation.as_deref());
        key = Some(home.register(&anybody, &options.culture, owned, invitation).await?);
        // Everything in a new inbox is new. Without a place to go on after, a message that was handed over to a
        // process that died at once would not come again.
        let begun = journal.write(Record::Cursor("0".into()));
        begun.map_err(|source| HarnessError::state(&options.state, source))?;
        observer.tell(Activity::Registered);
    }
    Ok(Some(connect(key)?))
}

/// Refuses the key of another agent, before it takes the place of this one's. A hub that does not say whose it is, or is away
/// now, is believed.
async fn check_whose(hub: &Client, name: &str) -> Result<(), HarnessError> {
    let Ok(me) = hub.api_get::<Me>(&["me"], &[]).await else { return Ok(()) };
    if me.kind.known() == Some(PrincipalKind::Agent) && me.name != name {
        return Err(HarnessError::OtherAgent { name: name.to_owned(), other: me.name });
    }
    Ok(())
}

/// Tells whether the agent is in the channels it is expected to be in.
async fn look_for(hub: &Client, channels: &[String], observer: &Observer) {
    for named in channels {
        let channel = &find(hub, named).await;
        let name = match hub.api_get::<ConversationView>(&["channels", channel], &[]).await {
            Ok(known) if known.name.is_empty() => Some(channel.clone()),
            Ok(known) => Some(known.name),
            Err(ClientError::Refused { status: 403 | 404, .. }) => None,
            // A hub that is away now will be there later.
            Err(error) => {
                observer.tell(Activity::Skipped { what: format!("the question about {named}: {error}") });
                continue;
            }
        };
        observer.tell(Activity::Membership { channel: named.clone(), name });
    }
}

/// The id of a channel that was named by its id or by its name; what it was named, if it cannot be found.
async fn find(hub: &Client, named: &str) -> String {
    if ConversationId::parse(named).is_some() {
        return named.to_owned();
    }
    let page = hub.api_get::<Items<ConversationView>>(&["channels"], &[("limit", "200")]).await;
    let found = page.ok().and_then(|page| page.items.into_iter().find(|channel| channel.name == named));
    found.map_or_else(|| named.to_owned(), |channel| channel.id)
}

/// Whether the agent is to end; a stop that nobody can give any more counts as given.
async fn stopped(stop: &mut Stop) {
    stop.wait_for(|stop| *stop).await.ok();
}

/// An error and its root cause.
fn sentence(error: &dyn std::error::Error) -> String {
    let mut root: &dyn std::error::Error = error;
    while let Some(source) = root.source() {
        root = source;
    }
    let (top, root) = (error.to_string(), root.to_string());
    if top == root { top } else { format!("{top}: {root}") }
}
