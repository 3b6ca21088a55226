//! The writer's cache of stream heads, which saves a query for each number.

use crate::streams::StreamKey;
use std::collections::HashMap;

/// The most stream heads kept in memory; past it the cache starts anew.
const MAX_HEADS: usize = 100_000;

/// The last sequence numbers of streams, as far as the running batch knows them.
#[derive(Default)]
pub(super) struct Heads {
    pub(super) known: HashMap<StreamKey, i64>,
    /// Streams the running closure moved, with what they were before.
    closure: Vec<(StreamKey, Option<i64>)>,
    /// Streams the batch moved.
    batch: Vec<StreamKey>,
}

impl Heads {
    pub(super) fn set(&mut self, stream: StreamKey, head: i64) {
        let before = self.known.insert(stream, head);
        self.closure.push((stream, before));
    }

    pub(super) fn keep(&mut self) {
        self.batch.extend(self.closure.drain(..).map(|(stream, _)| stream));
    }

    pub(super) fn restore(&mut self) {
        for (stream, before) in self.closure.drain(..).rev() {
            match before {
                Some(head) => self.known.insert(stream, head),
                None => self.known.remove(&stream),
            };
        }
    }

    /// Returns the streams that the batch advanced, each once.
    pub(super) fn moved(&mut self) -> Vec<(StreamKey, i64)> {
        let mut streams = std::mem::take(&mut self.batch);
        streams.sort_unstable();
        streams.dedup();
        let moved = streams.iter().filter_map(|stream| Some((*stream, *self.known.get(stream)?))).collect();
        if self.known.len() > MAX_HEADS {
            self.known.clear();
        }
        moved
    }
}
