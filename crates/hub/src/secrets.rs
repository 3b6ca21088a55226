//! Secrets that are derived instead of stored: from the hub's master key, for one purpose and one owner each.
//!
//! So the database holds none of them, and whoever reads it can sign nothing.

use chorus_protocol::ids::AgentId;
use data_encoding::{BASE64, HEXLOWER};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

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

impl MasterKey {
    /// What lets a receiver answer message `seq` of its inbox with a stream, and nobody else.
    pub(crate) fn reply_token(&self, agent: AgentId, seq: i64) -> String {
        let place = [agent.as_bytes(), &seq.to_be_bytes()].concat();
        let mac = mac(&self.0, &[b"reply\0", &place]);
        format!("tok_{}{}", HEXLOWER.encode(&place), HEXLOWER.encode(&mac[..16]))
    }

    /// Reads what [`Self::reply_token`] made.
    pub(crate) fn read_reply_token(&self, token: &str) -> Option<(AgentId, i64)> {
        let bytes = HEXLOWER.decode(token.strip_prefix("tok_")?.as_bytes()).ok()?;
        let (agent, rest) = bytes.split_at_checked(16)?;
        let (seq, _) = rest.split_first_chunk::<8>()?;
        let (agent, seq) = (AgentId::from_slice(agent)?, i64::from_be_bytes(*seq));
        let genuine = self.reply_token(agent, seq);
        bool::from(genuine.as_bytes().ct_eq(token.as_bytes())).then_some((agent, seq))
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
    fn reply_tokens_are_read_back_and_cannot_be_forged() {
        let master = MasterKey::new([7; 32]);
        let agent = AgentId(uuid::Uuid::from_u128(9));
        let token = master.reply_token(agent, 42);
        assert_eq!(master.read_reply_token(&token), Some((agent, 42)));
        assert_eq!(MasterKey::new([8; 32]).read_reply_token(&token), None);
        for forged in
            ["", "tok_", "tok_00", &token[..token.len() - 2], &token.replacen("2a", "2b", 1), "tok_zz"]
        {
            assert_eq!(master.read_reply_token(forged), None, "{forged}");
        }
    }

    #[test]
    fn each_agent_has_its_own() {
        let master = MasterKey::new([7; 32]);
        assert_ne!(master.webhook_secret(b"a").printed(), master.webhook_secret(b"b").printed());
        assert!(master.webhook_secret(b"a").printed().starts_with("whsec_"));
    }
}
