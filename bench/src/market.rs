//! `market`: transfers, discovery, jobs and heartbeats, against the relay and the bare echo server of the same
//! run.
//!
//! One hub serves all phases, with a crowd of agents that offer skills. Each trader has its own wallet and
//! pays the next trader, so that no wallet runs out of credits. At the end the hub checks that all wallets add
//! up to the minted credits.

mod crowd;

use crate::channel::{repeat, words};
use crate::child::{Child, OPERATOR_KEY};
use crate::histogram::Histogram;
use crate::http::{Connection, HttpRequest};
use crate::listener::Listener;
use crate::load::{Outcome, Relay, Senders};
use crate::options::Load;
use crate::progress::Progress;
use crate::report::{Figure, Goal, Phase, Rounds, Section, ratio, thousands};
use crate::request::Clock;
use crate::target::{Fleet, Target};
use anyhow::{Context, ensure};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// The skill of all traders.
const SKILL: &str = "bench_work";
/// The number of results on a page of discovery.
const PAGE: usize = 10;
/// The initial balance of each trader, in credits.
const BEGINS_WITH: u64 = 1_000_000;
/// The number of digits at the end of an id: those of the trader, and those of the number.
const WHOSE: usize = 4;
const NUMBER: usize = 8;
/// The durable sends in whose time a whole job must be done.
const SENDS: f64 = 6.0;
/// The writes for each heartbeat, including those of the hub's own housekeeping.
const WRITES: f64 = 0.01;

/// An agent on the market, with an owner of its own.
struct Trader {
    agent: String,
    key: String,
    owner: String,
    owner_key: String,
}

/// The traders, and the number of ids that each has used.
struct Traders {
    target: Target,
    all: Vec<Trader>,
    used: Vec<u64>,
}

/// A POST request with an id that is different each time.
struct Numbered {
    /// The id with zeros in place of its number.
    id: String,
    path: String,
    key: String,
    body: String,
}

/// Returns an id with zeros in place of the number at its end. `kind` keeps the ids of different things apart.
fn id(kind: u8, whose: usize) -> String {
    format!("00000000-0000-4{kind:03}-8000-{whose:0WHOSE$}{:0NUMBER$}", 0)
}

