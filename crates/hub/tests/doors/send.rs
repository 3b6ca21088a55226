//! Sending: every outcome, who may send for whom, and that envelopes arrive unchanged.

use crate::held_receiver::HeldReceiver;
use crate::support::{Answer, HOST, OPERATOR, SOON, Setup, TestHub, envelope, eventually, members};
use chorus_hub::Policy;
use chorus_protocol::code::Code;
use chorus_testkit::receiver::{FakeAgent, Reply};
use data_encoding::BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use reqwest::Method;
use serde_json::json;
use std::time::Duration;

#[tokio::test]
async fn to_an_inbox() {
    let hub = TestHub::start();
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    let queued = hub.send(&alice, "alice", "bob", "waits").await;
    assert_eq!(queued.outcome(), (202, "queued"));
    assert_eq!(members(queued.data()), ["delivery", "trace_id"]);

    let mut inbox = hub.inbox(&bob, None).await;
    let live = hub.send(&alice, "alice", "bob", "live").await;
    assert_eq!(live.outcome(), (200, "delivered_sse"));
    assert_eq!(members(live.data()), ["delivery", "trace_id"]);
    for (sent, text) in [(&queued, "waits"), (&live, "live")] {
        let (_, message) = inbox.message().await;
        assert_eq!(message["trace_id"], sent.data()["trace_id"]);
        assert_eq!(message["envelope"], envelope("alice", text));
        assert_eq!(
            (&message["sender_id"], &message["receiver_id"]),
            (&json!(format!("alice@{HOST}")), &json!(format!("bob@{HOST}")))
        );
    }
    drop(inbox);
    eventually(async || hub.online("bob").await, |online| !online).await;
    assert_eq!(hub.send(&alice, "alice", "bob", "waits too").await.outcome(), (202, "queued"));
    assert_eq!(hub.send(&alice, "alice", "alice", "to myself").await.outcome(), (202, "queued"));
}

#[tokio::test]
async fn to_a_webhook() {
    let (hub, receiver) = (TestHub::start(), FakeAgent::start().await);
    let alice = hub.register("alice").await;
    hub.register_webhook("bob", &receiver.url()).await;
    let json = hub.send(&alice, "alice", "bob", "one").await;
    assert_eq!(json.outcome(), (200, "delivered"));
    assert_eq!(members(json.data()), ["delivery", "receiver_response", "trace_id"]);
    assert_eq!(json.data()["receiver_response"], json!({"status": "ok"}));
    receiver.set(Reply::Text(200, "thank you".into()));
    let text = hub.send(&alice, "alice", "bob", "two").await;
    assert_eq!(
        (text.outcome(), &text.data()["receiver_response"]),
        ((200, "delivered"), &json!("thank you"))
    );
    let texts: Vec<_> = receiver.requests().iter().map(|request| request.body.clone()).collect();
    assert_eq!(texts, ["one", "two"].map(|text| json!({"envelope": envelope("alice", text)})));
}

/// A failure names its reason and is in the history; nothing is retried without the sender.
#[tokio::test]
async fn to_a_webhook_that_fails() {
    let receiver = FakeAgent::start().await;
    let hub = Setup::new().config(|config| config.webhook_timeout = Duration::from_millis(300)).start();
    let alice = hub.register("alice").await;
    let bob = hub.register_webhook("bob", &receiver.url()).await;
    for (reply, code, detail) in [
        (Reply::Json(503, json!({})), "ERR_AGENT_UNREACHABLE", "receiver answered HTTP 503"),
        (Reply::Redirect(receiver.url()), "ERR_AGENT_UNREACHABLE", "receiver answered HTTP 307"),
        (Reply::Hang, "ERR_TIMEOUT", "receiver did not respond within 0.3 s"),
    ] {
        receiver.set(reply);
        let failed = hub.send(&alice, "alice", "bob", detail).await;
        assert_eq!(failed.outcome(), (200, "failed"));
        assert_eq!(members(failed.data()), ["delivery", "detail", "error_code", "trace_id"]);
        assert_eq!((&failed.data()["error_code"], &failed.data()["detail"]), (&json!(code), &json!(detail)));
    }
    assert_eq!(receiver.requests().len(), 3, "one POST for each send");
    let states: Vec<_> = hub.history(&bob).await.iter().map(|message| message["delivery"].clone()).collect();
    assert_eq!(states, ["failed"; 3]);

    let endpoint = receiver.url();
    drop(receiver);
    let failed = hub.send(&alice, "alice", "bob", "gone").await;
    assert_eq!(
        (failed.outcome(), &failed.data()["error_code"]),
        ((200, "failed"), &json!("ERR_AGENT_UNREACHABLE"))
    );
    assert!(!failed.text.contains(&endpoint), "the receiver's endpoint is not the sender's business");
    let mut inbox = hub.inbox(&bob, None).await;
    inbox.assert_quiet().await;
}

