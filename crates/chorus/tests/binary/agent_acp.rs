//! `chorus agent --acp` against a real hub: a person permits a tool, and a killed agent goes on.

use crate::agent_fixture::{Agent, HubFixture, said, until};
use reqwest::Method;
use serde_json::{Value, json};

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../agent/tests/harness/acp_agent.py");

/// Starts the agent `dev` with the scripted program.
fn start(fixture: &HubFixture) -> Agent {
    let folder = fixture.folder.path().to_str().unwrap();
    let state = fixture.path("state/dev.acp-sessions");
    let command = format!("python3 '{PROGRAM}' '{folder}' '{}'", state.display());
    let command = fixture.command(&["--name", "dev", "--acp", &command]);
    Agent::run(command, &fixture.path("log"))
}

/// Waits until the program hangs in its turn, and returns its process id.
async fn hangs(fixture: &HubFixture) -> String {
    let started = || {
        let text = fixture.read("acp.log");
        let lines: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let sleeps = lines.iter().any(|line| line["sleeps"] == true);
        lines.iter().find_map(|line| line["started"].as_u64()).filter(|_| sleeps)
    };
    until("the program hangs", || started().is_some()).await;
    started().unwrap().to_string()
}

#[tokio::test]
async fn a_person_permits_a_tool_and_a_killed_agent_goes_on() {
    let fixture = HubFixture::open().await;
    let agent = start(&fixture);
    fixture.admit("dev").await;
    fixture.say("@dev [[run touch ran]][[say done]]").await;
    let mut waiting = vec![];
    let begun = std::time::Instant::now();
    while waiting.is_empty() {
        assert!(begun.elapsed() < crate::agent_fixture::SOON, "{}", fixture.read("log"));
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        let mut page = fixture.api(Method::GET, "/approvals", &fixture.anna, Value::Null).await;
        waiting.append(page["items"].as_array_mut().unwrap());
    }
    let text = waiting[0]["content"].as_str().unwrap();
    assert!(text.contains("\"command\": \"touch ran\"") && waiting[0]["may_decide"] == true, "{text}");
    assert!(!fixture.path("ran").exists());
    let id = waiting[0]["id"].as_str().unwrap();
    // Whoever is no person of the conversation decides nothing.
    let key = fixture.read("state/dev.key");
    let url = format!("{}/api/v1/approvals/{id}/agree", fixture.url);
    let own = fixture.http.post(url).bearer_auth(key.trim()).json(&json!({})).send().await.unwrap();
    assert_eq!(own.status(), 403);
    fixture.api(Method::POST, &format!("/approvals/{id}/agree"), &fixture.anna, json!({})).await;
    let seen = fixture.seen("dev", |events| said(events).contains(&"done")).await;
    assert!(fixture.path("ran").exists());
    assert_eq!(said(&seen).len(), 2, "the question is a record, and then the answer: {seen:#?}");

    fixture.say("@dev [[hang]]").await;
    let program = hangs(&fixture).await;
    agent.kill9();
    let agent = start(&fixture);
    let seen = fixture.seen("dev", |events| said(events).contains(&"went on")).await;
    assert_eq!(said(&seen).iter().filter(|text| **text == "went on").count(), 1);
    // The hanging program does not notice that its input has ended; the next start kills it.
    let stat = std::fs::read_to_string(format!("/proc/{program}/stat")).unwrap_or_default();
    assert!(stat.is_empty() || stat.contains(") Z "), "{stat}");
    agent.end().await;
}
