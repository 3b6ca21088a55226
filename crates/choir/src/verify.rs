//! Verification: whether a receipt is what it says, by its own bytes and by what a hub signed of it.

use crate::{attest, merkle};
use chorus_protocol::canonical;
use data_encoding::HEXLOWER;
use serde_json::Value;

/// What was checked and holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// The hash that was given and recomputed.
    pub payload_hash: String,
    /// What the receipt claims to be.
    pub label: String,
    /// Its verdict.
    pub verdict: String,
    /// What was checked.
    pub checks: Vec<&'static str>,
    /// With keys: what the hub called itself when it signed the head of its log.
    pub origin: Option<String>,
}

/// What does not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// It is something else.
    #[error("this is no receipt: {0}")]
    NotAReceipt(&'static str),
    /// The payload is not the one that was hashed.
    #[error("hash: the payload was altered: it hashes to {recomputed}, the receipt says {given}")]
    Hash {
        /// What the receipt says.
        given: String,
        /// What it is.
        recomputed: String,
    },
    /// The attestation is not signed by a key of the hub, or speaks of another receipt.
    #[error("signature: {0}")]
    Signature(&'static str),
    /// It has a part that nothing speaks for.
    #[error("unsigned: {0:?} is no part of a receipt, and nobody signed it")]
    Unsigned(String),
    /// The log does not show the receipt.
    #[error("inclusion: {0}")]
    Inclusion(&'static str),
}

/// The keys of a hub, as it publishes them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Keys {
    /// Who it is.
    pub origin: String,
    /// Each, in bytes.
    pub public: Vec<Vec<u8>>,
}

impl Keys {
    /// Reads `/.well-known/chorus-keys.json`.
    pub fn read(value: &Value) -> Option<Self> {
        let keys = value["keys"]
            .as_array()?
            .iter()
            .map(|key| data_encoding::BASE64.decode(key["public_key"].as_str()?.as_bytes()).ok());
        Some(Self { origin: value["origin"].as_str()?.to_owned(), public: keys.collect::<Option<_>>()? })
    }
}

/// The leaf of a receipt in the transparency log.
pub fn leaf(receipt: &Value) -> String {
    let payload = &receipt["payload"];
    canonical::text(&serde_json::json!({
        "receipt_id": receipt["receipt_id"],
        "generated_at": receipt["generated_at"],
        "payload_hash": receipt["payload_hash"],
        "protocol_version": payload["protocol_version"],
        "label": payload["label"],
    }))
}

/// Checks a receipt: its hash always; with the keys of its hub also its attestation and its place in the log. Whoever
/// gives keys asks for both: a forger could leave out what would give him away. What `/api/public/verify` answers has no
/// attestation; its place in the log, whose head is signed, is then what speaks for it.
pub fn verify(receipt: &Value, keys: Option<&Keys>) -> Result<Verified, VerifyError> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let answered = answered(receipt)?;
    let (receipt, is_answer) = (answered.as_ref().unwrap_or(receipt), answered.is_some());
    let payload = receipt.get("payload").filter(|payload| payload.is_object());
    let payload = payload.ok_or(VerifyError::NotAReceipt("it has no payload"))?;
    let given = text(&receipt["payload_hash"]).ok_or(VerifyError::NotAReceipt("it has no payload_hash"))?;
    let recomputed = canonical::hash(payload);
    if given != recomputed {
        return Err(VerifyError::Hash { given, recomputed });
    }
    let (mut checks, mut origin) = (vec!["hash"], None);
    if let Some(keys) = keys {
        if !is_answer {
            check_attestation(receipt, &given, keys)?;
            checks.push("signature");
        }
        let signed_as = check_inclusion(receipt, keys)?;
        check_parts(receipt, &signed_as)?;
        checks.push("inclusion");
        origin = Some(signed_as);
    }
    let label = text(&payload["label"]).ok_or(VerifyError::NotAReceipt("it has no label"))?;
    let verdict = text(&payload["verdict"]).ok_or(VerifyError::NotAReceipt("it has no verdict"))?;
    Ok(Verified { payload_hash: given, label, verdict, checks, origin })
}

