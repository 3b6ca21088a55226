//! Misbehaving webhook receivers: each gives an outcome, and none disturbs the hub.

use crate::support::{Answer, SOON, Setup, TestHub, envelope};
use chorus_hub::quotas::OFF;
use chorus_testkit::receiver::{FakeAgent, Reply};
use reqwest::Method;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

const WEBHOOK_TIMEOUT: Duration = Duration::from_millis(500);

fn hub() -> TestHub {
    Setup::new().config(|config| config.webhook_timeout = WEBHOOK_TIMEOUT).start()
}

/// Returns the outcome of one send to `endpoint`. Checks that the hub is healthy and the history agrees.
async fn outcome(hub: &TestHub, endpoint: &str) -> Value {
    let (key, to) = (hub.register("a").await, hub.register_webhook("b", endpoint).await);
    let begun = Instant::now();
    let answer = hub.send(&key, "a", "b", "hi").await;
    assert!(begun.elapsed() < SOON, "{endpoint}");
    assert_eq!(answer.status, 200, "{}", answer.text);
    let outcome = answer.data().clone();
    assert_eq!(hub.history(&to).await.last().unwrap()["delivery"], outcome["delivery"]);
    hub.assert_healthy().await;
    hub.delete("/agents/a", Some(&key)).await;
    hub.delete("/agents/b", Some(&to)).await;
    outcome
}

fn assert_failed(outcome: &Value, code: &str, detail: &str) {
    assert_eq!((&outcome["delivery"], &outcome["error_code"]), (&json!("failed"), &json!(code)), "{outcome}");
    assert!(outcome["detail"].as_str().unwrap().contains(detail), "{outcome}");
}

#[tokio::test]
async fn receivers_that_do_not_take_it() {
    let (hub, receiver, trap) = (hub(), FakeAgent::start().await, FakeAgent::start().await);
    for (reply, code, detail) in [
        (Reply::Redirect(trap.url()), "ERR_AGENT_UNREACHABLE", "HTTP 307"),
        (Reply::Hang, "ERR_TIMEOUT", "0.5 s"),
        (Reply::DropConnection, "ERR_AGENT_UNREACHABLE", "could not be reached"),
        (Reply::Json(500, json!({"status": "ok"})), "ERR_AGENT_UNREACHABLE", "HTTP 500"),
        (Reply::Json(404, json!({})), "ERR_AGENT_UNREACHABLE", "HTTP 404"),
        (Reply::Text(401, "who are you?".into()), "ERR_AGENT_UNREACHABLE", "HTTP 401"),
        (Reply::Text(304, String::new()), "ERR_AGENT_UNREACHABLE", "HTTP 304"),
        (Reply::Slow(SOON, Box::new(Reply::Text(200, "late".into()))), "ERR_TIMEOUT", "within"),
    ] {
        receiver.set(reply.clone());
        let outcome = outcome(&hub, &receiver.url()).await;
        assert_failed(&outcome, code, detail);
    }
    assert_eq!(trap.requests().len(), 0, "a redirect was followed");
}

#[tokio::test]
async fn receivers_that_answer_oddly() {
    let (hub, receiver) = (hub(), FakeAgent::start().await);
    let text = |text: &str| Reply::Text(200, text.into());
    let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
    for (reply, expected) in [
        (Reply::Json(201, json!({"status": "ok", "n": [1, null]})), json!({"status": "ok", "n": [1, null]})),
        (text("thank you"), json!("thank you")),
        (text(""), json!("")),
        (text("\0zero\0"), json!("zero")),
        (text(r#"{"a":1,"a":2}"#), json!(r#"{"a":1,"a":2}"#)),
        (text(r#"{"a":"\u0000"}"#), json!(r#"{"a":"\u0000"}"#)),
        (text(&"ü".repeat(5000)), json!("ü".repeat(1024))),
        (text(&deep), json!("[".repeat(1024))),
        (text(&"x".repeat(1_000_000)), json!("x".repeat(1024))),
        (Reply::Endless, json!(" ".repeat(1024))),
        (Reply::Text(204, String::new()), json!("")),
    ] {
        receiver.set(reply.clone());
        let outcome = outcome(&hub, &receiver.url()).await;
        assert_eq!(outcome["delivery"], "delivered", "{outcome}");
        assert_eq!(outcome["receiver_response"], expected);
    }
}

/// Starts a server that writes these bytes to every client, and then repeats `drip` if it is not empty.
async fn raw_server(bytes: &'static [u8], drip: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = vec![];
                while !request.ends_with(b"}}") && matches!(stream.read_buf(&mut request).await, Ok(1..)) {}
                stream.write_all(bytes).await.ok();
                while !drip.is_empty() && stream.write_all(drip).await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            });
        }
    });
    url
}

#[tokio::test]
async fn receivers_that_do_not_speak_http() {
    let hub = hub();
    for bytes in [
        &b"garbage\r\n\r\n"[..],
        b"HTTP/1.1 999999 No\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\ntoo short",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00",
    ] {
        let url = raw_server(bytes, b"").await;
        assert_failed(&outcome(&hub, &url).await, "ERR_AGENT_UNREACHABLE", "could not be reached");
    }
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        format!("http://{}/", listener.local_addr().unwrap())
    };
    assert_failed(&outcome(&hub, &closed).await, "ERR_AGENT_UNREACHABLE", "refused");
    let plain = FakeAgent::start().await;
    let tls = plain.url().replace("http:", "https:");
    assert_failed(&outcome(&hub, &tls).await, "ERR_AGENT_UNREACHABLE", "could not be reached");
    assert_eq!(plain.requests().len(), 0);
    assert_failed(
        &outcome(&hub, "http://nowhere.invalid/").await,
        "ERR_AGENT_UNREACHABLE",
        "could not be reached",
    );
}

/// The timeout covers the whole exchange, not each byte.
#[tokio::test]
async fn receivers_that_never_come_to_an_end() {
    let hub = hub();
    let url = raw_server(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n").await;
    assert_failed(&outcome(&hub, &url).await, "ERR_TIMEOUT", "0.5 s");
    let url = raw_server(b"HTTP/1.1 200 OK\r\nX-Slow: ", b"x").await;
    assert_failed(&outcome(&hub, &url).await, "ERR_TIMEOUT", "0.5 s");
}

/// A hanging receiver delays nobody else.
#[tokio::test]
async fn a_hanging_receiver_is_its_own_trouble() {
    let setup = Setup::new().config(|config| {
        config.webhook_timeout = 3 * SOON;
        // The limits are lifted as if there were many senders and receivers.
        let quotas = &mut config.quotas;
        (quotas.webhooks_sender, quotas.webhooks_receiver, quotas.webhooks_host) = (OFF, OFF, OFF);
    });
    let hub = setup.start();
    let (slow, quick) = (FakeAgent::start().await, FakeAgent::start().await);
    slow.set(Reply::Hang);
    let key = hub.register("a").await;
    hub.register_webhook("slow", &slow.url()).await;
    hub.register_webhook("quick", &quick.url()).await;
    let hanging: Vec<_> = (0..50)
        .map(|n| {
            let body = json!({"receiver_id": "slow", "envelope": envelope("a", &n.to_string())});
            tokio::spawn(Answer::of(hub.request(Method::POST, "/messages", Some(&key)).json(&body)))
        })
        .collect();
    slow.wait_for(50, SOON).await;
    let begun = Instant::now();
    assert_eq!(hub.send(&key, "a", "quick", "hi").await.outcome(), (200, "delivered"));
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    drop(slow);
    for send in hanging {
        assert_eq!(send.await.unwrap().outcome(), (200, "failed"));
    }
}
