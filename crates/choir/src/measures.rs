//! Rehearsal measures: the contribution of each voice, the fate of disagreement, and dominance.
//!
//! They explain a result; none of them changes a number.

use crate::derive::is_entry;
use crate::names::{Voices, same};
use crate::observe::{Facts, Seen};
use crate::rules;
use crate::structure::masks;
use chorus_protocol::choir::evidence::{Disposition, EventType};
use chorus_protocol::choir::receipt::{CountedEvent, Dissonance, Finding, Masking, Note, Pair, VoiceReport};
use chorus_protocol::choir::score::{Score, Voice};
use std::collections::BTreeMap;

/// The adapter id of bundles of runs that the hub carried.
pub const HUB_ADAPTER: &str = "chorus.hub.v1";
/// The kind of gap of a scenario of which nothing was seen.
pub const NOT_OBSERVED: &str = "not_observed";
/// The kind of gap of a scenario of which something was seen, but no complete bundle.
pub const NOT_COMPLETE: &str = "not_complete";

fn percent(part: usize, whole: usize) -> i64 {
    (100 * part).checked_div(whole).unwrap_or_default() as i64
}

/// Iterates over the events that voices made themselves.
fn entries(events: &[CountedEvent]) -> impl Iterator<Item = (usize, &CountedEvent)> {
    let own =
        |event: &&CountedEvent| !event.derived && event.event.voice_name.is_some() && is_entry(&event.event);
    events.iter().enumerate().filter(move |(_, event)| own(event))
}

fn entries_of(events: &[CountedEvent], voice: &Voice) -> Vec<usize> {
    let own =
        |event: &CountedEvent| event.event.voice_name.as_deref().is_some_and(|name| same(name, &voice.name));
    entries(events).filter(|(_, event)| own(event)).map(|(index, _)| index).collect()
}

/// Reports the contribution of each voice. `observed` holds the rules about observations that cost something,
/// with the events that caused them.
pub(crate) fn voices(
    score: &Score,
    events: &[CountedEvent],
    findings: &[Finding],
    masking: &[Masking],
    observed: &[(&str, &[usize])],
) -> Vec<VoiceReport> {
    let known = Voices::of(&score.voices);
    let total = entries(events).count();
    let report = |voice: &Voice| {
        let is = |name: &str| known.find(name).is_some_and(|found| found.name == voice.name);
        let expected = score.scenarios.iter().filter(|one| one.required_voices.iter().any(|name| is(name)));
        let entered = entries_of(events, voice);
        let missed = events.iter().map(|event| &event.event).filter(|event| {
            event.event_type == EventType::MissedEntry && event.voice_name.as_deref().is_some_and(is)
        });
        let mut missed: Vec<_> = missed.filter_map(|event| event.scenario_id.clone()).collect();
        missed.sort();
        missed.dedup();
        let structural = score.voices.iter().filter(|other| masks(other) && voice.may_dissent);
        let mut masked_by: Vec<_> =
            structural.filter(|other| other.name != voice.name).map(|other| other.name.0.clone()).collect();
        masked_by.extend(masking.iter().filter(|one| is(&one.voice)).map(|one| one.final_voice.clone()));
        masked_by.sort();
        masked_by.dedup();
        let about = findings.iter().filter(|finding| finding.subjects.contains(&voice.name.0));
        let mut rules: Vec<_> = about.map(|finding| finding.rule_id.clone()).collect();
        let by = |index: &usize| events[*index].event.voice_name.as_deref().is_some_and(is);
        for (rule, sources) in observed {
            if sources.iter().any(by) && !rules.iter().any(|known| known == rule) {
                rules.push((*rule).to_owned());
            }
        }
        VoiceReport {
            name: voice.name.0.clone(),
            expected_entries: expected.count() as i64,
            observed_entries: entered.len() as i64,
            share_percent: percent(entered.len(), total),
            findings: rules,
            missed_entries: missed,
            masked_by,
        }
    };
    score.voices.iter().map(report).collect()
}

/// Returns the voices with more than their share, by the published limits.
pub(crate) fn dominant(score: &Score, events: &[CountedEvent]) -> Vec<Note> {
    let (count, total) = (score.voices.len(), entries(events).count());
    let limits = rules::DOMINANCE;
    if count < limits.voices_from || total == 0 {
        return vec![];
    }
    let dominates = |voice: &Voice, own: usize| {
        if voice.conductor {
            return own * 100 >= limits.conductor_percent * total;
        }
        own * 100 >= limits.percent * total && own * 100 * count >= limits.divided_by_voices * total
    };
    let found = score.voices.iter().map(|voice| (voice, entries_of(events, voice)));
    let found = found.filter(|(voice, own)| dominates(voice, own.len()));
    found
        .map(|(voice, own)| Note {
            kind: "dominant_voice".into(),
            voice: Some(voice.name.0.clone()),
            scenario_id: None,
            text: format!("{} has {} % of what voices did", voice.name.0, percent(own.len(), total)),
            source_event_indices: own,
        })
        .collect()
}

