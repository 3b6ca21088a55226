//! By which names and outputs a node, task or event is known for a guard, a retriever, a reviewer or an escalation.
//!
//! A name alone is nothing, and an output alone is nothing: both must say it, and outputs only by their structure
//! (a flag, a status, a list), never by their prose.

use super::clean::{explanation, is_nothing, tokens};
use super::node::Node;

/// How deep flags are searched: `{flagged}` and `{results: [{flagged}]}`. What is deeper is somebody else's.
pub(super) const FLAG_DEPTH: usize = 2;
/// How deep they are looked for so that a person can look as well.
const WARNED_DEPTH: usize = 4;
/// Elements of a list that are searched for flags.
pub(super) const FLAG_ITEMS: usize = 100;
/// Where a status stands as a word.
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

/// What an output, or a part of it, says of itself.
#[derive(Default)]
pub(super) struct Flags<'a> {
    /// It says one of the words, in one way or another.
    pub(super) raised: bool,
    /// It says one of them by something that is neither true nor false, such as 1 or "yes".
    pub(super) unclear: bool,
    /// The words' own text, such as an objection.
    pub(super) text: Option<&'a str>,
    /// It approves.
    pub(super) approved: bool,
    /// It does not approve, in so many words.
    pub(super) not_approved: bool,
}

impl Flags<'_> {
    pub(super) fn says_something(&self) -> bool {
        self.raised || self.unclear || self.approved || self.not_approved
    }
}

/// Words for one kind of flag.
pub(super) struct Words {
    /// Members that are true or false.
    pub(super) booleans: &'static [&'static str],
    /// Members that hold what was said, if anything was.
    pub(super) texts: &'static [&'static str],
    /// What a status says.
    pub(super) statuses: &'static [&'static str],
}

const GUARD: Words = Words {
    booleans: &["flagged", "blocked", "refused", "is_flagged", "is_blocked", "is_refused"],
    texts: &["refusal"],
    statuses: &["flagged", "flag", "blocked", "block", "refused", "refuse", "refusal"],
};

/// Words that mean much the same, and are not the protocol's: somebody should look.
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

/// Whether a guard's output says that it flagged, blocked or refused.
pub(super) fn guarded(output: &Node) -> Flags<'_> {
    let mut flags = Flags::default();
    search(output, &GUARD, FLAG_DEPTH, &mut flags);
    flags
}

/// Whether a guard's output says as much in other words, or so deep inside that it may be about something else.
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

/// What is said of a document is not said by whoever found it.
fn is_cited(member: &str) -> bool {
    matches!(member, "metadata" | "documents" | "docs" | "citations" | "sources" | "context")
}

/// Adds up what is said in a value and this deep in it.
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

/// Adds what one member says.
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

/// A text that says something, or a list or object in which one does.
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

/// Whether this is a message of a conversation: its body is no output.
pub(super) fn is_message(node: &Node) -> bool {
    let kwargs = node.get("kwargs");
    let message = if kwargs.is_object() { kwargs } else { node };
    message.has("content") && (message.has("type") || message.has("role"))
}

/// Why a guard, reviewer or escalation says what it says: its own short explanation. What is called a message or an
/// error may hold what was guarded.
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

/// Whether an escalation's output says that it happened, by its structure: a flag that is true, or whom it went to. No
/// number says it, and no message or other text, for "escalate" stands in those that deny it as well.
pub(super) fn fired(output: &Node) -> bool {
    went(output, 1)
}

fn went(node: &Node, depth: usize) -> bool {
    if is_message(node) {
        return false;
    }
    let inside = |value: &Node| depth < FLAG_DEPTH && went(value, depth + 1);
    let members = node.members();
    // What is called an escalation decides, if there is such a member; otherwise whom it went to.
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

/// Whether what is called an escalation is one.
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
        // `escalation_level: "low"` is about one, `escalation: "desk"` is one.
        value => is_word(value) && !is_need(name) && (tokens(name).len() == 1 || is_target(name)),
    }
}

/// Whom or where it went to, or a status that says so.
fn is_sent(name: &str, value: &Node) -> bool {
    let named = |value: &Node| is_word(value) || value.integer().is_some_and(|number| number > 0);
    let is_said = STATUS.contains(&name) && is_word(value) && value.text().is_some_and(is_escalation);
    let inside = value.members().iter().any(|(_, value)| named(value)) || value.items().iter().any(named);
    is_said || (is_target(name) && (named(value) || inside))
}

/// Where an escalation says whom it went to: `goto`, `escalated_to`, `ticket_id`, but not `time_to_live`.
fn is_target(member: &str) -> bool {
    let known = ["to", "goto", "target", "assignee", "queue", "desk", "recipient", "ticket"];
    let tokens = tokens(member);
    [tokens.first(), tokens.last()].into_iter().flatten().any(|token| known.contains(&token.as_str()))
}

/// One or two words that deny nothing: a name, a status, an id.
fn is_word(node: &Node) -> bool {
    node.text().is_some_and(|text| text.split_whitespace().count() <= 2 && !is_denial(text))
}

/// "No escalation needed": a text that denies.
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
