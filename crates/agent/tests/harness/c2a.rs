//! A C2A session against a host written from the document: initialization, acknowledgements, notifications,
//! tools, and lost connections.

use crate::host::{Host, World, event, knock};
use crate::hub::{Agent, Place};
use chorus_agent::harness::{Activity, AgentOptions, Driver, Exec, HarnessError, Listen, OpenAi};
use chorus_agent::{Backoff, Environment};
use chorus_testkit::openai::{Completion, FakeModel};
use serde_json::{Value, json};
use std::time::Duration;

/// Returns the options of an agent that already has its key.
fn options(host: &Host, place: &Place, driver: Driver) -> AgentOptions {
    AgentOptions {
        name: "echo".into(),
        url: Some(host.url.clone()),
        invitation: None,
        key: Some("ca_1".into()),
        token: None,
        state: place.path("state"),
        culture: "en".into(),
        system: None,
        channels: vec![],
        listen: Listen::C2a,
        driver,
        allow_private: vec![],
        foreign_mcp: false,
        at_once: 4,
        quiet: Duration::from_secs(1),
        seen: false,
        offering: chorus_agent::harness::Offering::default(),
        environment: Environment::system(),
    }
}

fn script(host: &Host, place: &Place, script: &str) -> AgentOptions {
    let script = format!("D='{}'\n{script}", place.folder.path().display());
    options(host, place, Driver::Exec(Exec::new("sh", vec!["-c".into(), script])))
}

fn dispositions(world: &World) -> Vec<(&str, &str)> {
    let told = world.told.iter().filter(|(method, _)| method == "notifications/disposition");
    told.map(|(_, told)| (told["eventId"].as_str().unwrap(), told["disposition"].as_str().unwrap())).collect()
}

#[tokio::test]
async fn an_event_is_acknowledged_injected_and_answered_once() {
    let (host, place) = (Host::start().await, Place::new());
    let agent = Agent::start(script(&host, &place, "cat > $D/prompt; echo hello anna"));
    host.deliver(event("evt_1", "@echo hello"));
    let world = host.until("an answer", |world| !world.said.is_empty()).await;
    assert_eq!(world.keys, ["Bearer ca_1"]);
    assert_eq!(world.greetings[0]["protocolVersion"], "2026-06-02");
    assert_eq!(world.greetings[0]["capabilities"]["injection"]["buffered"], true);
    assert_eq!(world.acked, ["evt_1"]);
    let answer = &world.said[0];
    assert_eq!(
        (&answer["text"], &answer["inReplyTo"], &answer["target"]),
        (&json!("hello anna"), &json!("evt_1"), &json!({"conversationId": "ch_1"}))
    );
    // All members that an outbound message must have.
    assert_eq!((&answer["visibility"], &answer["directedness"]), (&json!("channel"), &json!("to_me")));
    assert!(answer["idempotencyKey"].as_str().unwrap().starts_with("answer-"));
    let injected: Vec<&Value> = world
        .told
        .iter()
        .filter(|(method, _)| method == "notifications/injected")
        .map(|told| &told.1)
        .collect();
    assert_eq!(injected[0]["eventIds"], json!(["evt_1"]));
    assert!(injected[0]["turnId"].is_string());
    let prompt = place.read("prompt");
    assert!(
        prompt.contains(
            "\nresponse_policy: must_respond\nreason: direct_mention\nreply_target: thread:evt_1\n"
        )
    );
    // A repeated event is acknowledged again, and nothing else happens.
    host.deliver_again();
    let world = host.until("an acknowledgement", |world| world.acked == ["evt_1"]).await;
    assert_eq!((world.said.len(), world.greetings.len()), (1, 2));
    agent.stop().await;
}

#[tokio::test]
async fn an_answer_that_was_under_way_when_the_session_broke_is_said_once() {
    let (host, place) = (Host::start().await, Place::new());
    host.change(|world| world.break_at_send = true);
    host.deliver(event("evt_1", "@echo hello"));
    let agent = Agent::start(script(&host, &place, "echo run >> $D/runs; echo hello"));
    let world = host.until("a second try", |world| world.called.len() >= 2).await;
    assert_eq!(world.called[0], world.called[1], "the same text under the same key");
    assert_eq!((world.said.len(), place.read("runs").as_str()), (1, "run\n"));
    agent.stop().await;
}

