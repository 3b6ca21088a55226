//! Requests generated from the API's description.

use super::{MEANT_EVERY, MUST_SUCCEED, RENEWED_EVERY, REQUESTS, SEED, bait};
use crate::support::envelope;
use serde_json::{Map, Value, json};

/// A repeatable random number generator.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % limit
    }

    pub(super) fn one_of<'a, T: ?Sized>(&mut self, of: &'a [&'a T]) -> &'a T {
        of[self.below(of.len())]
    }

    pub(super) fn text(&mut self, of: &[String]) -> String {
        of[self.below(of.len())].clone()
    }
}

/// One request, the same for both hubs.
pub(super) struct Asked {
    pub(super) method: String,
    pub(super) route: String,
    pub(super) path: String,
    pub(super) key: Option<&'static str>,
    pub(super) body: Option<Value>,
}

impl Asked {
    /// Returns whether the request is skipped. The stranger's agent and its key are needed to the end. The moment at
    /// which an abandoned inbox is noticed is random, and would decide the outcome of its own sends.
    pub(super) fn is_left_out(&self) -> bool {
        let body = self.body.as_ref().map(Value::to_string).unwrap_or_default();
        (self.route == "/agent/inbox" && self.key == Some("agent key"))
            || (self.method == "delete" && self.path.starts_with("/agents/mallory"))
            || (self.path == "/register" && body.contains("mallory"))
    }
}

/// Generates requests from the API's description.
pub(super) struct RequestGenerator {
    pub(super) random: Random,
    pub(super) document: Value,
    pub(super) operations: Vec<(String, String)>,
    untried: Vec<(String, String)>,
    pub(super) words: Vec<String>,
    /// The ids and names of the private data.
    pub(super) private: Vec<String>,
}

impl RequestGenerator {
    pub(super) fn new(private: Vec<String>) -> Self {
        let document = serde_json::to_value(chorus_hub::openapi()).unwrap();
        let methods = ["get", "put", "post", "delete", "patch"];
        let paths = document["paths"].as_object().unwrap();
        let operations: Vec<(String, String)> = paths
            .iter()
            .flat_map(|(path, item)| {
                let found = methods.iter().filter(move |method| item.get(**method).is_some());
                found.map(move |method| ((*method).to_owned(), path.clone()))
            })
            .collect();
        let known = [
            "zebra",
            "4711",
            "PIN",
            "alice",
            "bob",
            "alice@chorus.example",
            "mallory",
            "mallory@example.org",
            "nobody",
            "nobody@example.org",
            "keeper",
            "owner of carol",
            "owner of dave",
            "analyze_text",
            "@ali zebra",
            "@anna",
            "notes",
            "x",
            "true",
            "0",
            "1",
            "end",
            "{own:channel}",
            "{own:event}",
            "{own:stream}",
            "{own:next}",
            "owner of trudy",
            "https://somewhere.example/hook",
        ];
        let words = known.map(str::to_owned).into_iter().chain(private.clone()).collect();
        let untried = operations.clone();
        Self { random: Random(SEED), document, operations, untried, words, private }
    }

