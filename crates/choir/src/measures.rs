//! Rehearsal measures: what each voice contributed, what became of disagreement, who dominates, what nobody saw.
//!
//! They explain; none of them moves a number.

use crate::derive::{is_entry, is_outside};
use crate::evidence::{Taken, scenario};
use crate::names::{Voices, key, same};
use crate::observe::{Facts, Seen};
use crate::structure::{has_voice, masks};
use chorus_protocol::choir::evidence::{Basis, Disposition, EventType};
use chorus_protocol::choir::receipt::{CountedEvent, Dissonance, Finding, Masking, Note, Pair, VoiceReport};
use chorus_protocol::choir::score::{EvidenceRequirement, Score, Voice};
use std::collections::BTreeMap;

/// What made a bundle of a run that the hub carried.
pub const HUB_ADAPTER: &str = "chorus.hub.v1";

fn percent(part: usize, whole: usize) -> i64 {
    (100 * part).checked_div(whole).unwrap_or_default() as i64
}

/// The events that voices made themselves.
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

/// What each voice contributed.
pub(crate) fn voices(
    score: &Score,
    events: &[CountedEvent],
    findings: &[Finding],
    masking: &[Masking],
) -> Vec<VoiceReport> {
    let known = Voices::of(&score.voices);
    let total = entries(events).count();
    let report = |voice: &Voice| {
        let is = |name: &str| known.find(name).is_some_and(|found| found.name == voice.name);
        let expected = score.scenarios.iter().filter(|one| one.required_voices.iter().any(|name| is(name)));
        let observed = entries_of(events, voice);
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
        VoiceReport {
            name: voice.name.0.clone(),
            expected_entries: expected.count() as i64,
            observed_entries: observed.len() as i64,
            share_percent: percent(observed.len(), total),
            findings: about.map(|finding| finding.rule_id.clone()).collect(),
            missed_entries: missed,
            masked_by,
        }
    };
    score.voices.iter().map(report).collect()
}

