//! Peers that are answered directly, by their addresses.

use crate::client::web_address;
use chorus_protocol::address::{Address, AddressFault};
use std::collections::BTreeMap;

/// Why a peer cannot be one.
#[derive(Debug, thiserror::Error)]
pub enum PeerFault {
    /// Its address is none.
    #[error("the agent {0}")]
    Agent(AddressFault),
    /// Where it is answered is no address on the web.
    #[error("the URL {0}")]
    Url(&'static str),
}

/// Where peers are answered. Upper and lower case are the same in their addresses.
#[derive(Debug, Clone, Default)]
pub struct Peers(BTreeMap<String, String>);

impl Peers {
    /// Answers `agent` at `url`.
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
