//! Requests to strangers' servers, without becoming their way into this network (SSRF).
//!
//! An endpoint may be called only at addresses that are public, or that the operator allowed. The check is made
//! three times: of the literal address in a URL, of the name when it is registered, and of the addresses that are
//! really dialled, because the client resolves names through the guard and nowhere else. Redirects are not followed,
//! proxies not used, answers read up to a limit.

use crate::secrets::WebhookSecret;
use bytes::Bytes;
use chorus_protocol::relay::Code;
use ipnet::IpNet;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use serde_json::Value;
use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use url::{Host, Url};

/// As much of an answer is read.
const MAX_ANSWER: usize = 64 * 1024;
/// As much of an answer that is not JSON is passed on.
const MAX_ANSWER_TEXT: usize = 1024;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(3);

/// An address the hub must not call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{address} is {what}; the hub calls public addresses only")]
pub struct Blocked {
    address: IpAddr,
    what: &'static str,
}

/// Which addresses may be called.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// Private networks that are allowed all the same.
    pub allow: Vec<IpNet>,
}

impl Policy {
    /// Whether this address may be called.
    pub fn check(&self, address: IpAddr) -> Result<(), Blocked> {
        // `::ffff:127.0.0.1` is 127.0.0.1 in other clothes.
        let address = address.to_canonical();
        if self.allow.iter().any(|net| net.contains(&address)) {
            return Ok(());
        }
        let what = match address {
            IpAddr::V4(address) => special_v4(address),
            IpAddr::V6(address) => special_v6(address),
        };
        what.map_or(Ok(()), |what| Err(Blocked { address, what }))
    }

    /// Checks a URL as far as it can be known without a request: a literal address, or a name that resolves now.
    /// A name that does not resolve yet is let through; it is checked again when it is used.
    pub async fn check_url(&self, url: &Url) -> Result<(), Blocked> {
        let port = url.port_or_known_default().unwrap_or(443);
        match url.host() {
            Some(Host::Ipv4(address)) => self.check(address.into()),
            Some(Host::Ipv6(address)) => self.check(address.into()),
            // Always this machine (RFC 6761), whatever the resolver makes of it.
            Some(Host::Domain(name)) if is_localhost(name) => self.check(Ipv4Addr::LOCALHOST.into()),
            Some(Host::Domain(name)) => {
                let lookup = tokio::net::lookup_host((name, port));
                match tokio::time::timeout(RESOLVE_TIMEOUT, lookup).await {
                    Ok(Ok(mut found)) => found.try_for_each(|found| self.check(found.ip())),
                    _ => Ok(()),
                }
            }
            None => Ok(()),
        }
    }
}

fn is_localhost(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    name.rsplit('.').next().is_some_and(|last| last.eq_ignore_ascii_case("localhost"))
}

fn special_v4(address: Ipv4Addr) -> Option<&'static str> {
    let [a, b, c, _] = address.octets();
    Some(match (a, b, c) {
        (0, ..) => "an address of \"this network\"",
        (10, ..) | (172, 16..=31, _) | (192, 168, _) => "a private address",
        (100, 64..=127, _) => "a carrier's shared address",
        (127, ..) => "a loopback address",
        (169, 254, _) => "a link-local address",
        (192, 0, 0) => "a protocol assignment",
        (192, 0, 2) | (198, 51, 100) | (203, 0, 113) => "a documentation address",
        (192, 88, 99) => "a 6to4 relay",
        (198, 18..=19, _) => "a benchmarking address",
        (224..=239, ..) => "a multicast address",
        (240..=255, ..) => "a reserved address",
        _ => return None,
    })
}

