//! `relay`: durable messages through a hub, against three references of the same run and, if one is given, an earlier
//! version of `chorus`.

use crate::child::Child;
use crate::disk::Disk;
use crate::load::{Outcome, Relay, Senders};
use crate::options::Load;
use crate::progress::Progress;
use crate::report::{Figure, Goal, Phase, Rounds, Section, millis, ratio};
use crate::request::Clock;
use crate::store::StorePath;
use crate::target::{Fleet, Target};
use std::path::Path;

/// The 99th percentile of a durable send may be this many flushes of the disk, and a constant.
const FLUSHES: f64 = 3.0;
const BEYOND_MS: f64 = 5.0;

/// All rounds of each phase.
#[derive(Debug, Default)]
struct Series {
    echo: Vec<Outcome>,
    relay: Vec<Outcome>,
    store: Vec<Outcome>,
    disk: Vec<Outcome>,
    /// The relay of an earlier version.
    before: Vec<Outcome>,
}

/// An earlier version that is measured beside this one.
struct Before {
    _hub: Child,
    relay: Relay,
}

impl Before {
    async fn open(program: &Path, folder: &Path, load: &Load) -> anyhow::Result<Self> {
        let hub = Child::hub_of(program, folder).await?;
        let fleet = Fleet::register(&hub.url, load.senders, load.receivers).await?;
        let relay = Relay::open(&Target::find(&hub.url).await?, &fleet, load.pace.size).await?;
        Ok(Self { _hub: hub, relay })
    }
}

/// Measures a hub of our own, or the relay at `against`.
pub(crate) async fn measure(
    folder: &Path,
    load: &Load,
    against: Option<&str>,
    before: Option<&Path>,
    progress: &Progress,
) -> anyhow::Result<Section> {
    let folder = folder.join("relay");
    std::fs::create_dir(&folder)?;
    let Some(url) = against else {
        let hub = Child::hub(&folder.join("hub")).await?;
        let fleet = Fleet::register(&hub.url, load.senders, load.receivers).await?;
        let store = StorePath::open(&folder, load.senders, load.receivers, load.pace.size).await?;
        let before = match before {
            Some(program) => Some(Before::open(program, &folder.join("before"), load).await?),
            None => None,
        };
        let setup = Setup { url: &hub.url, fleet: &fleet, store: Some(store), before };
        return rounds(&folder, load, setup, progress).await;
    };
    // The URL is checked before agents are registered there.
    Target::find(url).await?;
    let fleet = Fleet::register(url, load.senders, load.receivers).await?;
    let setup = Setup { url, fleet: &fleet, store: None, before: None };
    let section = rounds(&folder, load, setup, progress).await;
    let left = fleet.unregister(url).await;
    section.and_then(|section| left.map(|()| section))
}

/// A relay with the load's agents, and the references that are measured in the same rounds.
struct Setup<'a> {
    url: &'a str,
    fleet: &'a Fleet,
    /// `None` for a relay that is not ours.
    store: Option<StorePath>,
    before: Option<Before>,
}

async fn rounds(
    folder: &Path,
    load: &Load,
    setup: Setup<'_>,
    progress: &Progress,
) -> anyhow::Result<Section> {
    let Setup { url, fleet, mut store, mut before } = setup;
    let (pace, size) = (&load.pace, load.pace.size);
    let echo = Child::echo().await?;
    let mut bare = Senders::new(&[Target::find(&echo.url).await?], fleet, size, Clock::start())?;
    let mut relay = Relay::open(&Target::find(url).await?, fleet, size).await?;
    let disk = Disk::open(folder)?;
    let mut series = Series::default();
    for round in 1..=pace.rounds {
        let what = |phase: &str| format!("relay, round {round} of {}, {phase}", pace.rounds);
        series.echo.push(pace.measured(progress, what("echo"), async |time| bare.phase(time).await).await?);
        series
            .relay
            .push(pace.measured(progress, what("relay"), async |time| relay.phase(time).await).await?);
        if let Some(Before { relay, .. }) = &mut before {
            let measured = pace.measured(progress, what("before"), async |time| relay.phase(time).await);
            series.before.push(measured.await?);
        }
        if let Some(store) = &mut store {
            let measured = pace.measured(progress, what("store alone"), async |time| store.phase(time).await);
            series.store.push(measured.await?);
        }
        series.disk.push(pace.measured(progress, what("disk"), async |time| disk.phase(time).await).await?);
    }
    let mut checked = relay.finish().await?;
    if let Some(Before { relay, .. }) = before {
        checked += relay.finish().await?;
    }
    Ok(section(load, store.is_none().then_some(url), &series, checked))
}

fn section(load: &Load, against: Option<&str>, series: &Series, checked: u64) -> Section {
    let Series { echo, relay, store, disk, before } = series;
    let mut phases = vec![Phase::of("echo", echo), Phase::of("relay", relay)];
    let mut figures = vec![Figure::ratio("relay/echo", ratio(relay, echo), Goal::AtLeast(0.25))];
    if !before.is_empty() {
        phases.push(Phase::of("relay, before", before));
        figures.push(Figure::ratio("relay/before", ratio(relay, before), Goal::AtLeast(0.97)));
    }
    if !store.is_empty() {
        phases.push(Phase::of("store alone", store));
        figures.push(Figure::ratio("store/echo", ratio(store, echo), Goal::AtLeast(0.6)));
    }
    phases.push(Phase::of("disk", disk));
    let p99 = relay
        .iter()
        .zip(disk)
        .map(|(relay, disk)| millis(&relay.send, 0.99) / (FLUSHES * millis(&disk.send, 0.99) + BEYOND_MS));
    figures.push(Figure::ratio("p99/(3 × disk p99 + 5 ms)", Rounds::of(p99), Goal::AtMost(1.0)));
    let whose = against.map_or_else(String::new, |url| format!(" at {url}"));
    Section { bench: "relay", setup: format!("{load}{whose}"), phases, figures, exactly_once: Some(checked) }
}
