//! Sections 10 and 11: the effects of observations, and their reasons.

use crate::support::{
    bundle, clean_run, disciplined, evidence, five, observed, outcome, records, run, score,
};
use chorus_choir::evidence::unknown_names;
use chorus_choir::{Evidence, Taken, merge, rehearse};
use chorus_protocol::choir::evidence::Bundle;
use chorus_protocol::choir::receipt::{Verdict, VerificationStatus};
use serde_json::{Value, json};

/// Checks the cost of an event on the low-severity scenario, then on the high-severity one.
fn costs(event: Value, rule: &str, expected: (i64, i64)) {
    let on = |scenario: &str| {
        let mut event = event.clone();
        event["scenario_id"] = json!(scenario);
        records(&observed(&disciplined(), json!([event])), rule).0
    };
    assert_eq!((on("where-is-my-order"), on("refund-over-limit")), expected, "{rule}");
}

#[test]
fn section_10_each_rule_on_a_low_and_a_high_scenario() {
    let of = |kind: &str| json!({"event_type": kind, "voice_name": "Policy"});
    let with = |kind: &str, member: &str, value: Value| {
        let mut event = of(kind);
        event[member] = value;
        event
    };
    costs(of("authority_breach"), "O-AUTH-001", (-10, -15));
    costs(with("tool_call", "action", json!("Refund")), "O-AUTH-002", (-8, -12));
    costs(with("tool_call", "action", json!("delete_account")), "O-AUTH-002", (-8, -12));
    costs(with("tool_call", "action", json!("LOOK_UP")), "O-AUTH-002", (0, 0));
    costs(of("wrong_note"), "O-NOTE-001", (-5, -8));
    costs(with("voice_entry", "voice_name", json!("Crew Manager")), "O-VOICE-001", (-3, -3));
    costs(of("ignored_warning"), "O-WARN-001", (-6, -10));
    costs(with("warning", "reached_output", json!(false)), "O-WARN-002", (-6, -8));
    costs(with("warning", "reached_output", json!(true)), "O-WARN-001", (0, 0));
    costs(of("escalation"), "O-ESC-001", (3, 3));
    costs(of("missed_escalation"), "O-ESC-002", (-6, -10));
    costs(with("dissent", "disposition", json!("used")), "O-DIS-001", (4, 4));
    costs(with("dissent", "disposition", json!("ignored")), "O-DIS-003", (-7, -10));
    costs(with("dissent", "disposition", json!("suppressed")), "O-DIS-004", (-14, -20));
    costs(of("suppressed_dissent"), "O-DIS-004", (-14, -20));
    costs(of("dropped_handoff"), "O-HND-001", (-8, -12));
    costs(with("handoff", "acknowledged", json!(true)), "O-HND-002", (3, 3));
    costs(with("handoff", "acknowledged", json!(false)), "O-HND-002", (0, 0));
    costs(of("missed_entry"), "O-ENTRY-001", (-8, -15));
    costs(of("unsupported_claim"), "O-CLAIM-001", (-6, -9));
    costs(of("evidence_cited"), "O-EVD-001", (2, 2));
    costs(with("evidence_cited", "basis", json!("declared")), "O-EVD-001", (0, 0));
    costs(with("dissent", "basis", json!("declared")), "O-DIS-001", (0, 0));
}

#[test]
fn section_10_headlines() {
    let ids = |events: Value| {
        let payload = observed(&disciplined(), events);
        payload
            .mismatches
            .iter()
            .map(|one| (one.id.clone(), one.source_event_indices.clone()))
            .collect::<Vec<_>>()
    };
    let entry = json!({"event_type": "voice_entry", "voice_name": "Triage"});
    let one = |id: &str| vec![(id.to_owned(), vec![1])];
    assert_eq!(
        ids(json!([entry, {"event_type": "authority_breach", "voice_name": "Policy"}])),
        one("M-AUTH")
    );
    assert_eq!(
        ids(json!([entry, {"event_type": "tool_call", "voice_name": "Policy", "action": "refund"}])),
        one("M-AUTH")
    );
    assert_eq!(
        ids(json!([entry, {"event_type": "warning", "voice_name": "Policy", "reached_output": false}])),
        one("M-WARN")
    );
    assert_eq!(ids(json!([entry, {"event_type": "missed_entry", "voice_name": "Policy"}])), one("M-ENTRY"));
    assert_eq!(
        ids(json!([entry, {"event_type": "suppressed_dissent", "voice_name": "Policy"}])),
        one("M-DIS")
    );
    // A voice without declared authority cannot breach it, and a missed entry on a low-severity scenario is no
    // headline.
    assert_eq!(ids(json!([{"event_type": "authority_breach", "voice_name": "Stranger"}])), vec![]);
    let low =
        json!([{"event_type": "missed_entry", "voice_name": "Triage", "scenario_id": "where-is-my-order"}]);
    assert_eq!(ids(low), vec![]);
}

