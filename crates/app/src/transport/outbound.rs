//! Requests to agents' endpoints: signed, in time, answers read up to a limit.
//!
//! Which addresses may be called is `chorus-outbound`'s to say, how much at a time that of [`limits`](super::limits): every
//! request has its place there before a socket is opened.

mod error;

pub use error::{NotTaken, PostError};

use super::limits::{Cause, Endpoint, Limits, Slot, Verdict, host_of};
use crate::config::Config;
use crate::error::Error;
use crate::secrets::WebhookSecret;
use bytes::Bytes;
use chorus_environment::Environment;
use chorus_outbound::Client;
pub use chorus_outbound::{Blocked, Policy};
use chorus_protocol::code::Code;
use chorus_protocol::ids::AgentId;
use reqwest::Method;
use serde_json::Value;
use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;
use url::Url;

/// As much of an answer is read.
const MAX_ANSWER: usize = 64 * 1024;
/// As much of an answer that is not JSON is passed on.
const MAX_ANSWER_TEXT: usize = 1024;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// So many connections to a host are kept for the next request.
const KEPT_PER_HOST: usize = 8;
/// How much longer than a POST may take its lease lasts.
const LEASE_MARGIN_MS: i64 = 15_000;

/// How long a delivery is leased whose POST may take so long.
pub fn lease_ms(longest: Duration) -> i64 {
    longest.as_millis() as i64 + LEASE_MARGIN_MS
}

