//! A server for the official conformance suite: its fixtures on the protocol of this crate. See
//! `scripts/mcp-conformance`.
//!
//! The suite needs tools that a channel does not have, some of which ask the client for input. They live here,
//! outside the hub. The suite tests what they share with it: messages, revisions, headers, sessions, streams
//! and the guard.

mod fixtures;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use chorus_mcp::{About, Ask, Notice, Notices, Outlet, Revision, Service, Wants, answer, code, guard};
use chorus_protocol::rpc::{Id, Response as RpcResponse, RpcError};
use fixtures::{
    PIXEL, SOUND, argument, choices, defaults, elicit, input_required, member, prompt, prompts, resource,
    resources, sample, text, tools,
};
use futures_util::StreamExt;
use futures_util::stream;
use serde_json::{Map, Value, json};
use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{broadcast, oneshot};
use tokio_util::sync::CancellationToken;

/// The time that a client has to answer.
const PATIENCE: Duration = Duration::from_secs(10);
const MAX_BODY: usize = 1024 * 1024;

struct Fixtures {
    sessions: Mutex<HashSet<String>>,
    /// The senders for pending requests to clients, by request id.
    asked: Mutex<HashMap<String, oneshot::Sender<Result<Value, RpcError>>>>,
    count: AtomicU64,
    changes: broadcast::Sender<&'static str>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the result of a tool that requests input in its result, or `None` for other tools.
fn asking(ask: &Ask, name: &str) -> Option<Result<Value, RpcError>> {
    let name_of = || elicit("What is your name?", json!({"name": {"type": "string"}}), &["name"]);
    let confirm = || elicit("Please confirm", json!({"ok": {"type": "boolean"}}), &["ok"]);
    let roots = || json!({"method": "roots/list", "params": {}});
    let can = |capability: &str| ask.capabilities.get(capability).is_some();
    Some(match name {
        "test_input_required_result_elicitation" | "test_streaming_elicitation" => {
            input_required(ask, json!({"user_name": name_of()}), None, "Hello!")
        }
        "test_input_required_result_sampling" => input_required(
            ask,
            json!({"capital_question": sample("What is the capital of France?")}),
            None,
            "Paris",
        ),
        "test_input_required_result_list_roots" => {
            input_required(ask, json!({"client_roots": roots()}), None, "Roots")
        }
        "test_input_required_result_request_state" | "test_input_required_result_tampered_state" => {
            input_required(ask, json!({"confirm": confirm()}), Some("state-1"), "state-ok")
        }
        "test_input_required_result_multiple_inputs" => {
            let wanted = json!({"user_name": name_of(), "greeting": sample("Generate a greeting"), "client_roots": roots()});
            input_required(ask, wanted, Some("state-1"), "All there")
        }
        "test_input_required_result_multi_round" => {
            match ask.params.get("requestState").and_then(Value::as_str) {
                None => input_required(ask, json!({"step1": name_of()}), Some("round-1"), ""),
                Some("round-1") => {
                    let color = elicit(
                        "Step 2: What is your favorite color?",
                        json!({"color": {"type": "string"}}),
                        &["color"],
                    );
                    let asked = json!({"resultType": "input_required", "inputRequests": {"step2": color}, "requestState": "round-2"});
                    Ok(asked)
                }
                Some("round-2") => Ok(text("Both steps are done")),
                Some(_) => Err(RpcError::params("requestState: was not given out by this server")),
            }
        }
        "test_input_required_result_capabilities" => {
            let mut wanted = Map::new();
            if can("elicitation") {
                wanted.insert("user_name".into(), name_of());
            }
            if can("sampling") {
                wanted.insert("greeting".into(), sample("Generate a greeting"));
            }
            input_required(ask, Value::Object(wanted), None, "Done")
        }
        "test_missing_capability" if !can("sampling") => {
            let missing = json!({"requiredCapabilities": {"sampling": {}}});
            Err(RpcError::new(code::MISSING_CAPABILITY, "this needs sampling").with(missing))
        }
        _ => return None,
    })
}

impl Fixtures {
    /// Sends a request to the client and waits for the response.
    async fn request(&self, out: &Outlet, request: Value) -> Result<Value, RpcError> {
        let id = format!("server-{}", self.count.fetch_add(1, Ordering::Relaxed));
        let (answer, answered) = oneshot::channel();
        lock(&self.asked).insert(id.clone(), answer);
        out.say(
            json!({"jsonrpc": "2.0", "id": id, "method": request["method"], "params": request["params"]}),
        )
        .await;
        match tokio::time::timeout(PATIENCE, answered).await {
            Ok(Ok(Ok(result))) => Ok(result),
            _ => Err(RpcError::new(RpcError::INTERNAL, "the client did not answer")),
        }
    }

