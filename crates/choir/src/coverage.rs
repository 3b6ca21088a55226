//! Coverage: the scenarios that were observed, and the gaps in what was observed.
//!
//! A scenario is observed if a complete bundle names it, in its own `scenario_id` or in an event. Any scenario
//! that is not leaves a gap, and the verdict is then never ready.

use crate::evidence::{Normalised, Taken};
use crate::measures::{NOT_COMPLETE, NOT_OBSERVED, note};
use crate::names::{Voices, same};
use crate::structure::has_voice;
use chorus_protocol::choir::evidence::{Event, EventType};
use chorus_protocol::choir::receipt::Note;
use chorus_protocol::choir::score::{Scenario, Score};

/// Returns the scenarios that no voice handles, and those of which something was not observed.
pub(crate) fn coverage_gaps(score: &Score, all: &Normalised, bundles: &[Taken]) -> Vec<Note> {
    let known = Voices::of(&score.voices);
    let mut gaps = vec![];
    for scenario in &score.scenarios {
        let id = &*scenario.id;
        if !has_voice(scenario, &known) {
            let text = format!("no declared voice is required in {id}");
            gaps.push(note("no_declared_voice", None, Some(id), text, vec![]));
        }
        for name in scenario.required_voices.iter().filter(|name| known.find(name).is_none()) {
            let text = format!("{id} requires {}, which is not declared", name.0);
            gaps.push(note("undeclared_voice", Some(name), Some(id), text, vec![]));
        }
        if !bundles.is_empty() {
            gaps.extend(unseen(scenario, &known, all, bundles));
        }
    }
    gaps
}

/// Returns the gaps in the evidence about one scenario.
fn unseen(scenario: &Scenario, known: &Voices<'_>, all: &Normalised, bundles: &[Taken]) -> Vec<Note> {
    let id = &*scenario.id;
    let here = |said: Option<&str>| said.is_some_and(|said| same(said, id));
    let is_inside = |index: &usize| here(all.events[*index].event.scenario_id.as_deref());
    let inside: Vec<usize> = (0..all.events.len()).filter(is_inside).collect();
    let named = |(_, taken): &(usize, &Taken)| here(taken.bundle.scenario_id.as_deref());
    let mut about: Vec<usize> = bundles.iter().enumerate().filter(named).map(|(number, _)| number).collect();
    about.extend(inside.iter().map(|index| all.bundle_of[*index]));
    if about.is_empty() {
        return vec![note(NOT_OBSERVED, None, Some(id), format!("{id} was not observed"), vec![])];
    }
    let mut gaps = vec![];
    if !about.iter().any(|number| bundles[*number].bundle.complete) {
        let text = format!("{id} was observed in part: no complete bundle names it");
        gaps.push(note(NOT_COMPLETE, None, Some(id), text, inside.clone()));
    }
    let seen = |name: &str, kind: Option<EventType>| {
        let is_seen = |event: &Event| {
            event.voice_name.as_deref().is_some_and(|voice| same(voice, &known.spelled(name)))
                && kind.is_none_or(|kind| event.event_type == kind)
        };
        inside.iter().any(|index| is_seen(&all.events[*index].event))
    };
    let is_present = |name: &str| {
        let present = about.iter().flat_map(|number| bundles[*number].bundle.present.iter().flatten());
        present.into_iter().any(|present| same(&known.spelled(present), &known.spelled(name)))
    };
    let required = scenario.required_voices.iter();
    for name in required.filter(|name| !seen(name, None) && !is_present(name)) {
        let text = format!("{} was not observed in {id}", name.0);
        gaps.push(note("voice_not_observed", Some(name), Some(id), text, vec![]));
    }
    for name in scenario.expected_evidence.iter().filter(|name| !seen(name, Some(EventType::EvidenceCited))) {
        let text = format!("{} cited no evidence in {id}", name.0);
        gaps.push(note("evidence_not_observed", Some(name), Some(id), text, vec![]));
    }
    gaps
}
