//! Requests to addresses that strangers named, without becoming their way into this network (SSRF).
//!
//! A hub calls the endpoints of its agents, an agent the callbacks and tool servers that came with a message. Both may
//! call only addresses that are public, or that were allowed. The check is made three times: of the literal address in
//! a URL, of a name when it is first given, and of the addresses that are really dialled, because the client resolves names
//! through the guard and nowhere else. Redirects are not followed and proxies not used.
//!
//! It deliberately knows nothing of who calls whom, how often, or what is said.

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

/// The resolver of the client: what it returns is what is dialled.
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

/// A client that reaches only what its policy allows.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    names: Arc<Names>,
}

impl Client {
    /// A client that calls itself `user_agent`, waits so long for a connection, and keeps so many to each host for the
    /// next request.
    pub fn new(
        policy: Policy,
        user_agent: &str,
        connect_timeout: Duration,
        kept_per_host: usize,
    ) -> reqwest::Result<Self> {
        Self::with(Arc::new(Names::new(policy)), user_agent, connect_timeout, kept_per_host)
    }

    /// One with the same policy, to which names have the same addresses.
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

    /// What it may reach.
    pub fn policy(&self) -> &Policy {
        self.names.policy()
    }

    /// Which addresses a name has. A request within a few seconds dials no others.
    pub async fn addresses(&self, name: &str) -> Result<Arc<[IpAddr]>, Box<dyn Error + Send + Sync>> {
        self.names.addresses(name).await
    }

    /// Begins a request. A literal address never reaches the resolver, so it is checked here; whoever sends the request
    /// finds out about a name with [`Blocked::cause_of`].
    pub fn request(&self, method: Method, url: Url) -> Result<RequestBuilder, Blocked> {
        self.policy().check_literal(&url)?;
        Ok(self.http.request(method, url))
    }
}

impl Blocked {
    /// Whether this is why a request failed.
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

    /// The literal before a request is made, the name when it is dialled: neither reaches the server that is there.
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
