//! `siege`: an honest agent sends and people sign in while a stranger with twenty free keys attacks from another address.
//!
//! The hub runs with its default limits. Honest requests come from 127.0.0.2, the attacks from 127.0.0.1. The hub is quiet first,
//! then besieged, and the honest agent's latency is compared. Every message that the hub acknowledged must arrive exactly once.

mod attacks;
mod besiegers;
mod mail_server;

use crate::child::Child;
use crate::histogram::Histogram;
use crate::http::Connection;
use crate::listener::Listener;
use crate::load::Outcome;
use crate::progress::Progress;
use crate::report::{Figure, Goal, Phase, Rounds, Section, Unit, millis};
use crate::request::{Clock, SendTemplate, SenderKey};
use crate::target::{Fleet, Target};
use anyhow::{Context, bail, ensure};
use besiegers::Besiegers;
use mail_server::{HONEST_DOMAIN, MailServer};
use serde_json::json;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::time::MissedTickBehavior;

/// The address of the honest agent and people.
const HONEST: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
/// The interval of the honest agent's sends, well within the limits of one key.
const PACE: Duration = Duration::from_millis(25);
/// The interval of sign-ins.
const SIGN_IN_EVERY: Duration = Duration::from_secs(5);
/// The time until a link must be mailed, and until a message must arrive after the last send.
const PATIENCE: Duration = Duration::from_secs(10);
const TEXT_SIZE: usize = 200;

pub(crate) async fn measure(folder: &Path, time: Duration, progress: &Progress) -> anyhow::Result<Section> {
    let folder = folder.join("siege");
    let mails = MailServer::start().await?;
    let hub = Child::limited_hub(&folder.join("hub"), &mails.url).await?;
    let mut honest = Honest::join(&hub.url, mails).await?;
    let quiet_time = (time / 4).max(Duration::from_secs(3));
    let quiet = progress.during("siege, quiet", quiet_time, honest.work(quiet_time)).await?;
    let besiegers = Besiegers::begin(&hub.url).await?;
    let besieged = progress.during("siege", time, honest.work(time)).await?;
    let tried = besiegers.end()?;
    let peak = hub.peak_memory()?;
    let checked = honest.finish().await?;
    let ratio = millis(&besieged.outcome.send, 0.99) / millis(&quiet.outcome.send, 0.99);
    let signed_in = besieged.signed_in as f64 / besieged.sign_ins.max(1) as f64;
    for failure in quiet.failures.iter().chain(&besieged.failures) {
        progress.done(&format!("siege: a sign-in failed: {failure}"));
    }
    progress.done(&format!("siege: {tried}"));
    Ok(Section {
        bench: "siege",
        setup: format!("{} s of {tried}; from one address, with 20 keys", time.as_secs()),
        phases: vec![Phase::of("quiet", &[quiet.outcome]), Phase::of("besieged", &[besieged.outcome])],
        figures: vec![
            Figure::ratio("p99 of an honest send, against quiet", Rounds::of([ratio]), Goal::AtMost(10.0)),
            Figure::new(
                "memory of the hub at its highest",
                Unit::Megabytes,
                Rounds::of([peak as f64 / 1e6]),
                Goal::AtMost(250.0),
            ),
            Figure::ratio("sign-ins that worked, of all", Rounds::of([signed_in]), Goal::AtLeast(1.0)),
        ],
        exactly_once: Some(checked),
    })
}

/// An agent that sends to another, and people who sign in.
struct Honest {
    target: Target,
    template: SendTemplate,
    listener: Listener,
    clock: Clock,
    mails: MailServer,
    /// The number of acknowledged messages, and of people who tried to sign in.
    sent: u64,
    people: u64,
}

/// The result of one phase.
struct Worked {
    outcome: Outcome,
    sign_ins: u64,
    signed_in: u64,
    /// The reasons of sign-ins that failed.
    failures: Vec<String>,
}

