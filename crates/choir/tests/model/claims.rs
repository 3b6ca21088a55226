//! The limits of what a receipt claims: breaches by name, coverage, outcomes by scenario, superseding and answers.

use crate::support::{
    clean_run, complete, disciplined, draft, evidence, observed, outcome, records, run, score,
};
use chorus_choir::{Evidence, Taken, TakenAnswers, rehearse};
use chorus_protocol::choir::receipt::{Note, Verdict};
use serde_json::{Value, json};

fn completed(events: Value) -> Value {
    complete("refund-over-limit", events)
}

/// Section 1.4 of the model: the first list that a call breaks, the tool, and the rule are named.
#[test]
fn section_10_a_breach_names_the_tool_and_the_list_it_broke() {
    let mut value = disciplined();
    value["voices"][1]["authority"]["exclusive_actions"] = json!(["Approve"]);
    value["voices"][2]["authority"] = Value::Null;
    value["scenarios"][0]["forbidden_actions"] = json!(["mail"]);
    let called = |voice: Value, action: &str| {
        let call = json!({"event_type": "tool_call", "voice_name": voice, "action": action, "ref": "c1"});
        let payload = observed(&value, json!([call]));
        let reason = payload.adjustments.first().map(|one| one.reason.clone()).unwrap_or_default();
        let headline = payload.mismatches.into_iter().next();
        let broke = headline.as_ref().map(|one| json!([one.action, one.broke]));
        let texts = headline.map(|one| (one.declared, one.observed));
        (broke.unwrap_or_default(), texts.unwrap_or_default(), reason)
    };
    for (voice, action, list, declared, observed) in [
        (
            "Triage",
            "approve",
            "exclusive_actions",
            "approve is exclusive to Policy",
            "Triage called approve, which is exclusive to Policy, in refund-over-limit",
        ),
        (
            "Drafter",
            "approve",
            "exclusive_actions",
            "approve is exclusive to Policy",
            "Drafter called approve, which is exclusive to Policy, in refund-over-limit",
        ),
        (
            "Stranger",
            "APPROVE",
            "exclusive_actions",
            "APPROVE is exclusive to Policy",
            "Stranger called APPROVE, which is exclusive to Policy, in refund-over-limit",
        ),
        (
            "Triage",
            "refund",
            "forbidden_actions",
            "refund is forbidden to Triage",
            "Triage called refund, which is forbidden to it, in refund-over-limit",
        ),
        (
            "Triage",
            "mail",
            "scenario.forbidden_actions",
            "refund-over-limit forbids mail",
            "Triage called mail, which refund-over-limit forbids",
        ),
        (
            "Triage",
            "delete",
            "allowed_actions",
            "Triage may call look_up, draft",
            "Triage called delete, which is not among its allowed actions, in refund-over-limit",
        ),
    ] {
        let (broke, texts, reason) = called(json!(voice), action);
        assert_eq!(broke, json!([action, list]), "{voice} {action}");
        assert_eq!(texts, (declared.into(), observed.into()));
        assert_eq!(reason, observed);
    }
    // The holder may, and of a caller that nobody names nothing is known.
    for voice in [json!("Policy"), Value::Null] {
        assert_eq!(called(voice, "approve").0, Value::Null);
    }
    // A breach that was asserted names no list.
    let asserted = observed(&value, json!([{"event_type": "authority_breach", "voice_name": "Triage"}]));
    let headline = json!(asserted.mismatches[0]);
    assert_eq!((headline.get("action"), headline.get("broke")), (Some(&Value::Null), Some(&Value::Null)));
    // The findings of a voice hold what it was observed to do.
    let payload =
        observed(&value, json!([{"event_type": "tool_call", "voice_name": "Triage", "action": "refund"}]));
    assert_eq!(payload.voices[0].findings, ["O-AUTH-002", "M-AUTH"]);
}

