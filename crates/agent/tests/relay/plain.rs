//! A hub that answers exactly as the transport document shows, without any extension.

use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use chorus_agent::{Change, Client, InboxItem, RegisterBody, SendBody};
use chorus_protocol::words::DeliveryState;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// The common format, as the document shows it.
fn success(data: Value) -> Json<Value> {
    Json(json!({"success": true, "data": data, "metadata": {"timestamp": "2026-03-20T10:00:00.000Z"}}))
}

fn record(name: &str) -> Value {
    json!({"agent_id": name, "endpoint": "https://alice.example/receive", "registered_at": "2026-03-20T10:00:00.000Z",
        "agent_card": {"card_version": "0.3", "user_culture": "en", "supported_languages": ["en"]}})
}

/// Starts such a hub and returns its URL and the bodies it received.
async fn plain_hub() -> (String, Arc<Mutex<Vec<Value>>>) {
    rustls::crypto::ring::default_provider().install_default().ok();
    let taken = Arc::new(Mutex::new(vec![]));
    let (registered, sent) = (Arc::clone(&taken), Arc::clone(&taken));
    let register = async move |Json(body): Json<Value>| {
        let name = body["agent_id"].as_str().unwrap().to_owned();
        registered.lock().unwrap().push(body);
        let data = json!({"agent_id": name, "api_key": "ca_1", "registration": record(&name)});
        (StatusCode::CREATED, success(data))
    };
    let send = async move |Json(body): Json<Value>| {
        sent.lock().unwrap().push(body);
        success(json!({"delivery": "delivered_sse", "trace_id": "any text at all"}))
    };
    let inbox = async || -> Response {
        let envelope = json!({"chorus_version": "0.4", "sender_id": "bob@chorus", "original_text": "hi",
            "sender_culture": "en"});
        let message = json!({"trace_id": "t-1", "sender_id": "bob@chorus", "envelope": envelope});
        let events = format!("event: connected\ndata: {{}}\n\nevent: message\ndata: {message}\n\n");
        ([("content-type", "text/event-stream")], events).into_response()
    };
    let app = Router::new()
        .route("/register", post(register))
        .route("/agents", get(async || success(json!([record("alice@chorus")]))))
        .route("/agents/{id}", get(async |Path(id): Path<String>| success(record(&id))))
        .route("/messages", post(send))
        .route("/agent/inbox", get(inbox))
        .route("/health", get(async || success(json!({"status": "ok"}))));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    (url, taken)
}

#[tokio::test]
async fn every_request_works_and_names_are_whole_on_the_wire() {
    let (url, taken) = plain_hub().await;
    let client = Client::connect(&url, Some("ca_1".into())).unwrap();
    let body = RegisterBody { agent_id: "alice".into(), endpoint: None, agent_card: None, invitation: None };
    let (registered, change) = client.register(&body).await.unwrap();
    assert_eq!((registered.api_key.as_deref(), change), (Some("ca_1"), Change::Created));
    let (agents, next) = client.agents(None, 10).await.unwrap();
    assert_eq!((agents[0].agent_id.as_str(), agents[0].id, next), ("alice@chorus", None, None));
    assert_eq!(client.agent("alice").await.unwrap().agent_id, "alice@chorus");
    let outcome = client.send(&SendBody::new("alice", "bob", "en", "hello"), None).await.unwrap();
    assert_eq!(outcome.delivery, DeliveryState::DeliveredSse);
    assert_eq!(outcome.trace_id.unwrap().0, "any text at all");
    let taken = taken.lock().unwrap().clone();
    assert_eq!(taken[0]["agent_id"], "alice@chorus");
    assert_eq!(
        (&taken[1]["receiver_id"], &taken[1]["envelope"]["sender_id"]),
        (&json!("bob@chorus"), &json!("alice@chorus"))
    );
}

#[tokio::test]
async fn the_inbox_needs_no_ids_and_no_traces_of_ours() {
    let (url, _) = plain_hub().await;
    let client = Client::connect(&url, Some("ca_1".into())).unwrap();
    let mut inbox = client.inbox(None).unwrap();
    assert!(matches!(inbox.next().await, Some(Ok(InboxItem::Connected { .. }))));
    match inbox.next().await {
        Some(Ok(InboxItem::Message { id, message })) => {
            assert_eq!(
                (id, message.trace_id.0.as_str(), message.sender_id.as_str()),
                (None, "t-1", "bob@chorus")
            );
        }
        other => panic!("not a message: {other:?}"),
    }
}
