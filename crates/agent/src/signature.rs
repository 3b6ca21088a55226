//! Signatures of webhooks by the Standard Webhooks specification: HMAC-SHA256 over `id.timestamp.body`.
//!
//! Pure: the caller brings the time. A valid signature proves that someone who knows the secret sent these
//! bytes recently. It does not prove that they were sent only once.

use data_encoding::BASE64;
use hmac::{Hmac, KeyInit, Mac};
use hyper::HeaderMap;
use sha2::Sha256;
use std::fmt;

/// The maximum distance of a timestamp from the current time, in seconds, in either direction.
const TOLERANCE_S: i64 = 5 * 60;

/// The number of signatures that are checked. A request has two while a secret is being replaced.
const MAX_SIGNATURES: usize = 5;

/// The error for a text that is not a webhook secret. It does not repeat the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be the webhook_secret of the registration: whsec_ and 24 to 64 bytes in base64")]
pub struct SecretFault;

/// The reason why a request's signature is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SignatureFault {
    #[error("the header {0} is missing or malformed: requests to this address must be signed")]
    Header(&'static str),
    #[error("webhook-timestamp is more than 5 minutes away from this clock")]
    Expired,
    #[error("webhook-signature does not match: another secret, or another body")]
    Mismatch,
}

/// The secret that an agent and its hub share for signing webhooks.
#[derive(Clone)]
pub struct WebhookSecret(Vec<u8>);

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebhookSecret(…)")
    }
}

impl WebhookSecret {
    /// Parses `whsec_…`, as issued by a hub.
    pub fn parse(text: &str) -> Result<Self, SecretFault> {
        let key = text.trim().strip_prefix("whsec_").ok_or(SecretFault)?;
        let key = BASE64.decode(key.as_bytes()).map_err(|_| SecretFault)?;
        if (24..=64).contains(&key.len()) { Ok(Self(key)) } else { Err(SecretFault) }
    }

    /// Checks a request's signature and returns the request's id.
    pub(crate) fn verify(
        &self,
        headers: &HeaderMap,
        body: &[u8],
        now_ms: i64,
    ) -> Result<String, SignatureFault> {
        let header = |name: &'static str| {
            let value = headers.get(name).and_then(|value| value.to_str().ok());
            value.filter(|value| !value.is_empty()).ok_or(SignatureFault::Header(name))
        };
        let (id, time, given) =
            (header("webhook-id")?, header("webhook-timestamp")?, header("webhook-signature")?);
        let seconds: i64 = time.parse().map_err(|_| SignatureFault::Header("webhook-timestamp"))?;
        if seconds.abs_diff(now_ms / 1000) > TOLERANCE_S.unsigned_abs() {
            return Err(SignatureFault::Expired);
        }
        // The body is hashed once, for any number of signatures.
        let mac = self.mac(id, time, body).ok_or(SignatureFault::Mismatch)?;
        let given = given.split(' ').filter_map(|one| one.strip_prefix("v1,")).take(MAX_SIGNATURES);
        let good = given.map(|one| BASE64.decode(one.as_bytes()).unwrap_or_default()).any(|signature| {
            // Compares in constant time.
            mac.clone().verify_slice(&signature).is_ok()
        });
        if good { Ok(id.to_owned()) } else { Err(SignatureFault::Mismatch) }
    }

    /// Computes the MAC. HMAC accepts keys of any length, so it never returns `None`.
    fn mac(&self, id: &str, time: &str, body: &[u8]) -> Option<Hmac<Sha256>> {
        let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(&self.0).ok()?;
        for part in [id.as_bytes(), b".", time.as_bytes(), b".", body] {
            mac.update(part);
        }
        Some(mac)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    // The example of the reference libraries of Standard Webhooks.
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
    const BODY: &[u8] = b"{\"test\": 2432232314}";
    const TIME: i64 = 1_614_265_330;

    fn verify(signature: &str, body: &[u8], now_s: i64) -> Result<String, SignatureFault> {
        let mut headers = HeaderMap::new();
        headers.insert("webhook-id", HeaderValue::from_static("msg_p5jXN8AQM9LWM0D4loKWxJek"));
        headers.insert("webhook-timestamp", TIME.into());
        headers.insert("webhook-signature", HeaderValue::from_str(signature).unwrap());
        WebhookSecret::parse(SECRET).unwrap().verify(&headers, body, now_s * 1000)
    }

    #[test]
    fn the_reference_vector() {
        assert_eq!(verify(SIGNATURE, BODY, TIME).unwrap(), "msg_p5jXN8AQM9LWM0D4loKWxJek");
        let several = format!("v1a,xyz v1,AAAA {SIGNATURE} v2,x");
        assert!(verify(&several, BODY, TIME).is_ok());
        // The number of compared signatures is limited.
        let hidden = format!("{}{SIGNATURE}", "v1,AAAA ".repeat(MAX_SIGNATURES));
        assert_eq!(verify(&hidden, BODY, TIME), Err(SignatureFault::Mismatch));
    }

    #[test]
    fn what_is_not_believed() {
        assert_eq!(verify(SIGNATURE, b"{\"test\": 2432232315}", TIME), Err(SignatureFault::Mismatch));
        assert_eq!(verify("v1,", BODY, TIME), Err(SignatureFault::Mismatch));
        assert_eq!(verify("v1,not base64", BODY, TIME), Err(SignatureFault::Mismatch));
        assert_eq!(verify(&SIGNATURE.replace("v1", "v2"), BODY, TIME), Err(SignatureFault::Mismatch));
        assert_eq!(verify("", BODY, TIME), Err(SignatureFault::Header("webhook-signature")));
        let other = WebhookSecret::parse(&SECRET.replace('M', "N")).unwrap();
        assert!(other.verify(&HeaderMap::new(), BODY, TIME * 1000).is_err());
    }

    #[test]
    fn five_minutes_either_way() {
        for (now, good) in [(TIME - 300, true), (TIME - 301, false), (TIME + 300, true), (TIME + 301, false)]
        {
            assert_eq!(verify(SIGNATURE, BODY, now).is_ok(), good, "{now}");
        }
        assert_eq!(verify(SIGNATURE, BODY, TIME + 301), Err(SignatureFault::Expired));
        assert_eq!(verify(SIGNATURE, BODY, i64::MIN / 1000), Err(SignatureFault::Expired));
    }

    #[test]
    fn secrets() {
        for text in ["", "whsec_", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_!", "whsec_AAAA"] {
            assert!(WebhookSecret::parse(text).is_err(), "{text}");
        }
        assert!(!format!("{:?}", WebhookSecret::parse(SECRET)).contains("MfKQ"));
    }
}
