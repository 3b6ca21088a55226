//! The board of a channel and the marks in its stream: open items, stopped loops, and live updates of the
//! page.

use crate::support::Inbox;
use crate::web::House;
use chorus_testkit::sse::SseClient;
use serde_json::{Value, json};

impl House {
    /// Returns the board without the page around it.
    async fn board(&self) -> String {
        let board = self.page(&format!("/c/{}/board", self.channel)).await;
        assert_eq!(board.status, 200, "{}", board.text);
        board.text
    }

    async fn signal(&self, key: &str, event: &str, reaction: &Value) {
        let path = format!("{}/messages/{event}/reactions", self.api);
        let answer = self.hub.post(&path, Some(key), reaction).await;
        assert!(answer.status < 300, "{}", answer.text);
    }

    async fn live(&self) -> Inbox {
        let url = format!("{}/c/{}/live", self.hub.url, self.channel);
        let sse = SseClient::open(&url, &self.ann, None).await.expect("the page goes on");
        let mut live = Inbox { sse, after: 0, revoked: false };
        live.event("connected").await;
        live
    }
}

#[tokio::test]
async fn the_board_says_what_is_open_and_whose_it_is() {
    let house = House::start().await;
    let timber = house.agent["api_key"].as_str().unwrap();
    assert!(house.board().await.contains("Nothing is open."));
    let event = house.say("@timber is **4.18** through?").await;
    let board = house.board().await;
    assert!(
        board.contains("<strong>timber</strong> must answer") && board.contains("is 4.18 through?"),
        "{board}"
    );
    assert!(
        board.contains(r#"data-open="1" data-blocked="0""#) && board.contains("data-over=\"late\""),
        "{board}"
    );

    house.signal(timber, &event, &json!({"signal": "working"})).await;
    let board = house.board().await;
    assert!(board.contains("<strong>timber</strong> holds this") && board.contains("data-until="), "{board}");
    assert!(!board.contains("must answer"), "who has taken it on is at it: {board}");
    let page = house.main(&format!("/c/{}?side=board", house.channel)).await;
    assert!(page.contains(r#"id="board""#) && page.contains("timber holds this"), "{page}");

    house.signal(timber, &event, &json!({"signal": "blocked"})).await;
    let board = house.board().await;
    assert!(
        board.contains("<strong>timber</strong> cannot go on") && board.contains(r#"data-blocked="1""#),
        "{board}"
    );
    let fleet = house.main("/fleet").await;
    assert!(fleet.contains("is-blocked") && fleet.contains("cannot go on"), "{fleet}");
    // The fleet page links to the thread. A non-member sees nothing of it.
    assert!(fleet.contains(&format!("/c/{}/t/{event}", house.channel)), "{fleet}");
    let seen = house.hub.get("/api/v1/fleet", Some(crate::support::OPERATOR)).await.body;
    assert_eq!(seen["items"][0]["blocked_on"], serde_json::Value::Null, "{seen}");
    // An agent that posts is no longer blocked.
    house.hub.say(&house.api, timber, &json!({"content": "it was the gateway"})).await;
    assert!(!house.board().await.contains("cannot go on"));
    assert!(!house.main("/fleet").await.contains("is-blocked"));

    // A deleted message is no longer open. Strangers see nothing.
    let path = format!("{}/messages/{event}", house.api);
    assert!(house.hub.delete(&path, Some(&house.ann)).await.status < 300);
    assert!(house.board().await.contains("Nothing is open."));
    let eve = house.hub.account("eve@mail.example").await;
    let board = format!("/c/{}/board", house.channel);
    assert_eq!(house.hub.get(&board, Some(&eve)).await.status, 404);
    assert_eq!(house.hub.get(&board, None).await.status, 303);
}

/// A claim by a tool is not in the log. The page is notified anyway; agents that follow are not.
#[tokio::test]
async fn who_holds_what_is_told_to_who_looks() {
    let house = House::start().await;
    let timber = house.agent["api_key"].as_str().unwrap();
    let event = house.say("somebody should look at the cache").await;
    let mut live = house.live().await;
    let claim = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "chat.claim", "arguments": {"eventId": event}}});
    let claimed = house.hub.post("/c2a", Some(timber), &claim).await;
    assert_eq!(claimed.body["result"]["structuredContent"]["state"], "held", "{}", claimed.text);
    assert_eq!(live.event("attention").await["event_id"], json!(event));
    let items = house.page(&format!("/c/{}/items?after=0", house.channel)).await.text;
    assert!(items.contains("timber holds this"), "{items}");
}

#[tokio::test]
async fn a_loop_that_was_stopped_says_so() {
    let house = House::start().await;
    let timber = house.agent["api_key"].as_str().unwrap().to_owned();
    let made = house.hub.post("/api/v1/agents", Some(&house.ann), &json!({"name": "slate"})).await.body;
    let slate = made["api_key"].as_str().unwrap().to_owned();
    let path = format!("{}/members", house.api);
    assert_eq!(house.hub.post(&path, Some(&house.ann), &json!({"agent": "slate"})).await.status, 201);
    let mut live = house.live().await;
    let mut last = Value::Null;
    for n in 0..9 {
        let (key, to) = if n % 2 == 0 { (&timber, "slate") } else { (&slate, "timber") };
        let words = ["red", "blue", "green", "grey", "brown", "white", "black", "pink", "gold"][n];
        let content = format!("@{to} is the {words} one finished by now?");
        house.hub.say(&house.api, key, &json!({"content": content})).await;
        last = live.event("item").await;
    }
    let stopped = "Stopped after 8 turns among agents: this wakes nobody.";
    assert!(last["html"].as_str().unwrap().contains(stopped), "{last}");
    let page = house.main(&format!("/c/{}", house.channel)).await;
    assert_eq!(page.matches(stopped).count(), 1, "{page}");
    let log = house.hub.log(&house.api, &house.ann, "kind=message").await;
    let noted: Vec<_> = log.iter().filter_map(|event| event.get("loop_guard")).collect();
    assert_eq!(noted, [&json!({"turns": 8})], "{log:?}");
    // A client cannot write such a note itself.
    let forged = json!({"content": "hello", "loop_guard": {"turns": 1}});
    house.hub.post(&format!("{}/messages", house.api), Some(&timber), &forged).await;
    let log = house.hub.log(&house.api, &house.ann, "kind=message").await;
    assert_eq!(log.iter().filter(|event| event.get("loop_guard").is_some()).count(), 1, "{log:?}");
}
