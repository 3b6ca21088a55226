//! A stranger at one address with twenty free keys: all [attacks](super::attacks) at once, each in loops of its own, for as long
//! as the hub lets it.
//!
//! Answers of the hub are counted and otherwise ignored.

use super::attacks::{
    ATTACKS, Attack, Manner, ScoreAuthor, Supplies, Trader, WRONG_KEYS, hostile_owner, score,
};
use crate::child::OPERATOR_KEY;
use crate::http::{Connection, HttpRequest};
use crate::target::Target;
use anyhow::{Context, ensure};
use chorus_protocol::api::channels::ConversationView;
use serde::Deserialize;
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

/// The number of free keys.
const KEYS: u8 = 20;
/// The time until a sender hangs up: long enough to be heard, not to be answered.
const HANG_UP: Duration = Duration::from_millis(20);
/// The market agents whose schemas are expensive.
const HOSTILE_AGENTS: u8 = 20;

/// The requests of one attack: how many were made, how many of them were refused, and how many of those not by a limit.
#[derive(Default)]
struct Count {
    made: AtomicU64,
    refused: AtomicU64,
    invalid: AtomicU64,
}

/// A running siege. Dropping it ends it.
pub(crate) struct Besiegers {
    counts: Vec<Arc<Count>>,
    _tasks: JoinSet<()>,
}

impl Besiegers {
    pub(crate) async fn begin(url: &str) -> anyhow::Result<Self> {
        let supplies = Arc::new(gather(Target::find(url).await?).await?);
        let (mut tasks, mut counts) = (JoinSet::new(), vec![]);
        for attack in ATTACKS {
            let count = Arc::new(Count::default());
            for _ in 0..attack.connections {
                tasks.spawn(repeat(attack, Arc::clone(&supplies), Arc::clone(&count)));
            }
            counts.push(count);
        }
        Ok(Self { counts, _tasks: tasks })
    }

    /// Ends the siege, and returns a summary of its requests. An attack of which every request was invalid is an error: it would
    /// show nothing.
    pub(crate) fn end(self) -> anyhow::Result<String> {
        let told = ATTACKS.iter().zip(&self.counts).map(|(attack, count)| {
            let [made, refused, invalid] =
                [&count.made, &count.refused, &count.invalid].map(|number| number.load(Ordering::Relaxed));
            ensure!(
                made > invalid + 1 || attack.name == WRONG_KEYS,
                "all {made} {} were invalid",
                attack.name
            );
            Ok(format!("{made} {} ({refused} refused)", attack.name))
        });
        Ok(told.collect::<anyhow::Result<Vec<_>>>()?.join(", "))
    }
}

/// Makes the requests of an attack on one connection, which is opened again when it was closed.
async fn repeat(attack: &'static Attack, supplies: Arc<Supplies>, count: Arc<Count>) {
    let mut tick = tokio::time::interval(attack.every);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (address, mut connection) = (supplies.target.address, None::<Connection>);
    loop {
        tick.tick().await;
        let n = count.made.fetch_add(1, Ordering::Relaxed);
        let mut is_invalid = false;
        let is_refused = match attack.manner {
            Manner::Asks(make) => {
                let status = async {
                    let request = make(&supplies, n)?;
                    let mut open = match connection.take() {
                        Some(open) => open,
                        None => Connection::open(address).await?,
                    };
                    let (status, _) = open.exchange(request).await?;
                    connection = Some(open);
                    anyhow::Ok(status)
                };
                let status = status.await.ok();
                is_invalid = status.is_some_and(|status| (400..500).contains(&status) && status != 429);
                status.is_none_or(|status| status >= 400)
            }
            Manner::HangsUp(make) => {
                let hang_up = async {
                    let mut connection = Connection::open(address).await?;
                    connection.exchange(make(&supplies, n)?).await
                };
                // An attacker that hangs up does not wait for the response.
                drop(tokio::time::timeout(HANG_UP, hang_up).await);
                false
            }
            Manner::NeverFinishes(make) => match make(&supplies, n) {
                Ok(request) => keep_waiting(address, &unfinished(&request)).await.is_err(),
                Err(_) => true,
            },
            Manner::StaysSilent => keep_waiting(address, &[]).await.is_err(),
        };
        count.refused.fetch_add(u64::from(is_refused), Ordering::Relaxed);
        count.invalid.fetch_add(u64::from(is_invalid), Ordering::Relaxed);
    }
}

