//! The updates of a session, collected during one turn: the growing answer, tool calls and usage.
//!
//! Pure. A program is not trusted: all texts and numbers of things are bounded, and control characters are
//! removed.

use crate::harness::texts::cut;
use serde_json::{Map, Value};
use std::collections::HashMap;

/// The longest answer, in bytes.
const MAX_ANSWER: usize = 64 * 1024;

/// The longest collected warnings, in bytes.
const MAX_WARNINGS: usize = 2000;

/// The number of tool calls of a turn that are remembered and shown.
const MAX_CALLS: usize = 500;

/// The longest title of a tool call, in characters.
const MAX_TITLE: usize = 200;

/// The longest shown text of a tool's arguments, and of its result, in characters.
const MAX_ARGUMENT: usize = 500;
const MAX_RESULT: usize = 2000;

/// The number of arguments of a tool call that are shown.
const MAX_ARGUMENTS: usize = 20;

/// A tool call of a program.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct AcpCall {
    /// Our own id of the call.
    pub(super) id: String,
    pub(super) title: String,
    /// The program's word for the kind of tool, such as `execute`.
    pub(super) kind: String,
    /// The arguments. Null if the program did not give them.
    pub(super) input: Value,
    /// The text of the call's content, such as a diff or an output.
    pub(super) content: String,
    ended: bool,
}

impl AcpCall {
    fn apply(&mut self, update: &Value) {
        if let Some(title) = update["title"].as_str().map(one_line).filter(|title| !title.is_empty()) {
            self.title = cut(&title, MAX_TITLE);
        }
        if let Some(kind) = update["kind"].as_str() {
            self.kind = cut(&one_line(kind), MAX_TITLE);
        }
        if !update["rawInput"].is_null() {
            self.input = update["rawInput"].clone();
        }
        if let Some(content) = update["content"].as_array() {
            self.content = content_text(content);
        }
    }

    pub(super) fn name(&self) -> &str {
        [self.title.as_str(), self.kind.as_str()]
            .into_iter()
            .find(|name| !name.is_empty())
            .unwrap_or("a tool")
    }

    /// Checks whether the call may change something.
    pub(super) fn changes(&self) -> bool {
        !matches!(self.kind.as_str(), "read" | "search" | "think" | "fetch" | "switch_mode")
    }

    /// Returns the arguments to show in a channel, each cut to a limit.
    pub(super) fn shown_input(&self) -> Map<String, Value> {
        let Value::Object(input) = &self.input else { return Map::new() };
        let shown = |value: &Value| match value {
            Value::String(text) => Value::from(cut(&printable(text), MAX_ARGUMENT)),
            Value::Array(_) | Value::Object(_) => Value::from(cut(&value.to_string(), MAX_ARGUMENT)),
            plain => plain.clone(),
        };
        input
            .iter()
            .take(MAX_ARGUMENTS)
            .map(|(name, value)| (cut(&one_line(name), MAX_TITLE), shown(value)))
            .collect()
    }
}

/// The effect of an update on the channel.
#[derive(Debug, PartialEq)]
pub(super) enum Effect {
    /// The answer has grown.
    Grown,
    /// A tool call has begun.
    Begun(AcpCall),
    /// A tool call has ended with this result.
    Ended { call: AcpCall, ok: bool, result: String },
}

/// The tokens and cost of a turn, as far as the program tells them.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct TurnUsage {
    pub(super) input_tokens: Option<u64>,
    pub(super) output_tokens: Option<u64>,
    /// The cost of the session so far, with its currency.
    pub(super) cost: Option<String>,
}

/// The updates of one turn; see the [module](self).
#[derive(Debug, Default)]
pub(super) struct Updates {
    /// The answer so far.
    pub(super) text: String,
    /// `true` if the answer was cut.
    pub(super) cut: bool,
    /// Text that is not the model's.
    pub(super) warnings: String,
    pub(super) usage: TurnUsage,
    /// `true` if text without a `messageId` is a warning.
    names_messages: bool,
    message: Option<String>,
    /// `true` if the next text begins a new paragraph.
    broken: bool,
    calls: HashMap<String, AcpCall>,
}

impl Updates {
    pub(super) fn new(names_messages: bool) -> Self {
        Self { names_messages, ..Self::default() }
    }

