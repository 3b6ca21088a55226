//! One table: every route, every kind of caller, the status. A route that is documented and not here fails the test.

use crate::choir;
use crate::support::{Answer, Inbox, OPERATOR, TestHub, envelope};
use chorus_hub::MasterKey;
use chorus_protocol::ids::{AgentId, JobId};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tokio::task::JoinHandle;

/// The callers, in the order of the columns.
const CALLERS: [&str; 7] = [
    "nobody",
    "a bad key",
    "the agent itself",
    "another agent",
    "its owner",
    "another person",
    "the operator",
];

/// What each caller gets when all but its key is in order. The agent belongs to the owner, who also owns the channel it is
/// in and made what is there; the message in it is the agent's.
const TABLE: &[(&str, &str, [u16; 7])] = &[
    // Registering a new name, so a key changes nothing.
    ("post", "/register", [201, 201, 201, 201, 201, 201, 201]),
    ("post", "/agents", [401, 401, 403, 403, 403, 403, 201]),
    ("get", "/agents", [200, 401, 200, 200, 200, 200, 200]),
    ("get", "/agents/{id}", [200, 401, 200, 200, 200, 200, 200]),
    ("delete", "/agents/{id}", [401, 401, 200, 403, 200, 403, 200]),
    // As the agent itself.
    ("post", "/messages", [401, 401, 202, 403, 403, 403, 202]),
    // Each agent's own.
    ("get", "/agent/inbox", [401, 401, 200, 200, 403, 403, 403]),
    ("get", "/agent/messages", [401, 401, 200, 200, 403, 403, 403]),
    ("post", "/agent/session", [401, 401, 200, 200, 403, 403, 403]),
    // The operator names the sender.
    ("get", "/agent/sent", [401, 401, 200, 200, 403, 403, 200]),
    ("get", "/agent/sent/{trace_id}", [401, 401, 200, 404, 403, 403, 200]),
    // The address is the credential.
    ("post", "/agent/replies/{token}", [200, 200, 200, 200, 200, 200, 200]),
    ("post", "/inbox/{sk}", [200, 200, 200, 200, 200, 200, 200]),
    ("post", "/channels/{id}/inbox/{token}", [200, 200, 200, 200, 200, 200, 200]),
    // The same for everybody.
    ("get", "/.well-known/chorus.json", [200, 200, 200, 200, 200, 200, 200]),
    ("get", "/skill", [200, 200, 200, 200, 200, 200, 200]),
    ("get", "/llms.txt", [200, 200, 200, 200, 200, 200, 200]),
    ("get", "/health", [200, 200, 200, 200, 200, 200, 200]),
    // As a WebSocket, and as a call.
    ("get", "/c2a", [401, 401, 101, 101, 403, 403, 403]),
    ("post", "/c2a", [401, 401, 200, 200, 403, 403, 403]),
    // Figures are the operator's.
    ("get", "/metrics", [200, 401, 200, 200, 200, 200, 200]),
    ("post", "/api/v1/accounts", [401, 401, 403, 403, 403, 403, 201]),
    ("post", "/api/v1/invitations", [401, 401, 403, 403, 201, 201, 201]),
    ("get", "/api/v1/invitations", [401, 401, 403, 403, 200, 200, 200]),
    ("delete", "/api/v1/invitations/{id}", [401, 401, 403, 403, 204, 204, 204]),
    ("get", "/api/v1/me", [401, 401, 200, 200, 200, 200, 200]),
    ("patch", "/api/v1/me", [401, 401, 403, 403, 200, 200, 403]),
    // With the address of the owner.
    ("delete", "/api/v1/me", [401, 401, 403, 403, 204, 400, 403]),
    ("get", "/api/v1/unread", [401, 401, 403, 403, 200, 200, 403]),
    ("post", "/api/v1/channels/{id}/read", [401, 401, 403, 403, 200, 404, 403]),
    ("post", "/api/v1/channels/{id}/restore", [401, 401, 403, 404, 200, 404, 403]),
    ("patch", "/api/v1/channels/{id}/members/{handle}", [401, 401, 403, 404, 200, 404, 403]),
    ("patch", "/api/v1/agents/{id}", [401, 401, 200, 403, 200, 403, 200]),
    ("get", "/api/v1/me/blocks", [401, 401, 200, 200, 200, 200, 403]),
    ("post", "/api/v1/me/blocks", [401, 401, 201, 201, 201, 201, 403]),
    // One that never was is gone.
    ("delete", "/api/v1/me/blocks/{id}", [401, 401, 204, 204, 204, 204, 403]),
    ("get", "/api/v1/me/invitations", [401, 401, 403, 403, 200, 200, 403]),
    // Of the other person.
    ("post", "/api/v1/me/invitations/{id}/accept", [401, 401, 403, 403, 404, 200, 403]),
    ("post", "/api/v1/me/invitations/{id}/block", [401, 401, 403, 403, 404, 204, 403]),
    ("post", "/api/v1/me/invitations/{id}/decline", [401, 401, 403, 403, 404, 204, 403]),
    ("post", "/api/v1/signin", [202, 202, 202, 202, 202, 202, 202]),
    ("post", "/api/v1/signout", [204, 401, 204, 204, 204, 204, 204]),
    ("get", "/api/v1/tokens", [401, 401, 403, 403, 200, 200, 403]),
    ("post", "/api/v1/tokens", [401, 401, 403, 403, 201, 201, 403]),
    ("delete", "/api/v1/tokens/{id}", [401, 401, 403, 403, 204, 204, 403]),
    ("get", "/api/v1/agents", [401, 401, 200, 200, 200, 200, 200]),
    ("post", "/api/v1/agents", [401, 401, 403, 403, 201, 201, 403]),
    ("post", "/api/v1/agents/claim", [401, 401, 403, 403, 200, 200, 403]),
    ("get", "/api/v1/agents/{id}", [401, 401, 200, 200, 200, 200, 200]),
    ("delete", "/api/v1/agents/{id}/connection", [401, 401, 200, 403, 200, 403, 200]),
    ("put", "/api/v1/agents/{id}/connection", [401, 401, 200, 403, 200, 403, 200]),
    ("post", "/api/v1/agents/{id}/connection-string/rotate", [401, 401, 200, 403, 200, 403, 200]),
    ("post", "/api/v1/agents/{id}/connection/mend", [401, 401, 200, 403, 200, 403, 200]),
    ("delete", "/api/v1/agents/{id}/harness", [401, 401, 200, 403, 200, 403, 200]),
    // Nobody answers there: who may set it learns that.
    ("put", "/api/v1/agents/{id}/harness", [401, 401, 502, 403, 502, 403, 502]),
    ("post", "/api/v1/agents/{id}/key/reset", [401, 401, 403, 403, 200, 403, 200]),
    ("post", "/api/v1/agents/{id}/webhook-secret/rotate", [401, 401, 200, 403, 200, 403, 200]),
    ("delete", "/api/v1/me/sessions", [401, 401, 403, 403, 200, 200, 403]),
    ("get", "/api/v1/audit", [401, 401, 403, 403, 403, 403, 200]),
    ("post", "/api/v1/operator/accounts/{id}/disable", [401, 401, 403, 403, 403, 403, 200]),
    ("post", "/api/v1/operator/accounts/{id}/enable", [401, 401, 403, 403, 403, 403, 200]),
    ("delete", "/api/v1/operator/accounts/{id}/sessions", [401, 401, 403, 403, 403, 403, 200]),
    ("post", "/api/v1/operator/agents/{id}/disable", [401, 401, 403, 403, 403, 403, 200]),
    ("post", "/api/v1/operator/agents/{id}/enable", [401, 401, 403, 403, 403, 403, 200]),
    ("get", "/api/v1/channels", [401, 401, 200, 200, 200, 200, 403]),
    ("post", "/api/v1/channels", [401, 401, 201, 201, 201, 201, 403]),
    ("delete", "/api/v1/channels/{id}", [401, 401, 403, 404, 204, 404, 403]),
    ("get", "/api/v1/channels/{id}", [401, 401, 200, 404, 200, 404, 403]),
    ("patch", "/api/v1/channels/{id}", [401, 401, 403, 404, 200, 404, 403]),
    ("get", "/api/v1/channels/{id}/artifacts", [401, 401, 200, 404, 200, 404, 403]),
    ("post", "/api/v1/channels/{id}/artifacts", [401, 401, 201, 404, 201, 404, 403]),
    ("get", "/api/v1/channels/{id}/artifacts/{slug}", [401, 401, 200, 404, 200, 404, 403]),
    ("get", "/api/v1/channels/{id}/artifacts/{slug}/raw", [401, 401, 200, 404, 200, 404, 403]),
    ("put", "/api/v1/channels/{id}/artifacts/{slug}", [401, 401, 200, 404, 200, 404, 403]),
    ("get", "/api/v1/channels/{id}/events", [401, 401, 200, 404, 200, 404, 403]),
    ("get", "/api/v1/channels/{id}/members", [401, 401, 200, 404, 200, 404, 403]),
    ("post", "/api/v1/channels/{id}/members", [401, 401, 403, 404, 201, 404, 201]),
    ("delete", "/api/v1/channels/{id}/members/{handle}", [401, 401, 204, 404, 204, 404, 403]),
    ("post", "/api/v1/channels/{id}/messages", [401, 401, 201, 404, 201, 404, 403]),
    ("delete", "/api/v1/channels/{id}/messages/{event_id}", [401, 401, 204, 404, 204, 404, 403]),
    ("patch", "/api/v1/channels/{id}/messages/{event_id}", [401, 401, 200, 404, 403, 404, 403]),
    ("post", "/api/v1/channels/{id}/messages/{event_id}/reactions", [401, 401, 201, 404, 201, 404, 403]),
    // The agent wants to say it: its owner, who is there, decides.
    ("get", "/api/v1/approvals", [401, 401, 200, 200, 200, 200, 403]),
    ("get", "/api/v1/approvals/{id}", [401, 401, 200, 404, 200, 404, 403]),
    ("delete", "/api/v1/approvals/{id}", [401, 401, 204, 404, 403, 404, 403]),
    ("post", "/api/v1/approvals/{id}/agree", [401, 401, 403, 403, 200, 404, 403]),
    ("post", "/api/v1/approvals/{id}/decline", [401, 401, 403, 403, 200, 404, 403]),
    ("get", "/api/v1/channels/{id}/stream", [401, 401, 200, 404, 200, 404, 403]),
    ("post", "/api/v1/channels/{id}/typing", [401, 401, 204, 404, 204, 404, 403]),
    ("get", "/api/v1/deliveries", [401, 401, 200, 200, 200, 200, 200]),
    ("post", "/api/v1/deliveries/replay", [401, 401, 202, 202, 202, 202, 202]),
    ("get", "/api/v1/deliveries/{id}/attempts", [401, 401, 200, 404, 200, 404, 200]),
    ("post", "/api/v1/deliveries/{id}/replay", [401, 401, 409, 404, 409, 404, 409]),
    ("post", "/api/v1/dms", [401, 401, 201, 201, 201, 201, 403]),
    ("get", "/api/v1/events/{event_id}", [401, 401, 200, 404, 200, 404, 403]),
    ("get", "/api/v1/fleet", [401, 401, 200, 200, 200, 200, 200]),
    ("get", "/api/v1/fleet/stream", [401, 401, 200, 200, 200, 200, 200]),
    ("get", "/api/v1/operator/overview", [401, 401, 403, 403, 403, 403, 200]),
    // The agent takes part in a stream of the owner's.
    ("get", "/api/v1/streams", [401, 401, 200, 200, 200, 200, 403]),
    ("post", "/api/v1/streams", [401, 401, 403, 404, 201, 404, 403]),
    ("get", "/api/v1/streams/{id}", [401, 401, 200, 404, 200, 404, 403]),
    ("patch", "/api/v1/streams/{id}", [401, 401, 403, 404, 200, 404, 403]),
    ("put", "/api/v1/streams/{id}", [401, 401, 403, 404, 200, 404, 403]),
    ("delete", "/api/v1/streams/{id}", [401, 401, 403, 404, 200, 404, 403]),
    ("post", "/api/v1/streams/{id}/join", [401, 401, 200, 404, 200, 404, 403]),
    ("post", "/api/v1/streams/{id}/leave", [401, 401, 200, 404, 200, 404, 403]),
    ("get", "/api/v1/search", [401, 401, 200, 200, 200, 200, 403]),
    // The owner's Score; nobody else's concern.
    ("get", "/api/v1/scores", [401, 401, 403, 403, 200, 200, 403]),
    ("post", "/api/v1/scores", [401, 401, 403, 403, 201, 201, 403]),
    ("delete", "/api/v1/scores/{id}", [401, 401, 403, 403, 204, 404, 403]),
    ("get", "/api/v1/scores/{id}", [401, 401, 403, 403, 200, 404, 403]),
    ("put", "/api/v1/scores/{id}", [401, 401, 403, 403, 200, 404, 403]),
    // It is claimed already.
    ("post", "/api/v1/scores/{id}/claim", [401, 401, 403, 403, 404, 404, 403]),
    ("get", "/api/v1/scores/{id}/evidence", [401, 401, 403, 403, 200, 404, 403]),
    ("post", "/api/v1/scores/{id}/evidence", [401, 401, 403, 403, 201, 404, 403]),
    ("get", "/api/v1/scores/{id}/receipts", [401, 401, 403, 403, 200, 404, 403]),
    ("post", "/api/v1/scores/{id}/receipts", [401, 401, 403, 403, 201, 404, 403]),
    ("post", "/api/v1/scores/{id}/rehearse", [401, 401, 403, 403, 200, 404, 403]),
    ("post", "/api/v1/scores/{id}/signing-secrets", [401, 401, 403, 403, 201, 404, 403]),
    ("delete", "/api/v1/scores/{id}/signing-secrets/{prefix}", [401, 401, 403, 403, 204, 404, 403]),
    ("post", "/api/v1/adapt/{format}", [401, 401, 200, 200, 200, 200, 200]),
    ("post", "/api/v1/compare", [401, 401, 403, 403, 201, 403, 403]),
    // Public on what nobody can guess, or the same for everybody.
    ("get", "/api/v1/scenarios", [200, 200, 200, 200, 200, 200, 200]),
    ("get", "/api/v1/receipts/{id}", [200, 200, 200, 200, 200, 200, 200]),
    ("get", "/api/v1/receipts/{id}/attestation", [200, 200, 200, 200, 200, 200, 200]),
    ("get", "/api/v1/log/checkpoint", [200, 200, 200, 200, 200, 200, 200]),
    ("get", "/api/v1/log/inclusion/{receipt}", [200, 200, 200, 200, 200, 200, 200]),
    ("get", "/api/v1/log/consistency", [200, 200, 200, 200, 200, 200, 200]),
    ("get", "/api/public/verify/{id}", [200, 200, 200, 200, 200, 200, 200]),
    ("get", "/api/public/compare/{slug}", [200, 200, 200, 200, 200, 200, 200]),
    ("get", "/api/public/rules", [200, 200, 200, 200, 200, 200, 200]),
    ("get", "/.well-known/chorus-keys.json", [200, 200, 200, 200, 200, 200, 200]),
    // The signature is the credential.
    ("post", "/api/public/evidence/{ingest}", [202, 202, 202, 202, 202, 202, 202]),
    // The agent is on the market and earns for its owner's account; another agent has hired it, as everybody may see but who.
    ("post", "/market/register", [201, 401, 200, 200, 201, 201, 201]),
    ("get", "/market/discover", [200, 401, 200, 200, 200, 200, 200]),
    ("get", "/market/skills", [200, 401, 200, 200, 200, 200, 200]),
    ("post", "/market/heartbeat", [401, 401, 204, 403, 204, 403, 204]),
    ("get", "/market/agents/{id}", [200, 401, 200, 200, 200, 200, 200]),
    ("delete", "/market/agents/{id}", [401, 401, 200, 403, 200, 403, 200]),
    ("get", "/market/reputation/{agent_id}", [200, 401, 200, 200, 200, 200, 200]),
    // Who has no credits cannot pay; the operator has no wallet.
    ("post", "/market/jobs", [401, 401, 402, 202, 402, 402, 403]),
    ("get", "/market/jobs", [401, 401, 200, 200, 200, 200, 200]),
    ("get", "/market/jobs/{id}", [401, 401, 200, 200, 200, 404, 404]),
    ("post", "/market/jobs/{id}/cancel", [401, 401, 403, 200, 403, 404, 404]),
    ("post", "/market/jobs/{id}/result", [401, 401, 200, 403, 200, 404, 404]),
    ("post", "/market/jobs/{id}/result/{token}", [200, 200, 200, 200, 200, 200, 200]),
    // Nobody else has the skill.
    ("post", "/market/quotes", [401, 401, 422, 201, 201, 201, 403]),
    ("get", "/market/quotes/{id}", [401, 401, 404, 200, 404, 404, 404]),
    ("post", "/market/quotes/{id}/offer", [401, 401, 200, 404, 404, 404, 404]),
    ("post", "/market/quotes/{id}/accept", [401, 401, 404, 202, 404, 404, 404]),
    ("post", "/market/transfer", [401, 401, 403, 403, 403, 403, 403]),
    ("get", "/market/wallets/{owner}", [401, 401, 404, 200, 404, 404, 200]),
    ("get", "/market/ledger", [401, 401, 200, 200, 200, 404, 404]),
    ("post", "/market/mint", [401, 401, 403, 403, 403, 403, 200]),
    ("post", "/market/burn", [401, 401, 403, 403, 403, 403, 200]),
    ("get", "/market/economy", [200, 401, 200, 200, 200, 200, 200]),
    ("post", "/mcp/{channel}", [401, 401, 200, 404, 200, 404, 403]),
    // Of a session that the agent opened, and so of nobody else.
    ("get", "/mcp/{channel}", [401, 401, 200, 404, 404, 404, 403]),
    ("delete", "/mcp/{channel}", [401, 401, 204, 404, 404, 404, 403]),
];

