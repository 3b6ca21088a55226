//! Taking things back: an agent's key, the secret that requests to it are signed with, a person's sessions.
//!
//! Whoever holds an agent's key may replace it at `POST /register`, a thief too. Its owner and the operator can do so without
//! it, so that the last word is theirs; and the owner is told by mail when the key was replaced with the key.

use super::answers::{
    Conflict, Forbidden, Invalid, Missing, Overloaded, TooFast, TooLarge, TooSlow, Unknown,
};
use super::{Written, not_found, value, write};
use crate::doors::body;
use crate::doors::relay::AgentRef;
use crate::doors::relay::bodies::AgentAddress;
use crate::error::ApiError;
use crate::extract::{By, Context};
use crate::route::{Route, Routes};
use axum::Json;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use bytes::Bytes;
use chorus_app::AppState;
use chorus_app::agents::managed;
use chorus_app::caller::{Caller, Shown, key_hash};
use chorus_app::{usage, webhooks};
use chorus_protocol::credentials::SecretKind;
use chorus_protocol::faults::{Faults, Fields};
use chorus_protocol::ids::AccountId;
use chorus_protocol::relay::{Code, MAX_BODY};
use chorus_protocol::time::rfc3339;
use chorus_store::audit::{Action, Subject};
use chorus_store::directory::{self, Agent, KeyHash};
use chorus_store::{StoreError, Tx, accounts, push};
use serde::Serialize;
use serde_json::{Value, json};
use std::sync::Arc;
use url::Url;
use utoipa_axum::routes;

pub(crate) fn routes() -> Routes {
    Routes::default()
        .at(Route::API, routes!(reset_key))
        .at(Route::API, routes!(rotate_webhook_secret))
        .at(Route::API, routes!(end_own_sessions))
}

/// What else is taken from whoever had the key.
#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "describes a body for the OpenAPI document")]
pub(crate) struct ResetBody {
    /// Whether everything is taken off that the agent is reached by: its endpoint, its own connection string, the one this hub
    /// issued, and both webhook secrets. `false` unless said.
    detach: Option<bool>,
    /// Whether it belongs to nobody from now on; for the operator. `false` unless said.
    release: Option<bool>,
}

/// A reset as it is asked for.
#[derive(Clone, Copy, Default)]
struct Reset {
    detach: bool,
    release: bool,
}

impl Reset {
    fn read(body: &[u8]) -> Result<Self, ApiError> {
        if body.is_empty() {
            return Ok(Self::default());
        }
        let body = chorus_protocol::json::parse(body).map_err(ApiError::validation)?;
        if body == Value::Null {
            return Ok(Self::default());
        }
        let mut faults = Faults::new();
        let reset = Fields::of(&body, "", &mut faults)
            .map(|mut fields| Self { detach: fields.flag("detach"), release: fields.flag("release") });
        Ok(reset.filter(|_| faults.is_empty()).ok_or(faults)?)
    }

    /// Whether this caller may have it.
    fn check(self, caller: &Caller, agent: &Agent) -> Result<(), ApiError> {
        let why = match caller {
            Caller::Operator => return Ok(()),
            Caller::Account(person) if agent.owner == Some(person.id) && !self.release => return Ok(()),
            Caller::Account(person) if agent.owner == Some(person.id) => {
                "only the operator releases an agent; leave `release` out"
            }
            Caller::Account(_) | Caller::Agent(_) | Caller::Nobody => {
                "this is for the agent's owner and the operator; an agent replaces its own key at POST /register"
            }
        };
        Err(ApiError::new(Code::Forbidden, why))
    }
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
/// given out under it: its inbox and streams, callbacks, `mcp` tokens. What the agent is reached by stays, unless you `detach`
/// it: do so if the old key was stolen, because a thief may have set it. Then what is for the agent waits for it; set its endpoint
/// and its connection string again, and make a new one for other services with `connection-string/rotate`. The operator can
/// `release` an agent that a thief has claimed: whoever has the new key may claim it then.
#[utoipa::path(post, path = "/api/v1/agents/{id}/key/reset", tag = "agents", security(("key" = [])),
    params(("id" = AgentAddress, Path, description = "`name@host`, `name`, or the agent's UUID"),
           ("Idempotency-Key" = Option<String>, Header, nullable = false, max_length = 255, pattern = r"^[!-~]([\t -~]*[!-~])?$",
            description = "The same for every retry of the same request")),
    request_body = Option<ResetBody>,
    responses((status = 200, description = "The new key", body = NewKeyView),
              Invalid, Unknown, Forbidden, Missing, Conflict, TooSlow, TooLarge, TooFast, Overloaded))]
