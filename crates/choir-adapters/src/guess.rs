//! Guesses the framework of a trace from names and types that only it uses. Only the beginning of the trace is
//! examined.

use super::Format;
use super::reader::{Kind, ReadError, Reader};

/// The maximum depth at which names are examined. Deeper levels are prompts and arguments.
const DEEPEST: usize = 7;
const LONGEST: usize = 64;

/// The votes for each format.
#[derive(Default)]
struct Votes {
    openai: u32,
    langgraph: u32,
    crewai: u32,
    otel: u32,
    /// Set if the records are objects with one member that is an object or null, as node updates are.
    update: bool,
}

/// Returns the format of a trace from its beginning, or `None` if nothing indicates one.
pub(super) fn guess(beginning: &[u8]) -> Option<Format> {
    let mut votes = Votes::default();
    let mut reader = Reader::with_buffer(beginning, beginning.len() + 1);
    let mut event = None;
    loop {
        match reader.peek() {
            Ok(Some(b'e' | b'd' | b'i' | b'r' | b':')) => {
                if !reader.field(&mut event).unwrap_or(false) {
                    break;
                }
            }
            // Parsing fails where the beginning is cut off.
            Ok(Some(_)) if votes.value(&mut reader, 0, false).is_ok() => {}
            _ => break,
        }
    }
    votes.winner()
}

impl Votes {
    fn winner(&self) -> Option<Format> {
        let all = [
            (self.openai, Format::OpenAi),
            (self.langgraph, Format::LangGraph),
            (self.crewai, Format::CrewAi),
            (self.otel, Format::Otel),
        ];
        let most = all.iter().map(|(votes, _)| *votes).max().unwrap_or(0);
        let mut best = all.iter().filter(|(votes, _)| *votes == most);
        match (most, best.next(), best.next()) {
            (0, ..) => self.update.then_some(Format::LangGraph),
            (_, Some((_, format)), None) => Some(*format),
            _ => None,
        }
    }

    fn value(&mut self, reader: &mut Reader<&[u8]>, depth: usize, in_list: bool) -> Result<(), ReadError> {
        match reader.kind()? {
            Kind::Object if depth < DEEPEST => self.object(reader, depth, in_list),
            Kind::List if depth < DEEPEST => {
                reader.enter()?;
                let mut first = true;
                while reader.element(first)? {
                    // A tuple may begin with a namespace.
                    let namespace = first && depth == 1 && reader.kind()? == Kind::List;
                    self.langgraph += 2 * u32::from(namespace);
                    first = false;
                    self.value(reader, depth + 1, true)?;
                }
                Ok(())
            }
            Kind::Text if in_list && depth <= 2 => {
                let mut text = Vec::new();
                reader.text(&mut text, LONGEST)?;
                let modes: [&[u8]; 6] = [b"updates", b"values", b"messages", b"debug", b"tasks", b"custom"];
                self.langgraph += 2 * u32::from(modes.contains(&text.as_slice()));
                Ok(())
            }
            _ => reader.skip(),
        }
    }

    fn object(&mut self, reader: &mut Reader<&[u8]>, depth: usize, in_list: bool) -> Result<(), ReadError> {
        reader.enter()?;
        let (mut name, mut count) = (Vec::new(), 0);
        let is_record = depth == 0 || (in_list && depth == 1);
        while reader.member(count == 0, &mut name)? {
            count += 1;
            let name = String::from_utf8_lossy(&name).into_owned();
            self.name(&name);
            let kind = reader.kind()?;
            if is_record {
                // The vote is cast before the value is read, because the beginning may end inside it.
                let nested = kind == Kind::Object || (kind == Kind::Other && reader.peek()? == Some(b'n'));
                self.update = nested && count == 1;
            }
            if kind == Kind::Text {
                let mut text = Vec::new();
                reader.text(&mut text, LONGEST)?;
                self.word(&name, &String::from_utf8_lossy(&text));
            } else {
                self.value(reader, depth + 1, false)?;
            }
        }
        Ok(())
    }

