//! The same stranger at two hubs that differ only in other people's private data: every response is identical,
//! apart from ids and times.
//!
//! Requests are generated from the API's own description, so that a new route is included as soon as it is
//! documented. Their words come from the private data, and their ids belong to objects that exist on only one
//! of the two hubs.

mod private;
mod requests;

use self::requests::{Asked, RequestGenerator};
use crate::market::Trader;
use crate::support::{Answer, OPERATOR, Setup, TestHub, envelope};
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

const REQUESTS: usize = 3400;
/// The number of requests after which the stranger renews its own objects.
const RENEWED_EVERY: usize = 100;
/// One of this many requests is meant to succeed.
const MEANT_EVERY: usize = 5;
/// The most differences that are shown.
const MOST_TOLD: usize = 20;
const SEED: u64 = 0x5eed_0f57_a26f;
/// Routes whose response is a stream, of which only the head is read.
const HEAD_ONLY: &[&str] = &[
    // The response is signed and contains the hub's own address.
    "/api/v1/log/checkpoint",
    "/agent/inbox",
    "/api/v1/channels/{id}/stream",
    "/api/v1/fleet/stream",
    "/mcp/{channel}",
];
/// Counters and times of the process itself. Presence is public, but when a closed inbox is noticed is random.
/// The number of receipts is public too, but when the log was last read is random.
const OWN_COUNTERS: &[&str] = &["write_latency_ms", "queued", "uptime_s", "open_inboxes", "last_hour", "log"];

/// Requests of a stranger that must succeed for the test to be meaningful.
const MUST_SUCCEED: &[(&str, &str)] = &[
    ("post", "/messages"),
    ("get", "/agents"),
    ("get", "/agents/{id}"),
    ("get", "/agent/messages"),
    ("post", "/register"),
    ("get", "/api/v1/me"),
    ("get", "/api/v1/agents"),
    ("get", "/api/v1/agents/{id}"),
    ("get", "/api/v1/search"),
    ("get", "/api/v1/tokens"),
    ("get", "/api/v1/deliveries"),
    ("get", "/api/v1/me/invitations"),
    ("get", "/api/v1/me/blocks"),
    ("post", "/api/v1/me/blocks"),
    ("post", "/api/v1/dms"),
    ("get", "/api/v1/channels"),
    ("get", "/api/v1/channels/{id}"),
    ("get", "/api/v1/channels/{id}/events"),
    ("get", "/api/v1/channels/{id}/members"),
    ("post", "/api/v1/channels/{id}/members"),
    ("post", "/api/v1/channels/{id}/messages"),
    ("get", "/api/v1/channels/{id}/artifacts"),
    ("get", "/api/v1/channels/{id}/artifacts/{slug}"),
    ("get", "/api/v1/events/{event_id}"),
    ("get", "/api/v1/streams"),
    ("post", "/api/v1/streams"),
    ("get", "/api/v1/streams/{id}"),
    ("get", "/market/discover"),
    ("get", "/market/economy"),
    ("get", "/market/jobs"),
    ("get", "/market/ledger"),
    ("get", "/market/skills"),
    ("post", "/api/v1/scores"),
    ("get", "/api/v1/scores"),
    ("post", "/c2a"),
];

fn bait(n: usize) -> String {
    format!("quagga{n}")
}

/// One of the two hubs, and the stranger's objects there. They differ only in their ids, so requests name them
/// `{own:…}`.
struct Side {
    hub: TestHub,
    own: BTreeMap<&'static str, String>,
    traders: [Trader; 2],
}

