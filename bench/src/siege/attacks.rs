//! The table of attacks: each does one expensive thing that the hub lets strangers do.

use crate::http::HttpRequest;
use crate::target::Target;
use bytes::Bytes;
use chorus_protocol::relay::{CARD_VERSION, CHORUS_VERSION};
use http::{Method, header};
use serde_json::{Value, json};
use std::time::Duration;

const CARD: usize = 200 * 1024;
const DOCUMENT: usize = 1 << 20;
const MESSAGE: usize = 2 << 20;
const TRACE: usize = 8 << 20;
/// The largest schema of a skill.
const SCHEMA: usize = 15 * 1024;
const SKILLS: usize = 100;
const WORDS: usize = 100;

/// An attack: a request that is repeated.
pub(super) struct Attack {
    pub(super) name: &'static str,
    pub(super) connections: usize,
    /// The pause between requests on one connection.
    pub(super) every: Duration,
    pub(super) manner: Manner,
}

/// Makes the `n`-th request of an attack.
pub(super) type MakeRequest = fn(&Supplies, u64) -> anyhow::Result<HttpRequest>;

/// The way in which requests are made.
#[derive(Clone, Copy)]
pub(super) enum Manner {
    /// Sends a request and waits for its response.
    Asks(MakeRequest),
    /// Sends a request and hangs up at once.
    HangsUp(MakeRequest),
    /// Leaves out the last byte of a request and keeps the connection.
    NeverFinishes(MakeRequest),
    /// Keeps a connection without sending anything.
    StaysSilent,
}

const fn attack(name: &'static str, connections: usize, pause_ms: u64, manner: Manner) -> Attack {
    Attack { name, connections, every: Duration::from_millis(pause_ms), manner }
}

/// The attack that the hub refuses every time.
pub(super) const WRONG_KEYS: &str = "wrong keys";

pub(super) const ATTACKS: &[Attack] = &[
    attack("registrations", 1, 50, Manner::Asks(Supplies::registration)),
    attack("hanging webhooks", 1, 100, Manner::HangsUp(Supplies::webhook)),
    attack("silent sockets", 100, 1000, Manner::StaysSilent),
    attack(WRONG_KEYS, 1, 10, Manner::Asks(Supplies::wrong_key)),
    attack("mails", 1, 50, Manner::Asks(Supplies::mail)),
    attack("documents", 1, 200, Manner::Asks(Supplies::document)),
    attack("unfinished documents", 40, 1000, Manner::NeverFinishes(Supplies::document)),
    attack("searches", 4, 50, Manner::Asks(Supplies::search)),
    attack("unfinished MCP messages", 40, 1000, Manner::NeverFinishes(Supplies::mcp_message)),
    attack("silent C2A sockets", 40, 1000, Manner::NeverFinishes(Supplies::c2a_socket)),
    attack("half C2A messages", 60, 1000, Manner::NeverFinishes(Supplies::half_c2a_message)),
    attack("traces", 20, 250, Manner::Asks(Supplies::trace)),
    attack("unfinished traces", 40, 1000, Manner::NeverFinishes(Supplies::trace)),
    attack("market updates", 4, 100, Manner::Asks(Supplies::market_update)),
    attack("market lists", 10, 50, Manner::Asks(Supplies::market_list)),
    attack("hires", 4, 50, Manner::Asks(Supplies::hire)),
    attack("quotes", 4, 50, Manner::Asks(Supplies::quote)),
    attack("Scores and receipts", 4, 50, Manner::Asks(Supplies::choir)),
];

/// Everything that attacks use: keys, ids, and large texts that are made once.
pub(super) struct Supplies {
    pub(super) target: Target,
    keys: Vec<String>,
    channel: String,
    author: ScoreAuthor,
    /// Filled before the first attack.
    pub(super) traders: Vec<Trader>,
    card: Value,
    document: String,
    trace: Bytes,
    skills: Value,
}

/// A hostile agent on the market, with an owner of its own that has money.
pub(super) struct Trader {
    pub(super) id: String,
    pub(super) key: String,
    pub(super) owner: String,
    pub(super) owner_key: String,
}

/// The owner of the `n`-th hostile agent.
pub(super) fn hostile_owner(n: u64) -> String {
    format!("besieger-owner-{n}")
}

/// An account with a Score.
pub(super) struct ScoreAuthor {
    pub(super) token: String,
    pub(super) score: String,
}

