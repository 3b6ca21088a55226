//! The judgement: headline mismatches, the risk of false harmony, the verdict and its reasons, and what to do.

use crate::names::key;
use crate::observe::{Facts, Seen, is_cap};
use crate::rules::{self, Headline};
use chorus_protocol::choir::evidence::EventType;
use chorus_protocol::choir::receipt::{
    Adjustment, Band, Dimensions, FalseHarmony, Finding, Mismatch, Note, Retune, RiskTerm, Verdict,
};
use std::collections::BTreeMap;

/// Where what was declared and what was observed contradict each other: one entry for a voice in a scenario.
pub(crate) fn mismatches(facts: &Facts<'_>) -> Vec<Mismatch> {
    type Place = (usize, Option<String>, Option<String>);
    let mut found: BTreeMap<Place, (&Seen<'_>, Vec<usize>)> = BTreeMap::new();
    for seen in &facts.seen {
        let authority = seen.voice.is_some_and(|voice| voice.authority.is_some());
        let headlines = [
            seen.is_breach() && authority,
            seen.is_unseen_warning(),
            seen.event.event_type == EventType::MissedEntry && seen.high,
            seen.is_suppressed(),
        ];
        for (kind, _) in headlines.iter().enumerate().filter(|(_, holds)| **holds) {
            let place = (kind, seen.event.voice_name.as_deref().map(key), seen.event.scenario_id.clone());
            found.entry(place).or_insert((seen, vec![])).1.extend(&seen.sources);
        }
    }
    let headlines = found.into_iter().map(|((kind, ..), (seen, mut sources))| {
        sources.sort_unstable();
        sources.dedup();
        let (rule, declared) = (&rules::HEADLINES[kind], declared(&rules::HEADLINES[kind], seen));
        let place = seen.event.scenario_id.as_deref().map(|id| format!(", in {id}")).unwrap_or_default();
        Mismatch {
            id: rule.id.into(),
            declared,
            observed: format!("{}: {}{place}", rule.when, who(seen)),
            source_event_indices: sources,
            retune: rule.retune.into(),
        }
    });
    headlines.collect()
}

fn who<'s>(seen: &Seen<'s>) -> &'s str {
    seen.event.voice_name.as_deref().unwrap_or("a voice")
}

fn declared(rule: &Headline, seen: &Seen<'_>) -> String {
    let who = who(seen);
    match rule.id {
        "M-AUTH" => {
            let authority = seen.voice.and_then(|voice| voice.authority.as_ref());
            let list = |list: &[chorus_protocol::choir::score::Label]| {
                list.iter().map(|label| &**label).collect::<Vec<_>>().join(", ")
            };
            let limits = authority.map(|authority| list(&authority.limits)).unwrap_or_default();
            let forbidden = authority.map(|authority| list(&authority.forbidden_actions)).unwrap_or_default();
            format!("{who}'s authority is declared; limits: {limits}; forbidden: {forbidden}")
        }
        "M-WARN" => "warnings reach the final output".into(),
        "M-ENTRY" => format!("{who} must enter in this high-severity scenario"),
        _ => "dissent is preserved".into(),
    }
}

/// The risk that a smooth output conceals what went wrong.
pub(crate) fn false_harmony(dimensions: &Dimensions, facts: &Facts<'_>) -> FalseHarmony {
    let missing = |value: i64| 100 - value;
    let base = (4 * missing(dimensions.dissonance_preservation)
        + 3 * missing(dimensions.escalation_fidelity)
        + 2 * missing(dimensions.role_discipline)
        + missing(dimensions.handoff_reliability))
        / 10;
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
    let risk = (base + concealed).min(100);
    let band = match risk {
        ..20 => Band::Low,
        20..40 => Band::Elevated,
        40..70 => Band::High,
        _ => Band::Severe,
    };
    FalseHarmony { risk, band, base, concealed, terms }
}

/// What a verdict is made of.
pub(crate) struct Grounds<'g> {
    pub(crate) dimensions: &'g Dimensions,
    pub(crate) risk: i64,
    pub(crate) findings: &'g [Finding],
    pub(crate) adjustments: &'g [Adjustment],
    pub(crate) mismatches: &'g [Mismatch],
    pub(crate) open_items: &'g [Note],
}

/// The verdict and its reasons. Contradicted is worse than merely incomplete.
pub(crate) fn verdict(grounds: &Grounds<'_>) -> (Verdict, Vec<String>) {
    let lowest = grounds.dimensions.lowest();
    let below =
        |limit: i64| (lowest < limit).then(|| format!("the lowest dimension is {lowest}, below {limit}"));
    let risky = |limit: i64| {
        let risk = grounds.risk;
        (risk >= limit).then(|| format!("the risk of false harmony is {risk}, {limit} or more"))
    };
    let contradicted: Vec<_> =
        grounds.mismatches.iter().map(|one| format!("{}: {}", one.id, one.observed)).collect();
    if !contradicted.is_empty() {
        return (Verdict::NotReady, contradicted);
    }
    let incomplete: Vec<_> = below(50).into_iter().chain(risky(40)).collect();
    if !incomplete.is_empty() {
        return (Verdict::Retune, incomplete);
    }
    let uncovered = grounds.findings.iter().find(|finding| finding.rule_id == rules::UNCOVERED.id);
    let costs = grounds.adjustments.iter().filter(|record| record.delta < 0 && !is_cap(record)).count();
    let open = grounds.open_items.len();
    let reasons: Vec<_> = below(75)
        .into_iter()
        .chain(risky(20))
        .chain(uncovered.map(|finding| finding.message.clone()))
        .chain((costs > 0).then(|| format!("{costs} observed adjustments are negative")))
        .chain((open > 0).then(|| format!("{open} open items")))
        .collect();
    if reasons.is_empty() {
        return (Verdict::Ready, vec!["nothing stands against it under these scenarios".into()]);
    }
    (Verdict::Conditional, reasons)
}

/// The advice of every rule that cost something, once each, headlines first.
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
