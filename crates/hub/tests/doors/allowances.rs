//! Allowances: the credits of its owner that an agent's key may spend on one day.

use crate::market::{BEGIN, Trader, assert_balanced, balance, registration, trader};
use crate::market_jobs::{hire, id, job, result, success, text};
use crate::support::{Answer, OPERATOR, Setup, TestHub};
use chorus_protocol::code::Code;
use chorus_testkit::clock::ManualClock;
use futures_util::future::join_all;
use serde_json::{Value, json};

const DAY: i64 = 24 * 60 * 60 * 1000;

/// An account with credits, its agent, and a worker to hire.
struct Household {
    hub: TestHub,
    anna: String,
    agent: String,
    key: String,
    worker: Trader,
}

impl Household {
    async fn start(setup: Setup) -> Self {
        let hub = setup.start();
        let anna = hub.account("anna@example.org").await;
        let minted = json!({"owner": "anna@example.org", "amount": 10});
        assert_eq!(hub.post("/market/mint", Some(OPERATOR), &minted).await.status, 200);
        let made = hub.post("/api/v1/agents", Some(&anna), &json!({"name": "timber"})).await;
        assert_eq!(made.status, 201, "{}", made.text);
        let (agent, key) = (text(&made.body["agent_id"]), text(&made.body["api_key"]));
        let worker = trader(&hub, "worker", 0).await;
        Self { hub, anna, agent, key, worker }
    }

    async fn allow(&self, key: &str, credits: Value) -> Answer {
        allow(&self.hub, &self.agent, key, credits).await
    }

    async fn shown(&self, key: &str) -> Value {
        shown(&self.hub, &self.agent, key).await
    }

    async fn left(&self) -> Value {
        self.shown(&self.anna).await["left_today"].clone()
    }

    async fn asks(&self, n: u32) -> Answer {
        self.hub.post("/market/jobs", Some(&self.key), &job(n, &self.worker.id)).await
    }
}

async fn allow(hub: &TestHub, agent: &str, key: &str, credits: Value) -> Answer {
    let body = json!({"credits_per_day": credits});
    hub.ask("PUT", &format!("/api/v1/agents/{agent}/allowance"), Some(key), &body).await
}

async fn shown(hub: &TestHub, agent: &str, key: &str) -> Value {
    hub.get(&format!("/api/v1/agents/{agent}"), Some(key)).await.body["allowance"].clone()
}

fn allowance(per_day: f64, spent: f64, left: f64) -> Value {
    json!({"credits_per_day": per_day, "spent_today": spent, "left_today": left})
}

