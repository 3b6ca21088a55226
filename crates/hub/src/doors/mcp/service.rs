//! A channel as an MCP server: its tools, its documents as resources, and a prompt that explains how to take
//! part.
//!
//! A [`Channel`] is one caller in one channel, for one request.

use super::calling::{self, arguments};
use super::words::{Failure, failure, session_id, text};
use super::{notices, resources};
use crate::error::ApiError;
use chorus_app::mcp_sessions;
use chorus_app::tools::{self, Context};
use chorus_mcp::{About, Ask, Notices, Outlet, Service, Wants};
use chorus_protocol::rpc::RpcError;
use serde_json::{Map, Value, json};
use std::sync::LazyLock;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The longest task that the prompt takes, in characters.
const MAX_TASK: usize = 4000;

/// One caller in one channel.
pub(super) struct Channel(pub(super) Context);

/// The result of `tools/list`, built once.
static LISTED: LazyLock<Value> = LazyLock::new(|| calling::listed(tools::all()));

impl Channel {
    async fn get_prompt(&self, params: &Map<String, Value>) -> Result<Value, Failure> {
        let name = text(params, "name")?;
        if name != "participate" {
            let what = format!("there is no prompt {name:?}; there is \"participate\"");
            return Err(RpcError::params(what).into());
        }
        let arguments = arguments(params)?;
        let task = match arguments.get("task") {
            None => None,
            Some(Value::String(task)) if task.chars().count() <= MAX_TASK => Some(task.trim()),
            Some(_) => {
                let what = format!("task: must be a text of at most {MAX_TASK} characters");
                return Err(RpcError::params(what).into());
            }
        };
        let (description, said) = tools::participate(&self.0, task).await.map_err(failure)?;
        let message = json!({"role": "user", "content": {"type": "text", "text": said}});
        Ok(json!({"description": description, "messages": [message]}))
    }
}

fn prompts() -> Value {
    json!({"prompts": [{
        "name": "participate",
        "title": "Take part in this channel",
        "description": "How to behave in this channel: who is there, what wakes whom, when to speak, and when silence is right.",
        "arguments": [{
            "name": "task",
            "title": "Your task",
            "description": "What you are here to do, in a sentence or two. Optional.",
            "required": false,
        }],
    }]})
}

impl Service for Channel {
    type Refusal = ApiError;

    async fn check_session(&self, session: Option<&str>) -> Result<bool, ApiError> {
        Ok(mcp_sessions::check(&self.0, session.and_then(session_id)).await?)
    }

    fn info(&self) -> Value {
        super::info()
    }

    async fn about(&self) -> Result<About, Failure> {
        Ok(About {
            capabilities: json!({
                "tools": {},
                "prompts": {},
                "resources": {"subscribe": true, "listChanged": true},
            }),
            instructions: tools::instructions(&self.0).await.map_err(failure)?,
        })
    }

    async fn begin(&self) -> Result<String, Failure> {
        Ok(mcp_sessions::begin(&self.0).await.map_err(failure)?.simple().to_string())
    }

    async fn end(&self, session: &str) -> Result<(), Failure> {
        match session_id(session) {
            Some(id) => mcp_sessions::end(&self.0, id).await.map_err(failure),
            None => Ok(()),
        }
    }

    async fn call(&self, ask: Ask, _: Outlet) -> Result<Value, Failure> {
        let Self(context) = self;
        if ask.method == "tools/call" {
            return calling::call(context, tools::find, &ask.params).await;
        }
        // With a session, the protocol has already authorized the caller.
        if ask.session.is_none() {
            context.check_member().await.map_err(failure)?;
        }
        match &*ask.method {
            "tools/list" => Ok(LISTED.clone()),
            "prompts/list" => Ok(prompts()),
            "prompts/get" => self.get_prompt(&ask.params).await,
            "resources/list" => resources::list(context, &ask.params).await,
            "resources/templates/list" => Ok(resources::templates(context)),
            "resources/read" => resources::read(context, &ask.params, ask.revision).await,
            "resources/subscribe" => resources::subscribe(context, &ask, true).await,
            "resources/unsubscribe" => resources::subscribe(context, &ask, false).await,
            method => Err(RpcError::method(method).into()),
        }
    }

    async fn notices(&self, wants: Wants) -> Result<Notices, Failure> {
        notices::open(&self.0, wants).await
    }

    fn ping(&self) -> Duration {
        self.0.app.config.times.ping
    }

    fn stopping(&self) -> CancellationToken {
        self.0.app.tasks.stopping.clone()
    }
}