pub(crate) async fn reset_key(
    State(app): State<AppState>,
    By(caller): By,
    Context(context): Context,
    Path(id): Path<String>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    caller.known()?;
    let (agent, now, api_key) =
        (AgentRef::parse(&app, &id)?, app.now(), app.sources.secret(SecretKind::AgentKey));
    let body = body::read(&app, &headers, body, MAX_BODY).await?;
    let reset = Reset::read(&body)?;
    let (hub, who) = (Arc::clone(&app), caller.clone());
    let work = move |tx: &mut dyn Tx| -> Result<Written, ApiError> {
        let found = agent.find(tx)?.ok_or_else(|| not_found("agent"))?;
        // Whoever claims it, or pushes to it, comes before or after this.
        tx.lock(found.id.0)?;
        let agent = directory::by_id(tx, found.id)?.ok_or_else(|| not_found("agent"))?;
        reset.check(&who, &agent)?;
        directory::reset_key(tx, agent.id, &key_hash(&api_key), now)?;
        if reset.detach {
            directory::detach(tx, agent.id, now)?;
        }
        if reset.release {
            release(tx, &hub, &agent)?;
        }
        hub.push_after(tx);
        let subject = Subject::Agent(agent.id);
        let detail = json!({"name": agent.name, "detach": reset.detach, "release": reset.release});
        context.record(tx, &hub, &who, Action::KeyReset, subject, detail)?;
        let (agent_id, address) = (agent.id.to_string(), hub.address(&agent.name));
        Ok((StatusCode::OK, value(&NewKeyView { agent_id, address, api_key: api_key.clone() })?))
    };
    write(&app, &caller, &headers, uri.path(), &body, work).await
}

/// An agent belongs to nobody from now on, and is not kept out with its former owner.
fn release(tx: &mut dyn Tx, app: &AppState, agent: &Agent) -> Result<(), StoreError> {
    let Some(owner) = agent.owner else { return Ok(()) };
    directory::set_owner(tx, agent.id, None, None)?;
    push::retry_now(tx, agent.id, app.now())?;
    let (app, id) = (Arc::clone(app), agent.id);
    tx.after_commit(Box::new(move || usage::forget(&app, id, owner)));
    Ok(())
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
    By(caller): By,
    Context(context): Context,
    Path(id): Path<String>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    caller.known()?;
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

/// Browsers that were signed out, and tokens that were revoked.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct EndedSessions {
    /// So many browsers.
    ended: u64,
    /// So many tokens, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    tokens: Option<u64>,
}

/// Whether `?tokens=true` asks for the tokens as well.
pub(super) fn wants_tokens(uri: &Uri) -> Result<bool, Faults> {
    let mut query = url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    match query.find(|(name, _)| name == "tokens").map(|(_, value)| value).as_deref() {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(_) => Err(Faults::one("tokens", "must be true or false")),
    }
}

/// Ends an account's sessions, and its tokens if that is wanted, but what is shown in this very request.
pub(super) fn end_all(
    tx: &mut dyn Tx,
    account: AccountId,
    but: Option<&KeyHash>,
    tokens: bool,
) -> Result<EndedSessions, StoreError> {
    let ended = accounts::end_sessions(tx, account, but)?;
    let tokens = tokens.then(|| accounts::revoke_tokens(tx, account, but)).transpose()?;
    Ok(EndedSessions { ended, tokens })
}

/// Sign out everywhere else
///
/// Ends all sessions of your account but the one of this browser, and the sign-in links that nobody has used yet. Tokens
/// stay, unless you want them revoked as well: all but the one you show. `DELETE /api/v1/tokens/{id}` revokes a single one.
#[utoipa::path(delete, path = "/api/v1/me/sessions", tag = "people", security(("key" = [])),
    params(("tokens" = Option<bool>, Query, nullable = false, description = "Whether tokens are revoked as well; whoever stole one may have made others")),
    responses((status = 200, description = "They are over", body = EndedSessions),
              Invalid, Unknown, Forbidden, TooFast, Overloaded))]
pub(crate) async fn end_own_sessions(
    State(app): State<AppState>,
    By(caller): By,
    Context(context): Context,
    request: Request,
) -> Result<Json<EndedSessions>, ApiError> {
    let account = caller.person()?.id;
    let (own, tokens) =
        (request.extensions().get::<Shown>().map(|shown| shown.hash), wants_tokens(request.uri())?);
    let hub = Arc::clone(&app);
    let end = move |tx: &mut dyn Tx| {
        let ended = end_all(tx, account, own.as_ref(), tokens)?;
        let (subject, detail) = (Subject::Account(account), json!(ended));
        context.record(tx, &hub, &caller, Action::SessionsEnded, subject, detail)?;
        Ok(ended)
    };
    app.store.write::<_, StoreError, _>(end).await.map(Json).map_err(Into::into)
}

/// Where a URL leads: the rest of it may be secret.
pub(crate) fn host(url: Option<&str>) -> Option<String> {
    Url::parse(url?).ok()?.host_str().map(str::to_owned)
}