fn special_v6(address: Ipv6Addr) -> Option<&'static str> {
    let segments = address.segments();
    Some(match segments {
        [0, 0, 0, 0, 0, 0, 0, 0] => "the unspecified address",
        [0, 0, 0, 0, 0, 0, 0, 1] => "the loopback address",
        [0, 0, 0, 0, 0, 0, ..] => "an IPv4-compatible address",
        [0x0064, 0xff9b, ..] => "a NAT64 address",
        [0x0100, 0, 0, 0, ..] => "a discard address",
        [0x2001, 0x0000, ..] => "a Teredo address",
        [0x2001, 0x0db8, ..] | [0x3fff, 0..=0x0fff, ..] => "a documentation address",
        [0x2001, 0..=0x01ff, ..] => "a protocol assignment",
        [0x2002, ..] => "a 6to4 address",
        [0x5f00, ..] => "a segment routing address",
        [0xfc00..=0xfdff, ..] => "a private address",
        [0xfe80..=0xfebf, ..] => "a link-local address",
        [0xfec0..=0xfeff, ..] => "a site-local address",
        [0xff00..=0xffff, ..] => "a multicast address",
        // Everything that is assigned to the public lies in 2000::/3.
        [first, ..] if first & 0xe000 != 0x2000 => "a reserved address",
        _ => return None,
    })
}

/// The resolver of the client: what it returns is what is dialled.
struct Guard(Arc<Policy>);

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let policy = Arc::clone(&self.0);
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            for address in &found {
                policy.check(address.ip())?;
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// Why a POST did not succeed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PostError {
    #[error("the endpoint is not allowed: {0}")]
    Blocked(#[from] Blocked),
    #[error("receiver did not respond within {}", seconds(*.0))]
    Timeout(Duration),
    #[error("receiver took no connection within {}", seconds(*.0))]
    NoConnection(Duration),
    #[error("receiver answered HTTP {0}")]
    Status(u16),
    #[error("receiver could not be reached: {0}")]
    Unreachable(String),
}

fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs_f64())
}

impl PostError {
    pub(crate) fn code(&self) -> Code {
        match self {
            Self::Blocked(_) => Code::EndpointBlocked,
            Self::Timeout(_) | Self::NoConnection(_) => Code::Timeout,
            Self::Status(_) | Self::Unreachable(_) => Code::AgentUnreachable,
        }
    }
}

/// A message with the headers of Standard Webhooks, so that a receiver can check where it came from.
pub(crate) struct Signed {
    id: String,
    timestamp_s: i64,
    signature: String,
    body: Bytes,
    /// Whether the sender wants the answer as it is made.
    stream: bool,
}

impl Signed {
    /// Signed with each of these secrets.
    pub(crate) fn new(secrets: &[WebhookSecret], id: String, now_ms: i64, body: Bytes, stream: bool) -> Self {
        let timestamp_s = now_ms / 1000;
        let signatures: Vec<_> = secrets.iter().map(|secret| secret.sign(&id, timestamp_s, &body)).collect();
        let signature = signatures.join(" ");
        Self { id, timestamp_s, signature, body, stream }
    }
}

/// A receiver's answer that has begun.
pub(crate) struct Answer(reqwest::Response);

impl Answer {
    pub(crate) fn is_event_stream(&self) -> bool {
        let kind = self.0.headers().get("content-type").and_then(|kind| kind.to_str().ok());
        kind.is_some_and(|kind| kind.trim_start().to_ascii_lowercase().starts_with("text/event-stream"))
    }
}

/// The one client for requests to agents' endpoints.
pub(crate) struct Outbound {
    client: reqwest::Client,
    policy: Arc<Policy>,
    connect_timeout: Duration,
    timeout: Duration,
}

impl Outbound {
    pub(crate) fn new(policy: Policy, timeout: Duration) -> Result<Self, reqwest::Error> {
        Self::with(policy, CONNECT_TIMEOUT, timeout)
    }

    fn with(policy: Policy, connect_timeout: Duration, timeout: Duration) -> Result<Self, reqwest::Error> {
        let policy = Arc::new(policy);
        let client = reqwest::Client::builder()
            .dns_resolver(Guard(Arc::clone(&policy)))
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .connect_timeout(connect_timeout)
            .pool_idle_timeout(Duration::from_mins(1))
            .pool_max_idle_per_host(8)
            .user_agent(concat!("chorus/", env!("CARGO_PKG_VERSION")))
            .build()?;
        Ok(Self { client, policy, connect_timeout, timeout })
    }

    pub(crate) fn policy(&self) -> &Policy {
        &self.policy
    }

