//! Structural findings: weaknesses of the design, from the Score alone.
//!
//! Each rule costs a share of its weight: the share of candidates it applies to. It does not check whether a
//! declaration is true.

use crate::names::{Voices, key, same};
use crate::rules::{self, Structural};
use chorus_protocol::choir::receipt::{Dimensions, Finding, Structure};
use chorus_protocol::choir::score::{Scenario, Score, Voice};
use std::collections::{BTreeMap, HashSet};

/// The prefix of an escalation target that is a person.
pub const HUMAN: &str = "human:";

/// Analyses a Score that has passed [`crate::names::check`].
pub fn structure(score: &Score) -> Structure {
    let mut findings = Findings(vec![]);
    let voices = Voices::of(&score.voices);
    roles(score, &voices, &mut findings);
    escalations(score, &voices, &mut findings);
    dissent(score, &mut findings);
    handoffs(score, &voices, &mut findings);
    coverage(score, &voices, &mut findings);
    let findings = findings.0;
    let base_dimensions = Dimensions::each(|dimension| {
        let points: i64 =
            findings.iter().filter(|one| one.dimension == dimension).map(|one| one.points).sum();
        (100 - points).max(0)
    });
    Structure { base_dimensions, findings }
}

struct Findings(Vec<Finding>);

impl Findings {
    /// Adds a finding about these subjects. `population` is the number of candidates.
    fn add(&mut self, rule: &Structural, subjects: Vec<String>, population: usize) {
        if subjects.is_empty() || population == 0 {
            return;
        }
        let points = rule.weight * subjects.len() as i64 / population as i64;
        self.note(rule, points, subjects);
    }

    /// Adds a finding about the whole Score.
    fn whole(&mut self, rule: &Structural, holds: bool) {
        if holds {
            self.note(rule, rule.weight, vec![]);
        }
    }

    fn note(&mut self, rule: &Structural, points: i64, subjects: Vec<String>) {
        let message = match subjects.len() {
            0 => rule.message.to_owned(),
            _ => format!("{}: {}", rule.message, subjects.join(", ")),
        };
        self.0.push(Finding {
            rule_id: rule.id.into(),
            dimension: rule.dimension,
            points,
            subjects,
            severity: rule.severity(),
            message,
            retune: rule.retune.into(),
        });
    }
}

fn names<'v>(voices: impl Iterator<Item = &'v Voice>) -> Vec<String> {
    voices.map(|voice| voice.name.0.clone()).collect()
}

fn ids<'s>(scenarios: impl Iterator<Item = &'s Scenario>) -> Vec<String> {
    scenarios.map(|scenario| scenario.id.0.clone()).collect()
}

fn roles(score: &Score, known: &Voices<'_>, findings: &mut Findings) {
    let all = &score.voices;
    findings.add(&rules::ROLE, names(all.iter().filter(|voice| voice.role.trim().is_empty())), all.len());
    let limited =
        |voice: &&Voice| voice.authority.as_ref().is_some_and(|authority| !authority.limits.is_empty());
    findings.add(&rules::LIMITS, names(all.iter().filter(|voice| !limited(voice))), all.len());

    let mut exclusive: BTreeMap<String, String> = BTreeMap::new();
    let mut holders: BTreeMap<String, HashSet<usize>> = BTreeMap::new();
    for (index, voice) in all.iter().enumerate() {
        let Some(authority) = &voice.authority else { continue };
        for action in &authority.exclusive_actions {
            exclusive.entry(key(action)).or_insert_with(|| action.0.clone());
        }
        for action in authority.exclusive_actions.iter().chain(&authority.allowed_actions) {
            holders.entry(key(action)).or_default().insert(index);
        }
    }
    let twice =
        exclusive.iter().filter(|(action, _)| holders.get(*action).is_some_and(|held| held.len() > 1));
    let twice: Vec<_> = twice.map(|(_, action)| action.clone()).collect();
    findings.add(&rules::EXCLUSIVE, twice, exclusive.len());

    let last: Vec<_> = all.iter().filter(|voice| voice.final_voice).collect();
    let reviewed = |voice: &&&Voice| {
        let reviewer = voice.reviewed_by.as_deref().and_then(|name| known.find(name));
        reviewer.is_some_and(|reviewer| reviewer.name != voice.name)
    };
    let alone = last.iter().filter(|voice| !reviewed(voice)).copied();
    findings.add(&rules::REVIEWER, names(alone), last.len());
}

/// Returns `true` if the target of a trigger exists: a voice, or a named desk.
fn leads(to: &str, known: &Voices<'_>) -> bool {
    to.strip_prefix(HUMAN).map_or_else(|| known.find(to).is_some(), |desk| !desk.trim().is_empty())
}

fn escalations(score: &Score, known: &Voices<'_>, findings: &mut Findings) {
    let all = &score.voices;
    let silent = all.iter().filter(|voice| voice.escalation_triggers.is_empty());
    findings.add(&rules::TRIGGERS, names(silent), all.len());

    let triggers: Vec<_> = all.iter().flat_map(|voice| &voice.escalation_triggers).collect();
    let lost = triggers.iter().filter(|trigger| !leads(&trigger.to, known));
    findings.add(&rules::TARGET, lost.map(|trigger| trigger.id.0.clone()).collect(), triggers.len());

    let declared: HashSet<_> = triggers.iter().map(|trigger| key(&trigger.id)).collect();
    let high: Vec<_> = score.scenarios.iter().filter(|scenario| scenario.severity.is_high()).collect();
    let missing = high.iter().copied().filter(|scenario| {
        scenario.expected_escalations.iter().any(|expected| !declared.contains(&key(expected)))
    });
    findings.add(&rules::EXPECTED, ids(missing), high.len());

    // A path through voices ends with a person only if some trigger leads to one.
    let human = |to: &str| to.starts_with(HUMAN) && leads(to, known);
    findings.whole(&rules::HUMAN, !triggers.is_empty() && !triggers.iter().any(|trigger| human(&trigger.to)));
}

