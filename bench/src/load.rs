//! The load: senders that each wait for a response before they send again, and open inboxes at a relay.
//!
//! The same senders drive the relay and the echo server. At a relay every phase ends with a check: each acknowledged message
//! has arrived exactly once, in the inbox of its receiver.

use crate::histogram::Histogram;
use crate::http::Connection;
use crate::listener::{Arrival, Listener, Received, Way};
use crate::request::{Clock, SendTemplate, SenderKey};
use crate::target::{Fleet, Target};
use anyhow::{Context, bail, ensure};
use std::collections::HashSet;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// The time to wait for a missing message while no other arrives.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time to wait for duplicates at the end.
const LATE: Duration = Duration::from_millis(300);

/// The result of one phase.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) count: u64,
    /// Counted until the last response or, at a relay, until the last arrival.
    pub(crate) per_second: f64,
    /// The times from the begin of a request to its response.
    pub(crate) send: Histogram,
    /// The times from the begin of a send to its arrival; `None` for servers that deliver nothing.
    pub(crate) end_to_end: Option<Histogram>,
}

#[derive(Debug)]
struct Sender {
    index: usize,
    template: SendTemplate,
    /// The number of the next message.
    next: u64,
}

impl Sender {
    /// Sends to one receiver after the other until the time is over.
    async fn run(
        mut self,
        mut connection: Connection,
        clock: Clock,
        until: Duration,
        receivers: usize,
    ) -> anyhow::Result<(Self, Histogram)> {
        let mut latencies = Histogram::new()?;
        let mut begun = clock.now();
        while begun < until {
            let request = self.template.with(receiver_of(self.index, self.next, receivers), self.next, begun);
            let (status, body) = connection.exchange(request).await?;
            ensure!(matches!(status, 200 | 202), "status {status}: {}", String::from_utf8_lossy(&body));
            self.next += 1;
            let now = clock.now();
            latencies.record(now.saturating_sub(begun));
            begun = now;
        }
        Ok((self, latencies))
    }
}

/// Returns the receiver of a sender's message with this number.
fn receiver_of(sender: usize, sequence: u64, receivers: usize) -> usize {
    (sender + sequence as usize) % receivers
}

/// The senders of a run.
#[derive(Debug)]
pub(crate) struct Senders {
    all: Vec<Sender>,
    receivers: usize,
    /// The servers, which the senders use in turn.
    addresses: Vec<SocketAddr>,
    clock: Clock,
}

/// The work of the senders in one phase.
struct LoadRun {
    begun: Duration,
    latencies: Histogram,
    /// The message numbers that each sender used.
    used: Vec<Range<u64>>,
}

impl Senders {
    /// Creates senders that use these servers in turn. All servers know the same agents.
    pub(crate) fn new(targets: &[Target], fleet: &Fleet, size: usize, clock: Clock) -> anyhow::Result<Self> {
        let mut all = vec![];
        for (index, key) in fleet.senders.iter().enumerate() {
            let (target, sender) = (&targets[index % targets.len()], SenderKey { index, key });
            let template = SendTemplate::new(target, &fleet.run, &fleet.host, sender, size)?;
            all.push(Sender { index, template, next: 0 });
        }
        let addresses = targets.iter().map(|target| target.address).collect();
        Ok(Self { all, receivers: fleet.receivers.len(), addresses, clock })
    }

    /// Sends for a while. Connections are new, because a server may have closed those that were idle during other phases.
    async fn run(&mut self, duration: Duration) -> anyhow::Result<LoadRun> {
        let mut connections = vec![];
        for sender in &self.all {
            let address = self.addresses[sender.index % self.addresses.len()];
            connections.push(Connection::open(address).await?);
        }
        let begun = self.clock.now();
        let until = begun + duration;
        let mut used: Vec<_> = self.all.iter().map(|sender| sender.next..sender.next).collect();
        let mut tasks = JoinSet::new();
        for (sender, connection) in self.all.drain(..).zip(connections) {
            tasks.spawn(sender.run(connection, self.clock, until, self.receivers));
        }
        let mut latencies = Histogram::new()?;
        while let Some(done) = tasks.join_next().await {
            let (sender, own) = done?.context("a send failed")?;
            used[sender.index].end = sender.next;
            latencies.add(&own)?;
            self.all.push(sender);
        }
        self.all.sort_unstable_by_key(|sender| sender.index);
        Ok(LoadRun { begun, latencies, used })
    }

    /// Runs a phase against a server that delivers nothing.
    pub(crate) async fn phase(&mut self, duration: Duration) -> anyhow::Result<Outcome> {
        let LoadRun { begun, latencies: send, .. } = self.run(duration).await?;
        let seconds = self.clock.now().saturating_sub(begun).as_secs_f64();
        let count = send.count();
        Ok(Outcome { count, per_second: count as f64 / seconds, send, end_to_end: None })
    }
}

