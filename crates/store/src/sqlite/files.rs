//! The files of a database, for nobody else's eyes: whatever the folder's mode or the umask is.

use crate::StoreError;
use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

const PRIVATE: u32 = 0o600;

/// Makes the file if there is none, and takes from others what they may do with it and with what lies beside it.
/// SQLite gives its log and its index the mode of the file.
pub(super) fn make_private(path: &Path) -> Result<(), StoreError> {
    open_private(path)
        .map_err(|error| StoreError::Open { what: path.display().to_string(), source: error.into() })?;
    for suffix in ["", "-wal", "-shm", "-lock"] {
        restrict(&beside(path, suffix));
    }
    Ok(())
}

/// Opens a file, and makes it if there is none.
fn open_private(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).mode(PRIVATE).open(path)
}

fn restrict(path: &Path) {
    let mode = match fs::metadata(path) {
        Ok(data) => data.permissions().mode() & 0o777,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return,
        Err(error) => return tracing::warn!(%error, file = %path.display(), "cannot see who may read this"),
    };
    if mode == PRIVATE {
        return;
    }
    match fs::set_permissions(path, Permissions::from_mode(PRIVATE)) {
        Ok(()) if mode & 0o077 != 0 => tracing::warn!(
            file = %path.display(),
            "others on this machine could read this (mode {mode:o}); now they cannot (mode 600)"
        ),
        Ok(()) => {}
        // Some file systems know no modes.
        Err(error) => tracing::warn!(
            %error,
            file = %path.display(),
            "others on this machine may read this (mode {mode:o}), and that could not be changed"
        ),
    }
}

/// Keeps other processes from the database for as long as the file is held.
pub(super) fn lock(path: &Path) -> Result<File, StoreError> {
    let open = |source| StoreError::Open { what: path.display().to_string(), source };
    let file = open_private(&beside(path, "-lock")).map_err(|error| open(error.into()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            Err(open("another chorus process uses it; stop that one first".into()))
        }
        Err(TryLockError::Error(error)) => Err(open(error.into())),
    }
}

/// A file that belongs to a database file: `-wal` is SQLite's write-ahead log, `-lock` is ours.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    path.with_file_name(name)
}
