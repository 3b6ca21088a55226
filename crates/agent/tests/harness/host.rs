//! A C2A host written from the document alone, on a real socket. It delivers until an acknowledgement comes,
//! deduplicates tool calls by idempotency key, and records everything it receives.

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

const SOON: Duration = Duration::from_secs(30);

#[derive(Default, Clone)]
pub(crate) struct World {
    /// The deliveries, sent until they are acknowledged, and the notifications, sent once.
    deliveries: Vec<Value>,
    notices: Vec<Value>,
    /// The ids of acknowledged deliveries, in order.
    pub(crate) acked: Vec<String>,
    /// Other responses to deliveries.
    pub(crate) refused: Vec<Value>,
    /// All `initialize` requests.
    pub(crate) greetings: Vec<Value>,
    /// The `Authorization` header of each session.
    pub(crate) keys: Vec<String>,
    /// The harness's notifications: the method and the parameters.
    pub(crate) told: Vec<(String, Value)>,
    /// The called tools: the name and the arguments.
    pub(crate) called: Vec<(String, Value)>,
    /// The sent messages, one for each idempotency key.
    pub(crate) said: Vec<Value>,
    said_under: HashMap<String, Value>,
    /// The response to `chat.claim`.
    pub(crate) claim: Value,
    /// Incremented to break all sessions.
    era: u64,
    /// The close code for broken sessions. `None` just drops them.
    pub(crate) close: Option<u16>,
    /// Breaks the session at the next send, before it is answered.
    pub(crate) break_at_send: bool,
    /// Breaks the session at the next claim, before it is answered.
    pub(crate) break_at_claim: bool,
}

#[derive(Clone)]
pub(crate) struct Host {
    pub(crate) url: String,
    world: Arc<watch::Sender<World>>,
}

