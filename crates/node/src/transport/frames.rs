//! Frames encoded once and shared: the bridge between a commit and the connections that wait for it.
//!
//! A cache and nothing more. It is bounded by bytes, the oldest go first, and who does not find the next frame here
//! reads the store.

use super::dialect::Dialect;
use bytes::{Bytes, BytesMut};
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use uuid::Uuid;

/// Bytes of frames that one node keeps.
const MAX_BYTES: usize = 2 * 1024 * 1024;
/// Positions in the order that may belong to forgotten frames, approximately.
const MAX_FORGOTTEN: usize = 1024;

#[derive(Default)]
pub struct Frames {
    state: Mutex<State>,
}

/// In which dialect, of which stream, which one.
type Key = (Dialect, Uuid, i64);

#[derive(Default)]
struct State {
    frames: HashMap<Key, Bytes>,
    order: VecDeque<Key>,
    bytes: usize,
}

impl Frames {
    pub fn put(&self, dialect: Dialect, stream: Uuid, seq: i64, frame: Bytes) {
        // Dropped when others may have the lock again.
        let mut gone = vec![];
        let mut state = self.state();
        state.bytes += frame.len();
        state.order.push_back((dialect, stream, seq));
        gone.extend(state.frames.insert((dialect, stream, seq), frame));
        state.bytes -= gone.iter().map(Bytes::len).sum::<usize>();
        while state.bytes > MAX_BYTES
            && let Some(oldest) = state.order.pop_front()
        {
            if let Some(frame) = state.frames.remove(&oldest) {
                state.bytes -= frame.len();
                gone.push(frame);
            }
        }
        drop(state);
    }

    /// Drops a frame whose time is over: who has not got it yet finds in the store how things stand.
    pub fn forget(&self, stream: Uuid, seq: i64) {
        let mut state = self.state();
        for dialect in Dialect::ALL {
            if let Some(frame) = state.frames.remove(&(dialect, stream, seq)) {
                state.bytes -= frame.len();
            }
        }
        // Removes forgotten frames from the order too, rarely enough for a constant amortised cost.
        if state.order.len() > MAX_FORGOTTEN + 2 * state.frames.len() {
            let State { frames, order, .. } = &mut *state;
            order.retain(|key| frames.contains_key(key));
        }
    }

    /// All frames that follow `cursor` without a gap, up to about `max_bytes`, and the last one's number.
    pub fn after(
        &self,
        dialect: Dialect,
        stream: Uuid,
        cursor: i64,
        max_bytes: usize,
    ) -> Option<(Bytes, i64)> {
        let state = self.state();
        let first = state.frames.get(&(dialect, stream, cursor + 1))?.clone();
        let (mut bytes, mut rest) = (first.len(), vec![]);
        while bytes < max_bytes
            && let Some(frame) = state.frames.get(&(dialect, stream, cursor + 2 + rest.len() as i64))
        {
            bytes += frame.len();
            rest.push(frame.clone());
        }
        drop(state);
        if rest.is_empty() {
            return Some((first, cursor + 1));
        }
        let mut joined = BytesMut::with_capacity(bytes);
        joined.extend_from_slice(&first);
        for frame in &rest {
            joined.extend_from_slice(frame);
        }
        Some((joined.freeze(), cursor + 1 + rest.len() as i64))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_without_gaps() {
        let (frames, stream) = (Frames::default(), Uuid::nil());
        for seq in [1, 2, 3, 5] {
            frames.put(Dialect::Sse, stream, seq, Bytes::from(seq.to_string()));
        }
        assert_eq!(frames.after(Dialect::Sse, stream, 0, 100), Some((Bytes::from("123"), 3)));
        assert_eq!(frames.after(Dialect::Sse, stream, 0, 2), Some((Bytes::from("12"), 2)));
        assert_eq!(frames.after(Dialect::Sse, stream, 2, 100), Some((Bytes::from("3"), 3)));
        assert_eq!(frames.after(Dialect::Sse, stream, 3, 100), None);
        assert_eq!(frames.after(Dialect::Sse, stream, 4, 100), Some((Bytes::from("5"), 5)));
    }

    #[test]
    fn what_is_forgotten_leaves_a_gap() {
        let (frames, stream) = (Frames::default(), Uuid::nil());
        for seq in 1..=3 {
            frames.put(Dialect::Sse, stream, seq, Bytes::from(seq.to_string()));
        }
        frames.forget(stream, 2);
        frames.forget(stream, 9);
        assert_eq!(frames.after(Dialect::Sse, stream, 0, 100), Some((Bytes::from("1"), 1)));
        assert_eq!(frames.after(Dialect::Sse, stream, 1, 100), None);
        assert_eq!(frames.state().bytes, 2);
    }

    #[test]
    fn bounded_by_bytes() {
        let (frames, stream) = (Frames::default(), Uuid::nil());
        for seq in 1..=20 {
            frames.put(Dialect::Sse, stream, seq, Bytes::from(vec![0; 1024 * 1024]));
        }
        assert_eq!(frames.after(Dialect::Sse, stream, 0, 100), None);
        assert!(frames.after(Dialect::Sse, stream, 19, 100).is_some());
        assert!(frames.state().bytes <= MAX_BYTES);
    }

    #[test]
    fn what_is_forgotten_leaves_nothing() {
        let (frames, stream) = (Frames::default(), Uuid::nil());
        for seq in 1..=10_000 {
            frames.put(Dialect::Sse, stream, seq, Bytes::from_static(b"frame"));
            frames.forget(stream, seq);
        }
        let state = frames.state();
        assert!(state.bytes == 0 && state.frames.is_empty() && state.order.len() <= MAX_FORGOTTEN + 1);
    }
}