impl Supplies {
    pub(super) fn new(target: Target, keys: Vec<String>, channel: String, author: ScoreAuthor) -> Self {
        let card = json!({
            "card_version": CARD_VERSION, "user_culture": "en", "supported_languages": ["en"], "about": "x".repeat(CARD),
        });
        let call = json!({"name": "look_up", "args": {"key": "x".repeat(200)}, "id": "call_1"});
        let step = json!({"policy": {"messages": [{"type": "ai", "content": "", "tool_calls": [call]}]}})
            .to_string();
        let steps = vec![step.as_str(); (TRACE - 1024) / (step.len() + 1)];
        let skills = (0..SKILLS).map(|n| {
            let words: Vec<_> = (0..WORDS).map(|word| format!("w{n}x{word}")).collect();
            json!({"skill_name": format!("skill_{n}"), "description": words.join(" "), "cost_per_call": 1})
        });
        Self {
            target,
            keys,
            channel,
            author,
            traders: vec![],
            card,
            document: "word ".repeat(DOCUMENT / 5),
            trace: format!("[{}]", steps.join(",")).into(),
            skills: skills.collect(),
        }
    }

    fn key(&self, n: u64) -> Option<&str> {
        self.keys.get(n as usize % self.keys.len()).map(String::as_str)
    }

    fn trader(&self, n: u64) -> &Trader {
        &self.traders[n as usize % self.traders.len()]
    }

    fn post(&self, path: &str, key: Option<&str>, body: &Value) -> anyhow::Result<HttpRequest> {
        self.target.post(path, key, body.to_string())
    }

    /// Registers a new agent; every other one has a card that is far too large.
    fn registration(&self, n: u64) -> anyhow::Result<HttpRequest> {
        let mut body = json!({"agent_id": format!("siege-{n}")});
        if n.is_multiple_of(2) {
            body["agent_card"] = self.card.clone();
        }
        self.post("/register", None, &body)
    }

    fn webhook(&self, n: u64) -> anyhow::Result<HttpRequest> {
        let envelope = json!({"chorus_version": CHORUS_VERSION, "sender_id": "besieger-0", "original_text": n.to_string(), "sender_culture": "en"});
        self.post("/messages", self.key(0), &json!({"receiver_id": "hanging", "envelope": envelope}))
    }

    fn wrong_key(&self, n: u64) -> anyhow::Result<HttpRequest> {
        self.target.get("/agent/messages", Some(&format!("ca_{n:032x}")))
    }

    /// Asks for a mail to a new domain, whose server is slow.
    fn mail(&self, n: u64) -> anyhow::Result<HttpRequest> {
        self.post("/api/v1/signin", None, &json!({"email": format!("victim@d{n}.example")}))
    }

    fn document(&self, n: u64) -> anyhow::Result<HttpRequest> {
        let path = format!("/api/v1/channels/{}/artifacts", self.channel);
        self.post(&path, self.key(0), &json!({"slug": format!("d{n}"), "content": self.document}))
    }

    fn search(&self, n: u64) -> anyhow::Result<HttpRequest> {
        let paths = [
            "/api/v1/search?q=word&limit=200",
            "/agents?q=e&limit=200",
            "/agents?culture=en&limit=200",
            "/api/v1/agents?q=siege&limit=200",
        ];
        self.target.get(paths[n as usize % paths.len()], self.key(n))
    }

    fn mcp_message(&self, n: u64) -> anyhow::Result<HttpRequest> {
        let path = format!("/mcp/{}", self.channel);
        self.target.post(&path, self.key(n), "x".repeat(MESSAGE))
    }

    /// Returns the handshake of a socket. The manner leaves out the byte behind it.
    fn c2a_socket(&self, n: u64) -> anyhow::Result<HttpRequest> {
        self.c2a_handshake(n, Bytes::from_static(b"x"))
    }

    /// Returns the handshake and a text frame of one mebibyte, masked with zeros.
    fn half_c2a_message(&self, n: u64) -> anyhow::Result<HttpRequest> {
        let head = [&[0x81, 0xff], &(DOCUMENT as u64).to_be_bytes()[..], &[0; 4]].concat();
        self.c2a_handshake(n, [head, vec![b'x'; DOCUMENT]].concat().into())
    }

    fn c2a_handshake(&self, n: u64, then: Bytes) -> anyhow::Result<HttpRequest> {
        let request = self.target.request(Method::GET, "/c2a", self.key(n));
        let request = request.header(header::CONNECTION, "upgrade").header(header::UPGRADE, "websocket");
        let request = request.header(header::SEC_WEBSOCKET_VERSION, 13);
        Ok(request.header(header::SEC_WEBSOCKET_KEY, "YmVuY2hiZW5jaGJlbmNoIQ==").body(then)?)
    }

