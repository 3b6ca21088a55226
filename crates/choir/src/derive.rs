//! Conclusions that the engine draws from events and the Score, and that no adapter may claim.
//!
//! Silence counts only in bundles that are declared complete. Each conclusion is marked as derived, with its
//! rule and the events it rests on.

use crate::authority::Authorities;
use crate::evidence::{Normalised, Taken, scenario};
use crate::names::{Voices, same};
use crate::rules;
use chorus_protocol::choir::evidence::{Event, EventType};
use chorus_protocol::choir::receipt::{CountedEvent, VerificationStatus};
use chorus_protocol::choir::score::{EvidenceRequirement, Scenario, Score, Voice};

/// Returns `true` if an event is an entry of its voice. Omitted actions are not; a voice whose dissent was
/// suppressed did take part.
pub(crate) fn is_entry(event: &Event) -> bool {
    !matches!(event.event_type, EventType::MissedEntry | EventType::MissedEscalation)
}

/// Appends the derived events.
pub(crate) fn derive(score: &Score, status: VerificationStatus, bundles: &[Taken], all: &mut Normalised) {
    let (voices, authorities) = (Voices::of(&score.voices), Authorities::of(score));
    let mut derived = vec![];
    for (index, counted) in all.events.iter().enumerate() {
        let event = &counted.event;
        let voice = event.voice_name.as_deref().and_then(|name| voices.find(name));
        let place = scenario(score, event.scenario_id.as_deref());
        if authorities.breach(event, voice, place).is_some() {
            let breach = Event {
                event_type: EventType::AuthorityBreach,
                action: event.action.clone(),
                ..of(event.voice_name.clone(), event.scenario_id.clone())
            };
            derived.push((all.bundle_of[index], conclusion(breach, rules::OUTSIDE.id, vec![index])));
        }
    }
    for (number, taken) in bundles.iter().enumerate().filter(|(_, taken)| taken.bundle.complete) {
        let inside = (0..all.events.len()).filter(|index| all.bundle_of[*index] == number);
        let inside: Vec<_> = inside.map(|index| (index, &all.events[index].event)).collect();
        // Anybody can call a voice absent. The hub alone knows that it bound nobody to it.
        let absent = taken.bundle.absent.iter().flatten();
        let absent = absent.filter(|_| status == VerificationStatus::HubAttested);
        let excused: Vec<_> = absent.map(|name| voices.spelled(name)).collect();
        let present = taken.bundle.present.iter().flatten();
        let present: Vec<_> = present.map(|name| voices.spelled(name)).collect();
        for scenario in &score.scenarios {
            let here = |id: Option<&str>| id.is_some_and(|id| same(id, &scenario.id));
            let events: Vec<_> =
                inside.iter().copied().filter(|(_, event)| here(event.scenario_id.as_deref())).collect();
            if events.is_empty() && !here(taken.bundle.scenario_id.as_deref()) {
                continue;
            }
            let stage = Stage {
                score,
                scenario,
                voices: &voices,
                events: &events,
                excused: &excused,
                present: &present,
            };
            derived.extend(stage.conclusions().into_iter().map(|event| (number, event)));
        }
    }
    for (number, event) in derived {
        all.bundle_of.push(number);
        all.events.push(CountedEvent { bundle: Some(number), ..event });
    }
}

fn of(voice: Option<String>, scenario: Option<String>) -> Event {
    Event { voice_name: voice, scenario_id: scenario, ..Event::default() }
}

fn conclusion(event: Event, rule: &str, sources: Vec<usize>) -> CountedEvent {
    CountedEvent {
        event,
        bundle: None,
        answered: false,
        derived: true,
        rule: Some(rule.into()),
        source_event_indices: sources,
    }
}

fn is_of(event: &Event, voice: &str) -> bool {
    event.voice_name.as_deref().is_some_and(|name| same(name, voice))
}

/// One scenario in one complete bundle.
struct Stage<'s> {
    score: &'s Score,
    scenario: &'s Scenario,
    voices: &'s Voices<'s>,
    events: &'s [(usize, &'s Event)],
    /// The voices that the hub kept away.
    excused: &'s [String],
    /// The voices that took part without an event.
    present: &'s [String],
}