impl Side {
    /// Creates the public objects and the stranger's own.
    async fn begin(setup: Setup) -> Self {
        let hub = setup.start();
        let mut own = BTreeMap::new();
        for name in ["alice", "bob"] {
            // The keys are needed later to create the private data.
            let key = hub.register(name).await;
            // The time of its last activity is public.
            assert_eq!(hub.get("/agent/messages", Some(&key)).await.status, 200);
            own.insert(if name == "alice" { "key of alice" } else { "key of bob" }, key);
        }
        // The owner of an agent cannot be hidden from a caller who adds it to a channel, but other members
        // can.
        let olga = hub.account("olga@example.org").await;
        let claimed =
            hub.post("/api/v1/agents/claim", Some(&olga), &json!({"api_key": own["key of alice"]})).await;
        assert_eq!(claimed.status, 200, "{}", claimed.text);
        own.insert("key of olga", olga);
        own.insert("agent key", hub.register("mallory").await);
        own.insert("person key", hub.account("mallory@example.org").await);
        own.insert("next", "0".to_owned());
        let traders = private::traders(&hub).await;
        // The stranger also trades and has an owner key.
        let trudy = crate::market::trader(&hub, "trudy", 0).await;
        let dearest = crate::market::registration("trudy", &trudy.owner, "0.30");
        assert_eq!(hub.post("/market/register", Some(&trudy.key), &dearest).await.status, 200);
        own.insert("owner key", trudy.owner_key);
        let mut side = Self { hub, own, traders };
        side.renew(0).await;
        side
    }

    /// Creates new objects of the stranger, because the former ones may be gone.
    async fn renew(&mut self, n: usize) {
        private::show_signs_of_life(&self.hub, &self.traders).await;
        let agent = self.own["agent key"].clone();
        let channel = self.hub.channel(&agent, &json!({"name": "mine"})).await;
        // Each bait is a word that others used before.
        for text in ["zebra of mine", "4711 is mine", &bait(n)] {
            let said = self.hub.say(&channel, &agent, &json!({"content": text})).await;
            self.own.insert("event", said["event_id"].as_str().unwrap().to_owned());
        }
        let notes = json!({"slug": "notes", "content": "mine"});
        assert_eq!(self.hub.post(&format!("{channel}/artifacts"), Some(&agent), &notes).await.status, 201);
        let id = channel.rsplit('/').next().unwrap().to_owned();
        let stream = json!({"name": "zebra of mine", "conversations": [id]});
        let stream = self.hub.post("/api/v1/streams", Some(&agent), &stream).await;
        assert_eq!(stream.status, 201, "{}", stream.text);
        self.own.insert("stream", stream.body["id"].as_str().unwrap().to_owned());
        self.own.insert("channel", id);
    }

    /// Creates the data that the stranger must not notice. Returns its ids and names.
    async fn private(&self) -> Vec<String> {
        let hub = &self.hub;
        let (anna, ben) = (hub.account("anna@example.org").await, hub.account("ben@example.org").await);
        let (alice, bob) = (&self.own["key of alice"], &self.own["key of bob"]);
        let mut ids: Vec<String> =
            ["anna@example.org", "ben@example.org", "anna", "ben", "hush", "plan"].map(Into::into).into();
        let me = hub.get("/api/v1/me", Some(&anna)).await;
        ids.push(me.body["id"].as_str().unwrap().to_owned());
        let channel = hub.channel(&anna, &json!({"name": "hush", "context": "zebra"})).await;
        ids.push(channel.rsplit('/').next().unwrap().to_owned());
        let added = json!({"agent": "alice", "handle": "ali", "roles": ["keeper"]});
        // The operator adds the member, because anna shares no conversation with olga.
        hub.add(&channel, OPERATOR, &added).await;
        for n in 0..REQUESTS / RENEWED_EVERY {
            let said = hub
                .say(
                    &channel,
                    &anna,
                    &json!({"content": format!("@ali the zebra's PIN is 4711, {}", bait(n))}),
                )
                .await;
            ids.push(said["event_id"].as_str().unwrap().to_owned());
        }
        let plan = json!({"slug": "plan", "content": "zebra 4711"});
        assert_eq!(hub.post(&format!("{channel}/artifacts"), Some(&anna), &plan).await.status, 201);
        let token = hub.post("/api/v1/tokens", Some(&anna), &json!({"label": "zebra"})).await;
        ids.push(token.body["id"].as_str().unwrap().to_owned());
        let invited =
            hub.post("/api/v1/invitations", Some(&anna), &json!({"email": "carl@example.org"})).await;
        assert_eq!(invited.status, 201, "{}", invited.text);
        let deliveries = hub.get("/api/v1/deliveries", Some(&self.own["key of olga"])).await;
        ids.push(deliveries.body["items"][0]["id"].as_str().unwrap().to_owned());
        for (from, key, to) in [("alice", alice, "bob"), ("bob", bob, "alice")] {
            assert_eq!(hub.send_envelope(key, to, &envelope(from, "zebra 4711")).await.status, 202);
        }
        let dm = hub.post("/api/v1/dms", Some(bob), &json!({"with": "alice"})).await;
        let dm = dm.body["id"].as_str().unwrap().to_owned();
        hub.say(&format!("/api/v1/channels/{dm}"), bob, &json!({"content": "zebra 4711 between us"})).await;
        ids.push(dm);
        let events = [&ids[8], &ids[9]].map(String::as_str);
        private::attend(hub, alice, events).await;
        ids.extend(private::streams(hub, &anna, &channel).await);
        ids.extend(private::trade(hub, &self.traders).await);
        ids.extend(private::rehearse(hub, &anna).await);
        // A failed delivery, and a removed member.
        hub.delete(&format!("{channel}/members/ali"), Some(&anna)).await;
        drop(ben);
        ids
    }

