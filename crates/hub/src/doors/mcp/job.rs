//! A job as an MCP server at `/mcp/jobs/{job}`, with one tool that reports the result. For an agent that got
//! the job as a channel message, or that presents its key.
//!
//! There are no notifications about a job, so only POST is accepted. The session of a job is the job itself.

use super::calling;
use super::words::{Failure, failure};
use crate::error::ApiError;
use chorus_app::tools::{self, Hired, Place, Tool};
use chorus_mcp::{About, Ask, Notices, Outlet, Service, Wants};
use chorus_protocol::rpc::RpcError;
use serde_json::{Value, json};
use std::sync::LazyLock;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The result of `tools/list`, built once.
static LISTED: LazyLock<Value> = LazyLock::new(|| calling::listed(tools::of_job()));

fn find(name: &str) -> Option<&'static Tool<Hired>> {
    tools::of_job().iter().find(|tool| tool.name == name)
}

/// One caller of one job.
pub(super) struct Job(pub(super) Hired);

impl Job {
    fn session(&self) -> String {
        self.0.job.0.simple().to_string()
    }
}

impl Service for Job {
    type Refusal = ApiError;

    async fn check_session(&self, session: Option<&str>) -> Result<bool, ApiError> {
        self.0.check().await?;
        Ok(session.is_some_and(|session| session == self.session()))
    }

    fn info(&self) -> Value {
        super::info()
    }

    async fn about(&self) -> Result<About, Failure> {
        let instructions = tools::about_job(&self.0).await.map_err(failure)?;
        Ok(About { capabilities: json!({"tools": {}}), instructions })
    }

    async fn begin(&self) -> Result<String, Failure> {
        Ok(self.session())
    }

    async fn end(&self, _: &str) -> Result<(), Failure> {
        Ok(())
    }

    async fn call(&self, ask: Ask, _: Outlet) -> Result<Value, Failure> {
        if ask.method == "tools/call" {
            return calling::call(&self.0, find, &ask.params).await;
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