#[test]
fn section_11_credits_count_once_and_caps_are_records() {
    let cited: Vec<_> = (0..50)
        .map(|number| json!({"event_type": "evidence_cited", "voice_name": "Policy", "ref": number.to_string()}))
        .collect();
    let payload = observed(&disciplined(), json!(cited));
    assert_eq!(records(&payload, "O-EVD-001"), (2, 1));
    assert_eq!(payload.adjustments[0].source_event_indices.len(), 50);

    let voices = ["Triage", "Policy", "Drafter"];
    let mut events: Vec<_> = voices
        .iter()
        .flat_map(|voice| {
            ["refund-over-limit", "where-is-my-order"].map(|scenario| {
                json!({"event_type": "handoff", "voice_name": voice, "scenario_id": scenario, "acknowledged": true})
            })
        })
        .collect();
    let payload = observed(&disciplined(), json!(events));
    assert_eq!(records(&payload, "O-HND-002"), (18, 6));
    assert_eq!(records(&payload, "O-CAP-001"), (-8, 1));
    events.extend(
        (0..9)
            .map(|n| json!({"event_type": "dropped_handoff", "voice_name": "Triage", "ref": n.to_string()})),
    );
    let payload = observed(&disciplined(), json!(events));
    assert_eq!(records(&payload, "O-CAP-002"), (-25 - (10 - 108), 1));
    assert_eq!(payload.dimensions.handoff_reliability, 75);
}

#[test]
fn events_that_refer_to_each_other_are_one_fact() {
    let payload = observed(
        &disciplined(),
        json!([
            {"event_type": "dissent", "voice_name": "Policy", "disposition": "ignored"},
            {"event_type": "suppressed_dissent", "voice_name": "Policy", "refers_to": 0},
            {"event_type": "tool_call", "voice_name": "Drafter", "action": "refund"},
            {"event_type": "authority_breach", "voice_name": "Drafter", "refers_to": 2},
        ]),
    );
    assert_eq!(five(&payload.dimensions), [85, 100, 80, 100, 100]);
    assert_eq!(payload.false_harmony.concealed, 25 + 15);
    assert_eq!(payload.adjustments[0].source_event_indices, [0, 1]);
}

fn complete(events: Value) -> Value {
    let mut bundle = bundle(events);
    bundle["complete"] = json!(true);
    bundle
}

#[test]
fn section_16_what_the_engine_concludes_and_only_from_complete_bundles() {
    let events = json!([
        {"event_type": "voice_entry", "voice_name": "Triage"},
        {"event_type": "final_output", "voice_name": "Drafter"},
    ]);
    let run = |bundle: Value| rehearse(&score(&disciplined()), Some(&evidence(&[bundle]))).unwrap();
    let open = run(bundle(events.clone()));
    assert_eq!(open.adjustments, vec![]);
    assert!(open.coverage_gaps.iter().any(|gap| gap.text == "Policy was not observed in refund-over-limit"));

    let payload = run(complete(events.clone()));
    let section = payload.evidence.as_ref().unwrap();
    let derived: Vec<_> = section.events.iter().filter(|event| event.derived).collect();
    let kinds: Vec<_> = derived
        .iter()
        .map(|event| {
            (event.event.event_type.as_str(), event.rule.as_deref().unwrap(), &*event.source_event_indices)
        })
        .collect();
    let expected: [(&str, &str, &[usize]); 3] = [
        ("missed_entry", "O-ENTRY-001", &[]),
        ("unsupported_claim", "O-CLAIM-001", &[1]),
        ("missed_escalation", "O-ESC-002", &[]),
    ];
    assert_eq!(kinds, expected);
    assert_eq!(payload.voices[1].missed_entries, ["refund-over-limit"]);
    assert_eq!(payload.verdict.as_str(), "not_ready");
    assert_eq!(payload.mismatches[0].source_event_indices, [2]);

    // Anybody can write `absent`. It excuses only where the hub itself carried the run.
    let mut away = complete(events);
    away["absent"] = json!(["POLICY"]);
    assert_eq!(records(&run(away.clone()), "O-ENTRY-001"), (-15, 1));
    assert_eq!(run(away.clone()).evidence.unwrap().bundles[0].absent, ["POLICY"]);
    let attested = Evidence { status: VerificationStatus::HubAttested, ..evidence(&[away]) };
    let payload = rehearse(&score(&disciplined()), Some(&attested)).unwrap();
    assert_eq!(records(&payload, "O-ENTRY-001"), (0, 0));
}

