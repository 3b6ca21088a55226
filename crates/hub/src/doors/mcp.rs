//! MCP at `/mcp/{channel}`: who calls, and the channel as MCP shows it. The protocol itself is `chorus_mcp`'s, what can be done
//! is `chorus_app`'s.
//!
//! A caller shows an agent's key, an account's token, or an MCP token, which is good for one agent in one channel and comes
//! with each message; never a browser's cookie. What lasts (a wait, a stream) looks up again whether that still holds, and
//! ends with it. Who is no member is told the same as if there were no such channel. A job is a server of its own, `job.rs`.

mod calling;
mod job;
mod notices;
mod operations;
mod resources;
mod service;
mod words;

use crate::body;
use crate::credentials::bearer;
use crate::error::ApiError;
use crate::route::{ForeignPages, Grant, Route};
use crate::routes::Routes;
use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::{any, post};
use chorus_app::caller::{Caller, key_hash};
use chorus_app::market::jobs;
use chorus_app::market::results::Worker;
use chorus_app::secrets::McpToken;
use chorus_app::tools::{Context, Hired, key_holds, token_holds};
use chorus_app::{App, AppState, conversation};
use chorus_protocol::ids::ConversationId;
use chorus_web::Rendered;
use serde_json::{Value, json};
use std::sync::Arc;
use utoipa::OpenApi as _;
use utoipa::openapi::OpenApi;

const PATH: &str = "/mcp/{channel}";
const JOB_PATH: &str = "/mcp/jobs/{job}";
/// The largest message, in bytes.
const MAX_BODY: usize = 2 * 1024 * 1024;
/// The largest message with the result of a job: it is no larger than where it is POSTed as it is.
const MAX_RESULT: usize = 256 * 1024;

/// Which server this is.
fn info() -> Value {
    json!({"name": "chorus", "title": "Chorus", "version": env!("CARGO_PKG_VERSION")})
}

fn no_credential() -> ApiError {
    let what = "this needs Authorization: Bearer and an agent's key ca_…, a token ct_… or mt_…";
    ApiError::unauthorized(what)
}

/// An MCP token that we signed and that has not run out, if a request shows one.
fn token(app: &App, headers: &HeaderMap) -> Option<McpToken> {
    let token = app.config.master_key.read_mcp_token(bearer(headers).ok().flatten()?)?;
    (app.now() < token.expires_at).then_some(token)
}

/// Pages of other sites are kept out altogether, as the protocol asks.
const MCP: Route = Route {
    grant: Some(Grant {
        purpose: "mcp tokens",
        read: |app, request| Some(token(app, request.headers())?.agent),
    }),
    foreign_pages: ForeignPages::Refused,
    ..Route::API
};

pub(crate) fn routes() -> Routes {
    let router = Router::new().route(PATH, any(answer)).route(JOB_PATH, post(answer_job));
    Routes::default().group(MCP, router).under("/mcp/", MCP)
}

/// What the OpenAPI document says of it.
pub(crate) fn documented() -> OpenApi {
    operations::Operations::openapi()
}

async fn answer(
    State(app): State<AppState>,
    Path(channel): Path<String>,
    request: Request,
) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let caller = parts.extensions.get::<Caller>().cloned().unwrap_or(Caller::Nobody);
    let conversation = conversation::conversation_id(&channel);
    let (who, holds) = match (token(&app, &parts.headers), bearer(&parts.headers)?) {
        (Some(token), _) if conversation.as_ref().ok() == Some(&token.channel) => {
            (token.agent.into(), token_holds(&app, token).await?)
        }
        // It is good for another channel: this one is not there.
        (Some(_), _) => return Err(conversation::no_conversation().into()),
        (None, Some(key)) => {
            let who = caller.principal()?;
            (who, key_holds(&app, who, key_hash(key)))
        }
        (None, None) => return Err(no_credential()),
    };
    let conversation = conversation?;
    let body = body::read(&app, &parts.headers, body, MAX_BODY).await?;
    let request = chorus_mcp::Request { method: parts.method, headers: parts.headers, body };
    let channel = service::Channel(Context { app, door: "mcp", who, holds, conversation });
    let mut response = chorus_mcp::answer(Arc::new(channel), request).await?;
    // Errors of this protocol are in its own format.
    response.extensions_mut().insert(Rendered);
    Ok(response)
}

async fn answer_job(
    State(app): State<AppState>,
    Path(job): Path<String>,
    request: Request,
) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let caller = parts.extensions.get::<Caller>().cloned().unwrap_or(Caller::Nobody);
    let job = jobs::id(&job);
    let worker = match (token(&app, &parts.headers), bearer(&parts.headers)?) {
        (Some(token), _) => {
            let of_job = job.as_ref().ok().map(|id| ConversationId::of_job(*id));
            if of_job != Some(token.channel) {
                return Err(jobs::unknown().into());
            }
            Worker::Given(token.agent, token.epoch)
        }
        (None, Some(_)) => Worker::Known(caller),
        (None, None) => return Err(no_credential()),
    };
    let job = job?;
    let body = body::read(&app, &parts.headers, body, MAX_RESULT).await?;
    let request = chorus_mcp::Request { method: parts.method, headers: parts.headers, body };
    let mut response = chorus_mcp::answer(Arc::new(job::Job(Hired { app, worker, job })), request).await?;
    response.extensions_mut().insert(Rendered);
    Ok(response)
}
