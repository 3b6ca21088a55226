//! Binds a database to its master key.
//!
//! A hub with another key could not open its sealed values nor verify its signatures, and would report this to
//! owners. So the database stores a fingerprint of its key, and a start with any other key is refused before
//! anything changes. To replace a key, the former one is given beside the new one, and then the fingerprint is
//! updated.

use crate::secrets::MasterKey;
use chorus_environment::Environment;
use chorus_protocol::ids::{AgentId, AuditId};
use chorus_store::audit::{self, Action, Actor, Entry, Subject};
use chorus_store::{Store, StoreError, Tx, sealed, settings};
use serde_json::json;

/// Under which name the fingerprint is kept among the settings.
pub const FINGERPRINT: &str = "master_key_fingerprint";

/// The reason why a hub may not run with this key.
#[derive(Debug, thiserror::Error)]
pub enum FingerprintError {
    /// The database belongs to another key.
    #[error("the database was made with another master key")]
    OtherKey,
    /// It could not be looked up or kept.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Checks that a hub may run with this key on a database with this fingerprint, or with none yet.
pub fn check_fingerprint(master: &MasterKey, held: Option<&str>) -> Result<(), FingerprintError> {
    let known = |held: &str| {
        held == master.fingerprint()
            || master.previous().is_some_and(|previous| held == previous.fingerprint())
    };
    if held.is_none_or(known) { Ok(()) } else { Err(FingerprintError::OtherKey) }
}

/// Checks again and stores the fingerprint of this key, in one transaction: of two nodes with different keys,
/// one is refused. With `lost`, a former key is not required. A replaced key is recorded.
pub async fn keep_fingerprint(
    store: &Store,
    master: &MasterKey,
    environment: &Environment,
    lost: bool,
) -> Result<(), FingerprintError> {
    let (master, id) = (master.clone(), AuditId(environment.uuid_v7()));
    let keep = move |tx: &mut dyn Tx| {
        // Of two that come first, the second waits here.
        let (held, new) = settings::set_once(tx, FINGERPRINT, &master.fingerprint())?;
        if !lost {
            check_fingerprint(&master, Some(&held))?;
            // A database from before fingerprints: its sealed values identify its key.
            let sealed = if new { sealed::connections(tx, None, 1)? } else { vec![] };
            let readable =
                |(agent, sealed): &(AgentId, Vec<u8>)| master.open(agent.as_bytes(), sealed).is_some();
            if !sealed.iter().all(readable) {
                return Err(FingerprintError::OtherKey);
            }
        }
        if held != master.fingerprint() {
            let entry = Entry {
                id,
                at: audit::time_of(id.0),
                actor: Actor::Operator,
                action: Action::MasterKeyReplaced,
                subject: Subject::Hub,
                detail: json!({"lost": lost}).to_string(),
                request_id: String::new(),
                client_request_id: String::new(),
                client: String::new(),
            };
            audit::record(tx, &entry)?;
        }
        Ok(settings::set(tx, FINGERPRINT, &master.fingerprint())?)
    };
    store.write(keep).await
}
