//! Pending items on a person's pages: the inbox, the rail, and search in one conversation.

use crate::support::OPERATOR;
use crate::web::{House, send};
use serde_json::json;

/// Returns the rail as open pages load it.
async fn rail(house: &House) -> String {
    let rail = house.page("/rail").await;
    assert_eq!(rail.status, 200, "{}", rail.text);
    rail.text
}

/// A mention stays in the inbox until it is read, even if others post after it, and the rail counts it.
#[tokio::test]
async fn a_mention_is_not_forgotten_because_others_talk_on() {
    let house = House::start().await;
    let bob = house.hub.account("bob@mail.example").await;
    house.hub.add(&house.api, OPERATOR, &json!({"account": "bob@mail.example"})).await;
    assert!(!rail(&house).await.contains(r#"id="waits""#));
    house.hub.say(&house.api, &bob, &json!({"content": "nothing for anybody"})).await;
    let before = rail(&house).await;
    assert!(before.contains(r#"class="dot""#) && !before.contains(r#"id="waits""#), "{before}");
    let said = house.hub.say(&house.api, &bob, &json!({"content": "@ann is it safe?"})).await;
    for n in 0..70 {
        house.hub.say(&house.api, &bob, &json!({"content": format!("and another thing {n}")})).await;
    }
    assert!(house.main("/inbox").await.contains("is it safe?"));
    let waits = rail(&house).await;
    assert!(waits.contains(r#"id="waits" title="what waits for you">1<"#), "{waits}");
    let (path, seq) =
        (format!("/c/{}/read", house.channel), (said["sequence"].as_i64().unwrap() + 70).to_string());
    assert_eq!(send(&house.hub, &path, Some(&house.ann), &[("seq", &seq)]).await.status, 204);
    assert!(house.main("/inbox").await.contains("Nothing waits for you"));
    assert!(!rail(&house).await.contains(r#"id="waits""#));
}

/// The rail of an open page shows where an agent works, and since when.
#[tokio::test]
async fn the_rail_says_where_somebody_is_at_work() {
    let house = House::start().await;
    let key = house.agent["api_key"].as_str().unwrap();
    let mut inbox = house.hub.inbox(key, None).await;
    assert!(!rail(&house).await.contains("data-since"));
    house.say("@timber please look").await;
    let chat = inbox.event("chat").await;
    let callback = chat["callback"].as_str().unwrap().strip_prefix(&house.hub.url).unwrap();
    let status = json!({"type": "status", "status": "Reading"});
    assert!(house.hub.post(callback, None, &status).await.status < 300);
    let at_work = rail(&house).await;
    assert!(at_work.contains("an agent is at work here"), "{at_work}");
    let page = house.main(&format!("/c/{}", house.channel)).await;
    assert!(page.contains("data-since") && page.contains("Reading"), "{page}");
    assert!(
        house.hub.post(callback, None, &json!({"type": "message", "content": "done"})).await.status < 300
    );
    assert!(!rail(&house).await.contains("an agent is at work here"));
    // A turn that a past page cuts off does not count as running.
    let past = house.main(&format!("/c/{}?before=4", house.channel)).await;
    assert!(!past.contains("is at work"), "{past}");
}

/// Search in one conversation finds nothing of another, and requires membership.
#[tokio::test]
async fn one_conversation_is_searched() {
    let house = House::start().await;
    let other = house.hub.channel(&house.ann, &json!({"name": "elsewhere"})).await;
    house.hub.say(&other, &house.ann, &json!({"content": "the harbour is closed"})).await;
    house.say("the harbour is open").await;
    let all = house.main("/search?q=harbour").await;
    assert!(all.contains("is closed") && all.contains("is open"), "{all}");
    let here = house.main(&format!("/search?q=harbour&in={}", house.channel)).await;
    assert!(!here.contains("is closed") && here.contains("is open"), "{here}");
    let eve = house.hub.account("eve@mail.example").await;
    let path = format!("/search?q=harbour&in={}", house.channel);
    assert_eq!(house.hub.get(&path, Some(&eve)).await.status, 404);
}

/// Deletions need a confirmation, and a delivered message has no replay button.
#[tokio::test]
async fn a_page_asks_before_it_removes() {
    let house = House::start().await;
    let page = house.main(&format!("/c/{}", house.channel)).await;
    assert!(page.contains(r#"data-sure="Remove?""#), "{page}");
    let _inbox = house.hub.inbox(house.agent["api_key"].as_str().unwrap(), None).await;
    house.say("@timber please look").await;
    let items =
        house.hub.get("/api/v1/deliveries?state=delivered_sse", Some(&house.ann)).await.body["items"].clone();
    let id = items[0]["id"].as_str().unwrap();
    let page = house.main(&format!("/fleet/deliveries?state=delivered_sse&id={id}")).await;
    assert!(page.contains("handed over") && page.contains("needs no tries"), "{page}");
    assert!(!page.contains("Replay this one") && !page.contains(">delivered_sse<"), "{page}");
}
