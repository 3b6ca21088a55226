//! What the engine concludes from events and the Score: what no adapter may claim and nobody needs to.
//!
//! Silence means something only where a bundle says that it is complete. Whatever is concluded is marked so, with its
//! rule and the events that it was concluded from.

use crate::evidence::{Normalised, Taken, scenario};
use crate::names::{Voices, same};
use crate::rules;
use chorus_protocol::choir::evidence::{Disposition, Event, EventType};
use chorus_protocol::choir::receipt::CountedEvent;
use chorus_protocol::choir::score::{EvidenceRequirement, Scenario, Score, Voice};

/// Whether an event is an entry of its voice: what it was kept from saying, or did not do, is none.
pub(crate) fn is_entry(event: &Event) -> bool {
    use EventType::{MissedEntry, MissedEscalation, SuppressedDissent};
    !matches!(event.event_type, MissedEntry | MissedEscalation | SuppressedDissent)
        && event.disposition != Some(Disposition::Suppressed)
}

/// Whether a tool was called that its voice may not use, here or ever.
pub(crate) fn is_outside(event: &Event, voice: Option<&Voice>, scenario: Option<&Scenario>) -> bool {
    let Some(action) = event.action.as_deref().filter(|_| event.event_type == EventType::ToolCall) else {
        return false;
    };
    let forbidden = scenario
        .is_some_and(|scenario| scenario.forbidden_actions.iter().any(|forbidden| same(forbidden, action)));
    let authority = voice.and_then(|voice| voice.authority.as_ref());
    forbidden
        || authority.is_some_and(|authority| {
            let has = |list: &[chorus_protocol::choir::score::Label]| {
                list.iter().any(|listed| same(listed, action))
            };
            let allowed = has(&authority.allowed_actions) || has(&authority.exclusive_actions);
            has(&authority.forbidden_actions) || (!authority.allowed_actions.is_empty() && !allowed)
        })
}

/// Appends what follows.
pub(crate) fn derive(score: &Score, bundles: &[Taken], all: &mut Normalised) {
    let voices = Voices::of(&score.voices);
    let mut derived = vec![];
    for (index, counted) in all.events.iter().enumerate() {
        let event = &counted.event;
        let voice = event.voice_name.as_deref().and_then(|name| voices.find(name));
        if is_outside(event, voice, scenario(score, event.scenario_id.as_deref())) {
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
        for scenario in &score.scenarios {
            let here = |id: Option<&str>| id.is_some_and(|id| same(id, &scenario.id));
            let events: Vec<_> =
                inside.iter().copied().filter(|(_, event)| here(event.scenario_id.as_deref())).collect();
            if events.is_empty() && !here(taken.bundle.scenario_id.as_deref()) {
                continue;
            }
            let absent = taken.bundle.absent.as_deref().unwrap_or_default();
            let concluded = missed_entries(scenario, &events, absent, &voices)
                .chain(unsupported(score, scenario, &events))
                .chain(missed_escalation(score, scenario, &events));
            derived.extend(concluded.map(|event| (number, event)));
        }
    }
    for (number, event) in derived {
        all.bundle_of.push(number);
        all.events.push(event);
    }
}

fn of(voice: Option<String>, scenario: Option<String>) -> Event {
    Event { voice_name: voice, scenario_id: scenario, ..Event::default() }
}

fn conclusion(event: Event, rule: &str, sources: Vec<usize>) -> CountedEvent {
    CountedEvent { event, derived: true, rule: Some(rule.into()), source_event_indices: sources }
}

type Indexed<'e> = (usize, &'e Event);

fn is_of(event: &Event, voice: &str) -> bool {
    event.voice_name.as_deref().is_some_and(|name| same(name, voice))
}

fn missed_entries(
    scenario: &Scenario,
    events: &[Indexed<'_>],
    absent: &[String],
    voices: &Voices<'_>,
) -> impl Iterator<Item = CountedEvent> {
    let mut missed = vec![];
    for name in scenario.required_voices.iter().map(|name| voices.spelled(name)) {
        let kept_away = absent.iter().any(|absent| same(&voices.spelled(absent), &name));
        let told = |event: &Event| is_entry(event) || event.event_type == EventType::MissedEntry;
        let heard = events.iter().any(|(_, event)| is_of(event, &name) && told(event));
        if !kept_away && !heard && !missed.contains(&name) {
            missed.push(name);
        }
    }
    let scenario = scenario.id.0.clone();
    missed.into_iter().map(move |name| {
        let event = Event { event_type: EventType::MissedEntry, ..of(Some(name), Some(scenario.clone())) };
        conclusion(event, rules::MISSED_ENTRY.id, vec![])
    })
}

fn unsupported(
    score: &Score,
    scenario: &Scenario,
    events: &[Indexed<'_>],
) -> impl Iterator<Item = CountedEvent> {
    let mut found = vec![];
    for voice in &score.voices {
        let own = |kind: EventType| {
            let all =
                events.iter().filter(move |(_, event)| event.event_type == kind && is_of(event, &voice.name));
            all.map(|(index, _)| *index).collect::<Vec<_>>()
        };
        let outputs = own(EventType::FinalOutput);
        let excused =
            !own(EventType::EvidenceCited).is_empty() || !own(EventType::UnsupportedClaim).is_empty();
        if voice.evidence_requirement == Some(EvidenceRequirement::Required)
            && !outputs.is_empty()
            && !excused
        {
            let event = Event {
                event_type: EventType::UnsupportedClaim,
                ..of(Some(voice.name.0.clone()), Some(scenario.id.0.clone()))
            };
            found.push(conclusion(event, rules::UNSUPPORTED.id, outputs));
        }
    }
    found.into_iter()
}

fn missed_escalation(
    score: &Score,
    scenario: &Scenario,
    events: &[Indexed<'_>],
) -> impl Iterator<Item = CountedEvent> {
    use EventType::{Escalation, MissedEscalation};
    let told = events.iter().any(|(_, event)| matches!(event.event_type, Escalation | MissedEscalation));
    let expected = scenario.expected_escalations.first().filter(|_| !told);
    expected.into_iter().map(move |trigger| {
        let declares = |voice: &&Voice| voice.escalation_triggers.iter().any(|own| same(&own.id, trigger));
        let voice = score.voices.iter().find(declares).map(|voice| voice.name.0.clone());
        let event = Event {
            event_type: MissedEscalation,
            action: Some(trigger.0.clone()),
            ..of(voice, Some(scenario.id.0.clone()))
        };
        conclusion(event, rules::NOT_ESCALATED.id, vec![])
    })
}
