//! Notices of changed documents: a cursor over the conversation's log.
//!
//! A commit moves the head of the conversation; then the log is read, by somebody who still may, for documents that
//! changed. The place of an event is the id of its notices, so that a session's stream goes on after it, on any node.

use super::open::Opened;
use super::{Channel, Failure, Hub, resources};
use crate::rpc::RpcError;
use crate::service::{Notice, Notices, Wants};
use crate::sessions;
use chorus_store::log::{self, At, Filter};
use chorus_store::{Tx, conversation};
use futures_util::stream::{self, StreamExt};
use serde_json::{Map, Value, json};
use std::collections::VecDeque;
use tokio::sync::watch;

/// What one look at the log takes.
const READ_EVENTS: i64 = 100;
const READ_BYTES: usize = 256 * 1024;
/// The most documents that one listener names.
const MAX_NAMED: usize = sessions::MAX_SUBSCRIPTIONS;

/// What is told.
#[derive(Debug, Clone)]
enum Told {
    /// What this session is subscribed to, looked up each time.
    Session(String),
    /// These documents; and whether new ones.
    These(Vec<String>, bool),
}

struct Reader<H> {
    channel: Channel<H>,
    head: watch::Receiver<i64>,
    revocations: watch::Receiver<i64>,
    cursor: i64,
    told: Told,
    ready: VecDeque<Notice>,
    opened: Opened,
}

impl<H: Hub> Channel<H> {
    pub(super) async fn open_notices(&self, wants: Wants) -> Result<Notices, RpcError> {
        // Followed before the store is asked, so that no commit in between goes unnoticed.
        let (head, revocations) = (self.hub.follow(self.id), self.hub.revocations(self.pass.who));
        let (told, after, accepted) = match wants {
            Wants::Session { id, after } => (Told::Session(id), after, Value::Null),
            Wants::Filter(filter) => {
                let (told, accepted) = self.filter(&filter)?;
                (told, None, accepted)
            }
        };
        let (id, who) = (self.id, self.pass.who);
        let end = self.read(move |tx| {
            conversation::as_reader(tx, id, who)?;
            Ok(tx.head(id.0)?)
        });
        let end = end.await?;
        // A place beyond the end is from another life of the database: it says nothing here.
        let cursor = after.filter(|after| (0..=end).contains(after)).unwrap_or(end);
        let session = match &told {
            Told::Session(session) => Some(&**session),
            Told::These(..) => None,
        };
        let opened = self.hub.open().open(who, session);
        let (channel, ready) = (self.clone(), VecDeque::new());
        let reader = Reader { channel, head, revocations, cursor, told, ready, opened };
        let stream = stream::unfold(reader, |mut reader| async move {
            let notice = reader.next().await?;
            Some((notice, reader))
        });
        Ok(Notices { accepted, stream: stream.boxed() })
    }

    /// What of a filter can be told here.
    fn filter(&self, filter: &Map<String, Value>) -> Result<(Told, Value), RpcError> {
        let mut accepted = Map::new();
        let added = filter.get("resourcesListChanged") == Some(&Value::Bool(true));
        if added {
            accepted.insert("resourcesListChanged".into(), json!(true));
        }
        let named = match filter.get("resourceSubscriptions") {
            None => vec![],
            Some(Value::Array(uris)) if uris.len() <= MAX_NAMED => {
                uris.iter().filter_map(Value::as_str).collect()
            }
            Some(_) => {
                let what = format!("notifications.resourceSubscriptions: must be at most {MAX_NAMED} URIs");
                return Err(RpcError::params(what));
            }
        };
        let slugs: Vec<_> =
            named.iter().filter_map(|uri| resources::slug(self.id, uri)).map(str::to_owned).collect();
        if !slugs.is_empty() {
            let uris: Vec<_> = slugs.iter().map(|slug| resources::uri(self.id, slug)).collect();
            accepted.insert("resourceSubscriptions".into(), json!(uris));
        }
        Ok((Told::These(slugs, added), Value::Object(accepted)))
    }
}

impl<H: Hub> Reader<H> {
    /// The next notice; none at the end.
    async fn next(&mut self) -> Option<Notice> {
        loop {
            // What was found before a key was taken back is not told after it.
            if self.revocations.has_changed().unwrap_or(true) {
                self.revocations.mark_unchanged();
                self.channel.read(|_| Ok(())).await.ok()?;
            }
            if let Some(notice) = self.ready.pop_front() {
                return Some(notice);
            }
            if let Err(failure) = self.look().await {
                failure.log();
                return None;
            }
            if !self.ready.is_empty() {
                continue;
            }
            tokio::select! {
                biased;
                () = self.opened.over.cancelled() => return None,
                moved = self.head.changed() => moved.ok()?,
                changed = self.revocations.changed() => {
                    changed.ok()?;
                    self.revocations.mark_changed();
                }
                // A token that runs out ends the stream also when nothing happens.
                () = tokio::time::sleep(self.channel.hub.ping()) => {}
            }
        }
    }

    /// Reads on to the end of the log, as far as one look goes.
    async fn look(&mut self) -> Result<(), Failure> {
        let (id, who, at, told) = (self.channel.id, self.channel.pass.who, self.cursor, self.told.clone());
        let (changes, cursor) = self
            .channel
            .read(move |tx: &mut dyn Tx| {
                let (conversation, _) = conversation::as_reader(tx, id, who)?;
                let (slugs, added) = match &told {
                    Told::Session(session) => match sessions::get(tx, (who, id), session)? {
                        Some(session) => (session.subscribed, true),
                        None => return Err(Failure::Gone),
                    },
                    Told::These(slugs, added) => (slugs.clone(), *added),
                };
                let filter = Filter { thread: None, kind: Some("artifact".into()) };
                let page =
                    log::page(tx, &conversation, who, &filter, At::After(at), READ_EVENTS, READ_BYTES)?;
                let end = tx.head(id.0)?;
                let cursor = page.events.last().filter(|_| page.more).map_or(end, |last| last.seq);
                let mut changes = vec![];
                for event in &page.events {
                    let body: Value = serde_json::from_str(&event.body).unwrap_or_default();
                    let slug = body["slug"].as_str().unwrap_or_default();
                    let known = slugs.iter().any(|known| known == slug);
                    changes.push((event.seq, slug.to_owned(), known, added && body["version"] == 1));
                }
                Ok((changes, cursor))
            })
            .await?;
        for (seq, slug, known, added) in changes {
            if added {
                self.ready.push_back(Notice {
                    // Not the place of this event if there is more to say of it.
                    id: Some(if known { seq - 1 } else { seq }),
                    method: "notifications/resources/list_changed",
                    params: Map::new(),
                });
            }
            if known {
                let uri = resources::uri(id, &slug);
                self.ready.push_back(Notice {
                    id: Some(seq),
                    method: "notifications/resources/updated",
                    params: Map::from_iter([("uri".to_owned(), json!(uri))]),
                });
            }
        }
        self.cursor = cursor.max(self.cursor);
        Ok(())
    }
}
