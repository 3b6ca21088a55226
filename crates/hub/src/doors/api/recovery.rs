//! Taking things back: an agent's key, the secret that requests to it are signed with, a person's sessions.
//!
//! Whoever holds an agent's key may replace it at `POST /register`, a thief too. Its owner and the operator can do so without
//! it, so that the last word is theirs; and the owner is told by mail when the key was replaced with the key.

use super::agents::{known, managed};
use super::answers::{Conflict, Forbidden, Invalid, Missing, Overloaded, TooFast, Unknown};
use super::{Written, not_found, value, write};
use crate::app::{App, AppState};
use crate::audit::RequestContext;
use crate::caller::{Caller, Shown, key_hash};
use crate::doors::relay::AgentRef;
use crate::doors::relay::bodies::AgentAddress;
use crate::error::ApiError;
use crate::mail::{self, Letter};
use crate::mail_limits::{Asker, Notice};
use crate::webhooks;
use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use bytes::Bytes;
use chorus_protocol::credentials::SecretKind;
use chorus_protocol::relay::Code;
use chorus_protocol::time::rfc3339;
use chorus_store::audit::{self, Action, Subject};
use chorus_store::directory::{self, Agent};
use chorus_store::{StoreError, Tx, accounts};
use serde::Serialize;
use serde_json::json;
use std::sync::Arc;
use tokio::runtime::Handle;
use url::Url;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// How long after a mail that a key was replaced there is no other about the same agent.
const QUIET_MS: i64 = 60 * 60 * 1000;

pub(crate) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(reset_key))
        .routes(routes!(rotate_webhook_secret))
        .routes(routes!(end_own_sessions))
}

/// An agent's new key, which is shown this once.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct NewKeyView {
    /// Its id.
    agent_id: String,
    /// Its address.
    address: String,
    /// Its key from now on.
    #[schema(example = "ca_0123456789abcdef0123456789abcdef")]
    api_key: String,
}

/// Reset an agent's key
///
/// For its owner and the operator, who need not have the old one. That stops working at once, and so does everything that was
/// given out under it: its inbox and streams, callbacks, `mcp` tokens. What the agent is reached by stays: if the old key was
/// stolen, look at its endpoint and its connection string too, and rotate its webhook secret twice.
#[utoipa::path(post, path = "/api/v1/agents/{id}/key/reset", tag = "agents", security(("key" = [])),
    params(("id" = AgentAddress, Path, description = "`name@host`, `name`, or the agent's UUID"),
           ("Idempotency-Key" = Option<String>, Header, nullable = false, max_length = 255, pattern = r"^[!-~]([\t -~]*[!-~])?$",
            description = "The same for every retry of the same request")),
    responses((status = 200, description = "The new key", body = NewKeyView),
              Invalid, Unknown, Forbidden, Missing, Conflict, TooFast, Overloaded))]
pub(crate) async fn reset_key(
    State(app): State<AppState>,
    caller: Caller,
    context: RequestContext,
    Path(id): Path<String>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    known(&caller)?;
    let (agent, now, api_key) =
        (AgentRef::parse(&app, &id)?, app.now(), app.sources.secret(SecretKind::AgentKey));
    let (hub, who) = (Arc::clone(&app), caller.clone());
    let reset = move |tx: &mut dyn Tx| -> Result<Written, ApiError> {
        let agent = agent.find(tx)?.ok_or_else(|| not_found("agent"))?;
        let allowed = match &who {
            Caller::Operator => true,
            Caller::Account(person) => agent.owner == Some(person.id),
            Caller::Agent(_) | Caller::Nobody => false,
        };
        if !allowed {
            return Err(ApiError::new(
                Code::Forbidden,
                "this is for the agent's owner and the operator; an agent replaces its own key at POST /register",
            ));
        }
        directory::reset_key(tx, agent.id, &key_hash(&api_key), now)?;
        let (subject, detail) = (Subject::Agent(agent.id), json!({"name": agent.name}));
        context.record(tx, &hub, &who, Action::KeyReset, subject, detail)?;
        let (agent_id, address) = (agent.id.to_string(), hub.address(&agent.name));
        Ok((StatusCode::OK, value(&NewKeyView { agent_id, address, api_key: api_key.clone() })?))
    };
    write(&app, &caller, &headers, uri.path(), &Bytes::new(), reset).await
}

/// A secret that requests to an agent are signed with.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct WebhookSecretView {
    /// With which requests to the agent are signed (Standard Webhooks). It is shown this once.
    #[schema(example = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")]
    webhook_secret: String,
    /// Until when requests are signed with the one before as well.
    previous_until: Option<String>,
}

