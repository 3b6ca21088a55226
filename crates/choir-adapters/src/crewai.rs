//! The adapter `crewai.kickoff.v1`: dumps of an event listener, tracing records, step logs, task outputs and
//! kickoff results.
//!
//! A dumped event embeds whole agents, tasks and crews, with the keys of their models in clear text; only
//! their names are read. A call is reported when it starts and when it ends, and counts once. [`kinds`] maps
//! event types, [`tasks`] maps task outputs, and [`runs`] tracks whether crews and flows have ended.

mod kinds;
mod runs;
mod tasks;

use super::clean::{self, explanation};
use super::collector::{Collector, event};
use super::node::{Keep, Node};
use super::records::Adapter;
use super::reviews::{self, dissents};
use super::signs::{guarded, is_reviewer, reason};
use chorus_protocol::choir::evidence::{Disposition, Event, EventType};
use kinds::{Kind, kind_of, snake};
use runs::Runs;
use std::collections::HashMap;

#[derive(Default)]
pub(super) struct CrewAi {
    /// The number of calls without an end, by kind and name, for ends that do not refer to their beginning.
    open: HashMap<String, u32>,
    runs: Runs,
    /// The number of tasks completed since the last crew ended.
    tasks: usize,
    kickoffs: bool,
    events: bool,
}

impl Adapter for CrewAi {
    const RULE: super::node::Rule = rule;
    const LISTS: &'static [&'static str] = &["events", "tasks_output"];

    fn record(&mut self, record: Node, collector: &mut Collector<'_>) {
        match &record {
            Node::Object(_) => self.object(&record, collector),
            Node::Text(_) => {
                collector.incomplete("some records are texts, which are not read");
                collector.warn("text_record", "a record is a text: texts are never parsed");
            }
            other => collector.warn("unmapped_record", format!("a record is {}", other.kind())),
        }
    }

    fn finish(&mut self, collector: &mut Collector<'_>) {
        if let Some(why) = self.runs.unfinished() {
            collector.incomplete(why);
        }
        if self.kickoffs && !self.events {
            collector.incomplete("results do not say what was done for them");
        }
        if self.kickoffs && !self.events {
            collector.warn(
                "results_only",
                "results of tasks hold no tool calls, delegations or guardrails: dump the events of a listener",
            );
        }
    }
}

/// Keeps only scalar members of agents, tasks and crews, and skips prompts, sources and results.
fn rule(parent: Keep, name: &str, _before: &[(Box<str>, Node)]) -> Keep {
    match name {
        "agent" | "task" | "agent_info" | "tool_args" => Keep::Shallow,
        "crew" | "from_agent" | "from_task" | "tools" | "messages" | "guardrail" | "llm" | "agents"
        | "tasks" | "tools_results" | "raw" | "description" | "expected_output" | "tool_input"
        | "thought" | "usage" | "response" | "state" | "agent_card" | "chunk" | "token_usage" => Keep::Skip,
        _ => parent,
    }
}

/// An event with its surrounding record.
struct Record<'a> {
    /// The event, or the data of a tracing record.
    node: &'a Node,
    /// The surrounding record.
    outer: &'a Node,
}

impl<'a> Record<'a> {
    fn get(&self, name: &str) -> &'a Node {
        self.node.member(name).unwrap_or_else(|| self.outer.get(name))
    }

    fn text(&self, name: &str) -> Option<&'a str> {
        self.get(name).text()
    }

    /// Returns the id of the record.
    fn id(&self) -> Option<&'a str> {
        ["event_id", "id", "call_id"].iter().find_map(|name| self.text(name))
    }

    /// Returns the possible names of the voice, most reliable first.
    fn names(&self) -> [Option<&'a str>; 12] {
        let (agent, task) = (self.get("agent"), self.get("task"));
        [
            self.text("voice_name"),
            self.text("agent_name"),
            agent.text(),
            agent.get("role").text(),
            agent.get("name").text(),
            self.text("agent_role"),
            self.text("role"),
            self.text("crew_agent"),
            task.get("agent").text().or_else(|| task.get("agent").get("role").text()),
            task.get("name").text(),
            self.text("task_name"),
            // A flow has methods and no agents.
            self.text("method_name"),
        ]
    }
}

