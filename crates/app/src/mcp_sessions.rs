//! Sessions of MCP clients, and the changes to documents that they and other listeners are told.
//!
//! A session is looked up with its owner and its conversation, in the transaction that lets its owner in. Notices are a cursor
//! over the conversation's log: the place of an event is where a stream goes on after it, on any node.

use crate::error::Error;
use crate::tools::Context;
use chorus_store::Tx;
use chorus_store::log::{self, At, Filter};
use chorus_store::mcp_sessions::{self, Session};
use serde_json::Value;
use uuid::Uuid;

pub use chorus_store::mcp_sessions::MAX_SUBSCRIPTIONS;

/// What one look at the log takes.
const READ_EVENTS: i64 = 100;
const READ_BYTES: usize = 256 * 1024;

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
    context.app.open.end(&id.to_string());
    Ok(())
}

/// Subscribes a session to a document, or takes that back; whether there was room.
pub async fn subscribe(context: &Context, id: Uuid, slug: &str, wanted: bool) -> Result<bool, Error> {
    let (place, now, slug) = ((context.who, context.conversation), context.app.now(), slug.to_owned());
    write(context, move |tx| Ok(mcp_sessions::subscribe(tx, place, id, (&slug, wanted), now)?)).await
}

/// Which documents are told of.
#[derive(Debug, Clone)]
pub enum Watched {
    /// What this session is subscribed to, looked up each time; and new ones.
    Session(Uuid),
    /// These, by slug; and whether new ones.
    These(Vec<String>, bool),
}

/// A document that changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Where in the log.
    pub sequence: i64,
    pub slug: String,
    /// Whether it is one of those that are watched.
    pub watched: bool,
    /// Whether it is new, and that is watched.
    pub added: bool,
}

/// The end of the log, as a present member sees it.
pub async fn end_of_log(context: &Context) -> Result<i64, Error> {
    context.read_while_it_holds(|tx, (conversation, _)| Ok(tx.head(conversation.id.0)?)).await
}

/// What changed after this place, and the place where to go on, as far as one look goes.
pub async fn changes(context: &Context, watched: &Watched, after: i64) -> Result<(Vec<Change>, i64), Error> {
    let (who, watched, now) = (context.who, watched.clone(), context.app.now());
    let look = context.read_while_it_holds(move |tx, (conversation, _)| {
        let (slugs, added, session) = match &watched {
            Watched::Session(id) => {
                let found = mcp_sessions::get(tx, (who, conversation.id), *id, now)?;
                let session = found.ok_or_else(|| Error::not_found("session"))?;
                (session.subscribed.clone(), true, Some((*id, session)))
            }
            Watched::These(slugs, added) => (slugs.clone(), *added, None),
        };
        let filter = Filter { thread: None, kind: Some("artifact".into()) };
        let page = log::page(tx, &conversation, who, &filter, At::After(after), READ_EVENTS, READ_BYTES)?;
        let end = tx.head(conversation.id.0)?;
        let next = page.events.last().filter(|_| page.more).map_or(end, |last| last.seq);
        let changes = page.events.iter().map(|event| {
            let body: Value = serde_json::from_str(&event.body).unwrap_or_default();
            let slug = body["slug"].as_str().unwrap_or_default().to_owned();
            let watched = slugs.contains(&slug);
            Change { sequence: event.seq, slug, watched, added: added && body["version"] == 1 }
        });
        Ok((changes.collect(), next, session))
    });
    let (changes, next, session) = look.await?;
    if let Some((id, session)) = session {
        touch(context, id, &session).await?;
    }
    Ok((changes, next.max(after)))
}