/// The key of an account's agent spends nothing until the owner sets an allowance.
#[tokio::test]
async fn an_accounts_agent_spends_what_its_owner_allows() {
    let clock = ManualClock::new(BEGIN);
    let home = Household::start(Setup::new().clock(&clock)).await;
    let refused = home.asks(1).await;
    let why = refused.own_failure(Code::TransferFailed);
    for words in ["0.00 credits a day", "0.00 are left", "chorus agents allowance"] {
        assert!(why.contains(words), "{why}");
    }
    assert_eq!(home.shown(&home.anna).await, allowance(0.0, 0.0, 0.0));
    assert_balanced(&home.hub).await;

    // Neither the agent's key nor a stranger can raise the allowance.
    let eve = trader(&home.hub, "eve", 1).await;
    let other = home.hub.account("other@example.org").await;
    for key in [&home.key, &eve.key, &eve.owner_key, &other] {
        home.allow(key, json!(5)).await.own_failure(Code::Forbidden);
        let path = format!("/api/v1/agents/{}/allowance", home.agent);
        home.hub.delete(&path, Some(key)).await.own_failure(Code::Forbidden);
    }
    for wrong in [json!(-1), json!(0.001), json!("1"), json!(null)] {
        home.allow(&home.anna, wrong).await.own_failure(Code::Validation);
    }
    let set = home.allow(&home.anna, json!(0.2)).await;
    assert_eq!((set.status, &set.body["allowance"]), (200, &allowance(0.2, 0.0, 0.2)), "{}", set.text);
    assert!(home.hub.get("/api/v1/audit", Some(OPERATOR)).await.text.contains("allowance.set"));

    // A budget counts when it is held; the part returned on the same day is available again.
    assert_eq!(home.asks(2).await.status, 202);
    home.asks(3).await.own_failure(Code::TransferFailed);
    for key in [&home.anna, &home.key, OPERATOR] {
        assert_eq!(home.shown(key).await, allowance(0.2, 0.15, 0.05));
    }
    for key in [&eve.key, &other] {
        assert_eq!(home.shown(key).await, Value::Null, "it is not theirs to know");
    }
    let first = job(2, &home.worker.id);
    assert_eq!(result(&home.hub, &home.worker.key, &first, &success(&first)).await.status, 200);
    assert_eq!(home.left().await, json!(0.1));
    // The owner is not limited, and does not use up the allowance.
    let mut owners = job(4, &home.worker.id);
    owners["orchestrator_id"] = json!(home.agent);
    hire(&home.hub, &home.anna, &owners).await;
    assert_eq!(home.left().await, json!(0.1));

    // The allowance is renewed every day, and credits returned from the day before do not add to it.
    // A sign of life from before the jump, written after it, would look like one from before the clock was set back.
    home.hub.background_round().await;
    clock.advance(DAY - BEGIN.rem_euclid(DAY));
    home.hub.post("/market/heartbeat", Some(&home.worker.key), &json!({"agent_id": home.worker.id})).await;
    assert_eq!(home.left().await, json!(0.2));
    assert_eq!(home.asks(5).await.status, 202);
    assert_eq!(home.left().await, json!(0.05));
    let cancel = format!("/market/jobs/{}/cancel", id(&job(5, &home.worker.id)));
    assert_eq!(home.hub.post(&cancel, Some(&home.key), &json!({})).await.status, 200);
    assert_eq!(home.left().await, json!(0.2));
    let path = format!("/api/v1/agents/{}/allowance", home.agent);
    let off = home.hub.delete(&path, Some(&home.anna)).await;
    assert_eq!((off.status, &off.body["allowance"]), (200, &allowance(0.0, 0.0, 0.0)), "{}", off.text);
    home.asks(6).await.own_failure(Code::TransferFailed);
    assert_balanced(&home.hub).await;
}

/// A job without a budget holds nothing and needs no allowance.
#[tokio::test]
async fn a_free_job_needs_no_allowance() {
    let home = Household::start(Setup::new()).await;
    let free = home.hub.post("/market/register", None, &registration("free", "free-owner", "0")).await;
    let mut job = job(1, &text(&free.body["agent_id"]));
    job["budget"] = json!(0);
    hire(&home.hub, &home.key, &job).await;
}

/// Accepting an offer uses the allowance like hiring does.
#[tokio::test]
async fn taking_an_offer_counts_as_well() {
    let home = Household::start(Setup::new()).await;
    let ask = json!({"skill_name": "analyze_text", "input_data": {"text": "x"}, "answer_ms": 0});
    let asked = home.hub.post("/market/quotes", Some(&home.anna), &ask).await;
    assert_eq!(asked.status, 201, "{}", asked.text);
    let mine = home.hub.post("/market/quotes", Some(&home.key), &ask).await;
    assert_eq!(mine.status, 201, "{}", mine.text);
    let path = format!("/market/quotes/{}/accept", text(&mine.body["quote_id"]));
    let accept = json!({"agent_id": home.worker.id});
    home.hub.post(&path, Some(&home.key), &accept).await.own_failure(Code::TransferFailed);
    home.allow(&home.anna, json!(0.1)).await;
    let taken = home.hub.post(&path, Some(&home.key), &accept).await;
    assert_eq!(taken.status, 202, "{}", taken.text);
    assert_eq!(home.left().await, json!(0.0));
}

async fn many_at_once(setup: Setup) {
    let home = Household::start(setup).await;
    home.allow(&home.anna, json!(0.45)).await;
    let asked = join_all((0..10).map(|n| home.asks(n))).await;
    let mut statuses: Vec<_> = asked.iter().map(|answer| answer.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [202, 202, 202, 402, 402, 402, 402, 402, 402, 402]);
    assert_eq!(home.left().await, json!(0.0));
    assert_balanced(&home.hub).await;
}

#[tokio::test]
async fn many_at_once_do_not_exceed_it() {
    many_at_once(Setup::new()).await;
}

#[tokio::test]
async fn many_at_once_do_not_exceed_it_on_postgres() {
    many_at_once(Setup::postgres()).await;
}