    /// Applies an update. Unknown ones, thoughts and repeated messages of the user have no effect.
    pub(super) fn apply(&mut self, update: &Value) -> Option<Effect> {
        match update["sessionUpdate"].as_str()? {
            "agent_message_chunk" => self.said(update),
            "tool_call" | "tool_call_update" => self.called(update),
            "usage_update" => {
                let (amount, currency) = (&update["cost"]["amount"], update["cost"]["currency"].as_str());
                if let Some(amount) = amount.as_f64() {
                    let currency = cut(&one_line(currency.unwrap_or_default()), 10);
                    self.usage.cost = Some(format!("{amount} {currency}").trim_end().to_owned());
                }
                None
            }
            _ => None,
        }
    }

    fn said(&mut self, update: &Value) -> Option<Effect> {
        let text = printable(update["content"]["text"].as_str()?);
        let message = update["messageId"].as_str().map(|id| cut(id, MAX_TITLE));
        if self.names_messages && message.is_none() {
            push_bounded(&mut self.warnings, &text, MAX_WARNINGS);
            return None;
        }
        let is_other = message.is_some() && self.message.is_some() && message != self.message;
        if (is_other || self.broken) && !self.text.trim().is_empty() {
            self.text.truncate(self.text.trim_end().len());
            push_bounded(&mut self.text, "\n\n", MAX_ANSWER);
        }
        (self.message, self.broken) = (message.or(self.message.take()), false);
        self.cut |= !push_bounded(&mut self.text, &text, MAX_ANSWER);
        Some(Effect::Grown)
    }

    fn called(&mut self, update: &Value) -> Option<Effect> {
        let (call, is_new) = self.call(update)?;
        let status = update["status"].as_str().unwrap_or_default();
        if matches!(status, "completed" | "failed") && !std::mem::replace(&mut call.ended, true) {
            let (call, ok) = (call.clone(), status == "completed");
            let result = if call.content.is_empty() { status } else { &call.content };
            return Some(Effect::Ended { result: cut(result, MAX_RESULT), call, ok });
        }
        let call = is_new.then(|| call.clone());
        self.broken |= is_new;
        call.map(Effect::Begun)
    }

    /// Finds the call that an update or a permission request is about, and applies what is new. Some programs
    /// send only what has changed, or an update without an earlier call.
    fn call(&mut self, update: &Value) -> Option<(&mut AcpCall, bool)> {
        let id = update["toolCallId"].as_str().filter(|id| id.len() <= 1000)?;
        let is_new = !self.calls.contains_key(id);
        if is_new && self.calls.len() >= MAX_CALLS {
            return None;
        }
        let own = format!("tc_{}", self.calls.len() + 1);
        let call =
            self.calls.entry(id.to_owned()).or_insert_with(|| AcpCall { id: own, ..AcpCall::default() });
        call.apply(update);
        Some((call, is_new))
    }

    /// Returns the call that a permission request is about.
    pub(super) fn asked_for(&mut self, tool_call: &Value) -> AcpCall {
        let known = self.call(tool_call).map(|(call, _)| call.clone());
        known.unwrap_or_else(|| {
            let mut call = AcpCall::default();
            call.apply(tool_call);
            call
        })
    }

    /// Adds the usage in the result of a prompt.
    pub(super) fn finish(&mut self, result: &Value) {
        let count = |paths: [&str; 2]| paths.iter().find_map(|path| result.pointer(path)?.as_u64());
        let gemini = "/_meta/quota/token_count";
        self.usage.input_tokens = count(["/usage/inputTokens", &format!("{gemini}/input_tokens")]);
        self.usage.output_tokens = count(["/usage/outputTokens", &format!("{gemini}/output_tokens")]);
    }
}

/// Adds as much as fits. Returns `false` if something was left out.
fn push_bounded(to: &mut String, text: &str, max: usize) -> bool {
    let room = max.saturating_sub(to.len());
    let end = text.floor_char_boundary(room);
    to.push_str(&text[..end]);
    end == text.len()
}

/// Returns the texts and changed files of a tool call's content.
fn content_text(content: &[Value]) -> String {
    let part = |part: &Value| match part["type"].as_str() {
        Some("content") => part["content"]["text"].as_str().map(str::to_owned),
        Some("diff") => {
            let (path, new) = (part["path"].as_str()?, part["newText"].as_str().unwrap_or_default());
            Some(format!("{path}:\n{new}"))
        }
        _ => None,
    };
    let mut text = String::new();
    for part in content.iter().filter_map(part) {
        if !push_bounded(&mut text, &printable(&part), MAX_ANSWER) {
            break;
        }
    }
    text
}

