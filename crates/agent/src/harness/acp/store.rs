//! The sessions of an ACP program on disk: the session of each thread, and the progress of its last prompt.
//!
//! A session's id is on disk before its first prompt, and the digest of a prompt before the prompt is sent. So
//! a process that continues after a crash resumes the session and knows that the prompt is in its history.

use crate::harness::error::HarnessError;
use crate::harness::home::Home;
use serde::{Deserialize, Serialize};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The name of the state file.
const FILE: &str = "acp-sessions";

/// The number of sessions that are kept. The one that was used longest ago is dropped first.
const MAX_SESSIONS: usize = 500;

/// One session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct SessionRecord {
    /// The thread or conversation.
    pub(super) key: String,
    /// The program's id of the session.
    pub(super) id: String,
    /// The time at which it was created, in milliseconds.
    pub(super) created_ms: i64,
    /// The digest of the last prompt, unless that prompt failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) asked: Option<String>,
    /// The first tool that may have changed something since the last prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) acted: Option<String>,
    /// The sequence number of the last message that the session was shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) shown: Option<i64>,
    /// The approvals at the hub that a turn waits for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) approvals: Vec<String>,
}

/// The sessions of one agent; see the [module](self).
pub(super) struct SessionStore {
    home: Home,
    /// The sessions, the one that was used longest ago first.
    records: Mutex<Vec<SessionRecord>>,
}

impl SessionStore {
    /// Opens the store. A file that cannot be understood counts as empty: then sessions begin anew.
    pub(super) fn open(home: &Home) -> Result<Self, HarnessError> {
        let text = home.read(FILE)?.unwrap_or_default();
        let records = Mutex::new(serde_json::from_str(&text).unwrap_or_default());
        Ok(Self { home: home.clone(), records })
    }

    fn records(&self) -> MutexGuard<'_, Vec<SessionRecord>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn find(&self, key: &str) -> Option<SessionRecord> {
        self.records().iter().find(|record| record.key == key).cloned()
    }

    /// Stores a record in place of the earlier one of its thread.
    pub(super) fn put(&self, record: SessionRecord) -> Result<(), HarnessError> {
        let mut records = self.records();
        records.retain(|one| one.key != record.key);
        records.push(record);
        let surplus = records.len().saturating_sub(MAX_SESSIONS);
        records.drain(..surplus);
        self.write(&records)
    }

    /// Changes the record of a thread, if there is one.
    pub(super) fn change(
        &self,
        key: &str,
        change: impl FnOnce(&mut SessionRecord),
    ) -> Result<(), HarnessError> {
        let mut records = self.records();
        if let Some(record) = records.iter_mut().find(|record| record.key == key) {
            change(record);
        }
        self.write(&records)
    }

    /// Removes and returns the approvals that an earlier process waited for.
    pub(super) fn take_approvals(&self) -> Result<Vec<String>, HarnessError> {
        let mut records = self.records();
        let approvals: Vec<_> =
            records.iter_mut().flat_map(|record| std::mem::take(&mut record.approvals)).collect();
        if !approvals.is_empty() {
            self.write(&records)?;
        }
        Ok(approvals)
    }

    fn write(&self, records: &[SessionRecord]) -> Result<(), HarnessError> {
        let text = serde_json::to_string(records).unwrap_or_default();
        self.home.write(FILE, &text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_survive_a_restart_and_the_oldest_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::open(folder.path(), "echo").unwrap();
        let store = SessionStore::open(&home).unwrap();
        let record =
            |n: usize| SessionRecord { key: format!("k{n}"), id: format!("s{n}"), ..Default::default() };
        (0..=MAX_SESSIONS).for_each(|n| store.put(record(n)).unwrap());
        store.change("k1", |record| record.approvals.push("apr_1".into())).unwrap();
        store.change("nothing", |record| record.id.clear()).unwrap();
        let store = SessionStore::open(&home).unwrap();
        assert_eq!((store.find("k0"), store.find("k2")), (None, Some(record(2))));
        assert_eq!(store.take_approvals().unwrap(), ["apr_1"]);
        assert_eq!(SessionStore::open(&home).unwrap().find("k1"), Some(record(1)));
        home.write(FILE, "{").unwrap();
        assert_eq!(SessionStore::open(&home).unwrap().find("k1"), None);
    }
}
