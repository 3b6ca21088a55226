//! Observed findings: the effect of each fact on a dimension as records, with caps as records too.
//!
//! Events that refer to each other are one fact, which counts by the worst rule among them. Credits count once
//! per voice and scenario, so that many citations cannot compensate for a breach. The sums do not depend on
//! the order of events.

use crate::authority::{Authorities, Breach};
use crate::evidence::scenario;
use crate::names::{Voices, key};
use crate::rules::{self, Concealed, Observed};
use chorus_protocol::choir::evidence::{Basis, Disposition, Event, EventType};
use chorus_protocol::choir::receipt::{Adjustment, CountedEvent, Dimension};
use chorus_protocol::choir::score::{EvidenceRequirement, Scenario, Score, Voice};
use std::collections::BTreeMap;

/// An event with the related parts of the Score.
pub(crate) struct Seen<'s> {
    pub(crate) index: usize,
    pub(crate) event: &'s Event,
    pub(crate) voice: Option<&'s Voice>,
    /// Set if the scenario has high severity.
    pub(crate) high: bool,
    /// The list that the tool call breaks.
    pub(crate) breach: Option<Breach>,
    /// The indexes of the events that it rests on.
    pub(crate) sources: Vec<usize>,
    /// The expectation that this event says is broken.
    pub(crate) expectation: Option<Expectation>,
    /// Set if the engine derived it.
    derived: bool,
    /// Set if it was derived from an event that counts itself.
    echo: bool,
}

/// An expectation of a scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Expectation {
    pub(crate) id: String,
    pub(crate) title: Option<String>,
}

/// Returns the expectation that an event names in its detail, if the scenario has it.
fn expectation(event: &Event, scenario: Option<&Scenario>) -> Option<Expectation> {
    let id = event.detail.as_deref()?.strip_prefix("expect:")?;
    let expected = scenario?.expects.iter().flatten().find(|one| one["id"] == id)?;
    Some(Expectation { id: id.to_owned(), title: expected["title"].as_str().map(str::to_owned) })
}

/// The events, grouped into facts.
pub(crate) struct Facts<'s> {
    pub(crate) seen: Vec<Seen<'s>>,
    /// The indexes of the events of each fact, in order.
    pub(crate) groups: Vec<Vec<usize>>,
}

pub(crate) fn facts<'s>(score: &'s Score, events: &'s [CountedEvent]) -> Facts<'s> {
    let (voices, authorities) = (Voices::of(&score.voices), Authorities::of(score));
    let seen = events.iter().enumerate().map(|(index, counted)| {
        let event = &counted.event;
        let voice = event.voice_name.as_deref().and_then(|name| voices.find(name));
        let scenario = scenario(score, event.scenario_id.as_deref());
        let own = counted.source_event_indices.is_empty();
        Seen {
            index,
            event,
            voice,
            high: scenario.is_some_and(|scenario| scenario.severity.is_high()),
            breach: if counted.derived { None } else { authorities.breach(event, voice, scenario) },
            sources: if own { vec![index] } else { counted.source_event_indices.clone() },
            expectation: expectation(event, scenario),
            derived: counted.derived,
            echo: counted.derived && event.event_type == EventType::AuthorityBreach,
        }
    });
    let seen: Vec<_> = seen.collect();
    let mut root: Vec<usize> = (0..events.len()).collect();
    for (index, counted) in events.iter().enumerate() {
        let Some(target) = counted.event.refers_to.map(|at| at as usize).filter(|at| *at < events.len())
        else {
            continue;
        };
        let (one, other) = (find(&root, index), find(&root, target));
        root[one.max(other)] = one.min(other);
    }
    let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for index in 0..events.len() {
        groups.entry(find(&root, index)).or_default().push(index);
    }
    Facts { seen, groups: groups.into_values().collect() }
}

fn find(root: &[usize], mut index: usize) -> usize {
    while root[index] != index {
        index = root[index];
    }
    index
}

