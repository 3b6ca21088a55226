//! Other ways in: a connection string of one's own, and envelopes straight from peers.

use crate::hub::{Agent, Hub, Place, messages_of};
use chorus_agent::harness::{Activity, Listen};
use chorus_agent::{ReceiveOptions, Receiver, Retry, SendBody, send_direct};
use chorus_testkit::http;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

async fn told(agent: &Agent, find: impl Fn(&Activity) -> Option<String>) -> String {
    for _ in 0..3000 {
        if let Some(found) = agent.activities().iter().find_map(&find) {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("nothing was told: {:#?}", agent.activities());
}

async fn connection_string(agent: &Agent) -> String {
    let find = |activity: &Activity| match activity {
        Activity::Connection { connection_string } => Some(connection_string.clone()),
        _ => None,
    };
    told(agent, find).await
}

fn post(hub: &Hub, id: &str) -> Value {
    json!({"channel": {"id": "C04ABCDEF", "name": "general", "service": "Slack"},
        "message": {"id": id, "sender": "alice", "content": "hello"},
        "callback": format!("{}/channels/C04ABCDEF/inbox/tok_{id}", hub.url)})
}

#[tokio::test]
async fn by_a_connection_string_and_across_a_crash() {
    let (hub, place) = (Hub::start().await, Place::new());
    let options = |script: &str| {
        let mut options = place.script(&hub, script);
        options.listen = Listen::Connection { address: "127.0.0.1:0".into(), base: None };
        options
    };
    let slow_first =
        "echo x >> $D/runs; test $(wc -l < $D/runs) = 1 && sleep 300; echo re $CHORUS_MESSAGE_ID";
    let agent = Agent::start(options(slow_first));
    let first = connection_string(&agent).await;
    for id in ["m1", "m2", "m1"] {
        let answer = http::client().post(&first).json(&post(&hub, id)).send().await.unwrap();
        assert_eq!(answer.status(), 200, "it is taken before it is answered");
    }
    while place.read("runs").is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    agent.kill().await;
    // The service was told that both are taken, and will not send them again.
    let agent = Agent::start(options(slow_first));
    let second = connection_string(&agent).await;
    assert_eq!(first.rsplit_once('/').unwrap().1, second.rsplit_once('/').unwrap().1, "the secret stays");
    assert_eq!(messages_of(&hub.idle(2).await), ["re m1", "re m2"]);
    let answer = http::client().post(&second).json(&post(&hub, "m2")).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    agent.stop().await;
    assert_eq!(messages_of(&hub.world().seen).len(), 2);
}

#[tokio::test]
async fn directly_and_back_to_the_peer() {
    let (hub, place) = (Hub::start().await, Place::new());
    let mut peer = Receiver::bind("127.0.0.1:0", ReceiveOptions::new(|| 0)).await.unwrap();
    let mut options = place.script(&hub, "cat > $D/prompt; echo gern");
    let peers = BTreeMap::from([("alice@example.org".to_owned(), peer.url())]);
    options.listen = Listen::Direct { address: "127.0.0.1:0".into(), peers };
    let agent = Agent::start(options);
    let find = |activity: &Activity| match activity {
        Activity::Listening { to } => Some(to.clone()),
        _ => None,
    };
    let url = told(&agent, find).await;
    let body = SendBody::direct("alice@example.org", "zh-CN", "hello")
        .with("cultural_context", "a friendly greeting");
    send_direct(&url, &body, Retry::default()).await.unwrap();
    let received = tokio::time::timeout(Duration::from_secs(30), peer.next()).await.unwrap().unwrap();
    let envelope: Value = serde_json::from_str(received.envelope.get()).unwrap();
    assert_eq!((&envelope["original_text"], &envelope["sender_id"]), (&json!("gern"), &json!("echo")));
    received.accept();
    assert!(place.read("prompt").contains("From culture: zh-CN\n"));
    // A stranger's message is taken, and nobody knows where to answer it.
    send_direct(&url, &SendBody::direct("eve@example.org", "en", "hello"), Retry::default()).await.unwrap();
    let find = |activity: &Activity| match activity {
        Activity::Failed { why, .. } => Some(why.clone()),
        _ => None,
    };
    assert!(told(&agent, find).await.contains("nobody knows where eve@example.org can be reached"));
    agent.stop().await;
    assert!(hub.world().resumed.is_empty() && place.read("state/echo.key").is_empty(), "no hub is needed");
}

#[tokio::test]
async fn a_foreign_post_on_the_inbox() {
    let (hub, place) = (Hub::start().await, Place::new());
    let mut data = post(&hub, "m1");
    data["trace_id"] = "t".into();
    hub.put("channel", data);
    let agent = Agent::start(place.script(&hub, "echo $CHORUS_EVENT_KIND $CHORUS_CHANNEL"));
    assert_eq!(messages_of(&hub.idle(1).await), ["channel C04ABCDEF"]);
    agent.stop().await;
}
