//! Frames encoded once and shared: the bridge between a commit and the connections that wait for it.
//!
//! A cache and nothing more. It is bounded by bytes, the oldest go first, and who does not find the next frame here
//! reads the store.

use bytes::{Bytes, BytesMut};
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use uuid::Uuid;

/// How many bytes of frames one node keeps.
const MAX_BYTES: usize = 8 * 1024 * 1024;

#[derive(Default)]
pub struct Frames {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    frames: HashMap<(Uuid, i64), Bytes>,
    order: VecDeque<(Uuid, i64)>,
    bytes: usize,
}

impl Frames {
    pub fn put(&self, stream: Uuid, seq: i64, frame: Bytes) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.bytes += frame.len();
        state.order.push_back((stream, seq));
        if let Some(replaced) = state.frames.insert((stream, seq), frame) {
            state.bytes -= replaced.len();
        }
        while state.bytes > MAX_BYTES
            && let Some(oldest) = state.order.pop_front()
        {
            if let Some(frame) = state.frames.remove(&oldest) {
                state.bytes -= frame.len();
            }
        }
    }

    /// All frames that follow `cursor` without a gap, up to about `max_bytes`, and the last one's number.
    pub fn after(&self, stream: Uuid, cursor: i64, max_bytes: usize) -> Option<(Bytes, i64)> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let first = state.frames.get(&(stream, cursor + 1))?;
        let Some(second) = state.frames.get(&(stream, cursor + 2)) else {
            return Some((first.clone(), cursor + 1));
        };
        let mut joined = BytesMut::with_capacity(first.len() + second.len());
        joined.extend_from_slice(first);
        let mut last = cursor + 1;
        while joined.len() < max_bytes
            && let Some(frame) = state.frames.get(&(stream, last + 1))
        {
            joined.extend_from_slice(frame);
            last += 1;
        }
        Some((joined.freeze(), last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_without_gaps() {
        let (frames, stream) = (Frames::default(), Uuid::nil());
        for seq in [1, 2, 3, 5] {
            frames.put(stream, seq, Bytes::from(seq.to_string()));
        }
        assert_eq!(frames.after(stream, 0, 100), Some((Bytes::from("123"), 3)));
        assert_eq!(frames.after(stream, 0, 2), Some((Bytes::from("12"), 2)));
        assert_eq!(frames.after(stream, 2, 100), Some((Bytes::from("3"), 3)));
        assert_eq!(frames.after(stream, 3, 100), None);
        assert_eq!(frames.after(stream, 4, 100), Some((Bytes::from("5"), 5)));
    }

    #[test]
    fn bounded_by_bytes() {
        let (frames, stream) = (Frames::default(), Uuid::nil());
        for seq in 1..=20 {
            frames.put(stream, seq, Bytes::from(vec![0; 1024 * 1024]));
        }
        assert_eq!(frames.after(stream, 0, 100), None);
        assert!(frames.after(stream, 19, 100).is_some());
        assert!(frames.state.lock().unwrap().bytes <= MAX_BYTES);
    }
}