/// Two sessions that take over from each other would never stop.
#[tokio::test]
async fn a_takeover_ends_it() {
    let (host, place) = (Host::start().await, Place::new());
    let agent = Agent::start(script(&host, &place, "true"));
    host.until("a greeting", |world| !world.greetings.is_empty()).await;
    host.change(|world| world.close = Some(4001));
    host.cut();
    let error = agent.failed().await;
    assert!(matches!(&error, HarnessError::Takeover(name) if name == "echo"), "{error}");
    assert_eq!(host.world().greetings.len(), 1);
}

#[tokio::test]
async fn pieces_are_one_turn_and_the_earlier_ones_superseded() {
    let (host, place) = (Host::start().await, Place::new());
    let agent = Agent::start(script(&host, &place, "cat > $D/prompt; echo hello"));
    for (id, text) in [("evt_1", "when someone types"), ("evt_2", "in"), ("evt_3", "pieces")] {
        host.deliver(event(id, text));
    }
    host.tell("notifications/typing", json!({"conversationId": "ch_1", "author": "human:anna"}));
    let world = host.until("dispositions", |world| dispositions(world).len() >= 2).await;
    assert_eq!(dispositions(&world), [("evt_1", "superseded"), ("evt_2", "superseded")]);
    assert_eq!((world.said.len(), &world.said[0]["inReplyTo"]), (1, &json!("evt_3")));
    assert!(place.read("prompt").contains("\nwhen someone types\nin\npieces\n"), "{}", place.read("prompt"));
    agent.stop().await;
}

/// A piece that comes while the program runs cancels it, and the program runs again with both pieces.
#[tokio::test]
async fn a_piece_that_comes_while_the_program_thinks_is_merged() {
    let (host, place) = (Host::start().await, Place::new());
    let slow = "echo x >> $D/runs; cat > $D/prompt; test $(wc -l < $D/runs) = 1 && sleep 300 && echo late; echo hello";
    let agent = Agent::start(script(&host, &place, slow));
    host.deliver(event("evt_1", "@echo restart the database"));
    while place.read("prompt").is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    host.deliver(event("evt_2", "no, the cache"));
    let world = host.until("dispositions", |world| !dispositions(world).is_empty()).await;
    assert_eq!(dispositions(&world), [("evt_1", "superseded")]);
    assert_eq!((world.said.len(), &world.said[0]["inReplyTo"]), (1, &json!("evt_2")));
    assert!(place.read("prompt").contains("\n@echo restart the database\nno, the cache\n"));
    assert_eq!(place.read("runs").lines().count(), 2);
    agent.stop().await;
    assert_eq!(host.world().said.len(), 1);
}

#[tokio::test]
async fn what_is_edited_or_deleted_before_it_was_answered() {
    let (host, place) = (Host::start().await, Place::new());
    let mut options = script(&host, &place, "cat >> $D/prompt; echo hello");
    options.quiet = Duration::from_secs(3);
    let agent = Agent::start(options);
    host.deliver(event("evt_1", "the frist"));
    host.deliver(event("evt_2", "never mind"));
    host.until("acknowledgements", |world| world.acked.len() >= 2).await;
    let mut edit = event("evt_3", "the first");
    edit["supersedes"] = "evt_1".into();
    host.deliver(edit);
    host.tell("notifications/cancelled", json!({"requestId": "deliver 2 evt_2", "reason": "deleted"}));
    let world = host.until("an answer", |world| !world.said.is_empty()).await;
    assert_eq!(world.said[0]["inReplyTo"], "evt_3");
    let prompt = place.read("prompt");
    assert!(prompt.contains("\nthe first\n") && !prompt.contains("frist") && !prompt.contains("never mind"));
    agent.stop().await;
}