    async fn log(&self, ask: &Ask, out: &Outlet, data: &str) {
        let level = member(ask, "_meta", "io.modelcontextprotocol/logLevel");
        if ask.revision == Revision::WithSessions || level.is_some() {
            let params = json!({"level": "info", "logger": "conformance", "data": data});
            out.say(json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params})).await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    async fn progress(&self, ask: &Ask, out: &Outlet) {
        for progress in [0, 50, 100] {
            if let Some(token) = member(ask, "_meta", "progressToken") {
                let params = json!({"progressToken": token, "progress": progress, "total": 100});
                out.say(json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}))
                    .await;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn tool(&self, ask: &Ask, out: &Outlet) -> Result<Value, RpcError> {
        let name = ask.params.get("name").and_then(Value::as_str).unwrap_or_default();
        if let Some(asked) = asking(ask, name) {
            return asked;
        }
        let embedded = |uri: &str, kind: &str, text: &str| json!({"type": "resource", "resource": {"uri": uri, "mimeType": kind, "text": text}});
        let image = json!({"type": "image", "data": PIXEL, "mimeType": "image/png"});
        Ok(match name {
            "test_simple_text" => text("This is a simple text response for testing."),
            "test_image_content" => json!({"content": [image]}),
            "test_audio_content" => {
                json!({"content": [{"type": "audio", "data": SOUND, "mimeType": "audio/wav"}]})
            }
            "test_embedded_resource" => {
                json!({"content": [embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")]})
            }
            "test_multiple_content_types" => json!({"content": [
                {"type": "text", "text": "Multiple content types test:"},
                image,
                embedded("test://mixed-content-resource", "application/json", "{\"test\":\"data\",\"value\":123}"),
            ]}),
            "test_tool_with_logging" | "test_logging_tool" => {
                for data in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
                    self.log(ask, out, data).await;
                }
                text("Logged")
            }
            "test_tool_with_progress" | "test_reconnection" => {
                self.progress(ask, out).await;
                text("Done")
            }
            "test_error_handling" => {
                let mut failed = text("This tool intentionally returns an error for testing");
                failed["isError"] = json!(true);
                failed
            }
            "test_sampling" => {
                let answer = self.request(out, sample(&argument(ask, "prompt"))).await?;
                text(format!("LLM response: {}", answer["content"]["text"].as_str().unwrap_or_default()))
            }
            "test_elicitation" => {
                let wanted = json!({"username": {"type": "string"}, "email": {"type": "string"}});
                let answer = self
                    .request(out, elicit(&argument(ask, "message"), wanted, &["username", "email"]))
                    .await?;
                text(format!("User response: {answer}"))
            }
            "test_elicitation_sep1034_defaults" | "test_elicitation_sep1330_enums" => {
                let wanted = if name.ends_with("enums") { choices() } else { defaults() };
                let answer = self.request(out, elicit("Please fill in", wanted, &[])).await?;
                text(format!(
                    "Elicitation completed: action={}, content={}",
                    answer["action"], answer["content"]
                ))
            }
            "test_trigger_tool_change" => self.changed("notifications/tools/list_changed"),
            "test_trigger_prompt_change" => self.changed("notifications/prompts/list_changed"),
            "test_missing_capability" | "json_schema_2020_12_tool" => text("Done"),
            _ => return Err(RpcError::params(format!("there is no tool {name:?}"))),
        })
    }

    fn changed(&self, method: &'static str) -> Value {
        // This fails if nobody listens, which is fine.
        drop(self.changes.send(method));
        text("Told")
    }
}

type Failure = chorus_mcp::Failure<Infallible>;

impl Service for Fixtures {
    type Refusal = Infallible;

    async fn check_session(&self, session: Option<&str>) -> Result<bool, Infallible> {
        Ok(session.is_some_and(|session| lock(&self.sessions).contains(session)))
    }

    fn info(&self) -> Value {
        json!({"name": "chorus-conformance", "version": env!("CARGO_PKG_VERSION")})
    }

    async fn about(&self) -> Result<About, Failure> {
        let changes = json!({"listChanged": true});
        let resources = json!({"subscribe": true, "listChanged": true});
        let capabilities = json!({"tools": changes, "prompts": changes, "resources": resources, "logging": {}, "completions": {}});
        Ok(About { capabilities, instructions: "For the conformance suite only.".into() })
    }

    async fn begin(&self) -> Result<String, Failure> {
        let id = format!("session-{}", self.count.fetch_add(1, Ordering::Relaxed));
        lock(&self.sessions).insert(id.clone());
        Ok(id)
    }

    async fn end(&self, session: &str) -> Result<(), Failure> {
        lock(&self.sessions).remove(session);
        Ok(())
    }

    async fn call(&self, ask: Ask, out: Outlet) -> Result<Value, Failure> {
        match &*ask.method {
            "tools/list" => Ok(tools()),
            "tools/call" => Ok(self.tool(&ask, &out).await?),
            "prompts/list" => Ok(prompts()),
            "prompts/get" => Ok(prompt(&ask)?),
            "resources/list" => Ok(resources()),
            "resources/templates/list" => Ok(json!({"resourceTemplates": [
                {"uriTemplate": "test://template/{id}/data", "name": "template", "mimeType": "application/json"},
            ]})),
            "resources/read" => Ok(resource(&ask)?),
            "completion/complete" => Ok(json!({"completion": {"values": [], "total": 0, "hasMore": false}})),
            "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe" => Ok(json!({})),
            method => Err(RpcError::method(method).into()),
        }
    }

    async fn notices(&self, wants: Wants) -> Result<Notices, Failure> {
        let told: Vec<&'static str> = match &wants {
            Wants::Session { .. } => {
                vec!["notifications/tools/list_changed", "notifications/prompts/list_changed"]
            }
            Wants::Filter(filter) => [
                ("toolsListChanged", "notifications/tools/list_changed"),
                ("promptsListChanged", "notifications/prompts/list_changed"),
            ]
            .into_iter()
            .filter_map(|(name, method)| (filter.get(name) == Some(&json!(true))).then_some(method))
            .collect(),
        };
        let accepted = match wants {
            Wants::Session { .. } => Value::Null,
            Wants::Filter(filter) => Value::Object(filter),
        };
        let stream = stream::unfold(self.changes.subscribe(), move |mut changes| {
            let told = told.clone();
            async move {
                loop {
                    let method = changes.recv().await.ok()?;
                    if told.contains(&method) {
                        return Some((Notice { id: None, method, params: Map::new() }, changes));
                    }
                }
            }
        });
        Ok(Notices { accepted, stream: stream.boxed() })
    }

    fn heard(&self, _: &str, response: RpcResponse) {
        let Some(Id::Text(id)) = &response.id else { return };
        let waiting = lock(&self.asked).remove(id);
        if let Some(waiting) = waiting {
            // This fails if the request has timed out.
            drop(waiting.send(response.outcome));
        }
    }

    fn ping(&self) -> Duration {
        Duration::from_secs(15)
    }

    fn stopping(&self) -> CancellationToken {
        CancellationToken::new()
    }
}

async fn serve(State(fixtures): State<Arc<Fixtures>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    if let Err(refused) = guard::Names::default().check(&parts.headers) {
        return (StatusCode::FORBIDDEN, refused.to_string()).into_response();
    }
    let Ok(body) = axum::body::to_bytes(body, MAX_BODY).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let request = chorus_mcp::Request { method: parts.method, headers: parts.headers, body };
    answer(fixtures, request).await.unwrap_or_else(|nobody| match nobody {})
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "the script reads the address")]
async fn main() -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    let fixtures = Arc::new(Fixtures {
        sessions: Mutex::default(),
        asked: Mutex::default(),
        count: AtomicU64::new(1),
        changes: broadcast::channel(16).0,
    });
    println!("{url}/mcp");
    axum::serve(listener, axum::Router::new().route("/mcp", axum::routing::any(serve)).with_state(fixtures))
        .await
}
