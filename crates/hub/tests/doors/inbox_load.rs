//! Inboxes under load: many readers, slow readers, and unstable connections.

use crate::support::{Answer, SOON, Setup, TestHub, envelope, eventually, text_of};
use chorus_testkit::proxy::Proxy;
use chorus_testkit::sse::SseClient;
use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;

/// Of 200 open inboxes, each gets only its own messages.
#[tokio::test]
async fn everybody_gets_their_own() {
    const AGENTS: usize = 200;
    let hub = TestHub::start();
    let sender = hub.register("sender").await;
    let names: Vec<String> = (0..AGENTS).map(|n| format!("agent-{n}")).collect();
    let keys = join_all(names.iter().map(|name| hub.register(name))).await;
    let mut inboxes = join_all(keys.iter().map(|key| hub.inbox(key, None))).await;
    assert_eq!(hub.get("/health", None).await.data()["open_inboxes"], AGENTS);
    for round in 0..3 {
        let sends = names.iter().map(|name| {
            let (hub, sender) = (&hub, &sender);
            async move { hub.send(sender, "sender", name, &format!("{name} {round}")).await }
        });
        for answer in join_all(sends).await {
            assert_eq!(answer.outcome(), (200, "delivered_sse"));
        }
    }
    let read = inboxes.iter_mut().zip(&names).map(async |(inbox, name)| {
        let expected: Vec<_> = (0..3).map(|round| format!("{name} {round}")).collect();
        assert_eq!(inbox.texts(3).await, expected);
    });
    join_all(read).await;
    join_all(inboxes.iter_mut().map(async |inbox| inbox.assert_quiet().await)).await;
}

/// A reader that stops reading is disconnected, delays nobody, and resumes by id without loss or repetition.
#[tokio::test]
async fn a_reader_that_stops_reading() {
    // More than the sockets between the two can hold.
    const COUNT: usize = 100;
    let stall = Duration::from_millis(500);
    let hub = Setup::new().config(|config| config.times.stall = stall).start();
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    let mut slow = hub.inbox(&bob, None).await;
    for n in 0..COUNT {
        let mut message = envelope("alice", &n.to_string());
        message["x_padding"] = json!("x".repeat(200_000));
        assert!(
            hub.send_envelope(&alice, "bob", &message).await.status < 300,
            "a slow reader is no sender's trouble"
        );
    }
    eventually(async || hub.online("bob").await, |online| !online).await;

    let mut seen = vec![];
    while let Some(event) = slow.sse.next(SOON).await {
        seen.push(text_of(&serde_json::from_str(&event.data).unwrap()));
    }
    assert!(slow.sse.ended() && seen.len() < COUNT, "it was cut off after {}", seen.len());
    let mut rest = hub.inbox(&bob, slow.sse.last_id()).await;
    seen.extend(rest.texts(COUNT - seen.len()).await);
    assert_eq!(seen, (0..COUNT).map(|n| n.to_string()).collect::<Vec<_>>());
    rest.assert_quiet().await;
}

/// A slow reader that keeps reading stays connected, and gets a large backlog completely.
#[tokio::test]
async fn a_reader_that_takes_its_time() {
    let hub = Setup::new().config(|config| config.times.stall = Duration::from_secs(2)).start();
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    for n in 0..300 {
        let mut message = envelope("alice", &n.to_string());
        message["x_padding"] = json!("x".repeat(3000));
        hub.send_envelope(&alice, "bob", &message).await;
    }
    let mut inbox = hub.inbox(&bob, None).await;
    for n in 0..300 {
        let (id, message) = inbox.message().await;
        assert_eq!((id, text_of(&message)), (n + 1, n.to_string()));
        if n % 100 == 0 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// Connections break at random while messages arrive; with the last id nothing is lost or repeated.
#[tokio::test]
async fn a_connection_that_breaks_again_and_again() {
    const COUNT: usize = 200;
    let hub = TestHub::start();
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    let proxy = Proxy::start(hub.addr).await;
    let url = format!("http://{}/agent/inbox", proxy.addr());
    let sender = {
        let (client, url) = (hub.client.clone(), format!("{}/messages", hub.url));
        tokio::spawn(async move {
            for n in 0..COUNT {
                let body = json!({"receiver_id": "bob", "envelope": envelope("alice", &n.to_string())});
                let answer =
                    Answer::of(client.request(Method::POST, &url).bearer_auth(&alice).json(&body)).await;
                assert!(answer.status < 300, "{}", answer.text);
            }
        })
    };
    let (mut seen, mut last, mut breaks) = (vec![], None::<String>, 0);
    while seen.len() < COUNT {
        let mut sse = SseClient::open(&url, &bob, last.as_deref()).await.unwrap();
        let until = seen.len() + 23;
        while seen.len() < COUNT.min(until) {
            let event = sse.next(SOON).await.expect("the hub goes on");
            if event.event == "message" {
                seen.push(text_of(&serde_json::from_str::<Value>(&event.data).unwrap()));
            }
        }
        last = sse.last_id().map(str::to_owned);
        proxy.cut().await;
        proxy.restore();
        breaks += 1;
    }
    sender.await.unwrap();
    assert!(breaks >= 8, "{breaks}");
    assert_eq!(seen, (0..COUNT).map(|n| n.to_string()).collect::<Vec<_>>());
}

/// Two clients compete for one inbox: the latest has it, and the hub stays healthy.
#[tokio::test]
async fn a_fight_over_one_inbox() {
    let hub = TestHub::start();
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    let fights = (0..30).map(|_| async {
        let url = format!("{}/agent/inbox", hub.url);
        SseClient::open(&url, &bob, Some("0")).await.expect("it opens")
    });
    let mut fighters = join_all(fights).await;
    hub.send(&alice, "alice", "bob", "to the winner").await;
    let mut holders = 0;
    for fighter in &mut fighters {
        let mut kinds = vec![];
        while let Some(event) = fighter.next(Duration::from_millis(300)).await {
            kinds.push(event.event);
        }
        holders += usize::from(!fighter.ended());
        if fighter.ended() {
            assert_eq!(kinds.last().map(String::as_str), Some("takeover"), "{kinds:?}");
        } else {
            assert_eq!(kinds, ["connected", "message"]);
        }
    }
    assert_eq!(holders, 1);
    assert_eq!(hub.get("/health", None).await.data()["open_inboxes"], 1);
}
