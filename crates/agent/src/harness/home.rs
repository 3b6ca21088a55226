//! The folder with an agent's durable state: its key, the secret of its connection string, its journal.
//!
//! The files are `NAME.key` (and `NAME.hub`, the hub that issued it), `NAME.owner`, `NAME.connection` and
//! `NAME.journal`, readable by their owner only.

use super::error::HarnessError;
use super::journal::{Journal, sync_folder};
use crate::{Client, ClientError, ConnectionSecret, Method, RegisterBody};
use chorus_environment::Environment;
use chorus_protocol::api::agents::MadeAgent;
use chorus_protocol::code::Code;
use chorus_protocol::relay::CARD_VERSION;
use serde_json::json;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The folder of one agent's files.
#[derive(Debug, Clone)]
pub(crate) struct Home {
    folder: PathBuf,
    /// The base name of the files. An agent's name contains only characters that are valid in file names.
    name: String,
}

impl Home {
    /// Opens the folder, creating it if necessary.
    pub(crate) fn open(folder: &Path, name: &str) -> Result<Self, HarnessError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|source| HarnessError::state(folder, source))?;
        Ok(Self { folder: folder.to_owned(), name: name.to_owned() })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn path(&self, kind: &str) -> PathBuf {
        self.folder.join(format!("{}.{kind}", self.name))
    }

    /// Opens the journal.
    pub(crate) fn journal(&self) -> Result<Journal, HarnessError> {
        let path = self.path("journal");
        Journal::open(&path).map_err(|source| match source.kind() {
            io::ErrorKind::ResourceBusy => HarnessError::Busy(self.name.clone()),
            _ => HarnessError::state(&path, source),
        })
    }

    /// Returns the agent's key at a hub, if it has one. A key that another hub issued is an error.
    pub(crate) fn key(&self, hub: &str) -> Result<Option<String>, HarnessError> {
        let key = self.read("key")?;
        // Keys of former versions, and those that people put there, have no `hub` file beside them.
        match self.read("hub")? {
            Some(other) if key.is_some() && other != hub => {
                let (hub, path) = (hub.to_owned(), self.path("hub"));
                Err(HarnessError::OtherHub { name: self.name.clone(), hub, other, path })
            }
            _ => Ok(key),
        }
    }

    /// Stores a key that was given to the agent.
    pub(crate) fn keep_key(&self, hub: &str, key: &str) -> Result<(), HarnessError> {
        if self.read("key")?.as_deref() == Some(key) {
            return Ok(());
        }
        self.write_key(hub, key)
    }

    /// Stores a key and its hub. A failure in between never leaves one hub's key beside another hub's name.
    fn write_key(&self, hub: &str, key: &str) -> Result<(), HarnessError> {
        if self.read("hub")?.as_deref() != Some(hub) {
            self.remove("key")?;
            self.write("hub", hub)?;
        }
        self.write("key", key)
    }

    /// Stores the key of an owner that this agent's registration created, and returns the file. It is the only
    /// copy, so it never overwrites another key.
    pub(crate) fn keep_owner_key(&self, key: &str) -> Result<PathBuf, HarnessError> {
        let (mut kind, mut number) = ("owner".to_owned(), 1);
        while self.read(&kind)?.is_some_and(|kept| kept != key) {
            number += 1;
            kind = format!("owner-{number}");
        }
        self.write(&kind, key)?;
        Ok(self.path(&kind))
    }

    /// Adds the name of the key file to an error caused by the key.
    pub(crate) fn blame_key(&self, error: HarnessError) -> HarnessError {
        match error {
            HarnessError::Client(source) if source.code() == Some(Code::Unauthorized) => {
                HarnessError::KeyRefused { path: self.path("key"), source }
            }
            error => error,
        }
    }

    /// Registers the agent and stores its key. `anybody` is a client without a key, or with a person's token;
    /// the agent then belongs to that person.
    pub(crate) async fn register(
        &self,
        anybody: &Client,
        culture: &str,
        owned: bool,
        invitation: Option<&str>,
    ) -> Result<String, HarnessError> {
        let card =
            json!({"card_version": CARD_VERSION, "user_culture": culture, "supported_languages": [culture]});
        let registered = if owned {
            let body = json!({"name": self.name, "card": card});
            let made = anybody.api_write::<MadeAgent>(Method::POST, &["agents"], &[], Some(&body)).await;
            made.map(|made| Some(made.api_key))
        } else {
            let body = RegisterBody {
                agent_id: self.name.clone(),
                endpoint: None,
                agent_card: Some(card),
                invitation: invitation.map(str::to_owned),
            };
            anybody.register(&body).await.map(|(registered, _)| registered.api_key)
        };
        let key = registered.map_err(|error| match error.code() {
            Some(Code::AgentIdTaken) => self.taken(),
            _ if matches!(&error, ClientError::Refused { status: 409, .. }) => self.taken(),
            _ => HarnessError::Client(error),
        })?;
        let none = || ClientError::Protocol("the hub registered the agent and gave it no key".into());
        let key = key.ok_or_else(none)?;
        self.write_key(anybody.base(), &key)?;
        Ok(key)
    }

    fn taken(&self) -> HarnessError {
        HarnessError::Taken { name: self.name.clone(), path: self.path("key") }
    }

    pub(crate) fn connection_file(&self) -> PathBuf {
        self.path("connection")
    }

    /// Returns the secret of the agent's connection string, which stays the same across starts. It is the
    /// first line of the file.
    pub(crate) fn connection_secret(
        &self,
        environment: &Environment,
    ) -> Result<ConnectionSecret, HarnessError> {
        let path = self.path("connection");
        if let Some(text) = self.read("connection")? {
            let parsed = ConnectionSecret::parse(text.lines().next().unwrap_or_default());
            return parsed.map_err(|fault| HarnessError::state(&path, io::Error::other(fault)));
        }
        let secret = ConnectionSecret::generate(environment);
        self.write("connection", secret.as_str())?;
        Ok(secret)
    }

    /// Returns the connection string that was last announced. It is the second line of the file.
    pub(crate) fn told_connection(&self) -> Result<Option<String>, HarnessError> {
        let text = self.read("connection")?;
        Ok(text.and_then(|text| text.lines().nth(1).map(str::to_owned)))
    }

    /// Stores the connection string that was announced.
    pub(crate) fn keep_connection(
        &self,
        secret: &ConnectionSecret,
        connection_string: &str,
    ) -> Result<(), HarnessError> {
        self.write("connection", &format!("{}\n{connection_string}", secret.as_str()))
    }

    pub(super) fn read(&self, kind: &str) -> Result<Option<String>, HarnessError> {
        let path = self.path(kind);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(HarnessError::state(&path, error)),
        }
    }

    /// Removes a file if it exists.
    pub(super) fn remove(&self, kind: &str) -> Result<(), HarnessError> {
        let path = self.path(kind);
        match fs::remove_file(&path).and_then(|()| sync_folder(&path)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(HarnessError::state(&path, error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Writes a file atomically.
    pub(super) fn write(&self, kind: &str, text: &str) -> Result<(), HarnessError> {
        let (path, part) = (self.path(kind), self.path(&format!("{kind}.part")));
        let write = || {
            let mut file =
                OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&part)?;
            writeln!(file, "{text}")?;
            file.sync_all()?;
            fs::rename(&part, &path)?;
            sync_folder(&path)
        };
        write().map_err(|source| HarnessError::state(&path, source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn secrets_are_kept_and_nobody_elses() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("new");
        let home = Home::open(&folder, "echo").unwrap();
        assert!(home.key("http://a").unwrap().is_none());
        home.write("key", "ca_1").unwrap();
        assert_eq!(home.key("http://a").unwrap().as_deref(), Some("ca_1"));
        let secret = home.connection_secret(&Environment::system()).unwrap();
        assert_eq!(home.told_connection().unwrap(), None);
        home.keep_connection(&secret, "http://x/inbox/sk_1").unwrap();
        assert_eq!(home.told_connection().unwrap().as_deref(), Some("http://x/inbox/sk_1"));
        assert_eq!(home.connection_secret(&Environment::system()).unwrap().as_str(), secret.as_str());
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&folder.join("echo.key"))), (0o700, 0o600));
        assert_eq!(mode(&folder.join("echo.connection")), 0o600);
    }

    #[test]
    fn the_key_of_an_owner_is_never_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::open(folder.path(), "echo").unwrap();
        for (key, name) in [
            ("cw_a", "echo.owner"),
            ("cw_b", "echo.owner-2"),
            ("cw_a", "echo.owner"),
            ("cw_c", "echo.owner-3"),
        ] {
            assert_eq!(home.keep_owner_key(key).unwrap(), folder.path().join(name));
        }
        for (kind, key) in [("owner", "cw_a"), ("owner-2", "cw_b"), ("owner-3", "cw_c")] {
            assert_eq!(home.read(kind).unwrap().as_deref(), Some(key));
        }
    }

    #[test]
    fn a_key_is_shown_to_the_hub_that_gave_it() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::open(folder.path(), "echo").unwrap();
        home.write("hub", "http://a").unwrap();
        // Without a key the stored hub does not matter.
        assert!(home.key("http://b").unwrap().is_none());
        home.write("key", "ca_1").unwrap();
        assert_eq!(home.key("http://a").unwrap().as_deref(), Some("ca_1"));
        let error = home.key("http://b").unwrap_err().to_string();
        assert!(error.starts_with("the key of echo is of the hub http://a, not of http://b"), "{error}");
    }

    #[test]
    fn a_key_that_could_not_be_kept_leaves_no_other_hubs_key_in_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::open(folder.path(), "echo").unwrap();
        home.keep_key("http://a", "ca_a").unwrap();
        fs::create_dir(folder.path().join("echo.key.part")).unwrap();
        assert!(home.keep_key("http://b", "ca_b").is_err());
        assert!(home.key("http://b").unwrap().is_none(), "the key of another hub");
        fs::remove_dir(folder.path().join("echo.key.part")).unwrap();
        home.keep_key("http://b", "ca_b").unwrap();
        assert_eq!(home.key("http://b").unwrap().as_deref(), Some("ca_b"));
    }

    #[test]
    fn a_broken_secret_is_told_and_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::open(folder.path(), "echo").unwrap();
        home.write("connection", "nonsense").unwrap();
        let error = home.connection_secret(&Environment::system()).unwrap_err();
        assert!(error.to_string().contains("echo.connection"), "{error}");
    }
}
