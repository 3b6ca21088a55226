//! A stolen agent on the market: after `reset-key --detach` the thief keeps nothing.

use crate::channel_fixture::ChannelFixture;
use crate::market::{BEGIN, registration, trader};
use crate::market_jobs::{hire, job, result, success};
use crate::revocation::token;
use crate::support::{Setup, TestHub, on_both};
use chorus_protocol::code::Code;
use chorus_testkit::clock::ManualClock;
use chorus_testkit::receiver::FakeAgent;
use serde_json::{Value, json};

on_both![
    a_thief_keeps_nothing_of_the_market,
    a_wallet_key_changes_no_agent_of_an_account,
    a_string_that_the_hub_issued_is_no_agents_own,
    a_claimed_agent_does_not_spend_its_former_owners_credits,
    a_thief_cannot_remove_an_accounts_agent,
    a_disabled_agent_reports_no_result,
    a_replaced_owner_key_ends_with_the_stolen_key,
];

fn offer(endpoint: &str, owner: Option<&str>) -> Value {
    let mut body = registration("timber", "", "0.10");
    body["api_endpoint"] = json!(endpoint);
    match owner {
        Some(owner) => body["owner_id"] = json!(owner),
        None => drop(body.as_object_mut().unwrap().remove("owner_id")),
    }
    body
}

async fn offers(hub: &TestHub, agent: &str) -> usize {
    let shown = hub.get(&format!("/market/agents/{agent}"), None).await.body;
    shown["skills"].as_array().unwrap().len()
}

async fn a_thief_keeps_nothing_of_the_market(setup: Setup) {
    let (fixture, trap) = (ChannelFixture::on(&setup).await, FakeAgent::start().await);
    let hub = &fixture.hub;
    let made = fixture.agent(&json!({"name": "timber"})).await;
    let (id, stolen) = (made["agent_id"].as_str().unwrap(), made["api_key"].as_str().unwrap());

    // The thief lists skills under its own endpoint and owner; it gets no key for that owner.
    let thief = format!("http://{}/work", trap.addr());
    let listed = hub.post("/market/register", Some(stolen), &offer(&thief, Some("thief-owner"))).await;
    assert_eq!(listed.status, 201, "{}", listed.text);
    assert!(listed.body.get("owner_key").is_none_or(Value::is_null), "{}", listed.text);
    let boss = trader(hub, "boss", 5).await;
    let quote = hub.post("/market/quotes", Some(&boss.key), &json!({"skill_name": "analyze_text"})).await;
    let quoted = quote.body["offers"].as_array().unwrap().len();
    let path = format!("/api/v1/agents/{id}");
    assert_eq!(fixture.get(&path).await.body["market_endpoint"], "127.0.0.1");
    let page = fixture.get(&format!("/directory/{id}")).await;
    assert!(page.text.contains("Endpoint for jobs"), "{}", page.text);

    let reset = hub.post(&format!("{path}/key/reset"), Some(&fixture.anna), &json!({"detach": true})).await;
    assert_eq!(reset.status, 200, "{}", reset.text);
    let detached = &reset.body["detached"];
    assert_eq!(
        (&detached["market_endpoint"], &detached["skills"]),
        (&json!("127.0.0.1"), &json!(1)),
        "{detached}"
    );
    assert_eq!(detached["offers"], json!(quoted.min(1)), "{detached}");
    let key = reset.body["api_key"].as_str().unwrap();
    assert_eq!(hub.get("/api/v1/me", Some(stolen)).await.status, 401);
    assert_eq!(fixture.get(&path).await.body.get("market_endpoint"), None);

    // Nobody can hire the agent, and nothing goes to the thief.
    assert_eq!(offers(hub, id).await, 0);
    let before = trap.requests().len();
    let hired = hub.post("/market/jobs", Some(&boss.key), &job(1, id)).await;
    assert!(hired.status >= 400, "{}", hired.text);
    // The owner lists the skills again and is paid.
    let good = FakeAgent::start().await;
    let again =
        hub.post("/market/register", Some(key), &offer(&format!("http://{}/work", good.addr()), None)).await;
    assert_eq!(again.status, 200, "{}", again.text);
    let hired = hub.post("/market/jobs", Some(&boss.key), &job(2, id)).await;
    assert_eq!(hired.status, 202, "{}", hired.text);
    good.wait_for(1, crate::support::SOON).await;
    assert_eq!(trap.requests().len(), before, "nothing more goes to the thief");
}