fn dissent(score: &Score, findings: &mut Findings) {
    let dissenting: Vec<_> = score.voices.iter().filter(|voice| voice.may_dissent).collect();
    findings.whole(&rules::NO_DISSENT, dissenting.is_empty());
    let unheard = dissenting.iter().copied().filter(|voice| !voice.dissent_must_reach_output);
    findings.add(&rules::UNHEARD, names(unheard), dissenting.len());

    let last: Vec<_> = score.voices.iter().filter(|voice| voice.final_voice).collect();
    findings.add(&rules::OVERRIDE, names(last.iter().copied().filter(|voice| masks(voice))), last.len());

    let arbitrated = score.arbitration.as_deref().is_some_and(|how| !how.trim().is_empty());
    let pairs = &score.conflicting_mandates;
    let open: Vec<_> = pairs.iter().filter(|_| !arbitrated).collect();
    let open = open.iter().map(|pair| pair.iter().map(|name| &**name).collect::<Vec<_>>().join(" / "));
    findings.add(&rules::ARBITRATION, open.collect(), pairs.len());
}

/// Returns `true` if a final voice may override a dissent without a record.
pub(crate) fn masks(voice: &Voice) -> bool {
    voice.final_voice && voice.may_override_dissent && !voice.override_recorded
}

fn handoffs(score: &Score, known: &Voices<'_>, findings: &mut Findings) {
    let all = &score.voices;
    let every = all.iter().flat_map(|voice| voice.handoffs.iter().map(move |handoff| (voice, handoff)));
    let every: Vec<_> = every.collect();
    let arrows = |holds: &dyn Fn(&chorus_protocol::choir::score::Handoff) -> bool| {
        let held = every.iter().filter(|(_, handoff)| holds(handoff));
        held.map(|(from, handoff)| format!("{} to {}", from.name.0, handoff.to.0)).collect::<Vec<_>>()
    };
    findings.add(&rules::NOWHERE, arrows(&|handoff| known.find(&handoff.to).is_none()), every.len());
    findings.add(&rules::PAYLOAD, arrows(&|handoff| handoff.carries.is_empty()), every.len());

    let reached = reached(score, known);
    let required = score.scenarios.iter().flat_map(|scenario| &scenario.required_voices);
    let required: HashSet<_> = required.filter_map(|name| known.place(name)).collect();
    let lost = (0..all.len()).filter(|place| required.contains(place) && !reached.contains(place));
    findings.add(&rules::UNREACHABLE, names(lost.map(|place| &all[place])), required.len());

    findings.add(&rules::UNACKNOWLEDGED, arrows(&|handoff| !handoff.acknowledged), every.len());
    findings.whole(&rules::NO_HANDOFF, all.len() > 1 && every.is_empty());
}

/// Returns the voices that work can reach: from the entry voices, by handoffs and escalations. Without
/// declared entry voices, work enters at voices that nobody hands work to.
fn reached(score: &Score, known: &Voices<'_>) -> HashSet<usize> {
    let all = &score.voices;
    let onward = |place: usize| {
        let handoffs = all[place].handoffs.iter().map(|handoff| &*handoff.to);
        let triggers = all[place].escalation_triggers.iter().map(|trigger| &*trigger.to);
        handoffs.chain(triggers).filter_map(|name| known.place(name)).collect::<Vec<_>>()
    };
    let mut open: Vec<usize> = (0..all.len()).filter(|place| all[*place].entry).collect();
    if open.is_empty() {
        let handed: HashSet<_> =
            (0..all.len()).flat_map(|from| onward(from).into_iter().filter(move |to| *to != from)).collect();
        open = (0..all.len()).filter(|place| !handed.contains(place)).collect();
    }
    let mut reached: HashSet<usize> = open.iter().copied().collect();
    while let Some(place) = open.pop() {
        open.extend(onward(place).into_iter().filter(|next| reached.insert(*next)));
    }
    reached
}

/// Returns `true` if at least one required voice of the scenario is declared.
pub(crate) fn has_voice(scenario: &Scenario, known: &Voices<'_>) -> bool {
    scenario.required_voices.iter().any(|name| known.find(name).is_some())
}

fn coverage(score: &Score, known: &Voices<'_>, findings: &mut Findings) {
    let (high, other): (Vec<_>, Vec<_>) =
        score.scenarios.iter().partition(|scenario| scenario.severity.is_high());
    let bare = |scenario: &&Scenario| !has_voice(scenario, known);
    findings.add(&rules::UNCOVERED, ids(high.iter().copied().filter(bare)), high.len());
    findings.add(&rules::UNASSIGNED, ids(other.iter().copied().filter(bare)), score.scenarios.len());

    let required: Vec<_> = score.scenarios.iter().flat_map(|scenario| &scenario.required_voices).collect();
    let used = |voice: &&Voice| {
        required.iter().any(|name| known.find(name).is_some_and(|found| same(&found.name, &voice.name)))
    };
    let all = &score.voices;
    findings.add(&rules::UNUSED, names(all.iter().filter(|voice| !used(voice))), all.len());
    let undeclared = all.iter().filter(|voice| voice.evidence_requirement.is_none());
    findings.add(&rules::EVIDENCE, names(undeclared), all.len());
}
