//! Spans of the Agents SDK, in both of its exports: one `trace.span` object each, or a list of them under
//! `data`. They are the only record of handoffs and of guardrails that tripped.

use crate::clean;
use crate::collector::{Collector, event};
use crate::node::Node;
use chorus_protocol::choir::evidence::EventType;
use std::collections::HashMap;

/// The maximum number of spans that are kept until the end of a trace.
const MAX_SPANS: usize = 20_000;
/// The maximum number of surrounding spans that are searched for an agent.
const MAX_ANCESTORS: usize = 64;

struct SdkSpan {
    id: String,
    parent: Option<String>,
    kind: String,
    name: Option<String>,
    /// For a handoff: the two agents.
    from: Option<String>,
    to: Option<String>,
    is_triggered: bool,
    has_failed: bool,
    started_at: Option<String>,
    path: String,
}

/// The spans of a trace, in the order in which they ended.
#[derive(Default)]
pub(super) struct Spans {
    all: Vec<SdkSpan>,
    left_out: usize,
}

impl Spans {
    /// Keeps a span. A `trace` object has nothing of its own.
    pub(super) fn add(&mut self, record: &Node, collector: &mut Collector<'_>) {
        let data = record.get("span_data");
        if record.get("object").text() != Some("trace.span") {
            return;
        }
        if self.all.len() == MAX_SPANS {
            self.left_out += 1;
            return;
        }
        let owned = |node: &Node| node.text().map(str::to_owned);
        self.all.push(SdkSpan {
            id: owned(record.get("id")).unwrap_or_default(),
            parent: owned(record.get("parent_id")),
            kind: owned(data.get("type")).unwrap_or_default(),
            name: owned(data.get("name")),
            from: owned(data.get("from_agent")),
            to: owned(data.get("to_agent")),
            is_triggered: *data.get("triggered") == Node::Bool(true),
            has_failed: !record.get("error").is_null(),
            started_at: owned(record.get("started_at")),
            path: collector.path().to_owned(),
        });
    }

    /// Maps the spans in the order in which they began.
    pub(super) fn finish(mut self, collector: &mut Collector<'_>) {
        self.all.sort_by(|one, other| one.started_at.cmp(&other.started_at));
        let places: HashMap<&str, usize> =
            self.all.iter().enumerate().map(|(place, span)| (span.id.as_str(), place)).collect();
        for span in &self.all {
            collector.at(span.path.clone());
            self.map(span, &places, collector);
        }
        if self.left_out > 0 {
            collector.incomplete("some spans were left out");
            let message = format!("{} spans were left out: {MAX_SPANS} are kept of a trace", self.left_out);
            collector.warn("spans_left_out", message);
        }
    }

    /// Returns the agent around a span.
    fn agent(&self, span: &SdkSpan, places: &HashMap<&str, usize>) -> Option<&str> {
        let mut parent = span.parent.as_deref();
        for _ in 0..MAX_ANCESTORS {
            let around = &self.all[*places.get(parent?)?];
            if around.kind == "agent" {
                return around.name.as_deref();
            }
            parent = around.parent.as_deref();
        }
        None
    }

    fn map(&self, span: &SdkSpan, places: &HashMap<&str, usize>, collector: &mut Collector<'_>) {
        let agent = self.agent(span, places);
        if span.has_failed && span.kind == "agent" {
            collector.incomplete("an agent ended with an error");
            collector.warn("run_error", "an agent ended with an error");
        }
        match span.kind.as_str() {
            "agent" => collector.somebody_took_part(span.name.as_deref()),
            "function" => {
                let Some(name) = &span.name else {
                    return collector.warn("nameless_call", "a function span names no tool");
                };
                if !collector.first_call(&span.id, name, None) {
                    return;
                }
                let mut call = event(EventType::ToolCall);
                call.voice_name = collector.voice([agent]);
                call.reference = Some(span.id.clone());
                call.action = Some(name.clone());
                call.occurred_at.clone_from(&span.started_at);
                collector.event(call);
            }
            "guardrail" if span.is_triggered && collector.first(&format!("guardrail:{}", span.id)) => {
                let mut warning = event(EventType::Warning);
                warning.voice_name = collector.voice([span.name.as_deref(), agent]);
                warning.reference = Some(span.id.clone());
                warning.occurred_at.clone_from(&span.started_at);
                collector.event(warning);
            }
            "handoff" => {
                let name = |name: &Option<String>| {
                    name.as_deref().and_then(clean::label).unwrap_or("somebody").to_owned()
                };
                let (from, to) = (name(&span.from), name(&span.to));
                let message = format!("{from} handed over to {to}: no trace shows that it was acknowledged");
                collector.warn("handoff", message);
            }
            "generation" | "response" | "guardrail" | "mcp_tools" | "turn" | "task" | "speech"
            | "speech_group" | "transcription" => {}
            kind => {
                let kind = clean::label(kind).unwrap_or("…");
                collector.warn("unmapped_span", format!("a span of type \"{kind}\" is no event"));
            }
        }
    }
}