    /// POSTs signed JSON and returns what the receiver answered: JSON, or its text.
    pub(crate) async fn post(&self, endpoint: &str, message: Signed) -> Result<Value, PostError> {
        self.in_time(async { self.finish(self.send(endpoint, message).await?).await }).await
    }

    /// POSTs signed JSON and returns as soon as the receiver begins to answer.
    pub(crate) async fn open(&self, endpoint: &str, message: Signed) -> Result<Answer, PostError> {
        self.in_time(self.send(endpoint, message)).await
    }

    /// The next piece of an answer.
    pub(crate) async fn piece(&self, answer: &mut Answer) -> Result<Option<Bytes>, PostError> {
        self.in_time(async { answer.0.chunk().await.map_err(|error| self.failure(error)) }).await
    }

    /// The whole of an answer, as far as it is read: JSON, or its text.
    pub(crate) async fn finish(&self, mut answer: Answer) -> Result<Value, PostError> {
        let mut bytes = Vec::new();
        while bytes.len() < MAX_ANSWER
            && let Some(piece) = self.piece(&mut answer).await?
        {
            bytes.extend_from_slice(&piece);
        }
        bytes.truncate(MAX_ANSWER);
        Ok(chorus_protocol::json::parse(&bytes).unwrap_or_else(|_| {
            let text = String::from_utf8_lossy(&bytes).replace('\0', "");
            Value::String(text.chars().take(MAX_ANSWER_TEXT).collect())
        }))
    }

    async fn in_time<T>(&self, work: impl Future<Output = Result<T, PostError>>) -> Result<T, PostError> {
        tokio::time::timeout(self.timeout, work).await.unwrap_or(Err(PostError::Timeout(self.timeout)))
    }

    /// POSTs signed JSON and returns the status of the answer, which is not read, and its `Retry-After`.
    pub(crate) async fn push(
        &self,
        endpoint: &str,
        message: Signed,
    ) -> Result<(u16, Option<String>), PostError> {
        let response = self.in_time(self.request(endpoint, message)).await?;
        let after = response.headers().get("retry-after").and_then(|value| value.to_str().ok());
        Ok((response.status().as_u16(), after.map(str::to_owned)))
    }

    async fn send(&self, endpoint: &str, message: Signed) -> Result<Answer, PostError> {
        let response = self.request(endpoint, message).await?;
        let status = response.status();
        if status.is_success() { Ok(Answer(response)) } else { Err(PostError::Status(status.as_u16())) }
    }

    async fn request(&self, endpoint: &str, message: Signed) -> Result<reqwest::Response, PostError> {
        let url = Url::parse(endpoint).map_err(|error| PostError::Unreachable(error.to_string()))?;
        // A literal address never reaches the resolver.
        match url.host() {
            Some(Host::Ipv4(address)) => self.policy.check(address.into())?,
            Some(Host::Ipv6(address)) => self.policy.check(address.into())?,
            _ => {}
        }
        let request = self
            .client
            .post(url)
            .header("content-type", "application/json")
            .header("webhook-id", message.id)
            .header("webhook-timestamp", message.timestamp_s)
            .header("webhook-signature", message.signature)
            .header(
                "accept",
                if message.stream { "text/event-stream, application/json" } else { "application/json" },
            )
            .body(message.body);
        request.send().await.map_err(|error| self.failure(error))
    }

