//! A connection's position in an inbox, for every kind of connection.
//!
//! A reader is a cursor. It takes the next entries from the frames that were just encoded, or from the store.
//! It holds no queue, so a slow client costs nothing but its own delay. Frames serve only entries committed
//! since the session began, because older entries may have been edited or deleted. (An entry that is changed
//! on this node while a session lags loses its frame. An entry that is changed on another node counts as being
//! in transit.)
//!
//! Returning a piece does not hand it over: the connection confirms that with [`Reader::hand`]. A connection
//! of server-sent events that asks for more took the previous piece. C2A acknowledges each delivery, and hands
//! through the last one before the first gap. [`Reader::next`] may be cancelled at any time, so that the
//! caller can wait for an answer as well.

use super::bridge::Content;
use super::handed::record_handed;
use crate::attention::{cancellations, envelopes};
use bytes::{Bytes, BytesMut};
use chorus_attention::capabilities::Capabilities;
use chorus_node::AppState;
use chorus_node::Error;
use chorus_node::authentication::{Standing, standing};
use chorus_node::caller::{Identity, disabled};
use chorus_node::transport::dialect::{Dialect, End};
use chorus_node::transport::live::Inbox;
use chorus_protocol::ids::{DeliveryId, EventId};
use chorus_protocol::relay::{Connected, Gap, Notice};
use chorus_store::directory::{self, KeyHash};
use chorus_store::inboxes::{self, Opened};
use chorus_store::{StoreError, Tx, deliveries, obligations};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Entries that one turn of a reader takes from the store.
const READ_ENTRIES: i64 = 64;
const READ_BYTES: usize = 256 * 1024;
/// The same for a reader that is only slightly behind, like most that another node wakes.
const READ_TOGETHER: i64 = 8;
/// Bytes that one turn of a reader takes from the frames.
const FRAME_BYTES: usize = 64 * 1024;

/// The next bytes of a connection.
#[derive(Debug, PartialEq, Eq)]
pub struct Piece {
    pub bytes: Bytes,
    /// The last entry of the inbox that the connection has with this piece.
    pub through: i64,
    pub holds: Holds,
}

/// The kind of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// One entry of the inbox, or several if the dialect joins them.
    Entries,
    /// A notice about the stream.
    Notice,
    /// A sign of life.
    Ping,
    /// The last piece, with the reason for the end.
    Farewell(End),
}

/// A connection's position in an inbox.
pub struct Reader {
    app: AppState,
    identity: Identity,
    inbox: Arc<Inbox>,
    /// The key that opened the connection.
    key: KeyHash,
    /// The last entry that was encoded for the connection.
    cursor: i64,
    /// The watermark of earlier connections.
    begun_after: i64,
    /// Entries up to here are read from the store, because frames lack later changes to them.
    begun_at: i64,
    /// Encoded pieces that are sent first.
    ready: VecDeque<Piece>,
    /// True if the key must be checked again before anything more is returned.
    doubted: bool,
    /// True while the agent is paused.
    paused: bool,
    /// Entries left for a connection with a limit. Later entries are not delivered by this reader.
    left: Option<i64>,
    ended: bool,
}

/// The state at the beginning of a session.
struct Begun {
    opened: Opened,
    /// True while the agent is paused.
    paused: bool,
    /// Delivered events that were deleted since the agent's last session.
    taken_back: Vec<(DeliveryId, EventId)>,
}

impl Reader {
    /// Opens the agent's only session. `shows` lists its display capabilities if it understands knocks.
    /// Reading begins after `place`, or after the watermark of earlier connections.
    pub async fn open(
        app: AppState,
        identity: Identity,
        key: KeyHash,
        dialect: Dialect,
        shows: Option<String>,
        place: Option<i64>,
    ) -> Result<Self, Error> {
        let session = app.environment.uuid_v4();
        // Registered here before it is in the database, so that no commit in between is missed.
        let (inbox, former) = app.transport.live.open(identity.id, session, dialect);
        if let Some(shows) = &shows {
            inbox.set_shows(Capabilities::of_words(shows));
        }
        let mut reader = Self {
            app,
            identity,
            inbox,
            key,
            cursor: 0,
            begun_after: 0,
            begun_at: 0,
            ready: VecDeque::new(),
            doubted: false,
            paused: false,
            left: None,
            ended: false,
        };
        let Begun { opened, paused, taken_back } = reader.store_session(shows).await?;
        reader.paused = paused;
        // The watermark of the former connection may not be written yet.
        let handed = opened.handed_through.max(former.map_or(0, |former| former.handed()));
        // A position beyond the end comes from an earlier copy of the database and is ignored.
        let place = place.filter(|place| *place <= opened.head).unwrap_or(handed);
        reader.begin(opened, place).map_err(Error::internal)?;
        for given in taken_back {
            let bytes = cancellations::notice(given, "it was taken back while you were away");
            let bytes = bytes.map_err(Error::internal)?;
            reader.ready.push_back(reader.piece(bytes, Holds::Notice));
        }
        Ok(reader)
    }

