//! The network address of a caller, as limits count it.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// The source of a request for rate limits: an IPv4 address, or a 64-bit network, which is the least that one
/// IPv6 customer has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Source(IpAddr);

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            IpAddr::V4(address) => write!(f, "{address}"),
            IpAddr::V6(network) => write!(f, "{network}/64"),
        }
    }
}

/// Returns the source that an address counts for.
pub fn rate_key(address: IpAddr) -> Source {
    Source(match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address @ IpAddr::V4(_) => address,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_network_of_64_bits_is_one_source() {
        let key = |text: &str| rate_key(text.parse().unwrap());
        assert_eq!(key("2001:db8::1"), key("2001:db8:0:0:ffff::9"));
        assert_ne!(key("2001:db8::1"), key("2001:db8:0:1::1"));
        assert_eq!(key("::ffff:192.0.2.1"), key("192.0.2.1"));
        assert_eq!(
            (key("2001:db8::1").to_string(), key("192.0.2.1").to_string()),
            ("2001:db8::/64".into(), "192.0.2.1".into())
        );
        assert_ne!(key("192.0.2.1"), key("192.0.2.2"));
    }
}