    fn failure(&self, error: reqwest::Error) -> PostError {
        if error.is_timeout() && error.is_connect() {
            return PostError::NoConnection(self.connect_timeout);
        }
        if error.is_timeout() {
            return PostError::Timeout(self.timeout);
        }
        let mut cause: &dyn Error = &error;
        loop {
            if let Some(blocked) = cause.downcast_ref::<Blocked>() {
                return PostError::Blocked(blocked.clone());
            }
            match cause.source() {
                Some(deeper) => cause = deeper,
                // The innermost cause says it best: "Connection refused (os error 111)".
                None => return PostError::Unreachable(cause.to_string()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn verdict(url: &str) -> bool {
        Policy::default().check_url(&Url::parse(url).unwrap()).await.is_ok()
    }

    #[tokio::test]
    async fn private_addresses_in_every_spelling() {
        for url in [
            "http://127.0.0.1/",
            "http://127.1/",
            "http://2130706433/",
            "http://0x7f.1/",
            "http://0177.0.0.1/",
            "http://0x7f000001/",
            "http://127.0.0.1.:80/",
            "http://[::1]/",
            "http://[::ffff:127.0.0.1]/",
            "http://[::ffff:7f00:1]/",
            "http://localhost/",
            "http://LOCALHOST/",
            "http://localhost./",
            "http://any.localhost/",
            "http://0.0.0.0/",
            "http://0/",
            "http://10.0.0.1/",
            "http://172.16.0.1/",
            "http://172.31.255.255/",
            "http://192.168.1.1/",
            "http://169.254.169.254/",
            "http://100.64.0.1/",
            "http://192.0.0.1/",
            "http://192.0.2.1/",
            "http://192.88.99.1/",
            "http://198.18.0.1/",
            "http://198.51.100.1/",
            "http://203.0.113.1/",
            "http://224.0.0.1/",
            "http://240.0.0.1/",
            "http://255.255.255.255/",
            "http://[::]/",
            "http://[fe80::1]/",
            "http://[fc00::1]/",
            "http://[fd12:3456::1]/",
            "http://[64:ff9b::7f00:1]/",
            "http://[64:ff9b:1::1]/",
            "http://[2002:7f00:1::]/",
            "http://[100::1]/",
            "http://[2001:db8::1]/",
            "http://[3fff::1]/",
            "http://[5f00::1]/",
            "http://[ff02::1]/",
            "http://[::127.0.0.1]/",
            "http://[2001::1]/",
            "http://[fec0::1]/",
            "http://１２７.0.0.1/",
            "http://127。0。0。1/",
        ] {
            assert!(!verdict(url).await, "{url}");
        }
    }

    #[tokio::test]
    async fn public_addresses_and_unknown_names_pass() {
        for url in [
            "https://1.1.1.1/",
            "http://[2606:4700::1111]/",
            "https://alice.invalid/receive",
            "http://172.32.0.1/",
        ] {
            assert!(verdict(url).await, "{url}");
        }
    }

    /// Whoever does not even take a connection is not said to be slow to answer.
    #[tokio::test]
    async fn a_connection_that_is_not_taken_is_named() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        // Nobody accepts, and there is no room for more to wait.
        let mut waiting = vec![];
        while let Ok(one) = std::net::TcpStream::connect_timeout(&address, Duration::from_millis(300)) {
            waiting.push(one);
            assert!(waiting.len() < 10_000, "there is always room");
        }
        // It installs what TLS needs.
        drop(chorus_testkit::http::client());
        let policy = Policy { allow: vec!["127.0.0.0/8".parse().unwrap()] };
        let (short, long) = (Duration::from_millis(200), Duration::from_secs(30));
        let outbound = Outbound::with(policy, short, long).unwrap();
        let secret = crate::MasterKey::new([7; 32]).webhook_secret(&[1; 16], 0);
        let message = Signed::new(&[secret], "msg_1".into(), 0, Bytes::new(), false);
        let failed = outbound.push(&format!("http://{address}/"), message).await.unwrap_err();
        assert_eq!(failed.to_string(), "receiver took no connection within 0.2 s");
        assert_eq!(failed.code(), Code::Timeout);
    }

    #[test]
    fn what_the_operator_allows_passes() {
        let policy = Policy { allow: vec!["127.0.0.0/8".parse().unwrap()] };
        assert!(policy.check("127.0.0.1".parse().unwrap()).is_ok());
        assert!(policy.check("::ffff:127.0.0.1".parse().unwrap()).is_ok());
        assert!(policy.check("10.0.0.1".parse().unwrap()).is_err());
    }

    #[test]
    fn a_refusal_says_which_rule() {
        let blocked = Policy::default().check("169.254.169.254".parse().unwrap()).unwrap_err();
        assert_eq!(
            blocked.to_string(),
            "169.254.169.254 is a link-local address; the hub calls public addresses only"
        );
    }
}
