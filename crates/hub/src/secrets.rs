//! Secrets that are derived instead of stored: from the hub's master key, for one purpose and one owner each.
//!
//! So the database holds none of them, and whoever reads it can sign nothing.

use data_encoding::BASE64;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The key all others are derived from.
#[derive(Clone)]
pub struct MasterKey([u8; 32]);

impl MasterKey {
    /// From 32 random bytes, the same on all nodes of a hub.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The secret with which requests to one agent's endpoint are signed.
    pub(crate) fn webhook_secret(&self, agent: &[u8]) -> WebhookSecret {
        WebhookSecret(mac(&self.0, &[b"webhook\0", agent]))
    }
}

fn mac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    // HMAC takes keys of any length.
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(key).expect("a key of any length");
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

/// Signs as Standard Webhooks says, so that receivers can check with any library for it.
pub(crate) struct WebhookSecret([u8; 32]);

impl WebhookSecret {
    /// As the agent's owner pastes it into a verifier.
    pub(crate) fn printed(&self) -> String {
        format!("whsec_{}", BASE64.encode(&self.0))
    }

    /// The `webhook-signature` of a request.
    pub(crate) fn sign(&self, id: &str, timestamp_s: i64, body: &[u8]) -> String {
        let time = timestamp_s.to_string();
        let signature = mac(&self.0, &[id.as_bytes(), b".", time.as_bytes(), b".", body]);
        format!("v1,{}", BASE64.encode(&signature))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the Standard Webhooks specification's reference libraries.
    #[test]
    fn agrees_with_the_reference_vector() {
        let secret = BASE64.decode(b"MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signed = mac(&secret, &[b"msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330.{\"test\": 2432232314}"]);
        assert_eq!(BASE64.encode(&signed), "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn each_agent_has_its_own() {
        let master = MasterKey::new([7; 32]);
        assert_ne!(master.webhook_secret(b"a").printed(), master.webhook_secret(b"b").printed());
        assert!(master.webhook_secret(b"a").printed().starts_with("whsec_"));
    }
}
