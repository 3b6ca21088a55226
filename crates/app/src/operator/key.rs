//! The operator's key where the settings name none: made at the first start, and kept as a hash.

use crate::caller::key_hash;
use chorus_store::{Store, StoreError, Tx, settings};

/// Keeps the hash of this key, unless there is one already. Says which hash is kept, as hex, and whether it is this key's.
pub async fn keep_operator_key(store: &Store, key: &str) -> Result<(String, bool), StoreError> {
    let hash = data_encoding::HEXLOWER.encode(&key_hash(key));
    let keep = move |tx: &mut dyn Tx| settings::set_once(tx, "operator_key_sha256", &hash);
    store.write::<_, StoreError, _>(keep).await
}
