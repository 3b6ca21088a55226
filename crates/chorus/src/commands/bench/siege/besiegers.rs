//! Somebody who does everything a stranger can, from one address: each in a loop of its own, at a pace, for as long as it
//! is let.
//!
//! What the hub answers to any of it is counted and otherwise ignored.

use super::super::http::Connection;
use super::super::target::Target;
use anyhow::Context;
use chorus_protocol::api::channels::ConversationView;
use chorus_protocol::relay::{CARD_VERSION, CHORUS_VERSION, Registered, Success};
use serde::Deserialize;
use serde_json::{Value, json};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

/// How many sockets are open that say nothing.
const SILENT: usize = 1000;
const CARD: usize = 200 * 1024;
const DOCUMENT: usize = 1 << 20;

/// What was tried, by kind.
#[derive(Default)]
struct Tried {
    registrations: AtomicU64,
    webhooks: AtomicU64,
    silent: AtomicU64,
    wrong_keys: AtomicU64,
    mails: AtomicU64,
    documents: AtomicU64,
    searches: AtomicU64,
}

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = |count: &AtomicU64| count.load(Ordering::Relaxed);
        write!(
            f,
            "{} registrations, {} hanging webhooks, {} silent sockets, {} wrong keys, {} mails, {} documents, {} searches",
            n(&self.registrations),
            n(&self.webhooks),
            n(&self.silent),
            n(&self.wrong_keys),
            n(&self.mails),
            n(&self.documents),
            n(&self.searches)
        )
    }
}

/// The attack while it goes on; dropped, it ends.
pub(crate) struct Besiegers {
    tried: Arc<Tried>,
    _tasks: JoinSet<()>,
}

impl Besiegers {
    pub(crate) async fn begin(url: &str) -> anyhow::Result<Self> {
        let target = Target::find(url).await?;
        let hanging = hanging_server().await?;
        let besieger = Besieger { target, tried: Arc::default() };
        let mut tasks = JoinSet::new();
        // A free key like anybody's, with a channel of its own.
        let key = besieger.register("besieger", None).await.context("the besieger cannot register")?;
        let channel = besieger.ask("POST", "/api/v1/channels", Some(&key), &json!({"name": "siege"})).await?;
        let channel = ConversationView::deserialize(channel).context("no channel")?.id;
        besieger.register("hanging", Some(hanging)).await.context("the besieger cannot register")?;
        tasks.spawn(besieger.clone().registrations());
        tasks.spawn(besieger.clone().webhooks(key.clone()));
        tasks.spawn(besieger.clone().silent());
        tasks.spawn(besieger.clone().wrong_keys());
        tasks.spawn(besieger.clone().mails());
        tasks.spawn(besieger.clone().documents(key.clone(), channel));
        tasks.spawn(besieger.clone().searches(key));
        Ok(Self { tried: besieger.tried, _tasks: tasks })
    }

    /// Ends it, and says what was tried.
    pub(crate) fn end(self) -> String {
        self.tried.to_string()
    }
}

/// A server that takes every connection and never answers.
async fn hanging_server() -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        let mut held = vec![];
        while let Ok((stream, _)) = listener.accept().await {
            held.push(stream);
        }
    });
    Ok(address)
}

#[derive(Clone)]
struct Besieger {
    target: Target,
    tried: Arc<Tried>,
}

impl Besieger {
    async fn ask(&self, method: &str, path: &str, key: Option<&str>, body: &Value) -> anyhow::Result<Value> {
        let mut connection = Connection::open(self.target.address).await?;
        let request = self.target.request(method, path, key, &body.to_string());
        let (_, answer) = connection.exchange(&request).await?;
        Ok(serde_json::from_slice(answer).unwrap_or_default())
    }

    async fn register(&self, name: &str, endpoint: Option<SocketAddr>) -> anyhow::Result<String> {
        let mut body = json!({"agent_id": name});
        if let Some(endpoint) = endpoint {
            body["endpoint"] = json!(format!("http://{endpoint}/"));
        }
        let answer = self.ask("POST", "/register", None, &body).await?;
        let registered = Success::<Registered>::deserialize(&answer).with_context(|| answer.to_string())?;
        registered.data.api_key.with_context(|| answer.to_string())
    }