/// An owner key issued for the agent's key ends with it, even if the agent had no account then.
#[tokio::test]
async fn an_owner_key_that_a_thief_was_given_ends() {
    for setup in [Setup::new(), Setup::postgres()] {
        let hub = setup.start();
        let stolen = hub.register("bob").await;
        let listed = hub
            .post("/market/register", Some(&stolen), &offer("https://thief.example/work", Some("thief")))
            .await;
        assert_eq!(listed.status, 201, "{}", listed.text);
        let (id, owner_key) = (&listed.body["agent_id"], listed.body["owner_key"].as_str().unwrap());
        let ledger = "/market/wallets/thief";
        assert_eq!(hub.get(ledger, Some(owner_key)).await.status, 200);
        let path = format!("/api/v1/agents/{}/key/reset", id.as_str().unwrap());
        let reset = hub.post(&path, Some(crate::support::OPERATOR), &json!({"detach": true})).await;
        assert_eq!(reset.body["detached"]["owner_keys"], json!(["thief"]), "{}", reset.text);
        assert_eq!(reset.body["detached"]["market_endpoint"], json!("thief.example"));
        assert_eq!(hub.get(ledger, Some(owner_key)).await.status, 401);
    }
}

/// An owner key alone cannot change an agent that belongs to an account.
async fn a_wallet_key_changes_no_agent_of_an_account(setup: Setup) {
    let fixture = ChannelFixture::on(&setup).await;
    let hub = &fixture.hub;
    let worker = trader(hub, "worker", 0).await;
    let body = |name: &str| {
        let mut body = registration(name, &worker.owner, "9");
        body["agent_id"] = json!(worker.id);
        body
    };
    let changed = hub.post("/market/register", Some(&worker.owner_key), &body("worker")).await;
    assert_eq!(changed.status, 200, "it belongs to nobody yet: {}", changed.text);
    let claim = json!({"api_key": worker.key});
    assert_eq!(hub.post("/api/v1/agents/claim", Some(&fixture.anna), &claim).await.status, 200);

    hub.post("/market/register", Some(&worker.owner_key), &body("mine")).await.own_failure(Code::Forbidden);
    let path = format!("/market/agents/{}", worker.id);
    let deleted = hub.delete(&path, Some(&worker.owner_key)).await;
    assert_eq!(deleted.body["removed"], json!(false), "{}", deleted.text);
    assert_eq!(hub.get("/api/v1/me", Some(&worker.key)).await.status, 200);
    let deleted = hub.delete(&path, Some(&fixture.anna)).await;
    assert_eq!(deleted.body["removed"], json!(true), "{}", deleted.text);
}

/// A connection string issued by this hub leads back into it, whatever its host name, and is refused.
async fn a_string_that_the_hub_issued_is_no_agents_own(setup: Setup) {
    let fixture = ChannelFixture::on(&setup).await;
    let hub = &fixture.hub;
    let made = fixture.agent(&json!({"name": "timber"})).await;
    let issued = made["connection_string"].as_str().unwrap();
    let (_, path) = issued.split_once("/inbox/").unwrap();
    let key = made["api_key"].as_str().unwrap();
    let spelled = [
        issued.to_owned(),
        format!("http://hub.other.example:1234/inbox/{path}"),
        format!("https://LOCALHOST./inbox/{path}/?x=1"),
    ];
    for url in spelled {
        for caller in [key, &fixture.anna] {
            let refused = fixture.put_connection("timber", caller, &url).await;
            let told = refused.own_failure(Code::Validation);
            assert!(told.contains("this hub"), "{url}: {told}");
        }
        let new = json!({"name": "other", "connection_string": url});
        let refused = hub.post("/api/v1/agents", Some(&fixture.anna), &new).await;
        assert!(refused.own_failure(Code::Validation).contains("this hub"), "{url}");
    }
    assert_eq!(fixture.get("/api/v1/agents/timber").await.body["connection"], json!({"state": "none"}));
}

