//! An agent as an MCP server at `/mcp`: its mailbox, and its tools in all its conversations.
//!
//! There are no notifications, so only POST is accepted: `wait_for_events` is a long poll. The session of an
//! agent is the agent itself, so that a restart of the hub ends none.

use super::calling;
use super::words::{Failure, failure};
use crate::error::ApiError;
use chorus_app::tools::{self, AgentContext, Place};
use chorus_mcp::{About, Ask, Notices, Outlet, Service, Wants};
use chorus_protocol::rpc::RpcError;
use serde_json::{Value, json};
use std::sync::LazyLock;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The result of `tools/list`, built once.
static LISTED: LazyLock<Value> = LazyLock::new(|| calling::listed(tools::of_agent()));

/// One agent, for one request.
pub(super) struct Agent(pub(super) AgentContext);

impl Agent {
    fn session(&self) -> String {
        self.0.identity.id.0.simple().to_string()
    }
}

impl Service for Agent {
    type Refusal = ApiError;

    async fn check_session(&self, session: Option<&str>) -> Result<bool, ApiError> {
        self.0.check().await?;
        Ok(session.is_some_and(|session| session == self.session()))
    }

    fn info(&self) -> Value {
        super::info()
    }

    async fn about(&self) -> Result<About, Failure> {
        Ok(About { capabilities: json!({"tools": {}}), instructions: tools::about_agent(&self.0) })
    }

    async fn begin(&self) -> Result<String, Failure> {
        Ok(self.session())
    }

    async fn end(&self, _: &str) -> Result<(), Failure> {
        Ok(())
    }

    async fn call(&self, ask: Ask, _: Outlet) -> Result<Value, Failure> {
        if ask.method == "tools/call" {
            return calling::call(&self.0, tools::find_of_agent, &ask.params).await;
        }
        if ask.session.is_none() {
            self.0.check().await.map_err(failure)?;
        }
        match &*ask.method {
            "tools/list" => Ok(LISTED.clone()),
            method => Err(RpcError::method(method).into()),
        }
    }

    async fn notices(&self, _: Wants) -> Result<Notices, Failure> {
        Err(RpcError::method("subscriptions/listen").into())
    }

    fn ping(&self) -> Duration {
        self.0.app.config.times.ping
    }

    fn stopping(&self) -> CancellationToken {
        self.0.app.tasks.stopping.clone()
    }
}
