//! Sections 13 and 16 to 18 of the Choir Protocol: adapters translate and do not judge. Section 18 is tested
//! sentence by sentence.

#![expect(clippy::unwrap_used, reason = "tests")]

use chorus_choir::{Evidence, Taken, merge, read_score, rehearse};
use chorus_choir_adapters::{About, Format, adapt};
use chorus_protocol::choir::evidence::{Bundle, EventType};
use chorus_protocol::choir::receipt::{ReceiptLabel, VerificationStatus};
use serde_json::{Value, json};

/// The event types that a bundle may contain.
const KINDS: [&str; 16] = [
    "tool_call",
    "evidence_cited",
    "warning",
    "dissent",
    "escalation",
    "handoff",
    "voice_entry",
    "final_output",
    "missed_entry",
    "wrong_note",
    "ignored_warning",
    "suppressed_dissent",
    "authority_breach",
    "unsupported_claim",
    "missed_escalation",
    "dropped_handoff",
];

fn read(format: Format, trace: &Value) -> Bundle {
    adapt(Some(format), trace.to_string().as_bytes(), &About::default()).unwrap()
}

fn crew(trace: Value) -> Vec<&'static str> {
    read(Format::CrewAi, &trace).events.iter().map(|event| event.event_type.as_str()).collect()
}

/// Returns traces full of words that sound like findings.
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
    // The voice is found in every member that is searched, in any case, and by an alias.
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
    // Unknown names are kept with a warning; the first one in the search order is used.
    let unknown = of(json!({"agent_name": "Stranger", "role": "Other"}));
    assert_eq!(unknown.events[0].voice_name.as_deref(), Some("Stranger"));
    assert_eq!(unknown.adapter_warnings[0].code, "unknown_voice");
}

#[test]
fn section_13_an_adapter_alone_verifies_nothing() {
    let trace = json!([{"policy_node": {"tool_calls": [{"name": "look_up", "id": "c1"}]}}]).to_string();
    let declared = read_score(json!({
        "title": "Refunds",
        "voices": [{"name": "Policy", "aliases": ["policy_node"]}, {"name": "Drafter", "final_voice": true}],
        "scenarios": [{"id": "s", "severity": "high", "required_voices": ["Policy", "Drafter"]}],
    }))
    .unwrap();
    let about = About { voices: &declared.voices, ..About::default() };
    let made = adapt(Some(Format::LangGraph), trace.as_bytes(), &about).unwrap();
    // Each framework has its own schema id and version.
    let adapter = made.adapter.clone().unwrap();
    assert_eq!((adapter.id.as_str(), adapter.version.is_empty()), ("langgraph.stream.v1", false));
    let ids: std::collections::HashSet<_> = Format::ALL.iter().map(|format| format.adapter()).collect();
    assert_eq!(ids.len(), Format::ALL.len());
    // A signature makes observations verified, not the program that wrote the JSON; and it changes only the
    // label.
    let with = |status| {
        let evidence = Evidence::new(status, vec![Taken::read(json!(made)).unwrap()]);
        rehearse(&declared, Some(&evidence)).unwrap()
    };
    let (asserted, signed) =
        (with(VerificationStatus::UserAsserted), with(VerificationStatus::SignatureValid));
    assert_eq!(asserted.label, ReceiptLabel::Observed);
    assert!(asserted.evidence.as_ref().unwrap().statement.contains("not independently verified"));
    assert_eq!(signed.label, ReceiptLabel::Verified);
    assert_eq!(asserted.dimensions, signed.dimensions);
    assert_eq!(asserted.false_harmony.risk, signed.false_harmony.risk);
    assert_eq!(asserted.verdict, signed.verdict);
    assert_eq!(asserted.adjustments, signed.adjustments);
}
