//! The secret in a connection string, and its comparison.

use chorus_environment::Environment;
use sha2::Sha256;
use std::fmt;

/// The error for a text that is not the secret of a connection string. It does not repeat the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be sk_ and 16 to 128 letters, digits, - or _")]
pub struct ConnectionSecretFault;

/// The secret part of a connection string: `sk_…`.
#[derive(Clone)]
pub struct ConnectionSecret(String);

impl fmt::Debug for ConnectionSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConnectionSecret(…)")
    }
}

impl ConnectionSecret {
    pub fn generate(environment: &Environment) -> Self {
        Self(format!("sk_{}", environment.random_hex()))
    }

    /// Parses a secret that was generated before.
    pub fn parse(text: &str) -> Result<Self, ConnectionSecretFault> {
        let rest = text.strip_prefix("sk_").ok_or(ConnectionSecretFault)?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let good = (16..=128).contains(&rest.len()) && rest.bytes().all(plain);
        if good { Ok(Self(text.to_owned())) } else { Err(ConnectionSecretFault) }
    }

    /// Returns the secret as it stands in the connection string. Store it safely.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn digest(&self) -> Digest {
        Digest::of(&self.0)
    }
}

/// A digest of a secret, for comparison.
#[derive(Debug, Clone, Copy)]
pub(super) struct Digest([u8; 32]);

impl Digest {
    pub(super) fn of(text: &str) -> Self {
        Self(<Sha256 as sha2::Digest>::digest(text).into())
    }

    /// Compares two digests in constant time.
    pub(super) fn matches(self, other: Self) -> bool {
        self.0.iter().zip(other.0).fold(0, |differing, (one, other)| differing | (one ^ other)) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets() {
        let environment = Environment::system();
        let made = ConnectionSecret::generate(&environment);
        assert_eq!(ConnectionSecret::parse(made.as_str()).unwrap().as_str(), made.as_str());
        assert_ne!(ConnectionSecret::generate(&environment).as_str(), made.as_str());
        for text in ["", "sk_", "sk_a1b2c3d4e5f6", "a1b2c3d4e5f6a7b8c9d0", "sk_a1b2c3d4e5f6a7b8/c9d0"] {
            assert!(ConnectionSecret::parse(text).is_err(), "{text}");
        }
        assert!(ConnectionSecret::parse(&format!("sk_{}", "x".repeat(129))).is_err());
        assert!(!format!("{made:?}").contains("sk_"));
    }

    #[test]
    fn digests() {
        assert!(Digest::of("a").matches(Digest::of("a")));
        assert!(!Digest::of("a").matches(Digest::of("b")));
    }
}
