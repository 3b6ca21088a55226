//! Following an inbox, against a scripted hub.

use crate::support::{FakeHub, failure, plain, stream};
use chorus_agent::{Client, ClientError, Inbox, InboxItem};
use serde_json::json;
use std::time::Duration;

fn inbox(hub: &FakeHub, after: Option<&str>) -> Inbox {
    Client::connect(&hub.url, Some("ca_secret".into())).unwrap().inbox(after).unwrap()
}

fn connected(after: i64) -> String {
    format!("retry: 1\nevent: connected\ndata: {{\"agent_id\":\"bob@x\",\"after\":{after}}}\n\n")
}

fn message(id: i64, text: &str, turn: Option<(&str, i64)>) -> String {
    let mut envelope = json!({"chorus_version": "0.4", "original_text": text});
    if let Some((conversation, number)) = turn {
        envelope["conversation_id"] = conversation.into();
        envelope["turn_number"] = number.into();
    }
    let data = json!({"trace_id": "0123456789abcdef0123456789abcdef", "sender_id": "alice@x",
        "receiver_id": "bob@x", "created_at": "2026-03-20T10:00:00.000Z", "envelope": envelope});
    format!("id: {id}\nevent: message\ndata: {data}\n\n")
}

/// Returns the items in short form, until there are `count` of them or the inbox ends.
async fn follow(inbox: &mut Inbox, count: usize) -> Vec<String> {
    let mut came = Vec::new();
    while came.len() < count {
        let next = tokio::time::timeout(Duration::from_secs(20), inbox.next()).await.unwrap();
        let Some(next) = next else {
            came.push("end".into());
            break;
        };
        came.push(match next {
            Ok(InboxItem::Connected { agent_id }) => format!("connected {}", agent_id.unwrap_or_default()),
            Ok(InboxItem::Message { id, message }) => {
                let envelope: serde_json::Value = serde_json::from_str(message.envelope.get()).unwrap();
                format!("{} {}", id.unwrap(), envelope["original_text"].as_str().unwrap())
            }
            Ok(InboxItem::Other { event, data, .. }) => format!("{event} {data}"),
            Ok(InboxItem::Malformed { what, .. }) => what,
            Ok(InboxItem::Gap(gap)) => format!("gap {} {}", gap.after, gap.oldest),
            Ok(InboxItem::Takeover) => "takeover".into(),
            Ok(InboxItem::Reconnecting { why, .. }) => why.to_string(),
            Err(error) => error.to_string(),
        });
    }
    came
}

#[tokio::test]
async fn a_lost_connection_is_resumed_after_the_last_id() {
    let hub = FakeHub::start([
        stream(&(connected(4) + &message(5, "one", None) + &message(6, "two", None)), false),
        failure(503, "ERR_OVERLOADED"),
        stream(&(connected(6) + &message(6, "two", None) + &message(7, "three", None)), true),
    ])
    .await;
    let mut inbox = inbox(&hub, None);
    assert_eq!(
        follow(&mut inbox, 7).await,
        [
            "connected bob@x",
            "5 one",
            "6 two",
            "lost the connection: the hub closed the stream",
            "the hub refused: because (ERR_OVERLOADED)",
            "connected bob@x",
            "7 three",
        ]
    );
    assert_eq!(inbox.last_id(), Some("7"));
    let ids: Vec<_> = hub.seen().iter().map(|seen| seen.header("last-event-id").map(str::to_owned)).collect();
    assert_eq!(ids, [None, Some("6".into()), Some("6".into())]);
    assert_eq!(hub.seen()[0].line, "GET /agent/inbox");
}

#[tokio::test]
async fn a_start_is_given_and_an_early_loss_resumes_from_what_the_hub_said() {
    let hub = FakeHub::start([stream("", false), stream("", true)]).await;
    follow(&mut inbox(&hub, Some("41")), 1).await;
    assert_eq!(hub.seen()[0].header("last-event-id"), Some("41"));

    let hub = FakeHub::start([stream(&connected(9), false), stream(&connected(9), true)]).await;
    follow(&mut inbox(&hub, None), 3).await;
    assert_eq!(hub.seen()[1].header("last-event-id"), Some("9"));
}

