//! Evidence before it is weighed: reading bundles, merging them, and normalising them into one list of events.
//!
//! Normalising spells voices and scenarios as the Score does and numbers all events in one list. It changes no
//! statement and drops nothing without a warning.

use crate::names::{Voices, key};
use chorus_protocol::canonical;
use chorus_protocol::choir::evidence::{AdapterWarning, Bundle, Event, MAX_ABSENT, MAX_NAME, MAX_WARNINGS};
use chorus_protocol::choir::receipt::{BundleWarning, CountedEvent, EvidenceSection};
use chorus_protocol::choir::score::{Scenario, Score};
use chorus_protocol::faults::Faults;
use chorus_protocol::schema;
use serde_json::Value;
use std::collections::{HashMap, HashSet};

/// The maximum number of bundles in one receipt.
pub const MAX_BUNDLES: usize = 20;
/// The maximum number of events in one receipt.
pub const MAX_EVENTS: usize = 5_000;

/// The code of the warning about an unknown member.
const UNKNOWN_MEMBER: &str = "unknown_member";

/// A bundle with the hash of the bytes that it was read from.
#[derive(Debug, Clone, PartialEq)]
pub struct Taken {
    /// The hash of the canonical form, as received.
    pub sha256: String,
    pub bundle: Bundle,
}

impl Taken {
    /// Reads a bundle, or returns all faults. Unknown members become warnings in addition to the bundle's own,
    /// so that a misspelt one is always reported.
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

/// Divides bundles into those that stand, ordered by hash and without repetition, and the hashes of those that
/// another of them supersedes.
pub(crate) fn standing(bundles: &[Taken]) -> (Vec<Taken>, Vec<String>) {
    let replaced: HashSet<&str> =
        bundles.iter().filter_map(|taken| taken.bundle.supersedes.as_deref()).collect();
    let (mut gone, mut stand): (Vec<Taken>, Vec<Taken>) =
        bundles.iter().cloned().partition(|taken| replaced.contains(&*taken.sha256));
    for some in [&mut gone, &mut stand] {
        some.sort_by(|one, other| one.sha256.cmp(&other.sha256));
        some.dedup_by(|one, other| one.sha256 == other.sha256);
    }
    (stand, gone.into_iter().map(|taken| taken.sha256).collect())
}

/// Merges several bundles into one: events in the order of the arguments, without repetition. A property of a
/// bundle is kept if no other bundle contradicts it. Equal events of different runs are different facts: the
/// later one gets its run's id as a prefix of its reference. No other event is changed.
pub fn merge(bundles: &[Bundle]) -> Bundle {
    let agreed = |one: &dyn Fn(&Bundle) -> Option<Value>| {
        let mut said = bundles.iter().filter_map(one);
        said.next().filter(|first| said.all(|other| other == *first))
    };
    let text = |value: Option<Value>| value.and_then(|value| value.as_str().map(str::to_owned));
    let mut merged = Bundle::new(None);
    merged.run_id = text(agreed(&|bundle| bundle.run_id.clone().map(Value::from)));
    merged.trace_url = text(agreed(&|bundle| bundle.trace_url.clone().map(Value::from)));
    merged.scenario_id = text(agreed(&|bundle| bundle.scenario_id.clone().map(Value::from)));
    let adapter = agreed(&|bundle| bundle.adapter.as_ref().map(|adapter| serde_json::json!(adapter)));
    merged.adapter = adapter.and_then(|adapter| serde_json::from_value(adapter).ok());
    merged.complete = !bundles.is_empty() && bundles.iter().all(|bundle| bundle.complete);
    let mut places: HashMap<(String, String), (usize, Option<&str>)> = HashMap::new();
    for bundle in bundles {
        let run = bundle.run_id.as_deref();
        let events: Vec<_> = bundle.events.iter().map(|event| situated(bundle, event, &merged)).collect();
        let spelled: Vec<_> = events.iter().map(spelling).collect();
        // Two events are equal only if they also refer to equal events, wherever those are now.
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
                // Two events that refer to each other may become one, which must not refer to itself.
                let target = target.map(|(at, _)| *at as i64).filter(|at| *at != *place as i64);
                merged.events[*place].refers_to = target;
            }
        }
        merged.adapter_warnings.extend(bundle.adapter_warnings.iter().cloned());
        for held in bundle.expectations.iter().flatten() {
            merged.expectations.get_or_insert_default().push(held.clone());
        }
        for voice in bundle.present.iter().flatten() {
            let present = merged.present.get_or_insert_default();
            if !present.contains(voice) && present.len() < MAX_ABSENT {
                present.push(voice.clone());
            }
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

/// Limits the warnings to what a bundle holds. The last one then tells how many were dropped. Warnings about
/// unknown members are dropped last, because those change the meaning of a bundle.
fn bounded(mut warnings: Vec<AdapterWarning>) -> Vec<AdapterWarning> {
    if warnings.len() > MAX_WARNINGS {
        warnings.sort_by_key(|warning| warning.code != UNKNOWN_MEMBER);
        let message = format!("{} further warnings were left out", warnings.len() + 1 - MAX_WARNINGS);
        warnings.truncate(MAX_WARNINGS - 1);
        warnings.push(AdapterWarning { code: "warnings_left_out".into(), message, path: None });
    }
    warnings
}

/// Returns an event whose reference distinguishes it from an equal event of another run.
fn of_run(event: &Event, run: &str) -> Event {
    let reference =
        event.reference.as_ref().map_or_else(|| run.to_owned(), |reference| format!("{run}/{reference}"));
    Event { reference: Some(shortened(&reference)), ..event.clone() }
}

/// Returns an event with its bundle's scenario, unless the merged bundle has the same one.
fn situated(bundle: &Bundle, event: &Event, merged: &Bundle) -> Event {
    let mut event = event.clone();
    if event.scenario_id.is_none() && bundle.scenario_id != merged.scenario_id {
        event.scenario_id.clone_from(&bundle.scenario_id);
    }
    event
}

/// Returns a reference cut to the maximum length. A hash keeps cut references distinct.
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

/// Returns a warning for each name in a bundle that the Score does not have, at its first occurrence.
/// Submitters need it, because events of a misspelt scenario do not count.
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

/// Evidence with names spelled as in the Score.
pub(crate) struct Normalised {
    /// The events, in the order of the receipt.
    pub(crate) events: Vec<CountedEvent>,
    /// The index of each event's bundle.
    pub(crate) bundle_of: Vec<usize>,
    /// The parts of traces that could not be mapped, and unknown names.
    pub(crate) warnings: Vec<BundleWarning>,
}

impl Normalised {
    fn warn(&mut self, bundle: usize, warning: AdapterWarning) {
        self.warnings.push(BundleWarning { warning, bundle: Some(bundle) });
    }
}

/// Returns the scenario with this id.
pub(crate) fn scenario<'s>(score: &'s Score, id: Option<&str>) -> Option<&'s Scenario> {
    let wanted = key(id?);
    score.scenarios.iter().find(|scenario| key(&scenario.id) == wanted)
}

