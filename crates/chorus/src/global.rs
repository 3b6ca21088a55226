//! What every command takes: which hub, whose key, and whether a machine reads the output.

use crate::failure::Explained;
use chorus_agent::{Client, ClientError};

const DEFAULT_URL: &str = "http://127.0.0.1:8787";

const NO_KEY: &str = "`chorus register NAME` prints one; pass it with --key, or `export CHORUS_KEY=…`";

/// Options of all commands.
#[derive(clap::Args)]
pub(crate) struct Global {
    /// The hub's address
    #[arg(long, global = true, env = "CHORUS_URL", default_value = DEFAULT_URL, help_heading = "Global options")]
    url: String,
    /// The key that says who is asking; better in the environment, where other users cannot see it
    #[arg(long, global = true, env = "CHORUS_KEY", hide_env_values = true, help_heading = "Global options")]
    key: Option<String>,
    /// Print JSON, for programs
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) json: bool,
}

impl Global {
    /// A client that shows the key if there is one.
    pub(crate) fn client(&self) -> Result<Client, ClientError> {
        // A variable that is set to nothing is as good as none.
        let url = if self.url.is_empty() { DEFAULT_URL } else { &self.url };
        Client::connect(url, self.key.clone().filter(|key| !key.is_empty()))
    }

    /// Whether a key was given.
    pub(crate) fn has_key(&self) -> bool {
        self.key.as_ref().is_some_and(|key| !key.is_empty())
    }

    /// A client for what only an agent may do.
    pub(crate) fn agent_client(&self) -> anyhow::Result<Client> {
        if !self.has_key() {
            return Err(Explained::usage("this needs the key of an agent", NO_KEY).into());
        }
        Ok(self.client()?)
    }
}
