//! The transparency log of this hub: appending to it, its signed checkpoint, and its proofs.

use chorus_choir::attest::{self, SigningKey};
use chorus_choir::merkle::{Hash, Place, Tree, leaf_hash};
use chorus_node::Error;
use chorus_node::secrets::MasterKey;
use chorus_node::{App, AppState};
use chorus_protocol::canonical::hex;
use chorus_protocol::time::rfc3339;
use chorus_store::choir::log::{self, KeyRow};
use chorus_store::{StoreError, Tx};
use data_encoding::BASE64;
use serde_json::{Value, json};

/// Returns the tree of the first `size` leaves.
pub(super) fn tree(tx: &mut dyn Tx, size: i64) -> Tree<impl FnMut(Place) -> Result<Hash, StoreError>> {
    Tree::new(size.max(0) as u64, move |place: Place| log::node(tx, place.level.into(), place.index as i64))
}

/// Appends a leaf and returns its index. Concurrent appends wait for the end of this transaction.
pub(super) fn append(tx: &mut dyn Tx, leaf: &str) -> Result<i64, StoreError> {
    let place = log::next_place(tx)?;
    let made = tree(tx, place).append(leaf_hash(leaf.as_bytes()))?;
    log::insert_leaf(tx, place, leaf)?;
    for (node, hash) in made {
        log::insert_node(tx, node.level.into(), node.index as i64, &hash)?;
    }
    Ok(place)
}

/// Returns the signing key of this hub and its generation. If the newest key in the table does not match the
/// master key, the next generation is used.
fn current(master: &MasterKey, keys: &[KeyRow]) -> Result<(SigningKey, i64), Error> {
    let odd = || Error::internal("the attestation key cannot be made");
    let newest = keys.first();
    if let Some(row) = newest {
        let key = SigningKey::of(&master.attestation_seed(row.generation)).ok_or_else(odd)?;
        if key.public() == row.public {
            return Ok((key, row.generation));
        }
    }
    let generation = newest.map_or(1, |row| row.generation + 1);
    Ok((SigningKey::of(&master.attestation_seed(generation)).ok_or_else(odd)?, generation))
}

/// Returns the signing key of this hub, and publishes it if it is new.
pub(super) async fn signing_key(app: &App) -> Result<SigningKey, Error> {
    let keys = app.store.read::<_, Error, _>(|tx: &mut dyn Tx| Ok(log::keys(tx)?)).await?;
    let (key, generation) = current(&app.config.master_key, &keys)?;
    if keys.first().is_none_or(|row| row.generation != generation) {
        let new = KeyRow { generation, public: key.public().to_vec(), from: app.now(), until: None };
        app.store.write::<_, Error, _>(move |tx: &mut dyn Tx| Ok(log::replace_key(tx, &new)?)).await?;
    }
    Ok(key)
}

/// Returns the public halves of all present and former signing keys.
pub async fn keys(app: &AppState) -> Result<Value, Error> {
    signing_key(app).await?;
    let keys = app.store.read::<_, Error, _>(|tx: &mut dyn Tx| Ok(log::keys(tx)?)).await?;
    let shown = keys.iter().map(|row| {
        json!({
            "kid": attest::key_id(&row.public), "public_key": BASE64.encode(&row.public),
            "from": rfc3339(row.from), "until": row.until.map(rfc3339),
        })
    });
    Ok(json!({"origin": app.config.public_url, "keys": shown.collect::<Vec<_>>()}))
}

/// The state of the log, with its checkpoint verified.
#[derive(Debug)]
pub struct LogHealth {
    /// The number of entries.
    pub size: i64,
    /// The root hash over all entries, in hex.
    pub head: String,
    /// The time of the newest entry.
    pub newest_at: Option<String>,
    /// The id of the signing key. `key_since` is the time since when it signs.
    pub key: String,
    pub key_since: Option<String>,
    /// The time of the checkpoint, which is signed on every request.
    pub signed_at: String,
    /// `true` if the checkpoint verifies with the published keys and matches the tree.
    pub holds: bool,
}

