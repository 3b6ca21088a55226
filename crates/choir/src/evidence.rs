//! Evidence before it is weighed: taken as received, merged, and normalised to one list of events.
//!
//! Normalising spells voices and scenarios as the Score does and numbers all events in one list; it changes nothing of what
//! is said, and drops nothing without a word.

use crate::names::{Voices, key};
use chorus_protocol::canonical;
use chorus_protocol::choir::evidence::{AdapterWarning, Bundle, Event, MAX_NAME, MAX_WARNINGS};
use chorus_protocol::choir::receipt::{CountedEvent, VerificationStatus};
use chorus_protocol::choir::score::{Scenario, Score};
use chorus_protocol::faults::Faults;
use chorus_protocol::schema;
use serde_json::Value;
use std::collections::HashMap;

/// Bundles of one receipt.
pub const MAX_BUNDLES: usize = 20;
/// Events of one receipt.
pub const MAX_EVENTS: usize = 5_000;

/// Says of a member that it is not known.
const UNKNOWN_MEMBER: &str = "unknown_member";

/// A bundle with the hash of the bytes that it was read from.
#[derive(Debug, Clone, PartialEq)]
pub struct Taken {
    /// Of its canonical form as received.
    pub sha256: String,
    /// What it says.
    pub bundle: Bundle,
}

impl Taken {
    /// Reads a bundle, or says everything that is wrong with it. Members that nobody knows become warnings, however many
    /// it has itself: a misspelt one must not vanish without a word.
    pub fn read(value: Value) -> Result<Self, Faults> {
        let sha256 = canonical::hash(&value);
        let strange = schema::unknown_members::<Bundle>(&value);
        let mut bundle = Bundle::read(value)?;
        let more = strange.len().saturating_sub(MAX_WARNINGS);
        bundle.adapter_warnings.extend(strange.into_iter().take(MAX_WARNINGS).map(|path| AdapterWarning {
            code: UNKNOWN_MEMBER.into(),
            message: "this member is not known and was left out".into(),
            path: Some(path),
        }));
        if more > 0 {
            let message = format!("{more} more members are not known and were left out");
            bundle.adapter_warnings.push(AdapterWarning { code: UNKNOWN_MEMBER.into(), message, path: None });
        }
        Ok(Self { sha256, bundle })
    }
}

/// All evidence of one class.
#[derive(Debug, Clone, PartialEq)]
pub struct Evidence {
    /// What is known of where it comes from.
    pub status: VerificationStatus,
    /// In any order.
    pub bundles: Vec<Taken>,
    /// Of a run that a hub carried: what it attests.
    pub hub: Option<Value>,
}

