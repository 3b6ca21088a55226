//! Requests to a hub: one method for each operation of the relay.
//!
//! The endpoints are read from the discovery document at the first request. Paths are appended to the hub's
//! address, so that neither the document nor a redirect can carry the key to another server. In this module
//! only sends are retried, under an idempotency key; [`crate::api`] retries every call.

use crate::answer;
use crate::request::check_registration;
use crate::{Answered, ClientError, Inbox, RegisterBody, Retry, SendBody};
use bytes::Bytes;
use chorus_environment::Environment;
use chorus_protocol::address::Address;
use chorus_protocol::code::Code;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::TraceId;
use chorus_protocol::relay::{
    Discovery, Endpoints, HealthReport, Outcome, Page, Registered, Registration, SentMessage, Success,
};
use chorus_protocol::words::DeliveryState;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OnceCell;
use url::Url;

/// The `User-Agent` header of all requests.
pub(crate) const USER_AGENT: &str = concat!("chorus/", env!("CARGO_PKG_VERSION"));

/// The time limit for opening a connection.
pub(crate) const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// The time limit for a whole request. A hub waits 30 s for a receiver's endpoint before it answers a send.
pub(crate) const REQUEST_LIMIT: Duration = Duration::from_mins(1);

/// The host part that every hub accepts as its own.
const ANY_HOST: &str = "chorus";

pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The effect of a registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Created,
    /// The agent existed. Its record was updated and its key replaced.
    Updated,
}

/// A hub's skill text for agents.
#[derive(Debug, Clone, Serialize)]
pub struct Skill {
    /// The language of the text. `None` if the hub does not name it.
    pub language: Option<String>,
    /// The text, in Markdown.
    pub text: String,
}

/// A client of one hub, with or without a key. Clones share connections and the discovered endpoints.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    /// The hub's address, without a trailing slash.
    base: String,
    /// The whole `Authorization` header. It is marked as sensitive, so that `Debug` does not show it.
    authorization: Option<HeaderValue>,
    endpoints: Arc<OnceCell<Endpoints>>,
    /// The host part of agent addresses at this hub.
    host: Arc<OnceCell<String>>,
    retry: Retry,
    environment: Environment,
}

impl Client {
    /// Creates a client of the hub at `base_url`. Nothing is sent yet.
    pub fn connect(base_url: &str, key: Option<String>) -> Result<Self, ClientError> {
        let base = read_base(base_url)?;
        let authorization = key.map(|key| bearer(&key)).transpose()?;
        let http = http_client(&base).map_err(ClientError::Setup)?;
        Ok(Self {
            http,
            base,
            authorization,
            endpoints: Arc::default(),
            host: Arc::default(),
            retry: Retry::default(),
            environment: Environment::system(),
        })
    }

    /// Returns the hub's address, without a trailing slash.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// Replaces the retry policy.
    pub fn with_retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// Replaces the source of time and randomness.
    pub fn with_environment(mut self, environment: Environment) -> Self {
        self.environment = environment;
        self
    }

    pub(crate) fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Returns the pause before the next try; see [`Retry::pause`].
    pub(crate) fn pause(&self, failures: u32, asked: Duration) -> Option<Duration> {
        self.retry.pause(failures, asked, self.environment.random_u64())
    }

    /// Registers an agent. With the key of that agent, updates it and issues a new key.
    pub async fn register(&self, body: &RegisterBody) -> Result<(Registered, Change), ClientError> {
        check_registration(body)?;
        let body = RegisterBody { agent_id: self.whole_name(&body.agent_id).await?, ..body.clone() };
        let body = check_registration(&body)?;
        let path = &self.endpoints().await?.self_register;
        let response = self.call(self.post(path, body)?).await?;
        let created = response.status() == StatusCode::CREATED;
        let change = if created { Change::Created } else { Change::Updated };
        Ok((answer::read(response).await?.data, change))
    }

    /// Removes an agent. An agent that does not exist is no error.
    pub async fn unregister(&self, agent: &str) -> Result<(), ClientError> {
        let url = self.agent_url(|endpoints| &endpoints.register, agent).await?;
        let response = self.call(self.request(Method::DELETE, url)).await?;
        answer::read::<Value>(response).await.map(drop)
    }

    /// Returns one page of the agent directory and the cursor of the next page.
    pub async fn agents(
        &self,
        after: Option<&str>,
        limit: u32,
    ) -> Result<(Vec<Registration>, Option<String>), ClientError> {
        let path = &self.endpoints().await?.discover;
        let Success { data, metadata, .. } = self.get(page(self.url(path)?, after, limit)).await?;
        Ok((data, metadata.next))
    }