/// The results of jobs that a thief asked for are not POSTed to the thief.
#[tokio::test]
async fn callbacks_of_jobs_end_with_the_stolen_key() {
    for setup in [Setup::new(), Setup::postgres()] {
        let (hub, trap) = (setup.start(), FakeAgent::start().await);
        let (boss, worker) = (trader(&hub, "boss", 1).await, trader(&hub, "worker", 0).await);
        let mut asked = job(1, &worker.id);
        asked["callback_url"] = json!(format!("http://{}/trap", trap.addr()));
        hire(&hub, &boss.key, &asked).await;
        let path = format!("/api/v1/agents/{}/key/reset", boss.id);
        let reset = hub.post(&path, Some(crate::support::OPERATOR), &json!({"detach": true})).await;
        assert_eq!(reset.body["detached"]["job_callbacks"], json!(1), "{}", reset.text);
        assert_eq!(result(&hub, &worker.key, &asked, &success(&asked)).await.status, 200);
        // A job that is asked for afterwards is answered, so a POST for the first would have come before.
        let (mut next, good) = (job(2, &worker.id), FakeAgent::start().await);
        next["callback_url"] = json!(format!("http://{}/good", good.addr()));
        hire(&hub, reset.body["api_key"].as_str().unwrap(), &next).await;
        assert_eq!(result(&hub, &worker.key, &next, &success(&next)).await.status, 200);
        good.wait_for(1, crate::support::SOON).await;
        assert_eq!(trap.requests().len(), 0);
    }
}

/// The address for a job's result ends when its agent is disabled.
async fn a_disabled_agent_reports_no_result(setup: Setup) {
    let hub = setup.start();
    let (boss, worker) = (trader(&hub, "boss", 1).await, trader(&hub, "worker", 0).await);
    let mut inbox = hub.inbox(&worker.key, None).await;
    let asked = job(1, &worker.id);
    hire(&hub, &boss.key, &asked).await;
    let handed = inbox.event("job").await;
    let callback = handed["callback_url"].as_str().unwrap().strip_prefix(&hub.url).unwrap().to_owned();
    let path = format!("/api/v1/operator/agents/{}/disable", worker.id);
    assert_eq!(hub.post(&path, Some(crate::support::OPERATOR), &json!({})).await.status, 200);
    hub.post(&callback, None, &success(&asked)).await.own_failure(Code::Forbidden);
}

/// A thief who replaces the owner key that it was given keeps nothing either.
async fn a_replaced_owner_key_ends_with_the_stolen_key(setup: Setup) {
    let hub = setup.start();
    let stolen = hub.register("bob").await;
    let body = offer("https://thief.example/work", Some("thief"));
    let listed = hub.post("/market/register", Some(&stolen), &body).await.body;
    let given = listed["owner_key"].as_str().unwrap();
    let reset = hub.post("/market/wallets/thief/key/reset", Some(given), &json!({})).await;
    let replaced = reset.body["owner_key"].as_str().unwrap();
    let path = format!("/api/v1/agents/{}/key/reset", listed["agent_id"].as_str().unwrap());
    let reset = hub.post(&path, Some(crate::support::OPERATOR), &json!({"detach": true})).await;
    assert_eq!(reset.body["detached"]["owner_keys"], json!(["thief"]), "{}", reset.text);
    assert_eq!(hub.get("/market/wallets/thief", Some(replaced)).await.status, 401);
}

/// An agent that is claimed into an account spends that account's credits, not those of the wallet it came with.
async fn a_claimed_agent_does_not_spend_its_former_owners_credits(setup: Setup) {
    let fixture = ChannelFixture::on(&setup).await;
    let hub = &fixture.hub;
    let (boss, worker) = (trader(hub, "boss", 5).await, trader(hub, "worker", 0).await);
    let claimed = hub.post("/api/v1/agents/claim", Some(&fixture.anna), &json!({"api_key": boss.key})).await;
    assert_eq!(claimed.status, 200, "{}", claimed.text);
    let path = format!("/api/v1/agents/{}/allowance", boss.id);
    let set = hub.ask("PUT", &path, Some(&fixture.anna), &json!({"credits_per_day": 1000})).await;
    assert_eq!(set.status, 200, "{}", set.text);
    let refused = hub.post("/market/jobs", Some(&boss.key), &job(1, &worker.id)).await;
    assert!(refused.status >= 400, "{}", refused.text);
    let wallet = hub.get(&format!("/market/wallets/{}", boss.owner), Some(&boss.owner_key)).await.body;
    assert_eq!((&wallet["balance"], &wallet["held"]), (&json!(5.0), &json!(0.0)), "{wallet}");
}

