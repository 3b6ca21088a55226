//! Attestations for other tools: a receipt as an in-toto statement in a DSSE envelope, and the log's head as a
//! signed note.
//!
//! Keys are arguments; a key inside a receipt is never trusted. A statement says what a receipt says, and no
//! more.

use chorus_protocol::canonical;
use chorus_protocol::choir::receipt::{Receipt, ScenarioOutcome, Verdict};
use data_encoding::BASE64;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// The media type of in-toto statements.
pub const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";
/// The predicate type of a statement about a receipt.
pub const PREDICATE_TYPE: &str = "urn:chorus:choir-receipt/v0.1";
/// The predicate type of a test result, a standard form that supply-chain policies can gate on.
pub const TEST_RESULT_TYPE: &str = "https://in-toto.io/attestation/test-result/v0.1";

/// The key that a hub signs with.
pub struct SigningKey(Ed25519KeyPair);

impl SigningKey {
    /// Creates a key from its seed.
    pub fn of(seed: &[u8; 32]) -> Option<Self> {
        Ed25519KeyPair::from_seed_unchecked(seed).ok().map(Self)
    }

    /// Returns the public key.
    pub fn public(&self) -> &[u8] {
        self.0.public_key().as_ref()
    }

    /// Returns the id of the key in envelopes.
    pub fn id(&self) -> String {
        key_id(self.public())
    }

    fn sign(&self, bytes: &[u8]) -> Vec<u8> {
        self.0.sign(bytes).as_ref().to_vec()
    }
}

/// Returns the id of a public key: the first sixteen digits of its hash.
pub fn key_id(public: &[u8]) -> String {
    canonical::sha256(public)[..16].to_owned()
}

/// Returns the bytes that DSSE signs: type and body, each with its length, so that neither can be mistaken for
/// the other.
pub fn pae(payload_type: &str, body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), body.len()).into_bytes();
    bytes.extend(body);
    bytes
}

/// Builds the statement of a receipt. If the hub carried the run, it also holds the hub's record.
pub fn statement(receipt: &Receipt) -> Value {
    let payload = &receipt.payload;
    let mut predicate = json!({
        "protocol_version": payload["protocol_version"],
        "label": payload["label"],
        "verdict": payload["verdict"],
        "dimensions": payload["dimensions"],
    });
    let hub = &payload["evidence"]["hub"];
    if hub.is_object() {
        predicate["hub"] = hub.clone();
    }
    about(receipt, PREDICATE_TYPE, predicate)
}

/// Builds the test result of a receipt: each observed scenario once, by its own outcome. A draft has none,
/// because nothing was tested, and neither has a receipt of engine 1.0, which holds no outcomes.
pub fn test_result(receipt: &Receipt) -> Option<Value> {
    let payload = &receipt.payload;
    let results = payload["results"].as_array().filter(|_| payload["evidence"].is_object())?;
    let of = |outcome: ScenarioOutcome| {
        let own = results.iter().filter(|one| one["result"] == outcome.as_str());
        own.map(|one| one["scenario_id"].clone()).collect::<Vec<_>>()
    };
    let failed = of(ScenarioOutcome::Failed);
    let result = match payload["verdict"].as_str().and_then(Verdict::parse) {
        Some(Verdict::NotReady) | None => "FAILED",
        Some(_) if !failed.is_empty() => "FAILED",
        Some(Verdict::Ready) => "PASSED",
        Some(Verdict::Conditional | Verdict::Retune) => "WARNED",
    };
    let predicate = json!({
        "result": result,
        "configuration": [{"name": "score", "digest": {"sha256": canonical::hash(&payload["score"])}}],
        "passedTests": of(ScenarioOutcome::Passed),
        "warnedTests": of(ScenarioOutcome::Warned),
        "failedTests": failed,
    });
    Some(about(receipt, TEST_RESULT_TYPE, predicate))
}

fn about(receipt: &Receipt, predicate_type: &str, predicate: Value) -> Value {
    let id = receipt.receipt_id.as_deref().unwrap_or("unissued");
    json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": format!("choir-receipt/{id}"), "digest": {"sha256": receipt.payload_hash}}],
        "predicateType": predicate_type,
        "predicate": predicate,
    })
}

/// Signs a statement and returns the DSSE envelope.
pub fn envelope(statement: &Value, key: &SigningKey) -> Value {
    let body = canonical::text(statement);
    let signature = key.sign(&pae(PAYLOAD_TYPE, body.as_bytes()));
    json!({
        "payloadType": PAYLOAD_TYPE,
        "payload": BASE64.encode(body.as_bytes()),
        "signatures": [{"keyid": key.id(), "sig": BASE64.encode(&signature)}],
    })
}

