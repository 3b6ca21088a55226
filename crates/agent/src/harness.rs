//! An agent out of anything: a program, or a model, that answers what is said to it.
//!
//! [`run`] registers the agent at its first start, listens by its inbox (or by a connection string of its own, or
//! directly), makes a prompt of each message, has it answered by a [`Driver`], and sends the answer back. Messages
//! are dealt with one after the other. What always holds: a message is answered at most once, also after `kill -9`
//! (`journal`); the channel ends with `lifecycle` idle, whatever happened (`report`); nothing a sender writes can
//! pass for a header of the prompt (`prompt`); every step is bounded in time, size and number.
//!
//! It deliberately has no opinion on what is worth an answer: the hub decides who is woken, the driver whether to
//! speak.

mod activity;
mod completion;
mod deliver;
mod exec;
mod history;
mod home;
mod intake;
mod journal;
mod mcp;
mod openai;
mod prompt;
mod report;
mod tools;
mod turn;
mod worker;

pub use activity::{Activity, Observer};
pub use exec::Exec;
pub use openai::{ModelFault, OpenAi};

use crate::{BindError, Client, ClientError, ExitClass};
use chorus_protocol::address::Address;
use chorus_protocol::faults::Faults;
use home::Home;
use journal::{End, Journal, Known, Taken};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;
use worker::Worker;

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
    /// By a connection string of one's own.
    Connection {
        /// Where to listen.
        address: String,
        /// This server as services reach it, if that is not the address.
        base: Option<String>,
    },
    /// Envelopes straight from peers.
    Direct {
        /// Where to listen.
        address: String,
        /// Where peers are answered, by their address; others are answered through the hub, if the agent has a key.
        peers: BTreeMap<String, String>,
    },
}

/// One agent.
#[derive(Clone)]
pub struct AgentOptions {
    /// Its name, or its address.
    pub name: String,
    /// The hub.
    pub url: String,
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
    /// The time, in milliseconds since 1970.
    pub clock: fn() -> i64,
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

    /// The class of this failure.
    pub fn exit_class(&self) -> ExitClass {
        match self {
            Self::Client(error) => error.exit_class(),
            Self::Invalid(_) | Self::NoProgram(_) => ExitClass::Usage,
            Self::Taken { .. } => ExitClass::Refused,
            Self::Busy(_) | Self::Takeover(_) | Self::Bind(_) | Self::State { .. } => ExitClass::Failed,
        }
    }
}

/// What a driver made of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    Say(String),
    Silence,
    Failed { why: String, code: &'static str },
}

impl Outcome {
    /// An answer as it was printed; one that holds nothing is silence.
    fn of(text: &str) -> Self {
        let text = text.trim_end();
        if text.trim().is_empty() { Self::Silence } else { Self::Say(text.to_owned()) }
    }

    fn failed(why: impl Into<String>, code: &'static str) -> Self {
        Self::Failed { why: why.into(), code }
    }
}

/// The journal, shared by what takes messages and what answers them. A line and its sync take a moment in which this
/// agent has nothing better to do, so nobody is sent to another thread for it.
#[derive(Clone)]
struct Memory(Arc<Mutex<Journal>>);

impl Memory {
    fn with<T>(&self, act: impl FnOnce(&mut Journal) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn cursor(&self) -> Option<String> {
        self.with(|journal| journal.cursor().map(str::to_owned))
    }

    fn set_cursor(&self, cursor: &str) -> io::Result<()> {
        self.with(|journal| journal.set_cursor(cursor))
    }

    fn known(&self, id: &str) -> Known {
        self.with(|journal| journal.known(id))
    }

    fn taken(&self) -> Vec<Taken> {
        self.with(|journal| journal.taken().to_vec())
    }

    /// Takes a message; whether it is one that nobody knows yet.
    fn take(&self, taken: Taken) -> io::Result<bool> {
        self.with(|journal| {
            let waits = journal.taken().iter().any(|one| one.id == taken.id);
            if waits || journal.known(&taken.id) == Known::Settled {
                return Ok(false);
            }
            journal.take(taken).map(|()| true)
        })
    }

    fn acted(&self, id: &str, tool: &str) -> io::Result<()> {
        self.with(|journal| journal.acted(id, tool))
    }

    fn intend(&self, id: &str, text: &str) -> io::Result<()> {
        self.with(|journal| journal.intend(id, text))
    }

    fn done(&self, id: &str, end: End, cursor: Option<&str>) -> io::Result<()> {
        self.with(|journal| journal.done(id, end, cursor))
    }
}

/// Runs an agent until it is told to stop, or cannot go on.
pub async fn run(options: AgentOptions, observer: Observer, stop: Stop) -> Result<(), HarnessError> {
    let address =
        Address::parse(&options.name).map_err(|fault| HarnessError::Invalid(Faults::one("name", fault)))?;
    let name = address.name().to_owned();
    if let Driver::Exec(exec) = &options.driver {
        exec::check(exec)?;
    }
    let home = Home::open(&options.state, &name)?;
    // First of all, so that two processes do not register the same name.
    let memory = Memory(Arc::new(Mutex::new(home.journal()?)));
    let hub = connect(&options, &home, &memory, &observer).await?;
    if let Some(hub) = &hub {
        look_for(hub, &options.channels, &observer).await;
    }
    let (arrivals, intake) =
        intake::start(&options, &home, hub.as_ref(), &memory, &observer, stop.clone()).await?;
    let worker = Worker::new(options, hub, memory, observer.clone(), stop);
    let worked = worker.work(arrivals).await;
    // It ends by itself once nobody takes what it brings, and lets its last answers out first.
    intake.await.ok();
    worked?;
    observer.tell(Activity::Stopped);
    Ok(())
}

/// The hub as this agent, which is registered if it has no key; an agent that listens directly needs no hub.
async fn connect(
    options: &AgentOptions,
    home: &Home,
    memory: &Memory,
    observer: &Observer,
) -> Result<Option<Client>, HarnessError> {
    let mut key = home.key()?;
    if key.is_none() && matches!(options.listen, Listen::Direct { .. }) {
        return Ok(None);
    }
    if key.is_none() {
        let anybody = Client::connect(&options.url, options.token.clone())?;
        key = Some(home.register(&anybody, &options.culture, options.token.is_some()).await?);
        // Everything in a new inbox is new. Without a place to go on after, a message that was handed over to a
        // process that died at once would not come again.
        memory.set_cursor("0").map_err(|source| HarnessError::state(&options.state, source))?;
        observer.tell(Activity::Registered);
    }
    Ok(Some(Client::connect(&options.url, key)?))
}

/// Tells whether the agent is in the channels it is expected to be in.
async fn look_for(hub: &Client, channels: &[String], observer: &Observer) {
    for channel in channels {
        let name = match hub.api_get(&["channels", channel], &[]).await {
            Ok(answer) => Some(answer["name"].as_str().unwrap_or(channel).to_owned()),
            Err(ClientError::Refused { status: 403 | 404, .. }) => None,
            // A hub that is away now will be there later.
            Err(error) => {
                observer.tell(Activity::Skipped { what: format!("the question about {channel}: {error}") });
                continue;
            }
        };
        observer.tell(Activity::Membership { channel: channel.clone(), name });
    }
}

/// Whether the agent is to end; a stop that nobody can give any more counts as given.
async fn stopped(stop: &mut Stop) {
    stop.wait_for(|stop| *stop).await.ok();
}
