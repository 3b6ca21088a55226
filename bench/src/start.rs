//! `start`: the start time of a hub with a long history, after a clean end and after a crash.

use crate::child::Child;
use crate::history::Filled;
use crate::load::Relay;
use crate::options::Load;
use crate::progress::Progress;
use crate::report::{Figure, Goal, Rounds, Section, Unit, thousands};
use crate::target::Target;
use std::time::Duration;

/// The time under load before the hub is killed.
const UNDER_LOAD: Duration = Duration::from_secs(2);

pub(crate) async fn measure(filled: &Filled, load: &Load, progress: &Progress) -> anyhow::Result<Section> {
    let (mut clean, mut killed) = (vec![], vec![]);
    for round in 1..=load.pace.rounds {
        let what = format!("start, round {round} of {}", load.pace.rounds);
        let hub = Child::hub(&filled.folder).await?;
        clean.push(hub.ready_after.as_secs_f64());
        let mut relay = Relay::open(&Target::find(&hub.url).await?, &filled.fleet, load.pace.size).await?;
        let kill = async {
            tokio::select! {
                // The result does not matter, because the hub is about to be killed.
                _ = relay.phase(UNDER_LOAD * 2) => {}
                () = tokio::time::sleep(UNDER_LOAD) => {}
            }
            hub.kill();
        };
        progress.during(&what, UNDER_LOAD, kill).await;

        let hub = Child::hub(&filled.folder).await?;
        killed.push(hub.ready_after.as_secs_f64());
        hub.stop().await?;
        let seconds = |values: &[f64]| values.last().copied().unwrap_or(f64::NAN);
        let (clean, killed) = (seconds(&clean), seconds(&killed));
        progress.done(&format!("{what}: {clean:.3} s after a clean end, {killed:.3} s after kill -9"));
    }
    let figure = |name, values| Figure::new(name, Unit::Seconds, Rounds::of(values), Goal::AtMost(1.0));
    Ok(Section {
        bench: "start",
        setup: format!(
            "{} messages stored before, {} rounds",
            thousands(filled.messages as f64),
            load.pace.rounds
        ),
        phases: vec![],
        figures: vec![figure("ready after a clean end", clean), figure("ready after kill -9", killed)],
        exactly_once: None,
    })
}
