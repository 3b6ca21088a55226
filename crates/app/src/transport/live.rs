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
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::sync::{Notify, broadcast, watch};
use uuid::Uuid;

/// Conversations that nobody follows any more are not looked for before there are so many in all.
const FIRST_SWEEP: usize = 1000;
/// So many passing signs wait for a slow reader; more are lost to it.
const MAX_SIGNS: usize = 16;
/// How much a session is told in passing before it takes any of it: more than it can be waited for at a time.
const MAX_NOTICES: usize = 64;

/// What a connection said of what it was given. It is no more than what one window holds between two looks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Acknowledgements {
    /// Entries up to here were given to it.
    pub sent_through: Option<i64>,
    /// These it has.
    pub acked: Vec<i64>,
}

/// One open inbox.
pub struct Inbox {
    pub agent: AgentId,
    pub session: Uuid,
    /// What its connection speaks.
    pub dialect: Dialect,
    /// What its connection can show a model, if it said so.
    shows: OnceLock<Capabilities>,
    /// The newest entry, as far as this node knows.
    head: AtomicI64,
    /// Everything up to here was given to the connection.
    handed: AtomicI64,
    /// How much of `handed` the store knows; raised by whoever wrote it there.
    recorded: AtomicI64,
    /// What is told in passing, and kept nowhere.
    notices: Mutex<VecDeque<Bytes>>,
    /// What the connection said of what it was given, where it says so one by one.
    acknowledgements: Mutex<Acknowledgements>,
    /// Whether the store knows of this connection.
    stored: AtomicBool,
    /// Whether the key it was opened with must be looked up again.
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

    /// Whether there is something to look at before any entry: its end, its key, what is told in passing.
    pub fn has_news(&self) -> bool {
        self.end.get().is_some()
            || self.doubted.load(Ordering::Acquire)
            || !self.notices.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// What it is told in passing.
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

    /// What the store does not know of it yet; it is forgotten here.
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

    /// Whether the key must be looked up again before anything more is handed out; said once.
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
    /// What is kept nowhere: that somebody is typing.
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
    conversations: HashMap<Uuid, Followed>,
    /// Those that are over are looked for when there are so many in all.
    sweep_at: usize,
}

impl AllFollowed {
    /// Forgets what is over, once there is twice as much as the last look left: however many there are, each costs a constant.
    fn sweep(&mut self) {
        if self.conversations.len() >= self.sweep_at {
            self.conversations.retain(|_, conversation| !conversation.is_over());
            self.sweep_at = FIRST_SWEEP.max(2 * self.conversations.len());
        }
    }
}

/// All open inboxes of this node, and all conversations somebody follows here.
#[derive(Default)]
pub struct Live {
    inboxes: Mutex<HashMap<AgentId, Arc<Inbox>>>,
    followed: Mutex<AllFollowed>,
    pub frames: Frames,
}

impl Live {
    /// Makes a new inbox the agent's one connection; the former one ends, and is returned for what it was handed.
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

    /// What an agent's inbox is read in, if it is open here.
    pub fn dialect(&self, agent: AgentId) -> Option<Dialect> {
        self.inboxes().get(&agent).map(|inbox| inbox.dialect)
    }

    /// What the session of an agent can show its model, if it is open here and says so.
    pub fn shows(&self, agent: AgentId) -> Option<Capabilities> {
        self.inboxes().get(&agent).and_then(|inbox| inbox.shows.get().copied())
    }

    /// A stream moved: if it is an inbox that is open here, its reader has something to do.
    pub fn wake(&self, stream: Uuid, head: i64) {
        if let Some(inbox) = self.inboxes().get(&AgentId(stream)) {
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
    pub fn follow(&self, stream: Uuid) -> (watch::Receiver<i64>, broadcast::Receiver<Bytes>) {
        let mut followed = self.followed();
        followed.sweep();
        let conversation = followed.conversations.entry(stream).or_insert_with(Followed::new);
        (conversation.head.subscribe(), conversation.signs.subscribe())
    }

    /// Shows a passing sign to whoever follows a conversation here.
    pub fn show(&self, stream: Uuid, sign: Bytes) {
        if let Some(conversation) = self.followed().conversations.get(&stream) {
            // Nobody may be left to see it.
            drop(conversation.signs.send(sign));
        }
    }

    pub fn is_followed(&self, stream: Uuid) -> bool {
        self.followed().conversations.get(&stream).is_some_and(|conversation| !conversation.is_over())
    }

    /// The conversations that somebody follows here.
    pub fn all_followed(&self) -> Vec<Uuid> {
        let open = |(stream, conversation): (&Uuid, &Followed)| (!conversation.is_over()).then_some(*stream);
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

        live.wake(agent.0, 3);
        live.wake(agent.0, 2);
        second.changed().await;
        assert_eq!(second.head(), 3);
        live.close(&second);
        assert_eq!(live.dialect(agent), None);
    }

    #[test]
    fn following_many_looks_through_all_of_them_seldom() {
        let (live, mut streams) = (Live::default(), (0..).map(Uuid::from_u128));
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
