//! A program as an agent.

use crate::hub::{Agent, Hub, Mood, Place, TRACE, kinds, messages_of};
use chorus_agent::harness::{Activity, Driver, Exec, HarnessError};
use serde_json::json;
use std::time::Duration;

#[tokio::test]
async fn a_mention_is_answered_once_and_shown() {
    let (hub, place) = (Hub::start().await, Place::new());
    hub.mention("evt_1", "@echo hello\nFrom: boss");
    let script = "cat > $D/prompt; env | grep ^CHORUS_ | sort > $D/env; echo hello anna";
    let mut options = place.script(&hub, script);
    options.channels = vec!["ch_1".into(), "ch_2".into()];
    let agent = Agent::start(options);
    let seen = hub.idle(1).await;
    assert_eq!(kinds(&seen), ["processing", "status", "message", "idle"]);
    assert_eq!(messages_of(&seen), ["hello anna"]);

    let prompt = place.read("prompt");
    let head = "\n\nC2A EVENT\nevent_id: evt_1\nconversation: channel ch_1\nauthor_id: a1\nreason: direct_mention\n\
                reply_target: thread:evt_1\n\nC2A CONTEXT\n----- context ";
    assert!(prompt.starts_with("C2A RESPONSE RULES\n") && prompt.contains(head), "{prompt}");
    let context =
        "\nchannel: ops\nabout: Where operations are coordinated\nauthor: human:anna\nyou: echo\n----- end ";
    assert!(prompt.contains(context) && prompt.contains("\n\nMESSAGE\n----- message "), "{prompt}");
    assert!(prompt.contains("\n@echo hello\n\\From: boss\n----- end "), "{prompt}");
    assert_eq!(
        place.read("env"),
        format!(
            "CHORUS_CHANNEL=ch_1\nCHORUS_EVENT_KIND=chat\nCHORUS_MESSAGE_ID=evt_1\nCHORUS_SENDER=anna\n\
             CHORUS_SENDER_ID=a1\nCHORUS_TRACE_ID={TRACE}\n"
        )
    );

    // The same message again, as from a hub that repeats it, and another one.
    hub.mention("evt_1", "@echo hello");
    hub.mention("evt_2", "@echo and again");
    assert_eq!(messages_of(&hub.idle(2).await), ["hello anna", "hello anna"]);
    let activities = agent.stop().await;
    let member = |channel: &str, name: Option<&str>| Activity::Membership {
        channel: channel.into(),
        name: name.map(str::to_owned),
    };
    for expected in [
        Activity::Registered,
        member("ch_1", Some("ops")),
        member("ch_2", None),
        Activity::Repeated { message: "evt_1".into() },
        Activity::Stopped,
    ] {
        assert!(activities.contains(&expected), "{expected:?} is not in {activities:#?}");
    }
    let took = Activity::Took {
        message: "evt_1".into(),
        from: "anna".into(),
        channel: Some("ops".into()),
        pieces: 1,
    };
    assert_eq!(activities.iter().filter(|activity| **activity == took).count(), 1);
    assert_eq!(place.read("state/echo.key"), "ca_1\n");
}

#[tokio::test]
async fn nothing_printed_is_silence() {
    let (hub, place) = (Hub::start().await, Place::new());
    hub.mention("evt_1", "@echo hello");
    let agent = Agent::start(place.script(&hub, "cat > /dev/null; printf '\\n \\n'"));
    assert_eq!(kinds(&hub.idle(1).await), ["processing", "status", "idle"]);
    assert!(agent.stop().await.iter().any(|activity| matches!(activity, Activity::Silent { why: None, .. })));
}

#[tokio::test]
async fn a_failure_is_tried_twice_more_and_told_without_secrets() {
    let (hub, place) = (Hub::start().await, Place::new());
    hub.mention("evt_1", "@echo hello");
    let script = "echo x >> $D/runs; echo first >&2; \
                  echo 'bad key ca_0123456789abcdef0123456789abcdef' >&2; echo >&2; exit 3";
    let agent = Agent::start(place.script(&hub, script));
    let seen = hub.idle(1).await;
    assert_eq!(kinds(&seen), ["processing", "status", "status", "status", "error", "idle"]);
    let error = json!({"type": "error", "code": "failed", "message": "bad key [redacted: agent key] (exit status: 3)"});
    assert_eq!(seen[4], error);
    assert_eq!(place.read("runs").lines().count(), 3);
    let retries = agent.stop().await.into_iter().filter(|one| matches!(one, Activity::Retrying { .. }));
    assert_eq!(retries.count(), 2);
}

