//! Sessions of MCP clients, and the changes to documents that they and other listeners are told.
//!
//! A session is looked up with its owner and its conversation, in the transaction that lets its owner in.

mod changes;

pub use changes::{Change, Changes, Watched};

use crate::error::Error;
use crate::tools::Context;
use chorus_store::Tx;
use chorus_store::mcp_sessions::{self, Session};
use uuid::Uuid;

pub use chorus_store::mcp_sessions::MAX_SUBSCRIPTIONS;

/// Whether the caller may be here at all, and whether this is a session of his.
pub async fn check(context: &Context, session: Option<Uuid>) -> Result<bool, Error> {
    let (place, now) = ((context.who, context.conversation), context.app.now());
    let found = context.read_while_it_holds(move |tx, _| match session {
        Some(id) => Ok(mcp_sessions::get(tx, place, id, now)?.map(|session| (id, session))),
        None => Ok(None),
    });
    let Some((id, session)) = found.await? else { return Ok(false) };
    touch(context, id, &session).await?;
    Ok(true)
}

/// Writes down that a session is used, now and then.
async fn touch(context: &Context, id: Uuid, session: &Session) -> Result<(), Error> {
    let now = context.app.now();
    if session.must_touch(now) {
        let touch = move |tx: &mut dyn Tx| Ok(mcp_sessions::touch(tx, id, now)?);
        context.app.store.write::<_, Error, _>(touch).await?;
    }
    Ok(())
}

/// Writes as a present member who still may.
async fn write<T, F>(context: &Context, work: F) -> Result<T, Error>
where
    F: Fn(&mut dyn Tx) -> Result<T, Error> + Send + 'static,
    T: Send + 'static,
{
    let look_up = context.look_up();
    let work = move |tx: &mut dyn Tx| {
        look_up(tx)?;
        work(tx)
    };
    context.app.store.write(work).await
}

/// Opens a session.
pub async fn begin(context: &Context) -> Result<Uuid, Error> {
    let (place, now) = ((context.who, context.conversation), context.app.now());
    let id = context.app.environment.uuid_v4();
    write(context, move |tx| Ok(mcp_sessions::begin(tx, place, id, now)?)).await?;
    Ok(id)
}

/// Ends one, and its stream.
pub async fn end(context: &Context, id: Uuid) -> Result<(), Error> {
    let place = (context.who, context.conversation);
    write(context, move |tx| Ok(mcp_sessions::end(tx, place, id)?)).await?;
    context.app.open_streams.end(&id.to_string());
    Ok(())
}

/// Subscribes a session to a document, or takes that back; whether there was room.
pub async fn subscribe(context: &Context, id: Uuid, slug: &str, wanted: bool) -> Result<bool, Error> {
    let (place, now, slug) = ((context.who, context.conversation), context.app.now(), slug.to_owned());
    write(context, move |tx| Ok(mcp_sessions::subscribe(tx, place, id, (&slug, wanted), now)?)).await
}