    fn fill(&self, text: &str) -> String {
        self.own
            .iter()
            .fold(text.to_owned(), |text, (name, own)| text.replace(&format!("{{own:{name}}}"), own))
    }

    async fn ask(&mut self, asked: &Asked) -> (u16, String) {
        let key = asked.key.map(|key| self.own.get(key).map_or(key, String::as_str));
        let method = Method::from_bytes(asked.method.to_uppercase().as_bytes()).unwrap();
        let mut request =
            self.hub.request(method, &self.fill(&asked.path), key).timeout(Duration::from_secs(30));
        if let Some(body) = &asked.body {
            request = request.header("content-type", "application/json").body(self.fill(&body.to_string()));
        }
        let response = request.send().await.unwrap();
        if HEAD_ONLY.contains(&asked.route.as_str()) && response.status() == 200 {
            return (200, response.headers()["content-type"].to_str().unwrap().to_owned());
        }
        let mut answer = Answer::read(response).await;
        let mut headers: Vec<_> = answer.headers.keys().map(|name| name.as_str().to_owned()).collect();
        headers.sort();
        let next =
            [&answer.body["next"], &answer.body["metadata"]["next"]].into_iter().find_map(Value::as_str);
        if let Some(next) = next {
            self.own.insert("next", next.to_owned());
        }
        without_own_counters(&mut answer.body);
        if asked.route == "/api/v1/channels" && asked.method == "get" && answer.status == 200 {
            in_one_order(&mut answer.body, !asked.path.contains('?'));
        }
        let body = match &answer.body {
            Value::Null if asked.route == "/api/v1/channels" => String::new(),
            Value::Null => answer.text.clone(),
            body => body.to_string(),
        };
        let told = format!("{body} {headers:?} {}", answer.header("retry-after"));
        (answer.status, without_ids(&without_signs(&told.replace(&self.hub.url, "HUB"))))
    }
}

fn without_own_counters(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, _| !OWN_COUNTERS.contains(&name.as_str()));
            members.values_mut().for_each(without_own_counters);
        }
        Value::Array(items) => items.iter_mut().for_each(without_own_counters),
        _ => {}
    }
}

/// Sorts a page of conversations. The id of a direct conversation derives from its members' ids, so its
/// position in a list is random, and so is the content of a page.
fn in_one_order(page: &mut Value, whole: bool) {
    let whole = whole && page["next"].is_null();
    let Some(items) = page["items"].as_array_mut() else { return };
    items.sort_by_key(|item| without_ids(&item.to_string()));
    if !whole {
        *page = Value::Null;
    }
}

