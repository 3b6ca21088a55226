//! `chorus merge`: merges several evidence bundles.

use crate::failure::Explained;
use crate::{files, output};
use chorus_choir::{Taken, merge};
use chorus_protocol::choir::evidence::{Bundle, MAX_EVENTS};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  chorus merge monday.json tuesday.json > both.json

Of two events that are exactly alike and happened in different runs (run_id) both are kept: the later one gets its
run's id before its ref, as in run-2/call_1. Every other event stays as it is.";

/// Merge several evidence bundles and print one: events in order, exact duplicates once
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The bundles; - is standard input
    #[arg(required = true)]
    bundles: Vec<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    // Unknown members are reported for the merged bundle.
    let read = |value| Taken::read(value).map(|taken| taken.bundle);
    let bundles: Vec<Bundle> = args
        .bundles
        .iter()
        .map(|path| files::read(path, "evidence bundle", read))
        .collect::<Result<_, _>>()?;
    let merged = merge(&bundles);
    if merged.events.len() > MAX_EVENTS {
        let what =
            format!("together they have {} events, and a bundle holds {MAX_EVENTS}", merged.events.len());
        return Err(
            Explained::failed(what, "submit them one by one: a receipt takes up to 20 bundles").into()
        );
    }
    let merged = serde_json::to_value(&merged)?;
    Bundle::read(merged.clone()).map_err(|faults| {
        Explained::failed(format!("together they are no bundle: {faults}"), "submit them one by one")
    })?;
    output::json(&merged)?;
    Ok(ExitCode::SUCCESS)
}