impl CrewAi {
    fn object(&mut self, record: &Node, collector: &mut Collector<'_>) {
        let data = record.get("event_data");
        let record = Record { node: if data.is_object() { data } else { record }, outer: record };
        if record.outer.has("event_type") && attested(&record, collector) {
            return;
        }
        let kind = record.outer.get("type").text().or_else(|| record.outer.get("event_type").text());
        let kind = kind.or_else(|| record.outer.get("event").text());
        match kind {
            Some(kind) if clean::label(kind) != Some(kind.trim()) => {
                collector.warn("unmapped_record", "a record's type is a text: texts are never parsed");
            }
            Some(kind) => self.event(&snake(kind), &record, collector),
            None if record.get("tool").text().is_some() && record.node.has("tool_input") => {
                collector.recognise();
                self.events = true;
                collector.took_part(record.names());
                tool(record.text("tool"), &record, collector);
            }
            None if tasks::is_output(record.node) => {
                collector.recognise();
                self.kickoffs = true;
                collector.took_part(record.names());
                tasks::map(record.node, &record, collector);
            }
            None if is_step_result(record.node) => collector.recognise(),
            None if is_review(&record) => self.review(&record, collector),
            None if is_log(record.node) => {
                collector.recognise();
                collector.warn("log_record", "a line of output_log_file holds only what was said");
            }
            None => {
                let members = record.node.members().iter().take(4);
                let names: Vec<_> = members.filter_map(|(name, _)| clean::label(name)).collect();
                let message = format!("a record is nothing that CrewAI writes ({})", names.join(", "));
                collector.warn("unmapped_record", message);
            }
        }
    }

    fn event(&mut self, kind: &str, record: &Record<'_>, collector: &mut Collector<'_>) {
        let meaning = kind_of(kind);
        // An event exported twice happened once. A call's id may be reused for another call.
        let told_again =
            matches!(meaning, Kind::Guard { .. } | Kind::TaskCompleted | Kind::Knowledge | Kind::ModelEnded)
                && record.text("event_id").is_some_and(|id| !collector.first(&format!("{kind}\u{1f}{id}")));
        if told_again {
            return;
        }
        collector.took_part(record.names());
        if meaning != Kind::Unknown {
            collector.recognise();
            self.events |= !matches!(meaning, Kind::RunStarted | Kind::KickoffCompleted | Kind::RunEnded);
        }
        self.runs.note(meaning, kind, record.text("crew_name").or_else(|| record.text("flow_name")));
        match meaning {
            Kind::ToolStarted => self.started("tool", record, collector),
            Kind::ToolEnded => self.ended("tool", record, collector),
            Kind::DelegationStarted => self.started("delegation", record, collector),
            Kind::DelegationEnded => self.ended("delegation", record, collector),
            // A method pauses, and its flow with it, for a question that may have been reported already.
            Kind::Paused if self.is_open("human", record) => {}
            Kind::HumanAsked | Kind::Paused => self.started("human", record, collector),
            Kind::HumanAnswered => self.ended("human", record, collector),
            Kind::Knowledge => tasks::retrieved(record, collector),
            Kind::ModelEnded => filtered(record, collector),
            Kind::KickoffCompleted => {
                if std::mem::take(&mut self.tasks) == 0 {
                    self.kickoffs = true;
                    tasks::of_crew(record, collector);
                }
            }
            Kind::Guard { says_so } => guard(kind, says_so, record, collector),
            Kind::TaskCompleted => {
                self.tasks += 1;
                let output = record.get("output");
                tasks::map(output, &Record { node: output, outer: record.node }, collector);
            }
            Kind::MethodEnded => {
                // The result of a method is not a task output, whatever its form; the warning asks for a
                // person's attention.
                if tasks::is_output(record.get("result")) {
                    let method = record.text("method_name").and_then(clean::label).unwrap_or("…");
                    let message = format!(
                        "what the method \"{method}\" of a flow gave names sources, but only those of tasks are events"
                    );
                    collector.warn("method_output", message);
                }
            }
            Kind::Failure | Kind::RunFailed => {
                collector.warn("run_error", format!("the run reports a {kind}"));
            }
            Kind::Review => self.review(record, collector),
            Kind::Nothing | Kind::RunStarted | Kind::RunEnded => {}
            Kind::Unknown => {
                if is_review(record) {
                    self.review(record, collector);
                } else {
                    collector.warn("unmapped_record", format!("a record of type \"{kind}\" is no event"));
                }
            }
        }
    }

    fn key(what: &str, record: &Record<'_>) -> String {
        let tool = tool_of(record).map(snake).unwrap_or_default();
        let who = record.names().into_iter().flatten().next().unwrap_or_default();
        format!("{what}\u{1f}{tool}\u{1f}{who}")
    }

    fn is_open(&self, what: &str, record: &Record<'_>) -> bool {
        self.open.get(&Self::key(what, record)).is_some_and(|count| *count > 0)
    }

    fn started(&mut self, what: &str, record: &Record<'_>, collector: &mut Collector<'_>) {
        let key = Self::key(what, record);
        if let Some(id) = record.id() {
            collector.first(&format!("event:{id}"));
            // An id may be reused for another call.
            if !collector.first(&format!("event:{id}\u{1f}{key}")) {
                return;
            }
        }
        *self.open.entry(key).or_default() += 1;
        emit(what, record, collector);
    }