#[tokio::test]
async fn silence_and_failure_are_dispositions() {
    let (host, place) = (Host::start().await, Place::new());
    let mut failing = script(&host, &place, "grep -q fail && exit 1; exit 0");
    if let Driver::Exec(exec) = &mut failing.driver {
        exec.backoff = Backoff { base_ms: 1, max_ms: 2 };
    }
    let agent = Agent::start(failing);
    let may = |id: &str, text: &str, policy: &str| {
        let mut event = event(id, text);
        event["attention"]["policy"] = policy.into();
        event["conversation"]["id"] = format!("ch_{id}").into();
        event
    };
    host.deliver(may("evt_1", "quiet", "may_respond"));
    host.deliver(may("evt_2", "fail", "must_respond"));
    // These start no turn.
    host.deliver(may("evt_3", "thanks", "ack_only"));
    host.deliver(may("evt_4", "not for you", "must_not_respond"));
    let world = host.until("dispositions", |world| dispositions(world).len() >= 4).await;
    let mut all = dispositions(&world);
    all.sort_unstable();
    assert_eq!(
        all,
        [("evt_1", "ignored"), ("evt_2", "failed"), ("evt_3", "acknowledged"), ("evt_4", "ignored")]
    );
    let injected = world.told.iter().filter(|(method, _)| method == "notifications/injected");
    assert_eq!(injected.count(), 2);
    // A message that requires an answer stays open if the program gives none.
    host.deliver(may("evt_5", "quiet", "must_respond"));
    host.deliver(may("evt_6", "quiet", "may_respond"));
    let world = host.until("the last", |world| dispositions(world).contains(&("evt_6", "ignored"))).await;
    assert!(!dispositions(&world).iter().any(|(id, _)| *id == "evt_5"));
    assert!(world.said.is_empty());
    agent.stop().await;
}

/// With the option `seen`, the agent reacts to a message that requires an answer if there is none. It does not
/// react to other messages.
#[tokio::test]
async fn silence_that_was_asked_for_is_a_reaction() {
    let (host, place) = (Host::start().await, Place::new());
    let agent = Agent::start(AgentOptions { seen: true, ..script(&host, &place, "exit 0") });
    host.deliver(event("evt_1", "@echo look at this"));
    let mut may = event("evt_2", "who knows?");
    may["attention"]["policy"] = "may_respond".into();
    may["conversation"]["id"] = "ch_2".into();
    host.deliver(may);
    let world = host
        .until("both", |world| !world.called.is_empty() && dispositions(world) == [("evt_2", "ignored")])
        .await;
    assert_eq!(world.called, [("chat.react".to_owned(), json!({"inReplyTo": "evt_1", "signal": "seen"}))]);
    assert!(world.said.is_empty());
    agent.stop().await;
}

/// A cancelled message no longer waits for an answer.
#[tokio::test]
async fn what_a_cancellation_ended_is_superseded() {
    let (host, place) = (Host::start().await, Place::new());
    let slow = "cat > $D/prompt; grep -q stop $D/prompt && { echo stopped; exit 0; }; touch $D/runs; sleep 300; echo late";
    let agent = Agent::start(script(&host, &place, slow));
    host.deliver(event("evt_1", "@echo long work"));
    while !place.path("runs").exists() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut stop = event("evt_2", "@echo stop");
    (stop["attention"]["reason"], stop["injection"]["mode"]) = ("cancellation".into(), "immediate".into());
    host.deliver(stop);
    let world = host.until("an answer", |world| !world.said.is_empty()).await;
    assert_eq!(dispositions(&world), [("evt_1", "superseded")]);
    assert_eq!(world.said[0]["inReplyTo"], "evt_2");
    agent.stop().await;
}

/// A knock that is not followed up starts no turn. The next turn shows it.
#[tokio::test]
async fn a_knock_that_is_left_is_shown_with_the_next_turn() {
    let (host, place) = (Host::start().await, Place::new());
    let agent = Agent::start(script(&host, &place, "cat > $D/prompt; echo hello"));
    host.deliver(knock("evt_1", "thread_participation"));
    host.until("it is left", |world| dispositions(world) == [("evt_1", "ignored")]).await;
    host.deliver(event("evt_2", "@echo hello"));
    host.until("an answer", |world| !world.said.is_empty()).await;
    let prompt = place.read("prompt");
    let line = "\nknock evt_1: from human:anna, where channel:ops, directedness to_my_role, policy may_respond, \
                priority normal, topic a question in ops (read it with chat.read_thread)\n----- end ";
    assert!(prompt.contains("\n\nC2A KNOCKS\n----- knocks ") && prompt.contains(line), "{prompt}");
    agent.stop().await;
}