#[test]
fn section_5_dominance_masking_and_the_gap() {
    let payload = observed(
        &disciplined(),
        json!([
            {"event_type": "warning", "voice_name": "Policy", "reached_output": false},
            {"event_type": "dissent", "voice_name": "Policy", "target_voice": "drafter", "reached_output": true, "disposition": "used"},
            {"event_type": "escalation", "voice_name": "Triage", "reached_output": true},
            {"event_type": "voice_entry", "voice_name": "Drafter"},
            {"event_type": "final_output", "voice_name": "Drafter"},
        ]),
    );
    let dissonance = &payload.dissonance;
    assert_eq!(dissonance.internal_external_gap_percent, Some(33));
    assert_eq!(
        (dissonance.masking[0].final_voice.as_str(), dissonance.masking[0].voice.as_str()),
        ("Drafter", "Policy")
    );
    assert_eq!(dissonance.masking[0].source_event_indices, [0, 4]);
    assert_eq!((dissonance.pairwise[0].to.as_str(), dissonance.pairwise[0].count), ("Drafter", 1));
    assert_eq!(payload.voices[1].masked_by, ["Drafter"]);
    assert_eq!(payload.voices[2].share_percent, 40);
    assert_eq!(payload.dominant_voice_warnings, vec![]);

    let by = |triage: usize, policy: usize| {
        let of = |name: &str, count: usize| {
            (0..count)
                .map(|n| json!({"event_type": "voice_entry", "voice_name": name, "ref": n.to_string()}))
                .collect::<Vec<_>>()
        };
        json!([of("Triage", triage), of("Policy", policy)].concat())
    };
    // With three voices, a share of two thirds is too much.
    let warnings = |events: Value| observed(&disciplined(), events).dominant_voice_warnings.len();
    assert_eq!((warnings(by(65, 35)), warnings(by(67, 33))), (0, 1));
    let mut led = disciplined();
    led["voices"][0]["conductor"] = json!(true);
    let warned = |events: Value| observed(&led, events).dominant_voice_warnings.len();
    assert_eq!((warned(by(84, 16)), warned(by(85, 15))), (0, 1));
    // A warning about dominance moves no number and no verdict.
    let dominated = observed(&disciplined(), by(67, 33));
    let unseen = |reason: &String| reason.contains("observed");
    assert!(dominated.verdict_reasons.iter().all(unseen), "{:?}", dominated.verdict_reasons);
}

#[test]
fn open_items_are_questions() {
    let with = |events: Value| observed(&disciplined(), events).open_items;
    let items = with(json!([
        {"event_type": "evidence_cited", "voice_name": "Drafter", "basis": "declared"},
        {"event_type": "final_output", "voice_name": "Drafter"},
    ]));
    assert_eq!(
        (items[0].kind.as_str(), &*items[0].source_event_indices),
        ("citations_declared", &[0, 1][..])
    );
    let mut inconclusive = bundle(json!([]));
    inconclusive["adapter"] = json!({"id": "chorus.hub.v1", "version": "1"});
    let payload = rehearse(&score(&disciplined()), Some(&evidence(&[inconclusive]))).unwrap();
    assert_eq!(
        (payload.open_items[0].kind.as_str(), payload.verdict.as_str()),
        ("inconclusive", "conditional")
    );
}