    /// Asks again and again, on a connection that is opened anew when it was closed.
    async fn again(
        &self,
        every: Duration,
        count: impl Fn(&Tried) -> &AtomicU64,
        request: impl Fn(u64) -> Vec<u8>,
    ) {
        let (mut tick, mut connection) = (tokio::time::interval(every), None);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            let n = count(&self.tried).fetch_add(1, Ordering::Relaxed);
            if connection.is_none() {
                connection = Connection::open(self.target.address).await.ok();
            }
            if let Some(open) = &mut connection
                && open.exchange(&request(n)).await.is_err()
            {
                connection = None;
            }
        }
    }

    /// New agents, every other with a card that is far too large.
    async fn registrations(self) {
        let large = "x".repeat(CARD);
        let card = json!({"card_version": CARD_VERSION, "user_culture": "en", "supported_languages": ["en"], "about": large});
        let every = Duration::from_millis(50);
        self.again(
            every,
            |tried| &tried.registrations,
            |n| {
                let mut body = json!({"agent_id": format!("siege-{n}")});
                if n % 2 == 0 {
                    body["agent_card"] = card.clone();
                }
                self.target.request("POST", "/register", None, &body.to_string())
            },
        )
        .await;
    }

    /// Sends to an endpoint that never answers, and hangs up at once.
    async fn webhooks(self, key: String) {
        let mut tick = tokio::time::interval(Duration::from_millis(100));
        loop {
            tick.tick().await;
            let n = self.tried.webhooks.fetch_add(1, Ordering::Relaxed);
            let envelope = json!({"chorus_version": CHORUS_VERSION, "sender_id": "besieger", "original_text": n.to_string(), "sender_culture": "en"});
            let body = json!({"receiver_id": "hanging", "envelope": envelope}).to_string();
            let request = self.target.request("POST", "/messages", Some(&key), &body);
            if let Ok(mut connection) = Connection::open(self.target.address).await {
                // Long enough to be heard, not to be answered.
                drop(tokio::time::timeout(Duration::from_millis(20), connection.exchange(&request)).await);
            }
        }
    }

    /// Sockets that say nothing, opened again when they are closed.
    async fn silent(self) {
        let mut tasks = JoinSet::new();
        for _ in 0..SILENT {
            let besieger = self.clone();
            tasks.spawn(async move {
                loop {
                    besieger.tried.silent.fetch_add(1, Ordering::Relaxed);
                    if let Ok(mut stream) = TcpStream::connect(besieger.target.address).await {
                        drop(stream.read(&mut [0; 64]).await);
                    }
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            });
        }
        tasks.join_all().await;
    }

    async fn wrong_keys(self) {
        self.again(
            Duration::from_millis(10),
            |tried| &tried.wrong_keys,
            |n| self.target.request("GET", "/agent/messages", Some(&format!("ca_{n:032x}")), ""),
        )
        .await;
    }

    async fn mails(self) {
        self.again(
            Duration::from_millis(50),
            |tried| &tried.mails,
            |n| {
                let body = json!({"email": format!("victim+{n}@mail.example")}).to_string();
                self.target.request("POST", "/api/v1/signin", None, &body)
            },
        )
        .await;
    }

    /// Documents as large as one may be, again and again.
    async fn documents(self, key: String, channel: String) {
        let path = format!("/api/v1/channels/{channel}/artifacts");
        let content = "word ".repeat(DOCUMENT / 5);
        self.again(
            Duration::from_millis(200),
            |tried| &tried.documents,
            |n| {
                let body = json!({"slug": format!("d{n}"), "content": content}).to_string();
                self.target.request("POST", &path, Some(&key), &body)
            },
        )
        .await;
    }

    /// Searches and lists that look at as much as they can.
    async fn searches(self, key: String) {
        let paths = [
            "/api/v1/search?q=word&limit=200",
            "/agents?q=e&limit=200",
            "/agents?culture=en&limit=200",
            "/api/v1/agents?q=siege&limit=200",
        ];
        self.again(
            Duration::from_millis(25),
            |tried| &tried.searches,
            |n| {
                let path = paths[n as usize % paths.len()];
                self.target.request("GET", path, Some(&key), "")
            },
        )
        .await;
    }
}
