//! Section 9: each structural rule, with a Score that breaks only this rule.

use crate::support::{disciplined, draft};
use chorus_choir::read_score;
use serde_json::{Value, json};

fn check(change: impl FnOnce(&mut Value), expected: &[(&str, i64)]) {
    let mut value = disciplined();
    change(&mut value);
    let found = draft(&value).structural.findings;
    let found: Vec<_> = found.iter().map(|finding| (&*finding.rule_id, finding.points)).collect();
    assert_eq!(found, expected);
}

#[test]
fn section_9_roles_and_authority() {
    check(|score| score["voices"][0]["role"] = json!(" "), &[("S-ROLE-001", 6)]);
    check(|score| score["voices"][1]["authority"] = Value::Null, &[("S-AUTH-001", 13)]);
    check(|score| score["voices"][1]["authority"]["limits"] = json!([]), &[("S-AUTH-001", 13)]);
    let exclusive = |score: &mut Value| {
        score["voices"][0]["authority"]["exclusive_actions"] = json!(["close", "reopen"]);
        score["voices"][1]["authority"]["exclusive_actions"] = json!(["CLOSE"]);
    };
    check(exclusive, &[("S-AUTH-002", 10)]);
    check(|score| score["voices"][2]["reviewed_by"] = Value::Null, &[("S-AUTH-003", 20)]);
    check(|score| score["voices"][2]["reviewed_by"] = json!("Drafter"), &[("S-AUTH-003", 20)]);
    check(|score| score["voices"][2]["reviewed_by"] = json!("Nobody"), &[("S-AUTH-003", 20)]);
}

#[test]
fn section_9_escalation() {
    check(|score| score["voices"][1]["escalation_triggers"] = json!([]), &[("S-ESC-001", 13)]);
    check(|score| score["voices"][1]["escalation_triggers"][0]["to"] = json!("Polcy"), &[("S-ESC-002", 8)]);
    check(|score| score["voices"][1]["escalation_triggers"][0]["to"] = json!("human:"), &[("S-ESC-002", 8)]);
    check(|score| score["scenarios"][0]["expected_escalations"] = json!(["never"]), &[("S-ESC-003", 25)]);
    check(|score| score["scenarios"][1]["expected_escalations"] = json!(["never"]), &[]);
    let inward = |score: &mut Value| {
        for voice in score["voices"].as_array_mut().unwrap() {
            voice["escalation_triggers"][0]["to"] = json!("Policy");
        }
    };
    check(inward, &[("S-ESC-004", 10)]);
}

#[test]
fn section_4_dissent() {
    let silent = |score: &mut Value| {
        for voice in score["voices"].as_array_mut().unwrap() {
            voice["may_dissent"] = json!(false);
        }
    };
    check(silent, &[("S-DIS-001", 40)]);
    check(|score| score["voices"][1]["dissent_must_reach_output"] = json!(false), &[("S-DIS-002", 8)]);
    check(|score| score["voices"][2]["override_recorded"] = json!(false), &[("S-DIS-003", 20)]);
    check(|score| score["conflicting_mandates"] = json!([["Policy", "Drafter"]]), &[("S-DIS-004", 15)]);
    let settled = |score: &mut Value| {
        score["conflicting_mandates"] = json!([["Policy", "Drafter"]]);
        score["arbitration"] = json!("Policy decides");
    };
    check(settled, &[]);
}

#[test]
fn section_9_handoffs() {
    let nowhere = |score: &mut Value| {
        score["voices"][1]["handoffs"] = json!([{"to": "Legal", "carries": ["it"], "acknowledged": true}]);
    };
    check(nowhere, &[("S-HND-001", 10)]);
    check(|score| score["voices"][0]["handoffs"][0]["carries"] = json!([]), &[("S-HND-002", 12)]);
    check(
        |score| drop(score["voices"][0]["handoffs"].as_array_mut().unwrap().remove(0)),
        &[("S-HND-003", 10)],
    );
    check(|score| score["voices"][0]["handoffs"][0]["acknowledged"] = json!(false), &[("S-HND-004", 7)]);
    // Without handoffs, two of the three required voices cannot be reached either.
    check(|score| score["voices"][0]["handoffs"] = json!([]), &[("S-HND-003", 20), ("S-HND-005", 40)]);
}

#[test]
fn section_9_coverage() {
    check(
        |score| score["scenarios"][0]["required_voices"] = json!([]),
        &[("S-COV-001", 50), ("S-COV-003", 5)],
    );
    check(|score| score["scenarios"][1]["required_voices"] = json!(["Nobody"]), &[("S-COV-002", 7)]);
    let idle = |score: &mut Value| {
        let mut voice = score["voices"][1].clone();
        (voice["name"], voice["aliases"]) = (json!("Idle"), json!([]));
        score["voices"].as_array_mut().unwrap().push(voice);
    };
    check(idle, &[("S-COV-003", 3)]);
    check(|score| score["voices"][1]["evidence_requirement"] = Value::Null, &[("S-EVD-001", 6)]);
}

#[test]
fn what_cannot_be_read_is_no_finding() {
    let fault = |change: &dyn Fn(&mut Value)| {
        let mut value = disciplined();
        change(&mut value);
        read_score(value).unwrap_err().to_string()
    };
    for (change, expected) in [
        (
            &(|score: &mut Value| score["voices"] = json!([])) as &dyn Fn(&mut Value),
            "voices: must be an array of 1 to 64 items",
        ),
        (&|score| score["scenarios"] = json!([]), "scenarios: must be an array of 1 to 100 items"),
        (&|score| score["voices"][1]["name"] = json!("TRIAGE "), "voices[1].name: TRIAGE  is Triage already"),
        (
            &|score| score["voices"][0]["aliases"] = json!(["drafter"]),
            "voices[2].name: Drafter is Triage already",
        ),
        (
            &|score| score["scenarios"][0]["severity"] = json!("huge"),
            "scenarios[0].severity: must be one of low, medium, high, critical",
        ),
        (
            &|score| score["scenarios"][1]["id"] = json!("Refund-Over-Limit"),
            "scenarios[1].id: scenarios[0] has this id already",
        ),
        (
            &|score| score["conflicting_mandates"] = json!([["Policy"]]),
            "conflicting_mandates[0]: must name two different voices",
        ),
        (&|score| score["protocol_version"] = json!("0.2"), "protocol_version: must be one of 0.1"),
    ] {
        let found = fault(change);
        assert!(found.contains(expected), "{found}");
    }
}

#[test]
fn section_5_measures_come_from_declarations_first() {
    let mut value = disciplined();
    value["voices"][2]["override_recorded"] = json!(false);
    value["conflicting_mandates"] = json!([["Policy", "Drafter"]]);
    value["arbitration"] = json!("Policy decides");
    let payload = draft(&value);
    let policy = &payload.voices[1];
    assert_eq!((policy.expected_entries, policy.observed_entries, policy.share_percent), (1, 0, 0));
    assert_eq!(policy.masked_by, ["Drafter"]);
    assert_eq!(payload.dissonance.pairwise.len(), 1);
    assert_eq!(payload.dissonance.internal_external_gap_percent, None);
}