/// Returns the statement of an envelope, if one of these keys signed it.
pub fn open(envelope: &Value, keys: &[Vec<u8>]) -> Option<Value> {
    let payload_type = envelope["payloadType"].as_str().filter(|name| *name == PAYLOAD_TYPE)?;
    let body = BASE64.decode(envelope["payload"].as_str()?.as_bytes()).ok()?;
    let signed = envelope["signatures"].as_array()?.iter().any(|signature| {
        let Some(bytes) = signature["sig"].as_str().and_then(|text| BASE64.decode(text.as_bytes()).ok())
        else {
            return false;
        };
        let named = keys.iter().filter(|key| signature["keyid"] == key_id(key));
        named.into_iter().any(|key| verify(key, &pae(payload_type, &body), &bytes))
    });
    canonical::parse(&body).ok().filter(|_| signed)
}

fn verify(public: &[u8], bytes: &[u8], signature: &[u8]) -> bool {
    UnparsedPublicKey::new(&ED25519, public).verify(bytes, signature).is_ok()
}

/// Formats the head of the log as a signed note: origin, size, root, and the signature.
pub fn checkpoint(origin: &str, size: u64, root: &[u8; 32], key: &SigningKey) -> String {
    let text = format!("{origin}\n{size}\n{}\n", BASE64.encode(root));
    let mut signature = note_key(origin, key.public()).to_vec();
    signature.extend(key.sign(text.as_bytes()));
    format!("{text}\n\u{2014} {origin} {}\n", BASE64.encode(&signature))
}

/// The signed head of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The origin of the hub at the time of signing. Its address may have changed since; its keys stay.
    pub origin: String,
    /// The number of leaves.
    pub size: u64,
    /// The root hash of the tree.
    pub root: [u8; 32],
}

/// Reads the head of a log, if one of these keys signed it.
pub fn read_checkpoint(note: &str, keys: &[Vec<u8>]) -> Option<Head> {
    let (text, signatures) = note.split_once("\n\n")?;
    let (origin, text) = (text.lines().next()?, format!("{text}\n"));
    let signed = signatures.lines().any(|line| {
        let Some(encoded) = line.strip_prefix(&format!("\u{2014} {origin} ")) else { return false };
        let Ok(bytes) = BASE64.decode(encoded.as_bytes()) else { return false };
        let Some((name, signature)) = bytes.split_at_checked(4) else { return false };
        keys.iter().any(|key| note_key(origin, key) == name && verify(key, text.as_bytes(), signature))
    });
    let mut lines = text.lines().filter(|_| signed);
    let (_, size, root) = (lines.next()?, lines.next()?, lines.next()?);
    let root = BASE64.decode(root.as_bytes()).ok()?.try_into().ok()?;
    Some(Head { origin: origin.to_owned(), size: size.parse().ok()?, root })
}

/// Returns the id of a key in a note.
fn note_key(origin: &str, public: &[u8]) -> [u8; 4] {
    let digest = Sha256::new().chain_update(origin).chain_update(b"\n\x01").chain_update(public).finalize();
    [digest[0], digest[1], digest[2], digest[3]]
}

#[cfg(test)]
mod tests {
    use super::*;
    use chorus_protocol::canonical::hex;
    use data_encoding::HEXLOWER;

    fn vectors() -> Value {
        serde_json::from_str::<Value>(include_str!("../tests/vectors.json")).unwrap()["dsse"].clone()
    }

    fn key() -> SigningKey {
        let seed = HEXLOWER.decode(vectors()["seed"].as_str().unwrap().as_bytes()).unwrap();
        SigningKey::of(&seed.try_into().unwrap()).unwrap()
    }

    #[test]
    fn the_vectors() {
        let (vectors, key) = (vectors(), key());
        assert_eq!(
            (hex(key.public()), key.id()),
            (vectors["public_key"].as_str().unwrap().into(), vectors["kid"].as_str().unwrap().into())
        );
        let body = vectors["statement"].as_str().unwrap();
        let statement = canonical::parse(body.as_bytes()).unwrap();
        assert_eq!(canonical::text(&statement), body);
        let bytes = pae(PAYLOAD_TYPE, body.as_bytes());
        assert_eq!(canonical::sha256(&bytes), vectors["pae_sha256"].as_str().unwrap());
        assert_eq!(hex(&key.sign(&bytes)), vectors["signature"].as_str().unwrap());

        let envelope = envelope(&statement, &key);
        let keys = [key.public().to_vec()];
        assert_eq!(open(&envelope, &keys), Some(statement));
        assert_eq!(open(&envelope, &[vec![7; 32]]), None);
        let mut forged = envelope;
        forged["payload"] = json!(BASE64.encode(body.replace("where-is", "where-was").as_bytes()));
        assert_eq!(open(&forged, &keys), None);
    }

    #[test]
    fn the_head_of_the_log() {
        let (key, root) = (key(), [7; 32]);
        let note = checkpoint("https://hub.example", 12, &root, &key);
        let keys = [key.public().to_vec()];
        let head = Head { origin: "https://hub.example".into(), size: 12, root };
        assert_eq!(read_checkpoint(&note, &keys), Some(head));
        assert_eq!(read_checkpoint(&note.replace("12", "13"), &keys), None);
        assert_eq!(read_checkpoint(&note.replace("hub.", "other."), &keys), None);
        assert_eq!(read_checkpoint(&note, &[vec![7; 32]]), None);
    }
}
