//! Requests to agents' endpoints: signed, with a time limit and a limit on the answer's size.
//!
//! `chorus-outbound` decides which addresses may be called, and [`limits`](super::outbound_limits) how many
//! requests are open: every request has a slot there before a socket is opened.

mod error;

pub use error::{NotTaken, PostError};

use super::outbound_limits::{Cause, Endpoint, OutboundLimits, Slot, Verdict, host_of};
use crate::config::Config;
use crate::error::Error;
use crate::secrets::WebhookSecret;
use crate::source::{Source, rate_key};
use bytes::Bytes;
use chorus_environment::Environment;
use chorus_outbound::Client;
pub use chorus_outbound::{Blocked, Policy};
use chorus_protocol::code::Code;
use chorus_protocol::ids::AgentId;
use reqwest::Method;
use serde_json::Value;
use std::error::Error as StdError;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use url::{Host as UrlHost, Url};

/// Bytes of an answer that are read.
const MAX_ANSWER: usize = 64 * 1024;
/// The length of an answer that is not JSON, as passed on.
const MAX_ANSWER_TEXT: usize = 1024;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections per host that are kept for the next request.
const KEPT_PER_HOST: usize = 8;
/// The time by which a lease outlasts the time limit of its POST.
const LEASE_MARGIN_MS: i64 = 15_000;

/// Returns the duration of a lease for a POST with this time limit.
pub fn lease_ms(longest: Duration) -> i64 {
    longest.as_millis() as i64 + LEASE_MARGIN_MS
}

/// A message with the headers of Standard Webhooks, so that a receiver can check where it came from.
pub struct Signed {
    id: String,
    timestamp_s: i64,
    signature: String,
    body: Bytes,
    /// True if the sender wants the answer as a stream.
    stream: bool,
    /// True if the request carries its id as an idempotency key, as callbacks do.
    keyed: bool,
}

impl Signed {
    /// Signed with each of these secrets.
    pub fn new(secrets: &[WebhookSecret], id: String, now_ms: i64, body: Bytes, stream: bool) -> Self {
        let timestamp_s = now_ms / 1000;
        let signatures: Vec<_> = secrets.iter().map(|secret| secret.sign(&id, timestamp_s, &body)).collect();
        let signature = signatures.join(" ");
        Self { id, timestamp_s, signature, body, stream, keyed: false }
    }

    /// The same, for a receiver that takes an `Idempotency-Key`.
    pub fn keyed(self) -> Self {
        Self { keyed: true, ..self }
    }
}

/// The target and the sender of a request.
#[derive(Debug, Clone)]
pub struct To {
    pub url: String,
    pub receiver: AgentId,
    /// `None` for a push.
    pub sender: Option<AgentId>,
    /// The cause of the request.
    pub cause: Cause,
    /// True if the endpoint has confirmed that it wants requests, or need not.
    pub proven: bool,
}

/// A request that has its place.
struct Begun {
    request: reqwest::RequestBuilder,
    url: Url,
    endpoint: Endpoint,
    slot: Slot,
}

/// The response to a push: its status, its `Retry-After`, and the body unless it is too long.
pub type Pushed = (u16, Option<String>, Option<Bytes>);