/// An account's agent does not unregister itself, so a thief of its key cannot free its name for somebody else.
async fn a_thief_cannot_remove_an_accounts_agent(setup: Setup) {
    let fixture = ChannelFixture::on(&setup).await;
    let hub = &fixture.hub;
    let made = fixture.agent(&json!({"name": "timber"})).await;
    let (id, stolen) = (made["agent_id"].as_str().unwrap(), made["api_key"].as_str().unwrap());
    assert_eq!(
        hub.post("/market/register", Some(stolen), &offer("https://worker.example", None)).await.status,
        201
    );
    for path in ["/agents/timber".to_owned(), format!("/agents/{id}")] {
        hub.delete(&path, Some(stolen)).await.failure(Code::Forbidden);
    }
    hub.delete(&format!("/market/agents/{id}"), Some(stolen)).await.own_failure(Code::Forbidden);
    hub.post("/register", None, &json!({"agent_id": "timber"})).await.failure(Code::AgentIdTaken);
    let reset = hub.post(&format!("/api/v1/agents/{id}/key/reset"), Some(&fixture.anna), &json!({})).await;
    assert_eq!(reset.status, 200, "{}", reset.text);
    assert_eq!(hub.delete("/agents/timber", Some(&fixture.anna)).await.data()["removed"], true);
}

/// Resetting an owner's key with `detach` ends what a thief of the old key has set on agents that belong to no account.
#[tokio::test]
async fn a_thief_of_an_owner_key_keeps_nothing() {
    for setup in [Setup::new(), Setup::postgres()] {
        let (hub, trap) = (setup.start(), FakeAgent::start().await);
        let (victim, worker) = (trader(&hub, "victim", 10).await, trader(&hub, "worker", 0).await);
        let mut work = hub.inbox(&worker.key, None).await;
        let listed = offer(&format!("http://{}/work", trap.addr()), Some(&victim.owner));
        let made = hub.post("/market/register", Some(&victim.owner_key), &listed).await;
        assert_eq!(made.status, 201, "{}", made.text);
        let (planted, thief) =
            (made.body["agent_id"].as_str().unwrap(), made.body["api_key"].as_str().unwrap());
        let allowance = async |agent: &str, key: &str, credits: Value| {
            let path = format!("/api/v1/agents/{agent}/allowance");
            hub.ask("PUT", &path, Some(key), &json!({"credits_per_day": credits})).await
        };
        assert_eq!(allowance(&victim.id, &victim.owner_key, json!(1000)).await.status, 200);
        let mut asked = job(1, &worker.id);
        asked["callback_url"] = json!(format!("http://{}/trap", trap.addr()));
        hire(&hub, thief, &asked).await;
        work.event("job").await;

        let path = format!("/market/wallets/{}/key/reset", victim.owner);
        let reset = hub.post(&path, Some(&victim.owner_key), &json!({"detach": true})).await;
        assert_eq!(reset.status, 200, "{}", reset.text);
        let detached = &reset.body["detached"];
        let mut agents: Vec<_> = detached["agents"].as_array().unwrap().iter().collect();
        agents.sort_by_key(|agent| agent["address"].as_str());
        let addresses: Vec<_> = agents.iter().map(|agent| agent["address"].as_str().unwrap()).collect();
        assert_eq!(addresses, ["timber@chorus.example", "victim@chorus.example"], "{detached}");
        assert_eq!(detached["more"], json!(false));

        // Neither the planted agent nor the other spends or offers anything.
        for (n, key) in [(2, thief), (3, &*victim.key)] {
            hub.post("/market/jobs", Some(key), &job(n, &worker.id)).await.own_failure(Code::TransferFailed);
        }
        assert_eq!((offers(&hub, planted).await, offers(&hub, &victim.id).await), (0, 0));
        let key = reset.body["owner_key"].as_str().unwrap();
        // Results of the planted agent's jobs are POSTed nowhere.
        assert_eq!(result(&hub, &worker.key, &asked, &success(&asked)).await.status, 200);
        assert_eq!(allowance(&victim.id, &victim.owner_key, json!(1)).await.status, 401);
        assert_eq!(allowance(&victim.id, key, json!(1)).await.status, 200);
        let (mut next, good) = (job(4, &worker.id), FakeAgent::start().await);
        next["callback_url"] = json!(format!("http://{}/good", good.addr()));
        hire(&hub, &victim.key, &next).await;
        assert_eq!(result(&hub, &worker.key, &next, &success(&next)).await.status, 200);
        good.wait_for(1, crate::support::SOON).await;
        assert_eq!(trap.requests().len(), 0);

        // Detached agents are listed once.
        let again = hub.post(&path, Some(key), &json!({"detach": true})).await;
        let again = again.body["detached"]["agents"].as_array().unwrap().len();
        assert_eq!(again, 1, "the one that may spend again");
        assert_eq!(
            hub.post(&path, Some(crate::support::OPERATOR), &json!({})).await.body.get("detached"),
            None
        );
    }
}