/// Makes one bundle of several: events in the order of the arguments, each told once. What only one bundle knows of
/// itself stays if the others do not contradict it. What happened in two runs happened twice, however much alike it is:
/// the later of two that are alike gets its run's id before its reference. No other event is changed.
pub fn merge(bundles: &[Bundle]) -> Bundle {
    let agreed = |one: &dyn Fn(&Bundle) -> Option<Value>| {
        let mut said = bundles.iter().filter_map(one);
        said.next().filter(|first| said.all(|other| other == *first))
    };
    let text = |value: Option<Value>| value.and_then(|value| value.as_str().map(str::to_owned));
    let mut merged = Bundle::new(None);
    merged.run_id = text(agreed(&|bundle| bundle.run_id.clone().map(Value::from)));
    merged.scenario_id = text(agreed(&|bundle| bundle.scenario_id.clone().map(Value::from)));
    let adapter = agreed(&|bundle| bundle.adapter.as_ref().map(|adapter| serde_json::json!(adapter)));
    merged.adapter = adapter.and_then(|adapter| serde_json::from_value(adapter).ok());
    merged.complete = !bundles.is_empty() && bundles.iter().all(|bundle| bundle.complete);
    let mut places: HashMap<(String, String), (usize, Option<&str>)> = HashMap::new();
    for bundle in bundles {
        let run = bundle.run_id.as_deref();
        let events: Vec<_> = bundle.events.iter().map(|event| situated(bundle, event, &merged)).collect();
        let spelled: Vec<_> = events.iter().map(spelling).collect();
        // An event is the same as another if both refer to the same, wherever that stands by now.
        let target = |event: &Event| event.refers_to.and_then(|at| spelled.get(at as usize)).cloned();
        let mut moved = vec![];
        for (event, spelling) in events.iter().zip(&spelled) {
            let (next, target) = (merged.events.len(), target(event).unwrap_or_default());
            let (place, of) = *places.entry((spelling.clone(), target.clone())).or_insert((next, run));
            if place == next {
                merged.events.push(event.clone());
            }
            let Some((run, _)) = run.zip(of).filter(|(run, of)| run != of) else {
                moved.push((place, place == next));
                continue;
            };
            let apart = of_run(event, run);
            let key = (self::spelling(&apart), target);
            let (place, _) = *places.entry(key).or_insert((next, Some(run)));
            if place == next {
                merged.events.push(apart);
            }
            moved.push((place, place == next));
        }
        for (event, (place, new)) in events.iter().zip(&moved) {
            if *new {
                let target = event.refers_to.and_then(|at| moved.get(at as usize));
                // Two that were told as one another's copies may become one: it does not refer to itself.
                let target = target.map(|(at, _)| *at as i64).filter(|at| *at != *place as i64);
                merged.events[*place].refers_to = target;
            }
        }
        merged.adapter_warnings.extend(bundle.adapter_warnings.iter().cloned());
        for held in bundle.expectations.iter().flatten() {
            merged.expectations.get_or_insert_default().push(held.clone());
        }
        for voice in bundle.absent.iter().flatten() {
            let absent = merged.absent.get_or_insert_default();
            if !absent.contains(voice) {
                absent.push(voice.clone());
            }
        }
    }
    merged.adapter_warnings = bounded(merged.adapter_warnings);
    merged
}

/// As many warnings as a bundle holds. Of too many the last one says how many were left out; those about members that
/// were not read are left out last, for they change what is said.
fn bounded(mut warnings: Vec<AdapterWarning>) -> Vec<AdapterWarning> {
    if warnings.len() > MAX_WARNINGS {
        warnings.sort_by_key(|warning| warning.code != UNKNOWN_MEMBER);
        let message = format!("{} further warnings were left out", warnings.len() + 1 - MAX_WARNINGS);
        warnings.truncate(MAX_WARNINGS - 1);
        warnings.push(AdapterWarning { code: "warnings_left_out".into(), message, path: None });
    }
    warnings
}

/// An event that is told apart from one that is spelled alike and happened in another run.
fn of_run(event: &Event, run: &str) -> Event {
    let reference =
        event.reference.as_ref().map_or_else(|| run.to_owned(), |reference| format!("{run}/{reference}"));
    Event { reference: Some(shortened(&reference)), ..event.clone() }
}

/// An event that needs no bundle to know its scenario, unless the merged one has the same.
fn situated(bundle: &Bundle, event: &Event, merged: &Bundle) -> Event {
    let mut event = event.clone();
    if event.scenario_id.is_none() && bundle.scenario_id != merged.scenario_id {
        event.scenario_id.clone_from(&bundle.scenario_id);
    }
    event
}

/// A reference that fits; of one that does not, what is cut off is still told apart.
fn shortened(reference: &str) -> String {
    if reference.chars().count() <= MAX_NAME {
        return reference.to_owned();
    }
    let kept: String = reference.chars().take(MAX_NAME - 17).collect();
    format!("{kept}#{}", &canonical::sha256(reference.as_bytes())[..16])
}

fn spelling(event: &Event) -> String {
    canonical::text(&serde_json::json!(Event { refers_to: None, ..event.clone() }))
}

