//! The open inboxes of this node, one connection per agent, and the conversations that are followed here by any number: a
//! cursor each, no queues.
//!
//! A commit raises an inbox's head and wakes its reader; the reader fetches what lies between its cursor and the
//! head, from [`Frames`] or from the store. A new connection takes over from the old one, which learns why it ends.

use super::dialect::{Dialect, End};
use super::frames::Frames;
use bytes::Bytes;
use chorus_attention::capabilities::Capabilities;
use chorus_protocol::ids::AgentId;
use chorus_store::{StreamKey, StreamKind};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::sync::{Notify, broadcast, watch};
use uuid::Uuid;

/// The number of conversations at which the first sweep removes those without followers.
const FIRST_SWEEP: usize = 1000;
/// Signals that wait for a slow reader. It loses further ones.
const MAX_SIGNS: usize = 16;
/// Notices that a session may queue: more than can be awaited at a time.
const MAX_NOTICES: usize = 64;

/// The unrecorded acknowledgements of a connection. Their number is bounded by its window.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Acknowledgements {
    /// Entries up to here were given to it.
    pub sent_through: Option<i64>,
    /// Sequence numbers that the connection acknowledged.
    pub acked: Vec<i64>,
}

/// An inbox that is open on this node.
pub struct Inbox {
    pub agent: AgentId,
    pub session: Uuid,
    /// The dialect of its connection.
    pub dialect: Dialect,
    /// The display capabilities of its connection, if it declared any.
    shows: OnceLock<Capabilities>,
    /// The newest entry, as far as this node knows.
    head: AtomicI64,
    /// Everything up to here was given to the connection.
    handed: AtomicI64,
    /// The part of `handed` that is stored. Its writer raises it.
    recorded: AtomicI64,
    /// Queued notices, which are not stored.
    notices: Mutex<VecDeque<Bytes>>,
    /// Unrecorded acknowledgements, for dialects that acknowledge each entry.
    acknowledgements: Mutex<Acknowledgements>,
    /// True once the store has a row for this connection.
    stored: AtomicBool,
    /// True if the key of the connection must be checked again.
    doubted: AtomicBool,
    end: OnceLock<End>,
    changed: Notify,
}

impl Inbox {
    fn new(agent: AgentId, session: Uuid, dialect: Dialect) -> Self {
        Self {
            agent,
            session,
            dialect,
            shows: OnceLock::new(),
            head: AtomicI64::new(0),
            handed: AtomicI64::new(0),
            recorded: AtomicI64::new(0),
            notices: Mutex::default(),
            acknowledgements: Mutex::default(),
            stored: AtomicBool::new(false),
            doubted: AtomicBool::new(false),
            end: OnceLock::new(),
            changed: Notify::new(),
        }
    }

    /// The connection can show its model this, as long as it lasts.
    pub fn set_shows(&self, shows: Capabilities) {
        self.shows.get_or_init(|| shows);
    }

    pub fn head(&self) -> i64 {
        self.head.load(Ordering::Acquire)
    }

    pub fn raise(&self, head: i64) {
        if self.head.fetch_max(head, Ordering::AcqRel) < head {
            self.changed.notify_one();
        }
    }

    pub fn handed(&self) -> i64 {
        self.handed.load(Ordering::Acquire)
    }

    pub fn hand(&self, seq: i64) {
        self.handed.fetch_max(seq, Ordering::AcqRel);
    }

    /// Tells the connection something in passing; the oldest is lost if it takes none of it.
    fn tell(&self, notice: Bytes) {
        let mut notices = self.notices.lock().unwrap_or_else(PoisonError::into_inner);
        if notices.len() >= MAX_NOTICES {
            notices.pop_front();
        }
        notices.push_back(notice);
        self.changed.notify_one();
    }

