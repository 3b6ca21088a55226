//! Verification of receipts by their own bytes and by the hub's signatures.

pub use crate::recompute::VerdictCheck;
use crate::{attest, merkle, recompute};
use chorus_protocol::canonical;
use data_encoding::HEXLOWER;
use serde_json::Value;

/// The result of a successful verification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// The hash, which was given and recomputed.
    pub payload_hash: String,
    /// The kind of claim that the receipt makes.
    pub label: String,
    pub verdict: String,
    /// The names of the checks that were made.
    pub checks: Vec<&'static str>,
    /// The depth to which the verdict was checked.
    pub verdict_check: VerdictCheck,
    /// The origin of the hub when it signed the head of its log; `None` without keys.
    pub origin: Option<String>,
}

/// The reasons why a verification failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// The value is not a receipt.
    #[error("this is no receipt: {0}")]
    NotAReceipt(&'static str),
    /// The payload differs from the one that was hashed.
    #[error("hash: the payload was altered: it hashes to {recomputed}, the receipt says {given}")]
    Hash {
        /// The hash in the receipt.
        given: String,
        /// The actual hash.
        recomputed: String,
    },
    /// The verdict or a number does not follow from the rest of the receipt.
    #[error("verdict: {0}")]
    Verdict(String),
    /// The attestation is not signed by a key of the hub, or is about another receipt.
    #[error("signature: {0}")]
    Signature(&'static str),
    /// The receipt has a member that no signature covers.
    #[error("unsigned: {0:?} is no part of a receipt, and nobody signed it")]
    Unsigned(String),
    /// The log does not contain the receipt.
    #[error("inclusion: {0}")]
    Inclusion(&'static str),
}

/// The published keys of a hub.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Keys {
    /// The origin of the hub.
    pub origin: String,
    /// The public keys as bytes.
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

/// Returns the leaf of a receipt in the transparency log.
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

/// Verifies a receipt: always its hash and its verdict, and with the keys of its hub also its attestation and its
/// place in the log. With keys both are required, because a forger could omit what would expose the forgery. A response of
/// `/api/public/verify` has no attestation; for it the place in the log, whose head is signed, is sufficient.
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
    let verdict_check = recompute::check(payload).map_err(VerifyError::Verdict)?;
    let (mut checks, mut origin) = (vec!["hash", "verdict"], None);
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
    Ok(Verified { payload_hash: given, label, verdict, checks, verdict_check, origin })
}

/// Converts a response of `/api/public/verify` to a receipt. It holds the payload as text, and some members
/// twice. If there is a `payload` member, that one counts and the text beside it is ignored.
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

/// The members of a receipt. Any other member was added by someone else.
const PARTS: [&str; 6] = ["receipt_id", "generated_at", "payload_hash", "payload", "log", "attestation"];

/// Checks that a receipt has no other members, except for the URL that its issuer receives, which follows from
/// signed members.
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

/// Verifies the inclusion proof and returns the origin of the hub when it signed.
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
