//! `history`: the relay of a hub with a long history, against a new one.

use crate::child::Child;
use crate::load::Relay;
use crate::options::Load;
use crate::progress::Progress;
use crate::report::{Figure, Goal, Phase, Section, ratio, thousands};
use crate::store;
use crate::target::{Fleet, Target};
use std::path::{Path, PathBuf};

/// The data folder of a hub with a history.
#[derive(Debug)]
pub(crate) struct Filled {
    pub(crate) folder: PathBuf,
    pub(crate) fleet: Fleet,
    pub(crate) messages: u64,
}

impl Filled {
    /// Registers the agents through the hub, so that they have keys, and writes their history directly into
    /// the store.
    pub(crate) async fn make(
        folder: &Path,
        load: &Load,
        messages: u64,
        progress: &Progress,
    ) -> anyhow::Result<Self> {
        let folder = folder.join("filled");
        let hub = Child::hub(&folder).await?;
        let fleet = Fleet::register(&hub.url, load.senders, load.receivers).await?;
        hub.stop().await?;
        store::fill(&folder, &fleet, messages, load.pace.size, progress).await?;
        Ok(Self { folder, fleet, messages })
    }
}

pub(crate) async fn measure(
    folder: &Path,
    filled: &Filled,
    load: &Load,
    progress: &Progress,
) -> anyhow::Result<Section> {
    let (pace, size) = (&load.pace, load.pace.size);
    let new = Child::hub(&folder.join("new")).await?;
    let old = Child::hub(&filled.folder).await?;
    let fleet = Fleet::register(&new.url, load.senders, load.receivers).await?;
    let mut without = Relay::open(&Target::find(&new.url).await?, &fleet, size).await?;
    let mut with = Relay::open(&Target::find(&old.url).await?, &filled.fleet, size).await?;
    let (mut empty, mut full) = (vec![], vec![]);
    for round in 1..=pace.rounds {
        let what = |phase: &str| format!("history, round {round} of {}, {phase}", pace.rounds);
        empty.push(pace.measured(progress, what("empty"), async |time| without.phase(time).await).await?);
        full.push(pace.measured(progress, what("full"), async |time| with.phase(time).await).await?);
    }
    let checked = without.finish().await? + with.finish().await?;
    old.stop().await?;
    Ok(Section {
        bench: "history",
        setup: format!("{} messages stored before; {load}", thousands(filled.messages as f64)),
        phases: vec![Phase::of("empty", &empty), Phase::of("full", &full)],
        figures: vec![Figure::ratio("full/empty", ratio(&full, &empty), Goal::AtLeast(0.85))],
        exactly_once: Some(checked),
    })
}
