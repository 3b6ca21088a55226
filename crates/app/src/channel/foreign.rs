//! Foreign posts: messages of another service's channel to an agent of this hub, whose connection string the
//! service has.
//!
//! A post is stored sealed, as it came, and delivered like any other event, by the agent's best open way. The
//! hub reads only what the protocol defines, and never calls the addresses in a post; that is up to the agent.

use crate::attention::envelopes;
use chorus_node::Error;
use chorus_node::caller::{disabled, key_hash};
use chorus_node::limits::accounting::purpose_key;
use chorus_node::secrets::sealed_posts;
use chorus_node::source::Source;
use chorus_node::{App, AppState};
use chorus_protocol::channel::Post;
use chorus_protocol::code::Code;
use chorus_protocol::ids::{ConversationId, DeliveryId, EventId, TraceId};
use chorus_protocol::words::EntryKind;
use chorus_store::conversation::{self, Act};
use chorus_store::conversations::{self, NewEvent};
use chorus_store::deliveries::Bringing;
use chorus_store::directory::{self, Agent, KeyHash};
use chorus_store::idempotency::{self, Answer, Key, Known};
use chorus_store::{StoreError, Tx};
use serde_json::json;
use std::iter;
use std::sync::Arc;
use url::Url;

/// The time for which a repeated message is recognized by its id.
const KNOWN_MS: i64 = 48 * 60 * 60 * 1000;
/// The retry delay for posts to an agent whose quota is used up. Retention or the operator makes room.
const NO_ROOM_RETRY_MS: i64 = 10 * 60 * 1000;

/// The hash of a valid connection string secret, already charged for one post.
pub struct Admitted(KeyHash);

/// Looks up a connection string's secret before the body is read, so that a stranger costs one lookup.
pub async fn admit(app: &App, secret: &str, source: Source) -> Result<Admitted, Error> {
    let secret = key_hash(secret);
    let turn = app.limits.credential_lookups.turn(source).await?;
    let known = move |tx: &mut dyn Tx| directory::by_foreign_secret(tx, &secret);
    let found = app.store.read::<_, StoreError, _>(known).await?;
    drop(turn);
    let Some(agent) = found else {
        return Err(app.limits.count_bad_secret(source).err().unwrap_or_else(unknown));
    };
    app.limits.charge(purpose_key("connection string", agent.id))?;
    is_enabled(&agent)?;
    Ok(Admitted(secret))
}

/// Stores a post and delivers it. A repeated message is accepted, and not delivered again.
pub async fn take(app: &AppState, Admitted(secret): Admitted, body: &[u8]) -> Result<(), Error> {
    let post = Post::read(body)?;
    check_addresses(app, &post).await?;
    let body = str::from_utf8(body).map_err(Error::validation)?;
    let (now, hub) = (app.now(), Arc::clone(app));
    let (event, trace) = (EventId(app.environment.uuid_v7()), TraceId(app.environment.uuid_v7()));
    // The callback and the bearer tokens are secrets of the other service.
    let body = sealed_posts::seal_post(&app.config.master_key, app.environment.bytes(), event, body)
        .ok_or_else(|| Error::internal("a post could not be sealed"))?;
    let store = move |tx: &mut dyn Tx| {
        let agent = directory::by_foreign_secret(tx, &secret)?.ok_or_else(unknown)?;
        is_enabled(&agent)?;
        let agent = agent.id;
        // The key covers only the ids, because each try carries a fresh callback.
        let ids = [agent.as_bytes(), post.channel.id.as_bytes(), post.message.id.as_bytes()];
        let key = Key::new("foreign", &ids, b"", Some(now + KNOWN_MS));
        if idempotency::reserve(tx, &key, now, now)? != Known::New {
            return Ok(());
        }
        let conversation = ConversationId::of_foreign(agent, &post.channel.id);
        let act = Act { conversation, author: agent.into(), event, trace, now };
        let new = NewEvent { id: event, conversation, author: act.author, trace, thread: None, target: None };
        // The poster is unknown. The agent is the author, because its owner gave the connection string out and
        // can rotate it.
        conversations::append_foreign(tx, &new, &body, now).map_err(no_room_yet)?;
        let id = DeliveryId { agent, seq: tx.next_seq(agent.into())? };
        let meaning = envelopes::meaning_of_post_for(tx, &post.message.content, agent, now)?;
        conversation::deliver(tx, &act, id, EntryKind::Channel, meaning, Bringing::FIRST)?
            .ok_or_else(unknown)?;
        idempotency::answer(tx, &key, now, &Answer::new(200, "{}".into()))?;
        hub.push_after(tx);
        Ok(())
    };
    app.store.write::<_, Error, _>(store).await
}

/// Refuses a post with addresses in a private network. The hub does not call them, but the agent would, and so
/// the poster learns why nothing answers. Addresses of this hub are allowed.
async fn check_addresses(app: &App, post: &Post) -> Result<(), Error> {
    let servers = post.mcp.iter().map(|server| ("mcp.url", &server.url));
    for (place, text) in iter::once(("callback", &post.callback)).chain(servers) {
        // Invalid URLs were refused before.
        let Ok(url) = Url::parse(text) else { continue };
        let own = Url::parse(&app.config.public_url).is_ok_and(|own| own.origin() == url.origin());
        if !own {
            app.transport.outbound.check(place, &url).await?;
        }
    }
    Ok(())
}

/// Turns a used up quota into a retryable error. The connection string stays valid, and the poster tries
/// again.
fn no_room_yet(error: StoreError) -> Error {
    let StoreError::Quota(exceeded) = error else { return error.into() };
    let what = "the agent has no room for more until its quota is raised or old messages are removed; try again later";
    Error::new(Code::RateLimited, what)
        .details(json!({"quota": exceeded.quota}))
        .retry_after_ms(NO_ROOM_RETRY_MS)
}

fn is_enabled(agent: &Agent) -> Result<(), Error> {
    agent.disabled_at.map_or(Ok(()), |_| Err(disabled("agent")))
}

fn unknown() -> Error {
    Error::new(Code::NotFound, "this connection string is not valid (any more); ask the agent's owner")
}
