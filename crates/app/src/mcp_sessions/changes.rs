//! Changes to documents as a live stream: a cursor over the conversation's log.
//!
//! A commit moves the head of the conversation. Then the log is read for changed documents, as a caller that
//! is still a member. The sequence of an event is the cursor after it, on any node. The door decides the form
//! of a notification.

use super::touch;
use crate::tools::Context;
use chorus_node::Error;
use chorus_node::limits::open_streams::OpenStream;
use chorus_protocol::words::EventKind;
use chorus_store::log::{self, At, Filter, Kinds, PageSize};
use chorus_store::mcp_sessions;
use serde_json::Value;
use std::collections::VecDeque;
use tokio::sync::watch;
use uuid::Uuid;

/// The size of one page of the log.
const PAGE: PageSize = PageSize { events: 100, bytes: 256 * 1024 };

/// The documents that a stream reports.
#[derive(Debug, Clone)]
pub enum Watched {
    /// New documents and this session's subscriptions, which are looked up each time.
    Session(Uuid),
    /// The documents with these slugs, and new documents if the flag is set.
    These(Vec<String>, bool),
}

/// A change of the documents of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The cursor from which a stream continues after this change.
    pub place: i64,
    /// The slug of the changed document, or `None` if the list of documents changed.
    pub changed: Option<String>,
}

/// A stream of changes after a cursor. It ends when the caller loses access or another stream of the session
/// replaces it.
pub struct Changes {
    context: Context,
    head: watch::Receiver<i64>,
    revocations: watch::Receiver<i64>,
    cursor: i64,
    watched: Watched,
    ready: VecDeque<Change>,
    opened: OpenStream,
}

impl Changes {
    /// Opens a stream after this cursor, or at the end of the log.
    pub async fn open(context: &Context, watched: Watched, after: Option<i64>) -> Result<Self, Error> {
        let (context, app) = (context.clone(), &context.app);
        // Subscribes before the store is read, so that no commit in between is missed.
        let (head, revocations) =
            (app.transport.live.follow(context.conversation.into()).0, app.revocations(context.who));
        let end =
            context.read_while_it_holds(|tx, (conversation, _)| Ok(tx.head(conversation.id.into())?)).await?;
        // A cursor beyond the end comes from an earlier copy of the database and is ignored.
        let cursor = after.filter(|after| (0..=end).contains(after)).unwrap_or(end);
        let session = match &watched {
            Watched::Session(id) => Some(id.to_string()),
            Watched::These(..) => None,
        };
        let opened = app.limits.open_streams.open(context.who, session.as_deref());
        Ok(Self { context, head, revocations, cursor, watched, ready: VecDeque::new(), opened })
    }

    /// Returns the next change, or `None` at the end of the stream.
    pub async fn next(&mut self) -> Result<Option<Change>, Error> {
        loop {
            // A change that was read before a key was revoked is not delivered after it.
            if self.revocations.has_changed().unwrap_or(true) {
                self.revocations.mark_unchanged();
                self.context.check_member().await?;
            }
            if let Some(change) = self.ready.pop_front() {
                return Ok(Some(change));
            }
            // More events may follow a page without watched documents.
            let more = self.read_log().await?;
            if more || !self.ready.is_empty() {
                continue;
            }
            let followed = tokio::select! {
                biased;
                () = self.opened.over.cancelled() => return Ok(None),
                moved = self.head.changed() => moved,
                changed = self.revocations.changed() => {
                    self.revocations.mark_changed();
                    changed
                }
                // An expired token ends the stream even if nothing changes.
                () = tokio::time::sleep(self.context.app.config.times.ping) => Ok(()),
            };
            // The sender of wake-ups is gone.
            if followed.is_err() {
                return Ok(None);
            }
        }
    }

    /// Reads the next page of the log, and returns whether there is more.
    async fn read_log(&mut self) -> Result<bool, Error> {
        let (context, after) = (&self.context, self.cursor);
        let (who, watched, now) = (context.who, self.watched.clone(), context.app.now());
        let read = context.read_while_it_holds(move |tx, (conversation, _)| {
            let (slugs, added, session) = match &watched {
                Watched::Session(id) => {
                    let found = mcp_sessions::get(tx, (who, conversation.id), *id, now)?;
                    let session = found.ok_or_else(|| Error::not_found("session"))?;
                    (session.subscribed.clone(), true, Some((*id, session)))
                }
                Watched::These(slugs, added) => (slugs.clone(), *added, None),
            };
            let filter = Filter { thread: None, kinds: Kinds::Only(EventKind::Artifact) };
            let page = log::page(tx, &conversation, who, &filter, At::After(after), PAGE)?;
            let end = tx.head(conversation.id.into())?;
            let next = page.events.last().filter(|_| page.more).map_or(end, |last| last.seq);
            let changes = page.events.iter().flat_map(|event| {
                let body: Value = serde_json::from_str(&event.body).unwrap_or_default();
                let slug = body["slug"].as_str().unwrap_or_default().to_owned();
                changes_of(
                    event.seq,
                    slug,
                    &slugs,
                    added && (body["version"] == 1 || body["removed"] == true),
                )
            });
            Ok((changes.collect::<VecDeque<_>>(), next, page.more, session))
        });
        let (changes, next, more, session) = read.await?;
        if let Some((id, session)) = session {
            touch(context, id, &session).await?;
        }
        (self.ready, self.cursor) = (changes, next.max(after));
        Ok(more)
    }
}

/// Returns the changes of one event: a change of the list, a change of a watched document, both or neither.
fn changes_of(sequence: i64, slug: String, watched: &[String], added: bool) -> impl Iterator<Item = Change> {
    let is_watched = watched.contains(&slug);
    // If a second change of this event follows, the cursor stays before the event.
    let place = if is_watched { sequence - 1 } else { sequence };
    let added = added.then_some(Change { place, changed: None });
    added.into_iter().chain(is_watched.then_some(Change { place: sequence, changed: Some(slug) }))
}
