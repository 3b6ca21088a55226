//! Changes to documents, as they come: a cursor over the conversation's log.
//!
//! A commit moves the head of the conversation; then the log is read, by somebody who still may, for documents that
//! changed. The place of an event is where a stream goes on after it, on any node. How a change is told is the door's.

use super::touch;
use crate::error::Error;
use crate::open_streams::OpenStream;
use crate::tools::Context;
use chorus_protocol::words::EventKind;
use chorus_store::log::{self, At, Filter, Kinds, PageSize};
use chorus_store::mcp_sessions;
use serde_json::Value;
use std::collections::VecDeque;
use tokio::sync::watch;
use uuid::Uuid;

/// What one look at the log takes.
const PAGE: PageSize = PageSize { events: 100, bytes: 256 * 1024 };

/// Which documents are told of.
#[derive(Debug, Clone)]
pub enum Watched {
    /// What this session is subscribed to, looked up each time; and new ones.
    Session(Uuid),
    /// These, by slug; and whether new ones.
    These(Vec<String>, bool),
}

/// What is told of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Where in the log a stream goes on after it.
    pub place: i64,
    /// The document that changed, by its slug; none if there is a new one.
    pub changed: Option<String>,
}

/// All that changes from a place on, until the caller may not be here any more or another stream takes this one's place.
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
    /// From this place on, or from the end of the log.
    pub async fn open(context: &Context, watched: Watched, after: Option<i64>) -> Result<Self, Error> {
        let (context, app) = (context.clone(), &context.app);
        // Followed before the store is asked, so that no commit in between goes unnoticed.
        let (head, revocations) = (app.live.follow(context.conversation.0).0, app.revocations(context.who));
        let end =
            context.read_while_it_holds(|tx, (conversation, _)| Ok(tx.head(conversation.id.0)?)).await?;
        // A place beyond the end is from another life of the database: it says nothing here.
        let cursor = after.filter(|after| (0..=end).contains(after)).unwrap_or(end);
        let session = match &watched {
            Watched::Session(id) => Some(id.to_string()),
            Watched::These(..) => None,
        };
        let opened = app.open_streams.open(context.who, session.as_deref());
        Ok(Self { context, head, revocations, cursor, watched, ready: VecDeque::new(), opened })
    }

    /// The next one; none at the end.
    pub async fn next(&mut self) -> Result<Option<Change>, Error> {
        loop {
            // What was found before a key was taken back is not told after it.
            if self.revocations.has_changed().unwrap_or(true) {
                self.revocations.mark_unchanged();
                self.context.check_member().await?;
            }
            if let Some(change) = self.ready.pop_front() {
                return Ok(Some(change));
            }
            // The log may go on behind a page of what is not watched.
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
                // A token that runs out ends the stream also when nothing happens.
                () = tokio::time::sleep(self.context.app.config.times.ping) => Ok(()),
            };
            // There is nobody any more who would say that something moved.
            if followed.is_err() {
                return Ok(None);
            }
        }
    }

    /// Reads on, a page of the log; whether there is more.
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
            let end = tx.head(conversation.id.0)?;
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

/// What is told of one event: that there is a new document, or one less, that a watched one changed, both or neither.
fn changes_of(sequence: i64, slug: String, watched: &[String], added: bool) -> impl Iterator<Item = Change> {
    let is_watched = watched.contains(&slug);
    // Not the place of this event if there is more to say of it.
    let place = if is_watched { sequence - 1 } else { sequence };
    let added = added.then_some(Change { place, changed: None });
    added.into_iter().chain(is_watched.then_some(Change { place: sequence, changed: Some(slug) }))
}