    /// Returns one agent of the directory.
    pub async fn agent(&self, agent: &str) -> Result<Registration, ClientError> {
        let url = self.agent_url(|endpoints| &endpoints.discover, agent).await?;
        Ok(self.get(url).await?.data)
    }

    /// Returns the given idempotency key as a header value, or a new random one.
    pub(crate) fn key_header(&self, given: Option<&str>) -> Result<HeaderValue, ClientError> {
        match given {
            Some(key) => header("idempotency_key", key),
            None => header("idempotency_key", &self.environment.random_hex()),
        }
    }

    /// Sends a message. Transient failures are retried by the [`Retry`] policy, always with the same
    /// idempotency key (`idempotency_key`, or a new one), so that the receiver gets the message once.
    /// `delivery: failed` is no error.
    pub async fn send(&self, body: &SendBody, idempotency_key: Option<&str>) -> Result<Outcome, ClientError> {
        // Input errors are reported before anything is sent.
        body.checked(false)?;
        let key = self.key_header(idempotency_key)?;
        let mut failures = 0;
        loop {
            let result = self.send_once(body, key.clone()).await;
            let asked = match &result {
                Ok(outcome) => (self.retry.failed_deliveries && may_pass(outcome)).then_some(Duration::ZERO),
                Err(error) => error.transient(),
            };
            let Some(pause) = asked.and_then(|asked| self.pause(failures, asked)) else {
                return result;
            };
            tokio::time::sleep(pause).await;
            failures += 1;
        }
    }

    /// Sends a message and streams the receiver's answer, if the receiver can answer now.
    pub async fn send_stream(
        &self,
        body: &SendBody,
        idempotency_key: Option<&str>,
    ) -> Result<Answered, ClientError> {
        body.checked(true)?;
        let (body, key) = (self.whole_names(body).await?.checked(true)?, self.key_header(idempotency_key)?);
        let path = &self.endpoints().await?.send;
        let request = self.post(path, body)?.header(IDEMPOTENCY_KEY, key);
        // There is no limit for the whole response: the stream lasts as long as the receiver writes.
        let opening = tokio::time::timeout(REQUEST_LIMIT, request.send()).await;
        let response = opening.map_err(|_| ClientError::Lost("the hub did not open the stream in 60 s"))?;
        Answered::read(self.clone(), response.map_err(|source| self.unreachable(source))?).await
    }

    /// Returns one page of the inbox's history.
    pub async fn messages(&self, after: Option<&str>, limit: u32) -> Result<Page, ClientError> {
        let path = &self.endpoints().await?.messages;
        let mut url = page(self.url(path)?, after, limit);
        url.query_pairs_mut().append_pair("kind", "all");
        let answer = self.get::<Box<RawValue>>(url).await.map_err(ClientError::beyond_relay)?;
        let page = Page::read(&answer.data, answer.metadata.next);
        page.map_err(|error| {
            ClientError::Protocol(format!("the hub's answer is no page of an inbox: {error}"))
        })
    }

    /// Returns one page of the messages that an agent sent, with their delivery state, newest first, and the
    /// cursor of the next page. The operator names the `sender`.
    pub async fn sent(
        &self,
        sender: Option<&str>,
        after: Option<&str>,
        limit: u32,
    ) -> Result<(Vec<SentMessage>, Option<String>), ClientError> {
        let mut url = page(self.url(&self.endpoints().await?.sent)?, after, limit);
        url.query_pairs_mut().extend_pairs(sender.map(|sender| ("sender", sender)));
        let Success { data, metadata, .. } = self.get(url).await.map_err(ClientError::beyond_relay)?;
        Ok((data, metadata.next))
    }

    /// Returns the delivery state of one sent message.
    pub async fn sent_one(&self, sender: Option<&str>, trace: TraceId) -> Result<SentMessage, ClientError> {
        let mut url = self.url(&format!("{}/{trace}", self.endpoints().await?.sent))?;
        url.query_pairs_mut().extend_pairs(sender.map(|sender| ("sender", sender)));
        Ok(self.get(url).await?.data)
    }

    /// Returns the hub's health report.
    pub async fn health(&self) -> Result<HealthReport, ClientError> {
        let path = &self.endpoints().await?.health;
        Ok(self.get(self.url(path)?).await?.data)
    }

    /// Returns the hub's instructions for agents, in `language` (a BCP 47 tag) if the hub has it. The request
    /// carries no key because none is required.
    pub async fn skill(&self, language: Option<&str>) -> Result<Skill, ClientError> {
        let mut url = self.url("/skill")?;
        if let Some(language) = language {
            url.query_pairs_mut().append_pair("lang", language);
        }
        answer::read_skill(self.call(self.http.get(url)).await?).await
    }

