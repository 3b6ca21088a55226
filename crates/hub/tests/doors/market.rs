//! The market by its document: every example with placeholders filled in, the order of discovery, and
//! ownership.

use crate::market_offers::words_indexed;
use crate::support::{Answer, OPERATOR, Setup, TestHub, eventually};
use chorus_protocol::code::Code;
use chorus_testkit::clock::ManualClock;
use serde_json::{Value, json};

pub(crate) const BEGIN: i64 = 1_800_000_000_000;

/// An agent on the market, with its keys.
pub(crate) struct Trader {
    pub(crate) id: String,
    pub(crate) key: String,
    pub(crate) owner: String,
    pub(crate) owner_key: String,
}

/// Returns the document's registration for this agent and owner, at this price.
pub(crate) fn registration(name: &str, owner: &str, cost: &str) -> Value {
    let cost: Value = serde_json::from_str(cost).unwrap();
    json!({
        "agent_name": name, "owner_id": owner,
        "skills": [{
            "skill_name": "analyze_text", "description": "Extracts structured data from unstructured text",
            "cost_per_call": cost, "input_schema": {"text": "string"}, "output_schema": {"entities": "list"}
        }],
        "version": "0.1", "timestamp_utc": "2026-02-11T14:15:09Z"
    })
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned()
}

/// Registers an agent with its own owner, who gets this many credits.
pub(crate) async fn trader(hub: &TestHub, name: &str, credits: i64) -> Trader {
    trader_at(hub, name, credits, None).await
}

/// Registers a trader with an endpoint for jobs.
pub(crate) async fn trader_at(hub: &TestHub, name: &str, credits: i64, endpoint: Option<&str>) -> Trader {
    let owner = format!("owner of {name}");
    let mut body = registration(name, &owner, "0.10");
    body["api_endpoint"] = json!(endpoint);
    let answer = hub.post("/market/register", None, &body).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    if credits > 0 {
        let minted =
            hub.post("/market/mint", Some(OPERATOR), &json!({"owner": owner, "amount": credits})).await;
        assert_eq!(minted.status, 200, "{}", minted.text);
    }
    Trader {
        id: text(&answer.body["agent_id"]),
        key: text(&answer.body["api_key"]),
        owner_key: text(&answer.body["owner_key"]),
        owner,
    }
}

pub(crate) async fn balance(hub: &TestHub, owner: &str) -> (Value, Value) {
    let wallet = hub.get(&format!("/market/wallets/{}", owner.replace(' ', "%20")), Some(OPERATOR)).await;
    assert_eq!(wallet.status, 200, "{}", wallet.text);
    (wallet.body["balance"].clone(), wallet.body["held"].clone())
}

pub(crate) async fn assert_balanced(hub: &TestHub) {
    let economy = hub.get("/market/economy", None).await.body;
    assert_eq!(economy["balanced"], true, "{economy}");
}

pub(crate) async fn refused(
    hub: &TestHub,
    path: &str,
    key: Option<&str>,
    body: &Value,
    code: Code,
) -> String {
    let answer = hub.post(path, key, body).await;
    answer.own_failure(code).to_owned()
}