/// What a bundle names that the Score does not have, each name once, where it stands first: told to whoever brings it,
/// for a misspelt scenario counts for none.
pub fn unknown_names(score: &Score, bundle: &Bundle) -> Vec<AdapterWarning> {
    let voices = Voices::of(&score.voices);
    let mut found: Vec<AdapterWarning> = vec![];
    let mut add = |warning: AdapterWarning| {
        let told = |known: &AdapterWarning| known.code == warning.code && known.message == warning.message;
        if found.len() < MAX_WARNINGS && !found.iter().any(told) {
            found.push(warning);
        }
    };
    let is_scenario = |id: &str| scenario(score, Some(id)).is_some();
    if let Some(id) = bundle.scenario_id.as_deref().filter(|id| !is_scenario(id)) {
        add(unknown_scenario(id, "scenario_id".into()));
    }
    for (index, event) in bundle.events.iter().enumerate() {
        if let Some(id) = event.scenario_id.as_deref().filter(|id| !is_scenario(id)) {
            add(unknown_scenario(id, format!("events[{index}].scenario_id")));
        }
        if let Some(name) = event.voice_name.as_deref().filter(|name| voices.find(name).is_none()) {
            let message = format!("the Score has no voice {name}");
            let path = Some(format!("events[{index}].voice_name"));
            add(AdapterWarning { code: "unknown_voice".into(), message, path });
        }
    }
    found
}

/// Evidence, spelled as the Score does.
pub(crate) struct Normalised {
    /// As they stand in the receipt.
    pub(crate) events: Vec<CountedEvent>,
    /// The bundle of each.
    pub(crate) bundle_of: Vec<usize>,
    /// What could not be mapped, and what points nowhere.
    pub(crate) warnings: Vec<AdapterWarning>,
}

/// The scenario of this id.
pub(crate) fn scenario<'s>(score: &'s Score, id: Option<&str>) -> Option<&'s Scenario> {
    let wanted = key(id?);
    score.scenarios.iter().find(|scenario| key(&scenario.id) == wanted)
}

fn unknown_scenario(id: &str, path: String) -> AdapterWarning {
    let message = format!("the Score has no scenario {id}");
    AdapterWarning { code: "unknown_scenario".into(), message, path: Some(path) }
}

/// Puts the events of all bundles into one list.
pub(crate) fn normalise(score: &Score, bundles: &[Taken]) -> Normalised {
    let voices = Voices::of(&score.voices);
    let mut all = Normalised { events: vec![], bundle_of: vec![], warnings: vec![] };
    for (number, taken) in bundles.iter().enumerate() {
        let (bundle, first) = (&taken.bundle, all.events.len());
        all.warnings.extend(bundle.adapter_warnings.iter().cloned());
        // A run in which nothing happened is evidence too, of whatever should have.
        let silent = bundle.scenario_id.as_deref().filter(|_| bundle.events.is_empty());
        if let Some(id) = silent.filter(|id| scenario(score, Some(id)).is_none()) {
            all.warnings.push(unknown_scenario(id, format!("bundles[{number}].scenario_id")));
        }
        for (index, event) in bundle.events.iter().enumerate() {
            let said = event.scenario_id.as_deref().or(bundle.scenario_id.as_deref());
            let found = scenario(score, said);
            if found.is_none()
                && let Some(id) = said
            {
                all.warnings
                    .push(unknown_scenario(id, format!("bundles[{number}].events[{index}].scenario_id")));
            }
            let spelled = |name: &Option<String>| name.as_deref().map(|name| voices.spelled(name));
            all.bundle_of.push(number);
            all.events.push(CountedEvent {
                event: Event {
                    voice_name: spelled(&event.voice_name),
                    target_voice: spelled(&event.target_voice),
                    scenario_id: found
                        .map_or_else(|| said.map(str::to_owned), |found| Some(found.id.0.clone())),
                    refers_to: event.refers_to.map(|at| at + first as i64),
                    ..event.clone()
                },
                derived: false,
                rule: None,
                source_event_indices: vec![],
            });
        }
    }
    all
}
