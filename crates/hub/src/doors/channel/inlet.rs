//! The hub as agent service: a connection string for any of its agents, so that other services can reach them.
//!
//! What comes is stored sealed, as it came, and delivered like everything else, by the best way the agent has open. The hub
//! reads it only as far as the document goes, and never calls what it names: that is the agent's business.

use super::bodies::ForeignPost;
use crate::doors::api::answers::{Invalid, Missing, Overloaded, TooLarge, TooSlow};
use crate::doors::body;
use crate::error::{ApiError, OwnFailure};
use crate::middleware::Client;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::{Extension, Json};
use chorus_app::Error;
use chorus_app::caller::{disabled, key_hash};
use chorus_app::charge::{charge, count_bad_secret, purpose_key};
use chorus_app::sealing;
use chorus_app::usage::event_bytes;
use chorus_app::{App, AppState};
use chorus_protocol::channel::{MAX_BODY, Post};
use chorus_protocol::ids::{ConversationId, DeliveryId, EventId, TraceId};
use chorus_protocol::relay::Code;
use chorus_protocol::words::{EntryKind, EventKind, Reason};
use chorus_store::channel::{self, Act, ChannelError};
use chorus_store::conversations::{self, NewEvent, UNPLACED};
use chorus_store::idempotency::{self, Answer, Key, Known};
use chorus_store::{StoreError, Tx, directory};
use serde::Serialize;
use serde_json::json;
use std::iter;
use std::sync::Arc;
use url::Url;

/// How long a message is known by its id.
const KNOWN_MS: i64 = 48 * 60 * 60 * 1000;
/// When whoever posts to an agent that has no room left may try again: room comes by retention, or by the operator.
const NO_ROOM_RETRY_MS: i64 = 10 * 60 * 1000;

/// The message is stored.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct Received {
    /// Always `true`.
    ok: bool,
}

/// Post a message of another service's channel to an agent of this hub
///
/// The path is the agent's connection string, as `POST /api/v1/agents` gave it. The agent gets the body as it is, and
/// answers at its `callback`. Success means committed to disk. The same `channel.id` and `message.id` again within 48 h
/// is success and is not delivered twice.
#[utoipa::path(post, path = "/inbox/{sk}", tag = "channel",
    params(("sk" = String, Path, pattern = "^sk_[0-9a-f]{32}$", description = "The secret of the connection string")),
    request_body(content_type = "application/json", content = ForeignPost),
    responses((status = 200, description = "Stored for the agent", body = Received),
              Invalid,
              (status = 403, description = "`FORBIDDEN`: the agent is disabled", body = OwnFailure),
              Missing, TooSlow, TooLarge,
              (status = 429, description = "`RATE_LIMITED`: too many requests, or the agent has no room for more: `details` says \
                                            which quota is used up", body = OwnFailure,
               headers(("Retry-After" = u64, description = "Seconds to wait"))),
              Overloaded))]
pub(crate) async fn receive(
    State(app): State<AppState>,
    Path(secret): Path<String>,
    Extension(client): Extension<Client>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Received>, ApiError> {
    let secret = key_hash(&secret);
    let known = move |tx: &mut dyn Tx| directory::by_inlet(tx, &secret);
    // Before anything is read: a stranger costs one look.
    let turn = app.look_ups.turn(client.source()).await?;
    let found = app.store.read::<_, StoreError, _>(known).await?;
    drop(turn);
    let Some(agent) = found else {
        return Err(count_bad_secret(&app, client.source()).err().unwrap_or_else(unknown).into());
    };
    charge(&app, purpose_key("connection string", agent.id))?;
    if agent.disabled_at.is_some() {
        return Err(disabled("agent").into());
    }
    let body = body::read(&app, &headers, body, MAX_BODY).await?;
    let post = Post::read(&body)?;
    check_addresses(&app, &post).await?;
    let body = String::from_utf8(body.into()).map_err(ApiError::validation)?;
    let (now, hub) = (app.now(), Arc::clone(&app));
    let (event, trace) = (EventId(app.sources.uuid_v7()), TraceId(app.sources.uuid_v7()));
    // Its callback and its bearers are another service's secrets.
    let body = sealing::seal_post(&app.config.master_key, app.sources.bytes(), event, &body)
        .ok_or_else(|| ApiError::internal("a post could not be sealed"))?;
    let store = move |tx: &mut dyn Tx| {
        let agent = directory::by_inlet(tx, &secret)?.ok_or_else(unknown)?;
        if agent.disabled_at.is_some() {
            return Err(disabled("agent"));
        }
        let agent = agent.id;
        // What the message says may differ between tries: its callback is fresh each time.
        let ids = [agent.as_bytes(), post.channel.id.as_bytes(), post.message.id.as_bytes()];
        let key = Key::new("foreign", &ids, b"", Some(now + KNOWN_MS));
        if idempotency::claim(tx, &key, now, now)? != Known::New {
            return Ok(());
        }
        let conversation = ConversationId::of_foreign(agent, &post.channel.id);
        let act = Act { conversation, author: agent.into(), event, trace, now };
        let new = NewEvent {
            id: event,
            conversation,
            kind: EventKind::Foreign,
            author: act.author,
            trace,
            thread: None,
            target: None,
            body: &body,
        };
        conversations::append(tx, &new, UNPLACED, now)?;
        // Who posts is unknown; whoever gave the connection string out answers for it, and can rotate it.
        hub.count_bytes(tx, agent.into(), event_bytes(body.len())).map_err(no_room_yet)?;
        let id = DeliveryId { agent, seq: tx.next_seq(agent.0)? };
        channel::deliver(tx, &act, id, EntryKind::Channel, Reason::DirectMessage)?.ok_or_else(unknown)?;
        idempotency::answer(tx, &key, now, &Answer::new(200, "{}".into()))?;
        hub.push_after(tx);
        Ok(())
    };
    app.store.write::<_, Error, _>(store).await?;
    Ok(Json(Received { ok: true }))
}

/// The hub calls nothing of it, but its agents would: what is known to lie in a private network is refused, so that
/// whoever posts it learns why nobody answers. The hub's own addresses are its business.
async fn check_addresses(app: &App, post: &Post) -> Result<(), ApiError> {
    let servers = post.mcp.iter().map(|server| ("mcp.url", &server.url));
    for (place, text) in iter::once(("callback", &post.callback)).chain(servers) {
        // What is no URL was refused before.
        let Ok(url) = Url::parse(text) else { continue };
        let own = Url::parse(&app.config.public_url).is_ok_and(|own| own.origin() == url.origin());
        if !own {
            let checked = app.outbound.policy().check_url(&url).await;
            checked.map_err(|blocked| {
                ApiError::new(Code::EndpointBlocked, format_args!("{place}: {blocked}"))
            })?;
        }
    }
    Ok(())
}

/// A used up quota is the agent's trouble: whoever posts keeps the connection string, and tries again.
fn no_room_yet(error: ChannelError) -> Error {
    let ChannelError::Quota(exceeded) = error else { return error.into() };
    let what = "the agent has no room for more until its quota is raised or old messages are removed; try again later";
    Error::new(Code::RateLimited, what)
        .details(json!({"quota": exceeded.quota}))
        .retry_after_ms(NO_ROOM_RETRY_MS)
}

fn unknown() -> Error {
    Error::new(Code::NotFound, "this connection string is not valid (any more); ask the agent's owner")
}