/// Pages are no part of the API and belong to everybody.
const PAGES: &[&str] = &["/", "/api", "/api/openapi.json"];

fn documented() -> BTreeSet<(String, String)> {
    let document = serde_json::to_value(chorus_hub::openapi()).unwrap();
    let paths = document["paths"].as_object().unwrap().clone();
    let methods = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];
    let of_path = |(path, item): (String, Value)| {
        let found = methods.iter().filter(move |method| item.get(**method).is_some());
        found.map(|method| ((*method).to_owned(), path.clone())).collect::<Vec<_>>()
    };
    paths.into_iter().flat_map(of_path).collect()
}

#[test]
fn no_documented_route_is_missing_here() {
    let listed = TABLE.iter().map(|(method, path, _)| ((*method).to_owned(), (*path).to_owned())).collect();
    assert_eq!(documented(), listed);
}

#[test]
fn every_status_is_documented() {
    let document = serde_json::to_value(chorus_hub::openapi()).unwrap();
    for (method, path, statuses) in TABLE {
        let responses = &document["paths"][path][method]["responses"];
        for (status, caller) in statuses.iter().zip(CALLERS) {
            assert!(responses.get(status.to_string()).is_some(), "{method} {path}: {status} for {caller}");
        }
        let needs_key = statuses[0] == 401;
        let security = document["paths"][path][method].get("security");
        let says_so =
            security.is_some_and(|ways| ways.as_array().unwrap().iter().all(|way| way != &json!({})));
        assert_eq!(says_so, needs_key, "{method} {path}: {security:?}");
    }
}

