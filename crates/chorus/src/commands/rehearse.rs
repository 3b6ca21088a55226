//! `chorus rehearse`: from a Score and evidence to a receipt, without a hub.

use crate::{files, output};
use chorus_choir::{Evidence, Taken, receipt, rehearse};
use chorus_protocol::choir::receipt::{Verdict, VerificationStatus};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  chorus rehearse score.json                                        what is fragile by design
  chorus rehearse score.json --evidence run.json > receipt.json     what the run adds to that
  chorus rehearse score.json --evidence run.json --min-verdict conditional   else exit 1";

/// Rehearse a Score on paper, with evidence if there is some; print a receipt that nobody has issued
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The Score: {title, voices, scenarios, …}
    score: String,
    /// What was observed; may be given up to 20 times
    #[arg(long, value_name = "BUNDLE", num_args = 1..)]
    evidence: Vec<String>,
    /// Exit with 1 if the verdict is worse: ready, conditional, retune or not_ready
    #[arg(long, value_name = "VERDICT", value_parser = verdict)]
    min_verdict: Option<Verdict>,
}

fn verdict(text: &str) -> Result<Verdict, String> {
    Verdict::parse(text).ok_or_else(|| "must be ready, conditional, retune or not_ready".into())
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (_, score) = files::score(&args.score)?;
    let bundles: Vec<_> = args
        .evidence
        .iter()
        .map(|path| files::read(path, "evidence bundle", Taken::read))
        .collect::<Result<_, _>>()?;
    let placed = |taken: &Taken| {
        let bundle = &taken.bundle;
        bundle.scenario_id.is_some() || bundle.events.iter().any(|event| event.scenario_id.is_some())
    };
    let unplaced = bundles.iter().filter(|taken| !placed(taken)).count();
    if unplaced > 0 {
        output::talk(format_args!(
            "{unplaced} of the bundles name no scenario: how severe it is, what it forbids and whom it requires cannot count \
             (`chorus adapt --scenario ID`)"
        ));
    }
    let evidence = Evidence { status: VerificationStatus::UserAsserted, bundles, hub: None };
    let payload = rehearse(&score, Some(&evidence))?;
    output::json(&receipt(&payload))?;
    let good = args.min_verdict.is_none_or(|least| payload.verdict <= least);
    if !good {
        output::talk(format_args!(
            "the verdict is {}: {}",
            payload.verdict,
            output::one_line(&payload.verdict_reasons.join("; "))
        ));
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::from(crate::failure::FAILED) })
}
