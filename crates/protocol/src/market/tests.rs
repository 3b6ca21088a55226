//! The market document's examples with their placeholders filled in, and invalid variants.

use super::*;
use crate::schema::read_exact;
use proptest::prelude::*;
use serde_json::{Value, json};

const UUID: &str = "a3b8d1b6-0b3b-4b1a-9c1a-1a2b3c4d5e6f";
const JOB: &str = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6";

fn fault<T: utoipa::ToSchema + serde::de::DeserializeOwned + 'static>(body: &str) -> String {
    read_exact::<T>(body.as_bytes()).err().map_or_else(String::new, |faults| faults.to_string())
}

#[test]
fn amounts_are_read_from_their_text() {
    for (text, hundredths) in [("0", 0), ("0.15", 15), ("0.1", 10), ("1", 100), ("42", 4200), ("10.50", 1050)]
    {
        assert_eq!(Credits::parse(text).map(Credits::hundredths), Ok(hundredths), "{text}");
    }
    for (text, why) in [
        ("0.001", NotCredits::TooFine),
        ("0.100", NotCredits::TooFine),
        ("-1", NotCredits::NotPlain),
        ("+1", NotCredits::NotPlain),
        ("1e2", NotCredits::NotPlain),
        ("1E2", NotCredits::NotPlain),
        ("01", NotCredits::NotPlain),
        ("1.", NotCredits::NotPlain),
        (".5", NotCredits::NotPlain),
        ("", NotCredits::NotPlain),
        (" 1", NotCredits::NotPlain),
        ("\"1\"", NotCredits::NotPlain),
        ("١", NotCredits::NotPlain),
        ("10000000000000.01", NotCredits::TooLarge),
        ("99999999999999999999999999", NotCredits::TooLarge),
    ] {
        assert_eq!(Credits::parse(text), Err(why), "{text}");
    }
    assert_eq!(Credits::parse("10000000000000"), Ok(Credits::MAX));
}

#[test]
fn amounts_in_bodies_are_never_rounded() {
    let body = |amount: &str| format!(r#"{{"owner": "o", "amount": {amount}}}"#);
    let read = read_exact::<Issue>(body("0.10").as_bytes()).unwrap();
    assert_eq!(read.amount.hundredths(), 10);
    for (amount, expected) in [
        ("0.125", "amount: must have at most two decimals"),
        ("-0.1", "amount: must be a number like 0.15"),
        ("-1", "amount: must be a number like 0.15"),
        ("\"0.10\"", "amount: must be a number, not a string"),
        ("1e99", "amount: must be at most 10000000000000.00"),
        ("null", "amount: is required"),
        (
            "0.100",
            "body: an amount of credits must have at most two decimals; amounts are never rounded, not 0.100",
        ),
        ("1e2", "body: an amount of credits must be a number like 0.15"),
        ("1.0e0", "body: an amount of credits must be a number like 0.15"),
        ("-0", "body: an amount of credits must be a number like 0.15"),
    ] {
        let fault = fault::<Issue>(&body(amount));
        assert!(fault.starts_with(expected), "{amount}: {fault}");
    }
}

#[test]
fn scores_are_numbers_from_0_to_100() {
    for (text, printed) in
        [("87.5", "87.5000"), ("0", "0.0000"), ("100.0", "100.0000"), ("92.30009", "92.3000")]
    {
        assert_eq!(Reputation::parse(text).unwrap().to_string(), printed);
    }
    for text in ["", "100.0001", "101", "-1", "1e1", "x", "1.", "٣"] {
        assert_eq!(Reputation::parse(text), None, "{text}");
    }
    assert_eq!(serde_json::to_string(&Reputation::NEUTRAL).unwrap(), "50.0");
    assert_eq!(serde_json::to_string(&Reputation::parse("92.3").unwrap()).unwrap(), "92.3");
}

#[test]
fn the_documents_registration() {
    let body = r#"{
      "agent_id": "a3b8d1b6-0b3b-4b1a-9c1a-1a2b3c4d5e6f",
      "agent_name": "Human-readable name",
      "owner_id": "Owner identifier",
      "api_endpoint": "https://agent-host:8443/jobs",
      "skills": [
        {
          "skill_name": "analyze_text",
          "description": "Extracts structured data from unstructured text",
          "cost_per_call": 0.10,
          "input_schema": {"text": "string"},
          "output_schema": {"entities": "list"}
        }
      ],
      "version": "0.1",
      "timestamp_utc": "2026-02-11T14:15:09Z"
    }"#;
    let read = read_exact::<Registration>(body.as_bytes()).unwrap();
    assert_eq!(read.skills[0].cost_per_call.to_string(), "0.10");
    assert_eq!(read.agent_id.unwrap().to_string(), UUID);
    let faults = fault::<Registration>(
        r#"{"agent_id": "uuid", "agent_name": "", "owner_id": " x", "skills": [{"skill_name": "a b", "cost_per_call": "1"}],
            "version": "2"}"#,
    );
    for expected in [
        "agent_id: must be the id of an agent",
        "agent_name: must be 1 to 128 characters",
        "owner_id: must be 1 to 128 characters",
        "skills[0].skill_name: must be 1 to 64 letters",
        "skills[0].cost_per_call: must be a number, not a string",
        "version: must be of the form",
    ] {
        assert!(faults.contains(expected), "{expected}: {faults}");
    }
}