    fn name(&mut self, name: &str) {
        match name {
            "resourceSpans"
            | "scopeSpans"
            | "startTimeUnixNano"
            | "resourceLogs"
            | "scopeLogs"
            | "logRecords"
            | "observedTimeUnixNano" => self.otel += 9,
            "severityNumber" | "severity_number" | "observed_timestamp" | "span_id" | "spanId" | "spanID"
            | "parentSpanId" | "trace_state" => self.otel += 4,
            "langgraph_node" | "__interrupt__" | "langgraph_step" => self.langgraph += 9,
            "invalid_tool_calls" | "triggers" | "interrupts" | "streamed_output" => self.langgraph += 4,
            "additional_kwargs" | "response_metadata" | "lc" | "page_content" => self.langgraph += 1,
            "tasks_output" | "result_as_answer" | "emission_sequence" | "source_fingerprint" => {
                self.crewai += 9;
            }
            "agent_role" | "json_dict" | "crew_name" | "event_data" | "crew_agent" | "tool_args" => {
                self.crewai += 4;
            }
            "raw_item" | "incomplete_details" | "previous_response_id" => self.openai += 9,
            "annotations" | "call_id" | "choices" => self.openai += 1,
            name if ["gen_ai.", "traceloop.", "openinference."]
                .iter()
                .any(|start| name.starts_with(start)) =>
            {
                self.otel += 4;
            }
            _ => {}
        }
    }

    fn word(&mut self, name: &str, text: &str) {
        const CREWAI: [&str; 12] = [
            "tool_usage_",
            "crew_kickoff_",
            "task_",
            "agent_execution_",
            "llm_guardrail_",
            "llm_call_",
            "flow_",
            "method_execution_",
            "human_feedback_",
            "mcp_tool_execution_",
            "knowledge_",
            "memory_",
        ];
        const OPENAI: [&str; 14] = [
            "function_call",
            "function_call_output",
            "custom_tool_call",
            "file_search_call",
            "web_search_call",
            "computer_call",
            "code_interpreter_call",
            "mcp_call",
            "image_generation_call",
            "reasoning",
            "message",
            "output_text",
            "refusal",
            "url_citation",
        ];
        match name {
            "object"
                if matches!(
                    text,
                    "response" | "thread.run.step" | "chat.completion" | "trace.span" | "trace"
                ) =>
            {
                self.openai += 9;
            }
            "type" if text.starts_with("response.") => self.openai += 4,
            "type" if matches!(text, "run_item_stream_event" | "tool_approval_item") => self.openai += 4,
            "type" if OPENAI.contains(&text) => self.openai += 2,
            "type" if text != "task_result" && CREWAI.iter().any(|start| text.starts_with(start)) => {
                self.crewai += 4;
            }
            "type"
                if matches!(
                    text,
                    "ai" | "human" | "AIMessageChunk" | "constructor" | "checkpoint" | "task_result"
                ) =>
            {
                self.langgraph += 2;
            }
            "event" if text.starts_with("on_chain") || text.starts_with("on_chat_model") => {
                self.langgraph += 4;
            }
            "event" if matches!(text, "updates" | "values" | "messages" | "metadata") => self.langgraph += 2,
            "method"
                if matches!(text, "updates" | "values" | "messages" | "tools" | "lifecycle" | "tasks") =>
            {
                self.langgraph += 2;
            }
            "path" if text.starts_with("/logs/") || text.starts_with("/streamed_output/") => {
                self.langgraph += 4;
            }
            "eventName" | "event_name" | "event.name" if text.starts_with("gen_ai.") => self.otel += 4,
            "cls" if matches!(text, "AgentAction" | "ToolResult" | "AgentFinish") => self.crewai += 9,
            "key" if text.starts_with("gen_ai.") || text.starts_with("traceloop.") => self.otel += 4,
            _ => {}
        }
    }
}
