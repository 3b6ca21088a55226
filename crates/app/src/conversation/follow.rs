//! Following a conversation: its log as a live stream.
//!
//! A follower is a cursor, as for inboxes. It reads the next events from the frames that were just encoded,
//! and from the store if they are not there. Unlike the readers of an inbox, any number of followers may read
//! one conversation, without a session and without acknowledgements.
//!
//! Frames are the same for everybody, so they are used only if every member may read everything. Only messages
//! have frames. Joins, leaves and changes of the conversation are always read from the store, where the
//! permissions of the follower are checked again, so a removed member gets nothing that comes later. A revoked
//! key, token or session ends the stream as well: the commit moves `revocations`, and nothing is sent until
//! the credential is checked again.

use crate::views;
use bytes::{Bytes, BytesMut};
use chorus_node::Error;
use chorus_node::authentication;
use chorus_node::caller::Shown;
use chorus_node::transport::dialect::Dialect;
use chorus_node::{App, AppState};
use chorus_protocol::code::Code;
use chorus_protocol::ids::{ConversationId, EventId, Principal};
use chorus_protocol::relay::{Gap, Notice};
use chorus_protocol::words::History;
use chorus_store::conversations::Conversation;
use chorus_store::growing::{self, Growing};
use chorus_store::log::{self, At, Filter, PageSize};
use chorus_store::{StreamKey, Tx, conversation};
use serde_json::json;
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};

/// The most that one step reads from the store.
const PAGE: PageSize = PageSize { events: 64, bytes: 256 * 1024 };
/// The most bytes that one step reads from the frames.
const FRAME_BYTES: usize = 64 * 1024;

/// The most growing answers that are shown at a time.
const MAX_GROWING: i64 = 32;

/// The dialect of followers.
pub(super) const DIALECT: Dialect = Dialect::Sse;

/// The stream of one connection through a conversation.
pub struct Follower {
    app: AppState,
    id: ConversationId,
    who: Principal,
    shown: Shown,
    head: watch::Receiver<i64>,
    signs: broadcast::Receiver<Bytes>,
    /// Moves when an answer grows. `grown` is the version that was shown last.
    growth: watch::Receiver<i64>,
    grown: i64,
    /// Moves when a credential of the caller is revoked.
    revocations: watch::Receiver<i64>,
    /// The last event that was encoded for the connection, or that it may not read.
    cursor: i64,
    /// Events up to here are read from the store, because frames do not show later changes.
    begun_at: i64,
    /// `true` if every member may read everything from the cursor on.
    shared: bool,
    /// The time of the next check of the caller, by the monotonic clock.
    check_at: i64,
    /// The first bytes of the stream, which name its start.
    greeting: Option<Bytes>,
}

impl Follower {
    /// Opens a stream after `place`. Without a place, it begins with the next event.
    pub async fn open(
        app: AppState,
        id: ConversationId,
        who: Principal,
        shown: Shown,
        place: Option<i64>,
    ) -> Result<Self, Error> {
        // The subscription begins before the read, so that no commit in between is missed.
        let ((head, signs), revocations) = (app.transport.live.follow(id.into()), app.revocations(who));
        // Answers that are growing already are shown too.
        let mut growth = app.transport.live.follow(StreamKey::growth(id)).0;
        growth.mark_changed();
        // This finds a revocation from before the subscription.
        authentication::look_up(&app, &shown).await?;
        let begin = move |tx: &mut dyn Tx| {
            let (conversation, _) = conversation::as_reader(tx, id, who)?;
            Ok((conversation, tx.head(id.into())?))
        };
        let (conversation, end) = app.store.read::<_, Error, _>(begin).await?;
        let oldest = conversation.oldest;
        // A place beyond the end comes from another database, such as before a restore, and is ignored.
        let cursor = place.filter(|place| *place <= end).unwrap_or(end);
        let check_at = next_check(&app);
        let shared = is_shared(&conversation, end);
        let connected = json!({"channel": id.to_string(), "after": cursor});
        let mut greeting =
            BytesMut::from(&*DIALECT.notice(Notice::Connected, &connected).map_err(Error::internal)?);
        if cursor + 1 < oldest {
            let gap = Gap { after: cursor, oldest };
            greeting.extend_from_slice(&DIALECT.notice(Notice::Gap, &gap).map_err(Error::internal)?);
        }
        let greeting = Some(greeting.freeze());
        Ok(Self {
            app,
            id,
            who,
            shown,
            head,
            signs,
            growth,
            grown: 0,
            revocations,
            cursor,
            begun_at: end,
            shared,
            check_at,
            greeting,
        })
    }