/// A client written from the document alone registers, discovers and pays.
#[tokio::test]
async fn the_documents_examples() {
    let hub = TestHub::start();
    let body = json!({
        "agent_id": "a3b8d1b6-0b3b-4b1a-9c1a-1a2b3c4d5e6f",
        "agent_name": "Text-Analyst-3000",
        "owner_id": "agent_owner_id",
        "api_endpoint": "https://agent.example:8443/jobs",
        "skills": [{
            "skill_name": "analyze_text",
            "description": "Extracts structured data from unstructured text",
            "cost_per_call": 0.10,
            "input_schema": {"text": "string"},
            "output_schema": {"entities": "list"}
        }],
        "version": "0.1",
        "timestamp_utc": "2026-02-11T14:15:09Z"
    });
    let answer = hub.post("/market/register", None, &body).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    assert_eq!(answer.body["status"], "registered");
    assert_eq!(answer.body["agent_id"], body["agent_id"]);
    assert_eq!(answer.body["reputation_score"], 50.0);
    assert!(answer.text.contains("\"reputation_score\":50.0"), "{}", answer.text);
    assert_eq!(answer.body["address"], "Text-Analyst-3000@chorus.example");
    assert!(
        text(&answer.body["api_key"]).starts_with("ca_")
            && text(&answer.body["owner_key"]).starts_with("cw_")
    );

    let found = hub.get("/market/discover?skill=analyze_text&min_reputation=50&max_cost=0.10", None).await;
    assert_eq!(found.status, 200);
    let agent = &found.body["agents"][0];
    assert_eq!(agent["agent_id"], body["agent_id"]);
    assert_eq!(agent["agent_name"], "Text-Analyst-3000");
    assert_eq!(agent["api_endpoint"], "https://agent.example:8443/jobs");
    assert_eq!(agent["skill"]["skill_name"], "analyze_text");
    assert_eq!(agent["skill"]["cost_per_call"], 0.10);
    assert_eq!((&agent["reputation_score"], &agent["status"]), (&json!(50.0), &json!("online")));
    assert_eq!((&found.body["total"], &found.body["next"]), (&json!(1), &json!(null)));

    // After a direct job, the payment follows the document.
    let payer = trader(&hub, "orchestrator", 1).await;
    let transfer = json!({
        "transfer_id": "f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
        "from_owner": payer.owner, "to_owner": "agent_owner_id", "amount": 0.10,
        "job_id": "0b0e7f6e-3c52-4c1e-8a64-0d2b7f0a1b2c", "timestamp_utc": "2026-02-11T14:15:09Z"
    });
    for _ in 0..3 {
        let paid = hub.post("/market/transfer", Some(&payer.owner_key), &transfer).await;
        assert_eq!((paid.status, &paid.body["status"]), (200, &json!("SUCCESS")), "{}", paid.text);
    }
    assert_eq!(balance(&hub, &payer.owner).await, (json!(0.9), json!(0.0)));
    assert_eq!(balance(&hub, "agent_owner_id").await, (json!(0.1), json!(0.0)));
    let mut other = transfer.clone();
    other["amount"] = json!(0.2);
    refused(&hub, "/market/transfer", Some(&payer.owner_key), &other, Code::Conflict).await;
    assert_balanced(&hub).await;
}

#[tokio::test]
async fn an_owner_is_claimed_by_its_first_use() {
    let hub = TestHub::start();
    let one = trader(&hub, "one", 0).await;
    let again = registration("two", &one.owner, "0.20");
    refused(&hub, "/market/register", None, &again, Code::Unauthorized).await;
    let other = trader(&hub, "other", 0).await;
    for key in [&other.key, &other.owner_key, OPERATOR] {
        refused(&hub, "/market/register", Some(key), &again, Code::Forbidden).await;
    }
    let person = hub.account("person@example.org").await;
    refused(&hub, "/market/register", Some(&person), &again, Code::Forbidden).await;
    let second = hub.post("/market/register", Some(&one.owner_key), &again).await;
    assert_eq!(second.status, 201, "{}", second.text);
    assert!(second.body["api_key"].is_string() && second.body.get("owner_key").is_none());
    // Reserved names belong to their accounts, whether or not they exist.
    for reserved in ["person@example.org", "nobody@example.org", "acc_00000000000000000000000000000000"] {
        refused(&hub, "/market/register", None, &registration("x", reserved, "1"), Code::Unauthorized).await;
        refused(
            &hub,
            "/market/register",
            Some(&one.key),
            &registration("one", reserved, "1"),
            Code::Forbidden,
        )
        .await;
    }
    let own =
        hub.post("/market/register", Some(&person), &registration("mine", "person@example.org", "1")).await;
    assert_eq!(own.status, 201, "{}", own.text);
    assert!(text(&own.body["owner_id"]).starts_with("acc_") && own.body.get("owner_key").is_none());
    // The agent belongs to the person at every other door, and needs no `owner_id` any more.
    let agents = hub.get("/api/v1/agents?mine=true", Some(&person)).await.body;
    assert_eq!(agents["items"][0]["agent_id"], own.body["agent_id"]);
    let mut bare = registration("mine", "", "2");
    bare.as_object_mut().unwrap().remove("owner_id");
    let key = text(&own.body["api_key"]);
    let updated = hub.post("/market/register", Some(&key), &bare).await;
    assert_eq!((updated.status, &updated.body["owner_id"]), (200, &own.body["owner_id"]), "{}", updated.text);
    refused(&hub, "/market/register", None, &bare, Code::Validation).await;
}