    /// Handles the end of a call. It counts only if the beginning was not reported.
    fn ended(&mut self, what: &str, record: &Record<'_>, collector: &mut Collector<'_>) {
        let open = self.open.get_mut(&Self::key(what, record)).filter(|count| **count > 0);
        let begun = match record.text("started_event_id") {
            Some(id) => !collector.first(&format!("event:{id}")),
            None => open.is_some() || record.id().is_some_and(|id| !collector.first(&format!("event:{id}"))),
        };
        if let (true, Some(open)) = (begun, open) {
            *open -= 1;
        }
        if !begun {
            emit(what, record, collector);
        }
    }

    fn review(&mut self, record: &Record<'_>, collector: &mut Collector<'_>) {
        collector.recognise();
        self.events = true;
        dissent(record.node, record, collector);
    }
}

fn emit(what: &str, record: &Record<'_>, collector: &mut Collector<'_>) {
    match what {
        "tool" => tool(tool_of(record), record, collector),
        _ => escalate(record, collector),
    }
}

fn tool(name: Option<&str>, record: &Record<'_>, collector: &mut Collector<'_>) {
    match name {
        Some(name) if is_delegation(name) => escalate(record, collector),
        Some(name) => {
            let mut call = begun(EventType::ToolCall, record, collector);
            call.action = Some(name.to_owned());
            collector.event(call);
        }
        None => collector.warn("nameless_call", "a tool call names no tool"),
    }
}

/// Creates an event with the voice, reference and time of the record.
fn begun(kind: EventType, record: &Record<'_>, collector: &mut Collector<'_>) -> Event {
    Event {
        voice_name: collector.voice(record.names()),
        reference: Some(record.id().map_or_else(|| collector.path().to_owned(), str::to_owned)),
        occurred_at: record.text("timestamp").map(str::to_owned),
        ..event(kind)
    }
}

fn tool_of<'a>(record: &Record<'a>) -> Option<&'a str> {
    let function = record.get("function").get("name").text();
    ["tool_name", "tool", "name"].iter().find_map(|name| record.text(name)).or(function)
}

/// Returns `true` for CrewAI's delegation tool in any of its spellings.
fn is_delegation(tool: &str) -> bool {
    let name: String = tool.trim().to_lowercase().split([' ', '_']).collect::<Vec<_>>().join(" ");
    matches!(name.as_str(), "delegate work to coworker" | "delegate work to co-worker")
}

fn escalate(record: &Record<'_>, collector: &mut Collector<'_>) {
    let mut escalation = begun(EventType::Escalation, record, collector);
    let args = record.get("tool_args");
    // ReAct agents write their arguments as a text of JSON.
    let written = args.text().and_then(coworker);
    let target = args.get("coworker").text().or(written.as_deref()).or_else(|| record.text("coworker"));
    let target = target.or_else(|| record.text("a2a_agent_name"));
    if target.is_none() && !args.is_null() {
        collector.warn(
            "delegation_without_target",
            "a delegation does not say to whom in a form that can be read",
        );
    }
    if target.is_some() {
        escalation.target_voice = collector.voice([target]);
    }
    escalation.action = tool_of(record).map(str::to_owned);
    // The question to a person is a prompt and is not copied.
    escalation.detail = explanation(record.get("reason")).map(str::to_owned);
    collector.event(escalation);
}

/// Returns the coworker that arguments in the form of a text name.
fn coworker(args: &str) -> Option<String> {
    let args = chorus_protocol::canonical::parse(args.as_bytes()).ok()?;
    args["coworker"].as_str().map(str::to_owned)
}

/// Maps a guardrail, policy or safety event. It must state its outcome by a flag or by its type.
fn guard(kind: &str, says_so: bool, record: &Record<'_>, collector: &mut Collector<'_>) {
    let is = |names: &[&str], wanted| names.iter().any(|name| *record.get(name) == Node::Bool(wanted));
    let flags = guarded(record.node);
    let passed = ["success", "passed", "allowed", "safe", "valid"];
    let caught = ["unsafe", "violated", "violation", "triggered"];
    let failed = is(&passed, false) || is(&caught, true) || flags.raised;
    let fine = is(&passed, true) || is(&["flagged", "blocked", "refused", "unsafe", "triggered"], false);
    if failed || (says_so && !fine) {
        let mut warning = begun(EventType::Warning, record, collector);
        warning.action = clean::title(record.get("guardrail_name")).map(str::to_owned);
        let detail = explanation(record.get("error")).or(flags.text).or_else(|| reason(record.node));
        warning.detail = detail.map(str::to_owned);
        collector.event(warning);
    } else if !fine {
        collector.warn("undecided_guard", format!("a {kind} does not say how it ended"));
    }
}

/// Returns `true` for a record of a critic or reviewer with a review in it.
fn is_review(record: &Record<'_>) -> bool {
    let named = record.names().into_iter().flatten().next().is_some_and(is_reviewer);
    named && reviews::is_review(record.node)
}

