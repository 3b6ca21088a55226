//! Envelopes: both cultures in the prompt, an envelope as the answer, and no endless exchange.

use crate::hub::{Agent, Hub, Place, TRACE};
use chorus_agent::harness::Activity;
use serde_json::{Value, json};

fn message(extra: Value) -> Value {
    let mut envelope = json!({"chorus_version": "0.4", "sender_id": "alice@x", "original_text": "下午一起喝杯咖啡?",
        "sender_culture": "zh-CN", "cultural_context": "An informal invitation, not about coffee."});
    envelope.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    json!({"trace_id": TRACE, "sender_id": "alice@x", "receiver_id": "echo@x", "created_at": "t", "envelope": envelope})
}

#[tokio::test]
async fn both_cultures_reach_the_program_and_an_envelope_goes_back() {
    let (hub, place) = (Hub::start().await, Place::new());
    hub.put("message", message(json!({"conversation_id": "c", "turn_number": 3})));
    let mut options = place.script(&hub, "cat > $D/prompt; echo gern");
    options.culture = "de".into();
    options.system = Some("Be brief.".into());
    let agent = Agent::start(options);
    let world = hub.until("an answer", |world| !world.sent.is_empty()).await;
    let expected = json!({"receiver_id": "alice@x", "envelope": {"chorus_version": "0.4", "sender_id": "echo@chorus",
        "original_text": "gern", "sender_culture": "de", "conversation_id": "c", "turn_number": 4,
        "in_reply_to": TRACE, "reply_depth": 1}});
    assert_eq!(world.sent, [expected]);
    let prompt = place.read("prompt");
    let head = format!(
        "C2A EVENT\nevent_id: {TRACE}\ndirectedness: to_me\nresponse_policy: must_respond\nreason: direct_message\n\
         reply_target: author\n\nC2A CONTEXT\n----- context "
    );
    let context = "\nconversation: dm c\nauthor: agent:alice@x\nauthor_culture: zh-CN\nyou: echo\nyour_culture: de\n\
                   cultural_context: An informal invitation, not about coffee.\n----- end ";
    assert!(prompt.contains(context) && prompt.contains("\n\nMESSAGE\n----- message "), "{prompt}");
    assert!(prompt.starts_with("Be brief.\n\nC2A RESPONSE RULES\n") && prompt.contains(&head), "{prompt}");
    agent.stop().await;
}

#[tokio::test]
async fn a_sender_that_listens_is_answered_there() {
    let (hub, place) = (Hub::start().await, Place::new());
    let mut listens = message(json!({}));
    listens["reply_stream"] = format!("{}/streams/1", hub.url).into();
    hub.put("message", listens.clone());
    let agent = Agent::start(place.script(&hub, "test $(wc -l < $D/state/echo.journal) -lt 3 && echo yes"));
    let world = hub.until("the stream", |world| world.streamed.len() >= 2).await;
    assert_eq!(
        world.streamed,
        [json!({"type": "chunk", "text": "yes"}), json!({"type": "done", "result": "yes"})]
    );
    // The next one fails, and the listening sender is told.
    listens["trace_id"] = "1123456789abcdef0123456789abcdef".into();
    hub.put("message", listens);
    let world = hub.until("the failure", |world| world.streamed.len() >= 3).await;
    assert_eq!((&world.streamed[2]["type"], &world.streamed[2]["code"]), (&json!("error"), &json!("failed")));
    assert!(world.sent.is_empty());
    agent.stop().await;
}

#[tokio::test]
async fn two_agents_do_not_answer_each_other_for_ever() {
    let (hub, place) = (Hub::start().await, Place::new());
    hub.put("message", message(json!({"reply_depth": 7})));
    let mut last = message(json!({"reply_depth": 8}));
    last["trace_id"] = "1123456789abcdef0123456789abcdef".into();
    hub.put("message", last);
    let agent = Agent::start(place.script(&hub, "echo yes"));
    let world = hub.until("an answer", |world| !world.sent.is_empty()).await;
    assert_eq!(world.sent[0]["envelope"]["reply_depth"], 8);
    while !agent.activities().iter().any(|one| matches!(one, Activity::Silent { why: Some(_), .. })) {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    agent.stop().await;
    assert_eq!(hub.world().sent.len(), 1);
}

#[tokio::test]
async fn what_may_pass_is_tried_again_and_nothing_else() {
    let (hub, place) = (Hub::start().await, Place::new());
    let failed = |code: &str| (200, json!({"delivery": "failed", "trace_id": TRACE, "error_code": code}));
    let away = (503, json!({"code": "ERR_OVERLOADED", "message": "not now"}));
    // Three failures to reach the hub do not count as tries of the receiver.
    hub.change(|world| {
        world.outcomes = [
            away.clone(),
            away.clone(),
            away,
            failed("ERR_AGENT_UNREACHABLE"),
            failed("ERR_AGENT_UNREACHABLE"),
        ]
        .into();
    });
    hub.put("message", message(json!({})));
    let agent = Agent::start(place.script(&hub, "echo yes"));
    hub.until("an answer", |world| !world.sent.is_empty()).await;
    assert!(hub.world().outcomes.is_empty());
    // A permanent delivery failure is not retried.
    hub.change(|world| world.outcomes = [failed("ADAPTATION_FAILED")].into());
    let mut next = message(json!({}));
    next["trace_id"] = "1123456789abcdef0123456789abcdef".into();
    hub.put("message", next);
    let failed = |agent: &Agent| agent.activities().iter().any(|one| matches!(one, Activity::Failed { .. }));
    while !failed(&agent) && hub.world().sent.len() == 1 {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert_eq!(hub.world().sent.len(), 1);
    agent.stop().await;
}

#[tokio::test]
async fn an_answer_that_is_too_long_is_cut() {
    let (hub, place) = (Hub::start().await, Place::new());
    hub.put("message", message(json!({})));
    let agent = Agent::start(place.script(&hub, "head -c 20000 /dev/zero | tr '\\0' x"));
    let world = hub.until("an answer", |world| !world.sent.is_empty()).await;
    let text = world.sent[0]["envelope"]["original_text"].as_str().unwrap();
    assert_eq!((text.chars().count(), text.ends_with('…')), (10_000, true));
    agent.stop().await;
}