    /// Follows the inbox: from after the id `after`, or from the first entry that no connection has received
    /// yet.
    pub fn inbox(&self, after: Option<&str>) -> Result<Inbox, ClientError> {
        after.map(|id| header("after", id)).transpose()?;
        Ok(Inbox::new(self.clone(), after.map(str::to_owned)))
    }

    /// Opens an event stream: the inbox, or the stream at `url`, limited to `limit` entries if given. The
    /// stream has no time limit; the caller watches for silence.
    pub(crate) async fn open_stream(
        &self,
        url: Option<&Url>,
        limit: Option<u64>,
        last_event_id: Option<&str>,
    ) -> Result<Response, ClientError> {
        let mut url = match url {
            Some(url) => url.clone(),
            None => self.url(&self.endpoints().await?.inbox)?,
        };
        if let Some(limit) = limit {
            url.query_pairs_mut().append_pair("limit", &limit.to_string());
        }
        let mut request = self.request(Method::GET, url).header("accept", "text/event-stream");
        if let Some(id) = last_event_id {
            request = request.header("last-event-id", header("after", id)?);
        }
        let opening = tokio::time::timeout(REQUEST_LIMIT, request.send()).await;
        let response = opening.map_err(|_| ClientError::Lost("the hub did not open the stream in 60 s"))?;
        let response = response.map_err(|source| self.unreachable(source))?;
        match response.status() {
            StatusCode::OK => Ok(response),
            _ => Err(answer::refusal(response).await),
        }
    }

    pub(crate) fn unreachable(&self, source: reqwest::Error) -> ClientError {
        ClientError::Unreachable { url: self.base.clone(), source }
    }

    async fn send_once(&self, body: &SendBody, key: HeaderValue) -> Result<Outcome, ClientError> {
        let body = self.whole_names(body).await?.checked(false)?;
        let path = &self.endpoints().await?.send;
        let request = self.post(path, body)?.header(IDEMPOTENCY_KEY, key);
        Ok(answer::read(self.call(request).await?).await?.data)
    }

    /// Completes an agent's address: the protocol requires `name@host` on the wire.
    pub(crate) async fn whole_name(&self, name: &str) -> Result<String, ClientError> {
        if name.contains('@') {
            return Ok(name.to_owned());
        }
        let ask = || async {
            match self.health().await {
                Ok(HealthReport { host, .. }) if !host.is_empty() => Ok(host),
                // A hub that does not report its host accepts the default host of the protocol.
                Ok(_) | Err(ClientError::Refused { status: 404 | 405, .. } | ClientError::Protocol(_)) => {
                    Ok(ANY_HOST.to_owned())
                }
                Err(error) => Err(error),
            }
        };
        Ok(format!("{name}@{}", self.host.get_or_try_init(ask).await?))
    }

    async fn whole_names(&self, body: &SendBody) -> Result<SendBody, ClientError> {
        let (mut sender, mut receiver) = (None, None);
        if let Some(name) = body.sender().filter(|name| !name.contains('@')) {
            sender = Some(self.whole_name(name).await?);
        }
        if let Some(name) = body.receiver().filter(|name| !name.contains('@')) {
            receiver = Some(self.whole_name(name).await?);
        }
        Ok(body.clone().named(sender, receiver))
    }

    /// Returns the hub's endpoints, read once. A hub without a discovery document is assumed to use the
    /// default paths.
    async fn endpoints(&self) -> Result<&Endpoints, ClientError> {
        let ask = || async {
            // The request carries no key because none is required.
            let url = self.url("/.well-known/chorus.json")?;
            let response = self.call(self.http.get(url)).await?;
            match response.status() {
                StatusCode::OK => Ok(answer::read_bare::<Discovery>(response).await?.endpoints),
                StatusCode::NOT_FOUND => Ok(Endpoints::default()),
                _ => Err(answer::refusal(response).await),
            }
        };
        self.endpoints.get_or_try_init(ask).await
    }

    /// Returns the URL of one agent below a path. The directory and the registrations may have different
    /// paths.
    async fn agent_url(&self, path: fn(&Endpoints) -> &str, agent: &str) -> Result<Url, ClientError> {
        // An address contains only characters that need no encoding in a path.
        Address::parse(agent).map_err(|fault| ClientError::Invalid(Faults::one("agent_id", fault)))?;
        let agent = self.whole_name(agent).await?;
        self.url(&format!("{}/{agent}", path(self.endpoints().await?)))
    }

