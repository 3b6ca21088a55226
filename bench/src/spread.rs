//! `spread`: one sender with many open inboxes, against few.

use crate::child::Child;
use crate::load::Relay;
use crate::options::Pace;
use crate::progress::Progress;
use crate::report::{Figure, Goal, Phase, Section, ratio};
use crate::target::{Fleet, Target};
use std::path::Path;

const FEW: usize = 10;
const MANY: usize = 1000;

pub(crate) async fn measure(folder: &Path, pace: &Pace, progress: &Progress) -> anyhow::Result<Section> {
    let (_few, mut narrow) = open(folder, "few", FEW, pace).await?;
    let (_many, mut wide) = open(folder, "many", MANY, pace).await?;
    let (mut few, mut many) = (vec![], vec![]);
    for round in 1..=pace.rounds {
        let what = |inboxes: usize| format!("spread, round {round} of {}, {inboxes} inboxes", pace.rounds);
        few.push(pace.measured(progress, what(FEW), async |time| narrow.phase(time).await).await?);
        many.push(pace.measured(progress, what(MANY), async |time| wide.phase(time).await).await?);
    }
    Ok(Section {
        bench: "spread",
        setup: format!("one sender, each message to one of the open inboxes; {pace}"),
        phases: vec![Phase::of("10 inboxes", &few), Phase::of("1000 inboxes", &many)],
        figures: vec![Figure::ratio("1000/10", ratio(&many, &few), Goal::AtLeast(0.8))],
        exactly_once: Some(narrow.finish().await? + wide.finish().await?),
    })
}

async fn open(folder: &Path, name: &str, inboxes: usize, pace: &Pace) -> anyhow::Result<(Child, Relay)> {
    let hub = Child::hub(&folder.join(name)).await?;
    let fleet = Fleet::register(&hub.url, 1, inboxes).await?;
    let relay = Relay::open(&Target::find(&hub.url).await?, &fleet, pace.size).await?;
    Ok((hub, relay))
}
