//! The load: senders that each wait for an answer before they send again, and, at a relay, inboxes that listen.
//!
//! The same senders drive the relay and the echo server. At a relay every phase ends with a check: each message that
//! was acknowledged came exactly once, at the inbox it was sent to.

use super::histogram::Histogram;
use super::http::Connection;
use super::listener::{Listener, Received, Way};
use super::request::{Clock, Request};
use super::target::{Fleet, Target};
use anyhow::{Context, bail, ensure};
use std::net::SocketAddr;
use std::ops::Range;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// How long a message may be missing while nothing else comes.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a message that comes twice is waited for at the end.
const LATE: Duration = Duration::from_millis(300);

/// What one phase showed.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) count: u64,
    /// Over the time until the last answer or, at a relay, until the last message was received.
    pub(crate) per_second: f64,
    /// From the begin of a request to its answer.
    pub(crate) send: Histogram,
    /// From the begin of a send to the receiver, at a relay.
    pub(crate) end_to_end: Option<Histogram>,
}

#[derive(Debug)]
struct Sender {
    index: usize,
    request: Request,
    /// The number of its next message, never used twice.
    next: u64,
}

impl Sender {
    /// Sends to one receiver after the other until it is time.
    async fn run(
        mut self,
        mut connection: Connection,
        clock: Clock,
        until: u64,
        receivers: usize,
    ) -> anyhow::Result<(Self, Histogram)> {
        let mut latencies = Histogram::default();
        let mut begun = clock.nanos();
        while begun < until {
            let request = self.request.with(receiver_of(self.index, self.next, receivers), self.next, begun);
            let (status, body) = connection.exchange(request).await?;
            ensure!(matches!(status, 200 | 202), "status {status}: {}", String::from_utf8_lossy(body));
            self.next += 1;
            let now = clock.nanos();
            latencies.record(now - begun);
            begun = now;
        }
        Ok((self, latencies))
    }
}

/// Which receiver gets a sender's message of this number.
fn receiver_of(sender: usize, sequence: u64, receivers: usize) -> usize {
    (sender + sequence as usize) % receivers
}

/// A number of senders.
#[derive(Debug)]
pub(crate) struct Senders {
    all: Vec<Sender>,
    receivers: usize,
    /// Where they send to, in turn.
    addresses: Vec<SocketAddr>,
    clock: Clock,
}

/// What the senders did in one phase.
struct LoadRun {
    begun: u64,
    latencies: Histogram,
    /// The numbers each of them used.
    used: Vec<Range<u64>>,
}

impl Senders {
    /// Senders at these servers, which know the same agents, in turn.
    pub(crate) fn new(targets: &[Target], fleet: &Fleet, size: usize, clock: Clock) -> Self {
        let sender = |(index, key): (usize, &String)| {
            let head = targets[index % targets.len()].head("POST", "/messages", key);
            Sender { index, request: Request::new(&head, &fleet.run, &fleet.host, index, size), next: 0 }
        };
        let addresses = targets.iter().map(|target| target.address).collect();
        let all = fleet.senders.iter().enumerate().map(sender).collect();
        Self { all, receivers: fleet.receivers.len(), addresses, clock }
    }

    /// Sends for a while, on new connections: a server may close those that were idle during other phases.
    async fn run(&mut self, duration: Duration) -> anyhow::Result<LoadRun> {
        let mut connections = vec![];
        for sender in &self.all {
            let address = self.addresses[sender.index % self.addresses.len()];
            connections.push(Connection::open(address).await?);
        }
        let begun = self.clock.nanos();
        let until = begun + duration.as_nanos() as u64;
        let mut used: Vec<_> = self.all.iter().map(|sender| sender.next..sender.next).collect();
        let mut tasks = JoinSet::new();
        for (sender, connection) in self.all.drain(..).zip(connections) {
            tasks.spawn(sender.run(connection, self.clock, until, self.receivers));
        }
        let mut latencies = Histogram::default();
        while let Some(done) = tasks.join_next().await {
            let (sender, own) = done?.context("a send failed")?;
            used[sender.index].end = sender.next;
            latencies.add(&own);
            self.all.push(sender);
        }
        self.all.sort_unstable_by_key(|sender| sender.index);
        Ok(LoadRun { begun, latencies, used })
    }

    /// A phase against a server that delivers nothing.
    pub(crate) async fn phase(&mut self, duration: Duration) -> anyhow::Result<Outcome> {
        let LoadRun { begun, latencies: send, .. } = self.run(duration).await?;
        let seconds = Duration::from_nanos(self.clock.nanos() - begun).as_secs_f64();
        let count = send.count();
        Ok(Outcome { count, per_second: count as f64 / seconds, send, end_to_end: None })
    }
}

/// Senders and listeners at one relay.
#[derive(Debug)]
pub(crate) struct Relay {
    senders: Senders,
    listeners: Vec<Listener>,
    /// How many messages were acknowledged and received exactly once so far.
    checked: u64,
}

impl Relay {
    pub(crate) async fn open(target: &Target, fleet: &Fleet, size: usize) -> anyhow::Result<Self> {
        Self::across(std::slice::from_ref(target), fleet, size).await
    }

    /// With inboxes that are opened this way.
    pub(crate) async fn open_by(
        way: Way,
        target: &Target,
        fleet: &Fleet,
        size: usize,
    ) -> anyhow::Result<Self> {
        Self::with(way, std::slice::from_ref(target), fleet, size).await
    }

