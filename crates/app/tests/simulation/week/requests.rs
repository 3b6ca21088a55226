//! Requests of agents to the hub: callbacks, tools, notifications. Each may be lost, duplicated or late, and
//! so may its response.

use super::story::{Happening, Story};
use chorus_agent::harness::{Event, Post, Posted, To};
use chorus_app::c2a::{self, Harness};
use chorus_app::channel::callback;
use chorus_node::idempotency::Once;
use chorus_node::{AppState, Error};
use chorus_protocol::c2a::{Capabilities, ChatTool, Claimed, Recorded, RefusalCode, ToolFailure, ToolResult};
use chorus_protocol::channel::CallbackEvent;
use chorus_protocol::code::Code;
use serde_json::{Map, Value, json};
use std::sync::Arc;

impl Story {
    pub(crate) fn send(&mut self, n: usize, life: u64, post: Post) {
        if self.goes_wrong(8) {
            let perhaps_arrived = self.world.chance(50);
            let posted = failed("it was lost", Some(0), perhaps_arrived);
            return self.soon(5, 500, Happening::Answered { agent: n, life, number: post.number, posted });
        }
        if self.goes_wrong(8) {
            // A duplicate that may arrive much later.
            self.soon(5, 90_000, Happening::Requested { agent: n, life, post: post.clone() });
        }
        self.soon(5, 400, Happening::Requested { agent: n, life, post });
    }

    /// Handles a request at the hub, whether or not its sender still runs.
    pub(crate) fn request(&mut self, n: usize, life: u64, Post { number, to }: Post) {
        let key = self.agents[n].key.clone();
        let is_notice = matches!(to, To::Notice { .. });
        let mut posted = if self.host.is_up() {
            self.host.run(async |app| {
                let harness = Harness {
                    app: Arc::clone(app),
                    identity: key.identity,
                    key: key.hash,
                    can: Capabilities::ALL,
                    bound: None,
                };
                match to {
                    To::Callback { url, key, event } => take_callback(app, &url, &key, &event).await,
                    To::Tool { tool, arguments } => call(&harness, tool, arguments).await,
                    To::Notice { method, params } => {
                        c2a::tell(&harness, method.as_str(), params).await.unwrap();
                        Posted::Arrived
                    }
                    other => panic!("nothing else is asked: {other:?}"),
                }
            })
        } else {
            failed("nobody is there", Some(0), false)
        };
        self.world.note(format_args!("agent{n} {number}: {posted:?}"));
        self.look_at_claims();
        if matches!(posted, Posted::Arrived | Posted::Given(_)) && !is_notice && self.goes_wrong(8) {
            posted = failed("its answer was lost", Some(0), true);
        }
        self.soon(5, 200, Happening::Answered { agent: n, life, number, posted });
    }

    pub(crate) fn answer(&mut self, n: usize, life: u64, number: u64, posted: Posted) {
        let Some(process) = self.process(n, life) else { return };
        if process.flying.remove(&number).is_some() {
            self.tell(n, Event::Posted { number, posted });
        }
    }
}

async fn take_callback(app: &AppState, url: &str, key: &str, event: &CallbackEvent) -> Posted {
    let mut path = url.rsplit('/');
    let (token, channel) = (path.next().unwrap(), path.nth(1).unwrap());
    let body = serde_json::to_vec(event).unwrap();
    let taken = async {
        let address = callback::address(app, channel, token)?;
        let once = Once::new(app, "api", &address.delivery(), "callback", Some(key), &body);
        callback::take(app, address, &body, once).await
    };
    taken.await.map_or_else(refused, |_| Posted::Arrived)
}

/// Converts a tool's response as the client does.
async fn call(harness: &Harness, tool: ChatTool, arguments: Map<String, Value>) -> Posted {
    let Value::Object(params) = json!({"name": tool.as_str(), "arguments": arguments}) else {
        unreachable!()
    };
    let result = c2a::call(harness, "tools/call", params).await.unwrap();
    let result: ToolResult = serde_json::from_value(result).unwrap();
    let done = match tool {
        ChatTool::Claim => result.outcome::<Claimed>().map(|claimed| Posted::Given(Box::new(claimed))),
        _ if result.is_error => result.outcome::<Recorded>().map(|_| Posted::Arrived),
        _ => Ok(Posted::Arrived),
    };
    done.unwrap_or_else(|failure| match failure {
        ToolFailure::Refused(refusal) if refusal.code == RefusalCode::IdempotencyConflict => Posted::Arrived,
        ToolFailure::Refused(refusal) => {
            let wait = refusal.retry_after_ms.unwrap_or(0).max(0) as u64;
            failed(&refusal.message, refusal.code.is_retryable().then_some(wait), false)
        }
        failure => failed(&failure.to_string(), None, false),
    })
}

fn failed(why: &str, retry_after_ms: Option<u64>, perhaps_arrived: bool) -> Posted {
    Posted::Failed { why: why.into(), retry_after_ms, perhaps_arrived }
}

/// Converts an error as the client does.
fn refused(error: Error) -> Posted {
    if error.code == Code::IdempotencyConflict {
        return Posted::Arrived;
    }
    let again = error.code.retryable();
    failed(&error.message, again.then(|| error.retry_after_ms.unwrap_or(0).max(0) as u64), false)
}
