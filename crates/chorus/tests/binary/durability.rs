//! `kill -9` at random moments under load: no acknowledged message is lost, and none comes twice to a receiver
//! that resumes by id.

use crate::hub::{Hub, register, send};
use chorus_protocol::sse::{Item, Parser};
use chorus_testkit::{http, postgres};
use reqwest::Client;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

const ROUNDS: u64 = 20;
const SENDERS: usize = 8;
const RECEIVERS: usize = 4;
/// The time limit for acknowledgements. Only a hub that hangs reaches it.
const PATIENCE: Duration = Duration::from_mins(1);

/// One sender over all rounds, with the messages that the hub acknowledged.
struct Sender {
    name: String,
    key: String,
    /// Retries unacknowledged messages under the same key. The other senders continue with the next message.
    retries: bool,
    next: usize,
    acknowledged: Vec<(usize, String)>,
}

/// One receiver over all rounds: the received messages with their ids, and the position to resume from.
#[derive(Default)]
struct Receiver {
    name: String,
    key: String,
    last_id: Option<String>,
    got: Vec<(i64, String)>,
}

/// Sends messages until the hub is gone, and counts the acknowledged ones.
async fn talk(http: Client, url: String, sender: Arc<Mutex<Sender>>, count: watch::Sender<usize>) {
    let mut sender = sender.lock().await;
    loop {
        let n = sender.next;
        let (to, text) = (n % RECEIVERS, format!("{}:{n}", sender.name));
        let key = sender.retries.then_some(text.as_str());
        let names = (sender.name.as_str(), format!("receiver-{to}"));
        let answer = send(&http, &url, &sender.key, (names.0, &names.1), &text, key).await;
        // A response whose body breaks off counts: the status is sent after the commit.
        match answer.map(|answer| answer.status().as_u16()) {
            Ok(200 | 202) => {
                sender.acknowledged.push((to, text));
                sender.next += 1;
                count.send_modify(|count| *count += 1);
            }
            Ok(409) => {}
            Ok(status) => panic!("{text} was answered with {status}"),
            Err(_) => {
                sender.next += usize::from(!sender.retries);
                return;
            }
        }
    }
}

/// Reads the inbox until the hub is gone, or `enough` holds.
async fn listen(
    http: Client,
    url: String,
    receiver: Arc<Mutex<Receiver>>,
    enough: impl Fn(&Receiver) -> bool,
) {
    let mut receiver = receiver.lock().await;
    let mut request = http.get(format!("{url}/agent/inbox")).bearer_auth(&receiver.key);
    if let Some(id) = &receiver.last_id {
        request = request.header("Last-Event-ID", id);
    }
    let Ok(mut response) = request.send().await else { return };
    assert_eq!(response.status().as_u16(), 200);
    let mut parser = Parser::new();
    while !enough(&receiver)
        && let Ok(Some(piece)) = response.chunk().await
    {
        for item in parser.push(&piece).unwrap() {
            if let Item::Event(event) = item
                && let Some(id) = event.id
            {
                let message: Value = serde_json::from_str(&event.data).unwrap();
                let text = message["envelope"]["original_text"].as_str().unwrap().to_owned();
                receiver.got.push((id.parse().unwrap(), text));
                receiver.last_id = Some(id);
            }
        }
    }
}

async fn kill_and_count(database: Option<&str>) {
    let data = tempfile::tempdir().unwrap();
    let http = http::client();
    let (mut senders, mut receivers) = (vec![], vec![]);
    {
        let hub = Hub::start(data.path(), database);
        for n in 0..SENDERS {
            let name = format!("sender-{n}");
            let key = register(&http, &hub.url, &name).await;
            let sender = Sender { name, key, retries: n % 2 == 0, next: 0, acknowledged: vec![] };
            senders.push(Arc::new(Mutex::new(sender)));
        }
        for n in 0..RECEIVERS {
            let name = format!("receiver-{n}");
            let key = register(&http, &hub.url, &name).await;
            receivers.push(Arc::new(Mutex::new(Receiver { name, key, ..Receiver::default() })));
        }
        hub.kill9();
    }
    let mut acknowledged: HashMap<usize, Vec<String>> = HashMap::new();
    let mut total = 0;
    for round in 0..ROUNDS {
        let hub = Hub::start(data.path(), database);
        let mut tasks = JoinSet::new();
        for receiver in &receivers {
            tasks.spawn(listen(http.clone(), hub.url.clone(), Arc::clone(receiver), |_| false));
        }
        let (count, mut counted) = watch::channel(0);
        for sender in &senders {
            tasks.spawn(talk(http.clone(), hub.url.clone(), Arc::clone(sender), count.clone()));
        }
        // The hub is killed after this many messages, regardless of the time they take, and in some rounds at
        // a random time.
        let random = RandomState::new().hash_one(round);
        let enough = if round % 4 == 0 { 0 } else { 10 + random as usize % 40 };
        let waited = timeout(PATIENCE, counted.wait_for(|count| *count >= enough)).await;
        waited.expect("the hub acknowledges messages").unwrap();
        sleep(Duration::from_millis((random >> 32) % 100)).await;
        hub.kill9();
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
        for sender in &senders {
            for (to, text) in std::mem::take(&mut sender.lock().await.acknowledged) {
                acknowledged.entry(to).or_default().push(text);
                total += 1;
            }
        }
    }
    assert!(total > 100, "only {total} messages: this was no load");

    let hub = Hub::start(data.path(), database);
    for (n, receiver) in receivers.iter().enumerate() {
        let expected = acknowledged.remove(&n).unwrap_or_default();
        let deadline = Instant::now() + Duration::from_secs(20);
        let missing = |receiver: &Receiver| {
            let got: HashSet<&str> = receiver.got.iter().map(|(_, text)| text.as_str()).collect();
            expected.iter().filter(|text| !got.contains(text.as_str())).count()
        };
        let complete = |receiver: &Receiver| missing(receiver) == 0;
        let reading = listen(http.clone(), hub.url.clone(), Arc::clone(receiver), complete);
        drop(tokio::time::timeout_at(deadline.into(), reading).await);

        let receiver = receiver.lock().await;
        assert_eq!(missing(&receiver), 0, "{} lost acknowledged messages", receiver.name);
        let mut texts: Vec<_> = receiver.got.iter().map(|(_, text)| text.clone()).collect();
        texts.sort();
        texts.dedup();
        assert_eq!(texts.len(), receiver.got.len(), "{} got a message twice", receiver.name);
        assert!(receiver.got.is_sorted_by(|a, b| a.0 < b.0), "{} got ids out of order", receiver.name);
        for sender in 0..SENDERS {
            let prefix = format!("sender-{sender}:");
            let numbers: Vec<usize> = receiver
                .got
                .iter()
                .filter_map(|(_, text)| text.strip_prefix(&prefix)?.parse().ok())
                .collect();
            assert!(numbers.is_sorted(), "sender {sender} is out of order");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_9_under_load_on_sqlite() {
    kill_and_count(None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_9_under_load_on_postgres() {
    let database = postgres::database();
    kill_and_count(Some(&database.url)).await;
}
