//! The list of accounts, for the operator only.

use crate::support::{OPERATOR, TestHub, members};
use chorus_protocol::code::Code;
use serde_json::{Value, json};

fn emails(items: &Value) -> Vec<&str> {
    items["items"].as_array().unwrap().iter().map(|one| one["email"].as_str().unwrap_or("-")).collect()
}

#[tokio::test]
async fn the_operator_lists_and_searches_them() {
    let hub = TestHub::start();
    for (email, name) in
        [("Ann@mail.example", "Ann Ärmel"), ("bob@mail.example", "Bob"), ("eve@else.example", "Eve 100%")]
    {
        let new = json!({"email": email, "name": name});
        assert_eq!(hub.post("/api/v1/accounts", Some(OPERATOR), &new).await.status, 201);
    }
    let all = hub.get("/api/v1/accounts", Some(OPERATOR)).await.body;
    assert_eq!(
        emails(&all),
        ["Ann@mail.example", "bob@mail.example", "eve@else.example"],
        "the oldest first"
    );
    let shown = ["account_id", "created_at", "deleted_at", "disabled_since", "email", "name"];
    assert_eq!((members(&all["items"][0]), &all["next"]), (shown.to_vec(), &Value::Null));
    for (asked, found) in [
        ("MAIL.example", &["Ann@mail.example", "bob@mail.example"][..]),
        ("%C3%A4RM", &["Ann@mail.example"]),
        ("%25", &["eve@else.example"]),
        ("_", &[]),
        ("nobody", &[]),
    ] {
        let page = hub.get(&format!("/api/v1/accounts?q={asked}"), Some(OPERATOR)).await.body;
        assert_eq!(emails(&page), found, "{asked}");
    }
    let mut found = vec![];
    let mut after = String::new();
    loop {
        let page = hub.get(&format!("/api/v1/accounts?limit=1&after={after}"), Some(OPERATOR)).await.body;
        found.extend(emails(&page).iter().map(ToString::to_string));
        let Some(next) = page["next"].as_str() else { break };
        after = next.to_owned();
    }
    assert_eq!(found, emails(&all), "page by page");
    for query in ["limit=0", "limit=201", "after=x", "q=%00"] {
        let refused = hub.get(&format!("/api/v1/accounts?{query}"), Some(OPERATOR)).await;
        assert!(refused.status == 400 || query == "q=%00", "{query}: {}", refused.text);
    }
}

/// Disabled and deleted accounts are marked; a deleted one shows nothing else.
#[tokio::test]
async fn disabled_and_deleted_ones_are_marked() {
    let hub = TestHub::start();
    let ann = hub.account("ann@mail.example").await;
    hub.account("bob@mail.example").await;
    let path = "/api/v1/operator/accounts/bob@mail.example/disable";
    assert_eq!(hub.post(path, Some(OPERATOR), &json!({})).await.status, 200);
    assert_eq!(hub.delete("/api/v1/me?confirm=ann@mail.example", Some(&ann)).await.status, 204);
    let all = hub.get("/api/v1/accounts", Some(OPERATOR)).await;
    assert_eq!(emails(&all.body), ["-", "bob@mail.example"]);
    let (gone, out) = (&all.body["items"][0], &all.body["items"][1]);
    assert!(
        gone["deleted_at"].is_string() && gone["name"].as_str().unwrap().starts_with("deleted-"),
        "{gone}"
    );
    assert!(out["disabled_since"].is_string() && out["deleted_at"].is_null(), "{out}");
    assert!(!all.text.contains("ann@"), "{}", all.text);
    // A search does not match the internal form of freed addresses.
    let found = hub.get("/api/v1/accounts?q=deleted:", Some(OPERATOR)).await.body;
    assert_eq!(found["items"], json!([]));
}

#[tokio::test]
async fn nobody_else_learns_who_there_is() {
    let hub = TestHub::start();
    let (ann, bot) = (hub.account("ann@mail.example").await, hub.register("bot").await);
    for key in [&ann, &bot] {
        let refused = hub.get("/api/v1/accounts?q=ann", Some(key)).await;
        refused.own_failure(Code::Forbidden);
        assert!(!refused.text.contains("ann@"));
    }
    hub.get("/api/v1/accounts", None).await.own_failure(Code::Unauthorized);
}
