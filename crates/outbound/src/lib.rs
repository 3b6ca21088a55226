//! Outgoing HTTP requests to URLs given by strangers, with protection against server-side request forgery
//! (SSRF).
//!
//! A hub calls the endpoints of its agents; an agent calls the callbacks and tool servers that come with a
//! message. Both may call only public addresses and addresses that were allowed. The check is made three
//! times: for a literal address in a URL, for a host name when it is first given, and for the addresses that
//! are dialled, because the client resolves names only through the guard. Redirects are not followed, and
//! proxies are not used.
//!
//! The crate knows nothing about callers, rates or contents.

mod names;
mod network;
mod policy;

pub use network::{Network, NetworkFault};
pub use policy::{Blocked, Policy};

use names::Names;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Method, RequestBuilder};
use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use url::Url;

/// The resolver of the client. It returns only addresses that the policy allows.
struct Guard(Arc<Names>);

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let names = Arc::clone(&self.0);
        Box::pin(async move {
            let found = names.addresses(name.as_str()).await?;
            let found: Vec<_> = found.iter().map(|address| SocketAddr::new(*address, 0)).collect();
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// An HTTP client that reaches only the addresses its policy allows.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    names: Arc<Names>,
}

impl Client {
    /// Creates a client with this user agent and connect timeout. It keeps up to `kept_per_host` idle
    /// connections to each host.
    pub fn new(
        policy: Policy,
        user_agent: &str,
        connect_timeout: Duration,
        kept_per_host: usize,
    ) -> reqwest::Result<Self> {
        Self::with(Arc::new(Names::new(policy)), user_agent, connect_timeout, kept_per_host)
    }

    /// Creates a client that shares this one's policy and resolved names.
    pub fn sibling(
        &self,
        user_agent: &str,
        connect_timeout: Duration,
        kept_per_host: usize,
    ) -> reqwest::Result<Self> {
        Self::with(Arc::clone(&self.names), user_agent, connect_timeout, kept_per_host)
    }

    fn with(
        names: Arc<Names>,
        user_agent: &str,
        connect_timeout: Duration,
        kept_per_host: usize,
    ) -> reqwest::Result<Self> {
        let http = reqwest::Client::builder()
            .dns_resolver(Guard(Arc::clone(&names)))
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .connect_timeout(connect_timeout)
            .pool_idle_timeout(Duration::from_mins(1))
            .pool_max_idle_per_host(kept_per_host)
            .user_agent(user_agent)
            .build()?;
        Ok(Self { http, names })
    }

    pub fn policy(&self) -> &Policy {
        self.names.policy()
    }

    /// Resolves a name. Requests within the next seconds dial the same addresses.
    pub async fn addresses(&self, name: &str) -> Result<Arc<[IpAddr]>, Box<dyn Error + Send + Sync>> {
        self.names.addresses(name).await
    }

    /// Starts a request. A literal address never reaches the resolver, so it is checked here. For a name,
    /// [`Blocked::cause_of`] tells whether the request was blocked.
    pub fn request(&self, method: Method, url: Url) -> Result<RequestBuilder, Blocked> {
        self.policy().check_literal(&url)?;
        Ok(self.http.request(method, url))
    }
}

impl Blocked {
    /// Returns the block that made a request fail, if there is one.
    pub fn cause_of<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Self> {
        let mut cause = error;
        loop {
            if let Some(blocked) = cause.downcast_ref() {
                return Some(blocked);
            }
            cause = cause.source()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn fault(url: &str) -> String {
        rustls::crypto::ring::default_provider().install_default().ok();
        let client = Client::new(Policy::default(), "test", Duration::from_secs(5), 0).unwrap();
        match client.request(Method::GET, Url::parse(url).unwrap()) {
            Err(blocked) => format!("before: {blocked}"),
            Ok(request) => {
                let error = request.send().await.unwrap_err();
                format!("dialled: {}", Blocked::cause_of(&error).unwrap())
            }
        }
    }

    /// A literal address is blocked before the request, a name when it is dialled. Neither reaches the server.
    #[tokio::test]
    async fn what_is_private_is_not_dialled() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let literal = fault(&format!("http://127.0.0.1:{port}/")).await;
        assert_eq!(literal, "before: 127.0.0.1 is a loopback address; only public addresses are called");
        let name = fault(&format!("http://localhost:{port}/")).await;
        assert!(name.starts_with("dialled: ") && name.contains("no name of a public address"), "{name}");
        assert!(listener.accept().is_err(), "somebody connected");
    }
}
