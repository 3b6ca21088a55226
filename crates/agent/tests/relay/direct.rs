//! Direct sends, against a scripted peer.

use crate::support::{FakeHub, Reply, json_reply, plain};
use chorus_agent::{Backoff, DirectError, Environment, ExitClass, Retry, SendBody, send_direct};
use chorus_protocol::relay::{ReceiverReply, ReceiverStatus};
use serde_json::{Value, json};
use std::time::Duration;

fn retry() -> Retry {
    Retry { tries: 4, backoff: Backoff { base_ms: 2, max_ms: 10 }, ..Retry::default() }
}

fn hello() -> SendBody {
    SendBody::direct("alice@x", "en", "hello")
}

fn turn() -> SendBody {
    hello().with("conversation_id", "talk").with("turn_number", 1)
}

fn ok() -> Reply {
    json_reply(200, &json!({"status": "ok"}))
}

fn busy() -> Reply {
    json_reply(503, &json!({"status": "error", "detail": "later"}))
}

async fn send(peer: &FakeHub, body: &SendBody) -> Result<ReceiverReply, DirectError> {
    send_direct(&format!("{}/in?box=1", peer.url), body, retry(), &Environment::system()).await
}

#[tokio::test]
async fn the_envelope_alone_is_sent_and_no_key() {
    let peer = FakeHub::scripted([ok()]).await;
    let reply = send(&peer, &SendBody::new("alice@x", "bob", "en", "hello")).await.unwrap();
    assert_eq!(reply.status, ReceiverStatus::Ok);
    let seen = &peer.seen()[0];
    assert_eq!(seen.line, "POST /in?box=1");
    assert_eq!(seen.header("content-type"), Some("application/json"));
    assert_eq!(seen.header("authorization"), None);
    let envelope = json!({"chorus_version": "0.4", "sender_id": "alice@x", "original_text": "hello",
        "sender_culture": "en"});
    assert_eq!(serde_json::from_str::<Value>(&seen.body).unwrap(), json!({"envelope": envelope}));
}

#[tokio::test]
async fn a_peers_no_is_an_answer() {
    for status in [200, 400] {
        let no = json!({"status": "error", "error_code": "UNSUPPORTED_VERSION", "detail": "0.4 is too new"});
        let peer = FakeHub::scripted([json_reply(status, &no)]).await;
        let reply = send(&peer, &hello()).await.unwrap();
        assert_eq!(reply.error_code.as_deref(), Some("UNSUPPORTED_VERSION"));
        assert_eq!(peer.lines().len(), 1);
    }
}

#[tokio::test]
async fn only_what_may_pass_is_tried_again() {
    let peer = FakeHub::scripted([busy(), plain(429, ""), ok()]).await;
    send(&peer, &hello()).await.unwrap();
    assert_eq!(peer.lines().len(), 3);

    for status in [401, 403, 404, 413, 500] {
        let peer =
            FakeHub::scripted([json_reply(status, &json!({"status": "error", "detail": "because"}))]).await;
        let error = send(&peer, &turn()).await.unwrap_err();
        assert_eq!(error.exit_class(), ExitClass::Refused);
        assert!(error.to_string().ends_with(&format!(" refused: because (HTTP {status})")), "{error}");
        assert_eq!(peer.lines().len(), 1);
    }

    let peer = FakeHub::scripted((0..9).map(|_| busy())).await;
    assert!(send(&peer, &hello()).await.is_err());
    assert_eq!(peer.lines().len(), 4);
}

/// Without a turn number a peer could take a retry for a second message.
#[tokio::test]
async fn what_may_have_arrived_is_sent_again_only_if_it_is_numbered() {
    for (body, tries) in [(hello(), 1), (turn(), 2)] {
        let peer = FakeHub::scripted([plain(504, "<html>"), ok()]).await;
        assert_eq!(send(&peer, &body).await.is_ok(), tries == 2);
        assert_eq!(peer.lines().len(), tries);
    }
}

#[tokio::test]
async fn the_peers_pause_is_honoured() {
    let peer = FakeHub::scripted([busy().header("retry-after", "1"), ok()]).await;
    let start = std::time::Instant::now();
    send(&peer, &hello()).await.unwrap();
    assert!(start.elapsed() >= Duration::from_secs(1));
}

#[tokio::test]
async fn strange_answers_give_clear_errors() {
    let fault = |reply| async {
        let peer = FakeHub::scripted([reply]).await;
        let fault = send(&peer, &hello()).await.unwrap_err();
        assert_eq!(peer.lines().len(), 1);
        fault.to_string()
    };
    assert!(fault(plain(200, "")).await.contains("did not answer as an agent does"));
    assert!(fault(plain(200, &" ".repeat(65 << 10))).await.contains("answered more than 64 KiB"));
    let moved = fault(plain(307, "").header("location", "http://elsewhere/")).await;
    assert!(moved.contains("it redirects to http://elsewhere/; use that address instead"), "{moved}");
    assert!(fault(plain(404, "<html>")).await.contains("gave no reason"));
}

#[tokio::test]
async fn nobody_there() {
    let error = send(&FakeHub::nobody().await, &hello()).await.unwrap_err();
    assert_eq!(error.exit_class(), ExitClass::Unreachable);
    assert!(error.to_string().starts_with("cannot reach the agent at http://127.0.0.1:"), "{error}");
}

#[tokio::test]
async fn nothing_wrong_is_sent() {
    let peer = FakeHub::scripted([]).await;
    let wrong = SendBody::direct("al ice", "en", "");
    let error = send(&peer, &wrong).await.unwrap_err();
    assert_eq!(error.exit_class(), ExitClass::Usage);
    assert!(error.to_string().contains("envelope.sender_id") && error.to_string().contains("original_text"));
    for url in ["", "bob@example.org", "ftp://x/", "http://u:p@x/", "http://x/#y"] {
        let error = send_direct(url, &hello(), retry(), &Environment::system()).await.unwrap_err();
        assert!(error.to_string().starts_with("url: must"), "{url}: {error}");
    }
    assert!(peer.lines().is_empty());
}
