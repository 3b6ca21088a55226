//! The server that is measured: where it is, and who the load's agents are there.

use super::request::{receiver_name, sender_name};
use crate::failure::Explained;
use anyhow::Context;
use chorus_agent::{Client, RegisterBody};
use chorus_hub::Environment;
use chorus_protocol::relay::CARD_VERSION;
use serde_json::json;
use std::net::SocketAddr;
use tokio::task::JoinSet;
use url::Url;

/// How many requests are under way while agents are registered.
const AT_ONCE: usize = 16;

/// A server that speaks HTTP/1.1 without TLS.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    /// Without a slash at the end.
    pub(crate) url: String,
    pub(crate) address: SocketAddr,
    host: String,
    path: String,
}

impl Target {
    pub(crate) async fn find(url: &str) -> anyhow::Result<Self> {
        let wrong = || Explained::usage(format!("{url} is not an address like http://host:port"), HINT);
        let parsed = Url::parse(url).map_err(|_| wrong())?;
        let (Some(host), Some(port)) = (parsed.host_str(), parsed.port_or_known_default()) else {
            return Err(wrong().into());
        };
        if parsed.scheme() != "http" {
            return Err(wrong().into());
        }
        let told = || format!("cannot find {host}");
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let address = tokio::net::lookup_host((bare, port)).await.with_context(told)?.next();
        Ok(Self {
            url: url.trim_end_matches('/').to_owned(),
            address: address.with_context(told)?,
            host: format!("{host}:{port}"),
            path: parsed.path().trim_end_matches('/').to_owned(),
        })
    }

    /// A request line and the headers that say where and who, each with its line end.
    pub(crate) fn head(&self, method: &str, path: &str, key: &str) -> String {
        let Self { host, path: base, .. } = self;
        format!("{method} {base}{path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {key}\r\n")
    }
}

impl Target {
    /// What a browser sends when a button on a page of the server is pressed.
    pub(crate) fn pressed(&self, path: &str) -> Vec<u8> {
        let Self { host, path: base, .. } = self;
        format!(
            "POST {base}{path} HTTP/1.1\r\nhost: {host}\r\norigin: http://{host}\r\ncontent-length: 0\r\n\r\n"
        )
        .into_bytes()
    }

    /// What a browser sends that is signed in.
    pub(crate) fn page(&self, path: &str, session: &str) -> String {
        let Self { host, path: base, .. } = self;
        format!(
            "GET {base}{path} HTTP/1.1\r\nhost: {host}\r\ncookie: chorus_session={session}\r\n\
             accept-encoding: gzip, deflate, br, zstd\r\n\r\n"
        )
    }

    /// A whole request, with a key or without one.
    pub(crate) fn request(&self, method: &str, path: &str, key: Option<&str>, body: &str) -> Vec<u8> {
        let Self { host, path: base, .. } = self;
        let bearer = key.map_or_else(String::new, |key| format!("authorization: Bearer {key}\r\n"));
        let length = body.len();
        format!(
            "{method} {base}{path} HTTP/1.1\r\nhost: {host}\r\n{bearer}content-type: application/json\r\n\
             content-length: {length}\r\n\r\n{body}"
        )
        .into_bytes()
    }
}

const HINT: &str = "the load client speaks plain HTTP/1.1, so that it costs little; it knows no TLS";

/// The agents of one run.
#[derive(Debug, Clone)]
pub(crate) struct Fleet {
    /// Part of every name, so that runs do not meet.
    pub(crate) run: String,
    /// How the hub ends their addresses: `@` and its name. The document wants whole ones in envelopes.
    pub(crate) host: String,
    /// Keys.
    pub(crate) senders: Vec<String>,
    pub(crate) receivers: Vec<String>,
}

impl Fleet {
    pub(crate) async fn register(url: &str, senders: usize, receivers: usize) -> anyhow::Result<Self> {
        let run = Environment::system().random_hex()[..8].to_owned();
        let names: Vec<_> = (0..senders)
            .map(|n| sender_name(&run, n))
            .chain((0..receivers).map(|n| receiver_name(&run, n)))
            .collect();
        let client = Client::connect(url, None)?;
        let mut keys = vec![String::new(); names.len()];
        let mut host = String::new();
        let mut tasks = JoinSet::new();
        for first in 0..AT_ONCE {
            let (client, names) = (client.clone(), names.clone());
            tasks.spawn(async move {
                let mut keys = Vec::new();
                for n in (first..names.len()).step_by(AT_ONCE) {
                    keys.push((n, register(&client, &names[n]).await?));
                }
                anyhow::Ok(keys)
            });
        }
        while let Some(registered) = tasks.join_next().await {
            for (n, (address, key)) in registered?? {
                host = address.strip_prefix(&names[n]).unwrap_or_default().to_owned();
                keys[n] = key;
            }
        }
        let receivers = keys.split_off(senders);
        Ok(Self { run, host, senders: keys, receivers })
    }

    /// Leaves a server that is not ours as it was found. What was said stays in its history.
    pub(crate) async fn unregister(&self, url: &str) -> anyhow::Result<()> {
        let senders = self.senders.iter().enumerate().map(|(n, key)| (sender_name(&self.run, n), key));
        let receivers = self.receivers.iter().enumerate().map(|(n, key)| (receiver_name(&self.run, n), key));
        for (name, key) in senders.chain(receivers) {
            Client::connect(url, Some(key.clone()))?.unregister(&name).await?;
        }
        Ok(())
    }
}

/// The new agent's address and key.
async fn register(client: &Client, name: &str) -> anyhow::Result<(String, String)> {
    let card = json!({"card_version": CARD_VERSION, "user_culture": "en", "supported_languages": ["en"]});
    let body =
        RegisterBody { agent_id: name.to_owned(), endpoint: None, agent_card: Some(card), invitation: None };
    let (registered, _) = client.register(&body).await?;
    let key = registered.api_key.context("the server gave no key to a new agent")?;
    Ok((registered.agent_id, key))
}
