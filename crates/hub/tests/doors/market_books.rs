//! The books of the market: who learns of a wallet that differs from its ledger, and who sees which movements
//! of a job.

use crate::market::{Trader, trader};
use crate::market_jobs::{hire, id, job, result, success};
use crate::support::{OPERATOR, Setup, TestHub, eventually};
use chorus_protocol::code::Code;
use chorus_store::{StoreError, Tx};
use serde_json::{Value, json};

async fn tamper(hub: &TestHub, statements: &'static [&'static str]) {
    let write = move |tx: &mut dyn Tx| statements.iter().try_for_each(|sql| tx.execute(sql, &[]).map(drop));
    hub.store().write::<_, StoreError, _>(write).await.unwrap();
}

fn owners(found: &Value) -> Vec<&str> {
    let named = found["discrepancies"].as_array().into_iter().flatten();
    let mut owners: Vec<_> = named.map(|off| off["owner"].as_str().unwrap()).collect();
    owners.sort_unstable();
    owners
}

/// A writer to the database could move credits between two wallets and keep the sum.
async fn two_wallets(setup: Setup) {
    let hub = setup.start();
    let (boss, worker) = (trader(&hub, "boss", 200).await, trader(&hub, "worker", 0).await);
    let thief = trader(&hub, "thief", 1).await;
    hire(&hub, &boss.key, &job(1, &worker.id)).await;
    tamper(
        &hub,
        &[
            "UPDATE wallets SET balance = balance - 10000 WHERE owner = 'owner of boss'",
            "UPDATE wallets SET balance = balance + 10000 WHERE owner = 'owner of thief'",
        ],
    )
    .await;
    let hub = hub.restart(|_| {}).await;
    let economy = async |key: Option<&str>| hub.get("/market/economy", key).await.body;
    let off = eventually(async || economy(Some(OPERATOR)).await, |found| found["balanced"] == false).await;
    assert_eq!(owners(&off), [&boss.owner, &thief.owner], "{off}");
    let detail = off["discrepancies"].to_string();
    assert!(detail.contains("its balance is 99.85, its movements add up to 199.85"), "{detail}");
    assert!(detail.contains("its balance is 101.00, its movements add up to 1.00"), "{detail}");
    // Each owner learns of their own wallet, and everybody learns that the books do not balance.
    for key in [&boss.key, &boss.owner_key] {
        assert_eq!(owners(&economy(Some(key)).await), [&boss.owner]);
    }
    for key in [None, Some(&*worker.key), Some(&*worker.owner_key)] {
        let seen = economy(key).await;
        assert_eq!((&seen["balanced"], seen.get("discrepancies")), (&json!(false), None), "{seen}");
    }
    let health = async |key: Option<&str>| hub.get("/health", key).await.body["data"]["market"].clone();
    let seen = eventually(async || health(Some(OPERATOR)).await, Value::is_object).await;
    assert_eq!((&seen["balanced"], owners(&seen)), (&json!(false), vec![&*boss.owner, &thief.owner]));
    for key in [None, Some(&*boss.owner_key), Some("co_00000000000000000000000000000000")] {
        let seen = health(key).await;
        assert_eq!((&seen["balanced"], seen.get("discrepancies")), (&json!(false), None), "{seen}");
    }

    // A hold without an open job is found too. The books balance once it is corrected.
    tamper(
        &hub,
        &[
            "UPDATE wallets SET balance = balance + 10000 WHERE owner = 'owner of boss'",
            "UPDATE wallets SET balance = balance - 10000 WHERE owner = 'owner of thief'",
            "UPDATE holds SET wallet_id = (SELECT id FROM wallets WHERE owner = 'owner of thief')",
        ],
    )
    .await;
    let hub = hub.restart(|_| {}).await;
    let economy = async || hub.get("/market/economy", Some(OPERATOR)).await.body;
    let off = eventually(economy, |found| found["balanced"] == false).await;
    assert_eq!(owners(&off), [&boss.owner, &thief.owner], "{off}");
    assert!(off["discrepancies"].to_string().contains(&id(&job(1, &worker.id))), "{off}");
}

