//! The judgement: headline mismatches, the false-harmony risk, the verdict with its reasons, and the advice.

use crate::measures::{NOT_COMPLETE, NOT_OBSERVED};
use crate::names::key;
use crate::observe::{Facts, Seen, is_cap};
use crate::rules::{self, Headline};
use chorus_protocol::choir::evidence::EventType;
use chorus_protocol::choir::receipt::{
    Adjustment, BrokenList, CountedEvent, Dimensions, FalseHarmony, Finding, Mismatch, Note, Retune,
    RiskTerm, ScenarioOutcome, ScenarioResult, Verdict,
};
use std::collections::BTreeMap;

/// Returns the contradictions between declaration and observation, one for each kind, voice, scenario and
/// object: the broken list and action, or the broken expectation.
pub(crate) fn mismatches(facts: &Facts<'_>) -> Vec<Mismatch> {
    type Place = (usize, Option<String>, Option<String>, Option<String>);
    let mut found: BTreeMap<Place, (&Seen<'_>, Vec<usize>)> = BTreeMap::new();
    for seen in &facts.seen {
        for (kind, rule) in rules::HEADLINES.iter().enumerate().filter(|(_, rule)| holds(rule, seen)) {
            let voice = seen.event.voice_name.as_deref().map(key);
            let place = (kind, voice, seen.event.scenario_id.clone(), object(rule, seen));
            found.entry(place).or_insert((seen, vec![])).1.extend(&seen.sources);
        }
    }
    let headlines = found.into_iter().map(|((kind, ..), (seen, mut sources))| {
        sources.sort_unstable();
        sources.dedup();
        let rule = &rules::HEADLINES[kind];
        let is_breach = rule.id == rules::M_AUTH.id;
        let breach = seen.breach.as_ref();
        Mismatch {
            id: rule.id.into(),
            declared: declared(rule, seen),
            observed: observed(rule, seen),
            source_event_indices: sources,
            retune: rule.retune.into(),
            action: is_breach.then(|| seen.event.action.clone()),
            broke: is_breach.then(|| breach.map(|breach| breach.broke)),
        }
    });
    headlines.collect()
}

fn holds(rule: &Headline, seen: &Seen<'_>) -> bool {
    match rule.id {
        "M-AUTH" => {
            let authority = seen.voice.is_some_and(|voice| voice.authority.is_some());
            let exclusive = seen.breach.as_ref().is_some_and(|one| one.broke == BrokenList::Exclusive);
            seen.is_breach() && (authority || exclusive)
        }
        "M-WARN" => seen.is_unseen_warning(),
        "M-ENTRY" => seen.event.event_type == EventType::MissedEntry && seen.high,
        "M-DIS" => seen.is_suppressed(),
        _ => seen.expectation.is_some() && seen.high,
    }
}

/// Returns the text that distinguishes two contradictions of one voice in one scenario.
fn object(rule: &Headline, seen: &Seen<'_>) -> Option<String> {
    match rule.id {
        "M-AUTH" => seen.event.action.as_deref().map(key),
        "M-EXPECT" => seen.expectation.as_ref().map(|expectation| expectation.id.clone()),
        _ => None,
    }
}

fn who<'s>(seen: &Seen<'s>) -> &'s str {
    seen.event.voice_name.as_deref().unwrap_or("a voice")
}

fn observed(rule: &Headline, seen: &Seen<'_>) -> String {
    if let Some(breach) = seen.breach.as_ref().filter(|_| rule.id == rules::M_AUTH.id) {
        return breach.observed(seen.event);
    }
    let place = seen.event.scenario_id.as_deref().map(|id| format!(", in {id}")).unwrap_or_default();
    let action = seen.event.action.as_deref().filter(|_| rule.id == rules::M_AUTH.id);
    let action = action.map(|action| format!(", by {action}")).unwrap_or_default();
    format!("{}: {}{action}{place}", rule.when, who(seen))
}

