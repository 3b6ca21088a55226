//! A stranger with the connection string cannot make an agent call addresses in its own network.

use crate::doors::{connection, connection_string, listens, told};
use crate::hub::{Agent, Hub, Place, messages_of};
use crate::mcp::FakeMcp;
use crate::model;
use chorus_agent::harness::{Activity, AgentOptions, Guard, Listen, Peers};
use chorus_testkit::http;
use chorus_testkit::openai::{Completion, FakeModel};
use serde_json::{Value, json};

/// Returns the options of an agent with a model and a connection string, and the default outbound policy.
fn plain(hub: &Hub, place: &Place, model: &FakeModel) -> AgentOptions {
    let mut options = model::options(hub, place, model);
    options.listen = connection("127.0.0.1:0");
    options.allow_private = vec![];
    options
}

fn post(service: &Hub, mcp: &FakeMcp) -> Value {
    json!({"channel": {"id": "C1"}, "message": {"id": "m1", "sender": "alice", "content": "hello"},
        "callback": format!("{}/channels/C1/inbox/tok_1", service.url), "mcp": {"url": mcp.url, "headers": {"Authorization": "Bearer eyJ"}}})
}

/// Posts to the agent and returns the status and the error message.
async fn told_by(agent: &Agent, post: &Value) -> (u16, String) {
    let answer = http::client().post(connection_string(agent).await).json(post).send().await.unwrap();
    let status = answer.status().as_u16();
    let body: Value = answer.json().await.unwrap();
    (status, body["error"]["message"].as_str().unwrap_or_default().to_owned())
}

fn skipped(activity: &Activity) -> Option<String> {
    match activity {
        Activity::Skipped { what } => Some(what.clone()),
        _ => None,
    }
}

#[tokio::test]
async fn a_callback_in_the_agents_own_network_is_refused() {
    let (hub, other, place) = (Hub::start().await, Hub::start().await, Place::new());
    let (mcp, model) = (FakeMcp::start(false).await, FakeModel::start([]).await);
    let agent = Agent::start(plain(&hub, &place, &model));
    // The error does not reveal the address of a name.
    for (host, why_not) in [
        ("127.0.0.1", "127.0.0.1 is a loopback address"),
        ("localhost", "localhost is no name of a public address"),
        ("[::ffff:127.0.0.1]", "127.0.0.1 is a loopback address"),
    ] {
        let mut post = post(&other, &mcp);
        post["callback"] = other.url.replace("127.0.0.1", host).into();
        let (status, why) = told_by(&agent, &post).await;
        assert_eq!(status, 400, "{host}");
        let expected = format!("callback: {why_not}; only public addresses are called");
        assert_eq!(why, expected, "{host}");
    }
    agent.stop().await;
    assert!(other.world().seen.is_empty() && mcp.calls().is_empty() && model.asked().is_empty());
}

#[tokio::test]
async fn a_foreign_tool_server_is_left_alone_and_the_own_hub_is_not() {
    let (hub, place) = (Hub::start().await, Place::new());
    let mcp = FakeMcp::start(false).await;
    let model = FakeModel::start([Completion::Text(vec!["yes"]), Completion::Text(vec!["again"])]).await;
    let agent = Agent::start(plain(&hub, &place, &model));
    let mut post = post(&hub, &mcp);
    assert_eq!(told_by(&agent, &post).await.0, 200, "the callback is on the agent's own hub");
    assert_eq!(messages_of(&hub.idle(1).await), ["yes"]);
    let why = told(&agent, skipped).await;
    assert_eq!(why, "a tool server that is not the hub's; --foreign-mcp uses such servers");
    post["message"]["id"] = "m2".into();
    assert_eq!(told_by(&agent, &post).await.0, 200);
    assert_eq!(messages_of(&hub.idle(2).await), ["yes", "again"]);
    let told = agent.stop().await;
    assert_eq!(told.iter().filter_map(skipped).count(), 1, "it is said once: {told:#?}");
    assert!(mcp.calls().is_empty(), "{:?}", mcp.calls());
}

