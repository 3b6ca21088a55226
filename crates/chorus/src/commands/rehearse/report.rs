//! The report of a rehearsal for people: the verdict, then what held and what did not, by scenario and voice.

use super::{broken, event_line, verdict_in_words};
use chorus_protocol::choir::receipt::{Dimension, Note, Payload, ScenarioOutcome, VoiceReport};

/// The most events that are shown under one broken rule.
const MOST_EVENTS: usize = 5;

/// Returns the report as lines.
pub(super) fn lines(payload: &Payload) -> Vec<String> {
    let mut lines = vec![format!("{}: {}", verdict_in_words(payload), payload.score.title)];
    lines.extend(payload.verdict_reasons.iter().map(|reason| format!("  {reason}")));
    let dimensions = Dimension::ALL.iter().map(|one| {
        let (before, after) = (payload.structural.base_dimensions.get(*one), payload.dimensions.get(*one));
        let name = one.as_str().replace('_', " ");
        if before == after {
            format!("{name} {after}")
        } else {
            format!("{name} {after} (on paper {before})")
        }
    });
    lines.push(dimensions.collect::<Vec<_>>().join(", "));
    let harmony = &payload.false_harmony;
    lines.push(format!("risk of false harmony {} ({})", harmony.risk, harmony.band));
    lines.push("Scenarios".into());
    for result in &payload.results {
        let sign = match result.result {
            ScenarioOutcome::Passed => "✓",
            ScenarioOutcome::Failed => "×",
            ScenarioOutcome::Warned => "△",
            ScenarioOutcome::NotObserved => "·",
        };
        let outcome = result.result.as_str().replace('_', " ");
        lines.push(format!("  {sign} {}: {outcome}", result.scenario_id));
        lines.extend(details(payload, Some(result.scenario_id.as_str())));
        let own = |note: &&Note| note.scenario_id.as_deref() == Some(result.scenario_id.as_str());
        let notes = payload.open_items.iter().chain(&payload.coverage_gaps).filter(own);
        lines.extend(notes.map(|note| format!("      ? {}", note.text)));
    }
    lines.extend(details(payload, None));
    let general = payload.open_items.iter().filter(|note| note.scenario_id.is_none());
    lines.extend(general.map(|note| format!("  ? {}", note.text)));
    if payload.evidence.is_some() {
        lines.push("Voices".into());
        lines.extend(payload.voices.iter().map(voice));
    }
    lines.extend(rest(payload));
    lines
}

/// Returns what was broken in a scenario, each with the events that show it.
fn details(payload: &Payload, scenario: Option<&str>) -> Vec<String> {
    let mut lines = vec![];
    for one in broken(payload, scenario) {
        let points = one.points.map(|points| format!(" ({points})")).unwrap_or_default();
        lines.push(format!("      {}{points} {}", one.rule, one.reason));
        let shown = one.sources.iter().take(MOST_EVENTS).filter_map(|index| event_line(payload, *index));
        lines.extend(shown.map(|event| format!("          {event}")));
        if one.sources.len() > MOST_EVENTS {
            lines.push(format!("          and {} more events", one.sources.len() - MOST_EVENTS));
        }
    }
    lines
}

fn voice(voice: &VoiceReport) -> String {
    let VoiceReport { name, observed_entries, share_percent, findings, missed_entries, masked_by, .. } =
        voice;
    let mut parts = vec![format!("{observed_entries} events, {share_percent} %")];
    if findings.is_empty() {
        parts.push("nothing found".into());
    } else {
        parts.push(findings.join(", "));
    }
    if !missed_entries.is_empty() {
        parts.push(format!("not heard in {}", missed_entries.join(", ")));
    }
    if !masked_by.is_empty() {
        parts.push(format!("masked by {}", masked_by.join(", ")));
    }
    format!("  {name}: {}", parts.join("; "))
}

/// Returns the design's weaknesses, the evidence that does not count, and the waivers.
fn rest(payload: &Payload) -> Vec<String> {
    let mut lines = vec![];
    if !payload.structural.findings.is_empty() {
        lines.push("On paper".into());
        let findings = payload.structural.findings.iter();
        lines.extend(
            findings
                .map(|one| format!("  {} (-{}) {}: {}", one.rule_id, one.points, one.message, one.retune)),
        );
    }
    if let Some(left) = payload.left_out.as_ref().filter(|left| left.count > 0) {
        lines.push(format!("Not counted: {} bundles", left.count));
        lines.extend(left.bundles.iter().map(|one| format!("  {} {}", one.bundle_sha256, one.why.as_str())));
    }
    if !payload.score.waivers.is_empty() {
        lines.push("Accepted for a time, and still counted".into());
        for waiver in &payload.score.waivers {
            let mut place = vec![waiver.rule_id.0.clone()];
            place.extend([&waiver.scenario_id, &waiver.voice].into_iter().flatten().map(ToString::to_string));
            let place = place.join(", ");
            lines.push(format!("  {place}: {} (by {}, until {})", waiver.reason, waiver.by.0, waiver.until));
        }
    }
    lines
}
