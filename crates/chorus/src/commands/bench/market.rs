//! `chorus bench market`: paying, finding, hiring and signs of life, against the relay and the bare echo server of the same run.
//!
//! One hub does it all, with a crowd of agents that offer skills. Everybody who trades has a wallet of his own and pays the next
//! one, so that no credits run out. At the end the hub is asked whether all wallets add up to what was made.

mod crowd;

use super::channel::{repeat, words};
use super::child::{Child, OPERATOR_KEY};
use super::histogram::Histogram;
use super::http::{Connection, number};
use super::listener::Listener;
use super::load::{Outcome, Relay, Senders};
use super::options::Load;
use super::progress::Progress;
use super::report::{Figure, Goal, Phase, Rounds, Section, ratio, thousands};
use super::request::Clock;
use super::target::{Fleet, Target};
use anyhow::{Context, ensure};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// What everybody who trades can do.
const SKILL: &str = "bench_work";
/// How many are shown of what is found.
const PAGE: usize = 10;
/// What each of them begins with, in credits.
const BEGINS_WITH: u64 = 1_000_000;
/// The last digits of an id: whose it is, and its number.
const WHOSE: usize = 4;
const NUMBER: usize = 8;
/// How many durable sends a whole job may cost.
const SENDS: f64 = 6.0;
/// How many writes a sign of life may cost: those of the hub itself go on meanwhile.
const WRITES: f64 = 0.01;

/// Somebody on the market, with an owner of its own.
struct Trader {
    agent: String,
    key: String,
    owner: String,
    owner_key: String,
}

/// Those who trade, and how many ids they have used.
struct Traders {
    target: Target,
    all: Vec<Trader>,
    used: Vec<u64>,
}

/// A request at the end of whose ids a number changes.
struct Numbered {
    bytes: Vec<u8>,
    places: Vec<usize>,
}

/// An id with room for a number at its end. `kind` keeps ids of different things apart.
fn id(kind: u8, whose: usize) -> String {
    format!("00000000-0000-4{kind:03}-8000-{whose:0WHOSE$}{:0NUMBER$}", 0)
}

impl Numbered {
    fn new(bytes: Vec<u8>, id: &str) -> Self {
        let found = bytes.windows(id.len()).enumerate().filter(|(_, window)| *window == id.as_bytes());
        let places = found.map(|(at, _)| at + id.len() - NUMBER).collect();
        Self { bytes, places }
    }

    fn with(&mut self, number: u64) -> &[u8] {
        let digits = format!("{number:0NUMBER$}");
        for place in &self.places {
            self.bytes[*place..*place + NUMBER].copy_from_slice(digits.as_bytes());
        }
        &self.bytes
    }
}

impl Traders {
    async fn register(url: &str, count: usize) -> anyhow::Result<Self> {
        let target = Target::find(url).await?;
        let mut connection = Connection::open(target.address).await?;
        let mut all = vec![];
        for n in 0..count {
            let owner = format!("bench-owner-{n}");
            let body = json!({
                "agent_name": format!("trader {n}"), "owner_id": owner,
                "skills": [{"skill_name": SKILL, "cost_per_call": 1}],
            });
            let made = asked(&mut connection, &target, "/market/register", None, &body).await?;
            let text =
                |name: &str| made[name].as_str().map(str::to_owned).context("a registration without keys");
            all.push(Trader {
                agent: text("agent_id")?,
                key: text("api_key")?,
                owner_key: text("owner_key")?,
                owner: owner.clone(),
            });
            let mint = json!({"owner": owner, "amount": BEGINS_WITH});
            asked(&mut connection, &target, "/market/mint", Some(OPERATOR_KEY), &mint).await?;
        }
        Ok(Self { target, used: vec![0; count], all })
    }

    /// Whoever comes after this one.
    fn next(&self, n: usize) -> &Trader {
        &self.all[(n + 1) % self.all.len()]
    }

    /// The requests of one step after the other, for each of them.
    fn steps(&self, steps: impl Fn(&Self, usize) -> Vec<Numbered>) -> Vec<Vec<Numbered>> {
        (0..self.all.len()).map(|n| steps(self, n)).collect()
    }

