//! `chorus bench siege`: an honest agent and a person who signs in, while somebody at another address does everything to
//! keep them from it.
//!
//! The hub runs with its limits as they are by default. The honest ones come from 127.0.0.2, the besiegers from
//! 127.0.0.1. First it is quiet, then besieged; what is compared is the honest agent's time to an answer. Whatever the
//! hub acknowledged to it must arrive exactly once.

mod besiegers;

use super::child::Child;
use super::histogram::Histogram;
use super::http::Connection;
use super::listener::Listener;
use super::load::Outcome;
use super::progress::Progress;
use super::report::{Figure, Goal, Phase, Rounds, Section, Unit, millis};
use super::request::{Clock, Request};
use super::target::{Fleet, Target};
use anyhow::{Context, bail, ensure};
use besiegers::Besiegers;
use serde_json::json;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::time::MissedTickBehavior;

/// Where the honest ones come from.
const HONEST: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
/// How often the honest agent sends: well within what one key may.
const PACE: Duration = Duration::from_millis(25);
/// How often somebody signs in.
const SIGN_IN_EVERY: Duration = Duration::from_secs(5);
/// How long a link may take to be mailed, and a message to arrive after the last send.
const PATIENCE: Duration = Duration::from_secs(10);
const TEXT_SIZE: usize = 200;

pub(crate) async fn measure(folder: &Path, time: Duration, progress: &Progress) -> anyhow::Result<Section> {
    let folder = folder.join("siege");
    let mails = folder.join("mails");
    let hub = Child::limited_hub(&folder.join("hub"), &mails).await?;
    let mut honest = Honest::join(&hub.url, mails).await?;
    let quiet_time = (time / 4).max(Duration::from_secs(3));
    let quiet = progress.during("siege, quiet", quiet_time, honest.work(quiet_time)).await?;
    let besiegers = Besiegers::begin(&hub.url).await?;
    let besieged = progress.during("siege", time, honest.work(time)).await?;
    let tried = besiegers.end();
    let peak = hub.peak_memory()?;
    let checked = honest.finish().await?;
    let ratio = millis(&besieged.outcome.send, 0.99) / millis(&quiet.outcome.send, 0.99);
    let signed_in = besieged.signed_in as f64 / besieged.sign_ins.max(1) as f64;
    progress.done(&format!("siege: {tried}"));
    Ok(Section {
        bench: "siege",
        setup: format!("{} s of {tried}, from one address", time.as_secs()),
        phases: vec![Phase::of("quiet", &[quiet.outcome]), Phase::of("besieged", &[besieged.outcome])],
        figures: vec![
            Figure::ratio("p99 of an honest send, against quiet", Rounds::of([ratio]), Goal::AtMost(10.0)),
            Figure::new(
                "memory of the hub at its highest",
                Unit::Megabytes,
                Rounds::of([peak as f64 / 1e6]),
                Goal::AtMost(200.0),
            ),
            Figure::ratio("sign-ins that worked, of all", Rounds::of([signed_in]), Goal::AtLeast(1.0)),
        ],
        exactly_once: Some(checked),
    })
}

/// An agent that sends to another, and people who sign in.
struct Honest {
    target: Target,
    request: Request,
    listener: Listener,
    clock: Clock,
    mails: PathBuf,
    /// How many messages were acknowledged, and how many people have tried to sign in.
    sent: u64,
    people: u64,
}

/// What they did in one phase.
struct Worked {
    outcome: Outcome,
    sign_ins: u64,
    signed_in: u64,
}

impl Honest {
    async fn join(url: &str, mails: PathBuf) -> anyhow::Result<Self> {
        let (target, clock) = (Target::find(url).await?, Clock::start());
        let fleet = Fleet::register(url, 1, 1).await?;
        let listener = Listener::open(&target, &fleet.receivers[0], clock).await?;
        let request = Request::new(
            &target.head("POST", "/messages", &fleet.senders[0]),
            &fleet.run,
            &fleet.host,
            0,
            TEXT_SIZE,
        );
        Ok(Self { target, request, listener, clock, mails, sent: 0, people: 0 })
    }

    /// Sends at a steady pace, and signs people in meanwhile. A refusal of a send ends it: nobody who keeps to the limits
    /// may be refused.
    async fn work(&mut self, time: Duration) -> anyhow::Result<Worked> {
        let (mut send, begun) = (Histogram::default(), Instant::now());
        let before = self.sent;
        let mut connection = Connection::open_from(HONEST, self.target.address).await?;
        let (mut tick, mut sign_in) = (tokio::time::interval(PACE), tokio::time::interval(SIGN_IN_EVERY));
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut sign_ins, mut signed_in) = (tokio::task::JoinSet::new(), 0);
        let mut tried = 0;
        while begun.elapsed() < time {
            tokio::select! {
                _ = tick.tick() => {
                    let now = self.clock.nanos();
                    let request = self.request.with(0, self.sent, now);
                    let (status, body) = connection.exchange(request).await.context("an honest send failed")?;
                    ensure!(matches!(status, 200 | 202), "status {status}: {}", String::from_utf8_lossy(body));
                    send.record(self.clock.nanos() - now);
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
                Err(error) => tracing::warn!(error = format!("{error:#}"), "a sign-in failed"),
            }
        }
        let count = self.sent - before;
        let per_second = count as f64 / begun.elapsed().as_secs_f64();
        Ok(Worked {
            outcome: Outcome { count, per_second, send, end_to_end: None },
            sign_ins: tried,
            signed_in,
        })
    }

    /// Every acknowledged message came exactly once.
    async fn finish(self) -> anyhow::Result<u64> {
        let begun = Instant::now();
        while self.listener.count().0 < self.sent && begun.elapsed() < PATIENCE {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let mut came: Vec<_> =
            self.listener.take().messages.into_iter().map(|(_, sequence)| sequence).collect();
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
async fn sign_in_as(target: Target, mails: PathBuf, person: u64) -> anyhow::Result<()> {
    let email = format!("honest-{person}@honest.example");
    let mut connection = Connection::open_from(HONEST, target.address).await?;
    let asked = target.request("POST", "/api/v1/signin", None, &json!({"email": email}).to_string());
    let (status, _) = connection.exchange(&asked).await?;
    ensure!(status == 202, "status {status} to a sign-in");
    let begun = Instant::now();
    let token = loop {
        let (mails, to) = (mails.clone(), email.clone());
        if let Some(token) = tokio::task::spawn_blocking(move || token_in(&mails, &to)).await? {
            break token;
        }
        ensure!(begun.elapsed() < PATIENCE, "no mail came to {email}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let mut connection = Connection::open_from(HONEST, target.address).await?;
    // As the button on the link's page does.
    let pressed = target.pressed(&format!("/signin/{token}"));
    let (status, _) = connection.exchange(&pressed).await?;
    if status != 303 {
        bail!("status {status} to a link")
    }
    Ok(())
}

/// The secret of the link in the mail to this address, if it came.
fn token_in(mails: &Path, email: &str) -> Option<String> {
    let files =
        std::fs::read_dir(mails).ok()?.filter_map(|file| std::fs::read_to_string(file.ok()?.path()).ok());
    let mail = files.into_iter().find(|text| text.contains(email))?;
    let from = mail.find("/signin/")? + "/signin/".len();
    Some(mail[from..].chars().take_while(|sign| sign.is_ascii_alphanumeric() || *sign == '_').collect())
}