/// A name that resembles another, or has a meaning in a path, cannot be taken.
#[tokio::test]
async fn odd_names_are_not_claimed() {
    let hub = TestHub::start();
    for odd in ["acme\u{200b}", "\u{202e}emca", "..", ".", "a/b", "a\\b", "acme\u{a0}", "\u{feff}acme"] {
        let why =
            refused(&hub, "/market/register", None, &registration("x", odd, "1"), Code::Validation).await;
        assert!(why.contains("owner_id"), "{odd:?}: {why}");
    }
    for plain in ["acme", "Acme & Söhne", "東京", "..acme"] {
        let taken = hub.post("/market/register", None, &registration("x", plain, "1")).await;
        assert_eq!(taken.status, 201, "{}", taken.text);
    }
}

/// RFC 9562: UUIDs are read in either case and written in lower case.
#[tokio::test]
async fn ids_are_read_in_either_case() {
    let hub = TestHub::start();
    let upper = "A3B8D1B6-0B3B-4B1A-9C1A-1A2B3C4D5E6F";
    let lower = upper.to_lowercase();
    let mut body = registration("one", "owner of one", "0.10");
    body["agent_id"] = json!(upper);
    let made = hub.post("/market/register", None, &body).await;
    assert_eq!((made.status, &made.body["agent_id"]), (201, &json!(lower)), "{}", made.text);
    let (key, owner_key) = (text(&made.body["api_key"]), text(&made.body["owner_key"]));
    let beat = hub.post("/market/heartbeat", Some(&key), &json!({"agent_id": upper})).await;
    assert_eq!(beat.status, 204, "{}", beat.text);
    hub.post("/market/mint", Some(OPERATOR), &json!({"owner": "owner of one", "amount": 5})).await;
    let other = trader(&hub, "other", 0).await;
    for (id, job) in [(upper, upper), (&*lower, &*lower)] {
        let transfer = json!({"transfer_id": id, "from_owner": "owner of one", "to_owner": other.owner,
            "amount": 1, "job_id": job});
        let moved = hub.post("/market/transfer", Some(&owner_key), &transfer).await;
        assert_eq!((moved.status, &moved.body["transfer_id"]), (200, &json!(lower)), "{}", moved.text);
    }
    assert_eq!(balance(&hub, "owner of one").await.0, json!(4.0), "it is the same transfer");
    let mut ids = vec![];
    let upper = upper.replace('A', "B");
    let lower = upper.to_lowercase();
    for id in [&upper, &lower] {
        let job = json!({"job_id": id, "agent_id": other.id.to_uppercase(), "skill_name": "analyze_text",
            "input_data": {"text": "x"}, "budget": 1, "currency": "chorus_credits_v1"});
        let hired = hub.post("/market/jobs", Some(&owner_key), &job).await;
        assert!(hired.status < 300, "{}", hired.text);
        ids.push(hired.body["job_id"].clone());
    }
    assert_eq!(ids, [lower.as_str(), lower.as_str()]);
}

