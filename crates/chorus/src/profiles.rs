//! Profiles: a hub and a key that commands use if neither an option nor the environment names them.
//!
//! `chorus login` keeps each profile in the user's configuration folder, in a file that only its user can read.

use crate::config_folder::{folder, is_file_name, write_private};
use crate::failure::Explained;
use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

/// The name of the profile that is used if none is named.
pub(crate) const DEFAULT_NAME: &str = "default";

/// The largest file of a profile, in bytes.
const MAX_FILE: u64 = 64 * 1024;

/// A hub, and a key for it.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Profile {
    pub(crate) url: String,
    pub(crate) key: String,
}

impl Profile {
    /// Returns whether a URL names the hub of this profile.
    pub(crate) fn is_for(&self, url: &str) -> bool {
        let plain = |url: &str| url::Url::parse(url).map(|url| url.as_str().trim_end_matches('/').to_owned());
        plain(&self.url).is_ok_and(|own| plain(url).is_ok_and(|other| own == other))
    }
}

/// Returns the file of a profile.
pub(crate) fn path(name: &str) -> anyhow::Result<PathBuf> {
    if !is_file_name(name) {
        let hint = "use letters, digits, '.', '_' and '-'";
        return Err(Explained::usage(format!("{name:?} is no name for a profile"), hint).into());
    }
    Ok(folder(None)?.join("profiles").join(format!("{name}.json")))
}

/// Reads a profile. Returns `None` if there is none, or no configuration folder that this user can read.
pub(crate) fn read(name: &str) -> anyhow::Result<Option<Profile>> {
    // Services often run without a home folder.
    let Ok(path) = path(name) else { return Ok(None) };
    let told = || format!("cannot read {}", path.display());
    let absent = [ErrorKind::NotFound, ErrorKind::NotADirectory, ErrorKind::PermissionDenied];
    let file = match fs::File::open(&path) {
        Ok(file) => file,
        Err(error) if absent.contains(&error.kind()) => return Ok(None),
        Err(error) => return Err(error).with_context(told),
    };
    if file.metadata().with_context(told)?.permissions().mode() & 0o077 != 0 {
        let what = format!("{} can be read by others", path.display());
        let hint =
            "it holds a key and must be yours alone: chmod 600 it, and think about who may have seen it";
        return Err(Explained::failed(what, hint).into());
    }
    let mut bytes = vec![];
    file.take(MAX_FILE).read_to_end(&mut bytes).with_context(told)?;
    let profile = serde_json::from_slice(&bytes);
    Ok(Some(profile.with_context(|| format!("{} holds no profile", path.display()))?))
}

/// Keeps a profile, in place of the former one of this name, and returns its file.
pub(crate) fn keep(name: &str, profile: &Profile) -> anyhow::Result<PathBuf> {
    let path = path(name)?;
    write_private(&path, &serde_json::to_vec(profile)?)?;
    Ok(path)
}

/// Deletes a profile.
pub(crate) fn delete(name: &str) -> anyhow::Result<()> {
    let path = path(name)?;
    fs::remove_file(&path).with_context(|| format!("cannot delete {}", path.display()))
}

/// The error for a profile that does not exist.
pub(crate) fn absent(name: &str) -> anyhow::Error {
    Explained::usage(
        format!("there is no profile {name}"),
        "`chorus login URL` makes one, with --profile under this name",
    )
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_for_one_hub() {
        let profile = Profile { url: "https://hub.example".into(), key: "ct_1".into() };
        for (url, is_for) in [
            ("https://hub.example/", true),
            ("https://HUB.example:443", true),
            ("http://hub.example", false),
            ("https://hub.example:444", false),
            ("https://hub.example.evil.example", false),
            ("hub.example", false),
            ("", false),
        ] {
            assert_eq!(profile.is_for(url), is_for, "{url}");
        }
    }

    #[test]
    fn names_are_names_of_files() {
        for name in ["", "..", "../x", "a/b", ".x", "a b"] {
            assert!(path(name).is_err(), "{name:?}");
        }
    }
}