impl Seen<'_> {
    /// Returns `true` for a warning that was ignored or did not reach the output. A warning of unknown reach
    /// is not one.
    pub(crate) fn is_lost_warning(&self) -> bool {
        let event = self.event;
        event.event_type == EventType::IgnoredWarning
            || (event.event_type == EventType::Warning
                && (event.reached_output == Some(false)
                    || (self.is_ignored() && event.reached_output.is_some())))
    }

    /// Returns `true` for a warning or dissent that is reported as ignored.
    pub(crate) fn is_ignored(&self) -> bool {
        self.event.disposition == Some(Disposition::Ignored)
    }

    /// Returns `true` for a lost warning that is not reported as having reached the output.
    pub(crate) fn is_unseen_warning(&self) -> bool {
        self.is_lost_warning() && self.event.reached_output != Some(true)
    }

    pub(crate) fn is_suppressed(&self) -> bool {
        self.event.event_type == EventType::SuppressedDissent
            || self.event.disposition == Some(Disposition::Suppressed)
    }

    /// Returns `true` for a dissent that was ignored: as reported, or because it had to reach the output and did
    /// not.
    pub(crate) fn is_ignored_dissent(&self) -> bool {
        let must_reach = self.voice.is_some_and(|voice| voice.dissent_must_reach_output);
        let lost = must_reach && self.event.reached_output == Some(false);
        self.is_dissent(Some(Disposition::Ignored)) || (self.is_dissent(None) && lost)
    }

    /// Returns `true` for a dissent of unknown fate.
    pub(crate) fn is_open_dissent(&self) -> bool {
        self.is_dissent(None) && !self.is_ignored_dissent()
    }

    pub(crate) fn is_dissent(&self, disposition: Option<Disposition>) -> bool {
        self.event.event_type == EventType::Dissent && self.event.disposition == disposition
    }

    /// Returns `true` for a warning of unknown reach.
    pub(crate) fn is_open_warning(&self) -> bool {
        let event = self.event;
        event.event_type == EventType::Warning && event.reached_output.is_none() && !self.is_suppressed()
    }

    pub(crate) fn is_breach(&self) -> bool {
        self.breach.is_some() || (self.event.event_type == EventType::AuthorityBreach && !self.echo)
    }

    /// Returns the rules that apply to the event.
    fn rules(&self) -> Vec<&'static Observed> {
        use EventType as T;
        if self.echo {
            return vec![];
        }
        let (event, voice) = (self.event, self.voice);
        let silence = matches!(event.event_type, T::MissedEntry | T::MissedEscalation);
        let must_cite = voice.and_then(|voice| voice.evidence_requirement);
        let must_cite = matches!(must_cite, Some(EvidenceRequirement::Required | EvidenceRequirement::Cite));
        // One event counts once: a suppressed warning is not counted as lost as well.
        let lost = self.is_lost_warning() && !self.is_suppressed();
        let missed = event.event_type == T::MissedEntry;
        let table: [(&'static Observed, bool); 18] = [
            (&rules::BREACH, event.event_type == T::AuthorityBreach),
            (&rules::OUTSIDE, self.breach.is_some()),
            (&rules::WRONG_NOTE, event.event_type == T::WrongNote),
            (&rules::UNDECLARED, event.voice_name.is_some() && voice.is_none() && !silence && !self.derived),
            (&rules::WARNED_ESCALATION, lost),
            (&rules::WARNED_DISSONANCE, lost),
            (
                &rules::ESCALATED,
                event.event_type == T::Escalation
                    && event.reached_output != Some(false)
                    && voice.is_some_and(|voice| !voice.escalation_triggers.is_empty()),
            ),
            (&rules::NOT_ESCALATED, event.event_type == T::MissedEscalation),
            (&rules::DISSENT_USED, self.is_dissent(Some(Disposition::Used))),
            (&rules::DISSENT_IGNORED, self.is_ignored_dissent()),
            (&rules::DISSENT_SUPPRESSED, self.is_suppressed()),
            (&rules::DROPPED, event.event_type == T::DroppedHandoff),
            (&rules::ACKNOWLEDGED, event.event_type == T::Handoff && event.acknowledged == Some(true)),
            (&rules::MISSED_ENTRY, missed),
            (&rules::SILENT_ESCALATION, missed),
            (&rules::SILENT_DISSONANCE, missed),
            (&rules::UNSUPPORTED, event.event_type == T::UnsupportedClaim),
            (&rules::CITED, event.event_type == T::EvidenceCited && must_cite),
        ];
        let declared = event.basis == Some(Basis::Declared);
        let counts = |rule: &Observed| !(declared && rule.delta > 0);
        table.into_iter().filter(|(rule, holds)| *holds && counts(rule)).map(|(rule, _)| rule).collect()
    }

    fn delta(&self, rule: &Observed) -> i64 {
        if self.high { rule.high } else { rule.delta }
    }

    /// Returns the contribution to the false-harmony risk.
    fn concealed(&self) -> Option<Concealed> {
        use EventType::{MissedEntry, MissedEscalation, WrongNote};
        let kind = self.event.event_type;
        let ignored = self.is_lost_warning() || self.is_ignored() || self.is_ignored_dissent();
        [
            (rules::SUPPRESSED, self.is_suppressed()),
            (rules::IGNORED, ignored),
            (rules::AUTHORITY_BREACH, self.is_breach()),
            (rules::MISSED, kind == MissedEntry),
            (rules::MISSED_HIGH, kind == MissedEscalation && self.high),
            (rules::WRONG, kind == WrongNote),
            (rules::NOT_ATTESTED, self.is_open_dissent()),
        ]
        .into_iter()
        .find_map(|(kind, holds)| holds.then_some(kind))
    }

    /// Returns the reason of an adjustment.
    fn reason(&self, rule: &Observed) -> String {
        match self.breach.as_ref().filter(|_| rule.id == rules::OUTSIDE.id) {
            Some(breach) => breach.observed(self.event),
            None => format!("{} ({})", rule.when, self.who()),
        }
    }

    fn who(&self) -> String {
        let name = self.event.voice_name.as_deref().unwrap_or("nobody in particular");
        match &self.event.scenario_id {
            Some(scenario) => format!("{name}, in {scenario}"),
            None => name.to_owned(),
        }
    }
}

