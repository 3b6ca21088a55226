//! The adapter `otel.genai.v1`: OpenTelemetry spans by the conventions of GenAI, OpenInference and Traceloop,
//! and log records that are events of the GenAI conventions.
//!
//! The input is OTLP/JSON, or a list of spans and log records as printed by SDKs. Spans are exported when they
//! end and know their parent only by its id, so events wait until all spans are read. They are then ordered by
//! the start of their spans, and a voice is looked up in the surrounding spans. Log records hold the answers
//! of models: a call that a model requested was made if its result was reported to the model; a span is the
//! better source. Of spans that are no events only the id, the parent's id and the agent's name are kept.

mod log;
mod said;
mod span;

use super::clean;
use super::collector::{Collector, event};
use super::node::{Keep, Node, embedded};
use super::records::Adapter;
use super::signs::{almost_guarded, guarded};
use super::sources::{Citing, cite};
use chorus_protocol::choir::evidence::{Event, EventType, MAX_EVENTS};
use log::Log;
use span::{Span, attributes, found, untyped};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// The maximum size of JSON in an attribute, in bytes.
const EMBEDDED: usize = 64 * 1024;
/// The maximum number of spans whose parents are remembered.
const MAX_SPANS: usize = 200_000;
/// The attributes that name a node of a graph, used if no agent is named.
const NODES: [&str; 3] =
    ["traceloop.association.properties.langgraph_node", "graph.node.id", "traceloop.entity.name"];
/// The attributes that name an agent.
const AGENTS: [&str; 4] = [
    "gen_ai.agent.name",
    "agent.name",
    "gen_ai.handoff.from_agent",
    // Traceloop's spans of LangGraph.
    "traceloop.association.properties.lc_agent_name",
];
/// The maximum number of surrounding spans that are searched for an agent's name.
const MAX_ANCESTORS: usize = 64;

#[derive(Default)]
pub(super) struct Otel {
    waiting: Vec<Waiting>,
    left_out: usize,
    /// The spans read so far, by trace and id.
    known: HashSet<(u64, u64)>,
    /// The parent and the agent of each span, by id.
    spans: HashMap<u64, (u64, Option<Rc<str>>)>,
    agents: HashMap<Rc<str>, Rc<str>>,
    count: usize,
    /// Set if a span without a parent was read.
    rooted: bool,
    /// Calls that a model requested and no span reports, with their tools if known.
    asked: HashMap<String, Option<String>>,
    /// Calls whose results were reported to models in log records.
    answered: HashMap<String, Waiting>,
    logs: usize,
}

/// An event whose voice is not known yet.
struct Waiting {
    start: i64,
    order: usize,
    span: u64,
    /// Its own names: those that take precedence over surrounding agents, and those that do not.
    before: Option<String>,
    after: Vec<String>,
    event: Event,
}

impl Adapter for Otel {
    const RULE: super::node::Rule = rule;
    const LISTS: &'static [&'static str] = &[
        "resourceSpans",
        "resource_spans",
        "scopeSpans",
        "scope_spans",
        "instrumentationLibrarySpans",
        "spans",
        "resourceLogs",
        "resource_logs",
        "scopeLogs",
        "scope_logs",
        "logRecords",
        "log_records",
        // Tempo and Jaeger return traces in these members.
        "batches",
        "data",
    ];

    fn record(&mut self, record: Node, collector: &mut Collector<'_>) {
        if let Some(log) = Log::read(&record) {
            return self.log(&log, collector);
        }
        match Span::read(&record) {
            Some(span) => self.span(&span, collector),
            // A resource may have no spans.
            None if record.has("resource") || record.has("scope") => collector.recognise(),
            None => {
                collector.unknown_record();
                collector.warn("unmapped_record", format!("a record is no span but {}", record.kind()));
            }
        }
    }

    fn finish(&mut self, collector: &mut Collector<'_>) {
        if self.count > MAX_SPANS {
            let message = format!("{} spans are more than are remembered: voices may be missing", self.count);
            collector.warn("many_spans", message);
        }
        if self.count > 0 && !self.rooted {
            // The root span is exported last, when the run has ended.
            collector.incomplete("the span around all others is missing");
        }
        if self.logs > 0 && self.count == 0 {
            collector.incomplete("log records without spans tell what models said, not all that was done");
        }
        self.calls_by_logs(collector);
        if !self.asked.is_empty() {
            collector.incomplete("calls have no span of their own");
            let message = format!(
                "{} calls that a model asked for have no span of their own: nobody says that they were made",
                self.asked.len()
            );
            collector.warn("calls_without_spans", message);
        }
        self.keep_earliest(MAX_EVENTS);
        for mut waiting in std::mem::take(&mut self.waiting) {
            let around = self.agents_around(waiting.span);
            let names = waiting.before.as_deref().into_iter().chain(around.iter().map(|name| &**name));
            let names = names.chain(waiting.after.iter().map(String::as_str));
            waiting.event.voice_name = collector.voice(names.map(Some));
            if let Some(target) = waiting.event.target_voice.take() {
                waiting.event.target_voice = collector.voice([Some(target.as_str())]);
            }
            collector.event(waiting.event);
        }
        collector.leave_out(self.left_out);
    }
}

