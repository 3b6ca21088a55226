//! The operator's key if the settings name none: generated at the first start and stored as a hash.

use chorus_node::caller::key_hash;
use chorus_store::{Store, StoreError, Tx, settings};

/// Stores the hash of this key unless one is stored already. Returns the stored hash as hex, and whether it is
/// this key's.
pub async fn keep_operator_key(store: &Store, key: &str) -> Result<(String, bool), StoreError> {
    let hash = data_encoding::HEXLOWER.encode(&key_hash(key));
    let keep = move |tx: &mut dyn Tx| settings::set_once(tx, "operator_key_sha256", &hash);
    store.write::<_, StoreError, _>(keep).await
}