    /// Returns whether something comes before the next entry: an end, a doubted key or a notice.
    pub fn has_news(&self) -> bool {
        self.end.get().is_some()
            || self.doubted.load(Ordering::Acquire)
            || !self.notices.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Takes the next queued notice.
    pub fn notice(&self) -> Option<Bytes> {
        self.notices.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// This entry was given to the connection, which will say when it has it.
    pub fn give(&self, seq: i64) {
        let mut acknowledgements = self.acknowledgements();
        acknowledgements.sent_through = acknowledgements.sent_through.max(Some(seq));
    }

    /// The connection has it.
    pub fn ack(&self, seq: i64) {
        self.acknowledgements().acked.push(seq);
    }

    /// Takes the acknowledgements that are not stored yet.
    pub fn take_acknowledgements(&self) -> Option<Acknowledgements> {
        let acknowledgements = std::mem::take(&mut *self.acknowledgements());
        (acknowledgements != Acknowledgements::default()).then_some(acknowledgements)
    }

    /// The store did not learn it after all.
    pub fn give_back(&self, acknowledgements: Acknowledgements) {
        let mut newer = self.acknowledgements();
        newer.sent_through = newer.sent_through.max(acknowledgements.sent_through);
        newer.acked.extend(acknowledgements.acked);
    }

    fn acknowledgements(&self) -> MutexGuard<'_, Acknowledgements> {
        self.acknowledgements.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The watermark, if the store does not know it yet.
    pub fn unrecorded(&self) -> Option<i64> {
        let handed = self.handed();
        (handed > self.recorded.load(Ordering::Acquire)).then_some(handed)
    }

    pub fn record(&self, seq: i64) {
        self.recorded.fetch_max(seq, Ordering::AcqRel);
    }

    pub fn is_stored(&self) -> bool {
        self.stored.load(Ordering::Acquire)
    }

    pub fn set_stored(&self) {
        self.stored.store(true, Ordering::Release);
    }

    fn doubt(&self) {
        self.doubted.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    /// Returns once whether the key must be checked before anything more is handed out, and clears the flag.
    pub fn is_doubted(&self) -> bool {
        self.doubted.load(Ordering::Acquire) && self.doubted.swap(false, Ordering::AcqRel)
    }

    pub fn ended(&self) -> Option<End> {
        self.end.get().copied()
    }

    pub fn finish(&self, end: End) {
        // The first reason stands.
        if self.end.set(end).is_ok() {
            self.changed.notify_one();
        }
    }

    /// Returns when the head may have moved or the inbox ended; a change in between is not lost.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }
}

/// A conversation that is followed here.
struct Followed {
    head: watch::Sender<i64>,
    /// Signals that are not stored, such as typing.
    signs: broadcast::Sender<Bytes>,
}

impl Followed {
    fn new() -> Self {
        Self { head: watch::channel(0).0, signs: broadcast::channel(MAX_SIGNS).0 }
    }

    fn is_over(&self) -> bool {
        self.head.is_closed()
    }
}

/// All conversations that are followed here, and some that were.
#[derive(Default)]
struct AllFollowed {
    conversations: HashMap<StreamKey, Followed>,
    /// The number of entries at which the next sweep runs.
    sweep_at: usize,
}

impl AllFollowed {
    /// Removes ended entries once there are twice as many as the last sweep left, so that each costs a
    /// constant.
    fn sweep(&mut self) {
        if self.conversations.len() >= self.sweep_at {
            self.conversations.retain(|_, conversation| !conversation.is_over());
            self.sweep_at = FIRST_SWEEP.max(2 * self.conversations.len());
        }
    }
}

/// All open inboxes and followed conversations of this node.
#[derive(Default)]
pub struct Live {
    inboxes: Mutex<HashMap<AgentId, Arc<Inbox>>>,
    followed: Mutex<AllFollowed>,
    pub frames: Frames,
}

impl Live {
    /// Makes a new inbox the agent's only connection. The former one ends and is returned for its watermark.
    pub fn open(&self, agent: AgentId, session: Uuid, dialect: Dialect) -> (Arc<Inbox>, Option<Arc<Inbox>>) {
        let inbox = Arc::new(Inbox::new(agent, session, dialect));
        let former = self.inboxes().insert(agent, Arc::clone(&inbox));
        if let Some(former) = &former {
            former.finish(End::TakenOver);
        }
        (inbox, former)
    }

    /// Forgets an inbox, unless another has taken over.
    pub fn close(&self, inbox: &Inbox) {
        let mut inboxes = self.inboxes();
        if inboxes.get(&inbox.agent).is_some_and(|current| current.session == inbox.session) {
            inboxes.remove(&inbox.agent);
        }
    }

    /// An agent's key may have been replaced: its inbox is read on only if not.
    pub fn doubt(&self, agent: AgentId) {
        if let Some(inbox) = self.inboxes().get(&agent) {
            inbox.doubt();
        }
    }

    /// Tells an agent something in passing, if its session is open here and in this dialect.
    pub fn tell(&self, agent: AgentId, dialect: Dialect, notice: Bytes) {
        if let Some(inbox) = self.inboxes().get(&agent).filter(|inbox| inbox.dialect == dialect) {
            inbox.tell(notice);
        }
    }

    /// Returns the dialect of an agent's inbox, if it is open on this node.
    pub fn dialect(&self, agent: AgentId) -> Option<Dialect> {
        self.inboxes().get(&agent).map(|inbox| inbox.dialect)
    }

    /// Returns the display capabilities of an agent's session, if it is open on this node and declared them.
    pub fn shows(&self, agent: AgentId) -> Option<Capabilities> {
        self.inboxes().get(&agent).and_then(|inbox| inbox.shows.get().copied())
    }

    /// Wakes the readers of a stream on this node: the reader of an open inbox, and the followers of the stream.
    pub fn wake(&self, stream: StreamKey, head: i64) {
        if stream.kind == StreamKind::Inbox
            && let Some(inbox) = self.inboxes().get(&AgentId(stream.id))
        {
            inbox.raise(head);
        }
        let followed = &mut self.followed().conversations;
        if let Some(conversation) = followed.get(&stream) {
            if conversation.is_over() {
                followed.remove(&stream);
            } else {
                conversation.head.send_if_modified(|known| {
                    let moved = *known < head;
                    *known = (*known).max(head);
                    moved
                });
            }
        }
    }

    /// The head of a conversation, from now on, 0 until it moves; and its passing signs.
    pub fn follow(&self, stream: StreamKey) -> (watch::Receiver<i64>, broadcast::Receiver<Bytes>) {
        let mut followed = self.followed();
        followed.sweep();
        let conversation = followed.conversations.entry(stream).or_insert_with(Followed::new);
        (conversation.head.subscribe(), conversation.signs.subscribe())
    }

    /// Sends a signal to the followers of a conversation on this node.
    pub fn show(&self, stream: StreamKey, sign: Bytes) {
        if let Some(conversation) = self.followed().conversations.get(&stream) {
            // There may be no follower left.
            drop(conversation.signs.send(sign));
        }
    }

    pub fn is_followed(&self, stream: StreamKey) -> bool {
        self.followed().conversations.get(&stream).is_some_and(|conversation| !conversation.is_over())
    }

    /// Returns the conversations that are followed on this node.
    pub fn all_followed(&self) -> Vec<StreamKey> {
        let open =
            |(stream, conversation): (&StreamKey, &Followed)| (!conversation.is_over()).then_some(*stream);
        self.followed().conversations.iter().filter_map(open).collect()
    }

    fn followed(&self) -> MutexGuard<'_, AllFollowed> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn all(&self) -> Vec<Arc<Inbox>> {
        self.inboxes().values().map(Arc::clone).collect()
    }

    pub fn open_inboxes(&self) -> usize {
        self.inboxes().len()
    }

    fn inboxes(&self) -> MutexGuard<'_, HashMap<AgentId, Arc<Inbox>>> {
        self.inboxes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chorus_protocol::ids::ConversationId;

    #[tokio::test]
    async fn takeover_and_wake() {
        let (live, agent) = (Live::default(), AgentId(Uuid::from_u128(1)));
        let (first, none) = live.open(agent, Uuid::from_u128(10), Dialect::Sse);
        assert!(none.is_none());
        first.hand(7);
        let (second, former) = live.open(agent, Uuid::from_u128(11), Dialect::Sse);
        assert_eq!(former.unwrap().handed(), 7);
        assert_eq!(first.ended(), Some(End::TakenOver));

        live.close(&first);
        assert!(live.dialect(agent).is_some(), "the old connection must not close the new one");

        live.wake(agent.into(), 3);
        live.wake(agent.into(), 2);
        second.changed().await;
        assert_eq!(second.head(), 3);
        live.close(&second);
        assert_eq!(live.dialect(agent), None);
    }

    #[test]
    fn following_many_looks_through_all_of_them_seldom() {
        let (live, mut streams) =
            (Live::default(), (0..).map(|n| StreamKey::from(ConversationId(Uuid::from_u128(n)))));
        let mut sweeps = vec![];
        let mut follow = |count| -> Vec<_> {
            let follow = |stream| {
                let readers = live.follow(stream);
                let sweep_at = live.followed().sweep_at;
                if sweeps.last() != Some(&sweep_at) {
                    sweeps.push(sweep_at);
                }
                readers
            };
            streams.by_ref().take(count).map(follow).collect()
        };
        let all = follow(10_000);
        drop(all);
        let more = follow(6_001);
        assert_eq!(live.all_followed().len(), more.len());
        assert_eq!(live.followed().conversations.len(), more.len(), "what was over is forgotten");
        assert_eq!(sweeps, [1000, 2000, 4000, 8000, 16_000, 12_000]);
    }
}
