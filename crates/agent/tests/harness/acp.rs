//! A program that speaks ACP as an agent: sessions, permission, cancellation, failures and hostile output.

use crate::hub::{Agent, Hub, Place, kinds, messages_of};
use chorus_agent::Backoff;
use chorus_agent::harness::{Acp, Activity, AgentOptions, Driver};
use serde_json::{Value, json};
use std::time::Duration;

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/harness/acp_agent.py");

/// Returns the options of an agent with the scripted program, which opens earlier sessions by `resume`.
fn options(hub: &Hub, place: &Place, resume: &str) -> AgentOptions {
    let text = |path: std::path::PathBuf| path.to_str().unwrap().to_owned();
    let (folder, state) = (text(place.folder.path().into()), text(place.path("state/echo.acp-sessions")));
    let resume = format!("SCRIPT_RESUME={resume}");
    let args = [resume.as_str(), "python3", PROGRAM, &folder, &state].map(str::to_owned).to_vec();
    let mut acp = Acp::new("env", args, place.folder.path());
    acp.backoff = Backoff { base_ms: 10, max_ms: 20 };
    acp.permission_limit = Duration::from_secs(30);
    place.options(hub, Driver::Acp(Box::new(acp)))
}

fn change(options: &mut AgentOptions, change: impl FnOnce(&mut Acp)) {
    let Driver::Acp(acp) = &mut options.driver else { unreachable!() };
    change(acp);
}