#[tokio::test]
async fn registering_again_needs_a_key_and_keeps_what_was_earned() {
    let hub = TestHub::start();
    let one = trader(&hub, "one", 0).await;
    let other = trader(&hub, "other", 0).await;
    let mut body = registration("one", &one.owner, "0.30");
    body["agent_id"] = json!(one.id);
    refused(&hub, "/market/register", None, &body, Code::Unauthorized).await;
    refused(&hub, "/market/register", Some(&other.key), &body, Code::Forbidden).await;
    refused(&hub, "/market/register", Some(&other.owner_key), &body, Code::Forbidden).await;
    for key in [&one.key, &one.owner_key] {
        let answer = hub.post("/market/register", Some(key), &body).await;
        assert_eq!((answer.status, &answer.body["status"]), (200, &json!("updated")), "{}", answer.text);
        assert!(answer.body.get("api_key").is_none());
    }
    let shown = hub.get(&format!("/market/agents/{}", one.id), None).await.body;
    assert_eq!(shown["skills"][0]["cost_per_call"], 0.3);
    assert_eq!(shown["owner_id"], json!(one.owner));
    // A relay agent registers with its own key, as the same agent.
    let relay = hub.register("relay").await;
    let id = text(&hub.get("/agents/relay", None).await.data()["id"]);
    let joined =
        hub.post("/market/register", Some(&relay), &registration("Relay", "relay's owner", "1")).await;
    assert_eq!((joined.status, text(&joined.body["agent_id"])), (201, id), "{}", joined.text);
    assert!(joined.body.get("api_key").is_none() && joined.body["owner_key"].is_string());
    // Another's agent and a missing one get the same response, and nothing is removed.
    let other = trader(&hub, "somebody", 0).await;
    for id in [&one.id, "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"] {
        let told = hub.delete(&format!("/market/agents/{id}"), Some(&other.key)).await;
        assert_eq!((told.status, &told.body), (200, &json!({"agent_id": id, "removed": false})));
    }
    let gone = hub.delete(&format!("/market/agents/{}", one.id), Some(&one.key)).await;
    assert_eq!((gone.status, &gone.body), (200, &json!({"agent_id": one.id, "removed": true})));
    // The id of a deleted agent stays taken; ids that are, or could be, another object's are refused.
    refused(&hub, "/market/register", Some(&one.owner_key), &body, Code::Conflict).await;
    body["agent_id"] = json!("00000000-0000-0000-0000-000000000000");
    refused(&hub, "/market/register", Some(&one.owner_key), &body, Code::Validation).await;
    body["agent_id"] = json!("a3b8d1b6-0b3b-8b1a-9c1a-1a2b3c4d5e6f");
    refused(&hub, "/market/register", Some(&one.owner_key), &body, Code::Validation).await;
}

#[tokio::test]
async fn what_is_wrong_with_a_registration() {
    let hub = TestHub::start();
    let mut body = registration("one", "o", "0.10");
    body["skills"] = json!([
        {"skill_name": "a", "cost_per_call": 1, "input_schema": {"x": "float"}},
        {"skill_name": "a", "cost_per_call": 1, "output_schema": {"type": "object", "oneOf": []}}
    ]);
    let faults = refused(&hub, "/market/register", None, &body, Code::Validation).await;
    for expected in [
        "skills[0].input_schema.x: must be string, number",
        "skills[1].skill_name: is there twice",
        "skills[1].output_schema.oneOf: is a keyword that this hub does not check",
    ] {
        assert!(faults.contains(expected), "{expected}: {faults}");
    }
    for cost in ["0.001", "-1", "\"1\"", "1e2", "0.100", "99999999999999999999"] {
        let raw = registration("one", "o", "0.10")
            .to_string()
            .replace("\"cost_per_call\":0.1", &format!("\"cost_per_call\":{cost}"));
        let request = hub.request(reqwest::Method::POST, "/market/register", None).body(raw);
        Answer::of(request).await.own_failure(Code::Validation);
    }
    body = registration("one", "o", "0.10");
    body["api_endpoint"] = json!("http://10.0.0.1/jobs");
    refused(&hub, "/market/register", None, &body, Code::EndpointBlocked).await;
    assert_eq!(hub.get("/market/discover?include_offline=true", None).await.body["total"], 0);
}