/// Section 1.4: what was observed, and the outcome of each scenario.
#[test]
fn section_9_coverage_counts_and_each_scenario_has_its_outcome() {
    let [high, low] = clean_run();
    let open = |mut bundle: Value| {
        bundle["complete"] = json!(false);
        bundle
    };
    let mut warned = low.clone();
    warned["events"].as_array_mut().unwrap().push(json!({"event_type": "warning", "voice_name": "Triage"}));
    let mut unnamed = low.clone();
    unnamed["scenario_id"] = Value::Null;
    for (bundles, results, gaps, open_items) in [
        (vec![high.clone(), low.clone()], ["passed", "passed"], "", ""),
        (vec![low.clone()], ["not_observed", "passed"], "not_observed", ""),
        (vec![open(high.clone()), low.clone()], ["warned", "passed"], "not_complete", ""),
        (vec![high.clone(), warned], ["passed", "warned"], "", "warning_not_attested"),
        (vec![high, unnamed], ["passed", "not_observed"], "not_observed", "no_scenario"),
    ] {
        let payload = run(&disciplined(), &bundles);
        let found: Vec<_> = payload.results.iter().map(|one| one.result.as_str()).collect();
        assert_eq!(found, results);
        let kinds = |notes: &[Note]| notes.iter().map(|one| one.kind.clone()).collect::<Vec<_>>().join(" ");
        assert_eq!(
            (kinds(&payload.coverage_gaps), kinds(&payload.open_items)),
            (gaps.into(), open_items.into())
        );
        let is_ready = gaps.is_empty() && open_items.is_empty();
        assert_eq!(payload.verdict == Verdict::Ready, is_ready, "{:?}", payload.verdict_reasons);
        let named = payload.coverage_gaps.iter().all(|gap| payload.verdict_reasons.contains(&gap.text));
        assert!(named, "{:?}", payload.verdict_reasons);
    }
    // One signed event of one of three voices is not "held".
    let entry = observed(&disciplined(), json!([{"event_type": "voice_entry", "voice_name": "Triage"}]));
    assert_eq!((entry.verdict, entry.results[0].result.as_str()), (Verdict::Conditional, "warned"));
    let paper = draft(&disciplined());
    assert_eq!(paper.verdict_reasons[0], "declared only: nothing was observed");
    assert!(paper.results.iter().all(|one| one.result.as_str() == "not_observed"));
}

#[test]
fn section_16_one_escalation_satisfies_one_expectation() {
    let mut value = disciplined();
    value["scenarios"][0]["expected_escalations"] = json!(["Triage-stuck", "Policy-stuck"]);
    value["scenarios"][0]["expected_evidence"] = json!(["Policy"]);
    let missed = |more: Value| {
        let mut events = json!([
            {"event_type": "voice_entry", "voice_name": "Triage"},
            {"event_type": "evidence_cited", "voice_name": "Policy"},
            {"event_type": "voice_entry", "voice_name": "Drafter"},
        ]);
        events.as_array_mut().unwrap().extend(more.as_array().unwrap().iter().cloned());
        let payload = run(&value, &[completed(events)]);
        let derived = payload.evidence.unwrap().events.into_iter().filter(|event| event.derived);
        derived.filter_map(|event| event.event.action).collect::<Vec<_>>()
    };
    let by = |voice: &str| json!({"event_type": "escalation", "voice_name": voice});
    assert_eq!(missed(json!([])), ["Triage-stuck", "Policy-stuck"]);
    assert_eq!(missed(json!([by("Policy")])), ["Triage-stuck"]);
    assert_eq!(missed(json!([by("Drafter")])), ["Policy-stuck"]);
    assert_eq!(missed(json!([by("Policy"), by("Policy")])), [""; 0]);
    // One that reached nobody, and one that is the same fact as another event, satisfy none.
    let lost = json!({"event_type": "escalation", "voice_name": "Policy", "reached_output": false});
    let same = json!({"event_type": "escalation", "voice_name": "Policy", "refers_to": 0});
    assert_eq!(missed(json!([lost, same])), ["Triage-stuck", "Policy-stuck"]);
    let told = json!({"event_type": "missed_escalation", "voice_name": "Policy"});
    assert_eq!(missed(json!([told])), ["Triage-stuck"]);
    // An escalation that reached nobody earns nothing.
    let lost = observed(&value, json!([lost]));
    assert_eq!(records(&lost, "O-ESC-001"), (0, 0));
    // Expected evidence that is missing in a complete bundle costs, unless the voice was missing altogether.
    let claims = |events: Value| records(&run(&value, &[completed(events)]), "O-CLAIM-001");
    assert_eq!(claims(json!([{"event_type": "voice_entry", "voice_name": "Policy"}])), (-9, 1));
    assert_eq!(claims(json!([{"event_type": "voice_entry", "voice_name": "Triage"}])), (0, 0));
}