/// What `/api/public/verify` answers, as a receipt: the payload stands in it as a text, and some of it twice. Where there is
/// a payload, it is that which everybody reads, and no text beside it counts.
fn answered(answer: &Value) -> Result<Option<Value>, VerifyError> {
    let (None, Some(text)) = (answer.get("payload"), answer["canonical_payload"].as_str()) else {
        return Ok(None);
    };
    let payload = canonical::parse(text.as_bytes())
        .map_err(|_| VerifyError::NotAReceipt("its canonical_payload is not JSON"))?;
    let mut members = answer.as_object().cloned().unwrap_or_default();
    members.remove("canonical_payload");
    let said_twice = [
        ("recomputed_hash", answer["payload_hash"].clone()),
        ("match", Value::Bool(true)),
        ("label", payload["label"].clone()),
    ];
    for (name, wanted) in said_twice {
        if members.remove(name).is_some_and(|said| said != wanted) {
            return Err(VerifyError::NotAReceipt(
                "what it says beside its payload is not what the payload says",
            ));
        }
    }
    members.insert("payload".into(), payload);
    Ok(Some(members.into()))
}

/// What a receipt is made of: whatever else stands in it was put there by somebody else.
const PARTS: [&str; 6] = ["receipt_id", "generated_at", "payload_hash", "payload", "log", "attestation"];

/// Whether there is nothing else in it. Who issues a receipt is also told its address, which follows from what is signed.
fn check_parts(receipt: &Value, origin: &str) -> Result<(), VerifyError> {
    let address = format!("{origin}/verify/{}", receipt["receipt_id"].as_str().unwrap_or_default());
    let is_part =
        |name: &str, value: &Value| PARTS.contains(&name) || (name == "verify_url" && *value == *address);
    let mut members = receipt.as_object().into_iter().flatten();
    members
        .find(|(name, value)| !is_part(name, value))
        .map_or(Ok(()), |(name, _)| Err(VerifyError::Unsigned(name.clone())))
}

fn check_attestation(receipt: &Value, hash: &str, keys: &Keys) -> Result<(), VerifyError> {
    if !receipt["attestation"].is_object() {
        return Err(VerifyError::Signature("the receipt has no attestation: nobody signed it"));
    }
    let statement = attest::open(&receipt["attestation"], &keys.public)
        .ok_or(VerifyError::Signature("no key of the hub signed this attestation"))?;
    if statement["subject"][0]["digest"]["sha256"] != hash {
        return Err(VerifyError::Signature("the attestation is about another receipt"));
    }
    Ok(())
}

/// Says what the hub called itself when it signed.
fn check_inclusion(receipt: &Value, keys: &Keys) -> Result<String, VerifyError> {
    let log = &receipt["log"];
    if !log.is_object() {
        return Err(VerifyError::Inclusion("the receipt has no place in a log"));
    }
    let note = log["checkpoint"].as_str().unwrap_or_default();
    let head = attest::read_checkpoint(note, &keys.public)
        .ok_or(VerifyError::Inclusion("no key of the hub signed this checkpoint"))?;
    let path = log["inclusion_proof"].as_array().into_iter().flatten();
    let path: Option<Vec<merkle::Hash>> =
        path.map(|hash| HEXLOWER.decode(hash.as_str()?.as_bytes()).ok()?.try_into().ok()).collect();
    let (leaf, index) =
        (merkle::leaf_hash(leaf(receipt).as_bytes()), log["index"].as_u64().unwrap_or(u64::MAX));
    match path {
        Some(path) if merkle::verify_inclusion(&leaf, index, head.size, &path, &head.root) => Ok(head.origin),
        _ => Err(VerifyError::Inclusion("the log does not hold this receipt")),
    }
}