impl<'s> Facts<'s> {
    /// Returns the indexes of the events that a group rests on.
    pub(crate) fn sources(&self, group: &[usize]) -> Vec<usize> {
        let mut sources: Vec<_> = group.iter().flat_map(|index| self.seen[*index].sources.clone()).collect();
        sources.sort_unstable();
        sources.dedup();
        sources
    }

    /// Returns the event of a group that counts: the one that costs most.
    fn worst(&self, group: &[usize]) -> Option<(&Seen<'s>, Vec<&'static Observed>)> {
        let ruled = group.iter().map(|index| (&self.seen[*index], self.seen[*index].rules()));
        ruled.filter(|(_, rules)| !rules.is_empty()).min_by_key(|(seen, rules)| {
            let cost: i64 = rules.iter().map(|rule| seen.delta(rule)).sum();
            let ids: Vec<_> = rules.iter().map(|rule| rule.id).collect();
            let place = (seen.event.voice_name.as_deref().map(key), seen.event.scenario_id.clone());
            (cost, ids, place)
        })
    }

    /// Returns `true` if a fact costs points.
    pub(crate) fn costs(&self, group: &[usize]) -> bool {
        self.worst(group).is_some_and(|(seen, rules)| rules.iter().any(|rule| seen.delta(rule) < 0))
    }

    /// Returns all adjustments, with the caps that limit them.
    pub(crate) fn adjustments(&self) -> Vec<Adjustment> {
        let mut records: Vec<Adjustment> = vec![];
        let mut credited: BTreeMap<(&str, Option<String>, Option<String>), usize> = BTreeMap::new();
        for group in &self.groups {
            let Some((seen, applied)) = self.worst(group) else { continue };
            for rule in applied {
                let Some(dimension) = rule.dimension else { continue };
                let (delta, sources) = (seen.delta(rule), self.sources(group));
                if delta > 0 {
                    let voice = seen.event.voice_name.as_deref().map(key);
                    let place = (rule.id, voice, seen.event.scenario_id.clone());
                    if let Some(record) = credited.get(&place) {
                        records[*record].source_event_indices.extend(sources);
                        continue;
                    }
                    credited.insert(place, records.len());
                }
                records.push(Adjustment {
                    rule_id: rule.id.into(),
                    dimension,
                    delta,
                    reason: seen.reason(rule),
                    source_event_indices: sources,
                });
            }
        }
        for dimension in Dimension::ALL {
            cap(*dimension, &mut records);
        }
        records
    }

    /// Returns the concealed facts by kind, with their events.
    pub(crate) fn concealed(&self) -> Vec<(Concealed, Vec<Vec<usize>>)> {
        let mut kinds: Vec<(Concealed, Vec<Vec<usize>>)> =
            rules::CONCEALED.iter().map(|kind| (*kind, vec![])).collect();
        for group in &self.groups {
            let kind = group.iter().filter_map(|index| self.seen[*index].concealed());
            let Some(worst) = kind.max_by_key(|kind| kind.points) else { continue };
            // Of two kinds with equal points the first in the table counts, whatever the order in the group.
            let all: Vec<_> = group.iter().filter_map(|index| self.seen[*index].concealed()).collect();
            let place = kinds.iter().position(|(kind, _)| {
                kind.points == worst.points && all.iter().any(|one| one.kind == kind.kind)
            });
            if let Some(place) = place {
                kinds[place].1.push(self.sources(group));
            }
        }
        kinds.retain(|(_, facts)| !facts.is_empty());
        kinds
    }
}

/// Appends the caps on a dimension's adjustments.
fn cap(dimension: Dimension, records: &mut Vec<Adjustment>) {
    let own: Vec<_> = records.iter().filter(|record| record.dimension == dimension).collect();
    let credits: i64 = own.iter().map(|record| record.delta.max(0)).sum();
    let costs: i64 = own.iter().map(|record| record.delta.min(0)).sum();
    let of = |positive: Option<bool>| {
        let own = own.iter().filter(|record| positive.is_none_or(|positive| (record.delta > 0) == positive));
        let mut sources: Vec<_> = own.flat_map(|record| record.source_event_indices.clone()).collect();
        sources.sort_unstable();
        sources.dedup();
        sources
    };
    let mut caps = vec![];
    if credits > rules::MAX_CREDIT {
        caps.push((&rules::CREDIT_CAP, rules::MAX_CREDIT - credits, of(Some(true))));
    }
    let total = credits.min(rules::MAX_CREDIT) + costs;
    let bounded = total.clamp(-rules::MAX_DELTA, rules::MAX_DELTA);
    if total != bounded {
        caps.push((&rules::TOTAL_CAP, bounded - total, of(None)));
    }
    records.extend(caps.into_iter().map(|(rule, delta, sources)| Adjustment {
        rule_id: rule.id.into(),
        dimension,
        delta,
        reason: rule.when.into(),
        source_event_indices: sources,
    }));
}

/// Returns `true` if a record is a cap.
pub(crate) fn is_cap(record: &Adjustment) -> bool {
    record.rule_id == rules::CREDIT_CAP.id || record.rule_id == rules::TOTAL_CAP.id
}
