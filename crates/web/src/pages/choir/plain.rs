//! Explanations of Choir's rules for a first-time reader.
//!
//! A receipt names the rules by the digest of their table, so that table's texts cannot change. These texts
//! belong to the page only.

use chorus_protocol::choir::receipt::{Dimension, Finding};
use chorus_protocol::choir::score::{EvidenceRequirement, Severity};

/// A finding as the editor shows it.
pub(super) struct Plain {
    /// The part that the Score lacks.
    pub(super) what: String,
    /// The possible consequence of the gap.
    pub(super) why: String,
    pub(super) advice: String,
    /// The voices or scenarios concerned.
    pub(super) about: Vec<String>,
    pub(super) points: i64,
    /// The rule's id, for looking it up.
    pub(super) rule: String,
}

/// Explains a finding. An unknown rule keeps its own text.
pub(super) fn plain(finding: Finding) -> Plain {
    let words = words(&finding.rule_id);
    let (what, why, advice) = match words {
        Some((what, why, advice)) => (what.to_owned(), why.to_owned(), advice.to_owned()),
        None => (finding.message, String::new(), finding.retune),
    };
    Plain { what, why, advice, about: finding.subjects, points: finding.points, rule: finding.rule_id }
}

/// Explains a contradiction. An unknown rule is shown by its id.
pub(super) fn contradiction(rule: &str) -> &str {
    match rule {
        "M-AUTH" => "Went beyond its authority",
        "M-WARN" => "A warning was lost",
        "M-ENTRY" => "A voice that must be heard was not",
        "M-DIS" => "An objection was suppressed",
        "M-EXPECT" => "An expectation was broken",
        rule => rule,
    }
}

/// Explains what a rule finds.
pub(super) fn found_by(rule: &str) -> &str {
    words(rule).map_or_else(|| contradiction(rule), |(what, ..)| what)
}

/// For each rule: its id, the missing part, the possible consequence, and the remedy.
const WORDS: [(&str, &str, &str, &str); 21] = [
    (
        "S-ROLE-001",
        "Some agents have no job description",
        "Nobody can tell when they do what is not theirs.",
        "Write one sentence under “What it is there for”.",
    ),
    (
        "S-AUTH-001",
        "Some agents have no limits",
        "They may decide anything alone.",
        "Write what each must not decide alone, under “Limits”.",
    ),
    (
        "S-AUTH-002",
        "Two agents hold an action that only one may do",
        "Both may do it, or each waits for the other.",
        "Leave it under “Only it may do” of one agent, and take it away from the others.",
    ),
    (
        "S-AUTH-003",
        "The agent with the last word is checked by nobody",
        "A mistake in the final answer goes out unseen.",
        "Name another agent under “Checked by”.",
    ),
    (
        "S-ESC-001",
        "Some agents never ask for help",
        "They go on when they should stop.",
        "Add a line under “When it must ask somebody”.",
    ),
    (
        "S-ESC-002",
        "A call for help leads to nobody",
        "Whoever is named there is not in this Score.",
        "Name one of the agents, or a person’s desk such as human:support.",
    ),
    (
        "S-ESC-003",
        "A serious situation expects a call for help that no agent makes",
        "The alarm it counts on does not exist.",
        "Add it to an agent under “When it must ask somebody”, by the same name.",
    ),
    (
        "S-ESC-004",
        "No call for help reaches a person",
        "Agents only ask each other.",
        "Let at least one go to a desk with people, such as human:support.",
    ),
    (
        "S-DIS-001",
        "No agent may disagree",
        "A doubt has nowhere to go.",
        "Tick “May disagree” for at least one agent.",
    ),
    (
        "S-DIS-002",
        "Some disagreement may be left out of the answer",
        "Whoever reads the answer does not learn that somebody doubted.",
        "Tick “Its disagreement must be in the answer”.",
    ),
    (
        "S-DIS-003",
        "The last word may overrule others without a trace",
        "Afterwards nobody can see that there was a doubt.",
        "Tick “Overruling is written down”, or take the right to overrule away.",
    ),
    (
        "S-DIS-004",
        "Agents pull against each other and nobody decides",
        "They go in circles, or the louder one wins.",
        "Say below, under “How it is decided”, who or what settles it.",
    ),
    (
        "S-HND-001",
        "Work is passed to somebody who is not in this Score",
        "It ends there.",
        "Pass work to agents that are listed here.",
    ),
    (
        "S-HND-002",
        "Work is passed on without saying what comes with it",
        "What was known is lost on the way.",
        "List under “With” what must be passed along.",
    ),
    (
        "S-HND-003",
        "A situation needs agents that no work reaches",
        "They are never asked.",
        "Let somebody pass work to them, or tick “Work comes in here”.",
    ),
    (
        "S-HND-004",
        "Work is passed on without a confirmation",
        "Each may think that the other has it.",
        "Tick “the other confirms that it has it”.",
    ),
    (
        "S-HND-005",
        "There are several agents, and none passes work to another",
        "They do not work together on paper.",
        "Say under “Passes work to” how work goes on.",
    ),
    (
        "S-COV-001",
        "A serious situation has none of your agents in it",
        "Nobody is there when it matters most.",
        "Name the agents under “Must take part”, exactly as they are called above.",
    ),
    (
        "S-COV-002",
        "Some situations name no agent",
        "Nobody is expected to handle them.",
        "Name the agents under “Must take part”.",
    ),
    (
        "S-COV-003",
        "Some agents are in no situation",
        "What they do is never tried.",
        "Add a situation for each, or take the agent away.",
    ),
    (
        "S-EVD-001",
        "It is not said whether some agents need proof for what they say",
        "A claim without a source cannot be told from one with.",
        "Choose something under “Proof for what it says”.",
    ),
];

fn words(rule: &str) -> Option<(&'static str, &'static str, &'static str)> {
    let found = WORDS.iter().find(|(known, ..)| *known == rule);
    found.map(|(_, what, why, advice)| (*what, *why, *advice))
}

/// Explains a dimension in plain words.
pub(super) fn about(dimension: Dimension) -> &'static str {
    match dimension {
        Dimension::RoleDiscipline => "Each keeps to its job",
        Dimension::EscalationFidelity => "Problems reach whoever decides",
        Dimension::DissonancePreservation => "Doubts stay visible",
        Dimension::HandoffReliability => "What is passed on arrives",
        Dimension::Coverage => "Every situation has somebody",
    }
}

/// Explains a severity in plain words.
pub(super) fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Low => "a nuisance",
        Severity::Medium => "costs something",
        Severity::High => "serious",
        Severity::Critical => "must never go wrong",
    }
}

/// Explains the evidence that an agent must give with its statements.
pub(super) fn proof(requirement: EvidenceRequirement) -> &'static str {
    match requirement {
        EvidenceRequirement::Required => "always: nothing without proof",
        EvidenceRequirement::Cite => "names its sources where it has some",
        EvidenceRequirement::None => "none is needed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every rule has an explanation here.
    #[test]
    fn every_rule_is_said_plainly() {
        let rules = chorus_app::choir::scores::rule_ids();
        assert!(rules.len() > 20, "{rules:?}");
        for rule in rules {
            let (what, why, advice) = words(rule).unwrap_or_else(|| panic!("{rule} has no plain words"));
            assert!([what, why, advice].iter().all(|words| !words.is_empty()), "{rule}");
        }
    }
}
