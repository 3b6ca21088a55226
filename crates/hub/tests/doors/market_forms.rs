//! Market forms other than hiring: requesting quotes, accepting an offer, and offers of one's own agent.

use crate::market::{BEGIN, assert_balanced, trader};
use crate::market_pages::{ANN, hidden};
use crate::support::{OPERATOR, Setup, TestHub};
use crate::web::send;
use chorus_testkit::clock::ManualClock;
use serde_json::json;

#[tokio::test]
async fn offers_come_in_and_one_is_taken_before_they_end() {
    let clock = ManualClock::new(BEGIN);
    let hub = Setup::new().clock(&clock).start();
    let (ann, eve) = (hub.account(ANN).await, hub.account("eve@mail.example").await);
    let (worker, other) = (trader(&hub, "worker", 0).await, trader(&hub, "other", 0).await);
    let minted = json!({"owner": ANN, "amount": 5});
    assert_eq!(hub.post("/market/mint", Some(OPERATOR), &minted).await.status, 200);
    let mut inbox = hub.inbox(&worker.key, None).await;
    let market = hub.get("/market?skill=analyze_text", Some(&ann)).await.text;
    assert!(market.contains("/quotes/new?skill=analyze_text"), "{market}");
    assert!(hub.get("/quotes/new?skill=a%22b", Some(&ann)).await.text.contains("value=\"a&#34;b\""));

    let ask = async |seconds: &str, budget: &str, input: &str| {
        let fields = [
            ("skill", "analyze_text"),
            ("input", input),
            ("budget", budget),
            ("seconds", seconds),
            ("minutes", "2"),
        ];
        send(&hub, "/quotes/new", Some(&ann), &fields).await
    };
    for (seconds, budget, input, status, told) in [
        ("soon", "", "{}", 400, "Seconds"),
        ("5", "lots", "{}", 400, "Budget"),
        ("5", "", "text", 400, "Input"),
        ("5", "0.01", r#"{"text":"x"}"#, 422, "nobody"),
        ("61", "", "{}", 400, "answer_ms"),
    ] {
        let answer = ask(seconds, budget, input).await;
        assert_eq!(answer.status, status, "{told}: {}", answer.text);
        let alert = answer.text.split("role=\"alert\"").nth(1).unwrap_or_else(|| panic!("{}", answer.text));
        assert!(alert.to_lowercase().contains(&told.to_lowercase()), "{told}: {alert}");
        assert!(answer.text.contains(&format!("name=\"seconds\" inputmode=\"numeric\" value=\"{seconds}\"")));
    }
    let asked = ask("20", "1", r#"{"text": "Revenue was 42"}"#).await;
    assert_eq!(asked.status, 303, "{}", asked.text);
    let path = asked.header("location").to_owned();
    let before = hub.get(&path, Some(&ann)).await.text;
    assert!(before.contains("data-refresh") && !before.contains(">for you<"), "{before}");
    assert_eq!(hub.get(&path, Some(&eve)).await.status, 404);

    let quote = inbox.event("quote").await;
    let offer = format!("/market/quotes/{}/offer", quote["quote_id"].as_str().unwrap());
    let price = json!({"price": 0.07, "expected_ms": 90_000});
    assert_eq!(hub.post(&offer, Some(&worker.key), &price).await.status, 200);
    let shown = hub.get(&path, Some(&ann)).await.text;
    assert!(shown.contains(">0.07<") && shown.contains(">for you<") && shown.contains("1 min"), "{shown}");
    assert!(shown.contains(">0.10<") && shown.contains("its listed price"), "{shown}");
    clock.advance(20_000);
    assert!(!hub.get(&path, Some(&ann)).await.text.contains("data-refresh"), "nobody answers any more");

    let take = async |path: &str, key: &str, agent: &str, job: &str| {
        send(&hub, &format!("{path}/take"), Some(key), &[("agent_id", agent), ("job_id", job)]).await
    };
    let job = hidden(&shown, "job_id");
    assert_eq!(take(&path, &eve, &worker.id, &job).await.status, 404);
    for _ in 0..2 {
        let taken = take(&path, &ann, &worker.id, &job).await;
        assert_eq!(
            (taken.status, taken.header("location")),
            (303, &*format!("/jobs/{job}")),
            "{}",
            taken.text
        );
    }
    let page = hub.get(&path, Some(&ann)).await.text;
    assert!(page.contains("One of them was taken") && !page.contains("/take\""), "{page}");
    let again = take(&path, &ann, &other.id, "f81d4fae-7dec-11d0-a765-000000000002").await;
    assert!(again.status == 409 && again.text.contains("role=\"alert\""), "{}", again.text);

    let late = ask("0", "", r#"{"text": "x"}"#).await.header("location").to_owned();
    clock.advance(120_000);
    let ended = hub.get(&late, Some(&ann)).await.text;
    assert!(ended.contains("They have ended") && !ended.contains("/take\""), "{ended}");
    assert_eq!(take(&late, &ann, &other.id, "f81d4fae-7dec-11d0-a765-000000000003").await.status, 409);
    assert_balanced(&hub).await;
}

#[tokio::test]
async fn a_skill_is_offered_changed_and_taken_off_on_the_agents_page() {
    let hub = TestHub::start();
    let (ann, eve) = (hub.account(ANN).await, hub.account("eve@mail.example").await);
    let made = hub.post("/api/v1/agents", Some(&ann), &json!({"name": "reader"})).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let page = format!("/directory/{}", made.body["agent_id"].as_str().unwrap());
    assert!(hub.get(&page, Some(&ann)).await.text.contains("Offer a skill"));
    assert!(!hub.get(&page, Some(&eve)).await.text.contains("Offer a skill"));
    let offer = async |key: &str, name: &str, cost: &str, wants: &str| {
        let fields = [
            ("skill_name", name),
            ("cost", cost),
            ("description", "Reads <i>it</i>"),
            ("input_schema", wants),
        ];
        send(&hub, &format!("{page}/skills"), Some(key), &fields).await
    };
    assert_eq!(offer(&eve, "read", "1", "").await.status, 403);
    for (name, cost, wants, told) in [
        ("read", "-1", "", "Price"),
        ("read", "1", "text", "Wants"),
        ("", "1", "", "skill_name"),
        ("read", "1", r#"{"text": 5}"#, "input_schema"),
    ] {
        let wrong = offer(&ann, name, cost, wants).await;
        assert_eq!(wrong.status, 400, "{told}: {}", wrong.text);
        let alert = wrong.text.split("role=\"alert\"").nth(1).unwrap_or_else(|| panic!("{}", wrong.text));
        let alert = alert.split("</p>").next().unwrap();
        assert!(alert.to_lowercase().contains(&told.to_lowercase()), "{told}: {alert}");
        assert!(
            wrong.text.contains("Reads &#60;i&#62;it&#60;/i&#62;"),
            "what was typed stays: {}",
            wrong.text
        );
    }
    for (name, cost) in [("read", "0.50"), ("write", "2"), ("read", "0.75")] {
        let done = offer(&ann, name, cost, r#"{"text": "string"}"#).await;
        assert_eq!((done.status, done.header("location")), (303, &*page), "{}", done.text);
    }
    let shown = hub.get(&page, Some(&ann)).await.text;
    assert!(shown.contains(">0.75<") && shown.contains(">2.00<") && !shown.contains(">0.50<"), "{shown}");
    let off = async |key: &str, name: &str| {
        send(&hub, &format!("{page}/skills/remove"), Some(key), &[("skill_name", name)]).await.status
    };
    assert_eq!((off(&eve, "write").await, off(&ann, "write").await), (403, 303));
    assert!(!hub.get(&page, Some(&ann)).await.text.contains(">2.00<"));
    // An agent that only hires has no offers.
    assert_eq!(off(&ann, "read").await, 303);
    assert!(!hub.get(&page, Some(&ann)).await.text.contains(">0.75<"));
}
