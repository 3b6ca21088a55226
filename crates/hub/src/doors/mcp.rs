//! MCP at `/mcp/{channel}` and `/mcp`: authentication, and the channel or the agent as an MCP server. The
//! protocol is in `chorus_mcp`, the actions are in `chorus_app`.
//!
//! A caller presents an agent's key, an account's token, or an MCP token, which is valid for one agent in one
//! channel and comes with each message. Browser cookies are not accepted. Long waits and streams check the
//! credential again, and end when it is revoked. A non-member gets the same error as for a missing channel. A
//! job is a server of its own, in `job.rs`; so is an agent that presents its own key, in `agent.rs`.

mod agent;
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
use crate::middleware::Client;
use crate::route::{ForeignPages, Grant, Route};
use crate::routes::Routes;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use axum::response::Response;
use axum::routing::{any, post};
use axum::{Extension, Router};
use chorus_app::conversation;
use chorus_app::market::jobs;
use chorus_app::market::results::Worker;
use chorus_app::tools::{AgentContext, Context, Hired, key_holds, token_holds};
use chorus_mcp::Service;
use chorus_node::caller::{Caller, key_hash};
use chorus_node::secrets::McpToken;
use chorus_node::{App, AppState, Error};
use chorus_protocol::code::Code;
use chorus_protocol::ids::ConversationId;
use chorus_web::Rendered;
use serde_json::{Value, json};
use std::sync::Arc;
use utoipa::OpenApi as _;
use utoipa::openapi::OpenApi;

const AGENT_PATH: &str = "/mcp";
const PATH: &str = "/mcp/{channel}";
const JOB_PATH: &str = "/mcp/jobs/{job}";
/// The largest message, in bytes.
const MAX_BODY: usize = 2 * 1024 * 1024;
/// The largest message that carries a job result, in bytes. It equals the limit for results that are POSTed.
const MAX_RESULT: usize = 256 * 1024;

/// Returns the server's name and version.
fn info() -> Value {
    json!({"name": "chorus", "title": "Chorus", "version": env!("CARGO_PKG_VERSION")})
}

fn no_credential() -> ApiError {
    let what = "this needs Authorization: Bearer and an agent's key ca_…, a token ct_… or mt_…";
    ApiError::unauthorized(what)
}

/// Returns the request's MCP token, if its signature is valid and it has not expired.
fn token(app: &App, headers: &HeaderMap) -> Option<McpToken> {
    let token = app.config.master_key.read_mcp_token(bearer(headers).ok().flatten()?)?;
    (app.now() < token.expires_at).then_some(token)
}

/// Pages of other sites are refused, as the protocol requires.
const MCP: Route = Route {
    grant: Some(Grant {
        purpose: "mcp tokens",
        read: |app, request| Some(token(app, request.headers())?.agent),
    }),
    foreign_pages: ForeignPages::Refused,
    ..Route::API
};

/// An MCP token is for one channel or one job, so it is no credential of the agent itself.
const AGENT: Route = Route { grant: None, ..MCP };

pub(crate) fn routes() -> Routes {
    let router = Router::new().route(PATH, any(answer)).route(JOB_PATH, post(answer_job));
    let agent = Router::new().route(AGENT_PATH, post(answer_agent));
    Routes::default().group(MCP, router).group(AGENT, agent).under("/mcp/", MCP)
}

/// Returns the OpenAPI description of the MCP routes.
pub(crate) fn documented() -> OpenApi {
    operations::Operations::openapi()
}

async fn answer(
    State(app): State<AppState>,
    Path(channel): Path<String>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let caller = parts.extensions.get::<Caller>().cloned().unwrap_or(Caller::Nobody);
    let conversation = conversation::conversation_id(&channel);
    let (who, holds) = match (token(&app, &parts.headers), bearer(&parts.headers)?) {
        (Some(token), _) if conversation.as_ref().ok() == Some(&token.channel) => {
            (token.agent.into(), token_holds(&app, token).await?)
        }
        // The token is valid for another channel, so this one does not exist for it.
        (Some(_), _) => return Err(conversation::no_conversation().into()),
        (None, Some(key)) => {
            let who = caller.principal()?;
            (who, key_holds(&app, who, key_hash(key)))
        }
        (None, None) => return Err(no_credential()),
    };
    let conversation = conversation?;
    let source = client.source();
    let channel =
        service::Channel(Context { app: app.clone(), door: "mcp", source, who, holds, conversation });
    serve(&app, channel, parts, body, MAX_BODY).await
}

async fn answer_agent(
    State(app): State<AppState>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let caller = parts.extensions.get::<Caller>().cloned().unwrap_or(Caller::Nobody);
    let (identity, key) = match (caller, bearer(&parts.headers)?) {
        (Caller::Agent(identity), Some(key)) => (identity, key),
        (Caller::Nobody, _) | (_, None) => {
            return Err(ApiError::unauthorized("this needs Authorization: Bearer and an agent's key ca_…"));
        }
        (_, Some(_)) => {
            let what = "this is the MCP server of an agent, for its own key ca_…; people use /mcp/{channel}";
            return Err(Error::new(Code::Forbidden, what).into());
        }
    };
    let holds = key_holds(&app, identity.id.into(), key_hash(key));
    let context = AgentContext { app: app.clone(), source: client.source(), identity, holds };
    serve(&app, agent::Agent(context), parts, body, MAX_BODY).await
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
    serve(&app.clone(), job::Job(Hired { app, worker, job }), parts, body, MAX_RESULT).await
}

/// Reads the request and answers it. A large body is read only for an authorized caller; for a small one, the
/// service checks that where it reads its data.
async fn serve<S: Service<Refusal = ApiError>>(
    app: &App,
    service: S,
    parts: Parts,
    body: Body,
    limit: usize,
) -> Result<Response, ApiError> {
    if !body::is_small(&body) {
        service.check_session(None).await?;
    }
    let body = body::read(app, &parts, body, limit).await?;
    let request = chorus_mcp::Request { method: parts.method, headers: parts.headers, body };
    let mut response = chorus_mcp::answer(Arc::new(service), request).await?;
    // Errors of this protocol are already in their own format.
    response.extensions_mut().insert(Rendered);
    Ok(response)
}
