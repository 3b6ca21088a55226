//! What reviewers think of something, each for himself: that one approves takes nothing from another's dissent.

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

/// Members that say whose opinion an object is.
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

/// Somebody's dissent.
pub(super) struct Dissent<'a> {
    /// Who, if the output names somebody; else whoever made the output.
    pub(super) who: Option<&'a str>,
    /// In his own words.
    pub(super) why: Option<&'a str>,
}

/// Who disagrees, objects or rejects in this output of `name`; of those that nobody is named for, one.
pub(super) fn dissents<'a>(output: &'a Node, name: &str, collector: &mut Collector<'_>) -> Vec<Dissent<'a>> {
    let (mut dissents, mut own) = (Vec::new(), false);
    for Opinion { flags, voice, member } in reviewed(output) {
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

/// Whether this is a review at all.
pub(super) fn is_review(output: &Node) -> bool {
    !reviewed(output).is_empty()
}

#[derive(Default)]
struct Opinion<'a> {
    flags: Flags<'a>,
    /// Whose it is, where it says so itself.
    voice: Option<&'a str>,
    /// The member that holds it, which may be somebody's name.
    member: Option<&'a str>,
}

/// What the reviewers of an output think, each for himself: that one approves takes nothing from another's dissent.
///
/// Elements of a list, several members with an opinion, and whoever is named are opinions of their own; all else is
/// part of what stands around it. The first one is the output's own.
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
