//! Log records in the form of OTLP/JSON or of an SDK's printer. Records with the name of a GenAI event hold
//! the answers of models and the results reported to them.

use super::span::{attributes, found, nanoseconds, span_id, untyped};
use super::{Otel, Waiting, first_kept_back, rule, said};
use crate::clean;
use crate::collector::{Collector, event};
use crate::node::{Node, embedded};
use chorus_protocol::choir::evidence::{Event, EventType, MAX_EVENTS};
use chorus_protocol::time::rfc3339;

pub(super) struct Log<'a> {
    /// The name of the event, if it has one.
    name: Option<&'a str>,
    /// The id of the span in which it was written; 0 for none.
    span: u64,
    /// The time in nanoseconds since 1970.
    time: i64,
    attributes: Vec<(&'a str, &'a Node)>,
    body: &'a Node,
}

impl<'a> Log<'a> {
    /// Reads a log record. Returns `None` if the value is none.
    pub(super) fn read(record: &'a Node) -> Option<Self> {
        const OWN: [&str; 8] = [
            "body",
            "eventName",
            "event_name",
            "severityNumber",
            "severity_number",
            "observedTimeUnixNano",
            "observed_time_unix_nano",
            "observed_timestamp",
        ];
        // A span has a start; a log record has a single time.
        const BEGINS: [&str; 4] = ["startTimeUnixNano", "start_time_unix_nano", "start_time", "startTime"];
        let has = |names: &[&str]| names.iter().any(|name| record.has(name));
        if !has(&OWN) || has(&BEGINS) {
            return None;
        }
        let any = |names: &[&str]| names.iter().find_map(|name| record.get(name).text());
        let attributes = attributes(record.get("attributes"));
        let time =
            ["timeUnixNano", "time_unix_nano", "timestamp", "observedTimeUnixNano", "observed_timestamp"];
        let time = time.iter().filter_map(|name| record.member(name)).find_map(|time| {
            time.integer().or_else(|| time.text().and_then(nanoseconds)).filter(|time| *time > 0)
        });
        Some(Self {
            name: any(&["eventName", "event_name"]).or_else(|| found(&attributes, "event.name").text()),
            span: any(&["spanId", "span_id", "spanID"]).map_or(0, span_id),
            time: time.unwrap_or_default(),
            attributes,
            body: record.get("body"),
        })
    }

    fn attribute(&self, name: &str) -> &'a Node {
        found(&self.attributes, name)
    }

    fn agent(&self) -> Option<&'a str> {
        self.attribute("gen_ai.agent.name").text()
    }

    /// Returns the body: a value, a typed value of OTLP, or JSON in a text.
    fn body(&self) -> Node {
        let body = untyped(self.body);
        if let Node::Text(text) = &body { embedded(text, rule).unwrap_or(Node::Null) } else { body }
    }

    /// Returns `true` if the body is a text that was truncated.
    fn is_cut(&self) -> bool {
        matches!(untyped(self.body), Node::Text(text) if !text.whole)
    }

    fn occurred_at(&self) -> Option<String> {
        (self.time > 0).then(|| rfc3339(self.time / 1_000_000))
    }
}

impl Otel {
    /// Maps a log record: the answer of a model, or a result reported to it.
    pub(super) fn log(&mut self, log: &Log<'_>, collector: &mut Collector<'_>) {
        collector.recognise();
        self.logs += 1;
        match log.name {
            Some("gen_ai.choice" | "gen_ai.client.inference.operation.details") => self.said(log, collector),
            Some("gen_ai.tool.message") => self.answer(log),
            // These are inputs of models, and evaluations of their outputs.
            Some(
                "gen_ai.user.message"
                | "gen_ai.system.message"
                | "gen_ai.assistant.message"
                | "gen_ai.evaluation.result",
            ) => {}
            Some(name) => {
                let name = clean::label(name).unwrap_or("…");
                collector.warn("unmapped_log", format!("log records called \"{name}\" are no events"));
            }
            None => {
                collector.warn("unmapped_log", "log records that do not say what they are of are no events");
            }
        }
    }

    fn said(&mut self, log: &Log<'_>, collector: &mut Collector<'_>) {
        let (body, own) = (log.body(), log.attribute("gen_ai.output.messages"));
        if log.is_cut() {
            collector.warn("long_output", "what a model said is too long to be searched for refusals");
        }
        let in_body = body.get("gen_ai.output.messages");
        let told = [own, in_body, &body].into_iter().find(|told| !told.is_null()).unwrap_or(own);
        let messages = said::messages(vec![told], collector);
        self.note_asked(said::asked(&messages).into_iter(), collector);
        let reasons = log.attribute("gen_ai.response.finish_reasons");
        let is_filtered = reasons.items().iter().any(said::filtered);
        // The choices of one answer may come in separate records.
        let choice = body.get("index").integer().and_then(|index| usize::try_from(index).ok()).unwrap_or(0);
        for (index, detail) in said::kept_back(&messages, is_filtered).into_iter().enumerate() {
            if log.span == 0 || first_kept_back(log.span, choice + index, collector) {
                let event = Event { detail, ..self.log_event(log, EventType::Warning) };
                let waiting = self.by_log(log, event);
                self.keep(waiting);
            }
        }
    }

    /// Records a result reported to a model. Repetitions with the whole conversation are the same result.
    fn answer(&mut self, log: &Log<'_>) {
        let body = log.body();
        let id = body.get("id").text().or_else(|| log.attribute("id").text());
        if let Some(id) = id.filter(|id| self.answered.len() < MAX_EVENTS && !self.answered.contains_key(*id))
        {
            let event = Event { reference: Some(id.to_owned()), ..self.log_event(log, EventType::ToolCall) };
            let waiting = self.by_log(log, event);
            self.answered.insert(id.to_owned(), waiting);
        }
    }

    /// Adds the calls that a model requested and that no span reports, if their result was reported to the
    /// model.
    pub(super) fn calls_by_logs(&mut self, collector: &mut Collector<'_>) {
        let mut made: Vec<_> = std::mem::take(&mut self.answered).into_iter().collect();
        made.sort_by_key(|(_, waiting)| waiting.order);
        for (id, mut waiting) in made {
            match self.asked.remove(&id) {
                Some(Some(name)) if collector.first_call(&id, &name, None) => {
                    waiting.event.action = Some(name);
                    self.keep(waiting);
                }
                Some(Some(_)) => {}
                None if collector.told(&format!("made:{id}")) => {}
                Some(None) | None => collector
                    .warn("nameless_call", "a model was told the result of a call that names no tool"),
            }
        }
    }

    fn log_event(&self, log: &Log<'_>, kind: EventType) -> Event {
        let span = (log.span > 0).then(|| format!("{:016x}", log.span));
        let reference = span.unwrap_or_else(|| format!("log {}", self.logs));
        Event { reference: Some(reference), occurred_at: log.occurred_at(), ..event(kind) }
    }

    fn by_log(&self, log: &Log<'_>, event: Event) -> Waiting {
        let before = log.agent().map(str::to_owned);
        Waiting {
            start: log.time,
            order: self.count + self.logs,
            span: log.span,
            before,
            after: vec![],
            event,
        }
    }
}