impl Stage<'_> {
    fn conclusions(&self) -> Vec<CountedEvent> {
        let missed = self.missed_entries();
        let mut found: Vec<_> = missed
            .iter()
            .map(|name| self.conclusion(EventType::MissedEntry, Some(name.clone()), rules::MISSED_ENTRY.id))
            .collect();
        found.extend(self.unsupported_claims(&missed));
        found.extend(self.missed_escalations());
        found
    }

    fn conclusion(&self, event_type: EventType, voice: Option<String>, rule: &str) -> CountedEvent {
        let event = Event { event_type, ..of(voice, Some(self.scenario.id.0.clone())) };
        conclusion(event, rule, vec![])
    }

    /// Iterates over the indexes of a voice's events of one type.
    fn of_voice(&self, voice: &str, kind: EventType) -> impl Iterator<Item = usize> {
        let own = move |event: &Event| event.event_type == kind && is_of(event, voice);
        self.events.iter().filter(move |(_, event)| own(event)).map(|(index, _)| *index)
    }

    /// Returns the required voices that stayed silent and of which the bundle does not say so itself.
    fn missed_entries(&self) -> Vec<String> {
        let mut missed = vec![];
        for name in self.scenario.required_voices.iter().map(|name| self.voices.spelled(name)) {
            let told = |event: &Event| is_entry(event) || event.event_type == EventType::MissedEntry;
            let heard = self.events.iter().any(|(_, event)| is_of(event, &name) && told(event))
                || self.present.iter().any(|present| same(present, &name));
            if !self.is_excused(&name) && !heard && !missed.contains(&name) {
                missed.push(name);
            }
        }
        missed
    }

    fn is_excused(&self, voice: &str) -> bool {
        self.excused.iter().any(|excused| same(excused, voice))
    }

    /// Returns a conclusion for each voice that had to cite, and cited nothing. A voice that was missing is
    /// not counted twice.
    fn unsupported_claims(&self, missed: &[String]) -> Vec<CountedEvent> {
        let expected = self.scenario.expected_evidence.iter().map(|name| self.voices.spelled(name));
        let expected: Vec<_> = expected.collect();
        let declared = self.score.voices.iter().map(|voice| voice.name.0.clone());
        let undeclared = expected.iter().filter(|name| self.voices.find(name).is_none()).cloned();
        let mut found: Vec<CountedEvent> = vec![];
        for name in declared.chain(undeclared) {
            let outputs: Vec<_> = self.of_voice(&name, EventType::FinalOutput).collect();
            let required = self.voices.find(&name).and_then(|voice| voice.evidence_requirement);
            let owes = (required == Some(EvidenceRequirement::Required) && !outputs.is_empty())
                || expected.contains(&name);
            let is_told = found.iter().any(|claim| is_of(&claim.event, &name))
                || self.of_voice(&name, EventType::EvidenceCited).next().is_some()
                || self.of_voice(&name, EventType::UnsupportedClaim).next().is_some();
            let is_missing = missed.contains(&name)
                || self.is_excused(&name)
                || self.of_voice(&name, EventType::MissedEntry).next().is_some();
            if owes && !is_told && !is_missing {
                let claim = self.conclusion(EventType::UnsupportedClaim, Some(name), rules::UNSUPPORTED.id);
                found.push(CountedEvent { source_event_indices: outputs, ..claim });
            }
        }
        found
    }

    /// Returns a conclusion for each expected escalation that did not come. One escalation satisfies one
    /// expected escalation: first one of its own voice, then any.
    fn missed_escalations(&self) -> Vec<CountedEvent> {
        let of_type = |kind: EventType| {
            self.events.iter().map(|(_, event)| *event).filter(move |e| e.event_type == kind)
        };
        let mut left: Vec<&str> = vec![];
        for trigger in &self.scenario.expected_escalations {
            if !left.iter().any(|known| same(known, trigger)) {
                left.push(trigger);
            }
        }
        let came = of_type(EventType::Escalation)
            .filter(|event| event.reached_output != Some(false) && event.refers_to.is_none());
        let mut others = 0;
        // An escalation that names its trigger answers that one, whatever the order of events.
        let mut came: Vec<_> = came.collect();
        came.sort_by_key(|event| !left.iter().any(|trigger| names(event, trigger)));
        for event in came {
            let own = |trigger: &&str| {
                self.declaring(trigger).any(|voice| is_of(event, &voice.name)) && event.voice_name.is_some()
            };
            let named = left.iter().position(|trigger| own(trigger) && names(event, trigger));
            match named.or_else(|| left.iter().position(own)) {
                Some(place) => drop(left.remove(place)),
                None => others += 1,
            }
        }
        left.drain(..left.len().min(others));
        // The bundle may hold some of these conclusions already.
        let (exact, unnamed): (Vec<_>, Vec<_>) =
            of_type(EventType::MissedEscalation).partition(|event| event.action.is_some());
        left.retain(|trigger| !exact.iter().any(|event| names(event, trigger)));
        for event in unnamed {
            let fits = |trigger: &&str| {
                event.voice_name.is_none() || self.declaring(trigger).any(|voice| is_of(event, &voice.name))
            };
            if let Some(place) = left.iter().position(fits) {
                left.remove(place);
            }
        }
        let missed = |trigger: &str| {
            let voice = self.declaring(trigger).next().map(|voice| voice.name.0.clone());
            let mut missed = self.conclusion(EventType::MissedEscalation, voice, rules::NOT_ESCALATED.id);
            missed.event.action = Some(trigger.to_owned());
            missed
        };
        left.into_iter().map(missed).collect()
    }

    /// Iterates over the voices that declare a trigger.
    fn declaring<'t>(&'t self, trigger: &'t str) -> impl Iterator<Item = &'t Voice> {
        let declares =
            move |voice: &&Voice| voice.escalation_triggers.iter().any(|own| same(&own.id, trigger));
        self.score.voices.iter().filter(declares)
    }
}

fn names(event: &Event, trigger: &str) -> bool {
    event.action.as_deref().is_some_and(|action| same(action, trigger))
}