    pub(crate) fn url(&self, path: &str) -> Result<Url, ClientError> {
        let url = path.starts_with('/').then(|| Url::parse(&format!("{}{path}", self.base)));
        url.and_then(Result::ok).ok_or_else(|| {
            ClientError::Protocol(format!(
                "the discovery document of {} holds \"{path}\", which is not a path",
                self.base
            ))
        })
    }

    pub(crate) fn request(&self, method: Method, url: Url) -> RequestBuilder {
        self.authorized(self.http.request(method, url))
    }

    /// Adds the key to a request.
    pub(crate) fn authorized(&self, request: RequestBuilder) -> RequestBuilder {
        match &self.authorization {
            Some(authorization) => request.header(AUTHORIZATION, authorization),
            None => request,
        }
    }

    fn post(&self, path: &str, body: Bytes) -> Result<RequestBuilder, ClientError> {
        let request = self.request(Method::POST, self.url(path)?);
        Ok(request.header(CONTENT_TYPE, "application/json").body(body))
    }

    async fn get<T: serde::de::DeserializeOwned>(&self, url: Url) -> Result<Success<T>, ClientError> {
        answer::read(self.call(self.request(Method::GET, url)).await?).await
    }

    pub(crate) async fn call(&self, request: RequestBuilder) -> Result<Response, ClientError> {
        request.timeout(REQUEST_LIMIT).send().await.map_err(|source| self.unreachable(source))
    }
}

/// Creates an HTTP client for `url`. It does not follow redirects, because they could carry the key to another
/// server.
pub(crate) fn http_client(url: &str) -> reqwest::Result<reqwest::Client> {
    http_builder(url).build()
}

/// Creates the same client limited to HTTP/1.1, for connections that are upgraded to another protocol.
pub(crate) fn http_1_client(url: &str) -> reqwest::Result<reqwest::Client> {
    http_builder(url).http1_only().build()
}

fn http_builder(url: &str) -> reqwest::ClientBuilder {
    let builder = reqwest::Client::builder()
        .user_agent(USER_AGENT)
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT_LIMIT);
    if url.starts_with("http:") {
        // Plain HTTP requires no root certificates, so a system without any must not be an error.
        return builder.tls_certs_only([]);
    }
    builder
}

/// Checks whether retrying a failed delivery may succeed.
pub(crate) fn may_pass(outcome: &Outcome) -> bool {
    let code = outcome.error_code.as_deref().and_then(Code::parse);
    outcome.delivery == DeliveryState::Failed && code.is_some_and(Code::retryable)
}

fn page(mut url: Url, after: Option<&str>, limit: u32) -> Url {
    let mut query = url.query_pairs_mut();
    query.append_pair("limit", &limit.to_string());
    if let Some(after) = after {
        query.append_pair("after", after);
    }
    drop(query);
    url
}

/// Creates a header value. `name` is the name used in an error message.
pub(crate) fn header(name: &str, text: &str) -> Result<HeaderValue, ClientError> {
    let fault = || ClientError::Invalid(Faults::one(name, "must be 1 to 255 printable ASCII characters"));
    let good = (1..=255).contains(&text.len()) && text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    if good { HeaderValue::from_str(text).map_err(|_| fault()) } else { Err(fault()) }
}

fn bearer(key: &str) -> Result<HeaderValue, ClientError> {
    // The error names the key without showing it.
    header("key", key)?;
    let mut value = header("key", &format!("Bearer {key}"))?;
    value.set_sensitive(true);
    Ok(value)
}

fn read_base(text: &str) -> Result<String, ClientError> {
    let form = "must be the hub's address, such as http://127.0.0.1:8787";
    let url = web_address(text, form).and_then(|url| url.query().is_none().then_some(url).ok_or(form));
    let url = url.map_err(|what| ClientError::Invalid(Faults::one("url", what)))?;
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

/// Parses a web address. The error is `form` if the syntax is wrong, or says that the address contains
/// credentials.
pub(crate) fn web_address(text: &str, form: &'static str) -> Result<Url, &'static str> {
    let url = Url::parse(text).map_err(|_| form)?;
    if !matches!(url.scheme(), "http" | "https") || url.fragment().is_some() {
        return Err(form);
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must not hold a user name or password");
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_hubs() {
        assert_eq!(read_base("http://127.0.0.1:8787/").unwrap(), "http://127.0.0.1:8787");
        assert_eq!(read_base("https://example.com/hub/").unwrap(), "https://example.com/hub");
        for text in ["", "localhost:8787", "127.0.0.1", "file:///etc", "http://x/?a", "http://u:p@x/"] {
            assert!(read_base(text).is_err(), "{text}");
        }
    }
}