/// Skips inputs and instructions; some outputs hold JSON.
fn rule(parent: Keep, name: &str, _before: &[(Box<str>, Node)]) -> Keep {
    match name {
        "stringValue"
        | "string_value"
        | "gen_ai.output.messages"
        | "output.value"
        | "gen_ai.event.content"
        | "gen_ai.retrieval.documents"
        | "body" => Keep::Long(EMBEDDED),
        "links"
        | "resource"
        | "input.value"
        | "gen_ai.input.messages"
        | "gen_ai.system_instructions"
        | "gen_ai.tool.definitions"
        | "gen_ai.tool.call.arguments"
        | "gen_ai.tool.call.result"
        | "gen_ai.task.input"
        | "gen_ai.task.output"
        | "traceloop.entity.input"
        | "traceloop.entity.output" => Keep::Skip,
        _ => match parent {
            Keep::Long(_) => Keep::All,
            parent => parent,
        },
    }
}

/// The prefix of the names of spans that hand over to another agent.
const HANDOFF: &str = "handoff to ";

/// The meaning of a span by the conventions of its instrumentation.
enum Meaning {
    Tool,
    Retrieval,
    Handoff,
    Guardrail,
    Model,
    Nothing,
    Unknown,
}

fn meaning(span: &Span<'_>) -> Meaning {
    let open_inference = span.text("openinference.span.kind").map(str::to_uppercase);
    let by_operation = match span.text("gen_ai.operation.name") {
        Some("execute_tool") => Meaning::Tool,
        Some("retrieval") => Meaning::Retrieval,
        Some("handoff") => Meaning::Handoff,
        Some("chat" | "generate_content" | "text_completion") => Meaning::Model,
        Some("invoke_agent" | "create_agent" | "invoke_workflow" | "plan" | "embeddings") => Meaning::Nothing,
        Some(operation) if operation.ends_with("_memory") || operation.starts_with("ai.generate") => {
            Meaning::Nothing
        }
        _ => Meaning::Unknown,
    };
    if !matches!(by_operation, Meaning::Unknown) {
        return by_operation;
    }
    match (open_inference.as_deref(), span.text("traceloop.span.kind")) {
        // Instrumentations of the Agents SDK report a handoff as a tool.
        (Some("TOOL"), _) if span.text("tool.name").is_none() && span.name.starts_with(HANDOFF) => {
            Meaning::Handoff
        }
        (Some("TOOL"), _) | (_, Some("tool")) => Meaning::Tool,
        (Some("RETRIEVER"), _) => Meaning::Retrieval,
        (Some("GUARDRAIL"), _) => Meaning::Guardrail,
        (_, Some("handoff")) => Meaning::Handoff,
        (Some("LLM"), _) => Meaning::Model,
        (Some("AGENT" | "CHAIN" | "EMBEDDING" | "EVALUATOR" | "RERANKER" | "PROMPT"), _)
        | (_, Some("agent" | "workflow")) => Meaning::Nothing,
        _ if span.text("llm.request.type").is_some() => Meaning::Model,
        _ => otherwise(span),
    }
}

/// Returns the meaning of a span by other or older conventions.
fn otherwise(span: &Span<'_>) -> Meaning {
    match (span.text("ai.operationId"), span.text("mcp.method.name")) {
        (Some("ai.toolCall"), _) => Meaning::Tool,
        (Some(operation), _) if operation.starts_with("ai.") => Meaning::Nothing,
        // Both client and server report a call over MCP.
        (_, Some("tools/call")) if span.is_served => Meaning::Nothing,
        (_, Some("tools/call")) => Meaning::Tool,
        (_, Some(_)) => Meaning::Nothing,
        _ if span.text("gen_ai.tool.name").is_some() && span.text("gen_ai.tool.call.id").is_some() => {
            Meaning::Tool
        }
        _ => Meaning::Unknown,
    }
}