    fn trace(&self, n: u64) -> anyhow::Result<HttpRequest> {
        self.target.post("/api/v1/adapt/langgraph", self.key(n), self.trace.clone())
    }

    /// Returns an offer with the most expensive schemas that are allowed.
    pub(super) fn hostile_offer(n: u8) -> Value {
        let mut properties: serde_json::Map<_, _> = (0..31)
            .map(|pattern| (format!("p{n}x{pattern}"), json!({"pattern": "^([a-z]|[a-y]){2}"})))
            .collect();
        properties.insert("text".into(), json!({"pattern": format!("^[a-z]*{n}?!?$")}));
        let (input, output) = (
            json!({"type": "object", "properties": properties}),
            json!({"type": "object", "enum": vec![0; SCHEMA / 2]}),
        );
        let skills: Vec<_> = ["hostile", "other"]
            .iter()
            .map(|name| json!({"skill_name": name, "cost_per_call": 0.01, "input_schema": input, "output_schema": output}))
            .collect();
        json!({"agent_name": format!("hostile-{n}"), "owner_id": hostile_owner(n.into()), "skills": skills})
    }

    /// An input that every hostile schema accepts, and that is long.
    fn hostile_input() -> Value {
        json!({"text": "a".repeat(20_000)})
    }

    /// Updates the same agent with a hundred skills of a hundred words.
    fn market_update(&self, n: u64) -> anyhow::Result<HttpRequest> {
        let trader = self.trader(n);
        let body = json!({
            "agent_id": trader.id, "agent_name": format!("update {n}"), "owner_id": trader.owner, "skills": self.skills,
        });
        self.post("/market/register", Some(&trader.key), &body)
    }

    fn market_list(&self, _: u64) -> anyhow::Result<HttpRequest> {
        self.target.get("/market/discover?limit=200", None)
    }

    fn hire(&self, n: u64) -> anyhow::Result<HttpRequest> {
        let body = json!({
            "job_id": format!("f81d4fae-7dec-41d0-a765-{n:012x}"), "skill_name": "hostile",
            "input_data": Self::hostile_input(), "budget": 1, "currency": "chorus_credits_v1",
            "timestamp_utc": "2026-02-11T14:15:09Z",
        });
        self.post("/market/jobs", Some(&self.trader(n).owner_key), &body)
    }

    fn quote(&self, n: u64) -> anyhow::Result<HttpRequest> {
        let body = json!({"skill_name": "hostile", "input_data": Self::hostile_input()});
        self.post("/market/quotes", Some(&self.trader(n).key), &body)
    }

    /// Makes Scores, evidence and receipts, and checks them.
    fn choir(&self, n: u64) -> anyhow::Result<HttpRequest> {
        let ScoreAuthor { token, score: id } = &self.author;
        let (account, at) = (Some(token.as_str()), format!("/api/v1/scores/{id}"));
        match n % 4 {
            0 => self.post("/api/v1/scores", account, &score()),
            1 => {
                let event = json!({"event_type": "ignored_warning", "voice_name": "Policy"});
                let bundle = json!({
                    "schema": "choir.evidence.v1", "run_id": format!("r{n}"), "scenario_id": "over-limit",
                    "events": vec![event; 200],
                });
                self.post(&format!("{at}/evidence"), account, &bundle)
            }
            2 => self.post(&format!("{at}/receipts"), account, &json!({})),
            _ => self.target.get("/api/v1/log/checkpoint", None),
        }
    }
}

/// Returns a Score with one scenario.
pub(super) fn score() -> Value {
    let voice = |name: &str, last: bool| {
        json!({
            "name": name, "role": "does its part", "entry": !last, "final_voice": last,
            "reviewed_by": if last { json!("Policy") } else { Value::Null },
            "authority": {"limits": ["nothing above 100"], "forbidden_actions": ["refund"]},
            "escalation_triggers": [{"id": "stuck", "condition": "stuck", "to": "human:desk"}],
            "evidence_requirement": "cite", "may_dissent": true, "dissent_must_reach_output": true,
            "handoffs": if last { json!([]) } else { json!([{"to": "Drafter", "carries": ["case"], "acknowledged": true}]) },
        })
    };
    json!({
        "title": "Siege", "voices": [voice("Policy", false), voice("Drafter", true)],
        "scenarios": [{"id": "over-limit", "severity": "high", "prompt": "500 please", "required_voices": ["Policy", "Drafter"]}],
    })
}