#[tokio::test]
async fn a_foreign_tool_server_must_be_public_too() {
    let (hub, place) = (Hub::start().await, Place::new());
    let (mcp, model) = (FakeMcp::start(false).await, FakeModel::start([]).await);
    let agent = Agent::start(AgentOptions { foreign_mcp: true, ..plain(&hub, &place, &model) });
    let (status, why) = told_by(&agent, &post(&hub, &mcp)).await;
    assert_eq!(status, 400);
    assert!(why.starts_with("mcp.url: 127.0.0.1 is a loopback address"), "{why}");
    agent.stop().await;
    assert!(mcp.calls().is_empty());
}

/// A message of the agent's own hub cannot lead the agent into its private network either.
#[tokio::test]
async fn a_hub_does_not_lead_an_agent_into_its_own_network() {
    let (hub, other, place) = (Hub::start().await, Hub::start().await, Place::new());
    let (mcp, model) = (FakeMcp::start(false).await, FakeModel::start([]).await);
    let mut options = plain(&hub, &place, &model);
    options.listen = chorus_agent::harness::Listen::Inbox;
    let mut chat = hub.chat("evt_1", "@echo hello");
    chat["callback"] = format!("{}/channels/ch_1/inbox/tok_1", other.url).into();
    chat["mcp"] = json!({"url": mcp.url});
    hub.put("chat", chat);
    let agent = Agent::start(options);
    let failed = |activity: &Activity| match activity {
        Activity::Failed { why, .. } => Some(why.clone()),
        _ => None,
    };
    let why = told(&agent, failed).await;
    assert_eq!(why, "callback: 127.0.0.1 is a loopback address; only public addresses are called");
    agent.stop().await;
    assert!(other.world().seen.is_empty() && mcp.calls().is_empty() && model.asked().is_empty());
}

/// An unsigned body in the form of a hub's message proves nothing. It is a stranger's, with a stranger's
/// tools.
#[tokio::test]
async fn what_claims_to_come_from_the_hub_unsigned_is_a_strangers() {
    let (hub, other, place) = (Hub::start().await, Hub::start().await, Place::new());
    let mcp = FakeMcp::start(false).await;
    let model = FakeModel::start([Completion::Text(vec!["yes"])]).await;
    let mut options = plain(&hub, &place, &model);
    options.allow_private = vec!["127.0.0.1".parse().unwrap()];
    options.listen =
        Listen::Direct { address: "127.0.0.1:0".into(), peers: Peers::default(), guard: Guard::default() };
    let agent = Agent::start(options);
    let mut chat = other.chat("evt_1", "@echo hello");
    chat["mcp"] = json!({"url": mcp.url});
    let answer = http::client().post(told(&agent, listens).await).json(&chat).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(messages_of(&other.idle(1).await), ["yes"]);
    told(&agent, skipped).await;
    agent.stop().await;
    assert!(mcp.calls().is_empty(), "{:?}", mcp.calls());
    // Nor is it given the history of a channel of the agent's hub.
    assert!(!model.asked()[0].body.to_string().contains("earlier"), "{}", model.asked()[0].body);
}

#[tokio::test]
async fn what_was_allowed_is_called() {
    let (hub, other, place) = (Hub::start().await, Hub::start().await, Place::new());
    let mcp = FakeMcp::start(false).await;
    let model = FakeModel::start([Completion::Text(vec!["yes"])]).await;
    let allow_private = vec!["127.0.0.1".parse().unwrap()];
    let agent =
        Agent::start(AgentOptions { foreign_mcp: true, allow_private, ..plain(&hub, &place, &model) });
    assert_eq!(told_by(&agent, &post(&other, &mcp)).await.0, 200);
    assert_eq!(messages_of(&other.idle(1).await), ["yes"]);
    agent.stop().await;
    assert!(mcp.calls().iter().any(|call| call.starts_with("tools/list")), "{:?}", mcp.calls());
}