fn declared(rule: &Headline, seen: &Seen<'_>) -> String {
    let (who, event) = (who(seen), seen.event);
    match (rule.id, &seen.breach) {
        ("M-AUTH", Some(breach)) => {
            let action = event.action.as_deref().unwrap_or_default();
            breach.declared(seen.voice, action, event.scenario_id.as_deref())
        }
        ("M-AUTH", None) => {
            let authority = seen.voice.and_then(|voice| voice.authority.as_ref());
            let list = |list: &[chorus_protocol::choir::score::Label]| {
                list.iter().map(|label| &**label).collect::<Vec<_>>().join(", ")
            };
            let limits = authority.map(|authority| list(&authority.limits)).unwrap_or_default();
            let forbidden = authority.map(|authority| list(&authority.forbidden_actions)).unwrap_or_default();
            format!("{who}'s authority is declared; limits: {limits}; forbidden: {forbidden}")
        }
        ("M-WARN", _) => "warnings reach the final output".into(),
        ("M-ENTRY", _) => format!("{who} must enter in this high-severity scenario"),
        ("M-EXPECT", _) => {
            let expectation = seen.expectation.as_ref();
            let title = expectation.map(|one| one.title.clone().unwrap_or_else(|| one.id.clone()));
            title.unwrap_or_default()
        }
        _ => "dissent is preserved".into(),
    }
}

/// Returns the part of the risk that follows from the dimensions.
pub(crate) fn risk_base(dimensions: &Dimensions) -> i64 {
    let missing = rules::RISK_WEIGHTS.iter().map(|(one, weight)| weight * (100 - dimensions.get(*one)));
    missing.sum::<i64>() / rules::RISK_DIVISOR
}

/// Computes the risk that a smooth output conceals faults.
pub(crate) fn false_harmony(dimensions: &Dimensions, facts: &Facts<'_>) -> FalseHarmony {
    let base = risk_base(dimensions);
    let mut terms = vec![];
    for (kind, found) in facts.concealed() {
        let mut sources: Vec<_> = found.iter().flatten().copied().collect();
        sources.sort_unstable();
        sources.dedup();
        let points = kind.points * found.len() as i64;
        terms.push(RiskTerm { kind: kind.kind.into(), points, source_event_indices: sources });
    }
    let sum: i64 = terms.iter().map(|term| term.points).sum();
    let concealed = sum.min(rules::MAX_CONCEALED);
    if concealed < sum {
        let points = concealed - sum;
        terms.push(RiskTerm { kind: "cap".into(), points, source_event_indices: vec![] });
    }
    let risk = (base + concealed).min(rules::MAX_RISK);
    FalseHarmony { risk, band: rules::band(risk), base, concealed, terms }
}

/// The grounds of a verdict.
pub(crate) struct Grounds<'g> {
    pub(crate) dimensions: &'g Dimensions,
    pub(crate) risk: i64,
    pub(crate) findings: &'g [Finding],
    pub(crate) adjustments: &'g [Adjustment],
    pub(crate) mismatches: &'g [Mismatch],
    pub(crate) open_items: &'g [Note],
    pub(crate) coverage_gaps: &'g [Note],
    /// Set if nothing was observed.
    pub(crate) is_draft: bool,
}

/// The reason that every verdict on a draft begins with.
pub(crate) const DECLARED_ONLY: &str = "declared only: nothing was observed";

/// Returns the verdict and its reasons. A contradiction is worse than incompleteness, and a scenario that was
/// not observed is never ready.
pub(crate) fn verdict(grounds: &Grounds<'_>) -> (Verdict, Vec<String>) {
    let (verdict, mut reasons) = reasoned(grounds);
    if grounds.is_draft {
        reasons.insert(0, DECLARED_ONLY.into());
    }
    (verdict, reasons)
}