#[tokio::test]
async fn discovery_filters_ranks_and_pages() {
    let clock = ManualClock::new(BEGIN);
    let hub = Setup::new().clock(&clock).start();
    let mut all = vec![];
    for n in 0..5 {
        let mut body = registration(&format!("agent {n}"), &format!("o{n}"), &format!("0.{}", 5 - n));
        body["skills"][0]["description"] =
            json!(format!("Knows the {} by heart", if n % 2 == 0 { "Odyssey" } else { "Iliad" }));
        let answer = hub.post("/market/register", None, &body).await;
        all.push((text(&answer.body["agent_id"]), text(&answer.body["api_key"])));
    }
    let names = async |query: &str| {
        let found = hub.get(&format!("/market/discover?{query}"), None).await;
        assert_eq!(found.status, 200, "{}", found.text);
        let agents = found.body["agents"].as_array().unwrap().clone();
        agents.iter().map(|agent| text(&agent["agent_name"])).collect::<Vec<_>>()
    };
    // With equal reputation the cheapest comes first.
    let ranked = ["agent 4", "agent 3", "agent 2", "agent 1", "agent 0"];
    assert_eq!(names("skill=analyze_text").await, ranked);
    assert_eq!(names("").await, ranked);
    assert_eq!(names("skill=analyze_text&max_cost=0.2").await, ranked[..2]);
    assert_eq!(names("skill=nothing").await, Vec::<String>::new());
    assert_eq!(names("min_reputation=50.0001").await, Vec::<String>::new());
    words_indexed(&hub).await;
    assert_eq!(names("q=ODYSSEY").await, ["agent 4", "agent 2", "agent 0"]);
    assert_eq!(names("q=iliad+heart&skill=analyze_text").await, ["agent 3", "agent 1"]);
    assert_eq!(names("q=agent+odyssey+1").await, Vec::<String>::new());
    let (mut paged, mut after) = (vec![], String::new());
    loop {
        let page = hub.get(&format!("/market/discover?limit=2{after}"), None).await.body;
        assert_eq!(page["total"], 5);
        paged.extend(page["agents"].as_array().unwrap().iter().map(|agent| text(&agent["agent_name"])));
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    assert_eq!(paged, ranked);
    for wrong in
        ["min_reputation=101", "min_reputation=x", "max_cost=0.001", "after=x", "limit=0", "limit=201"]
    {
        hub.get(&format!("/market/discover?{wrong}"), None).await.own_failure(Code::Validation);
    }
    let skills = hub.get("/market/skills", None).await.body;
    assert_eq!(skills["items"], json!([{"skill_name": "analyze_text", "agents": 5, "lowest_cost": 0.1}]));

    // After the presence time only agents with a newer heartbeat remain.
    clock.advance(91_000);
    assert_eq!(names("").await, Vec::<String>::new());
    let offline = hub.get("/market/discover?include_offline=true", None).await.body;
    assert_eq!((&offline["total"], &offline["agents"][0]["status"]), (&json!(5), &json!("offline")));
    assert!(offline["agents"][0]["last_seen"].is_string());
    let (id, key) = &all[2];
    let (_, other) = &all[3];
    let alive = json!({"agent_id": id});
    hub.post("/market/heartbeat", Some(other), &alive).await.own_failure(Code::Forbidden);
    hub.post("/market/heartbeat", None, &alive).await.own_failure(Code::Unauthorized);
    let nobody = json!({"agent_id": "a3b8d1b6-0b3b-4b1a-9c1a-1a2b3c4d5e6f"});
    hub.post("/market/heartbeat", Some(key), &nobody).await.own_failure(Code::NotFound);
    assert_eq!(hub.post("/market/heartbeat", Some(key), &alive).await.status, 204);
    assert!(names("").await.contains(&"agent 2".to_owned()));
    // Heartbeats of a present agent are written in batches.
    clock.advance(60_000);
    assert_eq!(hub.post("/market/heartbeat", Some(key), &alive).await.status, 204);
    clock.advance(60_000);
    eventually(async || names("").await, |found| found.contains(&"agent 2".to_owned())).await;
}

#[tokio::test]
async fn an_open_inbox_is_online() {
    let clock = ManualClock::new(BEGIN);
    let hub = Setup::new().clock(&clock).start();
    let one = trader(&hub, "one", 0).await;
    let inbox = hub.inbox(&one.key, None).await;
    clock.advance(89_000);
    let online = async || hub.get("/market/discover", None).await.body["total"].clone();
    assert_eq!(online().await, 1);
    drop(inbox);
}
