//! Properties of any Score and any evidence.

use crate::support::{KINDS, disciplined, evidence, five, score};
use chorus_choir::rehearse;
use chorus_protocol::choir::receipt::{Dimension, Payload, ScenarioOutcome, Verdict};
use proptest::prelude::*;
use serde_json::{Value, json};

const VOICES: [&str; 4] = ["Triage", "Policy", "Drafter", "Stranger"];

fn any_event() -> impl Strategy<Value = Value> {
    (
        0..KINDS.len(),
        0..5_usize,
        0..3_usize,
        any::<Option<bool>>(),
        0..4_usize,
        any::<Option<bool>>(),
        0..3_usize,
        0..1_000_000_u32,
    )
        .prop_map(|(kind, voice, scenario, reached, disposition, acknowledged, action, reference)| {
            let kind = KINDS[kind];
            let mut event = json!({"event_type": kind, "ref": reference.to_string()});
            if let Some(voice) = VOICES.get(voice) {
                event["voice_name"] = json!(voice);
            }
            if let Some(scenario) = ["refund-over-limit", "where-is-my-order"].get(scenario) {
                event["scenario_id"] = json!(scenario);
            }
            if matches!(kind, "warning" | "dissent" | "escalation") {
                event["reached_output"] = json!(reached);
            }
            if matches!(kind, "warning" | "dissent")
                && let Some(disposition) = ["used", "ignored", "suppressed"].get(disposition)
            {
                event["disposition"] = json!(disposition);
            }
            if kind == "handoff" {
                event["acknowledged"] = json!(acknowledged);
            }
            if kind == "tool_call" {
                event["action"] = json!(["refund", "look_up", "other"][action]);
            }
            event
        })
}

fn any_bundle() -> impl Strategy<Value = Value> {
    (proptest::collection::vec((any_event(), any::<Option<u8>>()), 0..14), any::<bool>()).prop_map(
        |(events, complete)| {
            let count = events.len();
            let events = events.into_iter().enumerate().map(|(index, (mut event, refers))| {
                let target =
                    refers.map(|target| usize::from(target) % count).filter(|target| *target != index);
                event["refers_to"] = json!(target.filter(|target| target % 3 == 0));
                event
            });
            json!({"schema": "choir.evidence.v1", "complete": complete, "events": events.collect::<Vec<_>>()})
        },
    )
}

/// Generates a Score with some of its declarations removed.
fn any_score() -> impl Strategy<Value = Value> {
    proptest::collection::vec(any::<bool>(), 16).prop_map(|kept| {
        let mut value = disciplined();
        for (place, voice) in value["voices"].as_array_mut().unwrap().iter_mut().enumerate() {
            let members = ["role", "authority", "escalation_triggers", "evidence_requirement", "may_dissent"];
            for (bit, member) in members.iter().enumerate() {
                if kept[place * 5 + bit] {
                    voice[*member] = Value::Null;
                }
            }
        }
        value
    })
}

fn run(value: &Value, bundle: &Value) -> Payload {
    rehearse(&score(value), Some(&evidence(std::slice::from_ref(bundle)))).unwrap()
}

/// Returns all numbers of a payload, oriented so that larger is better.
fn goodness(payload: &Payload) -> Vec<i64> {
    let mut all = five(&payload.dimensions).to_vec();
    all.push(-payload.false_harmony.risk);
    all.push(-(payload.verdict as i64));
    all
}