#[test]
fn section_4_a_dissent_that_had_to_reach_the_output_and_did_not() {
    let lost = json!([{"event_type": "dissent", "voice_name": "Policy", "reached_output": false}]);
    let payload = observed(&disciplined(), lost.clone());
    assert_eq!(records(&payload, "O-DIS-003"), (-10, 1));
    assert!(payload.open_items.is_empty());
    assert_eq!(payload.dissonance.ignored, [0]);
    let mut value = disciplined();
    value["voices"][1]["dissent_must_reach_output"] = json!(false);
    let payload = observed(&value, lost);
    assert_eq!((records(&payload, "O-DIS-003"), payload.open_items.len()), ((0, 0), 1));
    // A voice whose only event is a suppressed dissent took part.
    let events = json!([
        {"event_type": "suppressed_dissent", "voice_name": "Policy"},
        {"event_type": "voice_entry", "voice_name": "Triage"},
        {"event_type": "voice_entry", "voice_name": "Drafter"},
    ]);
    assert_eq!(records(&run(&disciplined(), &[completed(events)]), "O-ENTRY-001"), (0, 0));
}

#[test]
fn a_bundle_that_supersedes_counts_alone() {
    let first = completed(json!([{"event_type": "warning", "voice_name": "Policy"}]));
    let mut second =
        completed(json!([{"event_type": "warning", "voice_name": "Policy", "reached_output": true}]));
    let sha256 = Taken::read(first.clone()).unwrap().sha256;
    second["supersedes"] = json!(sha256);
    let payload = run(&disciplined(), &[first, second]);
    let section = payload.evidence.unwrap();
    assert_eq!((section.bundles.len(), section.superseded), (1, vec![sha256.clone()]));
    assert_eq!(section.bundles[0].supersedes, Some(sha256));
    assert!(payload.open_items.is_empty());
    assert_eq!(payload.left_out.unwrap().bundles[0].why.as_str(), "superseded");
}

#[test]
fn answers_fill_what_a_bundle_leaves_open_and_nothing_else() {
    let sent = completed(json!([
        {"event_type": "warning", "voice_name": "Policy"},
        {"event_type": "dissent", "disposition": "used"},
    ]));
    let sha256 = Taken::read(sent.clone()).unwrap().sha256;
    let record =
        |answers: Value| json!({"schema": "choir.answers.v1", "bundle_sha256": sha256, "answers": answers});
    let with = |records: &[Value]| {
        let answers = records.iter().map(|one| TakenAnswers::read(record(one.clone())).unwrap()).collect();
        let evidence = Evidence { answers, ..evidence(std::slice::from_ref(&sent)) };
        rehearse(&score(&disciplined()), Some(&evidence)).map_err(|error| error.to_string())
    };
    let reached = json!([{"event": 0, "reached_output": true}]);
    let payload = with(&[reached.clone(), json!([{"event": 1, "voice_name": "Triage"}])]).unwrap();
    assert!(payload.open_items.is_empty());
    let section = payload.evidence.as_ref().unwrap();
    assert!(section.events[0].answered && section.events[1].answered && !section.events[2].answered);
    assert_eq!(section.answers.iter().map(|one| one.events.clone()).collect::<Vec<_>>(), [[0], [1]]);
    let receipt = json!(chorus_choir::receipt(&payload));
    assert!(chorus_choir::verify::verify(&receipt, None).is_ok());
    for (records, fault) in [
        (vec![json!([{"event": 7, "reached_output": true}])], "answers[0].event: the bundle has no event 7"),
        (
            vec![json!([{"event": 1, "disposition": "ignored"}])],
            "answers[0].disposition: event 1 has one already",
        ),
        (vec![json!([{"event": 0, "scenario_id": "x"}])], "answers[0].scenario_id: event 0 has one already"),
        (vec![json!([{"event": 0}])], "answers[0]: answers nothing"),
        (vec![reached.clone(), json!([{"event": 0, "reached_output": false}])], "answered otherwise before"),
    ] {
        let error = with(&records).unwrap_err();
        assert!(error.contains(fault), "{error}");
    }
    assert!(with(&[reached.clone(), reached]).is_ok());
}

#[test]
fn waivers_are_shown_and_change_no_number() {
    let mut value = disciplined();
    let before = observed(&value, json!([{"event_type": "dropped_handoff", "voice_name": "Triage"}]));
    value["waivers"] = json!([{"rule_id": "O-HND-001", "by": "Ann", "reason": "the queue is rebuilt", "until": "2026-12-31"}]);
    let after = observed(&value, json!([{"event_type": "dropped_handoff", "voice_name": "Triage"}]));
    assert_eq!(outcome(&before), outcome(&after));
    assert_eq!(after.score.waivers[0].by.0, "Ann");
    value["waivers"][0]["until"] = json!("soon");
    assert!(chorus_choir::read_score(value).unwrap_err().to_string().contains("waivers[0].until"));
}