impl Host {
    pub(crate) async fn start() -> Self {
        rustls::crypto::ring::default_provider().install_default().ok();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let host = Self { url, world: Arc::new(watch::Sender::new(World::default())) };
        let own = host.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(own.clone().serve(stream));
            }
        });
        host
    }

    pub(crate) fn world(&self) -> World {
        self.world.borrow().clone()
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut World)) {
        self.world.send_modify(change);
    }

    pub(crate) fn deliver(&self, params: Value) {
        self.change(|world| world.deliveries.push(params));
    }

    pub(crate) fn tell(&self, method: &str, params: Value) {
        let notice = json!({"jsonrpc": "2.0", "method": method, "params": params});
        self.change(|world| world.notices.push(notice));
    }

    /// Delivers the acknowledged events again, on a new session.
    pub(crate) fn deliver_again(&self) {
        self.change(|world| world.acked.clear());
        self.cut();
    }

    /// Breaks all sessions.
    pub(crate) fn cut(&self) {
        self.change(|world| world.era += 1);
    }

    pub(crate) async fn until(&self, what: &str, done: impl FnMut(&World) -> bool) -> World {
        let mut world = self.world.subscribe();
        let Ok(waited) = tokio::time::timeout(SOON, world.wait_for(done)).await else {
            let world = self.world();
            panic!("{what} did not happen; told: {:#?}; called: {:#?}", world.told, world.called);
        };
        waited.unwrap().clone()
    }

    #[expect(clippy::result_large_err, reason = "the library's own type")]
    async fn serve(self, stream: TcpStream) {
        let own = self.clone();
        let look = move |request: &Request, response: Response| {
            assert_eq!(request.uri().path(), "/c2a");
            let key = request.headers().get("authorization").unwrap().to_str().unwrap().to_owned();
            own.change(|world| world.keys.push(key));
            Ok(response)
        };
        // Requests that are no WebSocket are refused: this host offers nothing else.
        let Ok(mut socket) = tokio_tungstenite::accept_hdr_async(stream, look).await else { return };
        let (mut world, mut greeted) = (self.world.subscribe(), false);
        let (era, mut delivered, mut noticed) = (self.world().era, 0, self.world().notices.len());
        // A new session delivers everything that was not acknowledged.
        let mut sent = self.world().acked;
        loop {
            let now = self.world();
            if now.era != era {
                if let Some(code) = now.close {
                    socket.close(Some(CloseFrame { code: code.into(), reason: "".into() })).await.ok();
                    while let Some(Ok(_)) = socket.next().await {}
                }
                return;
            }
            if greeted {
                for params in &now.deliveries {
                    let id = params["eventId"].as_str().unwrap().to_owned();
                    if sent.contains(&id) {
                        continue;
                    }
                    sent.push(id.clone());
                    delivered += 1;
                    let id = format!("deliver {delivered} {id}");
                    let request =
                        json!({"jsonrpc": "2.0", "id": id, "method": "chat/deliver", "params": params});
                    socket.send(Message::text(request.to_string())).await.ok();
                }
                for notice in &now.notices[noticed..] {
                    socket.send(Message::text(notice.to_string())).await.ok();
                }
                noticed = now.notices.len();
            }
            tokio::select! {
                changed = world.changed() => changed.unwrap(),
                message = socket.next() => {
                    let Some(Ok(message)) = message else { return };
                    let Message::Text(text) = message else { continue };
                    let message: Value = serde_json::from_str(text.as_str()).unwrap();
                    assert_eq!(message["jsonrpc"], "2.0");
                    greeted |= message["method"] == "initialize";
                    let Ok(answer) = self.take(&message) else { return };
                    if let Some(result) = answer {
                        let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
                        socket.send(Message::text(answer.to_string())).await.ok();
                    }
                }
            }
        }
    }

    /// Returns the response to a message, if there is one. An error breaks the session.
    fn take(&self, message: &Value) -> Result<Option<Value>, ()> {
        let params = &message["params"];
        Ok(match message["method"].as_str() {
            None => {
                let id = message["id"].as_str().unwrap().rsplit(' ').next().unwrap().to_owned();
                self.change(|world| match message["result"]["status"].as_str() {
                    Some("accepted") => world.acked.push(id),
                    _ => world.refused.push(message.clone()),
                });
                None
            }
            Some("initialize") => {
                self.change(|world| world.greetings.push(params.clone()));
                Some(json!({"protocolVersion": "2026-06-02", "capabilities": params["capabilities"]}))
            }
            Some("tools/list") => Some(tools()),
            Some("tools/call") => Some(self.call(params)?),
            Some(method) => {
                self.change(|world| world.told.push((method.to_owned(), params.clone())));
                None
            }
        })
    }

    fn call(&self, params: &Value) -> Result<Value, ()> {
        let (name, arguments) = (params["name"].as_str().unwrap().to_owned(), params["arguments"].clone());
        self.change(|world| world.called.push((name.clone(), arguments.clone())));
        let done = match name.as_str() {
            "chat.send_message" => {
                let (mut breaks, mut done) = (false, json!({}));
                self.change(|world| {
                    let key = arguments["idempotencyKey"].as_str().unwrap().to_owned();
                    if world.said_under.insert(key, arguments.clone()).is_none() {
                        world.said.push(arguments.clone());
                    }
                    breaks = std::mem::take(&mut world.break_at_send);
                    done = json!({"eventId": format!("evt_answer_{}", world.said.len())});
                });
                if breaks {
                    return Err(());
                }
                done
            }
            "chat.claim" => {
                let mut breaks = false;
                self.change(|world| breaks = std::mem::take(&mut world.break_at_claim));
                if breaks {
                    return Err(());
                }
                self.world().claim
            }
            _ => json!({"eventId": arguments["inReplyTo"], "disposition": "acknowledged"}),
        };
        let is_error = done.get("code").is_some();
        let text = done["message"].as_str().map_or_else(|| done.to_string(), str::to_owned);
        Ok(
            json!({"content": [{"type": "text", "text": text}], "structuredContent": done, "isError": is_error}),
        )
    }
}

fn tools() -> Value {
    let tool = |name: &str| json!({"name": name, "description": "As the document says.", "inputSchema": {"type": "object"}});
    json!({"tools": [tool("chat.send_message"), tool("chat.react"), tool("chat.read_thread")]})
}

/// Returns the delivery of a message by anna.
pub(crate) fn event(id: &str, text: &str) -> Value {
    json!({
        "eventId": id,
        "conversation": {"id": "ch_1", "kind": "channel"},
        "author": {"id": "acc_1", "kind": "human", "displayName": "anna"},
        "target": {"mentions": ["agent:echo"], "directedness": "to_me"},
        "content": [{"type": "text", "text": text}],
        "timing": {"createdAt": "2026-06-02T19:10:00Z", "sequence": 42},
        "attention": {"policy": "must_respond", "reason": "direct_mention"},
        "injection": {"mode": "buffered"},
        "reliability": {"attempt": 1, "idempotencyKey": format!("{id}:echo")}
    })
}

/// Returns the delivery of a withheld message.
pub(crate) fn knock(id: &str, reason: &str) -> Value {
    let mut knock = event(id, "");
    knock.as_object_mut().unwrap().remove("content");
    knock["target"] = json!({"directedness": "to_my_role"});
    knock["attention"] = json!({"policy": "may_respond", "reason": reason});
    knock["injection"] = json!({"mode": "notify"});
    knock["knock"] = json!({"from": "human:anna", "where": "channel:ops", "directedness": "to_my_role",
        "policy": "may_respond", "priority": "normal", "topic": "a question in ops", "pullWith": "chat.read_thread"});
    knock
}
