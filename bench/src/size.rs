//! `size`: the size of `chorus` on disk, and the memory of an idle hub.

use crate::child::Child;
use crate::progress::Progress;
use crate::report::{Figure, Goal, Rounds, Section, Unit};
use std::path::Path;
use std::time::Duration;

/// The pause before the hub's memory is measured.
const QUIET: Duration = Duration::from_secs(2);

pub(crate) async fn measure(folder: &Path, progress: &Progress) -> anyhow::Result<Section> {
    let program = std::fs::metadata(crate::child::chorus_path()?)?.len();
    let hub = Child::hub(&folder.join("idle")).await?;
    progress.during("size", QUIET, tokio::time::sleep(QUIET)).await;
    let memory = hub.memory()?;
    let figure = |name, bytes: u64, most| {
        Figure::new(name, Unit::Megabytes, Rounds::of([bytes as f64 / 1e6]), Goal::AtMost(most))
    };
    Ok(Section {
        bench: "size",
        setup: "the program, and a hub that was just started".to_owned(),
        phases: vec![],
        figures: vec![figure("program", program, 30.0), figure("memory of an idle hub", memory, 30.0)],
        exactly_once: None,
    })
}