impl Market {
    /// What belongs into the body of a route of the market.
    fn body(&self, route: &str, new: &str) -> Option<Value> {
        let skill = format!("skill-{}", self.owner.strip_prefix("owner-").unwrap());
        Some(match route {
            "/market/register" => {
                json!({"agent_name": new, "owner_id": new, "skills": [{"skill_name": "x", "cost_per_call": 1}]})
            }
            "/market/heartbeat" | "/market/quotes/{id}/accept" => json!({"agent_id": self.agent}),
            "/market/jobs" => {
                json!({"agent_id": self.agent, "skill_name": skill, "input_data": {}, "budget": 0.1})
            }
            "/market/jobs/{id}/result" | "/market/jobs/{id}/result/{token}" => {
                json!({"job_id": self.job, "status": "SUCCESS", "output_data": {}})
            }
            "/market/quotes" => json!({"skill_name": skill}),
            "/market/quotes/{id}/offer" => json!({"price": 0.1}),
            "/market/transfer" => {
                json!({"transfer_id": self.job, "from_owner": self.owner, "to_owner": self.owner,
                "amount": 0.1})
            }
            "/market/mint" | "/market/burn" => json!({"owner": self.owner, "amount": 0.1}),
            _ => return None,
        })
    }
}

/// What the routes are about, made anew for each call.
struct World {
    name: String,
    other: String,
    keys: [Option<String>; 7],
    channel: String,
    event: String,
    /// Of an envelope that the agent sent.
    trace: String,
    delivery: String,
    token: String,
    /// Of the other person, into the channel.
    invitation: String,
    approval: String,
    /// A work stream of the channel.
    stream: String,
    /// Where to post without a key: the agent's connection string, and its callback.
    foreign: String,
    callback: String,
    market: Market,
}

