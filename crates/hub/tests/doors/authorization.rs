//! One table of every route, every kind of caller, and the expected status. A documented route that is missing
//! fails the test.

mod charges;
mod table;
mod world;

use crate::support::{Answer, Inbox, OPERATOR, TestHub};
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use table::{CALLERS, PAGES, TABLE};
use tokio::task::JoinHandle;
use world::{Choir, World, is_choir, reply_address, session};

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

#[tokio::test]
async fn every_caller_of_relay_channel_and_attention() {
    check(|route| !route.starts_with("/api/v1/") && !route.starts_with("/market/") && !is_choir(route)).await;
}

#[tokio::test]
async fn every_caller_of_the_api() {
    check(|route| route.starts_with("/api/v1/") && !is_choir(route)).await;
}

#[tokio::test]
async fn every_caller_of_the_market() {
    check(|route| route.starts_with("/market/")).await;
}

#[tokio::test]
async fn every_caller_of_choir() {
    check(is_choir).await;
}

/// Checks the rows of the matching routes against a hub.
async fn check(is_meant: impl Fn(&str) -> bool) {
    let hub = TestHub::start();
    hub.register("third").await;
    let mut wrong = vec![];
    let rows = TABLE.iter().filter(|(_, route, _)| is_meant(route)).enumerate();
    for (n, (method, route, statuses)) in rows {
        let mut found = [0; 7];
        let mut unchanged = None;
        for (column, status) in found.iter_mut().enumerate() {
            let world = match unchanged.take() {
                Some(world) => world,
                None => World::make(&hub, &format!("{n}-{column}")).await,
            };
            *status = status_of(&hub, &world, method, route, column).await;
            // A refused request has changed nothing.
            unchanged = (*status >= 400).then_some(world);
        }
        if found != *statuses {
            wrong.push(format!("{method} {route}: {found:?}, not {statuses:?}"));
        }
    }
    assert!(wrong.is_empty(), "{CALLERS:?} {wrong:#?}");
}

/// Returns the status that the caller of a column gets.
async fn status_of(hub: &TestHub, world: &World, method: &str, route: &str, column: usize) -> u16 {
    let prepared = Prepared::make(hub, world, method, route).await;
    prepared.call(hub, world, (method, route), column).await
}

/// Everything that a call of a route needs.
struct Prepared {
    path: String,
    choir: Option<Choir>,
    session: Option<String>,
    /// The other end of a stream that is being answered.
    waiting: Option<(Inbox, JoinHandle<Answer>)>,
}

impl Prepared {
    async fn make(hub: &TestHub, world: &World, method: &str, route: &str) -> Self {
        let (mut path, mut waiting) = (world.path(route), None);
        if route == "/agent/replies/{token}" {
            let other = world.keys[3].as_deref().unwrap();
            let (address, inbox, sender) = reply_address(hub, &world.other, other).await;
            (path, waiting) = (address, Some((inbox, sender)));
        }
        let choir = if is_choir(route) { Some(Choir::make(hub, world).await) } else { None };
        if let Some(choir) = &choir {
            path = choir.path(route);
        }
        let needs_session = route == "/mcp/{channel}" && method != "post";
        let session = if needs_session { Some(session(hub, world).await) } else { None };
        Self { path, choir, session, waiting }
    }

    async fn call(self, hub: &TestHub, world: &World, (method, route): (&str, &str), column: usize) -> u16 {
        let upper = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
        let mut request = hub.request(upper, &self.path, world.keys[column].as_deref());
        if route == "/agent/replies/{token}" {
            request = request.body(r#"{"type": "done", "result": 1}"#);
        } else if let Some(choir) = &self.choir {
            request = choir.fill(request, method, route);
        } else if let Some(body) = world.body(method, route) {
            request = request.json(&body);
        } else if let Some(session) = &self.session {
            request = request.header("mcp-session-id", session);
        } else if route == "/c2a" {
            request = request.header("connection", "upgrade").header("upgrade", "websocket");
            request = request.header("sec-websocket-version", "13");
            request = request.header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
        }
        // The stream is not read to its end.
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        drop(self.waiting);
        if status >= 400 {
            let answer = Answer::read(response).await;
            let code = &answer.body["error"]["code"];
            // Errors of MCP itself are in JSON-RPC's format.
            let is_code = code.is_string() || (route.starts_with("/mcp/") && code.is_i64());
            assert!(is_code, "{method} {route}: {}", answer.text);
        }
        status
    }
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
