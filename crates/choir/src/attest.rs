//! Attestations that other tools read: a receipt as an in-toto statement in a DSSE envelope, and the log's head as a
//! signed note.
//!
//! Keys are arguments; one inside a receipt is never trusted. A statement says what a receipt says, and no more.

use chorus_protocol::canonical;
use chorus_protocol::choir::receipt::{Receipt, Verdict};
use data_encoding::BASE64;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// What is signed is a statement of in-toto.
pub const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";
/// What a statement says of a receipt.
pub const PREDICATE_TYPE: &str = "urn:chorus:choir-receipt/v0.1";
/// The vetted form that policies of supply chains can gate on.
pub const TEST_RESULT_TYPE: &str = "https://in-toto.io/attestation/test-result/v0.1";

/// The key that a hub signs with.
pub struct SigningKey(Ed25519KeyPair);

impl SigningKey {
    /// From its seed.
    pub fn of(seed: &[u8; 32]) -> Option<Self> {
        Ed25519KeyPair::from_seed_unchecked(seed).ok().map(Self)
    }

    /// What others check with.
    pub fn public(&self) -> &[u8] {
        self.0.public_key().as_ref()
    }

    /// How envelopes name it.
    pub fn id(&self) -> String {
        key_id(self.public())
    }

    fn sign(&self, bytes: &[u8]) -> Vec<u8> {
        self.0.sign(bytes).as_ref().to_vec()
    }
}

/// How a public key is named: the first sixteen digits of its hash.
pub fn key_id(public: &[u8]) -> String {
    canonical::sha256(public)[..16].to_owned()
}

/// What is signed: the type and the body, each with its length, so that neither can be taken for the other.
pub fn pae(payload_type: &str, body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), body.len()).into_bytes();
    bytes.extend(body);
    bytes
}

/// A receipt as a statement.
pub fn statement(receipt: &Receipt) -> Value {
    let payload = &receipt.payload;
    let hub = &payload["evidence"]["hub"];
    let predicate = if hub.is_object() {
        hub.clone()
    } else {
        json!({
            "protocol_version": payload["protocol_version"],
            "label": payload["label"],
            "verdict": payload["verdict"],
            "dimensions": payload["dimensions"],
        })
    };
    about(receipt, PREDICATE_TYPE, predicate)
}

/// A receipt as the result of a test.
pub fn test_result(receipt: &Receipt) -> Value {
    let payload = &receipt.payload;
    let verdict = payload["verdict"].as_str().and_then(Verdict::parse);
    let (result, list) = match verdict {
        Some(Verdict::Ready) => ("PASSED", "passedTests"),
        Some(Verdict::Conditional | Verdict::Retune) => ("WARNED", "warnedTests"),
        Some(Verdict::NotReady) | None => ("FAILED", "failedTests"),
    };
    let scenarios = payload["scenarios"].as_array().into_iter().flatten();
    let scenarios: Vec<_> = scenarios.map(|scenario| scenario["id"].clone()).collect();
    let mut predicate = json!({
        "result": result,
        "configuration": [{"name": "score", "digest": {"sha256": canonical::hash(&payload["score"])}}],
        "passedTests": [], "warnedTests": [], "failedTests": [],
    });
    predicate[list] = json!(scenarios);
    about(receipt, TEST_RESULT_TYPE, predicate)
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

/// Signs a statement: an envelope of DSSE.
pub fn envelope(statement: &Value, key: &SigningKey) -> Value {
    let body = canonical::text(statement);
    let signature = key.sign(&pae(PAYLOAD_TYPE, body.as_bytes()));
    json!({
        "payloadType": PAYLOAD_TYPE,
        "payload": BASE64.encode(body.as_bytes()),
        "signatures": [{"keyid": key.id(), "sig": BASE64.encode(&signature)}],
    })
}

/// The statement of an envelope that one of these keys signed.
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

/// The head of the log as a signed note: origin, size, root; then who signed it.
pub fn checkpoint(origin: &str, size: u64, root: &[u8; 32], key: &SigningKey) -> String {
    let text = format!("{origin}\n{size}\n{}\n", BASE64.encode(root));
    let mut signature = note_key(origin, key.public()).to_vec();
    signature.extend(key.sign(text.as_bytes()));
    format!("{text}\n\u{2014} {origin} {}\n", BASE64.encode(&signature))
}

/// The head of a log, as somebody signed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// What the hub called itself then: its address may have changed since, and its keys stay.
    pub origin: String,
    /// How many leaves there were.
    pub size: u64,
    /// What they hash to.
    pub root: [u8; 32],
}

/// Reads the head of a log that one of these keys signed.
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

/// How a note names its key.
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