impl Otel {
    fn span(&mut self, span: &Span<'_>, collector: &mut Collector<'_>) {
        collector.recognise();
        // A span exported twice happened once.
        if self.known.contains(&(span.trace, span.id)) {
            return;
        }
        if self.known.len() < MAX_SPANS {
            self.known.insert((span.trace, span.id));
        }
        let graph = NODES.iter().map(|name| span.text(name));
        collector.took_part(std::iter::once(span.agent()).chain(graph));
        self.count += 1;
        self.rooted |= span.parent == 0;
        if self.spans.len() < MAX_SPANS {
            let agent = span.agent().map(|name| self.interned(name));
            self.spans.insert(span.id, (span.parent, agent));
        }
        match meaning(span) {
            Meaning::Tool => self.tool(span, collector),
            Meaning::Retrieval => self.retrieval(span, collector),
            Meaning::Handoff => self.handoff(span, collector),
            Meaning::Guardrail => self.guardrail(span, collector),
            Meaning::Model => self.model(span, collector),
            Meaning::Nothing => {}
            Meaning::Unknown => {
                let message = format!("spans called \"{}\" are no events", span.label());
                collector.warn("unmapped_span", message);
            }
        }
    }

    fn interned(&mut self, name: &str) -> Rc<str> {
        if let Some(known) = self.agents.get(name) {
            return Rc::clone(known);
        }
        let name: Rc<str> = name.chars().take(200).collect::<String>().into();
        self.agents.insert(Rc::clone(&name), Rc::clone(&name));
        name
    }

    fn wait(&mut self, span: &Span<'_>, event: Event) {
        let waiting = Waiting {
            start: span.start,
            order: self.count + self.logs,
            span: span.parent,
            before: span.agent().map(str::to_owned),
            after: NODES.iter().filter_map(|name| span.text(name)).map(str::to_owned).collect(),
            event,
        };
        self.keep(waiting);
    }

    fn keep(&mut self, waiting: Waiting) {
        self.waiting.push(waiting);
        if self.waiting.len() > 4 * MAX_EVENTS {
            self.keep_earliest(MAX_EVENTS);
        }
    }

    fn keep_earliest(&mut self, count: usize) {
        self.waiting.sort_by_key(|waiting| (waiting.start, waiting.order));
        self.left_out += self.waiting.len().saturating_sub(count);
        self.waiting.truncate(count);
    }

    fn agents_around(&self, mut span: u64) -> Vec<Rc<str>> {
        let mut agents = Vec::new();
        for _ in 0..MAX_ANCESTORS {
            let Some((parent, agent)) = self.spans.get(&span) else { break };
            agents.extend(agent.clone());
            span = *parent;
        }
        agents
    }

    fn tool(&mut self, span: &Span<'_>, collector: &mut Collector<'_>) {
        let name = ["gen_ai.tool.name", "tool.name", "ai.toolCall.name", "traceloop.entity.name"]
            .iter()
            .find_map(|name| span.text(name));
        let name = name
            .or_else(|| span.name.strip_prefix("execute_tool "))
            .or_else(|| span.name.strip_prefix("tools/call "))
            .map(str::trim);
        let Some(name) = name.filter(|name| !name.is_empty()) else {
            return collector.warn("nameless_call", "a tool's span names no tool");
        };
        let id = ["gen_ai.tool.call.id", "tool_call.id", "tool.id", "ai.toolCall.id"]
            .iter()
            .find_map(|name| span.text(name));
        if let Some(id) = id {
            self.asked.remove(id);
            collector.first(&format!("made:{id}"));
        }
        if id.is_some_and(|id| !collector.first_call(id, name, None)) {
            return;
        }
        let mut call = span.event(EventType::ToolCall);
        call.reference = id.map(str::to_owned).or(call.reference);
        call.action = Some(name.to_owned());
        self.wait(span, call);
    }

    fn retrieval(&mut self, span: &Span<'_>, collector: &mut Collector<'_>) {
        let documents = match span.attribute("gen_ai.retrieval.documents") {
            Node::Text(text) => embedded(text, rule).unwrap_or(Node::Null),
            Node::Null => span.numbered("retrieval.documents."),
            documents => untyped(documents),
        };
        if documents.items().is_empty() {
            return collector
                .warn("no_documents", format!("\"{}\" retrieved nothing that can be read", span.label()));
        }
        let who = format!("{:016x}", span.id);
        let citing = Citing { voice: None, who: &who, member: "documents", occurred_at: span.occurred_at() };
        // The events are collected separately, because they wait like all others.
        for event in collector.apart(|apart| cite(&documents, &citing, apart, |_, _| false)) {
            self.wait(span, event);
        }
    }

    fn handoff(&mut self, span: &Span<'_>, _collector: &mut Collector<'_>) {
        let mut escalation = span.event(EventType::Escalation);
        let target = span.text("gen_ai.handoff.to_agent").or_else(|| span.name.strip_prefix(HANDOFF));
        let target = target.filter(|name| *name != "unknown");
        escalation.target_voice = target.map(str::to_owned);
        self.wait(span, escalation);
    }