    /// Limits the connection to this many entries, after which it ends.
    pub fn at_most(mut self, entries: Option<i64>) -> Self {
        self.left = entries;
        self
    }

    async fn store_session(&self, shows: Option<String>) -> Result<Begun, Error> {
        let (agent, session, key) = (self.inbox.agent, self.inbox.session, self.key);
        let node = self.app.config.node;
        let now = self.app.now();
        let until = now + self.app.config.presence.as_millis() as i64;
        let open = move |tx: &mut dyn Tx| {
            // The row is a lock as well: replacing the key meanwhile, on any node, ends this session.
            let opened = inboxes::open(tx, agent, session, node, until)?;
            let mut taken_back = vec![];
            if let Some(shows) = &shows {
                // An agent whose last session was lost without an end may get the same notices again.
                taken_back = obligations::taken_back(tx, agent)?;
                let (after, through) = inboxes::set_shows(tx, agent, session, shows)?;
                let unkept = obligations::unkept(tx, agent, after, through)?;
                envelopes::take_in_all(tx, agent, &unkept, now)?;
                inboxes::count_again(tx, agent, after, through)?;
            }
            let holder = directory::by_key(tx, &key)?.filter(|holder| holder.id == agent);
            if holder.as_ref().is_some_and(|holder| holder.disabled_at.is_some()) {
                return Err(disabled("agent"));
            }
            let paused = holder.map(|holder| holder.paused_at.is_some());
            let begun = opened.zip(paused).map(|(opened, paused)| Begun { opened, paused, taken_back });
            begun.ok_or_else(|| Error::unauthorized("this key is not valid (any more)"))
        };
        let begun = self.app.store.write(open).await?;
        self.inbox.set_stored();
        self.inbox.raise(begun.opened.head);
        Ok(begun)
    }

    /// Queues the greeting with the start position, and the notice about requested entries that are gone.
    fn begin(&mut self, opened: Opened, place: i64) -> Result<(), serde_json::Error> {
        let dialect = self.inbox.dialect;
        (self.cursor, self.begun_after, self.begun_at) = (place, place, opened.head);
        if dialect.greets() {
            let connected = Connected { agent_id: self.app.address(&self.identity.name), after: Some(place) };
            let bytes = dialect.notice(Notice::Connected, &connected)?;
            self.ready.push_back(self.piece(bytes, Holds::Notice));
        }
        if place + 1 < opened.oldest {
            let gap = Gap { after: place, oldest: opened.oldest };
            self.cursor = opened.oldest - 1;
            let bytes = dialect.notice(Notice::Gap, &gap)?;
            self.ready.push_back(self.piece(bytes, Holds::Notice));
        }
        Ok(())
    }

    fn piece(&self, bytes: Bytes, holds: Holds) -> Piece {
        Piece { bytes, through: self.cursor, holds }
    }

    /// Returns the position at which the session began. Everything up to it was handed over before.
    pub fn handed(&self) -> i64 {
        self.begun_after
    }

    /// Records that the connection has everything up to here.
    pub fn hand(&self, through: i64) {
        self.inbox.hand(through);
    }

    /// Records that the entry was sent to a connection that will acknowledge it.
    pub fn give(&self, seq: i64) {
        self.inbox.give(seq);
    }

    /// Records the acknowledgement of an entry.
    pub fn ack(&self, seq: i64) {
        self.inbox.ack(seq);
    }