#[tokio::test]
async fn credits_that_were_moved_by_hand_are_named() {
    two_wallets(Setup::new()).await;
}

#[tokio::test]
async fn credits_that_were_moved_by_hand_are_named_on_postgres() {
    two_wallets(Setup::postgres()).await;
}

/// The payer is visible to the payer and to the operator only.
#[tokio::test]
async fn the_worker_does_not_learn_who_pays() {
    let hub = TestHub::start();
    let (boss, worker) = (trader(&hub, "boss", 1).await, trader(&hub, "worker", 0).await);
    let eve = trader(&hub, "eve", 1).await;
    let job = job(1, &worker.id);
    hire(&hub, &boss.key, &job).await;
    assert_eq!(result(&hub, &worker.key, &job, &success(&job)).await.status, 200);
    let path = format!("/market/ledger?job={}", id(&job));
    // A stranger's transfers that name the job displace nothing.
    for n in 0..3 {
        let paid = pay(n, &eve, &boss.owner, &job);
        assert_eq!(hub.post("/market/transfer", Some(&eve.owner_key), &paid).await.status, 200);
    }
    for key in [&worker.key, &worker.owner_key] {
        for view in [&*path, "/market/ledger", &format!("/market/jobs/{}", id(&job)), "/market/jobs"] {
            let seen = hub.get(view, Some(key)).await;
            assert_eq!(seen.status, 200, "{}", seen.text);
            assert!(!seen.text.contains(&boss.owner), "{view}: {}", seen.text);
        }
        let rows = hub.get(&path, Some(key)).await.body["items"].clone();
        assert_eq!(rows.as_array().unwrap().len(), 1, "{rows}");
        assert_eq!((&rows[0]["number"], &rows[0]["kind"]), (&json!(1), &json!("settle")));
        assert_eq!((&rows[0]["debit"], &rows[0]["credit"]), (&Value::Null, &json!(worker.owner)));
    }
    let kinds = async |key: &str| {
        let rows = hub.get(&path, Some(key)).await.body["items"].clone();
        rows.as_array()
            .unwrap()
            .iter()
            .map(|row| row["kind"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let mut seen = kinds(&boss.owner_key).await;
    seen.sort_unstable();
    assert_eq!(seen, ["hold", "refund", "settle", "transfer", "transfer", "transfer"]);
    assert_eq!(kinds(OPERATOR).await.len(), 6);
    assert_eq!(kinds(&eve.owner_key).await.len(), 3);
}

fn pay(n: u32, from: &Trader, to: &str, job: &Value) -> Value {
    json!({
        "transfer_id": format!("f81d4fae-7dec-11d0-a765-1{n:011}"), "from_owner": from.owner, "to_owner": to,
        "amount": 0.01, "job_id": job["job_id"]
    })
}

/// One job is paid once: by a transfer or through the hub, whichever comes first.
#[tokio::test]
async fn a_job_that_was_paid_by_a_transfer_is_not_held_for() {
    let hub = TestHub::start();
    let (boss, worker) = (trader(&hub, "boss", 1).await, trader(&hub, "worker", 0).await);
    let other = trader(&hub, "other", 1).await;
    let (first, second) = (job(1, &worker.id), job(2, &worker.id));
    let paid =
        hub.post("/market/transfer", Some(&boss.owner_key), &pay(1, &boss, &worker.owner, &first)).await;
    assert_eq!(paid.status, 200, "{}", paid.text);
    hub.post("/market/jobs", Some(&boss.key), &first).await.own_failure(Code::Conflict);
    // Transfers of others are not visible here.
    hire(&hub, &other.key, &first).await;
    hire(&hub, &boss.key, &second).await;
    let twice =
        hub.post("/market/transfer", Some(&boss.owner_key), &pay(2, &boss, &worker.owner, &second)).await;
    twice.own_failure(Code::Conflict);
}