impl Honest {
    async fn join(url: &str, mails: MailServer) -> anyhow::Result<Self> {
        let (target, clock) = (Target::find(url).await?, Clock::start());
        let fleet = Fleet::register(url, 1, 1).await?;
        let listener = Listener::open(&target, &fleet.receivers[0], clock).await?;
        let sender = SenderKey { index: 0, key: &fleet.senders[0] };
        let template = SendTemplate::new(&target, &fleet.run, &fleet.host, sender, TEXT_SIZE)?;
        Ok(Self { target, template, listener, clock, mails, sent: 0, people: 0 })
    }

    /// Sends at a steady pace, and signs people in meanwhile. A refused send is an error, because an agent
    /// within the limits must not be refused.
    async fn work(&mut self, time: Duration) -> anyhow::Result<Worked> {
        let (mut send, begun) = (Histogram::new()?, Instant::now());
        let before = self.sent;
        let mut connection = Connection::open_from(HONEST, self.target.address).await?;
        let (mut tick, mut sign_in) = (tokio::time::interval(PACE), tokio::time::interval(SIGN_IN_EVERY));
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut sign_ins, mut signed_in) = (tokio::task::JoinSet::new(), 0);
        let (mut tried, mut failures) = (0, vec![]);
        while begun.elapsed() < time {
            tokio::select! {
                _ = tick.tick() => {
                    let now = self.clock.now();
                    let request = self.template.with(0, self.sent, now);
                    let (status, body) = connection.exchange(request).await.context("an honest send failed")?;
                    ensure!(matches!(status, 200 | 202), "status {status}: {}", String::from_utf8_lossy(&body));
                    send.record(self.clock.now().saturating_sub(now));
                    self.sent += 1;
                }
                _ = sign_in.tick() => {
                    (self.people, tried) = (self.people + 1, tried + 1);
                    sign_ins.spawn(sign_in_as(self.target.clone(), self.mails.clone(), self.people));
                }
            }
        }
        while let Some(done) = sign_ins.join_next().await {
            match done? {
                Ok(()) => signed_in += 1,
                Err(error) => failures.push(format!("{error:#}")),
            }
        }
        let count = self.sent - before;
        let per_second = count as f64 / begun.elapsed().as_secs_f64();
        Ok(Worked {
            outcome: Outcome { count, per_second, send, end_to_end: None },
            sign_ins: tried,
            signed_in,
            failures,
        })
    }

    /// Checks that every acknowledged message arrived exactly once, and returns their number.
    async fn finish(self) -> anyhow::Result<u64> {
        let begun = Instant::now();
        while self.listener.count().0 < self.sent && begun.elapsed() < PATIENCE {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let mut came: Vec<_> =
            self.listener.take().messages.into_iter().map(|arrival| arrival.sequence).collect();
        came.sort_unstable();
        ensure!(
            came.iter().copied().eq(0..self.sent),
            "NOT EXACTLY ONCE: {} of {} came",
            came.len(),
            self.sent
        );
        Ok(self.sent)
    }
}

/// Asks for a link, reads it in the mail and uses it.
async fn sign_in_as(target: Target, mails: MailServer, person: u64) -> anyhow::Result<()> {
    let email = format!("honest-{person}{HONEST_DOMAIN}");
    let mut connection = Connection::open_from(HONEST, target.address).await?;
    let request = target.post("/api/v1/signin", None, json!({"email": email}).to_string())?;
    let (status, _) = connection.exchange(request).await?;
    ensure!(status == 202, "status {status} to a sign-in");
    let begun = Instant::now();
    let token = loop {
        if let Some(token) = mails.sign_in_token(&email) {
            break token;
        }
        ensure!(begun.elapsed() < PATIENCE, "no mail came to {email}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let mut connection = Connection::open_from(HONEST, target.address).await?;
    // This is the request of the button on the link's page.
    let (status, _) = connection.exchange(target.pressed(&format!("/signin/{token}"))?).await?;
    if status != 303 {
        bail!("status {status} to a link")
    }
    Ok(())
}