/// Adds the dissents that a reviewer's structured output states.
fn dissent(node: &Node, record: &Record<'_>, collector: &mut Collector<'_>) {
    let own = record.names().into_iter().flatten().next().unwrap_or("a reviewer");
    for dissent in dissents(node, own, collector) {
        let mut event = begun(EventType::Dissent, record, collector);
        if let Some(who) = dissent.who.filter(|who| *who != own) {
            event.voice_name = collector.voice([Some(who)]);
            event.reference = event.reference.map(|reference| format!("{reference}.{who}"));
        }
        event.detail = dissent.why.map(str::to_owned);
        collector.event(event);
    }
}

/// Adds a warning if a provider withheld a model's answer.
fn filtered(record: &Record<'_>, collector: &mut Collector<'_>) {
    const KEPT_BACK: [&str; 9] = [
        "content_filter",
        "content_filtered",
        "guardrail_intervened",
        "refusal",
        "safety",
        "prohibited_content",
        "blocklist",
        "spii",
        "image_safety",
    ];
    let reason = record.text("finish_reason").map(|reason| snake(after_dot(reason)));
    if let Some(reason) = reason.filter(|reason| KEPT_BACK.contains(&reason.as_str())) {
        let mut warning = begun(EventType::Warning, record, collector);
        warning.detail = Some(reason);
        collector.event(warning);
    }
}

/// Returns the name of an enum value that Python printed: `FinishReason.SAFETY` is SAFETY.
fn after_dot(reason: &str) -> &str {
    reason.rsplit('.').next().unwrap_or(reason)
}

/// Maps a record in which the caller names an event type of the evidence protocol.
fn attested(record: &Record<'_>, collector: &mut Collector<'_>) -> bool {
    let Some(word) = record.text("event_type") else { return false };
    let Some(kind) = EventType::parse(word).or_else(|| EventType::parse(&word.to_lowercase())) else {
        return false;
    };
    collector.recognise();
    if kind.as_str() != word {
        collector.warn("spelling", format!("event_type \"{word}\" was read as \"{}\"", kind.as_str()));
    }
    if kind == EventType::ToolCall && tool_of(record).is_some_and(is_delegation) {
        escalate(record, collector);
        return true;
    }
    let may_reach = matches!(kind, EventType::Warning | EventType::Dissent | EventType::Escalation);
    let may_settle = matches!(kind, EventType::Warning | EventType::Dissent);
    let text = |names: &[&str]| names.iter().find_map(|name| record.text(name)).map(str::to_owned);
    let mut event = begun(kind, record, collector);
    event.reference = text(&["ref", "event_id", "id"]).or(event.reference);
    event.scenario_id = text(&["scenario_id"]);
    event.action = text(&["action", "tool_name", "tool"]);
    event.detail = text(&["detail", "reason", "message"]);
    event.target_voice = text(&["target_voice"]);
    event.occurred_at = text(&["occurred_at", "timestamp"]);
    event.reached_output = flag("reached_output", may_reach, record, collector);
    let disposition = |node: &Node| Disposition::parse(node.text()?);
    event.disposition = member("disposition", may_settle, disposition, record, collector);
    event.acknowledged = flag("acknowledged", kind == EventType::Handoff, record, collector);
    // The index counts the events of another list, so it is not used.
    member("refers_to", false, |_| Some(()), record, collector);
    collector.event(event);
    true
}

fn flag(name: &str, may: bool, record: &Record<'_>, collector: &mut Collector<'_>) -> Option<bool> {
    let value = |node: &Node| if let Node::Bool(value) = node { Some(*value) } else { None };
    member(name, may, value, record, collector)
}

/// Returns a member of a caller's event, if this type may have it. A member that is not used causes a warning.
fn member<T>(
    name: &str,
    may: bool,
    value: impl FnOnce(&Node) -> Option<T>,
    record: &Record<'_>,
    collector: &mut Collector<'_>,
) -> Option<T> {
    let node = record.get(name);
    let taken = if may { value(node) } else { None };
    if taken.is_none() && !node.is_null() {
        let why = if may {
            "its value is none that it may have"
        } else {
            "events of this type are read without it"
        };
        collector.warn("unread_member", format!("\"{name}\" was left out: {why}"));
    }
    taken
}

/// Returns `true` for the end of a step: the result of a tool, or the last answer.
fn is_step_result(node: &Node) -> bool {
    matches!(node.get("cls").text(), Some("ToolResult" | "AgentFinish"))
        || (node.has("result") && node.has("result_as_answer"))
        || (node.has("thought") && node.has("output") && node.has("text"))
}

fn is_log(node: &Node) -> bool {
    node.has("task_name") && node.has("status") && node.has("timestamp")
}
