//! Following a conversation as it goes on: its log as a stream.
//!
//! A reader is a cursor, as for inboxes: it takes what follows from the frames that were just encoded, and from the store
//! when they are not there. It is another kind of reader than an inbox's all the same: any number follow one conversation,
//! no session is kept of them, and nothing is handed.
//!
//! Frames are the same for everybody, so they serve only where everybody reads everything. Only
//! messages have frames: comings, goings and changes of the conversation are always met in the store, where what this
//! reader may read is looked up again; so a member that is removed gets nothing that comes after. And whoever's key, token or
//! session is taken back gets nothing that is said after that: the commit moves `revocations`, and until it is known what
//! still holds nothing more goes out.

use crate::app::{App, AppState};
use crate::authenticate;
use crate::caller::Shown;
use crate::error::Error;
use crate::transport::dialect::Dialect;
use crate::views;
use bytes::{Bytes, BytesMut};
use chorus_protocol::code::Code;
use chorus_protocol::ids::{ConversationId, EventId, Principal};
use chorus_protocol::relay::{Gap, Notice};
use chorus_protocol::words::History;
use chorus_store::growing::{self, Growing};
use chorus_store::log::{self, At, Filter, PageSize};
use chorus_store::{Tx, conversation};
use serde_json::json;
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};

/// What one turn of a reader takes from the store.
const PAGE: PageSize = PageSize { events: 64, bytes: 256 * 1024 };
/// What one turn of a reader takes from the frames.
const FRAME_BYTES: usize = 64 * 1024;

/// So many growing answers are shown at a time.
const MAX_GROWING: i64 = 32;

/// What followers are told in.
pub(super) const DIALECT: Dialect = Dialect::Sse;

/// One connection's way through a conversation.
pub struct Follower {
    app: AppState,
    id: ConversationId,
    who: Principal,
    shown: Shown,
    head: watch::Receiver<i64>,
    signs: broadcast::Receiver<Bytes>,
    /// Moves when an answer grows; how much of that was shown.
    growth: watch::Receiver<i64>,
    grown: i64,
    /// Moves when something that lets the caller in was taken back.
    revocations: watch::Receiver<i64>,
    /// The last event that was encoded for the connection, or that it may not read.
    cursor: i64,
    /// Up to here it is read from the store: frames know nothing of what was changed since.
    begun_at: i64,
    /// Whether everybody reads everything here.
    shared: bool,
    /// When it is looked whether the caller is still who it was, by the clock that only goes on.
    check_at: i64,
    /// What is said before anything else: where it begins.
    greeting: Option<Bytes>,
}

