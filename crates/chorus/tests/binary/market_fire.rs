//! Parallel transfers and jobs over twenty wallets, each retried until it is answered and some of them sent
//! twice, while hubs are killed with `kill -9` and restarted. The totals balance at every moment, and every
//! balance matches the responses.
//!
//! `CHORUS_MARKET_OPERATIONS=10000` sets the number of operations.

use crate::hub::{Hub, OPERATOR};
use chorus_testkit::{http, postgres};
use reqwest::Client;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

const WALLETS: usize = 20;
/// The initial balance of each wallet, in hundredths.
const GRANTED: i64 = 5000;
const COST: i64 = 10;
const CALLERS: usize = 16;
const KILLS: usize = 4;
/// The default number of operations.
const OPERATIONS: usize = 400;
/// Only a hub that hangs reaches this limit.
const PATIENCE: Duration = Duration::from_mins(3);
/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(50);

struct Trader {
    owner: String,
    owner_key: String,
    agent: String,
    agent_key: String,
}

struct Market {
    http: Client,
    /// The current URLs of the hubs.
    urls: Mutex<Vec<String>>,
    traders: Vec<Trader>,
    operations: usize,
    next: AtomicUsize,
    done: AtomicUsize,
    over: AtomicBool,
    /// The balance of successful transfers of each wallet, in hundredths.
    moved: Mutex<Vec<i64>>,
    /// The requested jobs: payer, worker and id.
    jobs: Mutex<Vec<(usize, usize, String)>>,
}

fn credits(hundredths: i64) -> Value {
    serde_json::from_str(&format!("{}.{:02}", hundredths / 100, hundredths % 100)).unwrap()
}

fn hundredths(credits: &Value) -> i64 {
    (credits.as_f64().unwrap_or_else(|| panic!("no amount: {credits}")) * 100.0).round() as i64
}

impl Market {
    fn url(&self, n: usize) -> String {
        let urls = self.urls.lock().unwrap();
        urls[n % urls.len()].clone()
    }

    /// Posts a request until it gets a final response, each time to the next hub.
    async fn post(&self, n: usize, path: &str, key: &str, body: &Value) -> (u16, Value) {
        let begun = Instant::now();
        for hub in n.. {
            let request = self.http.post(format!("{}{path}", self.url(hub))).bearer_auth(key).json(body);
            if let Ok(answer) = request.send().await {
                let status = answer.status().as_u16();
                let whole = answer.text().await;
                if let (true, Ok(text)) = (status < 500 && status != 429, whole) {
                    return (status, serde_json::from_str(&text).unwrap_or_default());
                }
            }
            assert!(begun.elapsed() < PATIENCE, "{path} is not answered: {body}");
            sleep(PAUSE).await;
        }
        unreachable!("there are many numbers");
    }

