//! Credits on the market: who creates, spends and sees them.

use crate::market::{assert_balanced, balance, refused, registration, trader};
use crate::support::{OPERATOR, Setup, TestHub, eventually};
use chorus_protocol::code::Code;
use chorus_protocol::market::Credits;
use serde_json::{Value, json};
use std::collections::BTreeSet;

#[tokio::test]
async fn money_is_the_operators_to_make() {
    let hub = TestHub::start();
    let one = trader(&hub, "one", 0).await;
    let mint = |owner: &str, amount: Value| json!({"owner": owner, "amount": amount});
    for path in ["/market/mint", "/market/burn"] {
        refused(&hub, path, None, &mint(&one.owner, json!(1)), Code::Unauthorized).await;
        for key in [&one.key, &one.owner_key] {
            refused(&hub, path, Some(key), &mint(&one.owner, json!(1)), Code::Forbidden).await;
        }
        for wrong in [json!(0), json!(-1), json!("1"), json!(0.001), json!(1e20), json!(null)] {
            refused(&hub, path, Some(OPERATOR), &mint(&one.owner, wrong), Code::Validation).await;
        }
        refused(&hub, path, Some(OPERATOR), &mint("nobody", json!(1)), Code::NotFound).await;
    }
    let minted = hub.post("/market/mint", Some(OPERATOR), &mint(&one.owner, json!(1.5))).await;
    assert_eq!((minted.status, &minted.body["balance"]), (200, &json!(1.5)));
    refused(&hub, "/market/burn", Some(OPERATOR), &mint(&one.owner, json!(1.51)), Code::TransferFailed).await;
    let burned = hub.post("/market/burn", Some(OPERATOR), &mint(&one.owner, json!(0.5))).await;
    assert_eq!((burned.status, &burned.body["balance"]), (200, &json!(1.0)));
    refused(
        &hub,
        "/market/mint",
        Some(OPERATOR),
        &mint(&one.owner, json!(9_999_999_999_999_i64)),
        Code::Validation,
    )
    .await;
    let economy = hub.get("/market/economy", None).await.body;
    let expected = json!({"minted": 1.5, "burned": 0.5, "wallets": 1.0, "held": 0.0, "balanced": true});
    assert_eq!(economy, expected);
    // An account's email address works too; the account gets a wallet.
    hub.account("rich@example.org").await;
    let minted = hub.post("/market/mint", Some(OPERATOR), &mint("rich@example.org", json!(2))).await;
    assert_eq!((minted.status, &minted.body["balance"]), (200, &json!(2.0)), "{}", minted.text);
    // The act is in the audit log and in the health report.
    let audit = hub.get("/api/v1/audit?limit=200", Some(OPERATOR)).await.text;
    assert!(
        audit.contains("credits.minted")
            && audit.contains("credits.burned")
            && audit.contains("skills.offered")
    );
    let health =
        eventually(async || hub.get("/health", None).await.body["data"]["market"].clone(), Value::is_object)
            .await;
    assert_eq!(health["balanced"], true);
}

#[tokio::test]
async fn a_new_owner_is_given_what_is_set() {
    let hub = Setup::new().config(|config| config.market_grant = Credits::parse("2.50").unwrap()).start();
    let one = trader(&hub, "one", 0).await;
    assert_eq!(balance(&hub, &one.owner).await, (json!(2.5), json!(0.0)));
    // The grant is given once, not for each agent.
    hub.post("/market/register", Some(&one.owner_key), &registration("two", &one.owner, "1")).await;
    assert_eq!(balance(&hub, &one.owner).await.0, 2.5);
    assert_balanced(&hub).await;
}

/// The key of an agent moves it to no other owner and earns no new grant per name.
#[tokio::test]
async fn an_agents_key_moves_it_to_no_other_owner() {
    let hub = Setup::new().config(|config| config.market_grant = Credits::parse("2.50").unwrap()).start();
    let (one, other) = (trader(&hub, "one", 0).await, trader(&hub, "other", 0).await);
    for owner in ["thief", &other.owner] {
        let moved = registration("one", owner, "1");
        refused(&hub, "/market/register", Some(&one.key), &moved, Code::Forbidden).await;
    }
    let same = registration("one", &one.owner, "1");
    assert_eq!(hub.post("/market/register", Some(&one.key), &same).await.status, 200);
    // The owner may move it, and gets no grant for that.
    let mut moved = registration("one", "heir", "1");
    moved["agent_id"] = json!(one.id);
    let moved = hub.post("/market/register", Some(&one.owner_key), &moved).await;
    assert_eq!((moved.status, &moved.body["owner_id"]), (200, &json!("heir")), "{}", moved.text);
    assert_eq!(balance(&hub, "heir").await.0, 0.0);
    assert_balanced(&hub).await;
}

#[tokio::test]
async fn an_owners_key_is_replaced() {
    let hub = TestHub::start();
    let (one, other) = (trader(&hub, "one", 5).await, trader(&hub, "other", 5).await);
    let path = format!("/market/wallets/{}/key/reset", one.owner);
    hub.post(&path, None, &json!({})).await.own_failure(Code::Unauthorized);
    for key in [&one.key, &other.key, &other.owner_key] {
        hub.post(&path, Some(key), &json!({})).await.own_failure(Code::NotFound);
    }
    let wallet = format!("/market/wallets/{}", one.owner);
    assert_eq!(hub.get(&wallet, Some(&one.owner_key)).await.status, 200);
    let mut old = one.owner_key.clone();
    for by in [old.clone(), OPERATOR.to_owned()] {
        let reset = hub.post(&path, Some(&by), &json!({})).await;
        assert_eq!(reset.status, 200, "{}", reset.text);
        let new = reset.body["owner_key"].as_str().unwrap().to_owned();
        hub.get(&wallet, Some(&old)).await.own_failure(Code::Unauthorized);
        assert_eq!(hub.get(&wallet, Some(&new)).await.body["balance"], 5.0);
        old = new;
    }
    let audit = hub.get("/api/v1/audit?limit=200", Some(OPERATOR)).await.text;
    assert!(audit.contains("owner_key.reset"), "{audit}");
}

