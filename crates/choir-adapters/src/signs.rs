//! Recognition of guards, retrievers, reviewers and escalations by the names and outputs of nodes, tasks and
//! events.
//!
//! Name and output must both indicate it, and an output only by its structure (a flag, a status, a list),
//! never by its prose.

use super::clean::{explanation, is_nothing, tokens};
use super::node::Node;

/// The maximum depth of flags: `{flagged}` and `{results: [{flagged}]}`. Deeper flags belong to something
/// else.
pub(super) const FLAG_DEPTH: usize = 2;
/// The maximum depth of flags that cause a warning.
const WARNED_DEPTH: usize = 4;
/// The maximum number of list elements searched for flags.
pub(super) const FLAG_ITEMS: usize = 100;
/// The members that hold a status word.
const STATUS: [&str; 6] = ["status", "verdict", "decision", "outcome", "result", "action"];

fn starts_with_any(name: &str, beginnings: &[&str], whole: &[&str]) -> bool {
    tokens(name).iter().any(|token| {
        beginnings.iter().any(|beginning| token.starts_with(beginning)) || whole.contains(&token.as_str())
    })
}

pub(super) fn is_guard(name: &str) -> bool {
    let name = name.to_lowercase();
    ["guard", "safety", "moderat", "policy", "filter"].iter().any(|word| name.contains(word))
}

pub(super) fn is_retriever(name: &str) -> bool {
    starts_with_any(name, &["retriev", "search", "lookup", "vector", "fetch", "knowledge"], &["rag", "kb"])
}

pub(super) fn is_reviewer(name: &str) -> bool {
    starts_with_any(name, &["critic", "critique", "review"], &[])
}

pub(super) fn is_escalation(name: &str) -> bool {
    let tokens = tokens(name);
    starts_with_any(name, &["escalat", "handoff", "interrupt"], &[])
        || tokens.windows(2).any(|pair| pair[0] == "hand" && (pair[1] == "off" || pair[1] == "offs"))
}

/// The statements of an output, or of a part of it.
#[derive(Default)]
pub(super) struct Flags<'a> {
    /// Set if one of the words applies.
    pub(super) raised: bool,
    /// Set if one of the words has a value that is neither true nor false, such as 1 or "yes".
    pub(super) unclear: bool,
    /// The text of a word, such as an objection.
    pub(super) text: Option<&'a str>,
    /// Set if the output approves.
    pub(super) approved: bool,
    /// Set if the output explicitly does not approve.
    pub(super) not_approved: bool,
}

impl Flags<'_> {
    pub(super) fn says_something(&self) -> bool {
        self.raised || self.unclear || self.approved || self.not_approved
    }
}

/// The words of one kind of flag.
pub(super) struct Words {
    /// The members that are true or false.
    pub(super) booleans: &'static [&'static str],
    /// The members that hold a statement, if there is one.
    pub(super) texts: &'static [&'static str],
    /// The values of a status.
    pub(super) statuses: &'static [&'static str],
}

const GUARD: Words = Words {
    booleans: &["flagged", "blocked", "refused", "is_flagged", "is_blocked", "is_refused"],
    texts: &["refusal"],
    statuses: &["flagged", "flag", "blocked", "block", "refused", "refuse", "refusal"],
};

/// Similar words that the protocol does not define. They cause a warning.
const ALMOST_GUARD: Words = Words {
    booleans: &[
        "unsafe",
        "denied",
        "rejected",
        "violation",
        "violated",
        "violates",
        "triggered",
        "tripwire_triggered",
        "is_unsafe",
        "harmful",
    ],
    texts: &["violations"],
    statuses: &[
        "deny",
        "denied",
        "unsafe",
        "violation",
        "violated",
        "reject",
        "rejected",
        "fail",
        "failed",
        "harmful",
        "not_allowed",
        "disallowed",
    ],
};
const FINE: [&str; 7] = ["safe", "is_safe", "allowed", "is_allowed", "passed", "valid", "success"];

