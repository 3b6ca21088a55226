//! Unread messages of people, and mails to those who are away.

use crate::support::{Setup, TestHub, eventually};
use chorus_hub::Mail;
use chorus_protocol::code::Code;
use chorus_testkit::clock::ManualClock;
use serde_json::{Value, json};

async fn unread(hub: &TestHub, key: &str) -> Vec<Value> {
    let page = hub.get("/api/v1/unread", Some(key)).await;
    assert_eq!(page.status, 200, "{}", page.text);
    page.body["items"].as_array().unwrap().clone()
}

#[tokio::test]
async fn marks() {
    let hub = TestHub::start();
    let (anna, ben) = (hub.account("anna@example.org").await, hub.account("ben@example.org").await);
    let channel = hub.channel(&anna, &json!({"name": "plans"})).await;
    hub.add(&channel, &anna, &json!({"account": "ben@example.org"})).await;
    assert_eq!(unread(&hub, &ben).await, [] as [Value; 0], "that somebody came is nothing to read");
    hub.say(&channel, &anna, &json!({"content": "one"})).await;
    let two = hub.say(&channel, &anna, &json!({"content": "two"})).await;
    hub.say(&channel, &anna, &json!({"content": "@ben three"})).await;
    let found = unread(&hub, &ben).await;
    assert_eq!(
        (&found[0]["unread"], &found[0]["asked"], &found[0]["name"]),
        (&json!(3), &json!(true), &json!("plans"))
    );
    assert_eq!(unread(&hub, &anna).await, [] as [Value; 0], "what one says oneself is read");

    let read = format!("{channel}/read");
    let marked = hub.post(&read, Some(&ben), &json!({"event": two["event_id"]})).await;
    assert_eq!(marked.body["read"], two["sequence"]);
    assert_eq!(unread(&hub, &ben).await[0]["unread"], 1);
    let all = hub.post(&read, Some(&ben), &json!({})).await.body["read"].clone();
    assert_eq!(unread(&hub, &ben).await, [] as [Value; 0]);
    // The read position never moves back.
    assert_eq!(hub.post(&read, Some(&ben), &json!({"event": two["event_id"]})).await.body["read"], all);
    hub.post(&read, Some(&ben), &json!({"event": "evt_00000000000000000000000000000000"}))
        .await
        .own_failure(Code::NotFound);
    for n in 0..105 {
        hub.say(&channel, &anna, &json!({"content": n.to_string()})).await;
    }
    let found = unread(&hub, &ben).await;
    assert_eq!((&found[0]["unread"], &found[0]["asked"]), (&json!(100), &json!(false)));
}

#[tokio::test]
async fn who_is_away_gets_one_mail_an_hour() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::new(1_774_000_800_000);
    let path = folder.path().to_owned();
    let hub = Setup::new().clock(&clock).config(move |config| config.mail = Mail::Folder(path)).start();
    let (anna, ben) = (hub.account("anna@example.org").await, hub.account("ben@example.org").await);
    let channel = hub.channel(&anna, &json!({"name": "plans"})).await;
    hub.add(&channel, &anna, &json!({"account": "ben@example.org"})).await;
    hub.get("/api/v1/me", Some(&ben)).await;
    let mails = async || {
        let files = std::fs::read_dir(folder.path()).unwrap().filter_map(|file| {
            let text = std::fs::read_to_string(file.unwrap().path()).ok()?;
            text.contains("To: ben@example.org").then_some(text)
        });
        files.collect::<Vec<_>>()
    };
    hub.say(&channel, &anna, &json!({"content": "nothing for anybody"})).await;
    hub.say(&channel, &anna, &json!({"content": "@ben a secret"})).await;
    clock.advance(6 * 60_000);
    let sent = eventually(&mails, |sent| sent.len() == 1).await;
    assert!(sent[0].contains("plans") && sent[0].contains("/c/ch_"), "{}", sent[0]);
    assert!(!sent[0].contains("a secret"), "a mail holds nothing of what was said");
    // There is at most one mail per hour; the next covers what came meanwhile.
    hub.say(&channel, &anna, &json!({"content": "@ben again"})).await;
    clock.advance(30 * 60_000);
    hub.say(&channel, &anna, &json!({"content": "not for ben"})).await;
    assert_eq!(mails().await.len(), 1);
    clock.advance(31 * 60_000);
    eventually(&mails, |sent| sent.len() == 2).await;
    // A person who has turned mails off gets none.
    hub.ask("PATCH", "/api/v1/me", Some(&ben), &json!({"mails": false})).await;
    hub.say(&channel, &anna, &json!({"content": "@ben and again"})).await;
    clock.advance(120 * 60_000);
    hub.ask("PATCH", "/api/v1/me", Some(&ben), &json!({"mails": true})).await;
    assert_eq!(mails().await.len(), 2);
}

/// A request that waits for a person is marked, and the person gets a mail as for a mention.
async fn what_waits(setup: Setup) {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::new(1_774_000_800_000);
    let path = folder.path().to_owned();
    let hub = setup.clock(&clock).config(move |config| config.mail = Mail::Folder(path)).start();
    let (anna, bot) = (hub.account("anna@example.org").await, hub.register("bot").await);
    let channel = hub.channel(&anna, &json!({"name": "plans"})).await;
    hub.add(&channel, &anna, &json!({"agent": "bot"})).await;
    hub.post(&format!("{channel}/read"), Some(&anna), &json!({})).await;
    assert_eq!(unread(&hub, &anna).await, [] as [Value; 0]);
    let body = json!({"content": "drop the secret table", "requires_approval": true});
    let held = hub.post(&format!("{channel}/messages"), Some(&bot), &body).await;
    assert_eq!(held.status, 202, "{}", held.text);
    let found = unread(&hub, &anna).await;
    assert_eq!(
        (&found[0]["held"], &found[0]["asked"], &found[0]["unread"]),
        (&json!(1), &json!(true), &json!(0))
    );
    let mails = async || {
        let files = std::fs::read_dir(folder.path()).unwrap().filter_map(|file| {
            let text = std::fs::read_to_string(file.unwrap().path()).ok()?;
            text.contains("waits for you").then_some(text)
        });
        files.collect::<Vec<_>>()
    };
    clock.advance(6 * 60_000);
    let sent = eventually(&mails, |sent| sent.len() == 1).await;
    assert!(sent[0].contains("plans") && !sent[0].contains("secret"), "{}", sent[0]);
    let decline = format!("/api/v1/approvals/{}/decline", held.body["approval"].as_str().unwrap());
    assert_eq!(hub.post(&decline, Some(&anna), &json!({})).await.status, 200);
    assert_eq!(unread(&hub, &anna).await, [] as [Value; 0]);
}

#[tokio::test]
async fn what_waits_for_a_person_is_marked_and_mailed() {
    what_waits(Setup::new()).await;
}

#[tokio::test]
async fn what_waits_for_a_person_is_marked_and_mailed_on_postgres() {
    what_waits(Setup::postgres()).await;
}