    pub fn conversation(&self) -> ConversationId {
        self.id
    }

    pub fn who(&self) -> Principal {
        self.who
    }

    /// Returns the next bytes for the connection. Returns `None` at the end of the stream.
    ///
    /// Rare steps are boxed to keep the future small, because most followers wait most of the time.
    pub async fn next(&mut self) -> Option<Bytes> {
        if let Some(greeting) = self.greeting.take() {
            return Some(greeting);
        }
        loop {
            // Credentials are checked before every send, however much there is to send.
            if self.revocations.has_changed().unwrap_or(true) {
                self.revocations.mark_unchanged();
                // The stream ends if the credential cannot be confirmed; the client connects again.
                Box::pin(authentication::look_up(&self.app, &self.shown)).await.ok()?;
            }
            if self.app.elapsed() >= self.check_at {
                Box::pin(self.check()).await?;
            }
            let until_check_ms = (self.check_at - self.app.elapsed()).max(0) as u64;
            if self.shared && self.cursor >= self.begun_at {
                let frames =
                    self.app.transport.live.frames.after(DIALECT, self.id.0, self.cursor, FRAME_BYTES);
                if let Some((bytes, last)) = frames {
                    self.cursor = last;
                    return Some(bytes);
                }
            }
            if self.begun_at.max(*self.head.borrow_and_update()) > self.cursor {
                match Box::pin(self.read_store()).await {
                    Ok(bytes) if bytes.is_empty() => continue,
                    Ok(bytes) => return Some(bytes),
                    // The caller is no member any more.
                    Err(error) if error.code == Code::NotFound => return None,
                    Err(error) => {
                        // The client connects again and resumes at its cursor.
                        tracing::warn!(error = error.message, "a conversation could not be followed");
                        return None;
                    }
                }
            }
            if self.growth.has_changed().unwrap_or(false) {
                match Box::pin(self.read_growth()).await {
                    Ok(bytes) if bytes.is_empty() => {}
                    Ok(bytes) => return Some(bytes),
                    Err(error) if error.code == Code::NotFound => return None,
                    Err(error) => {
                        tracing::warn!(error = error.message, "a growing answer could not be shown");
                        return None;
                    }
                }
            }
            tokio::select! {
                biased;
                () = self.app.tasks.stopping.cancelled() => return None,
                changed = self.revocations.changed() => {
                    changed.ok()?;
                    self.revocations.mark_changed();
                }
                moved = self.head.changed() => moved.ok()?,
                moved = self.growth.changed() => {
                    moved.ok()?;
                    self.growth.mark_changed();
                }
                sign = self.signs.recv() => match sign {
                    Ok(sign) if self.may_see(&sign) => return Some(sign),
                    // The notice is not for this caller, or some notices were missed.
                    Ok(_) | Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return None,
                },
                () = tokio::time::sleep(Duration::from_millis(until_check_ms)) => {
                    Box::pin(self.check()).await?;
                    return Some(DIALECT.ping());
                }
            }
        }
    }

    /// Returns `true` if a notice is for the caller. Notices about approvals and attention are not for agents.
    fn may_see(&self, sign: &[u8]) -> bool {
        let is = |notice: Notice| sign.starts_with(format!("event: {notice}\n").as_bytes());
        matches!(self.who, Principal::Account(_)) || !(is(Notice::Approvals) || is(Notice::Attention))
    }

