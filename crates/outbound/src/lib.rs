//! Requests to addresses that strangers named, without becoming their way into this network (SSRF).
//!
//! A hub calls the endpoints of its agents, an agent the callbacks and tool servers that came with a message. Both may
//! call only addresses that are public, or that were allowed. The check is made three times: of the literal address in
//! a URL, of a name when it is first given, and of the addresses that are really dialled, because the client resolves names
//! through the guard and nowhere else. Redirects are not followed and proxies not used.
//!
//! It deliberately knows nothing of who calls whom, how often, or what is said.

mod policy;

pub use ipnet::IpNet;
pub use policy::{Blocked, Policy};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Method, RequestBuilder};
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use url::Url;

/// The resolver of the client: what it returns is what is dialled.
struct Guard(Arc<Policy>);

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let policy = Arc::clone(&self.0);
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            for address in &found {
                policy.check(address.ip()).map_err(|blocked| blocked.by_name(name.as_str()))?;
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// A client that reaches only what its policy allows.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    policy: Arc<Policy>,
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
        let policy = Arc::new(policy);
        let http = reqwest::Client::builder()
            .dns_resolver(Guard(Arc::clone(&policy)))
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .connect_timeout(connect_timeout)
            .pool_idle_timeout(Duration::from_mins(1))
            .pool_max_idle_per_host(kept_per_host)
            .user_agent(user_agent)
            .build()?;
        Ok(Self { http, policy })
    }

    /// What it may reach.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Begins a request. A literal address never reaches the resolver, so it is checked here; whoever sends the request
    /// finds out about a name with [`Blocked::cause_of`].
    pub fn request(&self, method: Method, url: Url) -> Result<RequestBuilder, Blocked> {
        self.policy.check_literal(&url)?;
        Ok(self.http.request(method, url))
    }
}

impl Blocked {
    /// Whether this is why a request failed.
    pub fn cause_of(error: &reqwest::Error) -> Option<&Self> {
        let mut cause: &dyn Error = error;
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
        assert!(name.starts_with("dialled: ") && name.contains("loopback"), "{name}");
        assert!(listener.accept().is_err(), "somebody connected");
    }
}
