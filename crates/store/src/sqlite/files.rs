//! The files of a database, for nobody else's eyes: whatever the folder's mode or the umask is.

use super::beside;
use crate::StoreError;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

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
pub(super) fn open_private(path: &Path) -> io::Result<File> {
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
