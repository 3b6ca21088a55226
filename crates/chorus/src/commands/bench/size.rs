//! `chorus bench size`: how large the program is, on disk and in memory when it has nothing to do.

use super::child::Child;
use super::progress::Progress;
use super::report::{Figure, Goal, Rounds, Section, Unit};
use std::path::Path;
use std::time::Duration;

/// How long the hub is left alone before its memory is looked at.
const QUIET: Duration = Duration::from_secs(2);

pub(crate) async fn measure(folder: &Path, progress: &Progress) -> anyhow::Result<Section> {
    let program = std::fs::metadata(std::env::current_exe()?)?.len();
    let hub = Child::hub(&folder.join("idle")).await?;
    progress.during("size", QUIET, tokio::time::sleep(QUIET)).await;
    let memory = hub.memory()?;
    let figure = |name, bytes: u64, most| {
        Figure::new(name, Unit::Megabytes, Rounds::of([bytes as f64 / 1e6]), Goal::AtMost(most))
    };
    Ok(Section {
        bench: "size",
        setup: "this program, and a hub that was just started".to_owned(),
        phases: vec![],
        figures: vec![figure("program", program, 25.0), figure("memory of an idle hub", memory, 30.0)],
        exactly_once: None,
    })
}