/// Removes the drawings of ids and the durations of agent states.
fn without_signs(text: &str) -> String {
    let mut parts = text.split("<rect ");
    let first = parts.next().unwrap_or_default().to_owned();
    let text = parts.fold(first, |shown, part| shown + part.split_once("/>").map_or(part, |(_, rest)| rest));
    let mut parts = text.split(r#"data-label="For">"#);
    let first = parts.next().unwrap_or_default().to_owned();
    let text = parts.fold(first, |shown, part| shown + part.split_once('<').map_or(part, |(_, rest)| rest));
    let mut parts = text.split(r#"<span class="small muted">"#);
    let first = parts.next().unwrap_or_default().to_owned();
    let is_digit = |sign: char| sign.is_ascii_digit();
    let text = parts.fold(first, |shown, part| shown + part.trim_start_matches(is_digit));
    let mut parts = text.split(" hue");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |shown, part| shown + part.trim_start_matches(|sign: char| sign.is_ascii_digit()))
}

/// Returns the main part of a page. The rail lists the stranger's direct conversations in the random order of
/// their ids.
fn main_of((status, text): (u16, String)) -> (u16, String) {
    let main = text.split_once("<main").map(|(_, main)| main.to_owned());
    (status, main.unwrap_or(text))
}

/// Webhook secrets have another form than all other secrets.
fn without_webhook_secrets(text: &str) -> String {
    let mut parts = text.split("whsec_");
    let first = parts.next().unwrap_or_default().to_owned();
    let is_base64 = |sign: char| sign.is_ascii_alphanumeric() || "+/=".contains(sign);
    parts.fold(first, |shown, part| format!("{shown}ID{}", part.trim_start_matches(is_base64)))
}

/// Replaces every id, secret and time by a placeholder.
fn without_ids(text: &str) -> String {
    let is_part = |sign: char| sign.is_ascii_alphanumeric() || "_-:.".contains(sign);
    let mut shown = String::new();
    let text = without_webhook_secrets(text);
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let end = rest.find(|sign| !is_part(sign)).unwrap_or(rest.len());
        let (token, after) = rest.split_at(end);
        let time = token.len() >= 20 && token.as_bytes()[4] == b'-' && token.as_bytes()[10] == b'T';
        let hex = token.split(|sign: char| !sign.is_ascii_hexdigit()).map(str::len).max().unwrap_or(0) >= 12;
        let secret = ["tok_", "mt_", "si_"].iter().any(|prefix| token.starts_with(prefix));
        shown.push_str(if time {
            "TIME"
        } else if hex || secret {
            "ID"
        } else {
            token
        });
        let sign = after.chars().next();
        shown.extend(sign);
        rest = &after[sign.map_or(0, char::len_utf8)..];
    }
    shown
}

/// Returns pages of others' boards, streams, jobs, offers and Scores, and lists of them, for each kind of
/// stranger.
fn pages(private: &[String]) -> Vec<(String, Option<&'static str>)> {
    let lists = ["/streams", "/jobs", "/scores", "/fleet", "/search?q=zebra", "/quotes/new"];
    let mut paths: Vec<_> = lists.map(str::to_owned).into();
    let event = private.iter().find(|id| id.starts_with("evt_")).expect("somebody said something");
    for id in private.iter().filter(|id| !id.contains('@')) {
        if id.starts_with("ch_") {
            for page in ["", "/board", "/items", "/waiting", "/settings", "/documents/plan", "?side=board"] {
                paths.push(format!("/c/{id}{page}"));
            }
            paths.extend([format!("/c/{id}/why/{event}"), format!("/c/{id}/t/{event}")]);
        } else if !id.starts_with("evt_") {
            paths.extend(["streams", "jobs", "quotes", "scores"].map(|of| format!("/{of}/{id}")));
        }
    }
    // Pages of the stranger's own channel, with others' events in their addresses.
    paths.extend([format!("/c/{{own:channel}}/why/{event}"), format!("/c/{{own:channel}}/t/{event}")]);
    let keys = [None, Some("agent key"), Some("person key"), Some("owner key")];
    paths.into_iter().flat_map(|path| keys.map(move |key| (path.clone(), key))).collect()
}