/// Returns the flags of a guard's output: flagged, blocked or refused.
pub(super) fn guarded(output: &Node) -> Flags<'_> {
    let mut flags = Flags::default();
    search(output, &GUARD, FLAG_DEPTH, &mut flags);
    flags
}

/// Returns `true` if a guard's output says the same in other words, or so deep inside that it may concern
/// something else.
pub(super) fn almost_guarded(output: &Node) -> bool {
    let mut flags = Flags::default();
    search(output, &ALMOST_GUARD, WARNED_DEPTH, &mut flags);
    search(output, &GUARD, WARNED_DEPTH, &mut flags);
    flags.raised || flags.unclear || is_not_fine(output, WARNED_DEPTH)
}

fn is_not_fine(node: &Node, depth: usize) -> bool {
    let inside = node.items().iter().take(FLAG_ITEMS).any(|item| is_not_fine(item, depth));
    inside
        || node.members().iter().any(|(name, value)| {
            (FINE.contains(&&*name.to_lowercase()) && *value == Node::Bool(false))
                || (depth > 1 && !is_message(value) && !is_cited(name) && is_not_fine(value, depth - 1))
        })
}

/// Returns `true` for members that describe documents, whose contents are no statement of the node.
fn is_cited(member: &str) -> bool {
    matches!(member, "metadata" | "documents" | "docs" | "citations" | "sources" | "context")
}

/// Collects the statements in a value down to this depth.
fn search<'a>(node: &'a Node, words: &Words, depth: usize, flags: &mut Flags<'a>) {
    for item in node.items().iter().take(FLAG_ITEMS) {
        search(item, words, depth, flags);
    }
    if is_message(node) {
        return;
    }
    for (name, value) in node.members() {
        look(name, value, words, flags);
        if depth > 1 && !is_cited(name) {
            search(value, words, depth - 1, flags);
        }
    }
}

/// Adds the statement of one member.
pub(super) fn look<'a>(name: &str, value: &'a Node, words: &Words, flags: &mut Flags<'a>) {
    let name = name.to_lowercase();
    let says = |known: &[&str]| known.contains(&name.as_str());
    if says(words.booleans) {
        flags.raised |= *value == Node::Bool(true);
        flags.unclear |= *value != Node::Bool(true) && is_true(value);
    }
    if says(words.texts) && is_said(value) {
        flags.raised = true;
        flags.text = flags.text.or_else(|| words_of(value));
    }
    if let (true, Some(status)) = (says(&STATUS), value.text()) {
        let status = status.trim().to_lowercase();
        flags.raised |= words.statuses.contains(&status.as_str());
        flags.approved |= APPROVING.contains(&status.as_str());
    }
    if name == "approved" {
        flags.approved |= is_true(value);
        flags.not_approved |= *value == Node::Bool(false);
    }
}

fn is_true(node: &Node) -> bool {
    match node {
        Node::Bool(value) => *value,
        Node::Integer(number) => *number == 1,
        other => {
            other.text().is_some_and(|text| matches!(text.trim().to_lowercase().as_str(), "true" | "yes"))
        }
    }
}

const APPROVING: [&str; 9] =
    ["approve", "approved", "approves", "accept", "accepted", "pass", "passed", "ok", "agree"];

/// Returns `true` for a text that states something, or a list or object with such a text.
fn is_said(node: &Node) -> bool {
    match node {
        Node::List(items) => items.iter().any(is_said),
        Node::Object(members) => members.iter().any(|(_, value)| is_said(value)),
        Node::Omitted => true,
        other => other.text().is_some_and(|text| !is_nothing(text)),
    }
}

fn words_of(node: &Node) -> Option<&str> {
    match node {
        Node::List(items) => items.iter().find_map(words_of),
        Node::Object(_) => ["text", "reason", "comment"].iter().find_map(|name| explanation(node.get(name))),
        other => explanation(other),
    }
}

/// Returns `true` for a message of a conversation, whose body is no output.
pub(super) fn is_message(node: &Node) -> bool {
    let kwargs = node.get("kwargs");
    let message = if kwargs.is_object() { kwargs } else { node };
    message.has("content") && (message.has("type") || message.has("role"))
}