/// Senders and listeners at one relay.
#[derive(Debug)]
pub(crate) struct Relay {
    senders: Senders,
    listeners: Vec<Listener>,
    /// The number of messages that were acknowledged and received exactly once.
    checked: u64,
}

impl Relay {
    pub(crate) async fn open(target: &Target, fleet: &Fleet, size: usize) -> anyhow::Result<Self> {
        Self::across(std::slice::from_ref(target), fleet, size).await
    }

    /// Opens the inboxes with the given protocol.
    pub(crate) async fn open_by(
        way: Way,
        target: &Target,
        fleet: &Fleet,
        size: usize,
    ) -> anyhow::Result<Self> {
        Self::with(way, std::slice::from_ref(target), fleet, size).await
    }

    /// Uses several nodes of one hub in turn.
    pub(crate) async fn across(targets: &[Target], fleet: &Fleet, size: usize) -> anyhow::Result<Self> {
        Self::with(Way::Events, targets, fleet, size).await
    }

    async fn with(way: Way, targets: &[Target], fleet: &Fleet, size: usize) -> anyhow::Result<Self> {
        let clock = Clock::start();
        let mut listeners = Vec::new();
        for (key, target) in fleet.receivers.iter().zip(targets.iter().cycle()) {
            listeners.push(Listener::open_by(way, target, key, clock).await?);
        }
        Ok(Self { senders: Senders::new(targets, fleet, size, clock)?, listeners, checked: 0 })
    }

    /// Sends for a while, waits until everything has arrived, and checks it.
    pub(crate) async fn phase(&mut self, duration: Duration) -> anyhow::Result<Outcome> {
        let LoadRun { begun, latencies: send, used } = self.senders.run(duration).await?;
        self.arrival(send.count()).await?;
        let received: Vec<_> = self.listeners.iter().map(Listener::take).collect();
        check(&used, &received)?;
        self.checked += send.count();
        let mut end_to_end = Histogram::new()?;
        for arrival in received.iter().flat_map(|received| &received.messages) {
            end_to_end.record(arrival.after);
        }
        let last = received.iter().map(|received| received.last).max().unwrap_or(begun);
        let seconds = last.saturating_sub(begun).as_secs_f64();
        let count = send.count();
        Ok(Outcome { count, per_second: count as f64 / seconds, send, end_to_end: Some(end_to_end) })
    }

    /// Checks that nothing arrived after the last phase. Returns the number of messages that arrived exactly once.
    pub(crate) async fn finish(self) -> anyhow::Result<u64> {
        tokio::time::sleep(LATE).await;
        let received: Vec<_> = self.listeners.iter().map(Listener::take).collect();
        check(&[], &received)?;
        Ok(self.checked)
    }

    /// Waits until this many messages have arrived. Fails if nothing arrives for too long.
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

/// Checks that each acknowledged message arrived once, at its receiver, and that nothing else arrived.
fn check(used: &[Range<u64>], inboxes: &[Received]) -> anyhow::Result<()> {
    let mut came = 0;
    for (receiver, Received { messages, ended, .. }) in inboxes.iter().enumerate() {
        if let Some(why) = ended {
            bail!("an inbox was closed by the server: {why}");
        }
        let mut seen = HashSet::new();
        for Arrival { sender, sequence, .. } in messages {
            let message = || format!("NOT EXACTLY ONCE: message {sequence} of sender {sender}");
            ensure!(seen.insert((sender, sequence)), "{} came twice", message());
            let is_right = receiver_of(*sender, *sequence, inboxes.len()) == receiver;
            ensure!(is_right, "{} came to another receiver", message());
            let is_known = used.get(*sender).is_some_and(|used| used.contains(sequence));
            ensure!(is_known, "{} was not acknowledged in this phase", message());
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
            .map(|messages| {
                let arrival = |(sender, sequence): &(usize, u64)| Arrival {
                    sender: *sender,
                    sequence: *sequence,
                    after: Duration::ZERO,
                };
                Received { messages: messages.iter().map(arrival).collect(), ..Received::default() }
            })
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
        wrong(&[&[(0, 6), (1, 0)], &[(0, 7), (0, 5)]], "message 0 of sender 1 came to another receiver");
        wrong(&[&[(0, 6)], &[(0, 7), (1, 0), (0, 5), (0, 9)]], "message 9 of sender 0 was not acknowledged");
        wrong(&[&[(0, 6)], &[(0, 7), (1, 0)]], "4 messages were acknowledged, 3 received");
    }
}