    /// Generates a request; periodically one that a stranger may succeed with.
    pub(super) fn asked(&mut self, n: usize) -> Asked {
        let meant = n.is_multiple_of(MEANT_EVERY).then(|| MUST_SUCCEED[n / MEANT_EVERY % MUST_SUCCEED.len()]);
        // Reads are more frequent than writes, and searches most of all.
        let (method, route) = loop {
            if let Some((method, route)) = meant {
                break (method.to_owned(), route.to_owned());
            }
            // Each operation is tried at least once.
            if let Some(operation) = self.untried.pop() {
                break operation;
            }
            if self.random.below(8) == 0 {
                break ("get".to_owned(), "/api/v1/search".to_owned());
            }
            let (method, route) = self.operations[self.random.below(self.operations.len())].clone();
            if method == "get" || self.random.below(2) == 0 {
                break (method, route);
            }
        };
        let operation = self.document["paths"][&route][&method].clone();
        let (mut path, mut query) = (route.clone(), vec![]);
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            let name = parameter["name"].as_str().unwrap();
            let own = meant.is_some() || self.random.below(2) == 0;
            let word = match name {
                "limit" => self.random.below(4).to_string(),
                "id" | "channel" if own && route.contains("channel") => "{own:channel}".to_owned(),
                "id" if own && route.contains("streams/") => "{own:stream}".to_owned(),
                "id" if own && route.contains("agents/") => "mallory".to_owned(),
                "event_id" if own => "{own:event}".to_owned(),
                "slug" if own => "notes".to_owned(),
                "handle" if own => "mallory".to_owned(),
                "q" if self.random.below(2) == 0 => bait(self.random.below(REQUESTS / RENEWED_EVERY)),
                _ => self.random.text(&self.words),
            };
            let word: String = url::form_urlencoded::byte_serialize(word.as_bytes()).collect();
            // Placeholders that are filled in later must not be encoded.
            let word = word.replace("%7Bown%3A", "{own:").replace("%7D", "}").replace('+', "%20");
            if parameter["in"] == "path" {
                path = path.replace(&format!("{{{name}}}"), &word);
            } else if parameter["in"] == "query"
                && (parameter["required"] == true || (meant.is_none() && self.random.below(2) == 0))
            {
                query.push(format!("{name}={word}"));
            }
        }
        if !query.is_empty() {
            path = format!("{path}?{}", query.join("&"));
        }
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        let made_up = (!schema.is_null()).then(|| self.value(&schema.clone(), 0));
        let sensible = meant.is_some() || self.random.below(2) == 0;
        let body = if sensible { self.sensible(&method, &route).or(made_up) } else { made_up };
        let bad = "ca_00000000000000000000000000000000";
        let keys = ["agent key", "person key", "agent key", "person key", "owner key", "", bad];
        let among = if meant.is_some() { 2 } else { keys.len() };
        let key = keys[self.random.below(among)];
        Asked { method, route, path, key: Some(key).filter(|key| !key.is_empty()), body }
    }

    /// Returns a valid body for routes where a random one is hardly ever accepted.
    pub(super) fn sensible(&mut self, method: &str, route: &str) -> Option<Value> {
        let word = self.random.text(&self.words);
        Some(match (method, route) {
            ("post", "/messages") => {
                let to = self.random.one_of(&["alice", "bob", "mallory", "nobody"]);
                json!({"receiver_id": to, "envelope": envelope("mallory", &word)})
            }
            ("post", "/mcp" | "/mcp/{channel}") => {
                json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
                "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}})
            }
            ("post", "/api/v1/channels/{id}/messages")
            | ("patch", "/api/v1/channels/{id}/messages/{event_id}")
            | ("put", "/api/v1/channels/{id}/artifacts/{slug}") => json!({"content": word}),
            ("post", "/api/v1/channels/{id}/messages/{event_id}/reactions") => json!({"signal": "seen"}),
            ("post", "/api/v1/channels/{id}/members") if self.random.below(2) == 0 => {
                json!({"agent": self.random.one_of(&["alice", "bob", "nobody"])})
            }
            ("post", "/api/v1/channels/{id}/members") => {
                let known_or_not = ["anna@example.org", "ben@example.org", "nobody@example.org"];
                json!({"account": self.random.one_of(&known_or_not)})
            }
            ("post", "/api/v1/channels/{id}/artifacts") => {
                json!({"slug": format!("d{}", self.random.below(50)), "content": word})
            }
            ("post", "/register") => json!({"agent_id": format!("own-{}", self.random.below(1000))}),
            ("post", "/c2a") => {
                let tool =
                    self.random.one_of(&["chat.list_events", "chat.claim", "chat.defer", "chat.resolve"]);
                json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                    "params": {"name": tool, "arguments": {"eventId": word}}})
            }
            ("post", "/market/transfer") => {
                let from = self.random.one_of(&["owner of carol", "owner of dave", "nobody"]);
                let id = "11111111-1111-4111-8111-111111111111";
                json!({"transfer_id": id, "from_owner": from, "to_owner": word, "amount": 1})
            }
            ("post", "/market/jobs" | "/market/quotes") => {
                json!({"skill_name": "analyze_text", "input_data": {"text": word}, "budget": 2})
            }
            ("post", "/api/v1/streams") => json!({"name": word, "conversations": ["{own:channel}"]}),
            ("post", "/api/v1/scores") => crate::choir::score(),
            ("post", "/api/v1/dms") if self.random.below(2) == 0 => {
                json!({"with": self.random.one_of(&["alice", "bob", "nobody"])})
            }
            ("post", "/api/v1/dms") => json!({"with": word}),
            ("post", "/api/v1/me/blocks") => {
                json!({"who": self.random.one_of(&["alice", "bob", "carol", "nobody", &word])})
            }
            _ => return None,
        })
    }

    /// Generates a value of this schema.
    pub(super) fn value(&mut self, schema: &Value, depth: usize) -> Value {
        if depth > 6 {
            return Value::Null;
        }
        if let Some(name) = schema["$ref"].as_str() {
            let schema = self.document.pointer(&name[1..]).cloned().unwrap_or_default();
            return self.value(&schema, depth + 1);
        }
        for choice in ["oneOf", "anyOf", "allOf"] {
            if let Some(of) = schema[choice].as_array().filter(|of| !of.is_empty()) {
                let chosen = of[self.random.below(of.len())].clone();
                return self.value(&chosen, depth + 1);
            }
        }
        if let Some(of) = schema["enum"].as_array().filter(|of| !of.is_empty()) {
            return of[self.random.below(of.len())].clone();
        }
        let kinds = schema["type"].as_array().cloned().unwrap_or_else(|| vec![schema["type"].clone()]);
        match kinds[0].as_str().unwrap_or("string") {
            "object" => {
                let mut members = Map::new();
                let required = schema["required"].as_array().cloned().unwrap_or_default();
                for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
                    if required.iter().any(|wanted| wanted == name) || self.random.below(2) == 0 {
                        members.insert(name.clone(), self.value(schema, depth + 1));
                    }
                }
                members.into()
            }
            "array" => (0..self.random.below(3)).map(|_| self.value(&schema["items"], depth + 1)).collect(),
            "integer" | "number" => self.random.below(5).into(),
            "boolean" => (self.random.below(2) == 0).into(),
            _ => self.random.text(&self.words).into(),
        }
    }
}
