//! Finds the client's address behind trusted proxies.

use chorus_outbound::Network;
use std::net::{IpAddr, SocketAddr};

/// The proxies the operator trusts.
#[derive(Debug, Clone, Default)]
pub struct TrustedProxies(Vec<Network>);

impl TrustedProxies {
    /// The accepted form of the setting.
    pub const FORM: &str = "addresses or networks such as 127.0.0.1,10.0.0.0/8";

    /// Reads a list with commas between.
    pub fn parse(text: &str) -> Option<Self> {
        Network::list(text).ok().map(Self)
    }

    /// Returns whether no proxy is trusted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether this is the address of a trusted proxy.
    pub fn trusts(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(address))
    }

    /// The address of a caller. Each proxy adds at the right whom it got the request from, so the list is read from there,
    /// and no further than trusted proxies: what stands left of a stranger is the stranger's own word.
    /// `forwarded_for` is what the header `X-Forwarded-For` says, as often as it is there; what is no text is none.
    pub fn client<'a>(
        &self,
        peer: IpAddr,
        forwarded_for: impl DoubleEndedIterator<Item = Option<&'a str>>,
    ) -> IpAddr {
        // `::ffff:127.0.0.1` is 127.0.0.1 in other clothes.
        let mut client = peer.to_canonical();
        // A value that is no text counts as one hop without an address.
        let mut hops = forwarded_for.rev().flat_map(|value| value.unwrap_or("?").rsplit(','));
        while self.trusts(client) {
            let Some(hop) = hops.next().and_then(address) else { break };
            client = hop;
        }
        client
    }
}

/// An address, with or without a port.
fn address(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let with_port = || text.parse().ok().map(|address: SocketAddr| address.ip());
    text.parse().ok().or_else(with_port).map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_trusted_proxies_are_believed() {
        let trusted = TrustedProxies::parse("10.0.0.0/8, fd00::1").unwrap();
        for (peer, forwarded, expected) in [
            ("192.0.2.1", &[][..], "192.0.2.1"),
            ("192.0.2.1", &["198.51.100.7"], "192.0.2.1"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("10.0.0.1", &["198.51.100.7"], "198.51.100.7"),
            ("::ffff:10.0.0.1", &["198.51.100.7:4711"], "198.51.100.7"),
            ("fd00::1", &["[2001:db8::7]:4711"], "2001:db8::7"),
            // Addresses that the caller made up stand to the left of its own.
            ("10.0.0.1", &["203.0.113.9, 198.51.100.7"], "198.51.100.7"),
            ("10.0.0.1", &["203.0.113.9", "198.51.100.7, 10.0.0.2"], "198.51.100.7"),
            ("10.0.0.1", &["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
            // An invalid value is attributed to the proxy that passed it on.
            ("10.0.0.1", &["198.51.100.7, unknown, 10.0.0.2"], "10.0.0.2"),
            ("10.0.0.1", &[""], "10.0.0.1"),
        ] {
            let found = trusted.client(peer.parse().unwrap(), forwarded.iter().copied().map(Some));
            assert_eq!(found, expected.parse::<IpAddr>().unwrap(), "{peer} {forwarded:?}");
        }
        assert!(TrustedProxies::parse("10.0.0.0/8, proxy.example").is_none());
    }
}
