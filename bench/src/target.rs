//! The measured server, and the agents of the load there.

use crate::http::{Connection, HttpRequest};
use crate::names::{receiver_name, sender_name};
use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use chorus_environment::Environment;
use chorus_protocol::relay::CARD_VERSION;
use http::request::Builder;
use http::{Method, Request, header};
use serde_json::{Value, json};
use std::net::SocketAddr;
use tokio::task::JoinSet;
use url::Url;

/// The number of connections that register agents.
const REGISTRARS: usize = 16;

/// A server that speaks HTTP/1.1 without TLS.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    /// The URL without a trailing slash.
    pub(crate) url: String,
    pub(crate) address: SocketAddr,
    /// The host and the port.
    host: String,
    /// The path of the URL, which begins every path of a request.
    base: String,
}

impl Target {
    pub(crate) async fn find(url: &str) -> anyhow::Result<Self> {
        let wrong =
            || format!("{url} is not an address like http://host:port. The load client does not speak TLS");
        let parsed = Url::parse(url).with_context(wrong)?;
        let (Some(host), Some(port)) = (parsed.host_str(), parsed.port_or_known_default()) else {
            bail!(wrong())
        };
        ensure!(parsed.scheme() == "http", wrong());
        let failed = || format!("cannot find {host}");
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let address = tokio::net::lookup_host((bare, port)).await.with_context(failed)?.next();
        Ok(Self {
            url: url.trim_end_matches('/').to_owned(),
            address: address.with_context(failed)?,
            host: format!("{host}:{port}"),
            base: parsed.path().trim_end_matches('/').to_owned(),
        })
    }

    /// Begins a request, with a key or without one.
    pub(crate) fn request(&self, method: Method, path: &str, key: Option<&str>) -> Builder {
        let request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        let request = request.header(header::HOST, &self.host);
        match key {
            Some(key) => request.header(header::AUTHORIZATION, format!("Bearer {key}")),
            None => request,
        }
    }

    pub(crate) fn get(&self, path: &str, key: Option<&str>) -> anyhow::Result<HttpRequest> {
        Ok(self.request(Method::GET, path, key).body(Bytes::new())?)
    }

    /// Makes a request with a JSON body.
    pub(crate) fn post(
        &self,
        path: &str,
        key: Option<&str>,
        body: impl Into<Bytes>,
    ) -> anyhow::Result<HttpRequest> {
        let body = body.into();
        let request = self.request(Method::POST, path, key);
        let request = request.header(header::CONTENT_TYPE, "application/json");
        Ok(request.header(header::CONTENT_LENGTH, body.len()).body(body)?)
    }

    /// Makes the request of a browser for a page, as a signed-in person.
    pub(crate) fn page(&self, path: &str, session: &str) -> anyhow::Result<HttpRequest> {
        let request = self.request(Method::GET, path, None);
        let request = request.header(header::COOKIE, format!("chorus_session={session}"));
        Ok(request.header(header::ACCEPT_ENCODING, "gzip, deflate, br, zstd").body(Bytes::new())?)
    }

    /// Makes the request of a browser after a button was pressed.
    pub(crate) fn pressed(&self, path: &str) -> anyhow::Result<HttpRequest> {
        let request = self.request(Method::POST, path, None);
        let request = request.header(header::ORIGIN, format!("http://{}", self.host));
        Ok(request.header(header::CONTENT_LENGTH, 0).body(Bytes::new())?)
    }

    pub(crate) fn websocket_url(&self, path: &str) -> String {
        format!("ws://{}{}{path}", self.host, self.base)
    }
}

/// The agents of one run.
#[derive(Debug, Clone)]
pub(crate) struct Fleet {
    /// Part of every name, so that the names of two runs differ.
    pub(crate) run: String,
    /// The end of their addresses: `@` and the hub's name.
    pub(crate) host: String,
    /// The keys of the senders.
    pub(crate) senders: Vec<String>,
    /// The keys of the receivers.
    pub(crate) receivers: Vec<String>,
}

/// A registered agent.
struct FleetAgent {
    index: usize,
    address: String,
    key: String,
}

impl Fleet {
    pub(crate) async fn register(url: &str, senders: usize, receivers: usize) -> anyhow::Result<Self> {
        let target = Target::find(url).await?;
        let run = Environment::system().random_hex()[..8].to_owned();
        let names: Vec<_> = (0..senders)
            .map(|n| sender_name(&run, n))
            .chain((0..receivers).map(|n| receiver_name(&run, n)))
            .collect();
        let mut keys = vec![String::new(); names.len()];
        let mut host = String::new();
        let mut tasks = JoinSet::new();
        for first in 0..REGISTRARS.min(names.len()) {
            let (target, names) = (target.clone(), names.clone());
            tasks.spawn(async move {
                let mut connection = Connection::open(target.address).await?;
                let mut agents = Vec::new();
                for index in (first..names.len()).step_by(REGISTRARS) {
                    agents.push(register(&mut connection, &target, &names[index], index).await?);
                }
                anyhow::Ok(agents)
            });
        }
        while let Some(registered) = tasks.join_next().await {
            for FleetAgent { index, address, key } in registered?? {
                host = address.strip_prefix(&names[index]).unwrap_or_default().to_owned();
                keys[index] = key;
            }
        }
        let receivers = keys.split_off(senders);
        Ok(Self { run, host, senders: keys, receivers })
    }

    /// Removes the agents from a server that is not ours. Their messages stay in its history.
    pub(crate) async fn unregister(&self, url: &str) -> anyhow::Result<()> {
        let target = Target::find(url).await?;
        let mut connection = Connection::open(target.address).await?;
        let senders = self.senders.iter().enumerate().map(|(n, key)| (sender_name(&self.run, n), key));
        let receivers = self.receivers.iter().enumerate().map(|(n, key)| (receiver_name(&self.run, n), key));
        for (name, key) in senders.chain(receivers) {
            let path = format!("/agents/{name}{}", self.host);
            let request = target.request(Method::DELETE, &path, Some(key)).body(Bytes::new())?;
            let (status, body) = connection.exchange(request).await?;
            ensure!(status < 300, "cannot unregister {name}: {}", String::from_utf8_lossy(&body));
        }
        Ok(())
    }
}

async fn register(
    connection: &mut Connection,
    target: &Target,
    name: &str,
    index: usize,
) -> anyhow::Result<FleetAgent> {
    let card = json!({"card_version": CARD_VERSION, "user_culture": "en", "supported_languages": ["en"]});
    let body = json!({"agent_id": name, "agent_card": card});
    let (status, answer) = connection.exchange(target.post("/register", None, body.to_string())?).await?;
    let failed = || format!("cannot register {name}, status {status}: {}", String::from_utf8_lossy(&answer));
    ensure!(status < 300, failed());
    let answer: Value = serde_json::from_slice(&answer).with_context(failed)?;
    let text = |field: &str| answer["data"][field].as_str().map(str::to_owned).with_context(failed);
    Ok(FleetAgent { index, address: text("agent_id")?, key: text("api_key")? })
}