    /// Everybody takes all steps with a new number, again and again. The number of whole rows of steps counts.
    async fn run(&mut self, all: Vec<Vec<Numbered>>, duration: Duration) -> anyhow::Result<Outcome> {
        let begun = Instant::now();
        let mut tasks = JoinSet::new();
        for (n, mut steps) in all.into_iter().enumerate() {
            let (mut connection, mut used) = (Connection::open(self.target.address).await?, self.used[n]);
            tasks.spawn(async move {
                let mut times = Histogram::default();
                while begun.elapsed() < duration {
                    let asked = Instant::now();
                    for step in &mut steps {
                        let (status, body) = connection.exchange(step.with(used)).await?;
                        let told = || format!("status {status}: {}", String::from_utf8_lossy(body));
                        ensure!(matches!(status, 200..=202), "{}", told());
                    }
                    used += 1;
                    times.record(asked.elapsed().as_nanos() as u64);
                }
                anyhow::Ok((n, used, times))
            });
        }
        let mut send = Histogram::default();
        while let Some(done) = tasks.join_next().await {
            let (n, used, times) = done??;
            self.used[n] = used;
            send.add(&times);
        }
        let (count, seconds) = (send.count(), begun.elapsed().as_secs_f64());
        Ok(Outcome { count, per_second: count as f64 / seconds, send, end_to_end: None })
    }

    /// Everybody pays the next one.
    async fn pay(&mut self, duration: Duration) -> anyhow::Result<Outcome> {
        let steps = self.steps(|traders, n| {
            let (id, from) = (id(1, n), &traders.all[n]);
            let body = json!({
                "transfer_id": id, "from_owner": from.owner, "to_owner": traders.next(n).owner, "amount": 0.01,
            });
            let path = "/market/transfer";
            let request = traders.target.request("POST", path, Some(&from.owner_key), &body.to_string());
            vec![Numbered::new(request, &id)]
        });
        self.run(steps, duration).await
    }

    /// Everybody hires the next one, which reports the result: the budget is held, the job handed out, the result taken and paid.
    async fn hire(&mut self, size: usize, duration: Duration) -> anyhow::Result<Outcome> {
        let steps = self.steps(|traders, n| {
            let (id, hirer, worker) = (id(2, n), &traders.all[n], traders.next(n));
            let job = json!({
                "job_id": id, "agent_id": worker.agent, "skill_name": SKILL, "budget": 1,
                "input_data": {"text": words(size)},
            });
            let result = json!({
                "job_id": id, "agent_id": worker.agent, "status": "SUCCESS", "execution_cost": 1,
                "output_data": {"text": words(size)},
            });
            let post = |path: &str, key: &str, body: &Value| {
                Numbered::new(traders.target.request("POST", path, Some(key), &body.to_string()), &id)
            };
            vec![
                post("/market/jobs", &hirer.owner_key, &job),
                post(&format!("/market/jobs/{id}/result"), &worker.key, &result),
            ]
        });
        self.run(steps, duration).await
    }

    /// Everybody looks for somebody, each for another skill.
    async fn discover(&self, duration: Duration) -> anyhow::Result<Outcome> {
        let request = |n: usize| {
            let path = format!("/market/discover?skill={}&limit={PAGE}", crowd::skill(n));
            String::from_utf8_lossy(&self.target.request("GET", &path, None, "")).into_owned()
        };
        let found = |body: &[u8]| super::http::find(body, br#""agent_id""#).is_some();
        repeat(&self.target, (0..self.all.len()).map(request), duration, found).await
    }

    /// Everybody says that it lives. Tells how many writes that was.
    async fn live(&self, duration: Duration) -> anyhow::Result<(Outcome, u64)> {
        let request = |trader: &Trader| {
            let body = json!({"agent_id": trader.agent}).to_string();
            let request = self.target.request("POST", "/market/heartbeat", Some(&trader.key), &body);
            String::from_utf8_lossy(&request).into_owned()
        };
        let before = self.writes().await?;
        let outcome = repeat(&self.target, self.all.iter().map(request), duration, |_| true).await?;
        Ok((outcome, self.writes().await? - before))
    }

    /// How many transactions that may write the hub has begun.
    async fn writes(&self) -> anyhow::Result<u64> {
        let mut connection = Connection::open(self.target.address).await?;
        let request = self.target.request("GET", "/metrics", Some(OPERATOR_KEY), "");
        let (_, text) = connection.exchange(&request).await?;
        let name = b"chorus_store_writes_total ";
        let line = text.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(name));
        line.and_then(number).context("the hub does not say how much it writes")
    }

    /// All wallets add up to what was made.
    async fn check(&self) -> anyhow::Result<()> {
        let mut connection = Connection::open(self.target.address).await?;
        let request = self.target.request("GET", "/market/economy", None, "");
        let (_, body) = connection.exchange(&request).await?;
        let economy: Value = serde_json::from_slice(body)?;
        ensure!(economy["balanced"] == true, "THE LEDGER DOES NOT ADD UP: {economy}");
        Ok(())
    }
}

