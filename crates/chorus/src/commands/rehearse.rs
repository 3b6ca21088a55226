//! `chorus rehearse`: makes a receipt of a Score and evidence, without a hub.

mod junit;
mod report;
mod summary;

use crate::failure::FAILED;
use crate::global::Global;
use crate::{files, output};
use anyhow::Context as _;
use chorus_choir::{Evidence, Taken, TakenAnswers, receipt, rehearse};
use chorus_protocol::choir::answers::AnswersRecord;
use chorus_protocol::choir::receipt::{Payload, Verdict, VerificationStatus};
use chorus_protocol::faults::Faults;
use serde_json::Value;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  chorus rehearse score.json                                        what is fragile by design
  chorus rehearse score.json --evidence run.json                    what the run adds to that
  chorus rehearse score.json --evidence run.json --json > receipt.json
  chorus rehearse score.json --evidence run.json --min-verdict conditional   else exit 1
  chorus rehearse score.json --evidence *.json --junit junit.xml --summary summary.md";

/// Rehearse a Score, with evidence if given, and say what held and what did not
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The Score: {title, voices, scenarios, …}
    score: String,
    /// An evidence bundle, or answers to the open items of one; may be given many times
    #[arg(long, value_name = "BUNDLE", num_args = 1..)]
    evidence: Vec<String>,
    /// Exit with 1 if the verdict is worse: ready, conditional, retune or not_ready
    #[arg(long, value_name = "VERDICT", value_parser = verdict)]
    min_verdict: Option<Verdict>,
    /// Write a JUnit report with a case for each scenario
    #[arg(long, value_name = "FILE")]
    junit: Option<String>,
    /// Write a summary in Markdown, for a pull request
    #[arg(long, value_name = "FILE")]
    summary: Option<String>,
}

fn verdict(text: &str) -> Result<Verdict, String> {
    Verdict::parse(text).ok_or_else(|| "must be ready, conditional, retune or not_ready".into())
}

/// A file of evidence.
enum Given {
    Bundle(Box<Taken>),
    Answers(TakenAnswers),
}

fn read(value: Value) -> Result<Given, Faults> {
    if AnswersRecord::is_claimed_by(&value) {
        return TakenAnswers::read(value).map(Given::Answers);
    }
    Taken::read(value).map(|taken| Given::Bundle(Box::new(taken)))
}

pub(crate) fn run(global: &Global, args: &Args) -> anyhow::Result<ExitCode> {
    let (_, score) = files::score(&args.score)?;
    let (mut bundles, mut answers) = (vec![], vec![]);
    for path in &args.evidence {
        match files::read(path, "evidence bundle", read)? {
            Given::Bundle(taken) => bundles.push(*taken),
            Given::Answers(taken) => answers.push(taken),
        }
    }
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
    let evidence = Evidence { answers, ..Evidence::new(VerificationStatus::UserAsserted, bundles) };
    let payload = rehearse(&score, Some(&evidence))?;
    write(args.junit.as_deref(), || junit::report(&payload))?;
    write(args.summary.as_deref(), || summary::report(&payload))?;
    if global.json {
        output::json(&receipt(&payload))?;
    } else {
        for line in report::lines(&payload) {
            output::data(output::one_line(&line))?;
        }
    }
    let good = args.min_verdict.is_none_or(|least| payload.verdict <= least);
    if !good {
        output::talk(format_args!(
            "the verdict is {}: {}",
            payload.verdict,
            output::one_line(&payload.verdict_reasons.join("; "))
        ));
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

fn write(path: Option<&str>, text: impl FnOnce() -> String) -> anyhow::Result<()> {
    let Some(path) = path else { return Ok(()) };
    std::fs::write(path, text()).with_context(|| format!("cannot write {path}"))
}

/// Returns the verdict in words.
fn verdict_in_words(payload: &Payload) -> &'static str {
    match (payload.verdict, payload.evidence.is_some()) {
        (Verdict::Ready, false) => "Ready on paper, declared only",
        (Verdict::Ready, true) => "Ready",
        (Verdict::Conditional, _) => "Conditional",
        (Verdict::Retune, _) => "Retune",
        (Verdict::NotReady, _) => "Not ready",
    }
}

/// A rule that an observation of a scenario broke.
struct Broken<'p> {
    rule: &'p str,
    reason: &'p str,
    /// The points it cost; `None` for a headline.
    points: Option<i64>,
    sources: &'p [usize],
}

/// Returns what was broken in a scenario, or outside of any for `None`: headlines first, then costs.
fn broken<'p>(payload: &'p Payload, scenario: Option<&str>) -> Vec<Broken<'p>> {
    let events = payload.evidence.as_ref().map_or(&[][..], |evidence| &evidence.events);
    let place = |index: &usize| events.get(*index).and_then(|event| event.event.scenario_id.as_deref());
    let here = |sources: &[usize]| sources.iter().any(|index| place(index) == scenario);
    let headlines = payload.mismatches.iter().map(|one| Broken {
        rule: &one.id,
        reason: &one.observed,
        points: None,
        sources: &one.source_event_indices,
    });
    let costs = payload.adjustments.iter().filter(|one| one.delta < 0 && !one.rule_id.starts_with("O-CAP"));
    let costs = costs.map(|one| Broken {
        rule: &one.rule_id,
        reason: &one.reason,
        points: Some(one.delta),
        sources: &one.source_event_indices,
    });
    headlines.chain(costs).filter(|one| here(one.sources)).collect()
}

/// Describes an event in one line: its number, what it was, and where it can be seen.
fn event_line(payload: &Payload, index: usize) -> Option<String> {
    let section = payload.evidence.as_ref()?;
    let counted = section.events.get(index)?;
    let event = &counted.event;
    let mut line = format!("event {index}: {}", event.event_type.as_str().replace('_', " "));
    for part in [&event.voice_name, &event.action].into_iter().flatten() {
        line.push(' ');
        line.push_str(part);
    }
    if counted.derived {
        line.push_str(" (concluded)");
    }
    if counted.answered {
        line.push_str(" (answered by the owner)");
    }
    match (chorus_choir::evidence::trace_link(section, counted), &event.reference) {
        (Some(link), _) => line.extend([format!(" {link}")]),
        (None, Some(reference)) => line.extend([format!(" [{reference}]")]),
        (None, None) => {}
    }
    Some(line)
}
