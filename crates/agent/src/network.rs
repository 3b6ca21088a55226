//! Networks: from which requests may come, and into which they may go.

use chorus_outbound::IpNet;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A text is not a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be an IP address such as 192.0.2.7, or a network such as 192.0.2.0/24")]
pub struct NetworkFault;

/// An address, or all that begin with the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    /// How many bits count.
    prefix: u32,
}

impl Network {
    /// Whether an address lies in one of these; without any, every address does.
    pub(crate) fn admit(networks: &[Self], address: IpAddr) -> bool {
        networks.is_empty() || networks.iter().any(|network| network.contains(address))
    }

    /// Whether an address lies in it. IPv4 stays IPv4, also when it is written as IPv6.
    pub fn contains(self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                // A shift by all bits leaves none, and then all are alike.
                let differing = own.to_bits() ^ other.to_bits();
                differing.checked_shr(32 - self.prefix).unwrap_or_default() == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let differing = own.to_bits() ^ other.to_bits();
                differing.checked_shr(128 - self.prefix).unwrap_or_default() == 0
            }
            _ => false,
        }
    }
}

impl From<IpAddr> for Network {
    fn from(address: IpAddr) -> Self {
        let address = address.to_canonical();
        Self { address, prefix: if address.is_ipv4() { 32 } else { 128 } }
    }
}

impl From<Network> for IpNet {
    fn from(network: Network) -> Self {
        // The prefix was checked when it was read.
        let prefix = u8::try_from(network.prefix).unwrap_or(u8::MAX);
        Self::new(network.address, prefix).unwrap_or_else(|_| network.address.into())
    }
}

impl FromStr for Network {
    type Err = NetworkFault;

    fn from_str(text: &str) -> Result<Self, NetworkFault> {
        let (address, prefix) = text.split_once('/').map_or((text, None), |(one, other)| (one, Some(other)));
        let address: IpAddr = address.parse().map_err(|_| NetworkFault)?;
        let Some(prefix) = prefix else { return Ok(address.into()) };
        let most = if address.is_ipv4() { 32 } else { 128 };
        let digits = prefix.len() <= 3 && prefix.bytes().all(|byte| byte.is_ascii_digit());
        let prefix = prefix.parse().ok().filter(|prefix| digits && *prefix <= most);
        Ok(Self { address, prefix: prefix.ok_or(NetworkFault)? })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
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