fn reasoned(grounds: &Grounds<'_>) -> (Verdict, Vec<String>) {
    let lowest = grounds.dimensions.lowest();
    let weak = |limits: rules::VerdictLimits| {
        let limit = limits.dimension_below;
        let below = (lowest < limit).then(|| format!("the lowest dimension is {lowest}, below {limit}"));
        let (risk, limit) = (grounds.risk, limits.risk_from);
        let risky = (risk >= limit).then(|| format!("the risk of false harmony is {risk}, {limit} or more"));
        below.into_iter().chain(risky)
    };
    let contradicted: Vec<_> =
        grounds.mismatches.iter().map(|one| format!("{}: {}", one.id, one.observed)).collect();
    if !contradicted.is_empty() {
        return (Verdict::NotReady, contradicted);
    }
    let incomplete: Vec<_> = weak(rules::RETUNE_LIMITS).collect();
    if !incomplete.is_empty() {
        return (Verdict::Retune, incomplete);
    }
    let uncovered = grounds.findings.iter().find(|finding| finding.rule_id == rules::UNCOVERED.id);
    let costs = grounds.adjustments.iter().filter(|record| record.delta < 0 && !is_cap(record)).count();
    let open = grounds.open_items.len();
    let unseen = grounds.coverage_gaps.iter().filter(|gap| is_unobserved(gap));
    let reasons: Vec<_> = weak(rules::CONDITIONAL_LIMITS)
        .chain(uncovered.map(|finding| finding.message.clone()))
        .chain((costs > 0).then(|| format!("{costs} observed adjustments are negative")))
        .chain((open > 0).then(|| format!("{open} open items")))
        .chain(unseen.map(|gap| gap.text.clone()))
        .collect();
    if reasons.is_empty() {
        return (Verdict::Ready, vec!["nothing stands against it under these scenarios".into()]);
    }
    (Verdict::Conditional, reasons)
}

/// Returns `true` if a gap says that its scenario was not observed by a complete bundle.
pub(crate) fn is_unobserved(gap: &Note) -> bool {
    matches!(gap.kind.as_str(), NOT_OBSERVED | NOT_COMPLETE)
}

/// Returns the outcome of each scenario, in the order of the Score.
pub(crate) fn results(
    scenarios: &[String],
    events: &[CountedEvent],
    grounds: &Grounds<'_>,
) -> Vec<ScenarioResult> {
    let of = |index: &usize, id: &str| {
        events.get(*index).is_some_and(|event| event.event.scenario_id.as_deref() == Some(id))
    };
    let has = |sources: &[usize], id: &str| sources.iter().any(|index| of(index, id));
    let about = |note: &Note, id: &str| {
        note.scenario_id.as_deref() == Some(id) || has(&note.source_event_indices, id)
    };
    let result = |id: &String| {
        let costs = |record: &&Adjustment| record.delta < 0 && !is_cap(record);
        let gap = |kind: &str| {
            grounds.coverage_gaps.iter().any(|gap| gap.kind == kind && gap.scenario_id.as_ref() == Some(id))
        };
        let failed =
            grounds.adjustments.iter().filter(costs).any(|record| has(&record.source_event_indices, id));
        let is_open = grounds.open_items.iter().any(|item| about(item, id));
        let unseen = grounds.is_draft || gap(NOT_OBSERVED);
        let result = match () {
            () if failed => ScenarioOutcome::Failed,
            () if !unseen && !gap(NOT_COMPLETE) && !is_open => ScenarioOutcome::Passed,
            () if !unseen => ScenarioOutcome::Warned,
            () => ScenarioOutcome::NotObserved,
        };
        ScenarioResult { scenario_id: id.clone(), result }
    };
    scenarios.iter().map(result).collect()
}

/// Returns the advice of every rule that cost points, without repetition, headlines first.
pub(crate) fn retune(grounds: &Grounds<'_>) -> Vec<Retune> {
    let mut advice: Vec<Retune> = vec![];
    let mut add = |rule_id: &str, text: &str, sources: &[usize]| {
        let place = advice.iter().position(|one| one.rule_id == rule_id).unwrap_or_else(|| {
            advice.push(Retune { rule_id: rule_id.into(), text: text.into(), source_event_indices: vec![] });
            advice.len() - 1
        });
        let all = &mut advice[place].source_event_indices;
        all.extend(sources);
        all.sort_unstable();
        all.dedup();
    };
    for one in grounds.mismatches {
        add(&one.id, &one.retune, &one.source_event_indices);
    }
    for record in grounds.adjustments.iter().filter(|record| record.delta < 0) {
        if let Some(rule) = rules::OBSERVED.iter().find(|rule| rule.id == record.rule_id && rule.delta < 0) {
            add(rule.id, rule.retune, &record.source_event_indices);
        }
    }
    for finding in grounds.findings {
        add(&finding.rule_id, &finding.retune, &[]);
    }
    advice
}
