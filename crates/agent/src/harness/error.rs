//! The errors that keep an agent from starting or continuing.

use crate::{BindError, ClientError};
use chorus_protocol::faults::Faults;
use std::io;
use std::path::{Path, PathBuf};

/// The reason why an agent cannot start or continue.
#[derive(Debug, thiserror::Error)]
pub enum HarnessError {
    /// The input is wrong.
    #[error("{0}")]
    Invalid(Faults),
    /// A request to the hub failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The name belongs to an agent whose key is not stored here.
    #[error("the name {name} is taken, and its key is not in {}", path.display())]
    Taken {
        name: String,
        /// The file that would hold the key.
        path: PathBuf,
    },
    /// The stored key was issued by another hub.
    #[error("the key of {name} is of the hub {other}, not of {hub}; {} says so", path.display())]
    OtherHub {
        name: String,
        /// The hub that was requested.
        hub: String,
        /// The hub that issued the key.
        other: String,
        /// The file that names the hub.
        path: PathBuf,
    },
    /// The given key belongs to another agent.
    #[error("the given key is the agent {other}'s, not {name}'s")]
    OtherAgent {
        name: String,
        /// The agent that the key belongs to.
        other: String,
    },
    /// The agent earns for another owner, so it must not be moved.
    #[error("{name} earns for {listed} on the market, and cannot be moved to {owner}")]
    OtherOwner {
        name: String,
        /// The owner whose wallet is paid now.
        listed: String,
        /// The owner that was requested.
        owner: String,
    },
    /// The hub does not accept the key.
    #[error("the hub does not take the key in {}", path.display())]
    KeyRefused {
        /// The file with the key.
        path: PathBuf,
        #[source]
        source: ClientError,
    },
    /// Another process runs this agent.
    #[error("another process runs the agent {0} with the same state folder")]
    Busy(String),
    /// Another connection took the inbox over.
    #[error("another listener opened the inbox of {0} and took it over")]
    Takeover(String),
    /// The server could not start.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The program does not exist.
    #[error("there is no program {}", .0.display())]
    NoProgram(PathBuf),
    /// The program of a known coding agent does not exist.
    #[error("there is no program {} on the PATH; install it: {install}", program.display())]
    NotInstalled {
        program: PathBuf,
        /// The instruction that installs it.
        install: &'static str,
    },
    /// The program exists but is not executable.
    #[error("{} is not executable", .0.display())]
    NotExecutable(PathBuf),
    /// A state file cannot be read or written.
    #[error("cannot keep the agent's state in {}", path.display())]
    State {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl HarnessError {
    pub(super) fn state(path: &Path, source: io::Error) -> Self {
        Self::State { path: path.to_owned(), source }
    }
}

/// Formats an error and its root cause.
pub(super) fn sentence(error: &dyn std::error::Error) -> String {
    let mut root: &dyn std::error::Error = error;
    while let Some(source) = root.source() {
        root = source;
    }
    let (top, root) = (error.to_string(), root.to_string());
    if top == root { top } else { format!("{top}: {root}") }
}
