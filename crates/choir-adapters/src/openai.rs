//! The adapter `openai.responses.v1`: Responses objects, their output items, and recorded streams.
//!
//! A stream reports every item three times; only the last report counts, or the finished items if the stream
//! was cut before. Nothing of the messages is copied except refusals and the names in citations. Run steps of
//! the Assistants API go to [`steps`], which is deprecated like that API.

mod spans;
mod steps;

use super::clean::{self, explanation};
use super::collector::{Collector, event};
use super::node::{Keep, Node, Text};
use super::records::Adapter;
use chorus_protocol::choir::evidence::EventType;

/// The maximum number of finished items kept of an unfinished stream.
const MAX_PENDING: usize = 1000;

/// The types of calls of tools that OpenAI runs. They have no name but their type.
pub(super) const BUILT_IN: [&str; 8] = [
    "file_search_call",
    "web_search_call",
    "computer_call",
    "code_interpreter_call",
    "local_shell_call",
    "shell_call",
    "apply_patch_call",
    "image_generation_call",
];
/// The types of calls of tools that the caller or a server named.
const NAMED: [&str; 4] = ["function_call", "custom_tool_call", "tool_call", "mcp_call"];

#[derive(Default)]
pub(super) struct OpenAi {
    /// The items of the unfinished response of a stream, whether there is one, and its id.
    pending: Vec<Node>,
    running: bool,
    id: Option<String>,
    /// The ids of responses that were requested before they were completed.
    unfinished: Vec<String>,
    /// `responses` is set if there were records other than run steps, `steps` if there were run steps.
    responses: bool,
    pub(super) steps: bool,
    /// The spans of the Agents SDK, which come in the order in which they end.
    spans: spans::Spans,
}

impl OpenAi {
    /// Returns `true` if all records were run steps of the Assistants API.
    pub(super) fn is_deprecated(&self) -> bool {
        self.steps && !self.responses
    }
}

impl Adapter for OpenAi {
    const RULE: super::node::Rule = rule;

    fn record(&mut self, record: Node, collector: &mut Collector<'_>) {
        self.value(record, None, collector);
    }

    fn finish(&mut self, collector: &mut Collector<'_>) {
        self.broken_off(collector);
        std::mem::take(&mut self.spans).finish(collector);
        if !self.unfinished.is_empty() {
            collector.incomplete("a response was not completed");
            let count = self.unfinished.len();
            let message = format!(
                "asked for before they were completed, and not again afterwards: responses, {count} in all"
            );
            collector.warn("response_not_completed", message);
        }
    }
}

/// Skips texts, images and instructions.
fn rule(parent: Keep, name: &str, _before: &[(Box<str>, Node)]) -> Keep {
    match name {
        "text" | "arguments" | "input" | "results" | "result" | "encrypted_content" | "summary"
        | "instructions" | "tools" | "logprobs" | "delta" | "outputs" | "operation" | "usage"
        | "reasoning" | "image_url" | "partial_image_b64" | "messages" => Keep::Skip,
        _ => parent,
    }
}

impl OpenAi {
    fn value(&mut self, value: Node, voice: Option<&str>, collector: &mut Collector<'_>) {
        match value {
            Node::Object(_) => self.object(value, voice, collector),
            // A list may hold the outputs of several responses.
            Node::List(items) if items.iter().all(Node::is_object) && !items.is_empty() => {
                let place = collector.path().to_owned();
                for (index, item) in items.into_iter().enumerate() {
                    collector.at(format!("{place}[{index}]"));
                    self.object(item, voice, collector);
                }
                collector.at(place);
            }
            other => collector.warn("unmapped_item", format!("an output item is {}", other.kind())),
        }
    }