/// The reactions `seen` and `queued` do not replace an answer; `agree`, `declined` and `done` do.
#[tokio::test]
async fn what_a_model_says_after_a_reaction() {
    for (signal, said) in [
        ("seen", &["in words"][..]),
        ("queued", &["in words"]),
        ("blocked", &["in words"]),
        ("unclear", &["in words"]),
        ("working", &["in words"]),
        ("agree", &[]),
        ("done", &[]),
        ("declined", &[]),
    ] {
        let (host, place) = (Host::start().await, Place::new());
        let react: &'static str = format!(r#"{{"inReplyTo": "evt_1", "signal": "{signal}"}}"#).leak();
        let model = FakeModel::start([
            Completion::Calls(vec![("chat_react", react)]),
            Completion::Text(vec!["in words"]),
            Completion::Text(vec!["the next"]),
        ])
        .await;
        let openai = OpenAi::new(&model.url, "m1", None).unwrap();
        let agent = Agent::start(options(&host, &place, Driver::OpenAi(Box::new(openai))));
        host.deliver(event("evt_1", "@echo hello"));
        model.wait_for(2).await;
        host.deliver(event("evt_2", "@echo and again"));
        let next = |world: &World| world.said.iter().any(|said| said["text"] == "the next");
        let world = host.until("the next answer", next).await;
        let texts: Vec<_> = world.said.iter().map(|said| said["text"].as_str().unwrap()).collect();
        assert_eq!(texts, [said, &["the next"]].concat(), "{signal}");
        agent.stop().await;
    }
}