/// A message with the headers of Standard Webhooks, so that a receiver can check where it came from.
pub struct Signed {
    id: String,
    timestamp_s: i64,
    signature: String,
    body: Bytes,
    /// Whether the sender wants the answer as it is made.
    stream: bool,
    /// Whether the receiver is to know it again by its id, as callbacks do.
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

/// Where a request goes, and who sends it.
#[derive(Debug, Clone)]
pub struct To {
    pub url: String,
    pub receiver: AgentId,
    /// Nobody, if it is pushed.
    pub sender: Option<AgentId>,
    /// Where it was sent from.
    pub cause: Cause,
    /// Whether it has said that it wants to be called, as far as it must.
    pub proven: bool,
}

/// A request that has its place.
struct Begun {
    request: reqwest::RequestBuilder,
    url: Url,
    endpoint: Endpoint,
    slot: Slot,
}

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
    /// For all others.
    once: Client,
    limits: Arc<Limits>,
    environment: Environment,
    /// Whether endpoints must be proven.
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
            limits: Limits::new(config.quotas.clone(), config.times.rest),
            environment,
            challenges: config.endpoint_challenge,
            connect_timeout,
            timeout: config.webhook_timeout,
        })
    }

    pub fn limits(&self) -> &Arc<Limits> {
        &self.limits
    }

    /// How much time has passed, as the limits count it.
    fn elapsed(&self) -> Duration {
        Duration::from_millis(self.environment.elapsed().max(0) as u64)
    }

    /// Whether the address in this field of a body may be called, as far as that can be known now.
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

    /// The same, with as much of the answer as `most` bytes; nothing, if it is longer.
    pub async fn push_reading(
        &self,
        to: &To,
        message: Signed,
        most: usize,
    ) -> Result<(u16, Option<String>, Bytes), PostError> {
        let begun = self.begin(to, message)?;
        let endpoint = begun.endpoint.clone();
        let sent = self.in_time(self.dial_reading(begun, most)).await;
        let status = |response: reqwest::Response| {
            let status = response.status();
            if status.is_success() { Ok(()) } else { Err(PostError::Status(status.as_u16())) }
        };
        // Its place is given back when the answer is let go.
        let answered = sent.map(|(response, _slot, read)| {
            let after = response.headers().get("retry-after").and_then(|value| value.to_str().ok());
            (response.status().as_u16(), after.map(str::to_owned), status(response), read)
        });
        match answered {
            Ok((status, after, judged, read)) => {
                drop(self.noted(&endpoint, judged));
                Ok((status, after, read))
            }
            Err(error) => self.noted(&endpoint, Err(error)),
        }
    }

    /// Sends a request, and reads as much of the answer as `most` bytes; nothing, if it is longer.
    async fn dial_reading(
        &self,
        begun: Begun,
        most: usize,
    ) -> Result<(reqwest::Response, Slot, Bytes), PostError> {
        let (mut response, slot) = self.dial(begun).await?;
        let mut read = Vec::new();
        while most > 0
            && let Some(piece) = response.chunk().await.map_err(|error| self.failure(&error))?
        {
            read.extend_from_slice(&piece);
            if read.len() > most {
                read.clear();
                break;
            }
        }
        Ok((response, slot, Bytes::from(read)))
    }

    /// POSTs signed JSON that need not be answered, and returns the status of the answer and as much of it as `most` bytes, if it comes
    /// in this time. Nothing is remembered against an endpoint that does not know what it is asked.
    pub async fn ask(&self, to: &To, message: Signed, time: Duration, most: usize) -> Option<(u16, Bytes)> {
        let begun = self.begin(to, message).ok()?;
        let answered = tokio::time::timeout(time, self.dial_reading(begun, most)).await;
        let (response, _slot, read) = answered.ok()?.ok()?;
        Some((response.status().as_u16(), read))
    }

    async fn send(&self, begun: Begun) -> Result<Answer, PostError> {
        let (response, slot) = self.dial(begun).await?;
        let status = response.status();
        if status.is_success() { Ok(Answer(response, slot)) } else { Err(PostError::Status(status.as_u16())) }
    }

    /// Sends a request once it has a place at the addresses of its host too; those are what is dialled. A literal address is
    /// its host already.
    async fn dial(&self, begun: Begun) -> Result<(reqwest::Response, Slot), PostError> {
        let Begun { request, url, endpoint, mut slot } = begun;
        if let Some(name) = url.domain() {
            let found = tokio::time::timeout(self.connect_timeout, self.client.addresses(name)).await;
            let found = found.map_err(|_| PostError::NoConnection(self.connect_timeout))?;
            let found = found.map_err(|error| cause_of(&*error))?;
            let port = url.port_or_known_default().unwrap_or_default();
            self.limits.begin_at(&mut slot, endpoint.cause, (&found, port), self.elapsed())?;
        }
        let response = request.send().await.map_err(|error| self.failure(&error))?;
        Ok((response, slot))
    }

    /// Passes an outcome on, and remembers what it says of the endpoint.
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

    /// Whether somebody answers there at all, whatever it says: a server that knows one POST alone refuses everything else. What
    /// stands before a server and says that it is gone is no answer. Nothing is remembered against an endpoint that is silent.
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

    fn outbound(change: impl FnOnce(&mut Config), connect_timeout: Duration) -> Outbound {
        // It installs what TLS needs.
        drop(chorus_testkit::http::client());
        let key = crate::MasterKey::new([7; 32]);
        let mut config = Config::new(uuid::Uuid::nil(), "h", crate::key_hash("co_1"), key);
        config.outbound = Policy { allow: vec!["127.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()] };
        change(&mut config);
        Outbound::with(&config, Environment::system(), connect_timeout).unwrap()
    }

    fn message() -> Signed {
        let secret = crate::MasterKey::new([7; 32]).webhook_secret(&[1; 16], 0);
        Signed::new(&[secret], "msg_1".into(), 0, Bytes::new(), false)
    }

    fn to(url: String) -> To {
        To { url, receiver: AgentId(uuid::Uuid::nil()), sender: None, cause: Cause::Push, proven: false }
    }

    /// What is sent to a name counts for the address it has, whatever other names that has.
    #[tokio::test]
    async fn a_name_counts_for_its_address() {
        let outbound = outbound(|config| config.quotas.webhooks_host_minute = 10, Duration::from_secs(10));
        // Nobody is there.
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
            outbound.limits.begin_at(&mut slot, Cause::Push, (&address, port), outbound.elapsed())
        };
        let left = (1..=30).filter(|name| begin(*name).is_ok()).count();
        // One comes back each three seconds.
        assert!((15..20).contains(&left), "half of 40, and 5 were sent: {left}");
        // A literal address is a host, and no more.
        let literal = outbound.push(&to(format!("http://127.0.0.1:{port}/")), message()).await.unwrap_err();
        assert!(matches!(literal, PostError::Unreachable(_)), "{literal}");
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
        let outbound = outbound(|_| (), Duration::from_millis(200));
        let to = to(format!("http://{address}/"));
        let failed = outbound.push(&to, message()).await.unwrap_err();
        assert_eq!(failed.to_string(), "receiver took no connection within 0.2 s");
        assert_eq!(failed.code(), Code::Timeout);
    }
}