fn no_better(worse: &Payload, better: &Payload) -> bool {
    goodness(worse).iter().zip(goodness(better)).all(|(worse, better)| *worse <= better)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn section_11_bounds_and_caps(value in any_score(), bundle in any_bundle()) {
        let payload = run(&value, &bundle);
        for dimension in Dimension::ALL {
            let sum: i64 = payload.adjustments.iter().filter(|one| one.dimension == *dimension).map(|one| one.delta).sum();
            prop_assert!((-25..=10).contains(&sum));
            let base = payload.structural.base_dimensions.get(*dimension);
            prop_assert_eq!(payload.dimensions.get(*dimension), (base + sum).clamp(0, 100));
        }
        prop_assert!((0..=100).contains(&payload.false_harmony.risk) && payload.false_harmony.concealed <= 50);
        let events = payload.evidence.as_ref().unwrap().events.len();
        let records = payload.adjustments.iter().map(|one| &one.source_event_indices);
        for sources in records.chain(payload.mismatches.iter().map(|one| &one.source_event_indices)) {
            prop_assert!(!sources.is_empty() && sources.iter().all(|index| *index < events));
        }
    }

    #[test]
    fn section_10_a_headline_is_worse_than_any_incompleteness(value in any_score(), bundle in any_bundle()) {
        let payload = run(&value, &bundle);
        prop_assert_eq!(payload.mismatches.is_empty(), payload.verdict != Verdict::NotReady);
        prop_assert!(rehearse(&score(&value), None).unwrap().verdict < Verdict::NotReady);
    }

    #[test]
    fn section_11_the_order_of_events_does_not_matter(value in any_score(), bundle in any_bundle(), seed in any::<u64>()) {
        let events = bundle["events"].as_array().unwrap();
        let mut order: Vec<usize> = (0..events.len()).collect();
        order.sort_by_key(|index| (*index as u64 + 1).wrapping_mul(seed | 1) >> 7);
        let moved = order.iter().map(|index| {
            let mut event = events[*index].clone();
            let target = event["refers_to"].as_u64().map(|target| order.iter().position(|one| *one as u64 == target));
            event["refers_to"] = json!(target);
            event
        });
        let mut shuffled = bundle.clone();
        shuffled["events"] = json!(moved.collect::<Vec<_>>());
        prop_assert_eq!(goodness(&run(&value, &bundle)), goodness(&run(&value, &shuffled)));
    }

    #[test]
    fn section_4_one_more_suppression_improves_nothing(value in any_score(), bundle in any_bundle(), voice in 0..4_usize, high in any::<bool>()) {
        let scenario = if high { "refund-over-limit" } else { "where-is-my-order" };
        let with = |bundle: &Value, kind: &str| {
            let mut more = bundle.clone();
            more["events"].as_array_mut().unwrap()
                .push(json!({"event_type": kind, "voice_name": VOICES[voice], "scenario_id": scenario}));
            more
        };
        // A voice whose dissent was suppressed took part, so it is compared with one that did as well.
        let before = with(&bundle, "voice_entry");
        prop_assert!(no_better(&run(&value, &with(&before, "suppressed_dissent")), &run(&value, &before)));
    }

    #[test]
    fn section_4_silence_is_never_better_than_a_warning_that_was_ignored(value in any_score(), bundle in any_bundle(), scenario in 0..2_usize, voice in 0..3_usize) {
        let (id, name) = (["refund-over-limit", "where-is-my-order"][scenario], VOICES[voice]);
        let mut silent = bundle.clone();
        silent["complete"] = json!(true);
        silent["scenario_id"] = json!(id);
        // Removes the voice from the bundle, and references, whose targets move.
        let events = silent["events"].as_array_mut().unwrap();
        events.retain(|event| event["voice_name"] != name);
        for event in events {
            event["refers_to"] = Value::Null;
        }
        let mut warned = silent.clone();
        warned["events"].as_array_mut().unwrap()
            .push(json!({"event_type": "ignored_warning", "voice_name": name, "scenario_id": id}));
        let (silent, warned) = (run(&value, &silent), run(&value, &warned));
        let required = value["scenarios"][scenario]["required_voices"].as_array().unwrap().contains(&json!(name));
        let numbers = |payload: &Payload| goodness(payload)[..6].to_vec();
        let no_better = numbers(&silent).iter().zip(numbers(&warned)).all(|(silent, warned)| *silent <= warned);
        prop_assert!(!required || no_better, "{:?} {:?}", numbers(&silent), numbers(&warned));
    }

    #[test]
    fn section_9_evidence_without_a_complete_bundle_of_every_scenario_is_never_ready(value in any_score(), bundle in any_bundle()) {
        let payload = run(&value, &bundle);
        let named = |id: &str| payload.evidence.as_ref().unwrap().events.iter().any(|event| {
            !event.derived && event.event.scenario_id.as_deref() == Some(id)
        });
        let observed = bundle["complete"] == true && named("refund-over-limit") && named("where-is-my-order");
        prop_assert!(observed || payload.verdict > Verdict::Ready);
        prop_assert_eq!(payload.results.len(), 2);
        prop_assert!(observed || payload.results.iter().any(|one| one.result != ScenarioOutcome::Passed));
    }

    #[test]
    fn section_8_every_receipt_is_recomputed_from_itself(value in any_score(), bundle in any_bundle(), other in any_bundle()) {
        let payload = rehearse(&score(&value), Some(&evidence(&[bundle, other]))).unwrap();
        let receipt = json!(chorus_choir::receipt(&payload));
        let verified = chorus_choir::verify::verify(&receipt, None);
        prop_assert!(verified.is_ok(), "{:?}", verified);
    }

    #[test]
    fn section_4_suppressed_is_worse_than_ignored_and_that_than_used(value in any_score(), bundle in any_bundle(), voice in 0..3_usize) {
        let with = |disposition: &str| {
            let mut bundle = bundle.clone();
            let dissent = json!({"event_type": "dissent", "voice_name": VOICES[voice], "scenario_id": "refund-over-limit", "disposition": disposition});
            bundle["events"].as_array_mut().unwrap().push(dissent);
            run(&value, &bundle)
        };
        let (used, ignored, suppressed) = (with("used"), with("ignored"), with("suppressed"));
        prop_assert!(no_better(&suppressed, &ignored) && no_better(&ignored, &used));
    }

    #[test]
    fn section_4_the_same_of_a_warning_whose_reach_nobody_attests(value in any_score(), bundle in any_bundle(), voice in 0..3_usize) {
        let with = |disposition: &str| {
            let mut bundle = bundle.clone();
            let warning = json!({"event_type": "warning", "voice_name": VOICES[voice], "scenario_id": "refund-over-limit", "disposition": disposition});
            bundle["events"].as_array_mut().unwrap().push(warning);
            run(&value, &bundle)
        };
        let (used, ignored, suppressed) = (with("used"), with("ignored"), with("suppressed"));
        prop_assert!(no_better(&suppressed, &ignored) && no_better(&ignored, &used));
    }
}
