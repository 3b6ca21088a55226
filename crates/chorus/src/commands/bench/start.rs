//! `chorus bench start`: how long until a hub with a long history is ready, after a clean end and after none.

use super::child::Child;
use super::history::Filled;
use super::load::Relay;
use super::options::Load;
use super::progress::Progress;
use super::report::{Figure, Goal, Rounds, Section, Unit, thousands};
use super::target::Target;
use std::time::Duration;

/// How long the hub is under load before it is killed, in the middle of it.
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
                // Whatever it did, it is about to be killed.
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