#[tokio::test]
async fn nobody_spends_or_sees_anothers_credits() {
    let hub = TestHub::start();
    let (one, other) = (trader(&hub, "one", 5).await, trader(&hub, "other", 5).await);
    let pay = |from: &str, to: &str, amount: Value| json!({"transfer_id": "f81d4fae-7dec-11d0-a765-000000000001", "from_owner": from, "to_owner": to, "amount": amount});
    let steal = pay(&one.owner, &other.owner, json!(1));
    refused(&hub, "/market/transfer", None, &steal, Code::Unauthorized).await;
    for key in [&other.key, &other.owner_key, &one.key, OPERATOR] {
        refused(&hub, "/market/transfer", Some(key), &steal, Code::Forbidden).await;
    }
    // To others, an existing wallet and a missing one look the same.
    refused(
        &hub,
        "/market/transfer",
        Some(&one.owner_key),
        &pay("nobody", &one.owner, json!(1)),
        Code::Forbidden,
    )
    .await;
    refused(
        &hub,
        "/market/transfer",
        Some(&one.owner_key),
        &pay(&one.owner, "nobody", json!(1)),
        Code::NotFound,
    )
    .await;
    refused(
        &hub,
        "/market/transfer",
        Some(&one.owner_key),
        &pay(&one.owner, &other.owner, json!(5.01)),
        Code::TransferFailed,
    )
    .await;
    for wrong in [json!(0), json!(-1), json!("1"), json!(0.001)] {
        let body = pay(&one.owner, &other.owner, wrong);
        refused(&hub, "/market/transfer", Some(&one.owner_key), &body, Code::Validation).await;
    }
    refused(
        &hub,
        "/market/transfer",
        Some(&one.owner_key),
        &pay(&one.owner, &one.owner, json!(1)),
        Code::Validation,
    )
    .await;
    assert_eq!(
        (balance(&hub, &one.owner).await.0, balance(&hub, &other.owner).await.0),
        (json!(5.0), json!(5.0))
    );

    let wallet = "/market/wallets/owner%20of%20one";
    let messages: BTreeSet<_> = [
        hub.get(wallet, Some(&other.owner_key)).await,
        hub.get(wallet, Some(&other.key)).await,
        hub.get("/market/wallets/nobody", Some(&other.key)).await,
        hub.get("/market/ledger?owner=owner%20of%20one", Some(&other.owner_key)).await,
        hub.get("/market/ledger?owner=nobody", Some(&other.owner_key)).await,
    ]
    .iter()
    .map(|answer| answer.own_failure(Code::NotFound).to_owned())
    .collect();
    assert_eq!(messages.len(), 1, "{messages:?}");
    hub.get(wallet, None).await.own_failure(Code::Unauthorized);
    for key in [&one.key, &one.owner_key, OPERATOR] {
        let shown = hub.get(wallet, Some(key)).await;
        assert_eq!(shown.body, json!({"owner": one.owner, "balance": 5.0, "held": 0.0}));
    }
}

#[tokio::test]
async fn the_ledger_tells_every_movement() {
    let hub = TestHub::start();
    let (one, other) = (trader(&hub, "one", 5).await, trader(&hub, "other", 0).await);
    for n in 1..=3_u32 {
        let id = format!("00000000-0000-4000-8000-00000000000{n}");
        let body =
            json!({"transfer_id": id, "from_owner": one.owner, "to_owner": other.owner, "amount": 0.5});
        assert_eq!(hub.post("/market/transfer", Some(&one.owner_key), &body).await.status, 200);
    }
    let ledger = hub.get("/market/ledger?limit=3", Some(&one.owner_key)).await.body;
    let items = ledger["items"].as_array().unwrap();
    let seen: Vec<_> = items
        .iter()
        .map(|item| (item["number"].as_i64().unwrap(), item["balance"].as_f64().unwrap()))
        .collect();
    assert_eq!(seen, [(4, 3.5), (3, 4.0), (2, 4.5)]);
    assert_eq!((&items[0]["debit"], &items[0]["credit"]), (&json!(one.owner), &json!(other.owner)));
    let rest = hub
        .get(&format!("/market/ledger?after={}", ledger["next"].as_str().unwrap()), Some(&one.owner_key))
        .await
        .body;
    assert_eq!((&rest["items"][0]["kind"], &rest["next"]), (&json!("mint"), &json!(null)));
    let since = hub.get("/market/ledger?since=2999-01-01T00:00:00Z", Some(&one.owner_key)).await.body;
    assert_eq!(since["items"], json!([]));
    hub.get("/market/ledger?since=yesterday", Some(&one.owner_key)).await.own_failure(Code::Validation);
    hub.get("/market/ledger", None).await.own_failure(Code::Unauthorized);
    let theirs = hub.get("/market/ledger", Some(&other.key)).await.body;
    assert_eq!(theirs["items"].as_array().unwrap().len(), 3);
}