/// Voices that have more than their share: half, or twice an equal share where that is more; of a conductor, 85 %.
pub(crate) fn dominant(score: &Score, events: &[CountedEvent]) -> Vec<Note> {
    let (count, total) = (score.voices.len(), entries(events).count());
    if count < 3 || total == 0 {
        return vec![];
    }
    let dominates = |voice: &Voice, own: usize| {
        if voice.conductor { own * 100 >= 85 * total } else { own * 2 >= total && own * count >= 2 * total }
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

/// What became of disagreement.
pub(crate) fn dissonance(score: &Score, facts: &Facts<'_>, bundle_of: &[usize]) -> Dissonance {
    let which = |holds: &dyn Fn(&Seen<'_>) -> bool| {
        facts.seen.iter().filter(|seen| holds(seen)).map(|seen| seen.index).collect::<Vec<_>>()
    };
    let used = |seen: &Seen<'_>| seen.event.disposition == Some(Disposition::Used);
    Dissonance {
        used: which(&used),
        ignored: which(&|seen| (seen.is_lost_warning() && !seen.is_suppressed()) || seen.is_ignored()),
        suppressed: which(&|seen| seen.is_suppressed()),
        not_attested: which(&|seen| seen.is_dissent(None) || seen.is_open_warning()),
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

/// Whether a signal is known to have reached the output, or not.
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

fn note(kind: &str, voice: Option<&str>, scenario: Option<&str>, text: String, sources: Vec<usize>) -> Note {
    Note {
        kind: kind.into(),
        voice: voice.map(str::to_owned),
        scenario_id: scenario.map(str::to_owned),
        text,
        source_event_indices: sources,
    }
}

/// What nobody handles, and what nobody saw.
pub(crate) fn coverage_gaps(score: &Score, events: &[CountedEvent], bundles: &[Taken]) -> Vec<Note> {
    let known = Voices::of(&score.voices);
    let mut gaps = vec![];
    for scenario in &score.scenarios {
        let id = &*scenario.id;
        if !has_voice(scenario, &known) {
            gaps.push(note(
                "no_declared_voice",
                None,
                Some(id),
                format!("no declared voice is required in {id}"),
                vec![],
            ));
        }
        for name in scenario.required_voices.iter().filter(|name| known.find(name).is_none()) {
            let text = format!("{id} requires {}, which is not declared", name.0);
            gaps.push(note("undeclared_voice", Some(name), Some(id), text, vec![]));
        }
        if bundles.is_empty() {
            continue;
        }
        let here = |said: Option<&str>| said.is_some_and(|said| same(said, id));
        let inside: Vec<_> = events
            .iter()
            .map(|event| &event.event)
            .filter(|event| here(event.scenario_id.as_deref()))
            .collect();
        if inside.is_empty() && !bundles.iter().any(|taken| here(taken.bundle.scenario_id.as_deref())) {
            gaps.push(note("not_observed", None, Some(id), format!("{id} was not observed"), vec![]));
            continue;
        }
        let seen = |name: &str, kind: Option<EventType>| {
            inside.iter().any(|event| {
                event.voice_name.as_deref().is_some_and(|voice| same(voice, &known.spelled(name)))
                    && kind.is_none_or(|kind| event.event_type == kind)
            })
        };
        for name in scenario.required_voices.iter().filter(|name| !seen(name, None)) {
            let text = format!("{} was not observed in {id}", name.0);
            gaps.push(note("voice_not_observed", Some(name), Some(id), text, vec![]));
        }
        for name in
            scenario.expected_evidence.iter().filter(|name| !seen(name, Some(EventType::EvidenceCited)))
        {
            let text = format!("{} cited no evidence in {id}", name.0);
            gaps.push(note("evidence_not_observed", Some(name), Some(id), text, vec![]));
        }
    }
    gaps
}

/// What only the owner can answer.
pub(crate) fn open_items(score: &Score, facts: &Facts<'_>, bundles: &[Taken]) -> Vec<Note> {
    let mut items = vec![];
    for group in facts.groups.iter().filter(|group| !facts.costs(group)) {
        let open = group.iter().map(|index| &facts.seen[*index]);
        let Some(seen) = open.into_iter().find(|seen| seen.is_dissent(None) || seen.is_open_warning()) else {
            continue;
        };
        let reach = seen.event.event_type == EventType::Warning;
        let answered = |other: &Seen<'_>| {
            other.event.reached_output.is_some() || (!reach && other.event.disposition.is_some())
        };
        if group.iter().any(|index| *index != seen.index && answered(&facts.seen[*index])) {
            continue;
        }
        let (event, who) = (seen.event, seen.event.voice_name.as_deref().unwrap_or("a voice"));
        let (kind, text) = match event.event_type {
            EventType::Dissent => (
                "dissent_not_attested",
                format!("not attested: was the dissent of {who} used, ignored or suppressed?"),
            ),
            _ => {
                ("warning_not_attested", format!("not attested: did the warning of {who} reach the output?"))
            }
        };
        items.push(note(
            kind,
            event.voice_name.as_deref(),
            event.scenario_id.as_deref(),
            text,
            facts.sources(group),
        ));
    }
    let hub = |taken: &&Taken| taken.bundle.adapter.as_ref().is_some_and(|adapter| adapter.id == HUB_ADAPTER);
    for taken in bundles.iter().filter(hub).filter(|taken| !taken.bundle.complete) {
        let id = taken.bundle.scenario_id.as_deref();
        let text = format!("{} was inconclusive: rehearse it again", id.unwrap_or("a scenario"));
        items.push(note("inconclusive", None, id, text, vec![]));
    }
    items.extend(declared_citations(facts));
    items.extend(unattributed(score, facts));
    if !bundles.is_empty() {
        items.extend(undeclared(score, facts));
        items.extend(unplaced(score, facts, bundles));
    }
    items
}

/// Tools that somebody called whom nobody names, and that not every voice may call.
fn unattributed(score: &Score, facts: &Facts<'_>) -> Vec<Note> {
    let mut calls: BTreeMap<String, (&Seen<'_>, Vec<usize>)> = BTreeMap::new();
    let nobodys = |seen: &&Seen<'_>| seen.event.voice_name.is_none() && !seen.outside;
    for seen in facts.seen.iter().filter(nobodys) {
        let may_not = |voice: &Voice| is_outside(seen.event, Some(voice), None);
        if let (Some(action), true) = (&seen.event.action, score.voices.iter().any(may_not)) {
            calls.entry(key(action)).or_insert((seen, vec![])).1.push(seen.index);
        }
    }
    let asked = calls.into_values().map(|(seen, sources)| {
        let action = seen.event.action.as_deref().unwrap_or_default();
        let text = format!("nobody says who called {action}, which not every voice may: who did?");
        note("call_without_voice", None, seen.event.scenario_id.as_deref(), text, sources)
    });
    asked.collect()
}

/// Evidence that is about nothing that the Score has: a scenario of another name, or no event and no scenario at all.
fn unplaced(score: &Score, facts: &Facts<'_>, bundles: &[Taken]) -> Vec<Note> {
    let mut named: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for id in bundles.iter().filter_map(|taken| taken.bundle.scenario_id.as_deref()) {
        named.entry(id).or_default();
    }
    for seen in &facts.seen {
        if let Some(id) = seen.event.scenario_id.as_deref() {
            named.entry(id).or_default().push(seen.index);
        }
    }
    if named.is_empty() && facts.seen.is_empty() {
        let text = "the evidence holds no event and names no scenario: what was run?";
        return vec![note("nothing_observed", None, None, text.into(), vec![])];
    }
    let unknown = named.into_iter().filter(|(id, _)| scenario(score, Some(id)).is_none());
    let asked = unknown.map(|(id, sources)| {
        let text = format!("the evidence names {id}, which is no scenario of the Score: which one was run?");
        note("unknown_scenario", None, Some(id), text, sources)
    });
    asked.collect()
}

/// What the evidence cannot be held against, because the Score does not declare it: who a required voice is, and
/// whether a voice that had the last word must cite.
fn undeclared(score: &Score, facts: &Facts<'_>) -> Vec<Note> {
    let known = Voices::of(&score.voices);
    let mut items = vec![];
    for scenario in &score.scenarios {
        for name in scenario.required_voices.iter().filter(|name| known.find(name).is_none()) {
            let (id, name) = (&*scenario.id, &*name.0);
            let text = format!("{id} requires {name}, which the Score does not declare: who is that?");
            items.push(note("undeclared_voice", Some(name), Some(id), text, vec![]));
        }
    }
    for voice in score.voices.iter().filter(|voice| voice.evidence_requirement.is_none()) {
        let of = |kind: EventType| {
            let own = facts.seen.iter().filter(move |seen| {
                seen.event.event_type == kind && seen.voice.is_some_and(|own| own.name == voice.name)
            });
            own.map(|seen| seen.index).collect::<Vec<_>>()
        };
        let outputs = of(EventType::FinalOutput);
        if !outputs.is_empty() && of(EventType::EvidenceCited).is_empty() {
            let name = &*voice.name.0;
            let text = format!("{name} had the last word and cited nothing: must it cite?");
            items.push(note("evidence_requirement_undeclared", Some(name), None, text, outputs));
        }
    }
    items
}

/// Final outputs of voices that need evidence and only say that they have some.
fn declared_citations(facts: &Facts<'_>) -> Vec<Note> {
    let mut items = vec![];
    for output in facts.seen.iter().filter(|seen| seen.event.event_type == EventType::FinalOutput) {
        let Some(voice) = output.voice else { continue };
        if voice.evidence_requirement != Some(EvidenceRequirement::Required) {
            continue;
        }
        let cited = facts.seen.iter().filter(|seen| {
            seen.event.event_type == EventType::EvidenceCited
                && seen.event.voice_name.as_deref().map(key) == output.event.voice_name.as_deref().map(key)
                && seen.event.scenario_id == output.event.scenario_id
        });
        let cited: Vec<_> = cited.collect();
        if !cited.is_empty() && cited.iter().all(|seen| seen.event.basis == Some(Basis::Declared)) {
            let mut sources: Vec<_> = cited.iter().map(|seen| seen.index).chain([output.index]).collect();
            sources.sort_unstable();
            let text = format!(
                "{} must cite, and only says itself that it did: what are the sources?",
                voice.name.0
            );
            let scenario = output.event.scenario_id.as_deref();
            items.push(note("citations_declared", Some(&voice.name), scenario, text, sources));
        }
    }
    items
}