/// What there is of the market: the agent, who hired it, a job between them, and offers to whoever hired.
struct Market {
    agent: String,
    owner: String,
    job: String,
    /// Where its result is reported without a key.
    result: String,
    quote: String,
}

impl Market {
    async fn make(hub: &TestHub, place: &str, itself: &str, another: &str) -> Self {
        let ask = async |path: &str, key: &str, body: Value| {
            let answer = hub.post(path, Some(key), &body).await;
            assert!(answer.status < 300, "{path}: {}", answer.text);
            answer.body
        };
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let skill = format!("skill-{place}");
        let skills = json!([{"skill_name": skill, "cost_per_call": 0.1}]);
        let body = json!({"agent_name": "a", "skills": skills});
        let agent = text(&ask("/market/register", itself, body).await["agent_id"]);
        let owner = format!("owner-{place}");
        let body = json!({"agent_name": "b", "owner_id": owner, "skills": [{"skill_name": "hiring", "cost_per_call": 9}]});
        ask("/market/register", another, body).await;
        ask("/market/mint", OPERATOR, json!({"owner": owner, "amount": 1})).await;
        let body = json!({"agent_id": agent, "skill_name": skill, "input_data": {}, "budget": 0.1});
        let job = text(&ask("/market/jobs", another, body).await["job_id"]);
        let id = AgentId::parse(&agent).unwrap();
        let find = move |tx: &mut dyn chorus_store::Tx| chorus_store::directory::by_id(tx, id);
        let known = hub.store().read::<_, chorus_store::StoreError, _>(find).await.unwrap().unwrap();
        let token = MasterKey::new([7; 32]).job_token(JobId::parse(&job).unwrap(), id, known.epoch);
        let result = format!("/market/jobs/{job}/result/{token}");
        let quote = text(&ask("/market/quotes", another, json!({"skill_name": skill})).await["quote_id"]);
        Self { agent, owner, job, result, quote }
    }
}

