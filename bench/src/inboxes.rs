//! `inboxes`: the memory of an open, quiet inbox.

use crate::child::Child;
use crate::listener::Listener;
use crate::progress::Progress;
use crate::report::{Figure, Goal, Rounds, Section, Unit, thousands};
use crate::request::Clock;
use crate::target::{Fleet, Target};
use anyhow::ensure;
use std::path::Path;
use std::time::Duration;

/// The number of inboxes that are opened before the measurement, so that one-time allocations are not counted.
const FIRST: usize = 100;
/// The number of files that a process has open besides the inboxes.
const OTHER_FILES: usize = 200;
/// The pause before the hub's memory is measured.
const QUIET: Duration = Duration::from_secs(2);

pub(crate) async fn measure(folder: &Path, count: usize, progress: &Progress) -> anyhow::Result<Section> {
    check_limit(count + FIRST + OTHER_FILES)?;
    let hub = Child::hub(&folder.join("inboxes")).await?;
    let target = Target::find(&hub.url).await?;
    let registering = Fleet::register(&hub.url, 0, FIRST + count);
    let fleet = progress.during("inboxes, registering", Duration::ZERO, registering).await?;
    let (mut listeners, clock) = (vec![], Clock::start());
    let (first, others) = fleet.receivers.split_at(FIRST);
    for key in first {
        listeners.push(Listener::open(&target, key, clock).await?);
    }
    tokio::time::sleep(QUIET).await;
    let before = hub.memory()?;
    for key in others {
        listeners.push(Listener::open(&target, key, clock).await?);
        progress.now(&format!("inboxes: {} of {count} open", listeners.len() - FIRST));
    }
    tokio::time::sleep(QUIET).await;
    let each = hub.memory()?.saturating_sub(before) as f64 / count as f64 / 1024.0;
    progress.done(&format!("inboxes: {each:.1} KiB each"));
    let goal = Goal::AtMost(16.0);
    Ok(Section {
        bench: "inboxes",
        setup: format!("{} open and quiet", thousands(count as f64)),
        phases: vec![],
        figures: vec![Figure::new("memory of an open inbox", Unit::Kibibytes, Rounds::of([each]), goal)],
        exactly_once: None,
    })
}

/// Checks the limit of open files. Each inbox is a connection, which is an open file both here and in the hub.
fn check_limit(needed: usize) -> anyhow::Result<()> {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let allowed = line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok());
    if let Some(allowed) = allowed {
        ensure!(
            allowed >= needed,
            "a process may open {allowed} files here, and {needed} are needed. Raise the limit with \
             `ulimit -n 20000`, or measure with a smaller --count"
        );
    }
    Ok(())
}
