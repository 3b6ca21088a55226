//! Private activity on the market, with Scores, in work streams and with claims, which a stranger must not
//! notice.
//!
//! Minted credits, total holds, offers and the number of receipts are public. So both hubs have the same
//! traders and as many receipts, and no holds remain.

use crate::choir::{issued, made, secret};
use crate::market::{Trader, registration, trader};
use crate::support::TestHub;
use serde_json::{Value, json};

/// Creates the traders of both hubs. Their prices differ, because otherwise ids would decide the order.
pub(super) async fn traders(hub: &TestHub) -> [Trader; 2] {
    let traders = [trader(hub, "carol", 20).await, trader(hub, "dave", 20).await];
    let dearer = registration("dave", &traders[1].owner, "0.20");
    assert_success(hub.post("/market/register", Some(&traders[1].key), &dearer).await.status);
    traders
}

/// Sends heartbeats of the traders, since presence is public.
pub(super) async fn show_signs_of_life(hub: &TestHub, traders: &[Trader; 2]) {
    for trader in traders {
        let sign = json!({"agent_id": trader.id});
        assert_success(hub.post("/market/heartbeat", Some(&trader.key), &sign).await.status);
    }
}

/// Makes a transfer, cancels a job and requests a quote.
pub(super) async fn trade(hub: &TestHub, [carol, dave]: &[Trader; 2]) -> Vec<String> {
    let ids = ["11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"];
    let transfer =
        json!({"transfer_id": ids[0], "from_owner": carol.owner, "to_owner": dave.owner, "amount": 3});
    assert_success(hub.post("/market/transfer", Some(&carol.owner_key), &transfer).await.status);
    let job = json!({"job_id": ids[1], "agent_id": dave.id, "skill_name": "analyze_text",
        "input_data": {"text": "zebra"}, "budget": 2});
    assert_success(hub.post("/market/jobs", Some(&carol.key), &job).await.status);
    let cancelled = hub.post(&format!("/market/jobs/{}/cancel", ids[1]), Some(&carol.key), &json!({})).await;
    assert_success(cancelled.status);
    let ask = json!({"skill_name": "analyze_text", "input_data": {"text": "zebra"}, "budget": 2});
    let quote = hub.post("/market/quotes", Some(&carol.key), &ask).await;
    assert_success(quote.status);
    let quote = quote.body["quote_id"].as_str().unwrap().to_owned();
    ids.map(str::to_owned).into_iter().chain([quote]).collect()
}

/// Creates work streams in a private channel: an open one with a message, and a closed one.
pub(super) async fn streams(hub: &TestHub, key: &str, channel: &str) -> Vec<String> {
    let id = channel.rsplit('/').next().unwrap();
    let mut ids = vec![];
    for name in ["zebra", "4711"] {
        let stream = json!({"name": name, "conversations": [id]});
        let stream = hub.post("/api/v1/streams", Some(key), &stream).await;
        assert_success(stream.status);
        ids.push(stream.body["id"].as_str().unwrap().to_owned());
    }
    let said = json!({"content": "@ali zebra 4711", "stream": ids[0]});
    hub.say(channel, key, &said).await;
    assert_success(hub.delete(&format!("/api/v1/streams/{}", ids[1]), Some(key)).await.status);
    ids
}

/// Creates a Score with a secret, evidence and a receipt. Its owner is private; its ingest address is public
/// to anybody who knows it.
pub(super) async fn rehearse(hub: &TestHub, key: &str) -> Vec<String> {
    let score = made(hub, key).await;
    secret(hub, &score, key).await;
    let evidence = hub.post(&format!("{score}/evidence"), Some(key), &crate::choir::warned()).await;
    assert_success(evidence.status);
    issued(hub, &score, key).await;
    score.rsplit('/').next().map(str::to_owned).into_iter().collect()
}

/// An agent claims and defers one event, and reacts to another.
pub(super) async fn attend(hub: &TestHub, key: &str, events: [&str; 2]) {
    for (tool, arguments) in [
        ("chat.claim", json!({"eventId": events[0]})),
        ("chat.defer", json!({"eventId": events[0], "reason": "zebra"})),
        ("chat.react", json!({"inReplyTo": events[1], "signal": "seen"})),
    ] {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": tool, "arguments": arguments}});
        let answer = hub.post("/c2a", Some(key), &call).await;
        assert_eq!((answer.status, &answer.body["error"]), (200, &Value::Null), "{}", answer.text);
        assert_ne!(answer.body["result"]["isError"], true, "{tool}: {}", answer.text);
    }
}

fn assert_success(status: u16) {
    assert!((200..300).contains(&status), "{status}");
}
