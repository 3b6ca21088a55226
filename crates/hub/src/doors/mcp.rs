//! MCP at `/mcp/{channel}`: who calls; the rest is `chorus_mcp`'s.
//!
//! A caller shows an agent's key, an account's token, or an MCP token, which is good for one agent in one channel and comes
//! with each message; never a browser's cookie. What he showed is looked up again in every transaction, so that a
//! stream ends with it. Who is no member is told the same as if there were no such channel.

mod operations;

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
use chorus_app::charge::may_say;
use chorus_app::secrets::McpToken;
use chorus_app::usage::event_bytes;
use chorus_app::views;
use chorus_app::{App, AppState};
use chorus_app::{Error, conversation};
use chorus_mcp::{Channel, Hub, Open, Pass, Refusal};
use chorus_protocol::api::documents::{DocumentChange, NewDocument};
use chorus_protocol::api::messages::NewReaction;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{ConversationId, EventId, Principal};
use chorus_protocol::redact::Masked;
use chorus_protocol::schema;
use chorus_protocol::words::Signal;
use chorus_store::accounts::{self, CredentialKind};
use chorus_store::artifacts::Artifact;
use chorus_store::conversation::{Act, ConversationError, NewArtifact, Post, Posted};
use chorus_store::conversations::Event;
use chorus_store::directory::{self, Agent};
use chorus_store::log::Standing;
use chorus_store::{Store, StoreError, Tx};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use utoipa::OpenApi as _;
use utoipa::openapi::OpenApi;
use uuid::Uuid;

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

pub(crate) fn routes(app: &AppState) -> Routes {
    let hub = Arc::new(Tools { app: Arc::clone(app), open: Open::default() });
    let routes = Router::new().route(PATH, any(answer)).layer(axum::Extension(hub));
    Routes::default().group(MCP, routes).under("/mcp/", MCP)
}

/// What the OpenAPI document says of it.
pub(crate) fn documented() -> OpenApi {
    operations::Operations::openapi()
}

async fn answer(
    State(app): State<AppState>,
    axum::Extension(hub): axum::Extension<Arc<Tools>>,
    Path(channel): Path<String>,
    request: Request,
) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let caller = parts.extensions.get::<Caller>().cloned().unwrap_or(Caller::Nobody);
    let id = ConversationId::parse(&channel);
    let pass = match token(&app, &parts.headers) {
        Some(token) if id != Some(token.channel) => return Err(ConversationError::NotFound.into()),
        Some(token) => by_token(&app, token).await?,
        None => by_key(&app, &caller, &parts.headers)?,
    };
    let channel = Channel::new(hub, pass, id.ok_or(ConversationError::NotFound)?);
    let body = body::read(&app, &parts.headers, body, MAX_BODY).await?;
    let request = chorus_mcp::Request { method: parts.method, headers: parts.headers, body };
    let mut response =
        chorus_mcp::answer(Arc::new(channel), request).await.map_err(|refusal| match refusal {
            Refusal::NotFound => ConversationError::NotFound.into(),
            Refusal::Unauthorized => ApiError::unauthorized("this key or token is not valid (any more)"),
            Refusal::Store(error) => error.into(),
        })?;
    // Errors of this protocol are in its own format.
    response.extensions_mut().insert(ForPeople);
    Ok(response)
}

/// The agent of a token, as long as it holds and the agent is reached by what it was reached by then.
async fn by_token(app: &AppState, token: McpToken) -> Result<Pass, ApiError> {
    let out = move |tx: &mut dyn Tx| {
        let agent = directory::by_id(tx, token.agent)?;
        Ok(agent.is_some_and(|agent| agent.disabled_at.is_some()))
    };
    if app.store.read::<_, StoreError, _>(out).await? {
        return Err(disabled("agent").into());
    }
    let app = Arc::clone(app);
    let holds = move |tx: &mut dyn Tx| {
        let agent = directory::by_id(tx, token.agent)?;
        let holds = |agent: Agent| agent.epoch == token.epoch && agent.disabled_at.is_none();
        Ok(app.now() < token.expires_at && agent.is_some_and(holds))
    };
    Ok(Pass { who: token.agent.into(), holds: Arc::new(holds) })
}