#[test]
fn section_12_what_nobody_knows_is_said_and_not_dropped() {
    let mut strange =
        bundle(json!([{"event_type": "warning", "voice_name": "Policy", "reached_ouput": false}]));
    strange["events"][0]["scenario_id"] = json!("no-such");
    let payload = rehearse(&score(&disciplined()), Some(&evidence(&[strange]))).unwrap();
    let warnings: Vec<_> = payload
        .evidence
        .unwrap()
        .adapter_warnings
        .into_iter()
        .map(|one| (one.warning.code, one.warning.path))
        .collect();
    assert_eq!(warnings[0], ("unknown_member".into(), Some("events[0].reached_ouput".into())));
    assert_eq!(warnings[1].0, "unknown_scenario");
    let mut silent = bundle(json!([]));
    silent["scenario_id"] = json!("no-such");
    let payload = rehearse(&score(&disciplined()), Some(&evidence(&[silent]))).unwrap();
    let warnings = payload.evidence.unwrap().adapter_warnings;
    assert_eq!(
        (warnings[0].warning.code.as_str(), warnings[0].warning.path.as_deref()),
        ("unknown_scenario", Some("bundles[0].scenario_id"))
    );
}

#[test]
fn section_17_merging_keeps_order_and_collapses_exact_duplicates_only() {
    let read = |value: Value| Taken::read(value).unwrap().bundle;
    let call = |id: &str| json!({"event_type": "tool_call", "action": "look_up", "ref": id});
    let one = read(bundle(json!([call("1"), {"event_type": "authority_breach", "refers_to": 0}])));
    let two = read(bundle(
        json!([call("2"), call("1"), {"event_type": "authority_breach", "refers_to": 1}, {"event_type": "authority_breach", "refers_to": 0}]),
    ));
    let (before, inputs) = ([one.clone(), two.clone()], [one, two]);
    let merged = merge(&inputs);
    assert_eq!(inputs, before);
    let told: Vec<_> =
        merged.events.iter().map(|event| (event.reference.as_deref(), event.refers_to)).collect();
    assert_eq!(told, [(Some("1"), None), (None, Some(0)), (Some("2"), None), (None, Some(2))]);
    assert_eq!(merge(&[merged.clone(), merged.clone()]), merged);
    assert_eq!(merged.run_id.as_deref(), Some("r1"));
    assert_eq!(merge(&[]), Bundle::new(None));

    // If bundles have different scenarios, each event keeps its own.
    let mut low = bundle(json!([call("1")]));
    low["scenario_id"] = json!("where-is-my-order");
    let merged = merge(&[read(bundle(json!([call("1")]))), read(low)]);
    assert_eq!((merged.scenario_id, merged.events.len()), (None, 2));
    assert_eq!(merged.events[1].scenario_id.as_deref(), Some("where-is-my-order"));
}

#[test]
fn section_17_what_happened_in_two_runs_is_never_lost() {
    let run = |id: &str| {
        let mut run = bundle(json!([
            {"event_type": "tool_call", "action": "look_up", "ref": "step-1"},
            {"event_type": "warning", "voice_name": "Policy"},
            {"event_type": "authority_breach", "ref": "x".repeat(200), "refers_to": 0},
        ]));
        run["run_id"] = json!(id);
        Taken::read(run).unwrap().bundle
    };
    let merged = merge(&[run("a"), run("b"), run("a")]);
    let told: Vec<_> = merged.events.iter().map(|event| event.reference.as_deref().unwrap_or("-")).collect();
    assert_eq!((told.len(), &told[..2], &told[3..5]), (6, &["step-1", "-"][..], &["b/step-1", "b"][..]));
    assert_eq!((told[2].len(), told[5].len()), (200, 200));
    assert_ne!(told[2], told[5]);
    assert_eq!(merged.events[5].refers_to, Some(3));
    // The result is a valid bundle, and merging it again changes nothing.
    assert!(Taken::read(json!(merged)).is_ok());
    assert_eq!(merge(&[merged.clone(), merged.clone()]), merged);
    // An event that equals no other keeps its reference, whatever its run.
    let mut other = run("b");
    other.events.retain(|event| event.reference.as_deref() == Some("step-1"));
    other.events[0].action = Some("refund".into());
    let merged = merge(&[run("a"), other.clone()]);
    assert_eq!((merged.run_id, merged.events.len()), (None, 4));
    assert_eq!(merged.events[3], other.events[0]);
    // Segments of one run keep their references.
    assert_eq!(merge(&[run("a"), run("a")]), run("a"));
}

