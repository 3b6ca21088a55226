//! Agent addresses, `name@host`, and the short form `name`.
//!
//! Parsing checks the form only. The hub passes its own host to [`Address::local_name`], which tells whether
//! an address is local. Names are compared without regard to ASCII case, so that `Bob` cannot pose as `bob`.

use std::fmt;

/// The generic host that every hub accepts as its own, beside its configured name.
pub const GENERIC_HOST: &str = "chorus";

/// The longest address, in bytes (all characters of an address are ASCII).
pub const MAX_LEN: usize = 128;

/// A well-formed address as its writer gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    name: String,
    host: Option<String>,
}

/// The reasons why a text is not an address. Each message completes the sentence "agent_id: …".
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressFault {
    #[error("must not be empty")]
    Empty,
    /// The text is longer than [`MAX_LEN`] bytes.
    #[error("must be at most {MAX_LEN} characters")]
    TooLong,
    /// The text has neither the form `name@host` nor `name`.
    #[error(
        "must be an address like name@host or the short form name (letters, digits, '.', '_' and '-'; a port may follow the host)"
    )]
    Malformed,
}

impl Address {
    /// Parses `name@host`, `name@host:port` or `name`.
    pub fn parse(text: &str) -> Result<Self, AddressFault> {
        if text.is_empty() {
            return Err(AddressFault::Empty);
        }
        if text.len() > MAX_LEN {
            return Err(AddressFault::TooLong);
        }
        let (name, host) = match text.split_once('@') {
            Some((name, host)) => (name, Some(host)),
            None => (text, None),
        };
        // URL clients remove path segments that consist of dots only, so such names could not be addressed.
        let well_formed = is_word(name) && !name.bytes().all(|b| b == b'.') && host.is_none_or(is_host);
        if !well_formed {
            return Err(AddressFault::Malformed);
        }
        Ok(Self { name: name.to_owned(), host: host.map(str::to_owned) })
    }

    /// Returns the name, without a host.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the host, or `None` for the short form.
    pub fn host(&self) -> Option<&str> {
        self.host.as_deref()
    }

    /// Returns the name if this address belongs to the hub at `hub_host`: its host is `hub_host`, the generic
    /// host, or absent.
    pub fn local_name(&self, hub_host: &str) -> Option<&str> {
        let ours = self.host().is_none_or(|host| {
            host.eq_ignore_ascii_case(hub_host) || host.eq_ignore_ascii_case(GENERIC_HOST)
        });
        ours.then_some(self.name())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Some(host) => write!(f, "{}@{host}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

fn is_host(text: &str) -> bool {
    match text.split_once(':') {
        Some((host, port)) => {
            let digits = port.len() <= 5 && port.bytes().all(|b| b.is_ascii_digit());
            is_word(host) && digits && port.parse::<u16>().is_ok()
        }
        None => is_word(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn forms() {
        for (text, good) in [
            ("alice@chorus.example", true),
            ("my-agent@chorus", true),
            ("bob", true),
            ("a.b_c-d@host-1.example:8787", true),
            ("", false),
            ("@chorus", false),
            ("alice@", false),
            ("al ice@chorus", false),
            ("alice@chorus@chorus", false),
            ("alice@host:port", false),
            ("alice@host:99999", false),
            ("alice@host:+80", false),
            ("alice@host:000080", false),
            ("..@chorus", false),
            ("älice@chorus", false),
        ] {
            assert_eq!(Address::parse(text).is_ok(), good, "{text}");
        }
        assert_eq!(Address::parse(&"a".repeat(129)), Err(AddressFault::TooLong));
        assert!(Address::parse(&"a".repeat(128)).is_ok());
    }

    #[test]
    fn locality() {
        let local = |text: &str| Address::parse(text).unwrap().local_name("hub.example").map(str::to_owned);
        assert_eq!(local("alice"), Some("alice".into()));
        assert_eq!(local("alice@chorus"), Some("alice".into()));
        assert_eq!(local("alice@HUB.example"), Some("alice".into()));
        assert_eq!(local("alice@other.example"), None);
        assert_eq!(local("alice@hub.example:81"), None);
    }

    proptest! {
        #[test]
        fn what_parses_prints_the_same(text in "[A-Za-z0-9._@:-]{1,40}") {
            if let Ok(address) = Address::parse(&text) {
                prop_assert_eq!(address.to_string(), text);
            }
        }
    }
}