impl World {
    async fn make(hub: &TestHub, place: &str) -> Self {
        let (name, other) = (format!("a-{place}"), format!("b-{place}"));
        let (itself, another) = (hub.register(&name).await, hub.register(&other).await);
        let owner = hub.account(&format!("owner-{place}@example.org")).await;
        let person = hub.account(&format!("other-{place}@example.org")).await;
        let ask = async |path: &str, key: &str, body: Value| {
            let answer = hub.post(path, Some(key), &body).await;
            assert!(answer.status < 300, "{path}: {}", answer.text);
            answer.body
        };
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        ask("/api/v1/agents/claim", &owner, json!({"api_key": itself})).await;
        let channel = text(&ask("/api/v1/channels", &owner, json!({"name": "c"})).await["id"]);
        let at = format!("/api/v1/channels/{channel}");
        ask(&format!("{at}/members"), &owner, json!({"agent": name, "handle": "a"})).await;
        ask(&format!("{at}/artifacts"), &owner, json!({"slug": "notes", "content": "x"})).await;
        ask(&format!("{at}/messages"), &owner, json!({"content": "@a hello"})).await;
        let event =
            text(&ask(&format!("{at}/messages"), &itself, json!({"content": "hello"})).await["event_id"]);
        let held = json!({"content": "may I?", "requires_approval": true});
        let approval = text(&ask(&format!("{at}/messages"), &itself, held).await["approval"]);
        let stream = json!({"name": "s", "conversations": [channel], "participants": ["a"]});
        let stream = text(&ask("/api/v1/streams", &owner, stream).await["id"]);
        let invited = json!({"account": format!("other-{place}@example.org")});
        ask(&format!("{at}/members"), &owner, invited).await;
        let invitations = hub.get("/api/v1/me/invitations", Some(&person)).await.body;
        let invitation = text(&invitations["items"][0]["id"]);
        let sent = json!({"receiver_id": "third", "envelope": envelope(&name, "hi")});
        let trace = text(&ask("/messages", &itself, sent).await["data"]["trace_id"]);
        let token = text(&ask("/api/v1/tokens", &owner, json!({"label": "t"})).await["id"]);
        let rotate = format!("/api/v1/agents/{name}/connection-string/rotate");
        let foreign = text(&ask(&rotate, &owner, json!({})).await["connection_string"]);
        let history = hub.get("/agent/messages?kind=all", Some(&itself)).await.body;
        let callback = text(&history["data"][0]["data"]["callback"]);
        let deliveries = hub.get("/api/v1/deliveries", Some(&owner)).await.body;
        let delivery = text(&deliveries["items"][0]["id"]);
        let local = |url: &str| url.strip_prefix(&hub.url).expect("it is on this hub").to_owned();
        let (foreign, callback) = (local(&foreign), local(&callback));
        let bad = "ca_00000000000000000000000000000000".to_owned();
        let market = Market::make(hub, place, &itself, &another).await;
        let keys = [
            None,
            Some(bad),
            Some(itself),
            Some(another),
            Some(owner),
            Some(person),
            Some(OPERATOR.to_owned()),
        ];
        Self {
            name,
            other,
            keys,
            channel,
            event,
            trace,
            delivery,
            token,
            invitation,
            approval,
            stream,
            foreign,
            callback,
            market,
        }
    }

