//! MCP at `/mcp/{channel}`: who calls, and the channel as MCP shows it. The protocol itself is `chorus_mcp`'s, what can be done
//! is `chorus_app`'s.
//!
//! A caller shows an agent's key, an account's token, or an MCP token, which is good for one agent in one channel and comes
//! with each message; never a browser's cookie. What lasts (a wait, a stream) looks up again whether that still holds, and
//! ends with it. Who is no member is told the same as if there were no such channel.

mod notices;
mod operations;
mod resources;
mod service;

use super::body;
use crate::credentials::bearer;
use crate::error::ApiError;
use crate::middleware::ForPeople;
use crate::route::{Grant, Route};
use crate::routes::Routes;
use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::any;
use chorus_app::caller::{Caller, disabled, key_hash};
use chorus_app::secrets::McpToken;
use chorus_app::tools::{Context, Holds, no_longer_valid};
use chorus_app::{App, AppState, conversation};
use chorus_protocol::ids::Principal;
use chorus_store::accounts::{self, CredentialKind};
use chorus_store::conversation::ConversationError;
use chorus_store::directory;
use chorus_store::{StoreError, Tx};
use std::sync::Arc;
use utoipa::OpenApi as _;
use utoipa::openapi::OpenApi;

const PATH: &str = "/mcp/{channel}";
/// The largest message, in bytes.
const MAX_BODY: usize = 1024 * 1024;

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
    own_pages_only: true,
    ..Route::API
};

pub(crate) fn routes() -> Routes {
    Routes::default().group(MCP, Router::new().route(PATH, any(answer))).under("/mcp/", MCP)
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
    let (who, holds) = match token(&app, &parts.headers) {
        Some(token) if conversation.as_ref().ok() != Some(&token.channel) => {
            return Err(ConversationError::NotFound.into());
        }
        Some(token) => by_token(&app, token).await?,
        None => by_key(&app, &caller, &parts.headers)?,
    };
    let conversation = conversation?;
    let body = body::read(&app, &parts.headers, body, MAX_BODY).await?;
    let request = chorus_mcp::Request { method: parts.method, headers: parts.headers, body };
    let channel = service::Channel(Context { app, door: "mcp", who, holds, conversation });
    let mut response = chorus_mcp::answer(Arc::new(channel), request).await?;
    // Errors of this protocol are in its own format.
    response.extensions_mut().insert(ForPeople);
    Ok(response)
}

/// The agent of a token, as long as it holds and the agent is reached by what it was reached by then.
async fn by_token(app: &AppState, token: McpToken) -> Result<(Principal, Holds), ApiError> {
    let hub = Arc::clone(app);
    let holds = move |tx: &mut dyn Tx| {
        let agent = directory::by_id(tx, token.agent)?.filter(|agent| agent.epoch == token.epoch);
        Ok(hub.now() < token.expires_at && agent.is_some_and(|agent| agent.disabled_at.is_none()))
    };
    let holds: Holds = Arc::new(holds);
    let held = Arc::clone(&holds);
    let look = move |tx: &mut dyn Tx| {
        let agent = directory::by_id(tx, token.agent)?;
        Ok((agent.is_some_and(|agent| agent.disabled_at.is_some()), held(tx)?))
    };
    match app.store.read::<_, StoreError, _>(look).await? {
        (true, _) => Err(disabled("agent").into()),
        (false, false) => Err(no_longer_valid().into()),
        (false, true) => Ok((token.agent.into(), holds)),
    }
}

/// Whoever's key or token this is, as long as it is.
fn by_key(app: &AppState, caller: &Caller, headers: &HeaderMap) -> Result<(Principal, Holds), ApiError> {
    let shown = bearer(headers)?.map(key_hash);
    let shown = shown.ok_or_else(|| {
        ApiError::unauthorized(
            "this needs Authorization: Bearer and an agent's key ca_…, a token ct_… or mt_…",
        )
    })?;
    let (who, app) = (caller.principal()?, Arc::clone(app));
    let holds = move |tx: &mut dyn Tx| match who {
        Principal::Agent(agent) => {
            let found = directory::by_key(tx, &shown)?;
            Ok(found.is_some_and(|found| found.id == agent && found.disabled_at.is_none()))
        }
        Principal::Account(account) => {
            let found = accounts::by_credential(tx, CredentialKind::Token, &shown, app.now())?;
            Ok(found.is_some_and(|found| found.id == account && found.disabled_at.is_none()))
        }
    };
    Ok((who, Arc::new(holds)))
}
