//! The folder of kept keys, records and profiles in the user's configuration, and how its files are written.

use crate::failure::Explained;
use anyhow::Context as _;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

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

/// Returns whether a file of ours may have this name.
pub(crate) fn is_file_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    (1..=64).contains(&name.len()) && name.chars().all(is_plain) && !name.starts_with('.')
}

/// Writes a file that only its user can read, at once.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    if let Some(folder) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    if fs::metadata(path).is_ok_and(|there| there.permissions().mode() & 0o077 != 0) {
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))
            .with_context(|| format!("cannot protect {}", path.display()))?;
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