/// A deferral without a text is a complete answer: the event is not processed again, and no `seen` replaces
/// it.
#[tokio::test]
async fn a_reaction_without_words_is_enough() {
    let (host, place) = (Host::start().await, Place::new());
    let model = FakeModel::start([
        Completion::Calls(vec![("chat_react", r#"{"inReplyTo": "evt_1", "signal": "queued"}"#)]),
        Completion::Text(vec![""]),
    ])
    .await;
    let openai = OpenAi::new(&model.url, "m1", None).unwrap();
    let options = options(&host, &place, Driver::OpenAi(Box::new(openai)));
    let agent = Agent::start(AgentOptions { seen: true, ..options });
    host.deliver(event("evt_1", "@echo hello"));
    model.wait_for(2).await;
    host.deliver_again();
    host.until("it comes again", |world| world.acked == ["evt_1"] && world.greetings.len() == 2).await;
    let activities = agent.stop().await;
    assert!(activities.iter().any(|one| matches!(one, Activity::Repeated { .. })), "{activities:#?}");
    assert_eq!((host.world().called.len(), host.world().said.len()), (1, 0));
}

/// Returns the result of a successful claim.
fn held(id: &str, text: &str) -> Value {
    let mut whole = event(id, text);
    for member in ["injection", "reliability"] {
        whole.as_object_mut().unwrap().remove(member);
    }
    json!({"eventId": id, "state": "held", "holder": "agent:echo", "event": whole})
}

fn claims(world: &World) -> usize {
    world.called.iter().filter(|(tool, _)| tool == "chat.claim").count()
}

/// A knock that another agent held is claimed again when it comes again. An answered one is not.
#[tokio::test]
async fn a_knock_that_comes_again_is_claimed_again_and_answered_once() {
    let (host, place) = (Host::start().await, Place::new());
    host.change(|world| world.claim = json!({"code": "claimed_by_other", "message": "bob has it"}));
    let agent = Agent::start(script(&host, &place, "echo run >> $D/runs; echo me"));
    host.deliver(knock("evt_1", "role_mention"));
    host.until("a claim", |world| claims(world) == 1).await;
    // The next event of the same conversation is processed after it.
    host.deliver(knock("evt_2", "thread_participation"));
    host.until("the next one is left", |world| dispositions(world) == [("evt_2", "ignored")]).await;
    host.change(|world| world.claim = held("evt_1", "who can restart the database?"));
    host.deliver_again();
    let world = host.until("an answer", |world| !world.said.is_empty()).await;
    assert_eq!((claims(&world), &world.said[0]["inReplyTo"]), (2, &json!("evt_1")));
    host.deliver_again();
    host.until("acknowledgements", |world| world.acked.len() == 2).await;
    host.deliver(knock("evt_3", "thread_participation"));
    let world = host.until("the last one", |world| dispositions(world).contains(&("evt_3", "ignored"))).await;
    assert_eq!((claims(&world), world.said.len(), place.read("runs").as_str()), (2, 1, "run\n"));
    agent.stop().await;
}

/// A claim whose response was lost is repeated. So is one in flight when the harness died.
#[tokio::test]
async fn a_lost_claim_is_made_again_and_answered_once() {
    let (host, place) = (Host::start().await, Place::new());
    host.change(|world| {
        world.claim = held("evt_1", "who can restart the database?");
        world.break_at_claim = true;
    });
    host.deliver(knock("evt_1", "role_mention"));
    let answer = "echo run >> $D/runs; echo me";
    let agent = Agent::start(script(&host, &place, answer));
    let world = host.until("an answer", |world| !world.said.is_empty()).await;
    assert!(claims(&world) >= 2 && world.greetings.len() >= 2, "{:?}", world.called);
    host.deliver_again();
    host.until("an acknowledgement", |world| world.acked == ["evt_1"]).await;
    agent.stop().await;
    assert_eq!((host.world().said.len(), place.read("runs").as_str()), (1, "run\n"));

    // The harness dies before the claim is answered. The next one repeats it from the journal.
    let (host, place) = (Host::start().await, Place::new());
    host.change(|world| {
        world.claim = json!({"code": "offered_to_other", "retryAfterMs": 60_000, "message": "wait"});
    });
    host.deliver(knock("evt_1", "role_mention"));
    let agent = Agent::start(script(&host, &place, answer));
    host.until("a claim", |world| claims(world) == 1 && world.acked == ["evt_1"]).await;
    agent.kill().await;
    host.change(|world| world.claim = held("evt_1", "who can restart the database?"));
    let agent = Agent::start(script(&host, &place, answer));
    let world = host.until("an answer", |world| !world.said.is_empty()).await;
    assert_eq!((claims(&world), world.acked.len()), (2, 1), "it was not delivered again");
    host.deliver_again();
    host.until("an acknowledgement", |world| world.acked == ["evt_1"]).await;
    agent.stop().await;
    assert_eq!((host.world().said.len(), place.read("runs").as_str()), (1, "run\n"));
}

#[tokio::test]
async fn a_knock_is_claimed_or_left() {
    let (host, place) = (Host::start().await, Place::new());
    host.change(|world| world.claim = held("evt_1", "who can restart the database?"));
    let agent = Agent::start(script(&host, &place, "cat >> $D/prompt; echo me"));
    host.deliver(knock("evt_1", "role_mention"));
    let world = host.until("an answer", |world| !world.said.is_empty()).await;
    assert_eq!(world.called[0], ("chat.claim".into(), json!({"eventId": "evt_1", "ttlMs": 300_000})));
    assert!(place.read("prompt").contains("\nwho can restart the database?\n"));
    // Another agent was faster; and a thread message that asks nobody.
    host.change(|world| world.claim = json!({"code": "claimed_by_other", "message": "bob has it"}));
    host.deliver(knock("evt_2", "role_mention"));
    host.deliver(knock("evt_3", "thread_participation"));
    let world =
        host.until("two claims", |world| world.called.len() >= 3 && !dispositions(world).is_empty()).await;
    // A message held by another agent gets no disposition.
    assert_eq!(dispositions(&world), [("evt_3", "ignored")]);
    assert_eq!(world.said.len(), 1);
    agent.stop().await;
}

#[tokio::test]
async fn a_model_answers_by_the_chat_tools_and_not_twice() {
    let (host, place) = (Host::start().await, Place::new());
    let args = r#"{"target": {"conversationId": "ch_1"}, "inReplyTo": "evt_1", "idempotencyKey": "k", "text": "by tool",
        "visibility": "channel", "directedness": "to_me"}"#;
    let model = FakeModel::start([
        Completion::Calls(vec![("chat_read_thread", r#"{"conversationId": "ch_1"}"#)]),
        Completion::Calls(vec![("chat_send_message", args)]),
        Completion::Text(vec!["I have answered."]),
        Completion::Text(vec!["in words"]),
    ])
    .await;
    let openai = OpenAi::new(&model.url, "m1", None).unwrap();
    let agent = Agent::start(options(&host, &place, Driver::OpenAi(Box::new(openai))));
    host.deliver(event("evt_1", "@echo hello"));
    model.wait_for(3).await;
    host.deliver(event("evt_2", "@echo and again"));
    let world = host.until("the second answer", |world| world.said.len() >= 2).await;
    let texts: Vec<_> = world.said.iter().map(|said| said["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["by tool", "in words"]);
    let names: Vec<_> = world.called.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        ["chat.read_thread", "chat.send_message", "chat.send_message"],
        "by the document's names"
    );
    let asked = &model.asked()[0].body;
    assert_eq!(asked["tools"][0]["function"]["name"], "chat_send_message", "models know no dots");
    let system = asked["messages"][0]["content"].as_str().unwrap();
    assert!(system.contains("C2A RESPONSE RULES\n- Obey response_policy"), "{system}");
    agent.stop().await;
}