impl Numbered {
    /// Returns the request with this number at the end of its ids.
    fn with(&self, target: &Target, number: u64) -> anyhow::Result<HttpRequest> {
        let id = format!("{}{number:0NUMBER$}", &self.id[..self.id.len() - NUMBER]);
        let (path, body) = (self.path.replace(&self.id, &id), self.body.replace(&self.id, &id));
        target.post(&path, Some(&self.key), body)
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

    /// Returns the next trader in the circle.
    fn next(&self, n: usize) -> &Trader {
        &self.all[(n + 1) % self.all.len()]
    }

    /// Returns the steps of each trader, in order.
    fn steps(&self, steps: impl Fn(&Self, usize) -> Vec<Numbered>) -> Vec<Vec<Numbered>> {
        (0..self.all.len()).map(|n| steps(self, n)).collect()
    }

    /// Runs the steps of each trader in a loop, with a new number each time. Counts complete rows of steps.
    async fn run(&mut self, all: Vec<Vec<Numbered>>, duration: Duration) -> anyhow::Result<Outcome> {
        let begun = Instant::now();
        let mut tasks = JoinSet::new();
        for (n, steps) in all.into_iter().enumerate() {
            let (mut connection, mut used) = (Connection::open(self.target.address).await?, self.used[n]);
            let target = self.target.clone();
            tasks.spawn(async move {
                let mut times = Histogram::new()?;
                while begun.elapsed() < duration {
                    let asked = Instant::now();
                    for step in &steps {
                        let (status, body) = connection.exchange(step.with(&target, used)?).await?;
                        let is_success = matches!(status, 200..=202);
                        ensure!(is_success, "status {status}: {}", String::from_utf8_lossy(&body));
                    }
                    used += 1;
                    times.record(asked.elapsed());
                }
                anyhow::Ok((n, used, times))
            });
        }
        let mut send = Histogram::new()?;
        while let Some(done) = tasks.join_next().await {
            let (n, used, times) = done??;
            self.used[n] = used;
            send.add(&times)?;
        }
        let (count, seconds) = (send.count(), begun.elapsed().as_secs_f64());
        Ok(Outcome { count, per_second: count as f64 / seconds, send, end_to_end: None })
    }

    /// Makes each trader pay the next one.
    async fn pay(&mut self, duration: Duration) -> anyhow::Result<Outcome> {
        let steps = self.steps(|traders, n| {
            let (id, from) = (id(1, n), &traders.all[n]);
            let body = json!({
                "transfer_id": id, "from_owner": from.owner, "to_owner": traders.next(n).owner, "amount": 0.01,
            });
            let (path, key) = ("/market/transfer".to_owned(), from.owner_key.clone());
            vec![Numbered { id, path, key, body: body.to_string() }]
        });
        self.run(steps, duration).await
    }

    /// Makes each trader hire the next one, which reports the result. The budget is held, the job handed out,
    /// and the result stored and paid.
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
            let post = |path: String, key: &str, body: &Value| Numbered {
                id: id.clone(),
                path,
                key: key.to_owned(),
                body: body.to_string(),
            };
            vec![
                post("/market/jobs".to_owned(), &hirer.owner_key, &job),
                post(format!("/market/jobs/{id}/result"), &worker.key, &result),
            ]
        });
        self.run(steps, duration).await
    }

    /// Searches for agents in a loop, with another skill on each connection.
    async fn discover(&self, duration: Duration) -> anyhow::Result<Outcome> {
        let request = |n: usize| {
            let path = format!("/market/discover?skill={}&limit={PAGE}", crowd::skill(n));
            self.target.get(&path, None)
        };
        let found = |body: &[u8]| str::from_utf8(body).is_ok_and(|page| page.contains(r#""agent_id""#));
        repeat(&self.target, (0..self.all.len()).map(request), duration, found).await
    }

    /// Sends heartbeats in a loop, and returns the number of writes that they caused.
    async fn live(&self, duration: Duration) -> anyhow::Result<(Outcome, u64)> {
        let request = |trader: &Trader| {
            let body = json!({"agent_id": trader.agent}).to_string();
            self.target.post("/market/heartbeat", Some(&trader.key), body)
        };
        let before = self.writes().await?;
        let outcome = repeat(&self.target, self.all.iter().map(request), duration, |_| true).await?;
        Ok((outcome, self.writes().await? - before))
    }

    /// Returns the number of write transactions that the hub has begun.
    async fn writes(&self) -> anyhow::Result<u64> {
        let mut connection = Connection::open(self.target.address).await?;
        let (_, text) = connection.exchange(self.target.get("/metrics", Some(OPERATOR_KEY))?).await?;
        let mut lines = str::from_utf8(&text)?.lines();
        let count = lines.find_map(|line| line.strip_prefix("chorus_store_writes_total ")?.parse().ok());
        count.context("the hub's metrics do not count its writes")
    }

    /// Checks that all wallets add up to the minted credits.
    async fn check(&self) -> anyhow::Result<()> {
        let mut connection = Connection::open(self.target.address).await?;
        let (_, body) = connection.exchange(self.target.get("/market/economy", None)?).await?;
        let economy: Value = serde_json::from_slice(&body)?;
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
    let (status, answer) = connection.exchange(target.post(path, key, body.to_string())?).await?;
    ensure!(matches!(status, 200 | 201), "{path}, status {status}: {}", String::from_utf8_lossy(&answer));
    Ok(serde_json::from_slice(&answer)?)
}

pub(crate) async fn measure(
    folder: &Path,
    agents: usize,
    load: &Load,
    progress: &Progress,
) -> anyhow::Result<Section> {
    let (folder, pace, size) = (folder.join("market"), &load.pace, load.pace.size);
    // The crowd is written before the hub starts.
    Child::hub(&folder).await?.stop().await?;
    crowd::fill(&folder, agents, progress).await?;
    let hub = Child::hub(&folder).await?;
    let fleet = Fleet::register(&hub.url, load.senders, load.receivers).await?;
    let mut traders = Traders::register(&hub.url, load.senders).await?;
    let echo = Child::echo().await?;
    let mut bare = Senders::new(&[Target::find(&echo.url).await?], &fleet, size, Clock::start())?;
    let mut relay = Relay::open(&traders.target, &fleet, size).await?;
    // Each trader listens, so that its jobs are handed out.
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

    #[tokio::test]
    async fn every_place_of_an_id_gets_the_number() {
        let target = Target::find("http://127.0.0.1:1").await.unwrap();
        let id = id(2, 7);
        let (path, body) = (format!("/jobs/{id}"), format!("{{\"job_id\":\"{id}\"}}"));
        let request = Numbered { id, path, key: "co_key".into(), body }.with(&target, 123).unwrap();
        let numbered = "00000000-0000-4002-8000-000700000123";
        assert_eq!(request.uri().path(), format!("/jobs/{numbered}"));
        assert_eq!(*request.body(), format!("{{\"job_id\":\"{numbered}\"}}"));
        assert!(uuid::Uuid::try_parse(numbered).is_ok());
    }
}
