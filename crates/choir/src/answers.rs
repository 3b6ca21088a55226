//! Answers to open items: filling in what a bundle leaves open.

use crate::evidence::Taken;
use chorus_protocol::canonical;
use chorus_protocol::choir::answers::{AnswersRecord, EventAnswer};
use chorus_protocol::choir::evidence::{Bundle, Event};
use chorus_protocol::faults::Faults;
use serde_json::Value;
use std::collections::BTreeSet;

/// A record of answers with the hash of the bytes that it was read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenAnswers {
    /// The hash of the canonical form, as received.
    pub sha256: String,
    pub record: AnswersRecord,
}

impl TakenAnswers {
    /// Reads a record, or returns all faults.
    pub fn read(value: Value) -> Result<Self, Faults> {
        let sha256 = canonical::hash(&value);
        Ok(Self { sha256, record: AnswersRecord::read(value)? })
    }
}

/// The reasons why answers do not fit a bundle.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswersError {
    /// An answer is about an event that is not there, or about a member that has a value or that the event
    /// cannot have.
    #[error(transparent)]
    Faults(#[from] Faults),
    /// An earlier record says something else.
    #[error(
        "answers[{0}].{1}: event {2} was answered otherwise before; a bundle that supersedes can correct it"
    )]
    Contradiction(usize, &'static str, i64),
}

/// Fills in a bundle as its sender wrote it with records of answers, in order. Returns the events that each
/// record filled in. An answer that repeats an earlier one is accepted.
pub fn fill<'r>(
    bundle: &mut Bundle,
    records: impl Iterator<Item = &'r AnswersRecord>,
) -> Result<Vec<Vec<usize>>, AnswersError> {
    let sent = bundle.clone();
    let mut filled = vec![];
    for record in records {
        let (mut faults, mut touched) = (Faults::new(), BTreeSet::new());
        for (number, answer) in record.answers.iter().enumerate() {
            let place = usize::try_from(answer.event).ok().filter(|place| *place < sent.events.len());
            let Some(place) = place else {
                let what = format!("the bundle has no event {}", answer.event);
                faults.add(&format!("answers[{number}].event"), what);
                continue;
            };
            let (before, event) = (&sent.events[place], &mut bundle.events[place]);
            let scenario = sent.scenario_id.is_some() || before.scenario_id.is_some();
            let members = [
                ("reached_output", before.reached_output.is_some(), answer.reached_output.is_some()),
                ("disposition", before.disposition.is_some(), answer.disposition.is_some()),
                ("voice_name", before.voice_name.is_some(), answer.voice_name.is_some()),
                ("scenario_id", scenario, answer.scenario_id.is_some()),
            ];
            let taken: Vec<_> =
                members.iter().filter(|(_, has_value, is_given)| *has_value && *is_given).collect();
            for (name, ..) in &taken {
                let what = format!("event {place} has one already; a bundle that supersedes can correct it");
                faults.add(&format!("answers[{number}].{name}"), what);
            }
            if members.iter().all(|(_, _, is_given)| !is_given) {
                faults.add(&format!("answers[{number}]"), "answers nothing");
            }
            if !taken.is_empty() {
                continue;
            }
            if let Some(name) = contradicted(event, answer) {
                return Err(AnswersError::Contradiction(number, name, answer.event));
            }
            set(event, answer);
            touched.insert(place);
        }
        if !faults.is_empty() {
            return Err(faults.into());
        }
        filled.push(touched.into_iter().collect());
    }
    // The bundle's own rules say which events can have which members.
    Bundle::read(serde_json::json!(bundle))?;
    Ok(filled)
}

/// Returns the member in which an event has another value than the answer.
fn contradicted(event: &Event, answer: &EventAnswer) -> Option<&'static str> {
    fn differ<T: PartialEq>(one: Option<&T>, other: Option<&T>) -> bool {
        one.zip(other).is_some_and(|(one, other)| one != other)
    }
    let members = [
        ("reached_output", differ(event.reached_output.as_ref(), answer.reached_output.as_ref())),
        ("disposition", differ(event.disposition.as_ref(), answer.disposition.as_ref())),
        ("voice_name", differ(event.voice_name.as_ref(), answer.voice_name.as_ref())),
        ("scenario_id", differ(event.scenario_id.as_ref(), answer.scenario_id.as_ref())),
    ];
    members.into_iter().find_map(|(name, differs)| differs.then_some(name))
}

fn set(event: &mut Event, answer: &EventAnswer) {
    event.reached_output = event.reached_output.or(answer.reached_output);
    event.disposition = event.disposition.or(answer.disposition);
    event.voice_name = event.voice_name.take().or_else(|| answer.voice_name.clone());
    event.scenario_id = event.scenario_id.take().or_else(|| answer.scenario_id.clone());
}

/// Fills in the bundles of a receipt. Returns, for each record that is about one of them, the number of the
/// bundle and the events that it filled in.
pub(crate) fn fill_all(
    bundles: &mut [Taken],
    answers: &[TakenAnswers],
) -> Result<Vec<(String, usize, Vec<usize>)>, AnswersError> {
    let mut filled = vec![];
    for (number, taken) in bundles.iter_mut().enumerate() {
        let own: Vec<_> =
            answers.iter().filter(|answers| answers.record.bundle_sha256 == taken.sha256).collect();
        let events = fill(&mut taken.bundle, own.iter().map(|answers| &answers.record))?;
        filled.extend(own.iter().zip(events).map(|(one, events)| (one.sha256.clone(), number, events)));
    }
    Ok(filled)
}