    /// At several nodes of one hub, in turn.
    pub(crate) async fn across(targets: &[Target], fleet: &Fleet, size: usize) -> anyhow::Result<Self> {
        Self::with(Way::Events, targets, fleet, size).await
    }

    async fn with(way: Way, targets: &[Target], fleet: &Fleet, size: usize) -> anyhow::Result<Self> {
        let clock = Clock::start();
        let mut listeners = Vec::new();
        for (key, target) in fleet.receivers.iter().zip(targets.iter().cycle()) {
            listeners.push(Listener::open_by(way, target, key, clock).await?);
        }
        Ok(Self { senders: Senders::new(targets, fleet, size, clock), listeners, checked: 0 })
    }

    /// Sends for a while, waits until everything came, and checks it.
    pub(crate) async fn phase(&mut self, duration: Duration) -> anyhow::Result<Outcome> {
        let LoadRun { begun, latencies: send, used } = self.senders.run(duration).await?;
        self.arrival(send.count()).await?;
        let received: Vec<_> = self.listeners.iter().map(Listener::take).collect();
        check(&used, &received)?;
        self.checked += send.count();
        let mut end_to_end = Histogram::default();
        for received in &received {
            end_to_end.add(&received.end_to_end);
        }
        let last = received.iter().map(|received| received.last).max().unwrap_or(begun);
        let seconds = Duration::from_nanos(last.saturating_sub(begun)).as_secs_f64();
        let count = send.count();
        Ok(Outcome { count, per_second: count as f64 / seconds, send, end_to_end: Some(end_to_end) })
    }

    /// Nothing came after the last phase. Returns how many messages were acknowledged and received exactly once.
    pub(crate) async fn finish(self) -> anyhow::Result<u64> {
        tokio::time::sleep(LATE).await;
        let received: Vec<_> = self.listeners.iter().map(Listener::take).collect();
        check(&[], &received)?;
        Ok(self.checked)
    }

    /// Waits until so many messages came, or too long.
    async fn arrival(&self, expected: u64) -> anyhow::Result<()> {
        let (mut came, mut since) = (0, Instant::now());
        loop {
            let counts: Vec<_> = self.listeners.iter().map(Listener::count).collect();
            let now = counts.iter().map(|(count, _)| count).sum();
            if now >= expected {
                return Ok(());
            }
            if now != came {
                (came, since) = (now, Instant::now());
            }
            let open = counts.iter().all(|(_, open)| *open);
            if !open || since.elapsed() > PATIENCE {
                let why = if open { "nothing more comes" } else { "an inbox was closed by the server" };
                bail!("NOT EXACTLY ONCE: {expected} messages were acknowledged, {came} received, and {why}");
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// Each number that was used came once, at its receiver, and nothing else came.
fn check(used: &[Range<u64>], inboxes: &[Received]) -> anyhow::Result<()> {
    let mut came = 0;
    for (receiver, Received { messages, ended, .. }) in inboxes.iter().enumerate() {
        if let Some(why) = ended {
            bail!("an inbox was closed by the server: {why}");
        }
        let mut messages = messages.clone();
        messages.sort_unstable();
        for (n, (sender, sequence)) in messages.iter().enumerate() {
            let told = || format!("NOT EXACTLY ONCE: message {sequence} of sender {sender}");
            ensure!(n == 0 || messages[n - 1] != messages[n], "{} came twice", told());
            let right = receiver_of(*sender, *sequence, inboxes.len()) == receiver;
            ensure!(right, "{} came to somebody else", told());
            let known = used.get(*sender).is_some_and(|used| used.contains(sequence));
            ensure!(known, "{} was not acknowledged in this phase", told());
        }
        came += messages.len() as u64;
    }
    let expected: u64 = used.iter().map(|used| used.end - used.start).sum();
    ensure!(came == expected, "NOT EXACTLY ONCE: {expected} messages were acknowledged, {came} received");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_these(inboxes: &[&[(usize, u64)]]) -> Result<(), String> {
        let inboxes: Vec<_> = inboxes
            .iter()
            .map(|messages| Received { messages: messages.to_vec(), ..Received::default() })
            .collect();
        check(&[5..8, 0..1], &inboxes).map_err(|error| error.to_string())
    }

    #[test]
    fn exactly_once_is_checked() {
        assert_eq!(check_these(&[&[(0, 6)], &[(0, 7), (1, 0), (0, 5)]]), Ok(()));
        let wrong = |inboxes: &[&[(usize, u64)]], what: &str| {
            let told = check_these(inboxes).unwrap_err();
            assert!(told.starts_with("NOT EXACTLY ONCE: ") && told.contains(what), "{told}");
        };
        wrong(&[&[(0, 6), (0, 6)], &[(0, 7), (1, 0), (0, 5)]], "message 6 of sender 0 came twice");
        wrong(&[&[(0, 6), (1, 0)], &[(0, 7), (0, 5)]], "message 0 of sender 1 came to somebody else");
        wrong(&[&[(0, 6)], &[(0, 7), (1, 0), (0, 5), (0, 9)]], "message 9 of sender 0 was not acknowledged");
        wrong(&[&[(0, 6)], &[(0, 7), (1, 0)]], "4 messages were acknowledged, 3 received");
    }
}
