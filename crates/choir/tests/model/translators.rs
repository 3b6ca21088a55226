//! Sections 16 to 18: adapters are translators and no authorities; what each sentence of the third one's mapping says.

use crate::support::KINDS;
use chorus_choir::adapters::{About, Format, adapt};
use chorus_choir::{Taken, merge, read_score};
use chorus_protocol::choir::evidence::{Bundle, EventType};
use serde_json::{Value, json};

fn read(format: Format, trace: &Value) -> Bundle {
    adapt(Some(format), trace.to_string().as_bytes(), &About::default()).unwrap()
}

fn crew(trace: Value) -> Vec<&'static str> {
    read(Format::CrewAi, &trace).events.iter().map(|event| event.event_type.as_str()).collect()
}

/// Traces full of words that sound like findings.
fn alarming() -> [(Format, Value); 3] {
    let prose = "breach of authority, missed escalation, unsupported claim, rejected, blocked";
    [
        (
            Format::OpenAi,
            json!([{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": prose}]},
                {"type": "function_call", "name": "escalate_to_human", "call_id": "1"},
                {"type": "function_call", "name": "suppressed_dissent", "call_id": "2"}]),
        ),
        (
            Format::LangGraph,
            json!([{"answer": {"messages": [{"type": "ai", "content": prose}]}}, {"false_harmony": {"missed_entry": true}}]),
        ),
        (
            Format::CrewAi,
            json!([{"type": "agent_execution_completed", "event_id": "1", "output": prose},
                {"type": "task_failed", "event_id": "2", "error": prose}]),
        ),
    ]
}

#[test]
fn sections_16_to_18_adapters_infer_nothing_that_is_the_engines() {
    for (format, trace) in alarming() {
        for event in read(format, &trace).events {
            assert_eq!(event.event_type, EventType::ToolCall, "{trace}");
        }
    }
}

#[test]
fn sections_16_to_18_adapters_are_pure_and_give_one_format() {
    let bundles: Vec<_> = alarming()
        .iter()
        .map(|(format, trace)| {
            let once = read(*format, trace);
            assert_eq!(once, read(*format, trace));
            assert_eq!(Taken::read(json!(once)).unwrap().bundle, once);
            once
        })
        .collect();
    // Segments of three frameworks make one bundle.
    let merged = merge(&bundles);
    assert_eq!(merged.events.len(), bundles.iter().map(|bundle| bundle.events.len()).sum::<usize>());
    assert!(Taken::read(json!(merged)).is_ok());
}

#[test]
fn section_18_every_shape_that_crewai_emits() {
    let cited = json!({"raw": "{}", "pydantic": {"sources": ["a.pdf"]}, "json_dict": null, "agent": "R"});
    for (shape, trace, expected) in [
        ("kickoff result", json!({"raw": "x", "tasks_output": [cited]}), "evidence_cited"),
        ("task outputs", json!([cited]), "evidence_cited"),
        (
            "listener events",
            json!([{"type": "tool_usage_started", "tool_name": "x", "event_id": "1"}]),
            "tool_call",
        ),
        (
            "tracing records",
            json!([{"type": "tool_usage_started", "event_id": "1", "event_data": {"tool_name": "x"}}]),
            "tool_call",
        ),
        ("step logs", json!([{"tool": "x", "tool_input": "{}", "thought": "t", "text": "t"}]), "tool_call"),
    ] {
        assert_eq!(crew(trace), [expected], "{shape}");
    }
}

#[test]
fn section_18_what_becomes_what() {
    for kind in ["tool_call", "tool_use", "tool_execution"] {
        assert_eq!(crew(json!([{"type": kind, "tool": "x", "id": "1"}])), ["tool_call"], "{kind}");
    }
    for kind in ["delegation", "handoff", "manager_allocation", "human_in_the_loop"] {
        assert_eq!(crew(json!([{"type": kind, "agent": "Boss", "id": "1"}])), ["escalation"], "{kind}");
    }
    let delegated = json!([{"type": "tool_use", "tool": "Delegate work to coworker", "id": "1"}]);
    assert_eq!(crew(delegated), ["escalation"]);
    for member in ["citations", "sources", "knowledge", "references"] {
        let many: Vec<_> = (0..60).map(|n| format!("{n}.pdf")).collect();
        assert_eq!(
            crew(json!([{"raw": "x", member: ["a.pdf", "b.pdf"]}])),
            ["evidence_cited"; 2],
            "{member}"
        );
        assert_eq!(crew(json!([{"raw": "x", member: many}])).len(), 50, "capped");
    }
    for kind in ["safety_violation", "guardrail_blocked", "refusal", "blocked", "unsafe", "policy_violation"]
    {
        assert_eq!(crew(json!([{"type": kind, "id": "1", "agent": "A"}])), ["warning"], "{kind}");
    }
    for (said, dissents) in [
        (json!({"disagree": true}), true),
        (json!({"objection": "no source"}), true),
        (json!({"verdict": "rejected"}), true),
        (json!({"verdict": "approved"}), false),
        (json!({"approved": true}), false),
    ] {
        for who in ["Critic", "Reviewer"] {
            let mut record = json!({"type": "review", "agent_name": who, "id": "1"});
            for (member, value) in said.as_object().unwrap() {
                record[member] = value.clone();
            }
            let expected: &[&str] = if dissents { &["dissent"] } else { &[] };
            assert_eq!(crew(json!([record])), expected, "{record}");
        }
    }
    for text in [
        json!({"raw": "The answer is 42; nobody objected.", "pydantic": null}),
        json!([{"type": "agent_execution_completed", "output": "rejected"}]),
    ] {
        assert!(crew(text.clone()).is_empty(), "{text}");
    }
}

#[test]
fn section_18_what_the_caller_attests_passes_through() {
    for kind in KINDS {
        assert_eq!(crew(json!([{"event_type": kind, "voice_name": "A", "id": "1", "tool": "x"}])), [kind]);
    }
    assert!(crew(json!([{"event_type": "false_harmony", "voice_name": "A", "id": "1"}])).is_empty());
}

#[test]
fn section_18_whose_it_is() {
    let score = json!({"title": "t", "voices": [{"name": "Writer", "aliases": ["author"]}], "scenarios": [{"id": "s", "severity": "low"}]});
    let score = read_score(score).unwrap();
    let about = About { voices: &score.voices, ..About::default() };
    let of = |more: Value| {
        let mut record = json!({"type": "tool_call", "tool": "x", "id": "1"});
        for (member, value) in more.as_object().unwrap() {
            record[member] = value.clone();
        }
        adapt(Some(Format::CrewAi), json!([record]).to_string().as_bytes(), &about).unwrap()
    };
    // Every place of the walk, in any case, and by an alias.
    for named in [
        json!({"voice_name": "WRITER"}),
        json!({"agent_name": "author"}),
        json!({"agent": {"role": "writer"}}),
        json!({"agent": {"name": "writer"}}),
        json!({"role": "Author"}),
        json!({"crew_agent": "writer"}),
        json!({"task": {"agent": "writer"}}),
        json!({"task": {"name": "writer"}}),
        json!({"agent_name": "nobody", "task": {"name": "writer"}}),
    ] {
        let bundle = of(named.clone());
        assert_eq!(bundle.events[0].voice_name.as_deref(), Some("Writer"), "{named}");
        assert!(bundle.adapter_warnings.is_empty(), "{named}");
    }
    // Unknown ones are surfaced and kept, the first of the walk.
    let unknown = of(json!({"agent_name": "Stranger", "role": "Other"}));
    assert_eq!(unknown.events[0].voice_name.as_deref(), Some("Stranger"));
    assert_eq!(unknown.adapter_warnings[0].code, "unknown_voice");
}