/// Returns the short explanation of a guard, reviewer or escalation. Members called message or error are
/// excluded, because they may hold the guarded text.
pub(super) fn reason(output: &Node) -> Option<&str> {
    const REASONS: [&str; 6] = ["reason", "explanation", "rationale", "comment", "comments", "category"];
    let here = |node: &Node| REASONS.iter().find_map(|name| node.member(name)).is_some();
    let nested = output.members().iter().map(|(_, value)| value).find(|value| here(value));
    let holder = if here(output) { output } else { nested? };
    REASONS.iter().find_map(|name| match holder.get(name) {
        Node::List(items) => items.iter().find_map(explanation),
        text => explanation(text),
    })
}

/// Returns `true` if an escalation's output shows that it happened, by its structure: a true flag, or a
/// target. Numbers and texts do not count, because "escalate" also occurs in denials.
pub(super) fn fired(output: &Node) -> bool {
    went(output, 1)
}

fn went(node: &Node, depth: usize) -> bool {
    if is_message(node) {
        return false;
    }
    let inside = |value: &Node| depth < FLAG_DEPTH && went(value, depth + 1);
    let members = node.members();
    // A member called escalation decides, if there is one; otherwise a target does.
    let mut deciding = members.iter().filter(|(name, _)| is_escalation(name) || is_need(name)).peekable();
    if deciding.peek().is_some() {
        return deciding.any(|(name, value)| decides(name, value));
    }
    node.items().iter().take(FLAG_ITEMS).any(|item| went(item, depth))
        || members.iter().any(|(name, value)| is_sent(name, value) || inside(value))
}

fn is_need(member: &str) -> bool {
    matches!(member, "needed" | "required" | "fired")
}

/// Returns `true` if a member called escalation states that there was one.
fn decides(name: &str, value: &Node) -> bool {
    match value {
        Node::Bool(value) => *value,
        Node::List(items) => items.iter().any(|item| decides(name, item)),
        Node::Object(members) => {
            let mut needs =
                members.iter().filter(|(name, _)| is_need(name) || is_escalation(name)).peekable();
            if needs.peek().is_some() {
                return needs.any(|(_, value)| *value == Node::Bool(true));
            }
            members.iter().any(|(name, value)| is_sent(name, value))
                || reason(value).is_some_and(|why| !is_denial(why))
        }
        // `escalation_level: "low"` describes an escalation, `escalation: "desk"` is one.
        value => is_word(value) && !is_need(name) && (tokens(name).len() == 1 || is_target(name)),
    }
}

/// Returns `true` for a target, or for a status that states an escalation.
fn is_sent(name: &str, value: &Node) -> bool {
    let named = |value: &Node| is_word(value) || value.integer().is_some_and(|number| number > 0);
    let is_said = STATUS.contains(&name) && is_word(value) && value.text().is_some_and(is_escalation);
    let inside = value.members().iter().any(|(_, value)| named(value)) || value.items().iter().any(named);
    is_said || (is_target(name) && (named(value) || inside))
}

/// Returns `true` for a member that names a target, such as `goto`, `escalated_to` or `ticket_id`, but not
/// `time_to_live`.
fn is_target(member: &str) -> bool {
    let known = ["to", "goto", "target", "assignee", "queue", "desk", "recipient", "ticket"];
    let tokens = tokens(member);
    [tokens.first(), tokens.last()].into_iter().flatten().any(|token| known.contains(&token.as_str()))
}

/// Returns `true` for one or two words that deny nothing: a name, a status or an id.
fn is_word(node: &Node) -> bool {
    node.text().is_some_and(|text| text.split_whitespace().count() <= 2 && !is_denial(text))
}

/// Returns `true` for a text that denies, such as "No escalation needed".
fn is_denial(text: &str) -> bool {
    let denies = |token: &String| {
        matches!(
            token.as_str(),
            "no" | "not"
                | "none"
                | "false"
                | "nothing"
                | "never"
                | "unnecessary"
                | "skip"
                | "skipped"
                | "unneeded"
        )
    };
    is_nothing(text) || tokens(text).iter().take(12).any(denies)
}