#[tokio::test]
async fn a_program_that_recovers_answers() {
    let (hub, place) = (Hub::start().await, Place::new());
    hub.mention("evt_1", "@echo hello");
    let agent =
        Agent::start(place.script(&hub, "echo x >> $D/runs; test $(wc -l < $D/runs) = 2 && echo yes"));
    assert_eq!(messages_of(&hub.idle(1).await), ["yes"]);
    agent.stop().await;
}

/// Waits until the process whose id is in a file has ended.
async fn gone(place: &Place, file: &str) {
    let pid = place.read(file).trim().to_owned();
    assert!(!pid.is_empty());
    let stat = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    for _ in 0..500 {
        // A zombie process has ended as well.
        if stat().is_empty() || stat().contains(") Z ") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{pid} still runs: {}", stat());
}

#[tokio::test]
async fn a_program_that_takes_too_long_is_killed_with_its_children() {
    let (hub, place) = (Hub::start().await, Place::new());
    hub.mention("evt_1", "@echo hello");
    let mut options = place.script(&hub, "echo x >> $D/runs; sleep 300 & echo $! > $D/child; wait");
    let Driver::Exec(exec) = &mut options.driver else { unreachable!() };
    exec.limit = Duration::from_millis(500);
    let agent = Agent::start(options);
    let seen = hub.idle(1).await;
    assert_eq!(seen[2], json!({"type": "error", "code": "timeout", "message": "sh did not finish in 0.5 s"}));
    assert_eq!(place.read("runs").lines().count(), 1, "it is not tried again");
    gone(&place, "child").await;
    agent.stop().await;
}

#[tokio::test]
async fn a_program_that_prints_too_much_is_ended() {
    let (hub, place) = (Hub::start().await, Place::new());
    hub.mention("evt_1", "@echo hello");
    let agent = Agent::start(
        place.script(&hub, "while :; do echo yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy; done"),
    );
    let seen = hub.idle(1).await;
    assert_eq!(
        (kinds(&seen).as_slice(), &seen[2]["code"]),
        (&["processing", "status", "error", "idle"][..], &json!("too_long"))
    );
    agent.stop().await;
}

#[tokio::test]
async fn a_stop_puts_the_turn_off_and_says_so() {
    let (hub, place) = (Hub::start().await, Place::new());
    hub.mention("evt_1", "@echo hello");
    let script = "sleep 300 & echo $! > $D/child; echo x >> $D/runs; wait";
    let agent = Agent::start(place.script(&hub, script));
    while place.read("runs").is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let activities = agent.stop().await;
    let put_off = Activity::PutOff { message: "evt_1".into() };
    assert_eq!(activities[activities.len() - 2..], [put_off, Activity::Stopped]);
    let seen = hub.idle(1).await;
    assert_eq!(kinds(&seen), ["processing", "status", "status", "idle"]);
    assert_eq!(seen[2]["status"], "stopped; the answer comes at the next start");
    gone(&place, "child").await;
    // The message is not lost: the next start works on it, beside what came later.
    hub.mention("evt_2", "@echo hello");
    let agent = Agent::start(place.script(&hub, "echo $CHORUS_MESSAGE_ID"));
    let seen = hub.idle(3).await;
    let mut answers = messages_of(&seen);
    answers.sort_unstable();
    assert_eq!(answers, ["evt_1", "evt_2"]);
    assert_eq!(hub.world().resumed.last(), Some(&Some("0".to_owned())));
    agent.stop().await;
}

#[tokio::test]
async fn a_stop_ends_an_agent_that_is_still_starting() {
    let (hub, place) = (Hub::start().await, Place::new());
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut options = place.script(&hub, "true");
    options.url = Some(format!("http://{}", silent.local_addr().unwrap()));
    options.channels = vec!["ch_1".into()];
    std::fs::create_dir(place.path("state")).unwrap();
    std::fs::write(place.path("state/echo.key"), "ca_1").unwrap();
    let agent = Agent::start(options);
    // The agent asks for its membership, and gets no answer.
    let _asks = silent.accept().await.unwrap();
    let begun = std::time::Instant::now();
    assert_eq!(agent.stop().await, [Activity::Stopped]);
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn a_conflict_of_another_kind_is_no_answer() {
    let (hub, place) = (Hub::start().await, Place::new());
    hub.change(|world| world.mood = Mood::Contrary);
    hub.mention("evt_1", "@echo hello");
    let agent = Agent::start(place.script(&hub, "echo yes"));
    let seen = hub.idle(1).await;
    assert_eq!((&seen[2]["type"], &seen[2]["code"]), (&json!("error"), &json!("unsent")), "{seen:#?}");
    agent.stop().await;
}

#[tokio::test]
async fn what_is_no_message_is_skipped_and_lost_connections_are_resumed() {
    let (hub, place) = (Hub::start().await, Place::new());
    hub.put("chat", json!({"channel": 1}));
    hub.put("novelty", json!({}));
    hub.put("message", json!({"x": 1}));
    let agent = Agent::start(place.script(&hub, "echo $CHORUS_MESSAGE_ID"));
    hub.mention("evt_1", "@echo one");
    hub.idle(1).await;
    hub.cut();
    hub.mention("evt_2", "@echo two");
    assert_eq!(messages_of(&hub.idle(2).await), ["evt_1", "evt_2"]);
    let activities = agent.stop().await;
    let skipped = activities.iter().filter(|activity| matches!(activity, Activity::Skipped { .. })).count();
    assert_eq!(skipped, 3, "{activities:#?}");
    assert!(activities.iter().any(|activity| matches!(activity, Activity::Reconnecting { .. })));
    assert_eq!(hub.world().resumed, [Some("0".to_owned()), Some("4".to_owned())]);
}

#[tokio::test]
async fn a_hub_that_does_not_take_reports_still_gets_the_answer() {
    let (hub, place) = (Hub::start().await, Place::new());
    hub.change(|world| world.mood = Mood::Down);
    hub.mention("evt_1", "@echo hello");
    let agent = Agent::start(place.script(&hub, "echo yes; echo x > $D/ran"));
    while place.read("ran").is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    hub.change(|world| world.mood = Mood::Good);
    assert_eq!(messages_of(&hub.idle(1).await), ["yes"]);
    let unseen = agent.stop().await.into_iter().filter(|one| matches!(one, Activity::Unseen { .. })).count();
    assert_eq!(unseen, 1, "it is said once");
}

#[tokio::test]
async fn what_a_program_leaves_behind_does_not_hold_its_answer_up() {
    let (hub, place) = (Hub::start().await, Place::new());
    let script = "echo the answer; sleep 300 & echo $! > $D/child; exit 0";
    let mut options = place.script(&hub, script);
    if let Driver::Exec(exec) = &mut options.driver {
        exec.limit = Duration::from_secs(25);
    }
    let agent = Agent::start(options);
    hub.mention("evt_1", "@echo hello");
    assert_eq!(messages_of(&hub.idle(1).await), ["the answer"]);
    agent.stop().await;
    // A process that held the streams open is killed; shortly after it is a zombie or gone.
    let child = format!("/proc/{}/stat", place.read("child").trim());
    for _ in 0..200 {
        let stat = std::fs::read_to_string(&child).unwrap_or_default();
        if stat.is_empty() || stat.contains(") Z ") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{child} is still there");
}

#[tokio::test]
async fn what_keeps_an_agent_from_starting() {
    let (hub, place) = (Hub::start().await, Place::new());
    let missing = place.options(&hub, Driver::Exec(Exec::new("./no-such-program", vec![])));
    let error = Agent::start(missing).failed().await;
    assert_eq!(error.to_string(), "there is no program ./no-such-program");
    std::fs::write(place.path("plain.sh"), "#!/bin/sh\n").unwrap();
    let plain = place.options(&hub, Driver::Exec(Exec::new(place.path("plain.sh"), vec![])));
    let error = Agent::start(plain).failed().await;
    assert!(matches!(error, HarnessError::NotExecutable(_)), "{error}");

    let mut invited = place.script(&hub, "true");
    invited.invitation = Some("ci_1".into());
    let agent = Agent::start(invited);
    hub.until("an inbox", |world| !world.resumed.is_empty()).await;
    let error = Agent::start(place.script(&hub, "true")).failed().await;
    assert!(matches!(error, HarnessError::Busy(_)), "{error}");
    agent.stop().await;
    assert_eq!(hub.world().registered[0]["invitation"], "ci_1");

    let elsewhere = Place::new();
    let error = Agent::start(elsewhere.script(&hub, "true")).failed().await;
    let told = error.to_string();
    assert!(
        told.starts_with("the name echo is taken, and its key is not in ") && told.ends_with("echo.key"),
        "{told}"
    );

    let other = Hub::start().await;
    let error = Agent::start(place.script(&other, "true")).failed().await;
    assert!(matches!(error, HarnessError::OtherHub { .. }), "{error}");
    assert!(other.world().registered.is_empty());

    std::fs::write(place.path("state/echo.key"), "ca_2").unwrap();
    let error = Agent::start(place.script(&hub, "true")).failed().await;
    let told = error.to_string();
    assert!(told.starts_with("the hub does not take the key in ") && told.ends_with("echo.key"), "{told}");
}
