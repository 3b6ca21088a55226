//! The peers that are answered directly, by address.

use crate::client::web_address;
use chorus_protocol::address::{Address, AddressFault};
use std::collections::BTreeMap;

/// The reason why a peer is not valid.
#[derive(Debug, thiserror::Error)]
pub enum PeerFault {
    /// The agent's address is not valid.
    #[error("the agent {0}")]
    Agent(AddressFault),
    /// The URL is not a valid web address.
    #[error("the URL {0}")]
    Url(&'static str),
}

/// The reply URLs of peers, by agent address. Addresses are case-insensitive.
#[derive(Debug, Clone, Default)]
pub struct Peers(BTreeMap<String, String>);

impl Peers {
    /// Sends replies to `agent` to `url`.
    pub fn add(&mut self, agent: &str, url: &str) -> Result<(), PeerFault> {
        let agent = Address::parse(agent).map_err(PeerFault::Agent)?;
        let form = "must be where the agent receives, such as http://127.0.0.1:8788/receive";
        let url = web_address(url, form).map_err(PeerFault::Url)?;
        self.0.insert(agent.to_string().to_ascii_lowercase(), url.into());
        Ok(())
    }

    pub(super) fn url(&self, agent: &str) -> Option<&str> {
        self.0.get(&agent.to_ascii_lowercase()).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_are_peers() {
        let mut peers = Peers::default();
        peers.add("Alice@Example.org", "http://127.0.0.1:8788/receive").unwrap();
        for alice in ["alice@example.org", "ALICE@example.org"] {
            assert_eq!(peers.url(alice), Some("http://127.0.0.1:8788/receive"));
        }
        assert_eq!(peers.url("bob@example.org"), None);
        let fault = peers.add("al ice", "http://x/receive").unwrap_err().to_string();
        assert!(fault.starts_with("the agent must"), "{fault}");
        let fault = peers.add("bob", "localhost:8788").unwrap_err().to_string();
        assert!(fault.starts_with("the URL must be where"), "{fault}");
    }
}
