//! Other sources of messages: the agent's own connection string, and envelopes directly from peers.

use crate::hub::{Agent, Hub, Place, messages_of};
use chorus_agent::harness::{Activity, Guard, Listen, Peers};
use chorus_agent::{
    DirectError, Environment, ReceiveOptions, Receiver, Retry, SendBody, WebhookSecret, send_direct,
};
use chorus_testkit::http;
use serde_json::{Value, json};
use std::time::Duration;

pub(crate) async fn told(agent: &Agent, find: impl Fn(&Activity) -> Option<String>) -> String {
    for _ in 0..3000 {
        if let Some(found) = agent.activities().iter().find_map(&find) {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("nothing was told: {:#?}", agent.activities());
}

pub(crate) fn listens(activity: &Activity) -> Option<String> {
    match activity {
        Activity::Listening { to } => Some(to.clone()),
        _ => None,
    }
}

pub(crate) async fn connection_string(agent: &Agent) -> String {
    let find = |activity: &Activity| match activity {
        Activity::Connection { connection_string, .. } => connection_string.clone(),
        _ => None,
    };
    told(agent, find).await
}

pub(crate) fn connection(address: &str) -> Listen {
    Listen::Connection { address: address.into(), base: None, guard: Guard::default() }
}

/// Returns an address with a port that was free a moment ago.
fn free_address() -> String {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

fn post(hub: &Hub, id: &str) -> Value {
    json!({"channel": {"id": "C04ABCDEF", "name": "general", "service": "Slack"},
        "message": {"id": id, "sender": "alice", "content": "hello"},
        "callback": format!("{}/channels/C04ABCDEF/inbox/tok_{id}", hub.url)})
}

#[tokio::test]
async fn by_a_connection_string_and_across_a_crash() {
    let (hub, place, address) = (Hub::start().await, Place::new(), free_address());
    let options = |script: &str| {
        let mut options = place.script(&hub, script);
        options.listen = connection(&address);
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
    // Both messages were accepted, so the service does not send them again.
    let agent = Agent::start(options(slow_first));
    assert_eq!(messages_of(&hub.idle(2).await), ["re m1", "re m2"]);
    // The connection string stays the same.
    let answer = http::client().post(&first).json(&post(&hub, "m2")).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    agent.stop().await;
    assert_eq!(messages_of(&hub.world().seen).len(), 2);
}

#[tokio::test]
async fn the_hub_is_told_the_connection_string_once() {
    let (hub, place, address) = (Hub::start().await, Place::new(), free_address());
    let start = || {
        let mut options = place.script(&hub, "true");
        options.listen = connection(&address);
        Agent::start(options)
    };
    let agent = start();
    let shown = connection_string(&agent).await;
    hub.until("it is told", |world| world.connections.len() == 1).await;
    agent.stop().await;
    // The hub already has it, so it is only told that the agent is back. Callbacks issued before stay valid.
    let agent = start();
    hub.until("it is back", |world| world.connections.len() == 2).await;
    let told = agent.stop().await;
    let again = |one: &Activity| matches!(one, Activity::Connection { connection_string: None, .. });
    assert!(told.iter().any(again) && !format!("{told:?}").contains("sk_"), "it is shown once: {told:#?}");
    let [first, second] = &hub.world().connections[..] else { panic!("{:#?}", hub.world().connections) };
    assert_eq!(*first, ("PUT".to_owned(), json!({"connection_string": shown})));
    assert_eq!(second.0, "POST");
}

#[tokio::test]
async fn a_connection_string_needs_no_hub() {
    let (service, place) = (Hub::start().await, Place::new());
    let mut options = place.script(&service, "echo yes");
    options.url = None;
    options.listen = connection("127.0.0.1:0");
    let agent = Agent::start(options);
    let url = connection_string(&agent).await;
    http::client().post(&url).json(&post(&service, "m1")).send().await.unwrap();
    assert_eq!(messages_of(&service.idle(1).await), ["yes"]);
    agent.stop().await;
    assert!(service.world().registered.is_empty());
}

#[tokio::test]
async fn an_address_that_is_none_is_told() {
    let (hub, place) = (Hub::start().await, Place::new());
    let mut options = place.script(&hub, "true");
    options.listen = connection("0.0.0.0:0");
    let error = Agent::start(options).failed().await.to_string();
    assert!(error.starts_with("connection_url: is needed"), "{error}");
}

#[tokio::test]
async fn what_failed_may_come_again() {
    let (hub, place) = (Hub::start().await, Place::new());
    let mut options = place.script(&hub, "test -e $D/mended && echo yes");
    options.listen = connection("127.0.0.1:0");
    let agent = Agent::start(options);
    let url = connection_string(&agent).await;
    let send = async || {
        let answer = http::client().post(&url).json(&post(&hub, "m1")).send().await.unwrap();
        assert_eq!(answer.status(), 200);
    };
    send().await;
    hub.idle(1).await;
    std::fs::write(place.path("mended"), "").unwrap();
    send().await;
    assert_eq!(messages_of(&hub.idle(2).await), ["yes"]);
    // An answered message is not answered again.
    send().await;
    let repeated = |one: &Activity| matches!(one, Activity::Repeated { .. }).then(String::new);
    told(&agent, repeated).await;
    agent.stop().await;
    assert_eq!(messages_of(&hub.world().seen), ["yes"]);
}

#[tokio::test]
async fn only_who_is_admitted_can_write() {
    let hub = Hub::start().await;
    let secret = WebhookSecret::parse("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA").unwrap();
    let signed = Guard { secret: Some(secret), sources: vec![] };
    let elsewhere = Guard { secret: None, sources: vec!["192.0.2.0/24".parse().unwrap()] };
    for (guard, status) in [(signed, 401), (elsewhere, 403)] {
        let place = Place::new();
        let mut options = place.script(&hub, "echo yes");
        options.url = None;
        options.listen =
            Listen::Connection { address: "127.0.0.1:0".into(), base: None, guard: guard.clone() };
        let agent = Agent::start(options.clone());
        let url = connection_string(&agent).await;
        let answer = http::client().post(&url).json(&post(&hub, "m1")).send().await.unwrap();
        assert_eq!(answer.status(), status);
        agent.stop().await;

        options.listen = Listen::Direct { address: "0.0.0.0:0".into(), peers: Peers::default(), guard };
        let agent = Agent::start(options);
        let url = told(&agent, listens).await.replace("0.0.0.0", "127.0.0.1");
        let envelope = SendBody::direct("eve@example.org", "en", "hello");
        let error = send_direct(&url, &envelope, Retry::default(), &Environment::system()).await.unwrap_err();
        assert!(matches!(error, DirectError::Refused { status: seen, .. } if seen == status), "{error}");
        assert!(!agent.stop().await.iter().any(|one| matches!(one, Activity::Unguarded { .. })));
    }
    let place = Place::new();
    let mut options = place.script(&hub, "echo yes");
    let (peers, guard) = (Peers::default(), Guard::default());
    options.listen = Listen::Direct { address: "0.0.0.0:0".into(), peers, guard };
    let agent = Agent::start(options);
    told(&agent, |one| matches!(one, Activity::Unguarded { .. }).then(String::new)).await;
    agent.stop().await;
}

#[tokio::test]
async fn directly_and_back_to_the_peer() {
    let (hub, place) = (Hub::start().await, Place::new());
    let mut peer = Receiver::bind("127.0.0.1:0", ReceiveOptions::new(Environment::system())).await.unwrap();
    let mut options = place.script(&hub, "cat > $D/prompt; echo gern");
    let mut peers = Peers::default();
    peers.add("Alice@example.org", &peer.url()).unwrap();
    options.listen = Listen::Direct { address: "127.0.0.1:0".into(), peers, guard: Guard::default() };
    let agent = Agent::start(options);
    let url = told(&agent, listens).await;
    let body = SendBody::direct("alice@example.org", "zh-CN", "hello")
        .with("cultural_context", "a friendly greeting");
    send_direct(&url, &body, Retry::default(), &Environment::system()).await.unwrap();
    let received = tokio::time::timeout(Duration::from_secs(30), peer.next()).await.unwrap().unwrap();
    let envelope: Value = serde_json::from_str(received.envelope.get()).unwrap();
    assert_eq!((&envelope["original_text"], &envelope["sender_id"]), (&json!("gern"), &json!("echo")));
    received.accept();
    assert!(place.read("prompt").contains("author_culture: zh-CN\n"));
    // A stranger's message is accepted, but there is no address to answer it.
    send_direct(
        &url,
        &SendBody::direct("eve@example.org", "en", "hello"),
        Retry::default(),
        &Environment::system(),
    )
    .await
    .unwrap();
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
