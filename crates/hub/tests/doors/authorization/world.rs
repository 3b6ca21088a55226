//! The objects that the routes act on: an agent, its owner, a channel, a job, a Score, and all keys.

use crate::choir;
use crate::support::{Answer, Inbox, OPERATOR, TestHub, envelope};
use chorus_hub::MasterKey;
use chorus_protocol::ids::{AgentId, JobId};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// The objects that the routes act on, created again after each call that may have changed them.
pub(super) struct World {
    name: String,
    pub(super) other: String,
    pub(super) keys: [Option<String>; 7],
    channel: String,
    event: String,
    /// The trace id of an envelope that the agent sent.
    trace: String,
    delivery: String,
    token: String,
    /// An invitation of the other person to the channel.
    invitation: String,
    approval: String,
    /// A work stream of the channel.
    stream: String,
    /// The addresses to post to without a key: the agent's connection string and its callback.
    foreign: String,
    callback: String,
    market: Market,
}

/// The market objects: the agent, its client, a job between them, and offers to the client.
struct Market {
    agent: String,
    owner: String,
    /// The owner key of the client.
    owner_key: String,
    job: String,
    /// The address for reporting its result without a key.
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
        let owner_key = text(&ask("/market/register", another, body).await["owner_key"]);
        ask("/market/mint", OPERATOR, json!({"owner": owner, "amount": 1})).await;
        let body = json!({"agent_id": agent, "skill_name": skill, "input_data": {}, "budget": 0.1});
        let job = text(&ask("/market/jobs", another, body).await["job_id"]);
        let id = AgentId::parse(&agent).unwrap();
        let find = move |tx: &mut dyn chorus_store::Tx| chorus_store::directory::by_id(tx, id);
        let known = hub.store().read::<_, chorus_store::StoreError, _>(find).await.unwrap().unwrap();
        let token = MasterKey::new([7; 32]).job_token(JobId::parse(&job).unwrap(), id, known.epoch);
        let result = format!("/market/jobs/{job}/result/{token}");
        let quote = text(&ask("/market/quotes", another, json!({"skill_name": skill})).await["quote_id"]);
        Self { agent, owner, owner_key, job, result, quote }
    }

    /// Returns the body for a route of the market.
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

impl World {
    pub(super) async fn make(hub: &TestHub, place: &str) -> Self {
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

    /// Returns the keys of everybody with a quota.
    pub(super) fn counted_keys(&self) -> Vec<String> {
        self.keys[2..6].iter().flatten().chain([&self.market.owner_key]).cloned().collect()
    }

    /// Returns the path of a route with all parameters filled in.
    pub(super) fn path(&self, route: &str) -> String {
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
            "/mcp/jobs/{job}" => return route.replace("{job}", &self.market.job),
            "/market/wallets/{owner}" | "/market/wallets/{owner}/key/reset" => {
                return route.replace("{owner}", &self.market.owner);
            }
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

    /// Returns the body for a route.
    pub(super) fn body(&self, method: &str, route: &str) -> Option<Value> {
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
            // The agent offers a skill, so its bytes are given back.
            ("post", "/api/v1/agents/{id}/key/reset") => json!({"detach": true}),
            ("put", "/api/v1/agents/{id}/allowance") => json!({"credits_per_day": 1.5}),
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
            ("post", "/mcp" | "/mcp/{channel}" | "/mcp/jobs/{job}") => initialize(),
            ("post", "/c2a") => json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
            ("post", route) if route.starts_with("/market/") => return self.market.body(route, &new),
            _ => return None,
        })
    }
}

pub(super) fn is_choir(route: &str) -> bool {
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

/// A Score of the owner and its objects.
pub(super) struct Choir {
    score: String,
    secret: String,
    ingest: String,
    receipt: String,
    slug: String,
}

impl Choir {
    pub(super) async fn make(hub: &TestHub, world: &World) -> Self {
        let owner = world.keys[4].as_deref().unwrap();
        let score = choir::made(hub, owner).await;
        let (secret, ingest) = choir::secret(hub, &score, owner).await;
        let receipt = choir::issued(hub, &score, owner).await["receipt_id"].as_str().unwrap().to_owned();
        let both = json!({"receipts": [receipt, receipt]});
        let slug =
            hub.post("/api/v1/compare", Some(owner), &both).await.body["slug"].as_str().unwrap().to_owned();
        Self { score, secret, ingest, receipt, slug }
    }

    pub(super) fn path(&self, route: &str) -> String {
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

    pub(super) fn fill(&self, request: RequestBuilder, method: &str, route: &str) -> RequestBuilder {
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

/// Returns the first message of an MCP client that wants a session.
fn initialize() -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"},
    }})
}

/// Opens an MCP session of the agent in the channel.
pub(super) async fn session(hub: &TestHub, world: &World) -> String {
    let answer = hub.post(&world.path("/mcp/{channel}"), world.keys[2].as_deref(), &initialize()).await;
    answer.header("mcp-session-id").to_owned()
}

/// Returns an address where the agent may stream a reply. The other returned values keep it open.
pub(super) async fn reply_address(
    hub: &TestHub,
    name: &str,
    key: &str,
) -> (String, Inbox, JoinHandle<Answer>) {
    let mut inbox = hub.inbox(key, None).await;
    let body = json!({"receiver_id": name, "envelope": envelope(name, "hi"), "stream": true});
    let sender = tokio::spawn(Answer::of(hub.request(Method::POST, "/messages", Some(key)).json(&body)));
    let (_, message) = inbox.message().await;
    let address = message["reply_stream"].as_str().unwrap();
    (address.strip_prefix(&hub.url).expect("it is on this hub").to_owned(), inbox, sender)
}
