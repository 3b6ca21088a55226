//! The addresses that an agent calls because a message names them: callbacks, tool servers, streams.
//!
//! The sender of a message chooses these addresses, but the agent may be in a private network that the sender
//! cannot reach. Therefore only public addresses, explicitly allowed networks and the agent's own hub are
//! called. A tool server is riskier, since a model acts on its output: one that is not the hub's is used only
//! if the options allow it.

use crate::client::{CONNECT_LIMIT, USER_AGENT, http_client};
use chorus_outbound::{Blocked, Network, Policy};
use reqwest::{Method, RequestBuilder};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use url::{Host, Url};

/// The outbound policy of an agent; see the module. The default allows public addresses and no tool servers.
#[derive(Debug, Clone, Default)]
pub struct Reach {
    hub: Option<Url>,
    policy: Policy,
    foreign_mcp: bool,
    told: Arc<AtomicBool>,
}

impl Reach {
    /// Allows public addresses, the agent's own hub and these networks.
    pub fn new(hub: Option<&str>, allow: Vec<Network>) -> Self {
        let hub = hub.and_then(|hub| Url::parse(hub).ok());
        Self { hub, policy: Policy { allow }, ..Self::default() }
    }

    /// Allows or forbids tool servers other than the hub's.
    pub fn with_foreign_mcp(mut self, foreign_mcp: bool) -> Self {
        self.foreign_mcp = foreign_mcp;
        self
    }

    /// Checks whether a URL is on the agent's own hub: the same scheme, host and port.
    pub(crate) fn is_hub(&self, url: &Url) -> bool {
        let Some(hub) = &self.hub else { return false };
        let same_host = hub.host() == url.host() || is_this_machine(hub) && is_this_machine(url);
        hub.scheme() == url.scheme()
            && hub.port_or_known_default() == url.port_or_known_default()
            && same_host
    }

    /// Checks whether the tool server at this URL may be used.
    pub(crate) fn takes_tools_from(&self, url: &Url) -> bool {
        self.foreign_mcp || self.is_hub(url)
    }

    /// Returns `true` at the first call only, so that a recurring notice is shown once.
    pub(crate) fn tells(&self) -> bool {
        !self.told.swap(true, Ordering::Relaxed)
    }

    /// Checks whether a URL may be called, as far as that can be known before connecting.
    pub(crate) async fn check(&self, url: &Url) -> Result<(), Blocked> {
        if self.is_hub(url) { Ok(()) } else { self.policy.check_url(url).await }
    }

    /// Creates an HTTP client for `url`.
    pub(crate) fn http(&self, url: &Url) -> reqwest::Result<Http> {
        if self.is_hub(url) {
            return http_client(url.as_str()).map(Http::Free);
        }
        let client = chorus_outbound::Client::new(self.policy.clone(), USER_AGENT, CONNECT_LIMIT, 1);
        client.map(Http::Guarded)
    }
}

/// Checks whether a URL leads to the local machine, by any of its usual names.
fn is_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback() || address.is_unspecified(),
        Some(Host::Ipv6(address)) => address.is_loopback() || address.is_unspecified(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

/// An HTTP client: unrestricted for an address that the agent's owner chose, guarded by the policy for any
/// other.
#[derive(Debug, Clone)]
pub(crate) enum Http {
    Free(reqwest::Client),
    Guarded(chorus_outbound::Client),
}

impl Http {
    pub(crate) fn request(&self, method: Method, url: Url) -> Result<RequestBuilder, Blocked> {
        match self {
            Self::Free(http) => Ok(http.request(method, url)),
            Self::Guarded(http) => http.request(method, url),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_own_hub_and_what_was_allowed() {
        let verdict = async |reach: &Reach, url: &str| reach.check(&Url::parse(url).unwrap()).await.is_ok();
        let local = Reach::new(Some("http://127.0.0.1:8787"), vec![]);
        assert!(verdict(&local, "http://127.0.0.1:8787/channels/ch_1/inbox/tok_1").await);
        // The hub's own name for itself differs from the one in the agent's settings.
        assert!(verdict(&local, "http://localhost:8787/mcp").await);
        assert!(verdict(&local, "http://0.0.0.0:8787/mcp").await);
        for url in ["http://127.0.0.1:8788/", "https://127.0.0.1:8787/", "http://10.0.0.1:8787/"] {
            assert!(!verdict(&local, url).await, "{url}");
        }
        let inside = Reach::new(Some("http://10.0.0.1:8787"), vec!["192.168.0.0/16".parse().unwrap()]);
        assert!(verdict(&inside, "http://10.0.0.1:8787/").await);
        assert!(verdict(&inside, "http://192.168.3.4/").await);
        for url in ["http://10.0.0.2:8787/", "http://127.0.0.1:8787/", "http://localhost:8787/"] {
            assert!(!verdict(&inside, url).await, "{url}");
        }
        assert!(!verdict(&Reach::default(), "http://127.0.0.1/").await);
    }
}