    /// The path of a route with everything filled in.
    fn path(&self, route: &str) -> String {
        match route {
            "/inbox/{sk}" => return self.foreign.clone(),
            "/channels/{id}/inbox/{token}" => return self.callback.clone(),
            "/api/v1/me/blocks/{id}" => return route.replace("{id}", "blk_00000000000000000000000000000000"),
            "/api/v1/me" => return format!("{route}?confirm=owner-{}@example.org", &self.name[2..]),
            "/api/v1/invitations/{id}" => {
                return route.replace("{id}", "crd_00000000000000000000000000000000");
            }
            "/api/v1/search" => return format!("{route}?q=hello"),
            "/agent/sent" | "/agent/sent/{trace_id}" => {
                return format!("{}?sender={}", route.replace("{trace_id}", &self.trace), self.name);
            }
            "/market/jobs/{id}/result/{token}" => return self.market.result.clone(),
            _ if route.starts_with("/market/quotes/") => return route.replace("{id}", &self.market.quote),
            "/market/wallets/{owner}" => return route.replace("{owner}", &self.market.owner),
            _ if route.starts_with("/market/jobs/") => return route.replace("{id}", &self.market.job),
            _ if route.starts_with("/market/") => {
                return route.replace("{id}", &self.market.agent).replace("{agent_id}", &self.market.agent);
            }
            _ if route.starts_with("/api/v1/operator/accounts/") => {
                let owner = format!("owner-{}@example.org", &self.name[2..]);
                return route.replace("{id}", &owner);
            }
            _ => {}
        }
        let id = match route.split('/').nth(3).unwrap_or_default() {
            "channels" => &self.channel,
            "deliveries" => &self.delivery,
            "tokens" => &self.token,
            "me" => &self.invitation,
            "approvals" => &self.approval,
            "streams" => &self.stream,
            _ => &self.name,
        };
        let path = route.replace("{id}", id).replace("{event_id}", &self.event);
        path.replace("{channel}", &self.channel).replace("{handle}", "a").replace("{slug}", "notes")
    }

