//! Endpoint challenges: an endpoint that has not proven itself receives nothing but a challenge.

use crate::channel_fixture::ChannelFixture;
use crate::support::{Setup, TestHub, eventually};
use axum::Router;
use axum::http::HeaderMap;
use axum::routing::post;
use chorus_protocol::code::Code;
use data_encoding::BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

fn setup() -> Setup {
    Setup::new().config(|config| config.endpoint_challenge = true)
}

/// An endpoint that echoes challenges once it is told to.
#[derive(Clone)]
struct Echo {
    url: String,
    echoes: Arc<AtomicBool>,
    got: Arc<Mutex<Vec<(HeaderMap, String)>>>,
}

impl Echo {
    async fn start(echoes: bool) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/receive", listener.local_addr().unwrap());
        let echo = Self { url, echoes: Arc::new(echoes.into()), got: Arc::default() };
        let answering = echo.clone();
        let receive = move |headers: HeaderMap, body: String| {
            let value: Value = serde_json::from_str(&body).unwrap();
            answering.got.lock().unwrap().push((headers, body));
            let echoes = answering.echoes.load(Ordering::SeqCst) && value["type"] == "challenge";
            // Both forms of the echo are valid.
            let text = value["challenge"].as_str().unwrap_or_default().to_owned();
            async move { if echoes { text } else { json!({"status": "ok"}).to_string() } }
        };
        tokio::spawn(async move { axum::serve(listener, Router::new().fallback(post(receive))).await });
        echo
    }

    /// Counts the received challenges and other requests.
    fn got(&self) -> (usize, usize) {
        let got = self.got.lock().unwrap();
        let challenges = got.iter().filter(|(_, body)| body.contains(r#""type":"challenge""#)).count();
        (challenges, got.len() - challenges)
    }
}

async fn register(hub: &TestHub, name: &str, endpoint: &str, key: Option<&str>) -> Value {
    let body = json!({"agent_id": name, "endpoint": endpoint});
    hub.post("/register", key, &body).await.data().clone()
}

#[tokio::test]
async fn an_endpoint_that_echoes_is_used_and_another_one_is_not() {
    for setup in [setup(), Setup::postgres().config(|config| config.endpoint_challenge = true)] {
        let (hub, bob, victim) = (setup.start(), Echo::start(true).await, Echo::start(false).await);
        let alice = hub.register("alice").await;
        let made = register(&hub, "bob", &bob.url, None).await;
        assert_eq!(made["endpoint_proven"], true, "{made}");
        let (headers, body) = bob.got.lock().unwrap()[0].clone();
        let secret = made["webhook_secret"].as_str().unwrap().strip_prefix("whsec_").unwrap();
        let mut mac =
            Hmac::<sha2::Sha256>::new_from_slice(&BASE64.decode(secret.as_bytes()).unwrap()).unwrap();
        let (id, time) = (&headers["webhook-id"], &headers["webhook-timestamp"]);
        mac.update(&[id.as_bytes(), b".", time.as_bytes(), b".", body.as_bytes()].concat());
        let signature = format!("v1,{}", BASE64.encode(&mac.finalize().into_bytes()));
        assert_eq!(headers["webhook-signature"], signature, "a challenge is signed like everything");
        assert_eq!(hub.send(&alice, "alice", "bob", "hello").await.outcome(), (200, "delivered"));
        assert_eq!(bob.got(), (1, 1), "it is asked once");

        let made = register(&hub, "victim", &victim.url, None).await;
        assert_eq!(made["endpoint_proven"], false, "it is registered all the same");
        for _ in 0..20 {
            let sent = hub.send(&alice, "alice", "victim", "hello").await;
            assert_eq!(sent.outcome(), (200, "failed"), "{}", sent.text);
            assert_eq!(sent.data()["error_code"], Code::AgentUnreachable.as_str());
            let detail = sent.data()["detail"].as_str().unwrap();
            assert!(detail.contains("must answer the POST {\"type\": \"challenge\""), "{detail}");
        }
        let (challenges, others) = victim.got();
        assert!(challenges <= 4 && others == 0, "{challenges} {others}");

        // The proof of one endpoint does not cover another.
        let bob_key = register(&hub, "carl", &bob.url, None).await["api_key"].as_str().unwrap().to_owned();
        let moved = register(&hub, "carl", &victim.url, Some(&bob_key)).await;
        assert_eq!(moved["endpoint_proven"], false, "{moved}");
        assert_eq!(hub.send(&alice, "alice", "carl", "hello").await.outcome(), (200, "failed"));
        assert_eq!(victim.got().1, 0);

        // Once it echoes, the next send, which still fails, triggers the proof.
        victim.echoes.store(true, Ordering::SeqCst);
        let sent = async || hub.send(&alice, "alice", "victim", "hello").await.outcome().1.to_owned();
        assert_eq!(eventually(sent, |delivery| delivery == "delivered").await, "delivered");
    }
}

#[tokio::test]
async fn without_the_setting_nobody_is_asked() {
    let (hub, bob) = (TestHub::start(), Echo::start(false).await);
    let alice = hub.register("alice").await;
    let made = register(&hub, "bob", &bob.url, None).await;
    assert!(made.get("endpoint_proven").is_none(), "{made}");
    assert_eq!(hub.send(&alice, "alice", "bob", "hello").await.outcome(), (200, "delivered"));
    assert_eq!(bob.got(), (0, 1));
}

/// Pushed deliveries wait for the proof and arrive afterwards.
#[tokio::test]
async fn what_is_said_waits_for_the_proof() {
    let (fixture, timber) = (ChannelFixture::on(&setup()).await, Echo::start(false).await);
    let made = fixture.agent(&json!({"name": "timber", "endpoint": timber.url})).await;
    assert_eq!(made["endpoint_proven"], false);
    fixture.join(&fixture.channel, "timber").await;
    let event = fixture.say("@timber hello").await;
    eventually(async || timber.got().0, |challenges| *challenges >= 1).await;
    fixture.hub.background_round().await;
    assert_eq!(timber.got().1, 0, "nothing but challenges before the proof");
    timber.echoes.store(true, Ordering::SeqCst);
    // A new message triggers another challenge.
    let alice = fixture.hub.register("alice").await;
    let sent = async || fixture.hub.send(&alice, "alice", "timber", "hello").await.outcome().1.to_owned();
    eventually(sent, |delivery| delivery == "delivered").await;
    let delivery = fixture.delivery_is(&event, "delivered").await;
    assert_eq!(delivery["attempts"].as_array().map(Vec::len), Some(1), "{delivery}");
}