impl Follower {
    /// Begins after `place`, or else with what comes next.
    pub async fn open(
        app: AppState,
        id: ConversationId,
        who: Principal,
        shown: Shown,
        place: Option<i64>,
    ) -> Result<Self, Error> {
        // Followed before the store is asked, so that no commit in between goes unnoticed.
        let ((head, signs), revocations) = (app.live.follow(id.0), app.revocations(who));
        // What is being made already is shown as well.
        let mut growth = app.live.follow(growing::stream(id)).0;
        growth.mark_changed();
        // What was taken back before this was followed is seen here.
        authenticate::look_up(&app, &shown).await?;
        let begin = move |tx: &mut dyn Tx| {
            let (conversation, _) = conversation::as_reader(tx, id, who)?;
            Ok((conversation.history, conversation.oldest, tx.head(id.0)?))
        };
        let (history, oldest, end) = app.store.read::<_, Error, _>(begin).await?;
        // A place beyond the end is from another life of the database: it says nothing here.
        let cursor = place.filter(|place| *place <= end).unwrap_or(end);
        let check_at = next_check(&app);
        let shared = history == History::All;
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

    /// Which conversation it is.
    pub fn conversation(&self) -> ConversationId {
        self.id
    }

    /// Who follows it.
    pub fn who(&self) -> Principal {
        self.who
    }

    /// The next bytes for the connection; none at the end of the stream.
    ///
    /// What is seldom done is boxed: most who follow wait most of the time, and each has room for all of this.
    pub async fn next(&mut self) -> Option<Bytes> {
        if let Some(greeting) = self.greeting.take() {
            return Some(greeting);
        }
        loop {
            // However much there is to say, it is said to members with valid keys only.
            if self.revocations.has_changed().unwrap_or(true) {
                self.revocations.mark_unchanged();
                // Whoever is not known for certain to be still let in connects again.
                Box::pin(authenticate::look_up(&self.app, &self.shown)).await.ok()?;
            }
            if self.app.elapsed() >= self.check_at {
                Box::pin(self.check()).await?;
            }
            let until_check_ms = (self.check_at - self.app.elapsed()).max(0) as u64;
            if self.shared && self.cursor >= self.begun_at {
                let frames = self.app.live.frames.after(DIALECT, self.id.0, self.cursor, FRAME_BYTES);
                if let Some((bytes, last)) = frames {
                    self.cursor = last;
                    return Some(bytes);
                }
            }
            if self.begun_at.max(*self.head.borrow_and_update()) > self.cursor {
                match Box::pin(self.read_store()).await {
                    Ok(bytes) if bytes.is_empty() => continue,
                    Ok(bytes) => return Some(bytes),
                    // It is a stranger now.
                    Err(error) if error.code == Code::NotFound => return None,
                    Err(error) => {
                        // The client connects again and goes on where it was.
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
                () = self.app.stopping.cancelled() => return None,
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
                    // Somebody else's, or some passed by unseen.
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

    /// Whether a sign is for the caller: that something waits for people is not for agents.
    fn may_see(&self, sign: &[u8]) -> bool {
        let is = |notice: Notice| sign.starts_with(format!("event: {notice}\n").as_bytes());
        matches!(self.who, Principal::Account(_)) || !(is(Notice::Approvals) || is(Notice::Attention))
    }

    /// Whether the caller's key is still good and it is still a member; nothing if not.
    async fn check(&mut self) -> Option<()> {
        self.check_at = next_check(&self.app);
        let caller = authenticate::look_up(&self.app, &self.shown).await;
        match caller {
            Ok(caller) if caller.principal().ok() != Some(self.who) => return None,
            Err(error) if matches!(error.code, Code::Unauthorized | Code::Forbidden) => return None,
            // That the store is busy says nothing of the caller.
            _ => {}
        }
        let (id, who) = (self.id, self.who);
        let is_member = move |tx: &mut dyn Tx| Ok(conversation::as_reader(tx, id, who).map(drop)?);
        match self.app.store.read::<_, Error, _>(is_member).await {
            Err(error) if error.code == Code::NotFound => None,
            _ => Some(()),
        }
    }

    /// What answers that are being made have come to.
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
            Ok((conversation.history, page, tx.head(id.0)?))
        };
        let (history, page, head) = self.app.store.read::<_, Error, _>(read).await?;
        self.shared = history == History::All;
        // What lies between the last one it may read and the end is not for it.
        let last = page.events.last().filter(|_| page.more).map_or(head, |last| last.seq);
        self.cursor = last.max(self.cursor);
        let mut bytes = BytesMut::new();
        for view in views::events(&page.events, &page.standing.changes, &page.standing.replies) {
            let data = serde_json::to_string(&view).map_err(Error::internal)?;
            bytes.extend_from_slice(&DIALECT.event(&view.kind.to_string(), view.sequence, &data));
        }
        Ok(bytes.freeze())
    }
}

/// Tells the people who follow a conversation just now, on whichever node, that who holds an event or was knocked about it is not
/// what it was. What it is they ask themselves.
pub(crate) fn tell_attention(app: &App, (id, event): (ConversationId, EventId)) {
    match DIALECT.notice(Notice::Attention, &json!({"event_id": event.to_string()})) {
        Ok(sign) => {
            app.store.pass(id.0, &sign);
            app.live.show(id.0, sign);
        }
        Err(error) => tracing::error!(%error, "a sign could not be written"),
    }
}

fn next_check(app: &App) -> i64 {
    app.elapsed() + app.config.times.ping.as_millis() as i64
}
