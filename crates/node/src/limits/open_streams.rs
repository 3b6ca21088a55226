//! Limits open long polls and notification streams per caller on this node.
//!
//! The state is in memory because it ends with the connection. A session has one stream: a second replaces the
//! first, so that no notification is sent twice. A second stream on another node would go unnoticed; clients
//! open one.

use chorus_protocol::ids::Principal;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;

/// Open streams per caller. One more ends the oldest.
const MAX_OPEN: usize = 32;

/// The open streams of this node.
#[derive(Debug, Default)]
pub struct OpenStreams {
    slots: Arc<Slots>,
}

type Slots = Mutex<HashMap<Principal, Vec<Slot>>>;

#[derive(Debug)]
struct Slot {
    session: Option<String>,
    over: CancellationToken,
}

/// One thing that is open; dropping it closes it.
#[derive(Debug)]
pub struct OpenStream {
    slots: Arc<Slots>,
    who: Principal,
    /// Cancelled when another takes its place.
    pub over: CancellationToken,
}

fn lock(slots: &Slots) -> MutexGuard<'_, HashMap<Principal, Vec<Slot>>> {
    slots.lock().unwrap_or_else(PoisonError::into_inner)
}

impl OpenStreams {
    /// Opens something: a session's stream, or what belongs to none.
    pub fn open(&self, who: Principal, session: Option<&str>) -> OpenStream {
        let over = CancellationToken::new();
        let mut slots = lock(&self.slots);
        let own = slots.entry(who).or_default();
        if session.is_some() {
            own.iter().filter(|slot| slot.session.as_deref() == session).for_each(|slot| slot.over.cancel());
        }
        own.retain(|slot| !slot.over.is_cancelled());
        if own.len() >= MAX_OPEN {
            own.remove(0).over.cancel();
        }
        own.push(Slot { session: session.map(str::to_owned), over: over.clone() });
        OpenStream { slots: Arc::clone(&self.slots), who, over }
    }

    /// A session is over.
    pub fn end(&self, session: &str) {
        for slot in lock(&self.slots).values().flatten() {
            if slot.session.as_deref() == Some(session) {
                slot.over.cancel();
            }
        }
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.over.cancel();
        let mut slots = lock(&self.slots);
        if let Some(own) = slots.get_mut(&self.who) {
            own.retain(|slot| !slot.over.is_cancelled());
            if own.is_empty() {
                slots.remove(&self.who);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chorus_protocol::ids::AgentId;
    use uuid::Uuid;

    #[test]
    fn the_oldest_and_the_same_sessions_go() {
        let (open, anna) = (OpenStreams::default(), AgentId(Uuid::from_u128(1)).into());
        let first = open.open(anna, Some("s"));
        let other = open.open(AgentId(Uuid::from_u128(2)).into(), None);
        let again = open.open(anna, Some("s"));
        assert!(first.over.is_cancelled() && !again.over.is_cancelled());
        let mut more: Vec<_> = (1..MAX_OPEN).map(|_| open.open(anna, None)).collect();
        assert!(!again.over.is_cancelled());
        more.push(open.open(anna, None));
        assert!(again.over.is_cancelled() && !more[0].over.is_cancelled() && !other.over.is_cancelled());
        open.end("s");
        drop((first, again, more, other));
        assert!(lock(&open.slots).is_empty());
    }
}
