//! IP networks in text form, for lists of allowed clients and destinations.

use ipnet::IpNet;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// The error for a text that is not a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be an IP address such as 192.0.2.7, or a network such as 192.0.2.0/24")]
pub struct NetworkFault;

/// An IP address or a network in CIDR notation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network(IpNet);

impl Network {
    /// Returns `true` if the network contains an address. IPv4-mapped IPv6 addresses count as IPv4.
    pub fn contains(self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }

    /// Returns `true` if one of the networks contains an address, or if there is none.
    pub fn admit(networks: &[Self], address: IpAddr) -> bool {
        networks.is_empty() || networks.iter().any(|network| network.contains(address))
    }

    /// Parses a comma-separated list.
    pub fn list(text: &str) -> Result<Vec<Self>, NetworkFault> {
        text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::parse).collect()
    }
}

impl FromStr for Network {
    type Err = NetworkFault;

    fn from_str(text: &str) -> Result<Self, NetworkFault> {
        let alone = text.parse::<IpAddr>().map(|address| address.to_canonical().into());
        alone.or_else(|_| text.parse()).map(Self).map_err(|_| NetworkFault)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_in_it() {
        for (network, address, inside) in [
            ("192.0.2.7", "192.0.2.7", true),
            ("192.0.2.7", "192.0.2.8", false),
            ("192.0.2.0/24", "192.0.2.255", true),
            ("192.0.2.0/24", "192.0.3.0", false),
            ("192.0.2.77/24", "192.0.2.1", true),
            ("10.0.0.0/8", "::ffff:10.1.2.3", true),
            ("::ffff:10.1.2.3", "10.1.2.3", true),
            ("0.0.0.0/0", "203.0.113.9", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("::/0", "2001:db8::1", true),
            ("::/0", "203.0.113.9", false),
            ("2001:db8::/33", "2001:db8:7fff::1", true),
            ("2001:db8::/33", "2001:db8:8000::1", false),
            ("2001:db8::1", "2001:db8::1", true),
        ] {
            let network: Network = network.parse().unwrap();
            assert_eq!(network.contains(address.parse().unwrap()), inside, "{network} {address}");
        }
    }

    #[test]
    fn what_is_none() {
        for text in
            ["", "x", "192.0.2", "192.0.2.0/33", "192.0.2.0/", "192.0.2.0/+8", "::/129", "::/0/0", "/8"]
        {
            assert_eq!(text.parse::<Network>(), Err(NetworkFault), "{text}");
        }
        assert_eq!("192.0.2.7".parse::<Network>().unwrap().to_string(), "192.0.2.7/32");
    }
}