/// Whoever's key or token this is, as long as it is.
fn by_key(app: &AppState, caller: &Caller, headers: &HeaderMap) -> Result<Pass, ApiError> {
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
    Ok(Pass { who, holds: Arc::new(holds) })
}

/// What the channel's tools need of the hub.
struct Tools {
    app: AppState,
    open: Open,
}

/// An error for a model: it reads sentences.
fn sentence<T>(read: Result<T, Error>) -> Result<T, String> {
    read.map_err(|error| error.message)
}

impl Hub for Tools {
    fn store(&self) -> &Store {
        &self.app.store
    }

    fn now(&self) -> i64 {
        self.app.now()
    }

    fn id(&self) -> Uuid {
        self.app.environment.uuid_v7()
    }

    fn secret_id(&self) -> Uuid {
        self.app.environment.uuid_v4()
    }

    fn page_bytes(&self) -> u64 {
        self.app.config.quotas.page_bytes
    }

    fn may_say(&self, who: Principal, conversation: ConversationId) -> Result<(), String> {
        may_say(&self.app, who, conversation, 1).map_err(|error| {
            let seconds = (error.retry_after_ms.unwrap_or(1000) + 999) / 1000;
            format!("nothing was said: you say too much here too fast; wait {seconds} s, or say more at once")
        })
    }

    fn message(&self, body: &Value) -> Result<Post, String> {
        let new = schema::read(body.clone()).map_err(|faults| faults.to_string())?;
        sentence(conversation::prepare(&new))
    }

    fn reaction(&self, body: &Value) -> Result<(Signal, Masked), String> {
        let new: NewReaction = schema::read(body.clone()).map_err(|faults| faults.to_string())?;
        Ok((new.signal, sentence(conversation::masked(&new))?))
    }

    fn document(&self, body: &Value) -> Result<NewArtifact, String> {
        let faults = |faults: Faults| faults.to_string();
        let (slug, title, content, content_type, base) = if body.get("base_version").is_none() {
            let new: NewDocument = schema::read(body.clone()).map_err(faults)?;
            (new.slug.0, new.title, new.content, new.content_type, 0)
        } else {
            let new: DocumentChange = schema::read(body.clone()).map_err(faults)?;
            let slug = body["slug"].as_str().unwrap_or_default().to_owned();
            (slug, new.title, new.content, new.content_type, new.base_version.unwrap_or(0))
        };
        Ok(conversation::version(slug, title, content, content_type, base))
    }

    fn post(&self, tx: &mut dyn Tx, act: &Act, new: &Post) -> Result<Posted, ConversationError> {
        conversation::post_in(&self.app, tx, act, new)
    }

    fn react(
        &self,
        tx: &mut dyn Tx,
        act: &Act,
        target: EventId,
        signal: Signal,
        body: &Masked,
    ) -> Result<(EventId, i64), ConversationError> {
        conversation::react_in(&self.app, tx, act, target, signal, body)
    }

    fn count(&self, tx: &mut dyn Tx, who: Principal, bytes: usize) -> Result<(), ConversationError> {
        self.app.count_bytes(tx, who, event_bytes(bytes))
    }

    fn put_document(
        &self,
        tx: &mut dyn Tx,
        act: &Act,
        new: &NewArtifact,
    ) -> Result<Artifact, ConversationError> {
        conversation::put(&self.app, tx, act, new)
    }

    fn events(&self, events: &[Event], standing: &Standing) -> Vec<Value> {
        let views = views::events(events, &standing.changes, &standing.replies);
        views.iter().filter_map(|view| serde_json::to_value(view).ok()).collect()
    }

    fn follow(&self, conversation: ConversationId) -> watch::Receiver<i64> {
        self.app.live.follow(conversation.0).0
    }

    fn revocations(&self, who: Principal) -> watch::Receiver<i64> {
        self.app.revocations(who)
    }

    fn open(&self) -> &Open {
        &self.open
    }

    fn ping(&self) -> Duration {
        self.app.config.times.ping
    }

    fn stopping(&self) -> &CancellationToken {
        &self.app.stopping
    }
}
