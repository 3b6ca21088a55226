//! `c2a`: the cost of deciding whom a message concerns, and of deliveries by sessions that acknowledge.
//!
//! Deciding is measured by dry runs, HTTP included, which do everything but write. Twice as many dry runs as
//! posts per second mean that deciding costs less than committing. As many in a large channel as in a small
//! one mean that the roster is not scanned (`crates/store/tests/contract/roster.rs` counts the statements).

use crate::channel::{FEW, Place, words};
use crate::child::Child;
use crate::listener::Way;
use crate::load::Relay;
use crate::options::Load;
use crate::progress::Progress;
use crate::report::{Figure, Goal, Phase, Section, ratio, thousands};
use crate::target::{Fleet, Target};
use std::path::Path;
use std::time::Duration;

/// The query that makes a post a dry run.
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
    // The text mentions the member that a scan of the roster would find last, and a name that nobody has.
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