#[test]
fn a_receipt_is_bounded() {
    let many: Vec<_> =
        (0..21).map(|n| bundle(json!([{"event_type": "voice_entry", "ref": n.to_string()}]))).collect();
    let error = rehearse(&score(&disciplined()), Some(&evidence(&many))).unwrap_err();
    assert_eq!(error.to_string(), "a receipt takes at most 20 bundles, not 21");
}

#[test]
fn section_9_what_is_not_declared_is_never_ready() {
    // The best possible result; then an undeclared voice is required.
    let mut value = disciplined();
    assert_eq!(run(&value, &clean_run()).verdict, Verdict::Ready);
    value["scenarios"][1]["required_voices"].as_array_mut().unwrap().push(json!("Ghost"));
    let payload = run(&value, &clean_run());
    assert_eq!(payload.verdict, Verdict::Conditional);
    assert!(payload.open_items.iter().any(|item| item.kind == "undeclared_voice"));
    // It is not declared whether the final voice must cite.
    let mut value = disciplined();
    let voices = value["voices"].as_array_mut().unwrap();
    let drafter = voices.iter_mut().find(|voice| voice["name"] == "Drafter").unwrap();
    drafter["evidence_requirement"] = Value::Null;
    let said = json!([{"event_type": "final_output", "voice_name": "Drafter"}]);
    let payload = observed(&value, said);
    assert_eq!((payload.verdict, payload.open_items.len()), (Verdict::Conditional, 1));
    assert_eq!(payload.open_items[0].source_event_indices, [0]);
    let cited = json!([{"event_type": "evidence_cited", "voice_name": "Drafter"}, {"event_type": "final_output", "voice_name": "Drafter"}]);
    assert!(observed(&value, cited).open_items.is_empty());
}

#[test]
fn names_that_the_score_does_not_have_are_told() {
    let mut sent = bundle(json!([
        {"event_type": "voice_entry", "voice_name": "Policy", "scenario_id": "nowhere"},
        {"event_type": "voice_entry", "voice_name": "Ghost", "scenario_id": "nowhere"},
    ]));
    sent["scenario_id"] = json!("elsewhere");
    let score = score(&disciplined());
    let found = unknown_names(&score, &Taken::read(sent).unwrap().bundle);
    let found: Vec<_> =
        found.iter().map(|one| (one.message.as_str(), one.path.as_deref().unwrap())).collect();
    assert_eq!(
        found,
        [
            ("the Score has no scenario elsewhere", "scenario_id"),
            ("the Score has no scenario nowhere", "events[0].scenario_id"),
            ("the Score has no voice Ghost", "events[1].voice_name"),
        ]
    );
    assert!(unknown_names(&score, &Taken::read(bundle(json!([]))).unwrap().bundle).is_empty());
}

#[test]
fn one_event_moves_the_risk_by_at_most_33() {
    for kind in crate::support::KINDS {
        for reached in [json!(null), json!(true), json!(false)] {
            for disposition in [json!(null), json!("used"), json!("ignored"), json!("suppressed")] {
                let mut event = json!({"event_type": kind, "voice_name": "Policy", "action": "refund"});
                if matches!(kind, "warning" | "dissent") {
                    event["reached_output"] = reached.clone();
                    event["disposition"] = disposition.clone();
                }
                let payload = observed(&disciplined(), json!([event]));
                assert!(payload.false_harmony.risk <= 33, "{event}: {}", payload.false_harmony.risk);
            }
        }
    }
}

