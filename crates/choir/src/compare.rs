//! Comparison of two receipts: the changes, and whether the second is worse.

use chorus_protocol::choir::receipt::{Dimension, Dimensions, Note, Payload, ReceiptLabel, Verdict};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The change of a number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Change {
    pub name: String,
    /// The value in the first receipt.
    pub before: i64,
    /// The value in the second receipt.
    pub after: i64,
}

/// The difference between two sets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Moved {
    /// The items only in the second receipt.
    pub added: Vec<String>,
    /// The items only in the first receipt.
    pub removed: Vec<String>,
}

/// The comparison of two receipts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Comparison {
    /// The verdict of the first receipt.
    pub verdict_before: Verdict,
    /// The verdict of the second receipt.
    pub verdict_after: Verdict,
    /// The dimensions, and the false-harmony risk.
    pub numbers: Vec<Change>,
    /// The structural findings, by rule.
    pub findings: Moved,
    /// The headline mismatches, by kind.
    pub mismatches: Moved,
    /// `true` if both receipts have the same Score, version and scenarios.
    pub same_score: bool,
    /// The respects in which the second receipt is worse, in words.
    pub regressions: Vec<String>,
    /// `true` if the second receipt is worse in any respect.
    pub worse: bool,
}

fn moved<'a>(before: impl Iterator<Item = &'a String>, after: impl Iterator<Item = &'a String>) -> Moved {
    let (before, after): (BTreeSet<_>, BTreeSet<_>) = (before.collect(), after.collect());
    let names = |names: Vec<&&String>| names.into_iter().map(|name| (*name).clone()).collect();
    Moved {
        added: names(after.difference(&before).collect()),
        removed: names(before.difference(&after).collect()),
    }
}

/// Returns the strength of a label's claim.
fn strength(label: ReceiptLabel) -> u8 {
    match label {
        ReceiptLabel::Draft => 0,
        ReceiptLabel::Observed => 1,
        ReceiptLabel::Verified => 2,
    }
}

/// Returns the gaps of the second receipt in what the first one observed, in scenarios that both have. If
/// either receipt has no evidence at all, there are none, since the label shows that.
fn unseen<'p>(before: &'p Payload, after: &'p Payload) -> impl Iterator<Item = &'p Note> {
    const KINDS: [&str; 4] = ["not_observed", "not_complete", "voice_not_observed", "evidence_not_observed"];
    let both = before.evidence.is_some() && after.evidence.is_some();
    let was_observed = move |gap: &Note| {
        let had = |kind: &str| {
            let same = |known: &&Note| known.kind == kind && known.scenario_id == gap.scenario_id;
            before.coverage_gaps.iter().filter(same).any(|known| kind == KINDS[0] || known.voice == gap.voice)
        };
        let known = before.scenarios.iter().any(|one| Some(&one.scenario.id.0) == gap.scenario_id.as_ref());
        known && !had(KINDS[0]) && !had(&gap.kind)
    };
    after
        .coverage_gaps
        .iter()
        .filter(move |gap| both && KINDS.contains(&gap.kind.as_str()) && was_observed(gap))
}

/// Compares a receipt with an earlier one.
pub fn compare(before: &Payload, after: &Payload) -> Comparison {
    let numbers = |dimensions: &Dimensions, risk: i64| {
        let each = Dimension::ALL.iter().map(|one| (one.as_str(), dimensions.get(*one)));
        each.chain([("false_harmony_risk", risk)]).collect::<Vec<_>>()
    };
    let (old, new) = (
        numbers(&before.dimensions, before.false_harmony.risk),
        numbers(&after.dimensions, after.false_harmony.risk),
    );
    let numbers: Vec<_> = old
        .into_iter()
        .zip(new)
        .map(|((name, before), (_, after))| Change { name: name.into(), before, after })
        .collect();
    let ids = |payload: &'_ Payload| payload.mismatches.iter().map(|one| one.id.clone()).collect::<Vec<_>>();
    let rules = |payload: &'_ Payload| {
        payload.structural.findings.iter().map(|one| one.rule_id.clone()).collect::<Vec<_>>()
    };
    let mismatches = moved(ids(before).iter(), ids(after).iter());
    let findings = moved(rules(before).iter(), rules(after).iter());

    let mut regressions = vec![];
    // A draft is ready on paper only. Evidence that shows a part is no step back from that.
    let is_first_sight = before.evidence.is_none() && after.verdict == Verdict::Conditional;
    if after.verdict > before.verdict && !(is_first_sight && after.evidence.is_some()) {
        regressions.push(format!("the verdict fell from {} to {}", before.verdict, after.verdict));
    }
    if strength(after.label) < strength(before.label) {
        let (before, after) = (before.label.as_str(), after.label.as_str());
        regressions.push(format!("there is less evidence: {before} before, {after} now"));
    }
    regressions.extend(unseen(before, after).map(|gap| format!("{}, and was before", gap.text)));
    regressions.extend(mismatches.added.iter().map(|id| format!("{id} is new")));
    regressions.extend(numbers.iter().filter_map(|change| {
        let (risk, Change { name, before, after }) = (change.name == "false_harmony_risk", change);
        let worse = if risk { after > before } else { after < before };
        worse.then(|| format!("{name} went from {before} to {after}"))
    }));
    Comparison {
        verdict_before: before.verdict,
        verdict_after: after.verdict,
        numbers,
        findings,
        mismatches,
        same_score: before.score == after.score && before.scenarios == after.scenarios,
        worse: !regressions.is_empty(),
        regressions,
    }
}