    fn object(&mut self, record: Node, voice: Option<&str>, collector: &mut Collector<'_>) {
        let kind = record.get("type").text().unwrap_or_default();
        let what = record.get("object").text().unwrap_or_default();
        if what.starts_with("chat.completion") || (record.get("choices").is_list() && what.is_empty()) {
            collector.warn(
                "wrong_api",
                "this is a chat.completions object, not one of the Responses API: it has choices, and no output items",
            );
        } else if what == "thread.run.step" {
            collector.recognise();
            self.steps = true;
            steps::map(&record, collector);
        } else if what == "trace" || what == "trace.span" {
            collector.recognise();
            self.responses = true;
            self.spans.add(&record, collector);
        } else if matches!(what, "list" | "") && record.get("data").is_list() {
            if what == "list" {
                collector.recognise();
            }
            for item in take_list(record, "data") {
                self.value(item, voice, collector);
            }
        } else if kind.starts_with("response.") || (kind == "error" && record.has("sequence_number")) {
            self.stream_event(record, collector);
        } else if what == "response" || (record.has("output") && kind.is_empty()) {
            self.response(record, collector);
        } else if kind == "run_item_stream_event" && record.get("item").is_object() {
            // The item of such an event names its agent.
            self.object(take(record, "item"), voice, collector);
        } else if kind == "tool_approval_item" {
            collector.recognise();
            self.responses = true;
            let raw = record.get("raw_item");
            let tool = record.get("tool_name").text().or_else(|| raw.get("name").text());
            let tool = tool.and_then(clean::label).unwrap_or("a tool");
            let message = format!("a call of {tool} waits for a person's approval: it is not made yet");
            collector.warn("approval_request", message);
        } else if record.get("raw_item").is_object() {
            // Items of the Agents SDK name their agent.
            let agent = record.get("agent").get("name").text().or_else(|| record.get("agent").text());
            let agent = agent.map(str::to_owned);
            self.value(take(record, "raw_item"), agent.as_deref(), collector);
        } else if record.has("custom_id") && !record.get("error").is_null() {
            collector.recognise();
            collector.incomplete("a request of a batch failed");
            collector.warn("run_error", "a request of a batch failed");
        } else if record.get("response").get("body").is_object() {
            self.value(take(take(record, "response"), "body"), voice, collector);
        } else if record.get("response").is_object() {
            self.value(take(record, "response"), voice, collector);
        } else if record.get("data").is_object() {
            // These are `{event, data}` records and the raw events of the Agents SDK.
            self.value(take(record, "data"), voice, collector);
        } else {
            self.responses = true;
            item(&record, Whose { voice, response: None }, collector);
        }
    }

    fn response(&mut self, response: Node, collector: &mut Collector<'_>) {
        collector.recognise();
        self.responses = true;
        let id = response.get("id").text().or_else(|| response.get("response_id").text());
        match response.get("status").text() {
            None | Some("completed") => {
                self.unfinished.retain(|known| Some(known.as_str()) != id);
            }
            // Polling returns this status repeatedly until the response is completed.
            Some("queued" | "in_progress") if id.is_some() && self.unfinished.len() < MAX_PENDING => {
                let id = id.unwrap_or_default();
                if !self.unfinished.iter().any(|known| known == id) {
                    self.unfinished.push(id.to_owned());
                }
                if response.get("output").items().is_empty() {
                    return;
                }
            }
            Some(status) => {
                self.unfinished.retain(|known| Some(known.as_str()) != id);
                collector.incomplete("a response was not completed");
                let code = response.get("error").get("code").text();
                let code = code.or_else(|| response.get("incomplete_details").get("reason").text());
                let code = code.map(|code| format!(" ({code})")).unwrap_or_default();
                collector
                    .warn("response_not_completed", format!("a response is {status}{code}, not completed"));
            }
        }
        match response.get("output") {
            Node::List(items) => {
                let place = collector.path().to_owned();
                for (index, output) in items.iter().enumerate() {
                    collector.at(format!("{place}.output[{index}]"));
                    item(output, Whose { voice: None, response: id }, collector);
                }
                collector.at(place);
            }
            other => {
                collector.incomplete("a response has no output");
                let message = match other {
                    Node::Null => "a response has no output yet: was it asked for too early?".to_owned(),
                    other => format!("the output of a response is {}", other.kind()),
                };
                collector.warn("no_output", message);
            }
        }
    }

    fn stream_event(&mut self, record: Node, collector: &mut Collector<'_>) {
        collector.recognise();
        self.responses = true;
        match record.get("type").text().unwrap_or_default() {
            "response.created" => {
                self.broken_off(collector);
                self.running = true;
                self.id = record.get("response").get("id").text().map(str::to_owned);
            }
            "response.output_item.done" => self.finished(take(record, "item"), collector),
            // The refusal is reported before its message is finished, which may never happen.
            "response.refusal.done" => {
                let id = record.get("item_id").clone();
                let part = Node::Object(vec![
                    ("type".into(), text("refusal")),
                    ("refusal".into(), take(record, "refusal")),
                ]);
                let message = Node::Object(vec![
                    ("type".into(), text("message")),
                    ("id".into(), id),
                    ("content".into(), Node::List(vec![part])),
                ]);
                self.finished(message, collector);
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                let finished = std::mem::take(&mut self.pending);
                self.running = false;
                let response = take(record, "response");
                let id = response.get("id").text().map(str::to_owned).or_else(|| self.id.take());
                let whose = Whose { voice: None, response: id.as_deref() };
                if id.as_deref().is_none_or(|id| collector.first(&format!("response:{id}"))) {
                    let is_empty = response.get("output").items().is_empty();
                    self.response(response, collector);
                    if is_empty && !finished.is_empty() {
                        let message = "a response ended without output, although items of it were finished: those are mapped";
                        collector.warn("empty_output", message);
                        for output in &finished {
                            item(output, whose, collector);
                        }
                    }
                }
            }
            "response.error" | "error" => {
                collector.incomplete("the stream reports an error");
                collector.warn("run_error", "the stream reports an error");
            }
            _ => self.running = true,
        }
    }

