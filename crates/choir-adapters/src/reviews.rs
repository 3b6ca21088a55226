//! Opinions of reviewers, each separate: one approval does not cancel another reviewer's dissent.

use super::clean::is_nothing;
use super::collector::Collector;
use super::node::Node;
use super::signs::{FLAG_DEPTH, FLAG_ITEMS, Flags, Words, is_message, look, reason};

const REVIEW: Words = Words {
    booleans: &[
        "disagree",
        "disagrees",
        "disagreed",
        "rejected",
        "objection",
        "is_rejected",
        "dissent",
        "dissents",
    ],
    texts: &["objection", "objections", "dissent"],
    statuses: &[
        "disagree",
        "disagrees",
        "disagreed",
        "rejected",
        "reject",
        "rejects",
        "objection",
        "object",
        "objects",
        "dissent",
        "dissents",
    ],
};

/// The members that hold the outcome of a review, in addition to those of any status.
const STATUS: [&str; 14] = [
    "status",
    "verdict",
    "decision",
    "outcome",
    "result",
    "action",
    "vote",
    "judgement",
    "judgment",
    "assessment",
    "recommendation",
    "conclusion",
    "review",
    "answer",
];
/// Words similar to a dissent that the protocol does not define. They cause a warning.
const ALMOST: [&str; 22] = [
    "revise",
    "revision",
    "needs_revision",
    "needs_work",
    "needs_changes",
    "changes_requested",
    "request_changes",
    "change_requested",
    "no",
    "nay",
    "fail",
    "failed",
    "denied",
    "deny",
    "declined",
    "decline",
    "disapprove",
    "disapproved",
    "not_approved",
    "redo",
    "retry",
    "unacceptable",
];
/// Members that mean an objection if true, and those that mean one if false.
const OBJECTING: [&str; 8] =
    ["objected", "objects", "disapproved", "needs_revision", "needs_changes", "revise", "veto", "vetoed"];
const AGREEING: [&str; 10] = [
    "agree",
    "agrees",
    "agreed",
    "passed",
    "pass",
    "accepted",
    "accept",
    "approve",
    "approves",
    "acceptable",
];
/// Members that hold an objection in words.
const SAID: [&str; 4] = ["disagreement", "disagreements", "objected_to", "veto_reason"];

/// The members that name the author of an opinion.
const WHOSE: [&str; 9] = [
    "voice_name",
    "voice",
    "reviewer",
    "reviewer_name",
    "critic",
    "agent_name",
    "agent_role",
    "agent",
    "author",
];

/// A dissent in a reviewer's output.
pub(super) struct Dissent<'a> {
    /// The dissenting voice, if the output names one; otherwise the author of the output.
    pub(super) who: Option<&'a str>,
    /// The reason in the reviewer's words.
    pub(super) why: Option<&'a str>,
}

/// Returns the dissents in an output of `name`. Dissents without a named voice count once.
pub(super) fn dissents<'a>(output: &'a Node, name: &str, collector: &mut Collector<'_>) -> Vec<Dissent<'a>> {
    let (mut dissents, mut own) = (Vec::new(), false);
    let opinions = reviewed(output);
    if !opinions.iter().any(|opinion| opinion.flags.says_something()) && is_almost(output, 1) {
        let message =
            format!("\"{name}\" may disagree, but does not say that it disagrees, objects or rejects");
        collector.warn("unclear_review", message);
    }
    for Opinion { flags, voice, member } in opinions {
        if flags.raised && !flags.approved {
            let who = voice.or_else(|| member.filter(|member| collector.knows(member)));
            if who.is_some() || !std::mem::replace(&mut own, true) {
                dissents.push(Dissent { who, why: flags.text.or_else(|| reason(output)) });
            }
        } else if flags.raised {
            let message = format!("\"{name}\" approves and objects at once: no dissent");
            collector.warn("approved_with_objections", message);
        } else if flags.unclear && !flags.approved {
            let message = format!("\"{name}\" may disagree: neither true nor false says that it does");
            collector.warn("unclear_review", message);
        } else if flags.not_approved {
            let message =
                format!("\"{name}\" did not approve, but does not say that it disagrees, objects or rejects");
            collector.warn("not_approved", message);
        }
    }
    dissents
}

/// Returns `true` if the output is a review.
pub(super) fn is_review(output: &Node) -> bool {
    !reviewed(output).is_empty() || is_almost(output, 1)
}

/// Returns `true` if a reviewer expresses a dissent in other words.
fn is_almost(node: &Node, depth: usize) -> bool {
    if depth > FLAG_DEPTH || is_message(node) {
        return false;
    }
    let says = |name: &str, value: &Node| {
        let name = name.to_lowercase();
        let has = |words: &[&str]| words.contains(&name.as_str());
        let word = value.text().map(|text| text.trim().to_lowercase().replace([' ', '-'], "_"));
        (has(&OBJECTING) && *value == Node::Bool(true))
            || (has(&AGREEING) && *value == Node::Bool(false))
            || (has(&STATUS) && word.is_some_and(|word| ALMOST.contains(&word.as_str())))
            || (has(&SAID) && value.text().is_some_and(|text| !is_nothing(text)))
    };
    node.items().iter().take(FLAG_ITEMS).any(|item| is_almost(item, depth))
        || node.members().iter().any(|(name, value)| says(name, value) || is_almost(value, depth + 1))
}

#[derive(Default)]
struct Opinion<'a> {
    flags: Flags<'a>,
    /// The author, if the opinion names one.
    voice: Option<&'a str>,
    /// The member that holds the opinion, which may be a voice's name.
    member: Option<&'a str>,
}

/// Returns the opinions in an output, each separate: one approval does not cancel another reviewer's dissent.
///
/// Elements of a list, several members with an opinion, and objects with a named author are separate opinions;
/// everything else belongs to its surrounding opinion. The first one is that of the output itself.
fn reviewed(output: &Node) -> Vec<Opinion<'_>> {
    let mut opinions = vec![Opinion::default()];
    gather(output, 1, 0, &mut opinions);
    opinions.retain(|opinion| opinion.flags.says_something());
    opinions
}

fn gather<'a>(node: &'a Node, depth: usize, at: usize, opinions: &mut Vec<Opinion<'a>>) {
    if depth > FLAG_DEPTH || is_message(node) {
        return;
    }
    for item in node.items().iter().take(FLAG_ITEMS).filter(|item| item.is_object()) {
        apart(item, None, depth, opinions);
    }
    let has_opinion = |value: &Node| {
        value.is_object() && {
            let mut found = vec![Opinion::default()];
            gather(value, depth + 1, 0, &mut found);
            found.iter().any(|opinion| opinion.flags.says_something())
        }
    };
    let several = node.members().iter().filter(|(_, value)| has_opinion(value)).nth(1).is_some();
    for (name, value) in node.members() {
        look(name, value, &REVIEW, &mut opinions[at].flags);
        if REVIEW.texts.contains(&&*name.to_lowercase()) {
            continue;
        }
        if value.is_object() && (several || whose(value).is_some()) {
            apart(value, Some(name), depth + 1, opinions);
        } else {
            gather(value, depth + 1, at, opinions);
        }
    }
}

fn apart<'a>(node: &'a Node, member: Option<&'a str>, depth: usize, opinions: &mut Vec<Opinion<'a>>) {
    opinions.push(Opinion { voice: whose(node), member, ..Opinion::default() });
    gather(node, depth, opinions.len() - 1, opinions);
}

fn whose(node: &Node) -> Option<&str> {
    WHOSE.iter().find_map(|name| node.get(name).text())
}
