//! Notices of changed documents: a cursor over the conversation's log.
//!
//! A commit moves the head of the conversation; then the log is read, by somebody who still may, for documents that
//! changed. The place of an event is the id of its notices, so that a session's stream goes on after it, on any node.

use super::words::{Failure, failure, log, session_id};
use chorus_app::Error;
use chorus_app::mcp_sessions::{self, Change, MAX_SUBSCRIPTIONS, Watched};
use chorus_app::open::Opened;
use chorus_app::tools::{Context, document_slug, document_uri};
use chorus_mcp::{Notice, Notices, Wants};
use chorus_protocol::rpc::RpcError;
use futures_util::stream::{self, StreamExt};
use serde_json::{Map, Value, json};
use std::collections::VecDeque;
use tokio::sync::watch;

struct Reader {
    context: Context,
    head: watch::Receiver<i64>,
    revocations: watch::Receiver<i64>,
    cursor: i64,
    watched: Watched,
    ready: VecDeque<Notice>,
    opened: Opened,
}

pub(super) async fn open(context: &Context, wants: Wants) -> Result<Notices, Failure> {
    let app = &context.app;
    // Followed before the store is asked, so that no commit in between goes unnoticed.
    let (head, revocations) = (app.live.follow(context.conversation.0).0, app.revocations(context.who));
    let (watched, session, after, accepted) = match wants {
        Wants::Session { id, after } => {
            let session = session_id(&id).ok_or_else(|| RpcError::params("there is no such session"))?;
            (Watched::Session(session), Some(session.to_string()), after, Value::Null)
        }
        Wants::Filter(filter) => {
            let (watched, accepted) = read_filter(context, &filter)?;
            (watched, None, None, accepted)
        }
    };
    let end = mcp_sessions::end_of_log(context).await.map_err(failure)?;
    // A place beyond the end is from another life of the database: it says nothing here.
    let cursor = after.filter(|after| (0..=end).contains(after)).unwrap_or(end);
    let opened = app.open.open(context.who, session.as_deref());
    let (context, ready) = (context.clone(), VecDeque::new());
    let reader = Reader { context, head, revocations, cursor, watched, ready, opened };
    let stream = stream::unfold(reader, |mut reader| async move {
        let notice = reader.next().await?;
        Some((notice, reader))
    });
    Ok(Notices { accepted, stream: stream.boxed() })
}

/// What of a filter can be told here.
fn read_filter(context: &Context, filter: &Map<String, Value>) -> Result<(Watched, Value), RpcError> {
    let mut accepted = Map::new();
    let added = filter.get("resourcesListChanged") == Some(&Value::Bool(true));
    if added {
        accepted.insert("resourcesListChanged".into(), json!(true));
    }
    let named = match filter.get("resourceSubscriptions") {
        None => vec![],
        Some(Value::Array(uris)) if uris.len() <= MAX_SUBSCRIPTIONS => {
            uris.iter().filter_map(Value::as_str).collect()
        }
        Some(_) => {
            return Err(RpcError::params(format_args!(
                "notifications.resourceSubscriptions: must be at most {MAX_SUBSCRIPTIONS} URIs"
            )));
        }
    };
    let slugs = named.iter().filter_map(|uri| document_slug(context.conversation, uri));
    let slugs: Vec<_> = slugs.map(str::to_owned).collect();
    if !slugs.is_empty() {
        let uris: Vec<_> = slugs.iter().map(|slug| document_uri(context.conversation, slug)).collect();
        accepted.insert("resourceSubscriptions".into(), json!(uris));
    }
    Ok((Watched::These(slugs, added), Value::Object(accepted)))
}

impl Reader {
    /// The next notice; none at the end.
    async fn next(&mut self) -> Option<Notice> {
        loop {
            // What was found before a key was taken back is not told after it.
            if self.revocations.has_changed().unwrap_or(true) {
                self.revocations.mark_unchanged();
                self.context.check_member().await.ok()?;
            }
            if let Some(notice) = self.ready.pop_front() {
                return Some(notice);
            }
            if let Err(error) = self.read_new_events().await {
                log(&error);
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
                () = tokio::time::sleep(self.context.app.config.times.ping) => {}
            }
        }
    }

    /// Reads on to the end of the log, as far as one look goes.
    async fn read_new_events(&mut self) -> Result<(), Error> {
        let (changes, cursor) = mcp_sessions::changes(&self.context, &self.watched, self.cursor).await?;
        for Change { sequence, slug, watched, added } in changes {
            if added {
                self.ready.push_back(Notice {
                    // Not the place of this event if there is more to say of it.
                    id: Some(if watched { sequence - 1 } else { sequence }),
                    method: "notifications/resources/list_changed",
                    params: Map::new(),
                });
            }
            if watched {
                let uri = document_uri(self.context.conversation, &slug);
                self.ready.push_back(Notice {
                    id: Some(sequence),
                    method: "notifications/resources/updated",
                    params: Map::from_iter([("uri".to_owned(), json!(uri))]),
                });
            }
        }
        self.cursor = cursor;
        Ok(())
    }
}