/// An endpoint that was valid at registration is checked again when it is used.
#[tokio::test]
async fn to_an_endpoint_that_turned_private() {
    let receiver = FakeAgent::start().await;
    let allow = || Policy { allow: vec!["127.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()] };
    let hub = Setup::new().config(|config| config.outbound = allow()).start();
    let alice = hub.register("alice").await;
    hub.register_webhook("literal", &receiver.url()).await;
    hub.register_webhook("named", &receiver.url().replace("127.0.0.1", "localhost")).await;
    for to in ["literal", "named"] {
        assert_eq!(hub.send(&alice, "alice", to, "allowed").await.outcome(), (200, "delivered"), "{to}");
    }
    let hub = hub.restart(|config| config.outbound = Policy::default()).await;
    // The resolved address is not revealed.
    for (to, why) in [("literal", "loopback"), ("named", "no name of a public address")] {
        let failed = hub.send(&alice, "alice", to, "not any more").await;
        assert_eq!(failed.outcome(), (200, "failed"), "{to}");
        assert_eq!(failed.data()["error_code"], "ERR_ENDPOINT_BLOCKED", "{to}: {}", failed.text);
        assert!(failed.data()["detail"].as_str().unwrap().contains(why), "{}", failed.text);
    }
    assert_eq!(receiver.requests().len(), 2);
}

/// An open inbox takes precedence over a webhook.
#[tokio::test]
async fn an_open_inbox_wins_over_a_webhook() {
    let (hub, receiver) = (TestHub::start(), FakeAgent::start().await);
    let alice = hub.register("alice").await;
    let bob = hub.register_webhook("bob", &receiver.url()).await;
    assert_eq!(hub.send(&alice, "alice", "bob", "one").await.outcome(), (200, "delivered"));
    let mut inbox = hub.inbox(&bob, None).await;
    assert_eq!(hub.send(&alice, "alice", "bob", "two").await.outcome(), (200, "delivered_sse"));
    assert_eq!(inbox.texts(1).await, ["two"], "what went by webhook does not come again");
    drop(inbox);
    eventually(async || hub.online("bob").await, |online| !online).await;
    assert_eq!(hub.send(&alice, "alice", "bob", "three").await.outcome(), (200, "delivered"));
    assert_eq!(receiver.requests().len(), 2);
    let history: Vec<_> = hub.history(&bob).await.iter().map(|message| message["delivery"].clone()).collect();
    assert_eq!(history, ["delivered", "delivered_sse", "delivered"]);
}

#[tokio::test]
async fn who_may_speak_for_whom() {
    let hub = TestHub::start();
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    for from in ["bob", "BOB@chorus", &format!("bob@{HOST}")] {
        hub.send(&alice, from, "bob", "as bob").await.failure(Code::SenderMismatch);
        assert_eq!(hub.send(OPERATOR, from, "bob", "for bob").await.outcome(), (202, "queued"));
    }
    for (key, from) in [(&*alice, "nobody"), (OPERATOR, "nobody"), (&*alice, "alice@elsewhere.example")] {
        hub.send(key, from, "bob", "hi").await.failure(Code::SenderNotRegistered);
    }
    for to in ["nobody", "nobody@chorus", "bob@elsewhere.example"] {
        hub.send(&alice, "alice", to, "hi").await.failure(Code::AgentNotFound);
    }
    hub.send(&bob, "alice", "nobody", "hi").await.failure(Code::SenderMismatch);
    let senders: Vec<_> =
        hub.history(&bob).await.iter().map(|message| message["sender_id"].clone()).collect();
    assert_eq!(senders, [const { "bob@chorus.example" }; 3], "refused ones left nothing");
}

/// An envelope arrives exactly as written: order, numbers, escapes, spaces and unknown members.
#[tokio::test]
async fn envelopes_arrive_as_they_were_written() {
    let (hub, receiver) = (TestHub::start(), FakeAgent::start().await);
    let alice = hub.register("alice").await;
    let bob = hub.register("bob").await;
    hub.register_webhook("hook", &receiver.url()).await;
    let written = r#"{ "x_number":1.50,"x_big": 123456789012345678901234567890, "x_exp":1E+2,"x_zero":-0,
"sender_culture":"en",	"chorus_version":"0.4", "original_text":"\u0048i \ud83d\ude00 \/ 😀 \u2028","sender_id":"Alice@chorus",
"x_null":null,"x_nested":{"b":[1,  2],"a":{}}, "x_data":"data: x\n\nevent: message\n\n" ,"":""}"#;
    let send = async |to: &str| {
        let body = format!(r#"{{"receiver_id":"{to}","envelope": {written} }}"#);
        Answer::of(hub.request(Method::POST, "/messages", Some(&alice)).body(body)).await
    };
    assert_eq!(send("bob").await.outcome(), (202, "queued"));
    let mut inbox = hub.inbox(&bob, None).await;
    assert_eq!(send("bob").await.outcome(), (200, "delivered_sse"));
    for _ in 0..2 {
        let event = inbox.sse.next(SOON).await.unwrap();
        assert!(event.data.contains(written), "{}", event.data);
    }
    let history = hub.get("/agent/messages", Some(&bob)).await;
    assert_eq!(history.text.matches(written).count(), 2, "{}", history.text);
    assert_eq!(send("hook").await.outcome(), (200, "delivered"));
    assert_eq!(receiver.requests()[0].raw, format!(r#"{{"envelope":{written}}}"#));
}

/// Standard Webhooks: the receiver can check the signature with the secret from its registration.
#[tokio::test]
async fn webhooks_are_signed() {
    let (hub, receiver) = (TestHub::start(), FakeAgent::start().await);
    let alice = hub.register("alice").await;
    let bob = hub.post("/register", None, &json!({"agent_id": "bob", "endpoint": receiver.url()})).await;
    let secret = bob.data()["webhook_secret"].as_str().unwrap().strip_prefix("whsec_").unwrap();
    let sent = hub.send(&alice, "alice", "bob", "signed").await;
    let request = &receiver.requests()[0];
    let header = |name: &str| request.headers[name].to_str().unwrap().to_owned();
    let (id, time) = (header("webhook-id"), header("webhook-timestamp"));
    assert!(id.contains(sent.data()["trace_id"].as_str().unwrap()), "{id}");
    let mut mac = <Hmac<sha2::Sha256>>::new_from_slice(&BASE64.decode(secret.as_bytes()).unwrap()).unwrap();
    mac.update(format!("{id}.{time}.").as_bytes());
    mac.update(&request.raw);
    let signature = BASE64.encode(&mac.finalize().into_bytes());
    assert_eq!(header("webhook-signature"), format!("v1,{signature}"));
    assert!(request.headers.get("authorization").is_none());
}

/// The outcome is recorded even if the sender has disconnected.
#[tokio::test]
async fn a_sender_that_does_not_wait() {
    let (hub, receiver) = (TestHub::start(), HeldReceiver::start().await);
    let alice = hub.register("alice").await;
    let bob = hub.register_webhook("bob", receiver.url()).await;
    let body = json!({"receiver_id": "bob", "envelope": envelope("alice", "I am off")});
    let send = tokio::spawn(hub.request(Method::POST, "/messages", Some(&alice)).json(&body).send());
    receiver.wait_for_message().await;
    assert_eq!(hub.history(&bob).await[0]["delivery"], "sending");
    send.abort();
    send.await.unwrap_err();
    receiver.release();
    let done = eventually(async || hub.history(&bob).await, |all| all[0]["delivery"] != "sending").await;
    assert_eq!(done[0]["delivery"], "delivered");
}

/// An accepted message is delivered even if the sender disconnects before the commit.
#[tokio::test]
async fn a_sender_that_leaves_before_the_commit() {
    let (hub, receiver) = (TestHub::start(), FakeAgent::start().await);
    let alice = hub.register("alice").await;
    let bob = hub.register_webhook("bob", &receiver.url()).await;
    assert_eq!(hub.send(&alice, "alice", "alice", "so that the key is known").await.status, 202);
    let release = hub.block_writes().await;
    let body = json!({"receiver_id": "bob", "envelope": envelope("alice", "I am off")});
    let send = tokio::spawn(hub.request(Method::POST, "/messages", Some(&alice)).json(&body).send());
    eventually(async || hub.store().queued(), |queued| *queued >= 1).await;
    send.abort();
    let connections = async || {
        let metrics = hub.get("/metrics", Some(OPERATOR)).await.text;
        metrics.lines().any(|line| line == "chorus_connections 1")
    };
    eventually(connections, |alone| *alone).await;
    drop(release);
    assert_eq!(receiver.wait_for(1, SOON).await[0].body["envelope"], body["envelope"]);
    eventually(async || hub.history(&bob).await, |all| all[0]["delivery"] == "delivered").await;
}

/// A stop waits for a webhook in progress, and its sender gets the outcome.
#[tokio::test]
async fn a_stop_waits_for_a_webhook() {
    let (hub, receiver) = (TestHub::start(), HeldReceiver::start().await);
    let alice = hub.register("alice").await;
    hub.register_webhook("bob", receiver.url()).await;
    let body = json!({"receiver_id": "bob", "envelope": envelope("alice", "just in time")});
    let send = tokio::spawn(Answer::of(hub.request(Method::POST, "/messages", Some(&alice)).json(&body)));
    receiver.wait_for_message().await;
    let stop = tokio::spawn(hub.stop());
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!stop.is_finished(), "it waits");
    receiver.release();
    stop.await.unwrap();
    assert_eq!(send.await.unwrap().outcome(), (200, "delivered"));
}