    fn guardrail(&mut self, span: &Span<'_>, collector: &mut Collector<'_>) {
        let output = match span.attribute("output.value") {
            Node::Text(text) => embedded(text, rule)
                .unwrap_or_else(|| Node::Object(vec![("status".into(), Node::Text(text.clone()))])),
            output => untyped(output),
        };
        let is = |names: &[&str], wanted| names.iter().any(|name| *output.get(name) == Node::Bool(wanted));
        let flags = guarded(&output);
        let status = output.get("status").text().map(str::to_lowercase);
        let fine = is(&["passed", "success", "valid", "allowed", "safe"], true)
            || is(&["flagged", "blocked", "refused", "unsafe", "triggered"], false)
            || matches!(
                status.as_deref(),
                Some("passed" | "pass" | "success" | "ok" | "allowed" | "safe" | "valid")
            );
        let failed = matches!(status.as_deref(), Some("failed" | "fail"));
        if flags.raised || failed || is(&["passed", "success", "valid", "allowed"], false) {
            let mut warning = span.event(EventType::Warning);
            warning.action = clean::label(span.name).map(str::to_owned);
            warning.detail = flags.text.map(str::to_owned);
            self.wait(span, warning);
        } else if !fine || almost_guarded(&output) {
            collector
                .warn("undecided_guard", format!("guardrail \"{}\" does not say how it ended", span.label()));
        }
    }

    fn model(&mut self, span: &Span<'_>, collector: &mut Collector<'_>) {
        let messages = said::messages(span.outputs(), collector);
        let flattened =
            span.flattened(|name| name.contains(".tool_calls.") && name.rsplit('.').next() == Some("id"));
        let asked = said::asked(&messages).into_iter().chain(flattened.map(|id| (id, None)));
        self.note_asked(asked, collector);
        let reasons = span.attribute("gen_ai.response.finish_reasons");
        let is_filtered = reasons.items().iter().any(said::filtered)
            || span.flattened(|name| name.ends_with("finish_reason")).any(|why| why == "content_filter");
        for (index, detail) in said::kept_back(&messages, is_filtered).into_iter().enumerate() {
            if first_kept_back(span.id, index, collector) {
                self.wait(span, Event { detail, ..span.event(EventType::Warning) });
            }
        }
    }

    /// Remembers the calls that a model requested until their spans are read.
    fn note_asked<'n>(
        &mut self,
        asked: impl Iterator<Item = (&'n str, Option<&'n str>)>,
        collector: &Collector<'_>,
    ) {
        for (id, name) in asked {
            if self.asked.len() < MAX_EVENTS && !collector.told(&format!("made:{id}")) {
                let known = self.asked.entry(id.to_owned()).or_default();
                *known = known.take().or_else(|| name.map(str::to_owned));
            }
        }
    }
}

/// Returns `true` if a withheld answer of this span is reported for the first time. Both the span and its log
/// record report it.
fn first_kept_back(span: u64, index: usize, collector: &mut Collector<'_>) -> bool {
    collector.first(&format!("kept back:{span:016x}:{index}"))
}

/// These functions map a span to an event.
impl Span<'_> {
    /// Returns the output of a model: from the span itself, or else from its events.
    fn outputs(&self) -> Vec<&Node> {
        let own = self.attribute("gen_ai.output.messages");
        if !own.is_null() {
            return vec![own];
        }
        let told = |name: &str| matches!(name, "gen_ai.choice" | "gen_ai.client.inference.operation.details");
        let events = self.events.items().iter();
        let events = events.filter(|event| event.get("name").text().is_some_and(told));
        let said = events.flat_map(|event| {
            let attributes = attributes(event.get("attributes"));
            ["gen_ai.output.messages", "gen_ai.event.content"].map(|name| found(&attributes, name))
        });
        said.filter(|node| !node.is_null()).collect()
    }

    fn event(&self, kind: EventType) -> Event {
        Event { reference: Some(format!("{:016x}", self.id)), occurred_at: self.occurred_at(), ..event(kind) }
    }

    /// Returns the name of the span if it looks like an identifier, since it may hold any text.
    fn label(&self) -> &str {
        clean::label(self.name).unwrap_or("…")
    }

    /// Returns the agent that the span names.
    fn agent(&self) -> Option<&str> {
        let kind = self.text("traceloop.span.kind") == Some("agent");
        AGENTS
            .iter()
            .find_map(|name| self.text(name))
            .or_else(|| self.text("traceloop.entity.name").filter(|_| kind))
    }
}

#[cfg(test)]
mod tests {
    use super::span::span_id;

    #[test]
    fn ids_in_every_spelling() {
        assert_eq!(span_id("0x0145bc343af4de48"), span_id("0145BC343AF4DE48"));
        // Base64, as in protobuf's own JSON, and any other form give distinct numbers.
        assert_ne!(span_id("AUW8NDr03kg="), span_id("AUW8NDr03kh="));
        assert_eq!(span_id(""), 0);
    }
}