/// Classifies the fate of disagreement.
pub(crate) fn dissonance(score: &Score, facts: &Facts<'_>, bundle_of: &[usize]) -> Dissonance {
    let which = |holds: &dyn Fn(&Seen<'_>) -> bool| {
        facts.seen.iter().filter(|seen| holds(seen)).map(|seen| seen.index).collect::<Vec<_>>()
    };
    let used = |seen: &Seen<'_>| seen.event.disposition == Some(Disposition::Used);
    Dissonance {
        used: which(&used),
        ignored: which(&|seen| {
            (seen.is_lost_warning() && !seen.is_suppressed())
                || seen.is_ignored()
                || seen.is_ignored_dissent()
        }),
        suppressed: which(&|seen| seen.is_suppressed()),
        not_attested: which(&|seen| seen.is_open_dissent() || seen.is_open_warning()),
        pairwise: pairwise(score, facts),
        masking: masking(facts, bundle_of),
        internal_external_gap_percent: gap(facts),
    }
}

fn pairwise(score: &Score, facts: &Facts<'_>) -> Vec<Pair> {
    let known = Voices::of(&score.voices);
    let mut pairs: BTreeMap<(String, String), i64> = BTreeMap::new();
    for pair in &score.conflicting_mandates {
        pairs.insert((known.spelled(&pair[0]), known.spelled(&pair[1])), 0);
    }
    for seen in &facts.seen {
        let dissent = matches!(seen.event.event_type, EventType::Dissent | EventType::SuppressedDissent);
        if let (true, Some(from), Some(to)) = (dissent, &seen.event.voice_name, &seen.event.target_voice) {
            *pairs.entry((from.clone(), to.clone())).or_default() += 1;
        }
    }
    pairs.into_iter().map(|((from, to), count)| Pair { from, to, count }).collect()
}

/// Returns whether a signal reached the output, or `None` if that is unknown.
fn reached(seen: &Seen<'_>) -> Option<bool> {
    use EventType::{Dissent, Escalation, IgnoredWarning, SuppressedDissent, Warning};
    match seen.event.event_type {
        IgnoredWarning | SuppressedDissent => Some(false),
        Warning | Dissent | Escalation => seen.event.reached_output,
        _ => None,
    }
}

fn masking(facts: &Facts<'_>, bundle_of: &[usize]) -> Vec<Masking> {
    let outputs: Vec<_> =
        facts.seen.iter().filter(|seen| seen.event.event_type == EventType::FinalOutput).collect();
    let mut found = vec![];
    for signal in &facts.seen {
        let dissonant = signal.event.event_type != EventType::Escalation;
        let lost = reached(signal) == Some(false) || signal.is_suppressed();
        let (true, Some(voice)) = (lost && dissonant, &signal.event.voice_name) else { continue };
        let after = outputs.iter().find(|output| {
            output.index > signal.index
                && bundle_of[output.index] == bundle_of[signal.index]
                && output.event.scenario_id == signal.event.scenario_id
        });
        if let Some(output) = after
            && let Some(last) = &output.event.voice_name
        {
            found.push(Masking {
                final_voice: last.clone(),
                voice: voice.clone(),
                source_event_indices: vec![signal.index, output.index],
            });
        }
    }
    found
}

fn gap(facts: &Facts<'_>) -> Option<i64> {
    let known: Vec<bool> = facts
        .groups
        .iter()
        .filter_map(|group| group.iter().filter_map(|index| reached(&facts.seen[*index])).min())
        .collect();
    let lost = known.iter().filter(|reached| !**reached).count();
    (!known.is_empty()).then(|| percent(lost, known.len()))
}

pub(crate) fn note(
    kind: &str,
    voice: Option<&str>,
    scenario: Option<&str>,
    text: String,
    sources: Vec<usize>,
) -> Note {
    Note {
        kind: kind.into(),
        voice: voice.map(str::to_owned),
        scenario_id: scenario.map(str::to_owned),
        text,
        source_event_indices: sources,
    }
}