/// Signs a checkpoint, verifies it, and returns the state of the log.
pub async fn health(app: &AppState) -> Result<LogHealth, Error> {
    let note = checkpoint(app).await?;
    let look = |tx: &mut dyn Tx| {
        let size = log::size(tx)?;
        let newest = if size > 0 { log::leaf(tx, size - 1)? } else { None };
        let keys = log::keys(tx)?;
        let root = tree(tx, size).root()?;
        Ok((size, root, newest, keys))
    };
    let (size, root, newest, keys) = app.store.read::<_, Error, _>(look).await?;
    let newest: Option<Value> = newest.and_then(|leaf| serde_json::from_str(&leaf).ok());
    let public: Vec<_> = keys.iter().map(|key| key.public.clone()).collect();
    let read = attest::read_checkpoint(&note, &public);
    // An entry that was appended in between is in the tree, but not in the checkpoint.
    let holds =
        read.is_some_and(|head| head.size < size as u64 || (head.size, head.root) == (size as u64, root));
    Ok(LogHealth {
        size,
        head: hex(&root),
        newest_at: newest.and_then(|leaf| leaf["generated_at"].as_str().map(str::to_owned)),
        key: keys.first().map(|key| attest::key_id(&key.public)).unwrap_or_default(),
        key_since: keys.first().map(|key| rfc3339(key.from)),
        signed_at: rfc3339(app.now()),
        holds,
    })
}

/// Returns a signed checkpoint of the log.
pub async fn checkpoint(app: &AppState) -> Result<String, Error> {
    let key = signing_key(app).await?;
    let look = |tx: &mut dyn Tx| {
        let size = log::size(tx)?;
        Ok((size, tree(tx, size).root()?))
    };
    let (size, root) = app.store.read::<_, Error, _>(look).await?;
    Ok(attest::checkpoint(&app.config.public_url, size as u64, &root, &key))
}

fn hashes(path: &[Hash]) -> Vec<String> {
    path.iter().map(|hash| hex(hash)).collect()
}

/// Returns the inclusion proof of a leaf in the present log, with a checkpoint.
pub(super) async fn inclusion(app: &App, index: i64) -> Result<Value, Error> {
    let key = signing_key(app).await?;
    let look = move |tx: &mut dyn Tx| {
        let size = log::size(tx)?;
        let path = tree(tx, size).inclusion(index as u64)?;
        let path = path.ok_or_else(|| Error::internal("a receipt is not in the log"))?;
        Ok((size, tree(tx, size).root()?, path))
    };
    let (size, root, path) = app.store.read::<_, Error, _>(look).await?;
    let note = attest::checkpoint(&app.config.public_url, size as u64, &root, &key);
    Ok(json!({"index": index, "inclusion_proof": hashes(&path), "checkpoint": note}))
}

/// Returns the proof that the log only grew between two sizes.
pub async fn consistency(app: &App, from: i64, to: Option<i64>) -> Result<Value, Error> {
    let look = move |tx: &mut dyn Tx| {
        let size = log::size(tx)?;
        let to = to.unwrap_or(size);
        if from > to || to > size {
            let what =
                format!("from: must be at most to, and to at most {size}, which is how many there are");
            return Err(Error::validation(what));
        }
        let path = tree(tx, to).consistency(from as u64)?;
        let path = path.ok_or_else(|| Error::validation("from: must be 1 or more"))?;
        let before = tree(tx, from).root()?;
        let after = tree(tx, to).root()?;
        Ok((to, path, (before, after)))
    };
    let (to, path, (before, after)) = app.store.read::<_, Error, _>(look).await?;
    Ok(json!({
        "from": from, "to": to, "proof": hashes(&path), "from_root": hex(&before), "to_root": hex(&after),
    }))
}

/// Lists leaf hashes in order, so that a monitor can rebuild the root and notice a leaf that nobody told it of.
pub async fn leaf_hashes(app: &App, from: i64, limit: i64) -> Result<Value, Error> {
    let look = move |tx: &mut dyn Tx| Ok((log::size(tx)?, log::leaves(tx, from, limit)?));
    let (size, leaves) = app.store.read::<_, Error, _>(look).await?;
    let hashes = leaves.iter().map(|(_, leaf)| hex(&leaf_hash(leaf.as_bytes())));
    Ok(json!({"size": size, "from": from, "leaves": hashes.collect::<Vec<_>>()}))
}