    /// What belongs into the body of a route.
    fn body(&self, method: &str, route: &str) -> Option<Value> {
        let new = format!("new-{}", self.name);
        Some(match (method, route) {
            ("post", "/messages") => {
                json!({"receiver_id": self.other, "envelope": envelope(&self.name, "hi")})
            }
            ("post", "/register" | "/agents") => {
                json!({"agent_id": new, "endpoint": "https://alice.example/"})
            }
            ("post", "/inbox/{sk}") => json!({"channel": {"id": "C1"}, "callback": "https://s.example/cb",
                "message": {"id": "m1", "sender": "eve", "content": "hi"}}),
            ("post", "/api/v1/streams") | ("put", "/api/v1/streams/{id}") => {
                json!({"name": "t", "conversations": [self.channel]})
            }
            ("patch", "/api/v1/streams/{id}") => json!({"name": "t"}),
            ("post", "/channels/{id}/inbox/{token}") => json!({"type": "status", "status": "thinking"}),
            ("post", "/api/v1/signin" | "/api/v1/accounts") => {
                json!({"email": format!("{new}@example.org")})
            }
            ("post", "/api/v1/me/blocks") => json!({"who": "third"}),
            ("post", "/api/v1/tokens") => json!({"label": "mine"}),
            ("post", "/api/v1/invitations" | "/api/v1/deliveries/replay") => json!({}),
            ("post", "/api/v1/agents") => json!({"name": new}),
            ("post", "/api/v1/agents/claim") => json!({"api_key": self.keys[3]}),
            ("put", "/api/v1/agents/{id}/connection") => {
                json!({"connection_string": "https://agent.example/inbox/sk_a1b2c3d4e5f6"})
            }
            ("put", "/api/v1/agents/{id}/harness") => json!({"endpoint": "http://127.0.0.1:1/c2a"}),
            ("post", "/api/v1/channels") => json!({"name": "another"}),
            ("patch", "/api/v1/channels/{id}") => json!({"name": "renamed"}),
            ("patch", "/api/v1/me") => json!({"name": "Another"}),
            ("patch", "/api/v1/agents/{id}") => json!({"paused": false}),
            ("patch", "/api/v1/channels/{id}/members/{handle}") => json!({"roles": ["scribe"]}),
            ("post", "/api/v1/dms") => json!({"with": "third"}),
            ("post", "/api/v1/channels/{id}/members") => json!({"agent": self.other}),
            ("post", "/api/v1/channels/{id}/messages") => json!({"content": "x"}),
            ("patch", "/api/v1/channels/{id}/messages/{event_id}") => json!({"content": "y"}),
            ("post", "/api/v1/channels/{id}/messages/{event_id}/reactions") => json!({"signal": "seen"}),
            ("post", "/api/v1/channels/{id}/artifacts") => json!({"slug": "new", "content": "x"}),
            ("put", "/api/v1/channels/{id}/artifacts/{slug}") => json!({"content": "y", "base_version": 1}),
            ("post", "/mcp/{channel}") => initialize(),
            ("post", "/c2a") => json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
            ("post", route) if route.starts_with("/market/") => return self.market.body(route, &new),
            _ => return None,
        })
    }
}