    async fn get(&self, path: &str, key: &str) -> Value {
        let answer = self.http.get(format!("{}{path}", self.url(0))).bearer_auth(key).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 200, "{path}");
        answer.json().await.unwrap()
    }

    async fn call(self: Arc<Self>) {
        loop {
            let n = self.next.fetch_add(1, Ordering::Relaxed);
            if n >= self.operations {
                return;
            }
            if n.is_multiple_of(3) {
                self.job(n).await;
            } else {
                self.transfer(n).await;
            }
            self.done.fetch_add(1, Ordering::Relaxed);
        }
    }

    async fn transfer(&self, n: usize) {
        let (from, to) = (n % WALLETS, (n * 7 + 1) % WALLETS);
        let amount = 1 + (n as i64 * 37) % 400;
        let body = json!({"transfer_id": format!("{n:08x}-0000-4000-8000-000000000001"), "amount": credits(amount),
            "from_owner": self.traders[from].owner, "to_owner": self.traders[to].owner});
        let key = &self.traders[from].owner_key;
        let (status, _) = self.post(n, "/market/transfer", key, &body).await;
        assert!(
            status == 200 || status == 201 || status == 402 || (from == to && status == 400),
            "{status} {body}"
        );
        if status < 300 {
            if n.is_multiple_of(4) {
                let (again, answer) = self.post(n + 1, "/market/transfer", key, &body).await;
                assert!(again < 300, "{again} {answer}");
            }
            let mut moved = self.moved.lock().unwrap();
            moved[from] -= amount;
            moved[to] += amount;
        }
    }

    async fn job(&self, n: usize) {
        let (payer, worker) = (n % WALLETS, (n * 11 + 3) % WALLETS);
        let id = format!("{n:08x}-0000-4000-8000-000000000002");
        // Some jobs are never done, and end by their deadline.
        let deadline_ms = if n % 5 == 4 { 2000 } else { 120_000 };
        let body = json!({"job_id": id, "agent_id": self.traders[worker].agent, "skill_name": "work",
            "input_data": {}, "budget": credits(COST + n as i64 % 50), "deadline_ms": deadline_ms});
        let (status, answer) = self.post(n, "/market/jobs", &self.traders[payer].agent_key, &body).await;
        assert!(status < 300 || status == 402, "{status} {answer}");
        if status == 402 {
            return;
        }
        let (again, answer) = self.post(n + 1, "/market/jobs", &self.traders[payer].agent_key, &body).await;
        assert!(again < 300, "{again} {answer}");
        self.jobs.lock().unwrap().push((payer, worker, id.clone()));
        let (path, cancel) = (format!("/market/jobs/{id}/result"), format!("/market/jobs/{id}/cancel"));
        let result = json!({"job_id": id, "status": if n % 7 == 6 { "FAILURE" } else { "SUCCESS" },
            "output_data": {}, "execution_cost": credits(COST)});
        let (worker, payer) = (&self.traders[worker].agent_key, &self.traders[payer].agent_key);
        match n % 5 {
            4 => {}
            // The result and the cancellation are sent at the same time. Either may win.
            3 => {
                let nothing = json!({});
                tokio::join!(
                    self.post(n, &path, worker, &result),
                    self.post(n + 1, &cancel, payer, &nothing)
                );
            }
            _ => {
                tokio::join!(self.post(n, &path, worker, &result), self.post(n + 1, &path, worker, &result));
            }
        }
    }

    /// Checks the totals whenever a hub answers, and returns the number of checks.
    async fn watch(self: Arc<Self>) -> usize {
        let mut seen = 0;
        while !self.over.load(Ordering::Relaxed) {
            let answer = self.http.get(format!("{}/market/economy", self.url(seen))).send().await;
            if let Ok(answer) = answer
                && answer.status().is_success()
                && let Ok(economy) = answer.json::<Value>().await
            {
                let [minted, burned, wallets, held] =
                    ["minted", "burned", "wallets", "held"].map(|name| hundredths(&economy[name]));
                assert_eq!(wallets + held, minted - burned, "{economy}");
                assert_eq!(economy["balanced"], true, "{economy}");
                seen += 1;
            }
            sleep(PAUSE).await;
        }
        seen
    }

    async fn show_signs_of_life(&self) {
        for (n, trader) in self.traders.iter().enumerate() {
            let body = json!({"agent_id": trader.agent});
            assert!(self.post(n, "/market/heartbeat", &trader.agent_key, &body).await.0 < 300);
        }
    }
}

async fn register(http: &Client, url: &str, n: usize) -> Trader {
    let owner = format!("owner {n}");
    let body = json!({"agent_name": format!("trader{n}"), "owner_id": owner,
        "skills": [{"skill_name": "work", "cost_per_call": credits(COST)}]});
    let answer = http.post(format!("{url}/market/register")).json(&body).send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 201);
    let made: Value = answer.json().await.unwrap();
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    let minted = json!({"owner": owner, "amount": credits(GRANTED)});
    let minted = http.post(format!("{url}/market/mint")).bearer_auth(OPERATOR).json(&minted).send().await;
    assert_eq!(minted.unwrap().status().as_u16(), 200);
    Trader { owner, owner_key: text("owner_key"), agent: text("agent_id"), agent_key: text("api_key") }
}