fn unknown_scenario(id: &str, path: String) -> AdapterWarning {
    let message = format!("the Score has no scenario {id}");
    AdapterWarning { code: "unknown_scenario".into(), message, path: Some(path) }
}

/// Collects the events of all bundles in one list.
pub(crate) fn normalise(score: &Score, bundles: &[Taken]) -> Normalised {
    let voices = Voices::of(&score.voices);
    let mut all = Normalised { events: vec![], bundle_of: vec![], warnings: vec![] };
    for (number, taken) in bundles.iter().enumerate() {
        let (bundle, first) = (&taken.bundle, all.events.len());
        for warning in &bundle.adapter_warnings {
            all.warn(number, warning.clone());
        }
        // A run without events is evidence too: of the events that should have happened.
        let silent = bundle.scenario_id.as_deref().filter(|_| bundle.events.is_empty());
        if let Some(id) = silent.filter(|id| scenario(score, Some(id)).is_none()) {
            all.warn(number, unknown_scenario(id, format!("bundles[{number}].scenario_id")));
        }
        for (index, event) in bundle.events.iter().enumerate() {
            let said = event.scenario_id.as_deref().or(bundle.scenario_id.as_deref());
            let found = scenario(score, said);
            if found.is_none()
                && let Some(id) = said
            {
                let path = format!("bundles[{number}].events[{index}].scenario_id");
                all.warn(number, unknown_scenario(id, path));
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
                bundle: Some(number),
                answered: false,
                derived: false,
                rule: None,
                source_event_indices: vec![],
            });
        }
    }
    all
}

/// Returns the address at which an event can be seen in its trace, if its bundle gives one.
pub fn trace_link(section: &EvidenceSection, event: &CountedEvent) -> Option<String> {
    let bundle = section.bundles.get(event.bundle.filter(|_| !event.derived)?)?;
    let template = bundle.trace_url.as_deref()?;
    let reference = event.event.reference.as_deref();
    if template.contains("{ref}") && reference.is_none() {
        return None;
    }
    let link = template.replace("{run_id}", &encoded(bundle.run_id.as_deref().unwrap_or_default()));
    Some(link.replace("{ref}", &encoded(reference.unwrap_or_default())))
}

/// Encodes a text as a part of an address.
fn encoded(text: &str) -> String {
    let mut link = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            link.push(byte.into());
        } else {
            link.extend([format!("%{byte:02X}")]);
        }
    }
    link
}