/// Agents of an owner without an account spend without a limit, unless that owner sets one.
#[tokio::test]
async fn an_owner_without_an_account_may_set_one() {
    let hub = TestHub::start();
    let (boss, worker) = (trader(&hub, "boss", 5).await, trader(&hub, "worker", 0).await);
    assert_eq!(shown(&hub, &boss.id, &boss.key).await, Value::Null);
    hire(&hub, &boss.key, &job(1, &worker.id)).await;
    for key in [&boss.key, &worker.key, &worker.owner_key] {
        allow(&hub, &boss.id, key, json!(5)).await.own_failure(Code::Forbidden);
    }
    let set = allow(&hub, &boss.id, &boss.owner_key, json!(0.15)).await;
    assert_eq!((set.status, &set.body["allowance"]), (200, &allowance(0.15, 0.0, 0.15)), "{}", set.text);
    hire(&hub, &boss.key, &job(2, &worker.id)).await;
    hub.post("/market/jobs", Some(&boss.key), &job(3, &worker.id)).await.own_failure(Code::TransferFailed);
    hire(&hub, &boss.owner_key, &job(3, &worker.id)).await;
    let path = format!("/api/v1/agents/{}/allowance", boss.id);
    assert_eq!(hub.delete(&path, Some(&boss.owner_key)).await.status, 200);
    hire(&hub, &boss.key, &job(4, &worker.id)).await;
    assert_balanced(&hub).await;
}

/// A claimed agent starts without an allowance, whatever its former owner allowed. From then on the account
/// decides.
#[tokio::test]
async fn a_claimed_agent_begins_with_nothing() {
    let hub = TestHub::start();
    let (boss, worker) = (trader(&hub, "boss", 5).await, trader(&hub, "worker", 0).await);
    assert_eq!(allow(&hub, &boss.id, &boss.owner_key, json!(5)).await.status, 200);
    let anna = hub.account("anna@example.org").await;
    let claimed = hub.post("/api/v1/agents/claim", Some(&anna), &json!({"api_key": boss.key})).await;
    assert_eq!(claimed.status, 200, "{}", claimed.text);
    hub.post("/market/jobs", Some(&boss.key), &job(1, &worker.id)).await.own_failure(Code::TransferFailed);
    allow(&hub, &boss.id, &boss.owner_key, json!(5)).await.own_failure(Code::Forbidden);
    assert_eq!(allow(&hub, &boss.id, &anna, json!(1)).await.status, 200);
    // The account's credits are spent, not those of the former owner.
    let own = text(&hub.get("/api/v1/me", Some(&anna)).await.body["id"]);
    let mint = json!({"owner": own, "amount": 1});
    assert_eq!(hub.post("/market/mint", Some(OPERATOR), &mint).await.status, 200);
    hire(&hub, &boss.key, &job(1, &worker.id)).await;
    assert_eq!(balance(&hub, &own).await, (json!(0.85), json!(0.15)));
    assert_eq!(balance(&hub, &boss.owner).await, (json!(5.0), json!(0.0)));
}

/// An agent that pays from an account's wallet is limited, although the agent has no account.
#[tokio::test]
async fn an_agent_that_pays_from_an_accounts_wallet_is_limited() {
    let hub = TestHub::start();
    let (worker, anna) = (trader(&hub, "worker", 0).await, hub.account("anna@example.org").await);
    let made = hub.post("/market/register", Some(&anna), &registration("first", "anna-lab", "1")).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let owner_key = text(&made.body["owner_key"]);
    let mint = json!({"owner": "anna-lab", "amount": 5});
    assert_eq!(hub.post("/market/mint", Some(OPERATOR), &mint).await.status, 200);
    let second =
        hub.post("/market/register", Some(&owner_key), &registration("second", "anna-lab", "1")).await;
    assert_eq!(second.status, 201, "{}", second.text);
    let (agent, key) = (text(&second.body["agent_id"]), text(&second.body["api_key"]));
    hub.post("/market/jobs", Some(&key), &job(1, &worker.id)).await.own_failure(Code::TransferFailed);
    assert_eq!(allow(&hub, &agent, &anna, json!(1)).await.status, 200);
    hire(&hub, &key, &job(1, &worker.id)).await;
}