#[tokio::test]
async fn a_takeover_ends_it() {
    let text = connected(0) + "event: takeover\ndata: {}\n\n" + &message(1, "late", None);
    let hub = FakeHub::start([stream(&text, false), stream(&connected(0), true)]).await;
    assert_eq!(follow(&mut inbox(&hub, None), 9).await, ["connected bob@x", "takeover", "end"]);
    assert_eq!(hub.seen().len(), 1);
}

/// Entries beyond the limit are left for the next listener, also after a lost connection.
#[tokio::test]
async fn a_limit_is_for_all_connections_together() {
    let first =
        connected(0) + &message(1, "a", Some(("talk", 1))) + &message(2, "a again", Some(("talk", 1)));
    let second = connected(2) + &message(3, "b", None) + &message(4, "c", None) + &message(5, "d", None);
    let hub = FakeHub::start([stream(&first, false), stream(&second, true)]).await;
    let mut inbox = inbox(&hub, None).with_limit(3);
    let lost = "lost the connection: the hub closed the stream";
    let expected = ["connected bob@x", "1 a", lost, "connected bob@x", "3 b", "4 c", "end"];
    assert_eq!(follow(&mut inbox, 9).await, expected);
    assert_eq!(inbox.last_id(), Some("4"));
    let lines: Vec<_> = hub.seen().iter().map(|seen| seen.line.clone()).collect();
    assert_eq!(lines, ["GET /agent/inbox?limit=3", "GET /agent/inbox?limit=2"]);
}

#[tokio::test]
async fn refusals_end_it() {
    for (status, code) in [(401, "ERR_UNAUTHORIZED"), (403, "ERR_FORBIDDEN"), (404, "ERR_NOT_FOUND")] {
        let hub = FakeHub::start([failure(status, code)]).await;
        let refused = format!("the hub refused: because ({code})");
        assert_eq!(follow(&mut inbox(&hub, None), 9).await, [refused.as_str(), "end"]);
    }
    let hub = FakeHub::start([plain(200, "hello").header("content-type", "text/html")]).await;
    let came = follow(&mut inbox(&hub, None), 9).await;
    assert!(came[0].contains("answered text/html instead of an event stream"), "{came:?}");
    assert_eq!(came[1], "end");
}

#[tokio::test]
async fn the_same_turn_comes_once_and_the_hubs_sender_tells_turns_apart() {
    let text = connected(0)
        + &message(1, "a", Some(("talk", 1)))
        + &message(2, "a again", Some(("talk", 1)))
        + &message(3, "b", Some(("talk", 2)))
        + &message(4, "c", None)
        + &message(5, "c", None)
        + &message(6, "from carol", Some(("talk", 1))).replace("alice@x", "carol@x");
    let hub = FakeHub::start([stream(&text, true)]).await;
    assert_eq!(
        follow(&mut inbox(&hub, None), 6).await,
        ["connected bob@x", "1 a", "3 b", "4 c", "5 c", "6 from carol"]
    );
}

#[tokio::test]
async fn strange_events_are_handed_on_and_broken_ones_skipped() {
    let text = connected(0)
        + ": ping\n\nid: 1\nevent: chat\ndata: {\"x\":1}\n\nid: 2\nevent: message\ndata: {}\n\n\
           event: gap\ndata: {\"after\":1,\"oldest\":7}\n\n"
        + &message(8, "fine", None);
    let hub = FakeHub::start([stream(&text, true)]).await;
    let came = follow(&mut inbox(&hub, None), 5).await;
    assert_eq!(came[1], "chat {\"x\":1}");
    assert!(came[2].starts_with("not a message: missing field"), "{came:?}");
    assert_eq!(came[3..], ["gap 1 7", "8 fine"]);
}

#[tokio::test]
async fn silence_is_a_lost_connection() {
    let hub = FakeHub::start([stream(&connected(3), true), stream(&connected(3), true)]).await;
    let mut inbox = inbox(&hub, None).with_idle_limit(Duration::from_millis(50));
    assert_eq!(
        follow(&mut inbox, 3).await,
        ["connected bob@x", "lost the connection: the hub has gone silent", "connected bob@x"]
    );
}

#[tokio::test]
async fn a_hub_that_is_away_is_waited_for() {
    let nobody = FakeHub::nobody().await;
    let mut inbox = inbox(&nobody, None);
    let Some(Ok(InboxItem::Reconnecting { in_ms, why })) = inbox.next().await else { panic!() };
    assert!((500..=1000).contains(&in_ms), "{in_ms}");
    assert!(matches!(why, ClientError::Unreachable { .. }), "{why}");
}
