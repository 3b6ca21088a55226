//! Taking a foreign post: a message of another service's channel, for an agent of this hub whose connection string the
//! service has.
//!
//! What comes is stored sealed, as it came, and delivered like everything else, by the best way the agent has open. The hub
//! reads it only as far as the document goes, and never calls what it names: that is the agent's business.

use crate::app::{App, AppState};
use crate::attention::envelopes;
use crate::caller::{disabled, key_hash};
use crate::charge::{charge, count_bad_secret, purpose_key};
use crate::error::Error;
use crate::rate::Source;
use crate::sealing;
use crate::usage::event_bytes;
use chorus_protocol::channel::Post;
use chorus_protocol::code::Code;
use chorus_protocol::ids::{ConversationId, DeliveryId, EventId, TraceId};
use chorus_protocol::words::EntryKind;
use chorus_store::conversation::{self, Act, ConversationError};
use chorus_store::conversations::{self, NewEvent};
use chorus_store::deliveries::Bringing;
use chorus_store::directory::{self, Agent, KeyHash};
use chorus_store::idempotency::{self, Answer, Key, Known};
use chorus_store::{StoreError, Tx};
use serde_json::json;
use std::iter;
use std::sync::Arc;
use url::Url;

/// How long a message is known by its id.
const KNOWN_MS: i64 = 48 * 60 * 60 * 1000;
/// When whoever posts to an agent that has no room left may try again: room comes by retention, or by the operator.
const NO_ROOM_RETRY_MS: i64 = 10 * 60 * 1000;

/// The secret of a connection string that is an agent's, and was charged for one post.
pub struct Admitted(KeyHash);

/// Looks a connection string's secret up before anything is read of what comes with it: a stranger costs one look.
pub async fn admit(app: &App, secret: &str, source: Source) -> Result<Admitted, Error> {
    let secret = key_hash(secret);
    let turn = app.look_ups.turn(source).await?;
    let known = move |tx: &mut dyn Tx| directory::by_foreign_secret(tx, &secret);
    let found = app.store.read::<_, StoreError, _>(known).await?;
    drop(turn);
    let Some(agent) = found else {
        return Err(count_bad_secret(app, source).err().unwrap_or_else(unknown));
    };
    charge(app, purpose_key("connection string", agent.id))?;
    is_enabled(&agent)?;
    Ok(Admitted(secret))
}

/// Takes a post. The same message again is taken as well, and not delivered twice.
pub async fn take(app: &AppState, Admitted(secret): Admitted, body: &[u8]) -> Result<(), Error> {
    let post = Post::read(body)?;
    check_addresses(app, &post).await?;
    let body = str::from_utf8(body).map_err(Error::validation)?;
    let (now, hub) = (app.now(), Arc::clone(app));
    let (event, trace) = (EventId(app.environment.uuid_v7()), TraceId(app.environment.uuid_v7()));
    // Its callback and its bearers are another service's secrets.
    let body = sealing::seal_post(&app.config.master_key, app.environment.bytes(), event, body)
        .ok_or_else(|| Error::internal("a post could not be sealed"))?;
    let store = move |tx: &mut dyn Tx| {
        let agent = directory::by_foreign_secret(tx, &secret)?.ok_or_else(unknown)?;
        is_enabled(&agent)?;
        let agent = agent.id;
        // What the message says may differ between tries: its callback is fresh each time.
        let ids = [agent.as_bytes(), post.channel.id.as_bytes(), post.message.id.as_bytes()];
        let key = Key::new("foreign", &ids, b"", Some(now + KNOWN_MS));
        if idempotency::reserve(tx, &key, now, now)? != Known::New {
            return Ok(());
        }
        let conversation = ConversationId::of_foreign(agent, &post.channel.id);
        let act = Act { conversation, author: agent.into(), event, trace, now };
        let new = NewEvent { id: event, conversation, author: act.author, trace, thread: None, target: None };
        conversations::append_foreign(tx, &new, &body, now)?;
        // Who posts is unknown; whoever gave the connection string out answers for it, and can rotate it.
        hub.count_bytes(tx, agent.into(), event_bytes(body.len())).map_err(no_room_yet)?;
        let id = DeliveryId { agent, seq: tx.next_seq(agent.0)? };
        let meaning = envelopes::meaning_of_post_for(tx, &post.message.content, agent, now)?;
        conversation::deliver(tx, &act, id, EntryKind::Channel, meaning, Bringing::FIRST)?
            .ok_or_else(unknown)?;
        idempotency::answer(tx, &key, now, &Answer::new(200, "{}".into()))?;
        hub.push_after(tx);
        Ok(())
    };
    app.store.write::<_, Error, _>(store).await
}

/// The hub calls nothing of it, but its agents would: what is known to lie in a private network is refused, so that
/// whoever posts it learns why nobody answers. The hub's own addresses are its business.
async fn check_addresses(app: &App, post: &Post) -> Result<(), Error> {
    let servers = post.mcp.iter().map(|server| ("mcp.url", &server.url));
    for (place, text) in iter::once(("callback", &post.callback)).chain(servers) {
        // What is no URL was refused before.
        let Ok(url) = Url::parse(text) else { continue };
        let own = Url::parse(&app.config.public_url).is_ok_and(|own| own.origin() == url.origin());
        if !own {
            app.outbound.check(place, &url).await?;
        }
    }
    Ok(())
}

/// A used up quota is the agent's trouble: whoever posts keeps the connection string, and tries again.
fn no_room_yet(error: ConversationError) -> Error {
    let ConversationError::Quota(exceeded) = error else { return error.into() };
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