    /// Stores a finished item of a stream in place of earlier reports of it.
    fn finished(&mut self, item: Node, collector: &mut Collector<'_>) {
        self.running = true;
        let id = item.get("id");
        self.pending.retain(|known| id.is_null() || known.get("id") != id);
        if self.pending.len() < MAX_PENDING {
            self.pending.push(item);
        } else {
            collector.warn("stream_too_long", "an unfinished response has more items than are kept");
        }
    }

    /// Maps the finished items of a stream that never reported its end.
    fn broken_off(&mut self, collector: &mut Collector<'_>) {
        if !std::mem::take(&mut self.running) {
            return;
        }
        collector.incomplete("a stream ends before its response does");
        collector.warn(
            "stream_broken_off",
            "a stream ends before response.completed: only the items that were finished are mapped",
        );
        let id = self.id.take();
        for output in std::mem::take(&mut self.pending) {
            item(&output, Whose { voice: None, response: id.as_deref() }, collector);
        }
    }
}

/// Takes a member out of its object.
fn take(node: Node, name: &str) -> Node {
    let Node::Object(members) = node else { return Node::Null };
    members.into_iter().find(|(known, _)| **known == *name).map_or(Node::Null, |(_, value)| value)
}

fn text(text: &str) -> Node {
    Node::Text(Text { text: text.into(), whole: true })
}

fn take_list(node: Node, name: &str) -> Vec<Node> {
    if let Node::List(items) = take(node, name) { items } else { Vec::new() }
}

/// The origin of an item: its agent and its response, as far as known.
#[derive(Clone, Copy)]
struct Whose<'a> {
    voice: Option<&'a str>,
    response: Option<&'a str>,
}

/// Maps one output item.
fn item(item: &Node, whose: Whose<'_>, collector: &mut Collector<'_>) {
    if !item.is_object() {
        collector.warn("unmapped_item", format!("an output item is {}", item.kind()));
        return;
    }
    let voice = whose.voice;
    let Some(kind) = item.get("type").text() else {
        if item.has("role") && item.has("tool_calls") {
            collector.warn(
                "wrong_api",
                "a message with tool_calls is one of chat.completions, not of the Responses API",
            );
        } else if item.has("role") && item.has("content") {
            message(item, voice, collector);
        } else {
            collector.unknown_record();
            let message = format!("an output item has no type: it is {}", item.get("type").kind());
            collector.warn("unmapped_item", message);
        }
        return;
    };
    match kind {
        "message" => message(item, voice, collector),
        "reasoning" => collector.recognise(),
        kind if NAMED.contains(&kind) => {
            let name = item.get("name").text().or_else(|| item.get("function").get("name").text());
            match name {
                Some(name) => tool_call(name, item, whose, collector),
                None => collector.warn("nameless_call", format!("a {kind} names no tool")),
            }
        }
        kind if BUILT_IN.contains(&kind) => {
            tool_call(kind.trim_end_matches("_call"), item, whose, collector);
            if !item.get("pending_safety_checks").items().is_empty() {
                collector
                    .warn("safety_checks", "a computer_call has safety checks that nobody acknowledged yet");
            }
        }
        "mcp_approval_request" => collector.warn(
            "approval_request",
            "an mcp_approval_request waits for a person: that is no escalation that anybody attests",
        ),
        kind if kind.ends_with("_call_output") => collector.recognise(),
        kind => {
            // Types with a known prefix are recognised but no events; all others are unknown.
            let known =
                ["mcp_", "tool_search_", "compaction", "program", "additional_tools", "item_reference"]
                    .iter()
                    .any(|beginning| kind.starts_with(beginning));
            if known {
                collector.recognise();
            }
            collector.warn("unmapped_item", format!("an output item of type \"{kind}\" is no event"));
        }
    }
}