/// A receiver's answer that has begun; its request is open until it is dropped.
pub struct Answer(reqwest::Response, #[expect(dead_code, reason = "it is held")] Slot);

impl Answer {
    pub fn is_event_stream(&self) -> bool {
        let kind = self.0.headers().get("content-type").and_then(|kind| kind.to_str().ok());
        kind.is_some_and(|kind| kind.trim_start().to_ascii_lowercase().starts_with("text/event-stream"))
    }
}

/// The one client for requests to agents' endpoints.
pub struct Outbound {
    /// For hosts to which connections are kept.
    client: Client,
    /// The client for all other requests.
    once: Client,
    limits: Arc<OutboundLimits>,
    environment: Environment,
    /// True if endpoints must be proven.
    challenges: bool,
    connect_timeout: Duration,
    timeout: Duration,
}

impl Outbound {
    pub fn new(config: &Config, environment: Environment) -> Result<Self, reqwest::Error> {
        Self::with(config, environment, CONNECT_TIMEOUT)
    }

    fn with(
        config: &Config,
        environment: Environment,
        connect_timeout: Duration,
    ) -> Result<Self, reqwest::Error> {
        let name = concat!("chorus/", env!("CARGO_PKG_VERSION"));
        let client = Client::new(config.outbound.clone(), name, connect_timeout, KEPT_PER_HOST)?;
        Ok(Self {
            once: client.sibling(name, connect_timeout, 0)?,
            client,
            limits: OutboundLimits::new(config.quotas.clone(), config.times.rest),
            environment,
            challenges: config.endpoint_challenge,
            connect_timeout,
            timeout: config.webhook_timeout,
        })
    }

    pub fn limits(&self) -> &Arc<OutboundLimits> {
        &self.limits
    }

    /// Returns the elapsed time, as the limits count it.
    fn elapsed(&self) -> Duration {
        Duration::from_millis(self.environment.elapsed().max(0) as u64)
    }

    /// Checks that the address in this field of a request may be called, as far as can be known now.
    pub async fn check(&self, field: &str, url: &Url) -> Result<(), Error> {
        let checked = self.client.policy().check_url(url).await;
        checked.map_err(|blocked| Error::new(Code::EndpointBlocked, format_args!("{field}: {blocked}")))
    }

    /// POSTs signed JSON and returns what the receiver answered: JSON, or its text.
    pub async fn post(&self, to: &To, message: Signed) -> Result<Value, PostError> {
        let begun = self.begin(to, message)?;
        let endpoint = begun.endpoint.clone();
        let work = async { self.finish(self.send(begun).await?).await };
        self.noted(&endpoint, self.in_time(work).await)
    }

    /// POSTs signed JSON and returns as soon as the receiver begins to answer.
    pub async fn open(&self, to: &To, message: Signed) -> Result<Answer, PostError> {
        let begun = self.begin(to, message)?;
        let endpoint = begun.endpoint.clone();
        self.noted(&endpoint, self.in_time(self.send(begun)).await)
    }

    /// The next piece of an answer.
    pub async fn piece(&self, answer: &mut Answer) -> Result<Option<Bytes>, PostError> {
        self.in_time(async { answer.0.chunk().await.map_err(|error| self.failure(&error)) }).await
    }

    /// The whole of an answer, as far as it is read: JSON, or its text.
    pub async fn finish(&self, mut answer: Answer) -> Result<Value, PostError> {
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
    pub async fn push(&self, to: &To, message: Signed) -> Result<(u16, Option<String>), PostError> {
        let (status, after, _) = self.push_reading(to, message, 0).await?;
        Ok((status, after))
    }

    /// The same, with the answer; `None` if it is longer than `most` bytes.
    pub async fn push_reading(&self, to: &To, message: Signed, most: usize) -> Result<Pushed, PostError> {
        let begun = self.begin(to, message)?;
        let endpoint = begun.endpoint.clone();
        let sent = self.in_time(self.dial_reading(begun, most)).await;
        // Its place is given back when the answer is let go.
        self.pushed(&endpoint, sent.map(|(response, _slot, read)| (response, read)))
    }

    /// The same for a receiver that may take longer to answer than others. After the usual time the request gives back its
    /// place, and is open until the receiver answers or `wait`, which is given the receiver's addresses, says why it is not
    /// waited for.
    pub async fn push_patiently<W: Future<Output = PostError>>(
        &self,
        to: &To,
        message: Signed,
        most: usize,
        wait: impl FnOnce(Vec<Source>) -> W,
    ) -> Result<Pushed, PostError> {
        let Begun { request, url, endpoint, mut slot } = self.begin(to, message)?;
        let sources = match self.place_at(&url, &endpoint, &mut slot).await {
            Ok(sources) => sources,
            Err(error) => return self.noted(&endpoint, Err(error)),
        };
        let mut sending = pin!(self.send_reading(request, most));
        let in_time = tokio::time::timeout(self.timeout, &mut sending).await;
        let sent = if let Ok(sent) = in_time {
            sent
        } else {
            drop(slot);
            tokio::select! {
                sent = &mut sending => sent,
                error = wait(sources) => Err(error),
            }
        };
        self.pushed(&endpoint, sent)
    }

    /// Records the verdict of a push on its endpoint and returns the response.
    fn pushed(
        &self,
        endpoint: &Endpoint,
        sent: Result<(reqwest::Response, Option<Bytes>), PostError>,
    ) -> Result<Pushed, PostError> {
        let (response, read) = match sent {
            Ok(answered) => answered,
            Err(error) => return self.noted(endpoint, Err(error)),
        };
        let status = response.status();
        let judged = if status.is_success() { Ok(()) } else { Err(PostError::Status(status.as_u16())) };
        drop(self.noted(endpoint, judged));
        let after = response.headers().get("retry-after").and_then(|value| value.to_str().ok());
        Ok((status.as_u16(), after.map(str::to_owned), read))
    }

    /// Sends a request, and reads the answer; `None` if it is longer than `most` bytes. With a `most` of 0 nothing is read.
    async fn dial_reading(
        &self,
        begun: Begun,
        most: usize,
    ) -> Result<(reqwest::Response, Slot, Option<Bytes>), PostError> {
        let Begun { request, url, endpoint, mut slot } = begun;
        self.place_at(&url, &endpoint, &mut slot).await?;
        let (response, read) = self.send_reading(request, most).await?;
        Ok((response, slot, read))
    }

    async fn send_reading(
        &self,
        request: reqwest::RequestBuilder,
        most: usize,
    ) -> Result<(reqwest::Response, Option<Bytes>), PostError> {
        let mut response = request.send().await.map_err(|error| self.failure(&error))?;
        let mut read = Vec::new();
        while most > 0
            && let Some(piece) = response.chunk().await.map_err(|error| self.failure(&error))?
        {
            read.extend_from_slice(&piece);
            if read.len() > most {
                return Ok((response, None));
            }
        }
        Ok((response, Some(Bytes::from(read))))
    }

    /// POSTs signed JSON that need not be answered. Returns the status and up to `most` bytes of the answer,
    /// if it comes in this time. An endpoint that does not know the request is not penalised.
    pub async fn ask(&self, to: &To, message: Signed, time: Duration, most: usize) -> Option<(u16, Bytes)> {
        let begun = self.begin(to, message).ok()?;
        let answered = tokio::time::timeout(time, self.dial_reading(begun, most)).await;
        let (response, _slot, read) = answered.ok()?.ok()?;
        Some((response.status().as_u16(), read.unwrap_or_default()))
    }

    async fn send(&self, begun: Begun) -> Result<Answer, PostError> {
        let (response, slot) = self.dial(begun).await?;
        let status = response.status();
        if status.is_success() { Ok(Answer(response, slot)) } else { Err(PostError::Status(status.as_u16())) }
    }

    /// Sends a request once it has a place at the addresses of its host too.
    async fn dial(&self, begun: Begun) -> Result<(reqwest::Response, Slot), PostError> {
        let Begun { request, url, endpoint, mut slot } = begun;
        self.place_at(&url, &endpoint, &mut slot).await?;
        let response = request.send().await.map_err(|error| self.failure(&error))?;
        Ok((response, slot))
    }

    /// Reserves a slot at the addresses of the host too, and returns these addresses, which are then dialled.
    /// A literal address is its own host.
    async fn place_at(
        &self,
        url: &Url,
        endpoint: &Endpoint,
        slot: &mut Slot,
    ) -> Result<Vec<Source>, PostError> {
        let name = match url.host() {
            Some(UrlHost::Domain(name)) => name,
            Some(UrlHost::Ipv4(address)) => return Ok(vec![rate_key(address.into())]),
            Some(UrlHost::Ipv6(address)) => return Ok(vec![rate_key(address.into())]),
            None => return Ok(vec![]),
        };
        let found = tokio::time::timeout(self.connect_timeout, self.client.addresses(name)).await;
        let found = found.map_err(|_| PostError::NoConnection(self.connect_timeout))?;
        let found = found.map_err(|error| cause_of(&*error))?;
        let port = url.port_or_known_default().unwrap_or_default();
        self.limits.begin_at(slot, endpoint.cause, &found, port, self.elapsed())?;
        Ok(found.iter().map(|address| rate_key(*address)).collect())
    }

    /// Passes an outcome on and records its verdict on the endpoint.
    fn noted<T>(&self, endpoint: &Endpoint, outcome: Result<T, PostError>) -> Result<T, PostError> {
        let verdict = match &outcome {
            Ok(_) => Some(Verdict::Good),
            Err(error) => error.verdict(),
        };
        if let Some(verdict) = verdict {
            self.limits.note(endpoint, verdict, self.elapsed());
        }
        outcome
    }

    /// Returns whether a server answers at all, with any status: a server that knows a single POST refuses
    /// everything else. A gateway error is no answer. A silent endpoint is not penalised.
    pub async fn probe(&self, to: &To, most: Duration) -> bool {
        let answered = async {
            let (response, _slot) = self.dial(self.place(to, Method::HEAD)?).await?;
            Ok::<_, PostError>(!matches!(response.status().as_u16(), 502..=504))
        };
        tokio::time::timeout(most, answered).await.is_ok_and(|answered| answered.unwrap_or(false))
    }

    /// A place for a request, and the request without anything in it.
    fn place(&self, to: &To, method: Method) -> Result<Begun, PostError> {
        if self.challenges && !to.proven {
            return Err(PostError::Unproven);
        }
        let url = Url::parse(&to.url).map_err(|error| PostError::Unreachable(error.to_string()))?;
        let To { receiver, sender, cause, .. } = *to;
        let endpoint = Endpoint { receiver, sender, cause, host: host_of(&url) };
        let (slot, keep) = self.limits.begin(&endpoint, self.elapsed())?;
        let client = if keep { &self.client } else { &self.once };
        let request = client.request(method, url.clone())?;
        Ok(Begun { request, url, endpoint, slot })
    }

    /// A place for a POST, and the request.
    fn begin(&self, to: &To, message: Signed) -> Result<Begun, PostError> {
        let Begun { request, url, endpoint, slot } = self.place(to, Method::POST)?;
        let request = if message.keyed { request.header("idempotency-key", &message.id) } else { request };
        let request = request
            .header("content-type", "application/json")
            .header("webhook-id", message.id)
            .header("webhook-timestamp", message.timestamp_s)
            .header("webhook-signature", message.signature)
            .header(
                "accept",
                if message.stream { "text/event-stream, application/json" } else { "application/json" },
            )
            .body(message.body);
        Ok(Begun { request, url, endpoint, slot })
    }

    fn failure(&self, error: &reqwest::Error) -> PostError {
        if error.is_timeout() && error.is_connect() {
            return PostError::NoConnection(self.connect_timeout);
        }
        if error.is_timeout() {
            return PostError::Timeout(self.timeout);
        }
        match cause_of(error) {
            PostError::Unreachable(why) if !error.is_connect() => PostError::BrokenOff(why),
            failed => failed,
        }
    }
}

fn cause_of(error: &(dyn StdError + 'static)) -> PostError {
    if let Some(blocked) = Blocked::cause_of(error) {
        return PostError::Blocked(blocked.clone());
    }
    // The innermost cause says it best: "Connection refused (os error 111)".
    let mut cause: &dyn StdError = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    PostError::Unreachable(cause.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets::MasterKey;

    fn outbound(change: impl FnOnce(&mut Config), connect_timeout: Duration) -> Outbound {
        // It installs what TLS needs.
        drop(chorus_testkit::http::client());
        let key = MasterKey::new([7; 32]);
        let mut config = Config::new(uuid::Uuid::nil(), "h", crate::caller::key_hash("co_1"), key);
        config.outbound = Policy { allow: vec!["127.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()] };
        change(&mut config);
        Outbound::with(&config, Environment::system(), connect_timeout).unwrap()
    }

    fn message() -> Signed {
        let secret = MasterKey::new([7; 32]).webhook_secret(&[1; 16], 0);
        Signed::new(&[secret], "msg_1".into(), 0, Bytes::new(), false)
    }

    fn to(url: String) -> To {
        To { url, receiver: AgentId(uuid::Uuid::nil()), sender: None, cause: Cause::Push, proven: false }
    }

    /// Requests to a name count for its address, whatever other names that address has.
    #[tokio::test]
    async fn a_name_counts_for_its_address() {
        let outbound = outbound(|config| config.quotas.webhooks_host_minute = 10, Duration::from_secs(10));
        // No server listens on this port.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        for _ in 0..5 {
            let failed =
                outbound.push(&to(format!("http://localhost:{port}/")), message()).await.unwrap_err();
            assert!(matches!(failed, PostError::Unreachable(_)), "{failed}");
        }
        let address = [std::net::Ipv4Addr::LOCALHOST.into()];
        let begin = |name: u32| {
            let to = Endpoint {
                receiver: AgentId(uuid::Uuid::from_u128(name.into())),
                sender: None,
                cause: Cause::Push,
                host: format!("{name}.example:{port}").into(),
            };
            let (mut slot, _) = outbound.limits.begin(&to, outbound.elapsed())?;
            outbound.limits.begin_at(&mut slot, Cause::Push, &address, port, outbound.elapsed())
        };
        let left = (1..=30).filter(|name| begin(*name).is_ok()).count();
        // One comes back each three seconds.
        assert!((15..20).contains(&left), "half of 40, and 5 were sent: {left}");
        // A literal address is a host, and no more.
        let literal = outbound.push(&to(format!("http://127.0.0.1:{port}/")), message()).await.unwrap_err();
        assert!(matches!(literal, PostError::Unreachable(_)), "{literal}");
    }

    /// A server that accepts no connection is not reported as slow to answer.
    #[tokio::test]
    async fn a_connection_that_is_not_taken_is_named() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        // The server accepts no connection, and its backlog is full.
        let mut waiting = vec![];
        while let Ok(one) = std::net::TcpStream::connect_timeout(&address, Duration::from_millis(300)) {
            waiting.push(one);
            assert!(waiting.len() < 10_000, "there is always room");
        }
        let outbound = outbound(|_| (), Duration::from_millis(200));
        let to = to(format!("http://{address}/"));
        let failed = outbound.push(&to, message()).await.unwrap_err();
        assert_eq!(failed.to_string(), "receiver took no connection within 0.2 s");
        assert_eq!(failed.code(), Code::Timeout);
    }
}