/// Ending an account's tokens ends the rights that a thief of one gave to agents, and lists what stays.
#[tokio::test]
async fn a_stolen_token_leaves_no_credits_to_spend() {
    for setup in [Setup::new(), Setup::postgres()] {
        let clock = ManualClock::new(BEGIN);
        let hub = setup.clock(&clock).start();
        let (anna, worker) = (hub.account("anna@example.org").await, trader(&hub, "worker", 0).await);
        let minted = json!({"owner": "anna@example.org", "amount": 100});
        assert_eq!(hub.post("/market/mint", Some(crate::support::OPERATOR), &minted).await.status, 200);
        let make = async |name: &str, key: &str| {
            let made = hub.post("/api/v1/agents", Some(key), &json!({"name": name})).await;
            assert_eq!(made.status, 201, "{}", made.text);
            made.body["api_key"].as_str().unwrap().to_owned()
        };
        make("timber", &anna).await;
        clock.advance(60_000);
        let stolen = token(&hub, &anna).await.1;
        let planted = make("planted", &stolen).await;
        let allowed = json!({"credits_per_day": 1000});
        let path = "/api/v1/agents/planted/allowance";
        assert_eq!(hub.ask("PUT", path, Some(&stolen), &allowed).await.status, 200);
        let reset = hub.post("/api/v1/agents/timber/key/reset", Some(&stolen), &json!({})).await;
        assert_eq!(reset.status, 200, "{}", reset.text);
        let shown = hub.get("/market/wallets/anna@example.org", Some(&anna)).await.body;
        let wallet = &format!("/market/wallets/{}", shown["owner"].as_str().unwrap());
        let reset = hub.post(&format!("{wallet}/key/reset"), Some(&stolen), &json!({})).await;
        let owner_key = reset.body["owner_key"].as_str().unwrap_or_else(|| panic!("{}", reset.text));
        assert_eq!(hub.get(wallet, Some(owner_key)).await.status, 200);
        assert_eq!(hub.post("/market/jobs", Some(&planted), &job(1, &worker.id)).await.status, 202);

        let ended = hub.delete("/api/v1/me/sessions?tokens=true", Some(&anna)).await;
        assert_eq!((ended.status, &ended.body["tokens"]), (200, &json!(1)), "{}", ended.text);
        let review = &ended.body["review"];
        assert_eq!(review["allowances"], json!(1), "{review}");
        assert_eq!(review["owner_keys"], json!([shown["owner"]]), "{review}");
        let acts = review["acts"].as_array().unwrap().iter().map(|act| act["action"].as_str().unwrap());
        let acts: std::collections::BTreeSet<_> = acts.collect();
        let left = ["agent.registered", "allowance.set", "key.reset", "owner_key.reset"];
        assert_eq!(acts, left.into(), "{review}");
        assert_eq!(review["acts"].as_array().unwrap().len(), left.len(), "none from before the token");
        hub.post("/market/jobs", Some(&planted), &job(2, &worker.id)).await.own_failure(Code::TransferFailed);
        hub.get(wallet, Some(owner_key)).await.own_failure(Code::Unauthorized);
        // The account still owns the wallet, and there is nothing left to end.
        assert_eq!(hub.get(wallet, Some(&anna)).await.status, 200);
        let again = hub.delete("/api/v1/me/sessions?tokens=true", Some(&anna)).await;
        assert_eq!(again.body, json!({"ended": 0, "tokens": 0}));
    }
}
