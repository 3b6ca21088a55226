//! The agents whose keys are kept on this machine, each in a file that only its user can read.

use crate::commands::mcp::no_such_agent;
use crate::failure::Explained;
use anyhow::Context as _;
use chorus_agent::Client;
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// An agent with its key.
#[derive(Serialize, Deserialize)]
pub(crate) struct KeptAgent {
    pub(crate) url: String,
    pub(crate) key: String,
}

/// Returns the folder of the kept keys and records: the given one, or `chorus` in the user's configuration
/// folder.
pub(crate) fn folder(given: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(given) = given {
        return Ok(std::path::absolute(given)?);
    }
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let config = set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")));
    let hint = "set HOME, or pass --config DIR";
    Ok(config.ok_or_else(|| Explained::usage("there is no configuration folder", hint))?.join("chorus"))
}

/// Returns the file of an agent in the folder, with this ending.
pub(crate) fn file(folder: &Path, name: &str, ending: &str) -> PathBuf {
    folder.join("agents").join(format!("{name}.{ending}"))
}

/// Checks that a name is one that a file can have: an agent's name without its host.
pub(crate) fn check_name(name: &str) -> Result<(), Explained> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if (1..=64).contains(&name.len()) && name.chars().all(is_plain) && !name.starts_with('.') {
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

/// Writes a file that only its user can read, at once.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    if let Some(folder) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    write_at_once(path, bytes, 0o600)
}

/// Replaces a file in one step, so that a reader sees the old or the new one. A link stays one.
pub(crate) fn write_at_once(path: &Path, bytes: &[u8], mode: u32) -> anyhow::Result<()> {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mode = fs::metadata(&path).map_or(mode, |there| there.permissions().mode() & 0o777);
    let mut beside = path.clone().into_os_string();
    beside.push(format!(".chorus-{}", std::process::id()));
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&beside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&beside, &path)
    };
    let written = write();
    if written.is_err() {
        fs::remove_file(&beside).ok();
    }
    written.with_context(|| format!("cannot write {}", path.display()))
}