/// Removes control characters, and the sequences by which programs colour a terminal.
pub(super) fn printable(text: &str) -> String {
    let (mut kept, mut chars) = (String::with_capacity(text.len()), text.chars().peekable());
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' if chars.peek() == Some(&'[') => {
                chars.next();
                // A sequence ends with a character from @ to ~.
                while chars.next_if(|c| matches!(c, ' '..='?')).is_some() {}
                chars.next_if(|c| matches!(c, '@'..='~'));
            }
            // A sequence that sets a title ends with a bell or another escape.
            '\u{1b}' if chars.peek() == Some(&']') => {
                while chars.next_if(|c| !matches!(c, '\u{7}' | '\u{1b}' | '\n')).is_some() {}
            }
            '\n' | '\t' => kept.push(c),
            c if c.is_control() => {}
            c => kept.push(c),
        }
    }
    kept
}

/// Returns a text as one line without control characters.
pub(super) fn one_line(text: &str) -> String {
    printable(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn chunk(id: Option<&str>, text: &str) -> Value {
        json!({"sessionUpdate": "agent_message_chunk", "messageId": id, "content": {"type": "text", "text": text}})
    }

    #[test]
    fn the_answer_is_the_text_of_all_messages() {
        let mut updates = Updates::new(false);
        for update in [
            json!({"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "no"}}),
            json!({"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "hm"}}),
            json!({"sessionUpdate": "a_novelty"}),
            json!("nonsense"),
            chunk(None, "I look"),
            chunk(None, " at it.\n"),
            json!({"sessionUpdate": "tool_call", "toolCallId": "a", "title": "ls", "kind": "execute"}),
            chunk(None, "\u{1b}[31mDone\u{1b}[0m.\u{7}"),
        ] {
            updates.apply(&update);
        }
        assert_eq!(updates.text, "I look at it.\n\nDone.");
        let mut codex = Updates::new(true);
        codex.apply(&chunk(None, "a warning"));
        codex.apply(&chunk(Some("1"), "one"));
        codex.apply(&chunk(Some("2"), "two"));
        assert_eq!((codex.text.as_str(), codex.warnings.as_str()), ("one\n\ntwo", "a warning"));
    }

    #[test]
    fn a_long_answer_is_cut() {
        let mut updates = Updates::new(false);
        updates.apply(&chunk(None, &"ä".repeat(MAX_ANSWER)));
        assert!(updates.cut && updates.text.len() <= MAX_ANSWER);
    }

    #[test]
    fn tool_calls_are_joined_by_their_id() {
        let mut updates = Updates::new(false);
        let begun = updates.apply(&json!({"sessionUpdate": "tool_call", "toolCallId": "x", "title": "touch\n a",
            "kind": "execute", "status": "pending", "rawInput": {"command": "touch a", "n": 1, "list": [1]}}));
        let Some(Effect::Begun(call)) = begun else { panic!("{begun:?}") };
        assert_eq!((call.id.as_str(), call.name(), call.changes()), ("tc_1", "touch a", true));
        assert_eq!(json!(call.shown_input()), json!({"command": "touch a", "n": 1, "list": "[1]"}));
        // A permission request with nothing but the id.
        assert_eq!(updates.asked_for(&json!({"toolCallId": "x"})).input["command"], "touch a");
        let done = json!({"sessionUpdate": "tool_call_update", "toolCallId": "x", "status": "completed",
            "content": [{"type": "content", "content": {"type": "text", "text": "made"}}]});
        let ended = updates.apply(&done);
        assert!(
            matches!(&ended, Some(Effect::Ended { ok: true, result, .. }) if result == "made"),
            "{ended:?}"
        );
        assert_eq!(updates.apply(&done), None);
        // An update without an earlier call.
        let alone = json!({"sessionUpdate": "tool_call_update", "toolCallId": "y", "kind": "read", "status": "pending"});
        let alone = updates.apply(&alone);
        assert!(
            matches!(&alone, Some(Effect::Begun(call)) if !call.changes() && call.name() == "read"),
            "{alone:?}"
        );
    }

    #[test]
    fn usage() {
        let mut updates = Updates::new(false);
        updates.apply(&json!({"sessionUpdate": "usage_update", "cost": {"amount": 0.25, "currency": "USD"}}));
        updates.finish(&json!({"usage": {"inputTokens": 12, "outputTokens": 3}}));
        let expected =
            TurnUsage { input_tokens: Some(12), output_tokens: Some(3), cost: Some("0.25 USD".into()) };
        assert_eq!(updates.usage, expected);
        updates
            .finish(&json!({"_meta": {"quota": {"token_count": {"input_tokens": 5, "output_tokens": 6}}}}));
        assert_eq!((updates.usage.input_tokens, updates.usage.output_tokens), (Some(5), Some(6)));
    }
}
