//! The agents whose keys are kept on this machine, each in a file that only its user can read.

use crate::commands::mcp::no_such_agent;
use crate::config_folder::is_file_name;
pub(crate) use crate::config_folder::{folder, write_at_once, write_private};
use crate::failure::Explained;
use anyhow::Context as _;
use chorus_agent::Client;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// An agent with its key.
#[derive(Serialize, Deserialize)]
pub(crate) struct KeptAgent {
    pub(crate) url: String,
    pub(crate) key: String,
}

/// Returns the file of an agent in the folder, with this ending.
pub(crate) fn file(folder: &Path, name: &str, ending: &str) -> PathBuf {
    folder.join("agents").join(format!("{name}.{ending}"))
}

/// Checks that a name is one that a file can have: an agent's name without its host.
pub(crate) fn check_name(name: &str) -> Result<(), Explained> {
    if is_file_name(name) {
        return Ok(());
    }
    let hint = "use the agent's name without its host: letters, digits, '.', '_' and '-'";
    Err(Explained::usage(format!("{name:?} is no name for an agent"), hint))
}

/// Reads an agent that is kept here, if it is.
pub(crate) fn read(folder: &Path, name: &str) -> anyhow::Result<Option<KeptAgent>> {
    check_name(name)?;
    let path = file(folder, name, "json");
    match fs::read(&path) {
        Ok(bytes) => {
            let kept = serde_json::from_slice(&bytes);
            Ok(Some(kept.with_context(|| format!("{} holds no agent", path.display()))?))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// Keeps an agent.
pub(crate) fn keep(folder: &Path, name: &str, agent: &KeptAgent) -> anyhow::Result<()> {
    check_name(name)?;
    write_private(&file(folder, name, "json"), &serde_json::to_vec(agent)?)
}

/// Creates a client with the key of a kept agent.
pub(crate) fn client(folder: &Path, name: &str) -> anyhow::Result<Client> {
    let KeptAgent { url, key } = read(folder, name)?.ok_or_else(|| no_such_agent(name))?;
    Ok(Client::connect(&url, Some(key))?)
}
