//! Sessions of MCP clients, and the stream of changes to documents for them and other listeners.
//!
//! A session is looked up with its owner and its conversation, in the transaction that authorises its owner.

mod changes;

pub use changes::{Change, Changes, Watched};

use crate::tools::Context;
use chorus_node::Error;
use chorus_store::Tx;
use chorus_store::mcp_sessions::{self, Session};
use uuid::Uuid;

pub use chorus_store::mcp_sessions::MAX_SUBSCRIPTIONS;

/// Checks that the caller has access, and returns whether this is one of its sessions.
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

/// Records from time to time that a session is in use.
async fn touch(context: &Context, id: Uuid, session: &Session) -> Result<(), Error> {
    let now = context.app.now();
    if session.must_touch(now) {
        let touch = move |tx: &mut dyn Tx| Ok(mcp_sessions::touch(tx, id, now)?);
        context.app.store.write::<_, Error, _>(touch).await?;
    }
    Ok(())
}

/// Runs a write after checking that the caller is still a present member.
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

/// Opens a session and returns its id.
pub async fn begin(context: &Context) -> Result<Uuid, Error> {
    let (place, now) = ((context.who, context.conversation), context.app.now());
    let id = context.app.environment.uuid_v4();
    write(context, move |tx| Ok(mcp_sessions::begin(tx, place, id, now)?)).await?;
    Ok(id)
}

/// Ends a session and its stream.
pub async fn end(context: &Context, id: Uuid) -> Result<(), Error> {
    let place = (context.who, context.conversation);
    write(context, move |tx| Ok(mcp_sessions::end(tx, place, id)?)).await?;
    context.app.limits.open_streams.end(&id.to_string());
    Ok(())
}

/// Subscribes a session to a document, or unsubscribes it. Returns `false` if the session has no room for
/// another.
pub async fn subscribe(context: &Context, id: Uuid, slug: &str, wanted: bool) -> Result<bool, Error> {
    let (place, now, slug) = ((context.who, context.conversation), context.app.now(), slug.to_owned());
    write(context, move |tx| Ok(mcp_sessions::subscribe(tx, place, id, &slug, wanted, now)?)).await
}
