//! By which names and outputs a node, task or event is known for a guard, a retriever, a reviewer or an escalation.
//!
//! A name alone is nothing, and an output alone is nothing: both must say it, and outputs only by their structure
//! (a flag, a status, a list), never by their prose.

use super::node::Node;

/// How deep flags are searched: `{flagged}` and `{result: {flagged}}`.
const FLAG_DEPTH: usize = 2;
/// Elements of a list that are searched for flags.
const FLAG_ITEMS: usize = 100;
/// Where a status stands as a word.
const STATUS: [&str; 6] = ["status", "verdict", "decision", "outcome", "result", "action"];

/// The words of a name, in lower case: split where no letter is and where a capital begins.
pub(super) fn tokens(name: &str) -> Vec<String> {
    let mut tokens = vec![String::new()];
    let signs: Vec<char> = name.chars().take(300).collect();
    for (index, sign) in signs.iter().enumerate() {
        let before = index.checked_sub(1).map(|before| signs[before]);
        let after = signs.get(index + 1);
        // `HandOff`, and the last capital of `RAGSearch`.
        let begins = sign.is_uppercase()
            && (before.is_some_and(char::is_lowercase)
                || (before.is_some_and(char::is_uppercase)
                    && after.is_some_and(|after| after.is_lowercase())));
        if begins || !sign.is_alphabetic() {
            tokens.push(String::new());
        }
        if let (true, Some(token)) = (sign.is_alphabetic(), tokens.last_mut()) {
            token.extend(sign.to_lowercase());
        }
    }
    tokens.retain(|token| !token.is_empty());
    tokens
}

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

/// What an output says of itself.
pub(super) struct Flags<'a> {
    /// It says one of the words, in one way or another.
    pub(super) raised: bool,
    /// The words' own text, such as an objection.
    pub(super) text: Option<&'a str>,
    /// It approves.
    pub(super) approved: bool,
    /// It does not approve, in so many words.
    pub(super) not_approved: bool,
}

/// Words for one kind of flag.
struct Words {
    /// Members that are true or false.
    booleans: &'static [&'static str],
    /// Members that hold what was said, if anything was.
    texts: &'static [&'static str],
    /// What a status says.
    statuses: &'static [&'static str],
}

const GUARD: Words = Words {
    booleans: &["flagged", "blocked", "refused", "is_flagged", "is_blocked", "is_refused"],
    texts: &["refusal"],
    statuses: &["flagged", "flag", "blocked", "block", "refused", "refuse", "refusal"],
};

const REVIEW: Words = Words {
    booleans: &["disagree", "disagrees", "disagreed", "rejected", "objection", "is_rejected"],
    texts: &["objection", "objections"],
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
    ],
};

/// Whether a guard's output says that it flagged, blocked or refused.
pub(super) fn guarded(output: &Node) -> Flags<'_> {
    flags(output, &GUARD)
}

/// Whether a reviewer's output disagrees, objects or rejects.
pub(super) fn reviewed(output: &Node) -> Flags<'_> {
    flags(output, &REVIEW)
}

fn flags<'a>(output: &'a Node, words: &Words) -> Flags<'a> {
    let mut flags = Flags { raised: false, text: None, approved: false, not_approved: false };
    search(output, words, 1, &mut flags);
    flags
}

fn search<'a>(node: &'a Node, words: &Words, depth: usize, flags: &mut Flags<'a>) {
    for item in node.items().iter().take(FLAG_ITEMS) {
        search(item, words, depth, flags);
    }
    if is_message(node) {
        return;
    }
    for (name, value) in node.members() {
        let name = name.to_lowercase();
        let says = |known: &[&str]| known.contains(&name.as_str());
        if says(words.booleans) && *value == Node::Bool(true) {
            flags.raised = true;
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
            flags.approved |= *value == Node::Bool(true);
            flags.not_approved |= *value == Node::Bool(false);
        }
        if depth < FLAG_DEPTH {
            search(value, words, depth + 1, flags);
        }
    }
}

const APPROVING: [&str; 9] =
    ["approve", "approved", "approves", "accept", "accepted", "pass", "passed", "ok", "agree"];

/// A text that is not empty, or a list or object in which something is.
fn is_said(node: &Node) -> bool {
    match node {
        Node::List(items) => items.iter().any(is_said),
        Node::Object(members) => !members.is_empty(),
        other => other.text().is_some(),
    }
}

fn words_of(node: &Node) -> Option<&str> {
    match node {
        Node::List(items) => items.iter().find_map(words_of),
        Node::Object(_) => {
            ["text", "message", "reason", "comment"].iter().find_map(|name| node.get(name).text())
        }
        other => other.text(),
    }
}

/// Whether this is a message of a conversation: its body is no output.
pub(super) fn is_message(node: &Node) -> bool {
    let kwargs = node.get("kwargs");
    let message = if kwargs.is_object() { kwargs } else { node };
    message.has("content") && (message.has("type") || message.has("role"))
}

/// Why a guard, reviewer or escalation says what it says: its own short explanation.
pub(super) fn reason(output: &Node) -> Option<&str> {
    const REASONS: [&str; 6] = ["reason", "message", "comment", "comments", "explanation", "error"];
    let here = |node: &Node| REASONS.iter().find_map(|name| node.member(name)).is_some();
    let nested = output.members().iter().map(|(_, value)| value).find(|value| here(value));
    let holder = if here(output) { output } else { nested? };
    REASONS.iter().find_map(|name| match holder.get(name) {
        Node::List(items) => items.iter().find_map(Node::text),
        text => text.text(),
    })
}

/// Whether an escalation's output says that it happened. `None`, nothing or "not needed" says it did not.
pub(super) fn fired(output: &Node) -> bool {
    match output {
        Node::Null | Node::Bool(false) => false,
        Node::Text(_) => output.text().is_some_and(|text| !is_denial(text)),
        Node::List(items) => items.iter().any(fired),
        Node::Object(members) => {
            // What is called an escalation decides, if there is such a member; otherwise anything that is there.
            let named = |name: &str| is_escalation(name) || matches!(name, "needed" | "required" | "fired");
            let mut deciding = members.iter().filter(|(name, _)| named(name)).peekable();
            if deciding.peek().is_some() {
                deciding.any(|(_, value)| fired(value))
            } else {
                members.iter().any(|(_, value)| fired(value))
            }
        }
        _ => true,
    }
}

/// "No escalation needed": the beginning of a text that denies.
fn is_denial(text: &str) -> bool {
    let tokens = tokens(text);
    let first = tokens.first().map_or("", String::as_str);
    matches!(
        first,
        "no" | "not" | "none" | "false" | "nothing" | "never" | "unnecessary" | "n" | "skip" | "skipped"
    )
}