    /// Returns an entry once more in its current state and counts it, or `None` if it is gone.
    pub async fn again(&self, seq: i64) -> Result<Option<Bytes>, StoreError> {
        let (agent, now) = (self.inbox.agent, self.app.now());
        let read = move |tx: &mut dyn Tx| {
            let unkept = obligations::unkept(tx, agent, seq - 1, seq)?;
            envelopes::take_in_all(tx, agent, &unkept, now)?;
            let attempt = obligations::count_again(tx, DeliveryId { agent, seq })?;
            let entries = deliveries::page(tx, agent, seq - 1, 1, READ_BYTES)?;
            Ok((Content::read(tx, agent, entries, READ_BYTES)?.pop(), attempt))
        };
        let (found, attempt) = self.app.store.write::<_, StoreError, _>(read).await?;
        let dialect = self.inbox.dialect;
        let found = found.filter(|(entry, content)| entry.seq == seq && !content.is_cancelled(dialect));
        let Some((entry, content)) = found else { return Ok(None) };
        let kind = entry.kind;
        let data = content.data(&self.app, &self.identity, dialect, entry, Some(attempt))?;
        Ok(Some(dialect.entry(kind, seq, &data)))
    }

    /// Returns the next piece for the connection, or `None` at the end.
    pub async fn next(&mut self) -> Option<Piece> {
        self.next_if(true).await
    }

    /// Does the same, but skips entries unless `entries` is set.
    pub async fn next_if(&mut self, entries: bool) -> Option<Piece> {
        loop {
            if !self.ready.is_empty() && self.inbox.has_news() {
                self.put_back();
            }
            let is_wanted = |piece: &Piece| entries || piece.holds != Holds::Entries;
            if self.ready.front().is_some_and(is_wanted) {
                return self.ready.pop_front();
            }
            if self.ended || self.left == Some(0) {
                return None;
            }
            self.doubted |= self.inbox.is_doubted();
            if self.doubted {
                match standing(&self.app, self.key, self.inbox.agent).await {
                    Ok(Standing::Over) => self.inbox.finish(End::Revoked),
                    Ok(standing) => self.paused = standing == Standing::Paused,
                    // The client reconnects, and the key is checked then.
                    Err(_) => return None,
                }
                self.doubted = false;
            }
            if let Some(end) = self.inbox.ended() {
                let end = self.reason(end).await;
                self.ended = true;
                return Some(self.piece(self.inbox.dialect.farewell(end), Holds::Farewell(end)));
            }
            let entries = entries && !self.paused;
            if let Some(bytes) = self.inbox.notice() {
                return Some(self.piece(bytes, Holds::Notice));
            }
            if entries && let Some(bytes) = self.take_frames() {
                return Some(self.piece(bytes, Holds::Entries));
            }
            if entries && self.inbox.head() > self.cursor {
                if let Err(error) = self.read_store().await {
                    // The client reconnects and continues at its position.
                    tracing::warn!(error = &error as &dyn std::error::Error, "an inbox could not be read");
                    return None;
                }
                continue;
            }
            tokio::select! {
                () = self.inbox.changed() => {}
                () = tokio::time::sleep(self.app.config.times.ping) => {
                    return Some(self.piece(self.inbox.dialect.ping(), Holds::Ping));
                }
                () = self.app.tasks.stopping.cancelled() => return None,
            }
        }
    }

    /// Returns the next entry if it is encoded and nothing else comes first.
    pub fn next_at_hand(&mut self) -> Option<Piece> {
        if self.inbox.has_news() {
            return None;
        }
        if self.ready.front().is_some_and(|piece| piece.holds == Holds::Entries) {
            return self.ready.pop_front();
        }
        let is_clear = self.ready.is_empty() && !self.ended && self.left.is_none() && !self.paused;
        if !is_clear {
            return None;
        }
        self.take_frames().map(|bytes| self.piece(bytes, Holds::Entries))
    }

    /// Returns the real reason for an end. A revoked key ends the session too, and another node may notice the
    /// ended session before the revocation.
    async fn reason(&self, end: End) -> End {
        let taken_back = end == End::TakenOver
            && matches!(standing(&self.app, self.key, self.inbox.agent).await, Ok(Standing::Over));
        if taken_back { End::Revoked } else { end }
    }

