//! Reading messages: pages of the log in both directions, their bounds, and search.

use crate::channel_fixture::ChannelFixture;
use crate::messages::{channel, contents, id};
use crate::support::{TestHub, members};
use serde_json::{Value, json};

#[tokio::test]
async fn pages_go_both_ways() {
    let hub = TestHub::start();
    let anna = hub.account("anna@example.org").await;
    let channel = hub.channel(&anna, &json!({"name": "c"})).await;
    for n in 2..=251 {
        hub.say(&channel, &anna, &json!({"content": n.to_string()})).await;
    }
    for (start, limit) in [("", 100), ("before=end", 100), ("", 7), ("before=end", 83)] {
        let (mut seen, mut query, back) = (vec![], start.to_owned(), start.contains("before"));
        loop {
            let page = hub.get(&format!("{channel}/events?limit={limit}&{query}"), Some(&anna)).await.body;
            let page_seen: Vec<_> = page["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|event| event["sequence"].as_i64().unwrap())
                .collect();
            assert!(page_seen.len() <= limit && page_seen.is_sorted(), "{page_seen:?}");
            if back {
                seen.splice(0..0, page_seen)
            } else {
                seen.splice(seen.len().., page_seen)
            };
            let Some(next) = page["next"].as_str() else { break };
            query = format!("{}={next}", if back { "before" } else { "after" });
        }
        assert_eq!(seen, (1..=251).collect::<Vec<i64>>(), "{start} {limit}");
    }
    assert_eq!(hub.log(&channel, &anna, "after=251").await, [] as [Value; 0]);
    assert_eq!(hub.log(&channel, &anna, "before=1").await, [] as [Value; 0]);
    assert_eq!(contents(&hub.log(&channel, &anna, "before=10&limit=2").await), ["8", "9"]);
}

/// A page ends early before it becomes very large, even if texts have grown since.
#[tokio::test]
async fn pages_are_bounded_by_bytes() {
    let hub = TestHub::start();
    let anna = hub.account("anna@example.org").await;
    let channel = hub.channel(&anna, &json!({"name": "c"})).await;
    let large = "x".repeat(90_000);
    for n in 0..60 {
        let said = hub.say(&channel, &anna, &json!({"content": n.to_string()})).await;
        let one = format!("{channel}/messages/{}", id(&said));
        assert_eq!(hub.ask("PATCH", &one, Some(&anna), &json!({"content": large})).await.status, 200);
    }
    for start in ["kind=message", "kind=message&before=end", "kind=edit"] {
        let (mut seen, mut query) = (0, start.to_owned());
        loop {
            let page = hub.get(&format!("{channel}/events?limit=200&{query}"), Some(&anna)).await;
            assert!(page.text.len() < 4 * 1024 * 1024, "{}", page.text.len());
            let items = page.body["items"].as_array().unwrap();
            assert!(items.iter().all(|item| item["content"] == large.as_str()));
            seen += items.len();
            let Some(next) = page.body["next"].as_str() else { break };
            query = match start {
                "kind=message&before=end" => format!("kind=message&before={next}"),
                start => format!("{start}&after={next}"),
            };
        }
        assert_eq!(seen, 60, "{start}");
    }
}

#[tokio::test]
async fn search_finds_what_the_caller_may_read() {
    let (hub, channel, [anna, bob, carol]) = channel(TestHub::start()).await;
    let other = hub.channel(&bob, &json!({"name": "other"})).await;
    let found = async |key: &str, query: &str| {
        let page = hub.get(&format!("/api/v1/search?{query}"), Some(key)).await;
        assert_eq!(page.status, 200, "{}", page.text);
        let items = page.body["items"].as_array().unwrap().clone();
        let texts: Vec<_> =
            items.iter().map(|item| item["event"]["content"].as_str().unwrap().to_owned()).collect();
        (texts, page.body["next"].as_str().map(str::to_owned))
    };
    for text in
        ["red fox", "Red dog", "the fox, again", "下午一起喝杯咖啡?", "mail me@example.org \"now\" OR never*"]
    {
        hub.say(&channel, &anna, &json!({"content": text})).await;
    }
    hub.say(&other, &bob, &json!({"content": "another fox"})).await;
    let page = hub.get("/api/v1/search?q=dog", Some(&carol)).await.body;
    let item = &page["items"][0];
    assert_eq!((members(item), members(&item["channel"])), (vec!["channel", "event"], vec!["id", "name"]));
    assert_eq!((&item["channel"]["name"], &item["event"]["kind"]), (&json!("c"), &json!("message")));
    assert_eq!(found(&carol, "q=fox").await, (vec!["the fox, again".into(), "red fox".into()], None));
    assert_eq!(
        found(&bob, "q=FOX").await.0,
        ["another fox", "the fox, again", "red fox"],
        "the newest first"
    );
    assert_eq!(found(&carol, "q=fox%20red").await.0, ["red fox"], "all words");
    assert_eq!(found(&carol, "q=咖啡").await.0.len(), 1);
    assert_eq!(found(&carol, "q=example").await.0.len(), 1);
    for odd in ["%22", "fox%22%20OR%20%22dog", "fo*", "-fox%20dog", "content:fox", "%00", "%26|!()"] {
        assert_eq!(found(&carol, &format!("q={odd}")).await.0, [] as [&str; 0], "{odd}");
    }
    let (first, next) = found(&bob, "q=fox&limit=2").await;
    assert_eq!(first, ["another fox", "the fox, again"]);
    let next = next.unwrap();
    for cursor in ["after", "before"] {
        let (second, end) = found(&bob, &format!("q=fox&limit=2&{cursor}={next}")).await;
        assert_eq!((second, end), (vec!["red fox".to_owned()], None), "{cursor}");
    }
}

/// The page of a message is about as long as its text, whatever the markup.
#[tokio::test]
async fn nested_quotes_make_no_long_page() {
    let fixture = ChannelFixture::start().await;
    let text = ">".repeat(99_000);
    for _ in 0..3 {
        fixture.say(&text).await;
    }
    let page = fixture.get(&format!("/c/{}", fixture.channel)).await;
    assert_eq!(page.status, 200);
    // Her own text appears a second time, in the edit form.
    assert!(page.text.len() < 3 * 12 * text.len(), "{} bytes", page.text.len());
    assert!(page.text.matches("<blockquote>").count() <= 3 * 16, "{}", page.text.len());
}