async fn trade_and_kill(data: &[&Path], database: Option<&str>) {
    let http = http::client();
    let mut hubs: Vec<_> = data.iter().map(|data| Some(Hub::start(data, database))).collect();
    let urls: Vec<_> = hubs.iter().flatten().map(|hub| hub.url.clone()).collect();
    let mut traders = vec![];
    for n in 0..WALLETS {
        traders.push(register(&http, &urls[0], n).await);
    }
    let said = std::env::var("CHORUS_MARKET_OPERATIONS").ok();
    let market = Arc::new(Market {
        http,
        urls: Mutex::new(urls),
        traders,
        operations: said.map_or(OPERATIONS, |said| said.parse().expect("a number")),
        next: AtomicUsize::new(0),
        done: AtomicUsize::new(0),
        over: AtomicBool::new(false),
        moved: Mutex::new(vec![0; WALLETS]),
        jobs: Mutex::default(),
    });
    let watching = tokio::spawn(Arc::clone(&market).watch());
    let mut calls = JoinSet::new();
    (0..CALLERS).for_each(|_| drop(calls.spawn(Arc::clone(&market).call())));
    for kill in 0..KILLS {
        let enough = market.operations * (kill + 1) / (KILLS + 1);
        let begun = Instant::now();
        while market.done.load(Ordering::Relaxed) < enough && !calls.is_empty() {
            // A failed task is reported at once.
            while let Some(ended) = calls.try_join_next() {
                ended.unwrap();
            }
            assert!(begun.elapsed() < PATIENCE * 20, "nothing happens");
            sleep(PAUSE).await;
        }
        let killed = kill % hubs.len();
        hubs[killed].take().expect("it runs").kill9();
        let hub = Hub::start(data[killed], database);
        market.urls.lock().unwrap()[killed].clone_from(&hub.url);
        hubs[killed] = Some(hub);
        market.show_signs_of_life().await;
    }
    while let Some(ended) = calls.join_next().await {
        ended.unwrap();
    }
    // Jobs that are not done end by their deadline. Then nothing is held.
    let begun = Instant::now();
    while hundredths(&market.get("/market/economy", OPERATOR).await["held"]) != 0 {
        assert!(begun.elapsed() < PATIENCE, "a hold outlives its job");
        sleep(PAUSE).await;
    }
    market.over.store(true, Ordering::Relaxed);
    assert!(watching.await.unwrap() > 0, "nobody looked");
    judge(&market).await;
}

/// Checks that every balance matches the responses: no job is paid twice, and no transfer is lost or repeated.
async fn judge(market: &Market) {
    let mut expected = market.moved.lock().unwrap().clone();
    for balance in &mut expected {
        *balance += GRANTED;
    }
    let jobs = market.jobs.lock().unwrap().clone();
    let mut paid = 0;
    for (payer, worker, id) in &jobs {
        let job = market.get(&format!("/market/jobs/{id}"), &market.traders[*payer].agent_key).await;
        assert_ne!(job["status"], "PENDING", "{job}");
        if job["status"] == "SUCCESS" {
            expected[*payer] -= COST;
            expected[*worker] += COST;
            paid += 1;
        }
    }
    assert!(paid > 0 && paid < jobs.len(), "{paid} of {}", jobs.len());
    for (n, trader) in market.traders.iter().enumerate() {
        let path = format!("/market/wallets/{}", trader.owner.replace(' ', "%20"));
        let wallet = market.get(&path, OPERATOR).await;
        assert_eq!(
            (hundredths(&wallet["balance"]), hundredths(&wallet["held"])),
            (expected[n], 0),
            "{wallet}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_market_under_fire_on_sqlite() {
    let data = tempfile::tempdir().unwrap();
    trade_and_kill(&[data.path()], None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_market_under_fire_on_postgres() {
    let (database, data) = (postgres::database(), tempfile::tempdir().unwrap());
    trade_and_kill(&[data.path()], Some(&database.url)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_market_under_fire_on_postgres_with_two_nodes() {
    let (database, one, two) =
        (postgres::database(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    trade_and_kill(&[one.path(), two.path()], Some(&database.url)).await;
}