    /// Checks that the caller's credential is still valid and that the caller is still a member. Returns
    /// `None` if not.
    async fn check(&mut self) -> Option<()> {
        self.check_at = next_check(&self.app);
        let caller = authentication::look_up(&self.app, &self.shown).await;
        match caller {
            Ok(caller) if caller.principal().ok() != Some(self.who) => return None,
            Err(error) if matches!(error.code, Code::Unauthorized | Code::Forbidden) => return None,
            // A busy store says nothing about the caller.
            _ => {}
        }
        let (id, who) = (self.id, self.who);
        let is_member = move |tx: &mut dyn Tx| Ok(conversation::as_reader(tx, id, who).map(drop)?);
        match self.app.store.read::<_, Error, _>(is_member).await {
            Err(error) if error.code == Code::NotFound => None,
            _ => Some(()),
        }
    }

    /// Returns the present text of growing answers.
    async fn read_growth(&mut self) -> Result<Bytes, Error> {
        self.growth.mark_unchanged();
        let (id, who, grown) = (self.id, self.who, self.grown);
        let read = move |tx: &mut dyn Tx| {
            conversation::as_reader(tx, id, who)?;
            Ok(growing::since(tx, id, grown, MAX_GROWING)?)
        };
        let mut bytes = BytesMut::new();
        for growing in self.app.store.read::<_, Error, _>(read).await? {
            self.grown = growing.version;
            let Growing { event, handle, thread, content, .. } = growing;
            let data = json!({"event_id": event.to_string(), "content": content, "handle": handle,
                "thread": thread.map(|thread| thread.to_string())});
            bytes.extend_from_slice(&DIALECT.notice(Notice::Growing, &data).map_err(Error::internal)?);
        }
        Ok(bytes.freeze())
    }

    async fn read_store(&mut self) -> Result<Bytes, Error> {
        let (id, who, at) = (self.id, self.who, At::After(self.cursor));
        let read = move |tx: &mut dyn Tx| {
            let (conversation, _) = conversation::as_reader(tx, id, who)?;
            let page = log::page(tx, &conversation, who, &Filter::default(), at, PAGE)?;
            Ok((conversation, page, tx.head(id.into())?))
        };
        let (conversation, page, head) = self.app.store.read::<_, Error, _>(read).await?;
        // The events after the last readable one are not for this caller.
        let last = page.events.last().filter(|_| page.more).map_or(head, |last| last.seq);
        self.cursor = last.max(self.cursor);
        self.shared = is_shared(&conversation, self.cursor);
        let mut bytes = BytesMut::new();
        for view in views::events(&page.events, &page.standing.changes, &page.standing.replies) {
            let data = serde_json::to_string(&view).map_err(Error::internal)?;
            bytes.extend_from_slice(&DIALECT.event(&view.kind.to_string(), view.sequence, &data));
        }
        Ok(bytes.freeze())
    }
}

/// Returns `true` if every member may read everything after this place.
fn is_shared(conversation: &Conversation, place: i64) -> bool {
    conversation.history == History::All && conversation.open_from <= place
}

/// Notifies the people who follow a conversation, on every node, that the claim on an event or its knocks
/// changed. The notice names only the event; each follower asks for the rest.
pub(crate) fn tell_attention(app: &App, id: ConversationId, event: EventId) {
    match DIALECT.notice(Notice::Attention, &json!({"event_id": event.to_string()})) {
        Ok(sign) => {
            app.store.pass(id.into(), &sign);
            app.transport.live.show(id.into(), sign);
        }
        Err(error) => tracing::error!(%error, "a sign could not be written"),
    }
}

fn next_check(app: &App) -> i64 {
    app.elapsed() + app.config.times.ping.as_millis() as i64
}