async fn asked(
    connection: &mut Connection,
    target: &Target,
    path: &str,
    key: Option<&str>,
    body: &Value,
) -> anyhow::Result<Value> {
    let (status, answer) = connection.exchange(&target.request("POST", path, key, &body.to_string())).await?;
    ensure!(matches!(status, 200 | 201), "{path}, status {status}: {}", String::from_utf8_lossy(answer));
    Ok(serde_json::from_slice(answer)?)
}

pub(crate) async fn measure(
    folder: &Path,
    agents: usize,
    load: &Load,
    progress: &Progress,
) -> anyhow::Result<Section> {
    let (folder, pace, size) = (folder.join("market"), &load.pace, load.pace.size);
    // What is to be found must be there before the hub is.
    Child::hub(&folder).await?.stop().await?;
    crowd::fill(&folder, agents, progress).await?;
    let hub = Child::hub(&folder).await?;
    let fleet = Fleet::register(&hub.url, load.senders, load.receivers).await?;
    let mut traders = Traders::register(&hub.url, load.senders).await?;
    let echo = Child::echo().await?;
    let mut bare = Senders::new(&[Target::find(&echo.url).await?], &fleet, size, Clock::start());
    let mut relay = Relay::open(&traders.target, &fleet, size).await?;
    // Jobs are handed out to whoever listens.
    let (mut listeners, clock) = (vec![], Clock::start());
    for trader in &traders.all {
        listeners.push(Listener::open(&traders.target, &trader.key, clock).await?);
    }
    let [mut echoed, mut sent, mut paid, mut hired, mut found, mut lived] = [const { vec![] }; 6];
    let mut writes = vec![];
    for round in 1..=pace.rounds {
        let what = |phase: &str| format!("market, round {round} of {}, {phase}", pace.rounds);
        echoed.push(pace.measured(progress, what("echo"), async |time| bare.phase(time).await).await?);
        sent.push(pace.measured(progress, what("relay"), async |time| relay.phase(time).await).await?);
        paid.push(pace.measured(progress, what("transfers"), async |time| traders.pay(time).await).await?);
        hired.push(pace.measured(progress, what("jobs"), async |time| traders.hire(size, time).await).await?);
        found.push(
            pace.measured(progress, what("discovery"), async |time| traders.discover(time).await).await?,
        );
        let mut written = 0;
        let live = async |time| {
            let (outcome, writes) = traders.live(time).await?;
            written = writes;
            anyhow::Ok(outcome)
        };
        let outcome = pace.measured(progress, what("heartbeats"), live).await?;
        writes.push(written as f64 / outcome.count.max(1) as f64);
        lived.push(outcome);
    }
    traders.check().await?;
    let checked = relay.finish().await?;
    let jobs = hired.iter().zip(&sent).map(|(jobs, sent)| sent.per_second / jobs.per_second);
    Ok(Section {
        bench: "market",
        setup: format!("{} agents with {} skills each; {load}", thousands(agents as f64), crowd::EACH),
        phases: vec![
            Phase::of("echo", &echoed),
            Phase::of("relay", &sent),
            Phase::of("transfers", &paid),
            Phase::of("jobs", &hired),
            Phase::of("discovery", &found),
            Phase::of("heartbeats", &lived),
        ],
        figures: vec![
            Figure::ratio("transfers/relay", ratio(&paid, &sent), Goal::AtLeast(0.5)),
            Figure::ratio("discovery/echo", ratio(&found, &echoed), Goal::AtLeast(0.3)),
            Figure::ratio("sends in the time of a whole job", Rounds::of(jobs), Goal::AtMost(SENDS)),
            Figure::ratio("writes for each heartbeat", Rounds::of(writes), Goal::AtMost(WRITES)),
        ],
        exactly_once: Some(checked),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_of_an_id_gets_the_number() {
        let id = id(2, 7);
        let mut request = Numbered::new(format!("POST /jobs/{id} {{\"job_id\":\"{id}\"}}").into_bytes(), &id);
        let bytes = String::from_utf8(request.with(123).to_vec()).unwrap();
        let numbered = "00000000-0000-4002-8000-000700000123";
        assert_eq!(bytes, format!("POST /jobs/{numbered} {{\"job_id\":\"{numbered}\"}}"));
        assert!(uuid::Uuid::try_parse(numbered).is_ok());
    }
}