#[test]
fn names_that_cannot_be_claimed() {
    for plain in ["Owner identifier", "agent_owner_id", "..x", "a.b", "Zoë", "東京 store", "a:b"] {
        assert_eq!(OwnerId::unfit_to_claim(plain), None, "{plain}");
    }
    for odd in [
        "a\u{200b}",
        "\u{202e}owner",
        "a\u{feff}b",
        "a\u{ad}b",
        "\u{7}",
        "a\u{2028}b",
        " a",
        "a\u{a0}",
        ".",
        "..",
        "a/b",
        "a\\b",
    ] {
        assert!(OwnerId::unfit_to_claim(odd).is_some(), "{odd:?}");
    }
}

#[test]
fn the_documents_job_and_its_result() {
    let job = format!(
        r#"{{
          "job_id": "{JOB}", "orchestrator_id": "{UUID}", "skill_name": "analyze_text",
          "input_data": {{"text": "Revenue for Q3 was $42,000..."}},
          "budget": 0.15, "currency": "chorus_credits_v1", "callback_url": "https://orchestrator/results",
          "timestamp_utc": "2026-02-11T14:15:09Z"
        }}"#
    );
    assert_eq!(read_exact::<JobRequest>(job.as_bytes()).unwrap().budget.hundredths(), 15);
    let handed: JobHandout = serde_json::from_str(&job).unwrap();
    assert_eq!(serde_json::to_value(&handed).unwrap(), serde_json::from_str::<Value>(&job).unwrap());
    let euros = job.replace("chorus_credits_v1", "EUR");
    assert_eq!(fault::<JobRequest>(&euros), "currency: must be of the form ^chorus_credits_v1$");

    let result = format!(
        r#"{{
          "job_id": "{JOB}", "agent_id": "{UUID}", "status": "SUCCESS",
          "output_data": {{"entities": [{{"type": "revenue", "value": 42000, "period": "Q3"}}]}},
          "execution_cost": 0.10, "execution_time_ms": 1250, "error_message": null,
          "timestamp_utc": "2026-02-11T14:15:09Z"
        }}"#
    );
    let read = read_exact::<JobResult>(result.as_bytes()).unwrap();
    assert_eq!(read.execution_cost.unwrap().to_string(), "0.10");
    assert_eq!(serde_json::to_value(&read).unwrap(), serde_json::from_str::<Value>(&result).unwrap());
    // Workers often send only these members.
    let short = format!(r#"{{"job_id": "{JOB}", "status": "FAILURE"}}"#);
    assert_eq!(read_exact::<JobResult>(short.as_bytes()).unwrap().execution_cost, None);
    assert!(
        fault::<JobResult>(&short.replace("FAILURE", "DONE"))
            .contains("status: must be one of PENDING, SUCCESS")
    );
}

#[test]
fn the_documents_transfer_and_answers() {
    let body = format!(
        r#"{{"transfer_id": "{JOB}", "from_owner": "orchestrator_owner_id", "to_owner": "agent_owner_id", "amount": 0.10,
             "job_id": "{JOB}", "timestamp_utc": "2026-02-11T14:15:09Z"}}"#
    );
    assert_eq!(read_exact::<Transfer>(body.as_bytes()).unwrap().amount.to_string(), "0.10");
    let answer = json!({"status": "registered", "agent_id": UUID, "reputation_score": 50.0});
    let read: Registered = serde_json::from_value(answer.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), answer);
    let answer = json!({"agents": [{
        "agent_id": UUID, "agent_name": "Text-Analyst-3000", "api_endpoint": "https://agent.example",
        "skill": {"skill_name": "analyze_text", "cost_per_call": 0.10}, "reputation_score": 92.3, "status": "online"
    }]});
    let read: Discovered = serde_json::from_value(answer.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read.agents).unwrap(), answer["agents"]);
}

proptest! {
    #[test]
    fn an_amount_is_the_same_when_it_comes_back(hundredths in 0..=Credits::MAX.hundredths()) {
        let amount = Credits::from_hundredths(hundredths).unwrap();
        prop_assert_eq!(Credits::parse(&amount.to_string()), Ok(amount));
        let number = serde_json::to_string(&amount).unwrap();
        prop_assert_eq!(serde_json::from_str::<Credits>(&number).unwrap(), amount, "{}", number);
    }

    #[test]
    fn a_score_is_the_same_when_it_comes_back(score in 0..=1_000_000_i64) {
        let score = Reputation::clamped(score);
        prop_assert_eq!(Reputation::parse(&score.to_string()), Some(score));
        let number = serde_json::to_string(&score).unwrap();
        prop_assert_eq!(serde_json::from_str::<Reputation>(&number).unwrap(), score);
    }
}