/// Encodes a request without its last byte.
fn unfinished(request: &HttpRequest) -> Vec<u8> {
    let mut bytes = format!("{} {} HTTP/1.1\r\n", request.method(), request.uri()).into_bytes();
    for (name, value) in request.headers() {
        bytes.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    bytes.extend(b"\r\n");
    bytes.extend(request.body());
    bytes.pop();
    bytes
}

/// Sends these bytes, and keeps the connection until the hub ends it.
async fn keep_waiting(address: SocketAddr, bytes: &[u8]) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(bytes).await?;
    while stream.read(&mut [0; 1024]).await? > 0 {}
    Ok(())
}

/// Starts a server that accepts every connection and never answers.
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

/// Sends one request of the preparation, from an address of its own, because an attacker has unlimited time to
/// prepare.
async fn ask(
    target: &Target,
    from: u8,
    path: &str,
    key: Option<&str>,
    body: &Value,
) -> anyhow::Result<Value> {
    let from = IpAddr::V4(Ipv4Addr::new(127, 0, 1, from));
    let mut connection = Connection::open_from(from, target.address).await?;
    let (status, answer) = connection.exchange(target.post(path, key, body.to_string())?).await?;
    ensure!(status < 300, "status {status} to {path}: {}", String::from_utf8_lossy(&answer));
    Ok(serde_json::from_slice(&answer)?)
}

fn text(value: &Value) -> anyhow::Result<String> {
    value.as_str().map(str::to_owned).context("an answer lacks a text")
}

/// Gets keys, a channel, a Score and offers on the market for the attacks.
async fn gather(target: Target) -> anyhow::Result<Supplies> {
    let mut keys = vec![];
    for n in 0..KEYS {
        let body = json!({"agent_id": format!("besieger-{n}")});
        keys.push(text(&ask(&target, n, "/register", None, &body).await?["data"]["api_key"])?);
    }
    let endpoint = format!("http://{}/", hanging_server().await?);
    ask(&target, 50, "/register", None, &json!({"agent_id": "hanging", "endpoint": endpoint})).await?;
    let channel = ask(&target, 50, "/api/v1/channels", Some(&keys[0]), &json!({"name": "siege"})).await?;
    let channel = ConversationView::deserialize(channel).context("no channel")?.id;
    let account =
        ask(&target, 50, "/api/v1/accounts", Some(OPERATOR_KEY), &json!({"email": "b@besieger.example"}))
            .await?;
    let token = text(&account["api_token"])?;
    let score = ask(&target, 50, "/api/v1/scores", Some(&token), &score()).await?;
    let author = ScoreAuthor { token, score: text(&score["score_id"])? };
    let mut supplies = Supplies::new(target, keys, channel, author);
    for n in 0..HOSTILE_AGENTS {
        let made = ask(&supplies.target, n, "/market/register", None, &Supplies::hostile_offer(n)).await?;
        let owner = hostile_owner(n.into());
        let mint = json!({"owner": owner, "amount": 1000});
        ask(&supplies.target, 50, "/market/mint", Some(OPERATOR_KEY), &mint).await?;
        let (id, key) = (text(&made["agent_id"])?, text(&made["api_key"])?);
        supplies.traders.push(Trader { id, key, owner, owner_key: text(&made["owner_key"])? });
    }
    Ok(supplies)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[tokio::test]
    async fn the_last_byte_of_a_request_is_left_out() {
        let target = Target::find("http://127.0.0.1:1/base").await.unwrap();
        let request = target.post("/x?y=z", Some("ca_key"), "{}").unwrap();
        let head = "POST /base/x?y=z HTTP/1.1\r\nhost: 127.0.0.1:1\r\nauthorization: Bearer ca_key\r\n\
                    content-type: application/json\r\ncontent-length: 2\r\n\r\n";
        assert_eq!(String::from_utf8(unfinished(&request)).unwrap(), format!("{head}{{"));
        let without_body = unfinished(&request.map(|_| Bytes::new()));
        assert_eq!(without_body, &head.as_bytes()[..head.len() - 1]);
    }
}