#[test]
fn section_4_what_became_of_a_warning() {
    let warned = |reached: Value, disposition: Value| {
        let event = json!({"event_type": "warning", "voice_name": "Policy", "reached_output": reached, "disposition": disposition});
        let payload = observed(&disciplined(), json!([event]));
        let headlines: Vec<_> = payload.mismatches.iter().map(|one| one.id.clone()).collect();
        let open = payload.open_items.iter().any(|item| item.kind == "warning_not_attested");
        (outcome(&payload), headlines.join(" "), open)
    };
    // It is unknown whether the warning reached the output, so the question stays open in any case.
    assert_eq!(warned(json!(null), json!(null)), (([100; 5], 0, "conditional"), String::new(), true));
    assert_eq!(warned(json!(null), json!("used")), (([100; 5], 0, "conditional"), String::new(), true));
    assert_eq!(warned(json!(null), json!("ignored")), (([100; 5], 15, "conditional"), String::new(), true));
    let suppressed = ([100, 100, 80, 100, 100], 33, "not_ready");
    assert_eq!(warned(json!(null), json!("suppressed")), (suppressed, "M-DIS".into(), false));
    // One event is one fact: a suppressed warning costs only that, and both headlines apply.
    assert_eq!(warned(json!(false), json!("suppressed")), (suppressed, "M-WARN M-DIS".into(), false));
    let lost = ([100, 90, 92, 100, 100], 21, "not_ready");
    assert_eq!(warned(json!(false), json!("ignored")), (lost, "M-WARN".into(), false));
}

#[test]
fn a_call_that_nobody_is_named_for_is_a_question() {
    let call = |action: &str, voice: Value| json!({"event_type": "tool_call", "action": action, "voice_name": voice});
    let kinds = |events: Value| {
        let items = observed(&disciplined(), events).open_items;
        items.into_iter().map(|item| (item.kind, item.source_event_indices)).collect::<Vec<_>>()
    };
    let asked = kinds(json!([call("refund", json!(null)), call("Refund", json!(null))]));
    assert_eq!(asked, [("call_without_voice".into(), vec![0, 1])]);
    assert_eq!(kinds(json!([call("look_up", json!(null))])), [], "every voice may");
    assert_eq!(kinds(json!([call("refund", json!("Policy"))])), [], "that is a breach");
}

#[test]
fn evidence_of_nothing_is_a_question() {
    let run = |bundle: Value| {
        let payload = rehearse(&score(&disciplined()), Some(&evidence(&[bundle]))).unwrap();
        let kinds: Vec<_> = payload.open_items.iter().map(|item| item.kind.clone()).collect();
        (payload.verdict.as_str(), kinds.join(" "))
    };
    let empty = json!({"schema": "choir.evidence.v1", "events": []});
    assert_eq!(run(empty.clone()), ("conditional", "nothing_observed".into()));
    let mut named = empty;
    named["scenario_id"] = json!("where-is-my-order");
    assert_eq!(run(named.clone()), ("conditional", String::new()), "a run in which nothing happened");
    named["scenario_id"] = json!("where-is-my-oder");
    assert_eq!(run(named), ("conditional", "unknown_scenario".into()));
}

#[test]
fn a_merged_bundle_is_one_that_can_be_read() {
    let warning = |code: &str| json!({"code": code, "message": "m", "path": null});
    let many = |code: &str, count: usize| {
        let mut bundle = bundle(
            json!([{"event_type": "warning", "voice_name": "Policy", "ref": code, "reached_ouput": false}]),
        );
        bundle["adapter_warnings"] = json!(vec![warning(code); count]);
        bundle
    };
    let taken: Vec<_> =
        [many("a", 100), many("b", 80)].map(|value| Taken::read(value).unwrap().bundle).into();
    // Misspelt members are reported even if the bundle has many warnings of its own.
    assert_eq!(taken[0].adapter_warnings.len(), 101);
    let merged = merge(&taken);
    assert_eq!(merged.adapter_warnings.len(), 100);
    let unknown = merged.adapter_warnings.iter().filter(|warning| warning.code == "unknown_member").count();
    let last = merged.adapter_warnings.last().unwrap();
    assert_eq!((unknown, last.code.as_str()), (2, "warnings_left_out"));
    assert!(last.message.starts_with("83 "), "{}", last.message);
    chorus_protocol::choir::evidence::Bundle::read(json!(merged)).unwrap();
}