/// Replace the secret that requests to an agent are signed with
///
/// For 24 hours requests carry a signature with the old secret beside the one with the new, so that the agent can take the new
/// one over at any moment. Only two are good at a time: rotating twice ends a secret at once that somebody else has.
#[utoipa::path(post, path = "/api/v1/agents/{id}/webhook-secret/rotate", tag = "agents", security(("key" = [])),
    params(("id" = AgentAddress, Path, description = "`name@host`, `name`, or the agent's UUID"),
           ("Idempotency-Key" = Option<String>, Header, nullable = false, max_length = 255, pattern = r"^[!-~]([\t -~]*[!-~])?$",
            description = "The same for every retry of the same request")),
    responses((status = 200, description = "The new one", body = WebhookSecretView),
              Invalid, Unknown, Forbidden, Missing, Conflict, TooFast, Overloaded))]
pub(crate) async fn rotate_webhook_secret(
    State(app): State<AppState>,
    caller: Caller,
    context: RequestContext,
    Path(id): Path<String>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    known(&caller)?;
    let (agent, now) = (AgentRef::parse(&app, &id)?, app.now());
    let (hub, who) = (Arc::clone(&app), caller.clone());
    let rotate = move |tx: &mut dyn Tx| -> Result<Written, ApiError> {
        let agent = managed(tx, &who, &agent)?;
        let webhook_rotations = directory::rotate_webhook_secret(tx, agent.id, now)?;
        let agent = Agent { webhook_rotations, webhook_rotated_at: Some(now), ..agent };
        let (subject, detail) = (Subject::Agent(agent.id), json!({"rotation": webhook_rotations}));
        context.record(tx, &hub, &who, Action::WebhookSecretRotated, subject, detail)?;
        let view = WebhookSecretView {
            webhook_secret: webhooks::secret(&hub.config.master_key, &agent).printed(),
            previous_until: webhooks::previous_until(&agent, now).map(rfc3339),
        };
        Ok((StatusCode::OK, value(&view)?))
    };
    write(&app, &caller, &headers, uri.path(), &Bytes::new(), rotate).await
}

/// Browsers that were signed out.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct EndedSessions {
    /// So many.
    pub(super) ended: u64,
}

/// Sign out everywhere else
///
/// Ends all sessions of your account but the one of this browser, and the sign-in links that nobody has used yet. Tokens
/// stay: `DELETE /api/v1/tokens/{id}` revokes one.
#[utoipa::path(delete, path = "/api/v1/me/sessions", tag = "people", security(("key" = [])),
    responses((status = 200, description = "They are over", body = EndedSessions),
              Unknown, Forbidden, TooFast, Overloaded))]
pub(crate) async fn end_own_sessions(
    State(app): State<AppState>,
    caller: Caller,
    context: RequestContext,
    request: Request,
) -> Result<Json<EndedSessions>, ApiError> {
    let account = caller.person()?.id;
    let own = Shown::by(&app, &request)?.filter(Shown::is_session).map(|shown| shown.hash);
    let hub = Arc::clone(&app);
    let end = move |tx: &mut dyn Tx| {
        let ended = accounts::end_sessions(tx, account, own.as_ref())?;
        let (subject, detail) = (Subject::Account(account), json!({"ended": ended}));
        context.record(tx, &hub, &caller, Action::SessionsEnded, subject, detail)?;
        Ok(EndedSessions { ended })
    };
    app.store.write::<_, StoreError, _>(end).await.map(Json).map_err(Into::into)
}

/// Where a URL leads: the rest of it may be secret.
pub(crate) fn host(url: Option<&str>) -> Option<String> {
    Url::parse(url?).ok()?.host_str().map(str::to_owned)
}

/// An agent replaces its key with its key, which may be stolen: if it has an owner, and that was not told just now, it is once
/// this is committed, whether or not anybody waits for the answer.
pub(crate) fn tell_owner(
    tx: &mut dyn Tx,
    app: &AppState,
    runtime: &Handle,
    agent: &Agent,
) -> Result<(), StoreError> {
    let Some(owner) = agent.owner else { return Ok(()) };
    let since = app.now() - QUIET_MS;
    if audit::was_done(tx, Action::KeyRotated, Subject::Agent(agent.id), since)? {
        return Ok(());
    }
    let Some(owner) = accounts::by_id(tx, owner)? else { return Ok(()) };
    let (hub, runtime, letter) = (Arc::clone(app), runtime.clone(), letter(app, owner.email, &agent.name));
    tx.after_commit(Box::new(move || {
        let Ok(Some(slot)) = mail::slot(&hub, &letter.to, Asker::Hub(Notice::ReplacedKey)) else {
            tracing::warn!("an owner was not told of a replaced key: too many mails are on their way");
            return;
        };
        runtime.spawn(async move { mail::send(&hub, letter, slot).await });
    }));
    Ok(())
}

fn letter(app: &App, to: String, name: &str) -> Letter {
    let (address, time, url) = (app.address(name), rfc3339(app.now()), &app.config.public_url);
    Letter {
        to,
        subject: format!("The key of {address} was replaced"),
        text: format!(
            "The key of your agent {address} was replaced at {time}, by somebody who had the key before.\n\n\
             If that was the agent itself, or you, all is well. If not, somebody has stolen the key. Take it back:\n\n\
             chorus agents reset-key {name}\n\nThe hub is {url}.\n"
        ),
    }
}
