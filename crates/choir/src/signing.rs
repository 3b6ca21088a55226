//! Signed submission of evidence: the signature and its headers.
//!
//! The signature covers the canonical form, so the JSON spelling of a program does not matter.

use chorus_protocol::canonical::hex;
use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// The header with the signature: 64 lower-case hex digits, optionally after `sha256=`.
pub const SIGNATURE_HEADER: &str = "X-Agentic-Choir-Signature";
/// The header with the time of signing, in seconds since 1970.
pub const TIMESTAMP_HEADER: &str = "X-Agentic-Choir-Timestamp";
/// The header with the public prefix of the secret.
pub const PREFIX_HEADER: &str = "X-Agentic-Choir-Secret-Prefix";
/// The length of a secret's public prefix: `acs_` and eight characters.
pub const PREFIX_LENGTH: usize = 12;
/// The maximum difference between a timestamp and now, in seconds.
pub const WINDOW_S: i64 = 300;

/// Returns the public prefix of a secret.
pub fn prefix(secret: &str) -> &str {
    secret.char_indices().nth(PREFIX_LENGTH).map_or(secret, |(end, _)| &secret[..end])
}

/// Returns `true` if a text has the form of a secret. Any text could sign, but the hub would reject the
/// signature much later.
pub fn is_secret(text: &str) -> bool {
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    text.len() > PREFIX_LENGTH && text.starts_with("acs_") && text.bytes().all(is_sign)
}

fn mac(secret: &str, timestamp: &str, body: &[u8]) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).ok()?;
    mac.update(timestamp.as_bytes());
    mac.update(b".");
    mac.update(body);
    Some(mac)
}

/// Signs a body. Keys of any length work.
pub fn sign(secret: &str, timestamp: &str, body: &[u8]) -> String {
    mac(secret, timestamp, body).map(|mac| hex(&mac.finalize().into_bytes())).unwrap_or_default()
}

/// Verifies the signature of a body in constant time.
pub fn is_signed(secret: &str, timestamp: &str, body: &[u8], signature: &str) -> bool {
    let given = signature.strip_prefix("sha256=").unwrap_or(signature);
    let given = HEXLOWER.decode(given.as_bytes()).unwrap_or_default();
    mac(secret, timestamp, body).is_some_and(|mac| mac.verify_slice(&given).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn section_15_the_vectors() {
        let vectors: serde_json::Value =
            serde_json::from_str(include_str!("../../protocol/src/canonical/vectors.json")).unwrap();
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        let (secret, timestamp) = (text(&vectors["secret"]), text(&vectors["timestamp"]));
        for vector in vectors["accept"].as_array().unwrap() {
            let (body, signature) = (text(&vector["canonical"]), text(&vector["hmac_sha256_hex"]));
            assert_eq!(sign(&secret, &timestamp, body.as_bytes()), signature);
            assert!(is_signed(&secret, &timestamp, body.as_bytes(), &signature));
            assert!(is_signed(&secret, &timestamp, body.as_bytes(), &format!("sha256={signature}")));
            assert!(!is_signed(&secret, "1763164801", body.as_bytes(), &signature));
            assert!(!is_signed(&secret, &timestamp, body.as_bytes(), &signature.to_uppercase()));
        }
        assert_eq!(prefix("acs_0123456789abcdef"), "acs_01234567");
        assert!(is_secret(&secret));
        for none in ["", "bogus", "acs_", "acs_01234567", "acs_0123 4567 89ab", "ck_0123456789abcdef"] {
            assert!(!is_secret(none), "{none}");
        }
    }
}