fn tool_call(name: &str, item: &Node, whose: Whose<'_>, collector: &mut Collector<'_>) {
    let own = item.get("id").text();
    let id = item.get("call_id").text().or(own);
    // A call may appear in items with several ids: in the response that made it, in a conversation that stores
    // it, and in the request that returns it. Another response makes other calls, even if a server restarts
    // its ids.
    let is_new = id.is_none_or(|id| collector.first_call(id, name, whose.response));
    let is_new_item = own.is_some_and(|own| collector.first(&format!("item:{own}")));
    if !is_new {
        // Items of a run name their agent after the response told the call.
        if let (Some(id), Some(voice)) = (id, whose.voice) {
            collector.name_caller(id, name, voice);
            return;
        }
        if is_new_item {
            collector.warn("call_told_again", "a call's id stands in several items: it counts once");
        }
        return;
    }
    let mut call = event(EventType::ToolCall);
    call.voice_name = collector.voice([whose.voice]);
    call.reference = Some(id.map_or_else(|| collector.path().to_owned(), str::to_owned));
    call.action = Some(name.to_owned());
    collector.event(call);
}

fn message(message: &Node, voice: Option<&str>, collector: &mut Collector<'_>) {
    collector.recognise();
    if matches!(message.get("role").text(), Some("user" | "system" | "developer" | "tool")) {
        return;
    }
    collector.somebody_took_part(voice);
    // Chat completions and some servers report a refusal beside the content.
    if message.get("refusal").text().is_some() {
        refused(explanation(message.get("refusal")), ".refusal", voice, collector);
    }
    match message.get("content") {
        Node::List(parts) => {
            for (index, part) in parts.iter().enumerate() {
                content(part, &format!(".content[{index}]"), voice, collector);
            }
        }
        Node::Text(_) => {}
        Node::Null if message.get("refusal").text().is_some() => {}
        other => collector.warn("odd_message", format!("the content of a message is {}", other.kind())),
    }
}

fn content(part: &Node, place: &str, voice: Option<&str>, collector: &mut Collector<'_>) {
    match part.get("type").text() {
        Some("output_text" | "text") => match part.get("annotations") {
            Node::Null => {}
            Node::List(annotations) => {
                for annotation in annotations {
                    cited(annotation, place, voice, collector);
                }
            }
            other => collector.warn_at("odd_annotations", format!("annotations are {}", other.kind()), place),
        },
        Some("refusal") => refused(explanation(part.get("refusal")), place, voice, collector),
        Some("input_text" | "input_image" | "input_file" | "reasoning_text" | "summary_text") => {}
        Some(kind) => {
            collector.warn_at("unmapped_content", format!("content of type \"{kind}\" is no event"), place);
        }
        None => {
            collector.warn_at("unmapped_content", format!("a part of a message is {}", part.kind()), place);
        }
    }
}

fn refused(why: Option<&str>, place: &str, voice: Option<&str>, collector: &mut Collector<'_>) {
    let mut warning = event(EventType::Warning);
    warning.voice_name = collector.voice([voice]);
    warning.reference = Some(format!("{}{place}", collector.path()));
    warning.detail = why.map(str::to_owned);
    collector.event(warning);
}

fn cited(annotation: &Node, place: &str, voice: Option<&str>, collector: &mut Collector<'_>) {
    let named = |name: &str| clean::name(annotation.get(name)).map(str::to_owned);
    let number =
        |name: &str| annotation.get(name).integer().map(|number| number.to_string()).unwrap_or_default();
    let (reference, detail) = match annotation.get("type").text() {
        Some("file_citation") => {
            let Some(file) = named("file_id").or_else(|| named("filename")) else {
                return collector.warn_at("odd_citation", "a file_citation names no file", place);
            };
            (format!("{file}@{}", number("index")), named("filename"))
        }
        Some("url_citation") => {
            let Some(url) = annotation.get("url").text() else {
                return collector.warn_at("odd_citation", "a url_citation names no address", place);
            };
            let detail = named("title").map_or_else(|| url.to_owned(), |title| format!("{title} {url}"));
            (format!("{}-{}@{url}", number("start_index"), number("end_index")), Some(detail))
        }
        Some(kind) => {
            let message = format!("an annotation of type \"{kind}\" is no citation that counts");
            return collector.warn_at("unmapped_annotation", message, place);
        }
        None => {
            let message = format!("an annotation is {}", annotation.kind());
            return collector.warn_at("unmapped_annotation", message, place);
        }
    };
    let mut cited = event(EventType::EvidenceCited);
    cited.voice_name = collector.voice([voice]);
    cited.reference = Some(reference);
    cited.detail = detail;
    collector.event(cited);
}
