//! Why an agent cannot start, or cannot go on, as people are told.

use crate::{BindError, ClientError};
use chorus_protocol::faults::Faults;
use std::io;
use std::path::{Path, PathBuf};

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
    /// The agent earns for somebody else, whose credits it must not take along.
    #[error("{name} earns for {listed} on the market, and cannot be moved to {owner}")]
    OtherOwner {
        /// The name.
        name: String,
        /// Whose wallet is paid.
        listed: String,
        /// Whose it was to be.
        owner: String,
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
    pub(super) fn state(path: &Path, source: io::Error) -> Self {
        Self::State { path: path.to_owned(), source }
    }
}

/// An error and its root cause.
pub(super) fn sentence(error: &dyn std::error::Error) -> String {
    let mut root: &dyn std::error::Error = error;
    while let Some(source) = root.source() {
        root = source;
    }
    let (top, root) = (error.to_string(), root.to_string());
    if top == root { top } else { format!("{top}: {root}") }
}