    /// Discards encoded entries that were not returned yet, after a deletion or a lost membership. They are
    /// read again in their current state. A dialect that joins entries returns what it encodes at once.
    fn put_back(&mut self) {
        let first = self.ready.iter().find(|piece| piece.holds == Holds::Entries).map(|piece| piece.through);
        let Some(first) = first.filter(|_| !self.inbox.dialect.joins()) else { return };
        let encoded = self.ready.len();
        self.ready.retain(|piece| piece.holds != Holds::Entries);
        let entries = (encoded - self.ready.len()) as i64;
        self.left = self.left.map(|left| left + entries);
        (self.cursor, self.begun_at) = (first - 1, self.inbox.head());
    }

    fn take_frames(&mut self) -> Option<Bytes> {
        if self.cursor < self.begun_at {
            return None;
        }
        let Inbox { agent, dialect, .. } = *self.inbox;
        // One at a time if the entries are counted.
        let max_bytes = if dialect.joins() && self.left.is_none() { FRAME_BYTES } else { 0 };
        let (bytes, last) = self.app.transport.live.frames.after(dialect, agent.0, self.cursor, max_bytes)?;
        self.cursor = last;
        self.count(1);
        Some(bytes)
    }

    fn count(&mut self, entries: i64) {
        self.left = self.left.map(|left| (left - entries).max(0));
    }

    /// Encodes the entries after the cursor from the store.
    async fn read_store(&mut self) -> Result<(), StoreError> {
        let (agent, after, head) = (self.inbox.agent, self.cursor, self.inbox.head());
        let together = head - after <= READ_TOGETHER;
        let most = if together { READ_TOGETHER } else { READ_ENTRIES };
        let most = self.left.map_or(most, |left| left.min(most));
        let dialect = self.inbox.dialect;
        let read = move |tx: &mut dyn Tx| {
            let entries = deliveries::page(tx, agent, after, most, READ_BYTES)?;
            let page = entries.first().map(|first| first.seq).zip(entries.last().map(|last| last.seq));
            // Only C2A reports the number of the attempt.
            let page = page.filter(|_| dialect == Dialect::C2a);
            let sent = page
                .map_or(Ok(HashMap::new()), |(from, through)| obligations::sent(tx, agent, from, through))?;
            Ok((Content::read(tx, agent, entries, READ_BYTES)?, sent))
        };
        let store = &self.app.store;
        let (entries, sent) = if together {
            store.read_together::<_, StoreError, _>(read).await?
        } else {
            store.read::<_, StoreError, _>(read).await?
        };
        // No entries up to the head: they were removed by retention.
        let last = entries.last().map_or(head, |(entry, _)| entry.seq);
        let mut bytes = BytesMut::new();
        let is_shown = |(entry, content): &(deliveries::Entry, Content)| {
            entry.is_streamed() && !content.is_cancelled(dialect)
        };
        for (entry, content) in entries.into_iter().filter(is_shown) {
            let (seq, kind) = (entry.seq, entry.kind);
            self.count(1);
            let data = content.data(&self.app, &self.identity, dialect, entry, sent.get(&seq).copied())?;
            let frame = dialect.entry(kind, seq, &data);
            if dialect.joins() {
                bytes.extend_from_slice(&frame);
            } else {
                self.ready.push_back(Piece { bytes: frame, through: seq, holds: Holds::Entries });
            }
        }
        self.cursor = last;
        if !bytes.is_empty() {
            let piece = self.piece(bytes.freeze(), Holds::Entries);
            self.ready.push_back(piece);
        }
        Ok(())
    }
}

impl Drop for Reader {
    /// Writes the watermark of the ended connection and closes the inbox, unless another connection has it
    /// already.
    fn drop(&mut self) {
        let (app, inbox) = (Arc::clone(&self.app), Arc::clone(&self.inbox));
        self.app.tasks.tracker.spawn(async move {
            let handed = record_handed(&app, vec![Arc::clone(&inbox)]).await;
            let (agent, session) = (inbox.agent, inbox.session);
            let now = app.now();
            let close = move |tx: &mut dyn Tx| inboxes::close(tx, agent, session, now);
            let closed = handed.and(app.store.write::<_, StoreError, _>(close).await);
            if let Err(error) = closed {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "an inbox was not closed in the store; its lease ends by itself"
                );
            }
            // Closed last, so that a new connection can read the watermark from it meanwhile.
            app.transport.live.close(&inbox);
        });
    }
}

#[cfg(test)]
mod tests;
