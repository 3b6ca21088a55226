//! Open items: questions about the evidence that only the owner can answer.

use crate::authority::Authorities;
use crate::evidence::{Normalised, Taken, scenario};
use crate::measures::{HUB_ADAPTER, note};
use crate::names::{Voices, key};
use crate::observe::{Facts, Seen};
use chorus_protocol::choir::evidence::{Basis, EventType};
use chorus_protocol::choir::receipt::{BundleWarning, Note};
use chorus_protocol::choir::score::{EvidenceRequirement, Score};
use std::collections::BTreeMap;

/// Returns the questions that only the owner can answer.
pub(crate) fn open_items(score: &Score, facts: &Facts<'_>, bundles: &[Taken], all: &Normalised) -> Vec<Note> {
    let mut items = vec![];
    for group in facts.groups.iter().filter(|group| !facts.costs(group)) {
        let open = group.iter().map(|index| &facts.seen[*index]);
        let Some(seen) = open.into_iter().find(|seen| seen.is_open_dissent() || seen.is_open_warning())
        else {
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
    for taken in bundles.iter().filter(|taken| is_hub(taken) && !taken.bundle.complete) {
        let id = taken.bundle.scenario_id.as_deref();
        let text = format!("{} was inconclusive: rehearse it again", id.unwrap_or("a scenario"));
        items.push(note("inconclusive", None, id, text, vec![]));
    }
    items.extend(held(all, bundles));
    items.extend(declared_citations(score, facts));
    items.extend(unattributed(score, facts));
    if !bundles.is_empty() {
        items.extend(undeclared(score, facts));
        items.extend(unplaced(score, facts, bundles));
    }
    items
}

/// Returns tool calls without a voice, for tools that not every voice may call.
fn unattributed(score: &Score, facts: &Facts<'_>) -> Vec<Note> {
    let mut calls: BTreeMap<String, (&Seen<'_>, Vec<usize>)> = BTreeMap::new();
    let nobodys = |seen: &&Seen<'_>| {
        seen.event.event_type == EventType::ToolCall
            && seen.event.voice_name.is_none()
            && seen.breach.is_none()
    };
    for seen in facts.seen.iter().filter(nobodys) {
        if let Some(action) = &seen.event.action {
            calls.entry(key(action)).or_insert((seen, vec![])).1.push(seen.index);
        }
    }
    let authorities = Authorities::of(score);
    calls.retain(|action, _| authorities.is_restricted(action, &score.voices));
    let asked = calls.into_values().map(|(seen, sources)| {
        let action = seen.event.action.as_deref().unwrap_or_default();
        let text = format!("nobody says who called {action}, which not every voice may: who did?");
        note("call_without_voice", None, seen.event.scenario_id.as_deref(), text, sources)
    });
    asked.collect()
}

/// Returns evidence that the Score has no place for: unknown scenarios, or no event and no scenario at all.
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
    let nowhere: Vec<_> = facts.seen.iter().filter(|seen| seen.event.scenario_id.is_none()).collect();
    let nowhere: Vec<_> = nowhere.into_iter().map(|seen| seen.index).collect();
    let text = format!("{} of the events name no scenario: which one was run?", nowhere.len());
    let unplaced = (!nowhere.is_empty()).then(|| note("no_scenario", None, None, text, nowhere));
    let unknown = named.into_iter().filter(|(id, _)| scenario(score, Some(id)).is_none());
    let asked = unknown.map(|(id, sources)| {
        let text = format!("the evidence names {id}, which is no scenario of the Score: which one was run?");
        note("unknown_scenario", None, Some(id), text, sources)
    });
    unplaced.into_iter().chain(asked).collect()
}

/// Returns the messages that nobody had agreed to when their stage closed.
fn held(all: &Normalised, bundles: &[Taken]) -> Vec<Note> {
    let is_held = |warning: &BundleWarning, index: usize| {
        let event = &all.events[index].event;
        warning.warning.code == HELD
            && warning.warning.path.is_some()
            && warning.bundle == Some(all.bundle_of[index])
            && event.reference == warning.warning.path
    };
    let of_hub = |index: &usize| is_hub(&bundles[all.bundle_of[*index]]) && !all.events[*index].derived;
    let waiting = (0..all.events.len()).filter(of_hub);
    let waiting = waiting.filter(|index| all.warnings.iter().any(|warning| is_held(warning, *index)));
    let asked = waiting.map(|index| {
        let event = &all.events[index].event;
        let who = event.voice_name.as_deref().unwrap_or("a voice");
        let text = format!("a message of {who} was still held when the stage closed: was it right to wait?");
        note("held", event.voice_name.as_deref(), event.scenario_id.as_deref(), text, vec![index])
    });
    asked.collect()
}

/// The code of the warning about a message that was still held.
const HELD: &str = "held";

fn is_hub(taken: &Taken) -> bool {
    taken.bundle.adapter.as_ref().is_some_and(|adapter| adapter.id == HUB_ADAPTER)
}

/// Returns the questions about missing declarations: unknown required voices, and final voices that cited
/// nothing and have no evidence requirement.
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

/// Returns the voices that must cite and whose citations are only declared by themselves: those with a final
/// output that needs evidence, and those that the scenario expects evidence of.
fn declared_citations(score: &Score, facts: &Facts<'_>) -> Vec<Note> {
    type Place = (String, Option<String>);
    let mut citations: BTreeMap<Place, Vec<&Seen<'_>>> = BTreeMap::new();
    let mut outputs: BTreeMap<Place, Vec<usize>> = BTreeMap::new();
    for seen in &facts.seen {
        let Some(name) = seen.event.voice_name.as_deref() else { continue };
        let place = (key(name), seen.event.scenario_id.clone());
        let required = seen.voice.and_then(|voice| voice.evidence_requirement);
        match seen.event.event_type {
            EventType::EvidenceCited => citations.entry(place).or_default().push(seen),
            EventType::FinalOutput if required == Some(EvidenceRequirement::Required) => {
                outputs.entry(place).or_default().push(seen.index);
            }
            _ => {}
        }
    }
    let known = Voices::of(&score.voices);
    let mut items = vec![];
    for (place, cited) in citations {
        if cited.iter().any(|seen| seen.event.basis != Some(Basis::Declared)) {
            continue;
        }
        let expected = scenario(score, place.1.as_deref()).is_some_and(|scenario| {
            scenario.expected_evidence.iter().any(|name| key(&known.spelled(name)) == place.0)
        });
        let output = outputs.get(&place);
        if output.is_none() && !expected {
            continue;
        }
        let mut sources: Vec<_> = cited.iter().map(|seen| seen.index).collect();
        sources.extend(output.into_iter().flatten());
        sources.sort_unstable();
        let name = cited[0].event.voice_name.as_deref().unwrap_or_default();
        let text = format!("{name} must cite, and only says itself that it did: what are the sources?");
        items.push(note("citations_declared", Some(name), place.1.as_deref(), text, sources));
    }
    items
}