async fn compare(setup: impl Fn() -> Setup) {
    let (mut plain, mut other) = (Side::begin(setup()).await, Side::begin(setup()).await);
    let mut generator = RequestGenerator::new(other.private().await);
    // The number of receipts is public.
    private::rehearse(&plain.hub, &plain.own["key of olga"]).await;
    let (mut routes, mut statuses, mut told) = (BTreeMap::new(), BTreeMap::new(), vec![]);
    for n in 0..REQUESTS {
        if n % RENEWED_EVERY == 0 {
            plain.renew(n / RENEWED_EVERY).await;
            other.renew(n / RENEWED_EVERY).await;
        }
        let asked = generator.asked(n);
        if asked.is_left_out() {
            continue;
        }
        let (here, there) = (plain.ask(&asked).await, other.ask(&asked).await);
        let Asked { method, route, path, key, body } = asked;
        assert!(
            here.0 != 500 && there.0 != 500,
            "{n}: {method} {path} as {key:?} with {body:?}: {here:?} {there:?}"
        );
        if here != there && told.len() < MOST_TOLD {
            let same = here.1.chars().zip(there.1.chars()).take_while(|(here, there)| here == there).count();
            let from = same.saturating_sub(80);
            let short = |(status, text): &(u16, String)| {
                format!("{status} …{}", text.chars().skip(from).take(300).collect::<String>())
            };
            let (here, there) = (short(&here), short(&there));
            told.push(format!("{n}: {method} {path} as {key:?} with {body:?}\n  {here}\n  {there}"));
        }
        *routes.entry((method, route)).or_insert(0) += i32::from(here.0 < 300);
        *statuses.entry(here.0).or_insert(0) += 1;
    }
    for (path, key) in pages(&generator.private) {
        let asked =
            Asked { method: "get".to_owned(), route: "page".to_owned(), path: path.clone(), key, body: None };
        let (here, there) = (main_of(plain.ask(&asked).await), main_of(other.ask(&asked).await));
        assert!(here.0 != 500 && there.0 != 500, "{path} as {key:?}: {here:?} {there:?}");
        if here != there && told.len() < MOST_TOLD {
            let same = here.1.chars().zip(there.1.chars()).take_while(|(here, there)| here == there).count();
            let short = |text: &str| text.chars().skip(same.saturating_sub(80)).take(300).collect::<String>();
            told.push(format!("the page {path} as {key:?}\n  {}\n  {}", short(&here.1), short(&there.1)));
        }
    }
    assert!(told.is_empty(), "these tell the hubs apart:\n{}", told.join("\n"));
    let missed: Vec<_> =
        generator.operations.iter().filter(|operation| !routes.contains_key(operation)).collect();
    assert!(missed.is_empty(), "never asked: {missed:?}");
    // The stranger succeeded where it may: refusals alone would prove nothing.
    for (method, route) in MUST_SUCCEED {
        let succeeded = routes.get(&((*method).to_owned(), (*route).to_owned()));
        assert!(succeeded.is_some_and(|count| *count > 0), "{method} {route} never succeeded: {statuses:?}");
    }
    // The private data really exists.
    assert!(other.hub.get("/api/v1/deliveries", Some(OPERATOR)).await.text.contains("alice"));
}

#[tokio::test]
async fn a_stranger_cannot_tell_the_hubs_apart() {
    compare(Setup::new).await;
}

#[tokio::test]
async fn a_stranger_cannot_tell_the_hubs_apart_on_postgres() {
    compare(Setup::postgres).await;
}

#[test]
fn what_is_left_of_an_answer() {
    let text = r#"{"id":"evt_0190a3c4d5e67f8090a1b2c3d4e5f607","at":"2026-11-15T18:02:40.051Z","n":12,"to":"alice"}"#;
    assert_eq!(without_ids(text), r#"{"id":"ID","at":"TIME","n":12,"to":"alice"}"#);
}
