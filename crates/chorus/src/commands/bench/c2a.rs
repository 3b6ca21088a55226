//! `chorus bench c2a`: what it costs to decide whom a message concerns, and to deliver by sessions that acknowledge.
//!
//! Deciding is measured by dry runs, which do everything but write, HTTP included. So twice as many of them as posts in a second
//! mean that deciding costs less than committing; and as many in a large channel as in a small one, that no roster is gone through
//! (`crates/store/tests/contract/roster.rs` counts).

use super::channel::{FEW, Place, words};
use super::child::Child;
use super::listener::Way;
use super::load::Relay;
use super::options::Load;
use super::progress::Progress;
use super::report::{Figure, Goal, Phase, Section, ratio, thousands};
use super::target::{Fleet, Target};
use std::path::Path;
use std::time::Duration;

/// What makes a post a dry run.
const DRY: &str = "?dry_run=true";

pub(crate) async fn measure(
    folder: &Path,
    members: usize,
    load: &Load,
    progress: &Progress,
) -> anyhow::Result<Section> {
    let folder = folder.join("c2a");
    std::fs::create_dir(&folder)?;
    let (pace, size) = (&load.pace, load.pace.size);
    let hub = Child::hub(&folder.join("hub")).await?;
    let target = Target::find(&hub.url).await?;
    let mut relays = vec![];
    for way in [Way::Events, Way::C2a] {
        let fleet = Fleet::register(&hub.url, load.senders, load.receivers).await?;
        relays.push(Relay::open_by(way, &target, &fleet, size).await?);
    }
    let small = Place::make(folder.join("small"), FEW, 0, size, progress).await?;
    let filling = Place::make(folder.join("large"), members, 0, size, progress);
    let large = progress.during("c2a, registering", Duration::ZERO, filling).await?;
    // For the one that a look through the roster would find last, and for a name that nobody has.
    let text = |place: &Place| format!("@{} please look at this, @nobody too. {}", place.last, words(size));
    let [few, many] = [text(&small), text(&large)];
    let [mut inbox, mut c2a, mut dry_few, mut dry_many, mut posted] = [const { vec![] }; 5];
    for round in 1..=pace.rounds {
        let what = |phase: &str| format!("c2a, round {round} of {}, {phase}", pace.rounds);
        for (name, relay, outcomes) in [("inbox", 0, &mut inbox), ("c2a", 1, &mut c2a)] {
            let relay: &mut Relay = &mut relays[relay];
            outcomes.push(pace.measured(progress, what(name), async |time| relay.phase(time).await).await?);
        }
        for (name, place, how, text, outcomes) in [
            ("dry run, few members", &small, DRY, &few, &mut dry_few),
            ("dry run, many members", &large, DRY, &many, &mut dry_many),
            ("post, many members", &large, "", &many, &mut posted),
        ] {
            let phase = async |time| place.post(how, text, time).await;
            outcomes.push(pace.measured(progress, what(name), phase).await?);
        }
    }
    let mut checked = 0;
    for relay in relays {
        checked += relay.finish().await?;
    }
    let figure = |name, value, least| Figure::ratio(name, value, Goal::AtLeast(least));
    Ok(Section {
        bench: "c2a",
        setup: format!("{} members against {FEW}, {FEW} talk; {load}", thousands(members as f64)),
        phases: vec![
            Phase::of("inbox", &inbox),
            Phase::of("c2a", &c2a),
            Phase::of("dry run, few members", &dry_few),
            Phase::of("dry run, many members", &dry_many),
            Phase::of("post, many members", &posted),
        ],
        figures: vec![
            figure("delivered by C2A/by inbox", ratio(&c2a, &inbox), 0.7),
            figure("dry run/post, many members", ratio(&dry_many, &posted), 2.0),
            figure("dry run, many members/few", ratio(&dry_many, &dry_few), 0.8),
        ],
        exactly_once: Some(checked),
    })
}
