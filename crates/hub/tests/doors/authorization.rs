//! One table: every route, every kind of caller, the status. A route that is documented and not here fails the test.

use crate::support::{Answer, Inbox, OPERATOR, TestHub, envelope};
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tokio::task::JoinHandle;

/// The callers, in the order of the columns.
const CALLERS: [&str; 5] = ["nobody", "a bad key", "the agent itself", "another agent", "the operator"];

/// What each caller gets when all but its key is in order. `{id}` is the agent itself.
const TABLE: &[(&str, &str, [u16; 5])] = &[
    // Registering a new name, so a key changes nothing.
    ("post", "/register", [201, 201, 201, 201, 201]),
    ("post", "/agents", [401, 401, 403, 403, 201]),
    ("get", "/agents", [200, 401, 200, 200, 200]),
    ("get", "/agents/{id}", [200, 401, 200, 200, 200]),
    ("delete", "/agents/{id}", [401, 401, 200, 403, 200]),
    // As the agent itself.
    ("post", "/messages", [401, 401, 202, 403, 202]),
    // Each agent's own.
    ("get", "/agent/inbox", [401, 401, 200, 200, 403]),
    ("get", "/agent/messages", [401, 401, 200, 200, 403]),
    // The address is the credential.
    ("post", "/agent/replies/{token}", [200, 200, 200, 200, 200]),
    // The same for everybody.
    ("get", "/.well-known/chorus.json", [200, 200, 200, 200, 200]),
    ("get", "/skill", [200, 200, 200, 200, 200]),
    ("get", "/llms.txt", [200, 200, 200, 200, 200]),
    ("get", "/health", [200, 200, 200, 200, 200]),
    ("get", "/metrics", [200, 200, 200, 200, 200]),
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

#[tokio::test]
async fn every_route_for_every_caller() {
    let hub = TestHub::start();
    let mut wrong = vec![];
    for (n, (method, path, statuses)) in TABLE.iter().enumerate() {
        for (column, expected) in statuses.iter().enumerate() {
            let (name, other) = (format!("a-{n}-{column}"), format!("b-{n}-{column}"));
            let (itself, another) = (hub.register(&name).await, hub.register(&other).await);
            let keys = [
                None,
                Some("ca_00000000000000000000000000000000"),
                Some(&*itself),
                Some(&*another),
                Some(OPERATOR),
            ];
            let mut path_here = path.replace("{id}", &name);
            let mut waiting = None;
            if *path == "/agent/replies/{token}" {
                let (address, inbox, sender) = reply_address(&hub, &name, &itself).await;
                (path_here, waiting) = (address, Some((inbox, sender)));
            }
            let method_here = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            let request = hub.request(method_here, &path_here, keys[column]);
            let new = json!({"agent_id": format!("new-{n}-{column}"), "endpoint": "https://alice.example/"});
            let response = match *path {
                "/messages" => {
                    request.json(&json!({"receiver_id": other, "envelope": envelope(&name, "hi")}))
                }
                "/register" | "/agents" if *method == "post" => request.json(&new),
                "/agent/replies/{token}" => request.body(r#"{"type": "done", "result": 1}"#),
                _ => request,
            };
            // A stream is not read to its end.
            let response = response.send().await.unwrap();
            let status = response.status().as_u16();
            drop(waiting);
            if status != *expected {
                wrong.push(format!("{method} {path} by {}: {status}, not {expected}", CALLERS[column]));
            } else if status >= 400 {
                let answer = Answer::read(response).await;
                assert_eq!(answer.body["success"], false, "{method} {path}: {}", answer.text);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
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