#[tokio::test]
async fn every_route_for_every_caller() {
    let hub = TestHub::start();
    hub.register("third").await;
    let mut wrong = vec![];
    for (n, (method, route, statuses)) in TABLE.iter().enumerate() {
        let mut found = [0; 7];
        for (column, status) in found.iter_mut().enumerate() {
            let world = World::make(&hub, &format!("{n}-{column}")).await;
            let (mut path, mut waiting) = (world.path(route), None);
            if *route == "/agent/replies/{token}" {
                let other = world.keys[3].as_deref().unwrap();
                let (address, inbox, sender) = reply_address(&hub, &world.other, other).await;
                (path, waiting) = (address, Some((inbox, sender)));
            }
            let choir = if is_choir(route) { Some(Choir::make(&hub, &world).await) } else { None };
            if let Some(choir) = &choir {
                path = choir.path(route);
            }
            let upper = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            let mut request = hub.request(upper, &path, world.keys[column].as_deref());
            if *route == "/agent/replies/{token}" {
                request = request.body(r#"{"type": "done", "result": 1}"#);
            } else if let Some(choir) = &choir {
                request = choir.fill(request, method, route);
            } else if let Some(body) = world.body(method, route) {
                request = request.json(&body);
            } else if *route == "/mcp/{channel}" {
                request = request.header("mcp-session-id", session(&hub, &world).await);
            } else if *route == "/c2a" {
                request = request.header("connection", "upgrade").header("upgrade", "websocket");
                request = request.header("sec-websocket-version", "13");
                request = request.header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
            }
            // A stream is not read to its end.
            let response = request.send().await.unwrap();
            *status = response.status().as_u16();
            drop(waiting);
            if *status >= 400 {
                let answer = Answer::read(response).await;
                let code = &answer.body["error"]["code"];
                // What MCP itself refuses is in JSON-RPC's format.
                let is_code = code.is_string() || (route.starts_with("/mcp/") && code.is_i64());
                assert!(is_code, "{method} {route}: {}", answer.text);
            }
        }
        if found != *statuses {
            wrong.push(format!("{method} {route}: {found:?}, not {statuses:?}"));
        }
    }
    assert!(wrong.is_empty(), "{CALLERS:?} {wrong:#?}");
}

fn is_choir(route: &str) -> bool {
    let parts = [
        "/api/v1/scores",
        "/api/v1/compare",
        "/api/v1/receipts",
        "/api/v1/log",
        "/api/v1/adapt",
        "/api/public/",
    ];
    parts.iter().any(|part| route.starts_with(part))
}

/// A Score of the owner, and what belongs to it.
struct Choir {
    score: String,
    secret: String,
    ingest: String,
    receipt: String,
    slug: String,
}

impl Choir {
    async fn make(hub: &TestHub, world: &World) -> Self {
        let owner = world.keys[4].as_deref().unwrap();
        let score = choir::made(hub, owner).await;
        let (secret, ingest) = choir::secret(hub, &score, owner).await;
        let receipt = choir::issued(hub, &score, owner).await["receipt_id"].as_str().unwrap().to_owned();
        let both = json!({"receipts": [receipt, receipt]});
        let slug =
            hub.post("/api/v1/compare", Some(owner), &both).await.body["slug"].as_str().unwrap().to_owned();
        Self { score, secret, ingest, receipt, slug }
    }

    fn path(&self, route: &str) -> String {
        if route == "/api/public/evidence/{ingest}" {
            return self.ingest.clone();
        }
        if route == "/api/v1/log/consistency" {
            return format!("{route}?from=1");
        }
        let route = route.replace("{format}", "auto");
        let scores =
            route.replace("/api/v1/scores/{id}", &self.score).replace("{prefix}", &self.secret[..12]);
        scores
            .replace("{id}", &self.receipt)
            .replace("{receipt}", &self.receipt)
            .replace("{slug}", &self.slug)
    }

    fn fill(&self, request: RequestBuilder, method: &str, route: &str) -> RequestBuilder {
        match (method, route) {
            ("post", "/api/v1/scores") | ("put", "/api/v1/scores/{id}") => request.json(&choir::score()),
            ("post", "/api/v1/scores/{id}/claim") => request.json(&json!({"edit_link": "es_none"})),
            ("post", "/api/v1/scores/{id}/evidence") => request.json(&choir::warned()),
            ("post", "/api/v1/adapt/{format}") => request.json(&choir::trace()),
            ("post", "/api/v1/compare") => request.json(&json!({"receipts": [self.receipt, self.receipt]})),
            ("post", "/api/public/evidence/{ingest}") => {
                let headers = choir::ingest::headers(&self.secret, choir::ingest::now(), &choir::warned());
                let signed =
                    headers.into_iter().fold(request, |request, (name, value)| request.header(name, value));
                signed.json(&choir::warned())
            }
            _ => request,
        }
    }
}

/// The first message of an MCP client that wants a session.
fn initialize() -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"},
    }})
}

/// An MCP session of the agent in the channel.
async fn session(hub: &TestHub, world: &World) -> String {
    let answer = hub.post(&world.path("/mcp/{channel}"), world.keys[2].as_deref(), &initialize()).await;
    answer.header("mcp-session-id").to_owned()
}

/// Where the agent may answer a message of its own that wants a stream; what comes with it must be kept meanwhile.
async fn reply_address(hub: &TestHub, name: &str, key: &str) -> (String, Inbox, JoinHandle<Answer>) {
    let mut inbox = hub.inbox(key, None).await;
    let body = json!({"receiver_id": name, "envelope": envelope(name, "hi"), "stream": true});
    let sender = tokio::spawn(Answer::of(hub.request(Method::POST, "/messages", Some(key)).json(&body)));
    let (_, message) = inbox.message().await;
    let address = message["reply_stream"].as_str().unwrap();
    (address.strip_prefix(&hub.url).expect("it is on this hub").to_owned(), inbox, sender)
}

#[tokio::test]
async fn pages_are_for_everybody() {
    let hub = TestHub::start();
    let key = hub.register("a").await;
    for path in PAGES {
        for key in [None, Some("ca_wrong"), Some(&*key), Some(OPERATOR)] {
            assert_eq!(hub.get(path, key).await.status, 200, "{path}");
        }
    }
}