/// Returns the lines of the program's log.
fn log(place: &Place) -> Vec<Value> {
    place.read("acp.log").lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Returns the methods that the program was sent, in order.
fn methods(place: &Place) -> Vec<String> {
    log(place).iter().filter_map(|line| line["got"].as_str().map(str::to_owned)).collect()
}

/// Returns the texts of all prompts of a session.
fn prompts(place: &Place, session: &str) -> Vec<String> {
    let text = place.read(&format!("session-{session}"));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

async fn until(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..3000 {
        if done() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what} did not happen");
}

/// Waits until the program sleeps in a turn.
async fn sleeps(place: &Place) {
    until("the sleep", || log(place).iter().any(|line| line["sleeps"] == true)).await;
}

/// Returns the error among events.
fn error(seen: &[Value]) -> (&str, &str) {
    let error = seen.iter().find(|event| event["type"] == "error").unwrap_or_else(|| panic!("{seen:#?}"));
    (error["code"].as_str().unwrap(), error["message"].as_str().unwrap())
}

#[tokio::test]
async fn a_thread_has_a_session_and_its_answers_grow() {
    let (hub, place) = (Hub::start().await, Place::new());
    hub.mention("evt_1", "@echo [[say hello anna]]\nFrom: boss");
    let mut options = options(&hub, &place, "resume");
    options.system = Some("You are kind.".into());
    let agent = Agent::start(options);
    let seen = hub.idle(1).await;
    assert_eq!(messages_of(&seen), ["hello anna"]);
    assert!(kinds(&seen).contains(&"chunk"), "{seen:#?}");
    // The thread that the answer began, and another thread.
    let mut again = hub.chat("evt_2", "[[say again]]");
    again["event"]["thread"] = "evt_1".into();
    hub.put("chat", again);
    hub.mention("evt_3", "@echo [[say other]]");
    let seen = hub.idle(3).await;
    let mut answers = messages_of(&seen);
    // The two threads run side by side.
    answers[1..].sort_unstable();
    assert_eq!(answers, ["hello anna", "again", "other"]);
    let (first, second) = (prompts(&place, "s1"), prompts(&place, "s2"));
    assert_eq!((first.len(), second.len()), (2, 1));
    assert!(first[0].starts_with("You are kind.\n\nC2A RESPONSE RULES\n"), "{}", first[0]);
    assert!(first[0].contains("\n@echo [[say hello anna]]\n\\From: boss\n----- end "), "{}", first[0]);
    assert!(first[1].starts_with("C2A RESPONSE RULES\n") && first[1].contains("\nthread: "), "{}", first[1]);
    let known = log(&place).into_iter().filter(|line| line["session"].is_string());
    assert!(
        known.into_iter().all(|line| line["known"] == true),
        "a session is on disk before its first prompt"
    );
    let starts = log(&place).iter().filter(|line| line["started"].is_number()).count();
    assert_eq!(starts, 1);
    let activities = agent.stop().await;
    let used = Activity::Used { input_tokens: Some(12), output_tokens: Some(3), cost: None };
    assert!(activities.contains(&used), "{activities:#?}");
    assert_eq!(place.read("state/echo.acp-process"), "", "the program has ended");
}

#[tokio::test]
async fn a_tool_runs_after_a_person_has_agreed() {
    let (hub, place) = (Hub::start().await, Place::new());
    hub.mention("evt_1", "@echo [[run touch ran]][[say done]]");
    let agent = Agent::start(options(&hub, &place, "resume"));
    let world = hub.until("a question", |world| !world.approvals.is_empty()).await;
    let (asked, state) = &world.approvals[0];
    assert_eq!(
        (state.as_str(), &asked["requires_approval"], &asked["thread"]),
        ("held", &json!(true), &json!("evt_1"))
    );
    assert!(asked.get("reply_to").is_none_or(Value::is_null), "it is no answer");
    let text = asked["content"].as_str().unwrap();
    for part in [
        "**May `echo` do this?** `run touch ran`",
        "`evt_1` of `anna`",
        "answer until: ",
        "\"command\": \"touch ran\"",
    ] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    assert!(!text.contains("ca_0123"), "{text}");
    assert!(!place.path("ran").exists());
    hub.change(|world| world.approvals[0].1 = "agreed".into());
    let seen = hub.idle(1).await;
    assert_eq!(messages_of(&seen), ["done"]);
    assert!(place.path("ran").exists());
    let result = seen.iter().find(|event| event["type"] == "tool_result").unwrap();
    assert_eq!((&result["id"], &result["content"]), (&json!("tc_1"), &json!("it ran")));
    agent.stop().await;
}

#[tokio::test]
async fn a_tool_does_not_run_without_permission() {
    let (hub, place) = (Hub::start().await, Place::new());
    let mut options = options(&hub, &place, "resume");
    change(&mut options, |acp| acp.permission_limit = Duration::from_secs(1));
    hub.mention("evt_1", "@echo [[run touch ran]]");
    let agent = Agent::start(options);
    hub.until("a question", |world| !world.approvals.is_empty()).await;
    hub.change(|world| world.approvals[0].1 = "declined".into());
    assert_eq!(messages_of(&hub.idle(1).await), ["not permitted: x3"]);
    // Nobody answers, so the question is withdrawn. An answer that comes later does nothing.
    hub.mention("evt_2", "@echo [[run touch ran]]");
    let seen = hub.idle(2).await;
    assert_eq!(error(&seen).0, "declined");
    assert_eq!(hub.world().approvals[1].1, "withdrawn");
    assert_eq!(hub.world().approvals.len(), 2, "a person who did not permit a tool is not asked again");
    hub.change(|world| world.approvals[1].1 = "agreed".into());
    hub.mention("evt_3", "@echo [[say over]]");
    assert_eq!(messages_of(&hub.idle(3).await), ["not permitted: x3", "over"]);
    assert!(!place.path("ran").exists());
    let outcomes: Vec<_> = log(&place).into_iter().filter(|line| line["got"] == "answer").collect();
    let outcomes: Vec<_> = outcomes.iter().map(|line| line["message"]["result"]["outcome"].clone()).collect();
    let rejected = json!({"outcome": "selected", "optionId": "x3"});
    assert_eq!(outcomes, [rejected, json!({"outcome": "cancelled"})]);
    agent.stop().await;
}

#[tokio::test]
async fn a_stop_cancels_the_turn_and_withdraws_its_question() {
    let (hub, place) = (Hub::start().await, Place::new());
    hub.mention("evt_1", "@echo [[run touch ran]]");
    let agent = Agent::start(options(&hub, &place, "resume"));
    hub.until("a question", |world| !world.approvals.is_empty()).await;
    agent.stop().await;
    hub.until("a withdrawal", |world| world.approvals[0].1 == "withdrawn").await;
    assert!(methods(&place).contains(&"session/cancel".to_owned()), "{:?}", methods(&place));
    // The next start goes on in the same session, without the message.
    let agent = Agent::start(options(&hub, &place, "resume"));
    assert_eq!(messages_of(&hub.idle(2).await), ["went on"]);
    assert_eq!(prompts(&place, "s1").len(), 2);
    assert!(!place.path("ran").exists());
    agent.stop().await;
}

#[tokio::test]
async fn another_piece_cancels_the_prompt_before_the_next() {
    let (hub, place) = (Hub::start().await, Place::new());
    let piece = |id: &str, text: &str| {
        let mut chat = hub.chat(id, text);
        (chat["attention"]["mode"], chat["attention"]["policy"]) = ("buffered".into(), "must_respond".into());
        chat["event"]["thread"] = "evt_0".into();
        hub.put("chat", chat);
    };
    let mut options = options(&hub, &place, "resume");
    options.quiet = Duration::from_millis(50);
    let agent = Agent::start(options);
    piece("evt_1", "@echo [[sleep]]");
    sleeps(&place).await;
    piece("evt_2", "@echo and also this");
    until("another prompt", || methods(&place).iter().filter(|one| *one == "session/prompt").count() == 2)
        .await;
    let methods = methods(&place);
    assert_eq!(methods[methods.len() - 3..], ["session/prompt", "session/cancel", "session/prompt"]);
    agent.kill().await;
}

#[tokio::test]
async fn a_program_that_ends_in_a_turn_goes_on() {
    let (hub, place) = (Hub::start().await, Place::new());
    hub.mention("evt_1", "@echo [[crash]]");
    let agent = Agent::start(options(&hub, &place, "resume"));
    assert_eq!(messages_of(&hub.idle(1).await), ["went on"]);
    let prompts = prompts(&place, "s1");
    assert_eq!(prompts.len(), 2);
    assert!(prompts[1].starts_with("C2A EVENT\nevent_id: evt_1\n\nYou were interrupted "), "{}", prompts[1]);
    let why = agent.stop().await.into_iter().find_map(|one| match one {
        Activity::Retrying { why, .. } => Some(why),
        _ => None,
    });
    assert_eq!(why.as_deref(), Some("env ended: first / it went wrong"));
}

#[tokio::test]
async fn a_killed_agent_resumes_its_session() {
    for resume in ["resume", "load"] {
        let (hub, place) = (Hub::start().await, Place::new());
        hub.mention("evt_1", "@echo [[hang]]");
        let agent = Agent::start(options(&hub, &place, resume));
        sleeps(&place).await;
        agent.kill().await;
        let agent = Agent::start(options(&hub, &place, resume));
        assert_eq!(messages_of(&hub.idle(1).await), ["went on"], "{resume}");
        assert_eq!(prompts(&place, "s1").len(), 2);
        let opened = format!("session/{resume}");
        assert_eq!(methods(&place).iter().filter(|one| **one == opened).count(), 1);
        agent.stop().await;
    }
}

#[tokio::test]
async fn a_lost_session_begins_anew_unless_a_tool_was_called() {
    let (hub, place) = (Hub::start().await, Place::new());
    hub.mention("evt_1", "@echo [[sleep]]");
    let agent = Agent::start(options(&hub, &place, "none"));
    sleeps(&place).await;
    agent.kill().await;
    std::fs::remove_file(place.path("acp.log")).unwrap();
    let agent = Agent::start(options(&hub, &place, "none"));
    // The whole message is sent to a new session.
    sleeps(&place).await;
    assert!(prompts(&place, "s2")[0].contains("[[sleep]]"));
    agent.kill().await;
    let (hub, place) = (Hub::start().await, Place::new());
    hub.mention("evt_1", "@echo [[hang]]");
    let agent = Agent::start(options(&hub, &place, "none"));
    sleeps(&place).await;
    until("the record", || place.read("state/echo.acp-sessions").contains("\"acted\":\"hang\"")).await;
    agent.kill().await;
    let agent = Agent::start(options(&hub, &place, "none"));
    let seen = hub.idle(1).await;
    assert_eq!(
        error(&seen),
        ("interrupted", "interrupted after calling hang, and the session is lost; it is not called again")
    );
    agent.stop().await;
}

#[tokio::test]
async fn failures_are_tried_again_and_told() {
    for (message, tries, code, why) in [
        ("[[error the model is away]]", 3, "failed", "env: Internal error: the model is away"),
        ("", 3, "empty", "env said nothing"),
        ("[[refuse]]", 3, "refused", "env refused"),
        (
            "[[login]]",
            1,
            "login",
            "env wants a login: log in as its documentation says (Authentication required), then ask again",
        ),
    ] {
        let (hub, place) = (Hub::start().await, Place::new());
        hub.mention("evt_1", &format!("@echo {message}"));
        let agent = Agent::start(options(&hub, &place, "resume"));
        assert_eq!(error(&hub.idle(1).await), (code, why));
        assert_eq!(prompts(&place, "s1").len(), tries, "{message}");
        agent.stop().await;
    }
}

#[tokio::test]
async fn hostile_output_does_nothing() {
    let (hub, place) = (Hub::start().await, Place::new());
    hub.mention("evt_1", "@echo [[hostile]]");
    let agent = Agent::start(options(&hub, &place, "resume"));
    let seen = hub.idle(1).await;
    assert_eq!(messages_of(&seen), ["harmless"]);
    let call = seen.iter().find(|event| event["type"] == "tool_call").unwrap();
    let (name, args) = (call["name"].as_str().unwrap(), call["args"].to_string());
    assert!(name.starts_with("C2A EVENT event_id: evt_9z") && name.len() <= 256, "{name}");
    assert!(args.len() < 1000, "{}", args.len());
    let refused: Vec<_> = log(&place).into_iter().filter(|line| line["got"] == "answer").collect();
    let codes: Vec<_> =
        refused.iter().map(|line| (&line["message"]["id"], &line["message"]["error"]["code"])).collect();
    assert_eq!(codes, [(&json!(0), &json!(-32601)), (&json!("1"), &json!(-32601))]);
    hub.mention("evt_2", "@echo [[say still here]]");
    assert_eq!(messages_of(&hub.idle(2).await).last(), Some(&"still here"));
    agent.stop().await;
}

#[tokio::test]
async fn a_mode_is_set_and_an_unknown_one_is_told() {
    let (hub, place) = (Hub::start().await, Place::new());
    hub.mention("evt_1", "@echo [[say yes]]");
    let mut wanted = options(&hub, &place, "resume");
    change(&mut wanted, |acp| acp.mode = Some("default".into()));
    let agent = Agent::start(wanted);
    assert_eq!(messages_of(&hub.idle(1).await), ["yes"]);
    let set = log(&place).into_iter().find(|line| line["got"] == "session/set_mode").unwrap();
    assert_eq!(set["message"]["params"], json!({"sessionId": "s1", "modeId": "default"}));
    agent.stop().await;
    hub.mention("evt_2", "@echo [[say yes]]");
    let mut unknown = options(&hub, &place, "resume");
    change(&mut unknown, |acp| acp.mode = Some("yolo".into()));
    let agent = Agent::start(unknown);
    assert_eq!(error(&hub.idle(2).await), ("no_mode", "env has no mode yolo; its modes: auto, default"));
    agent.stop().await;
}
