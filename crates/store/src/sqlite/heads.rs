//! Where streams end, as the one who writes knows it: it need not ask the database each time.

use std::collections::HashMap;
use uuid::Uuid;

/// The most stream heads kept in memory; past it the cache starts anew.
const MAX_HEADS: usize = 100_000;

/// The last sequence numbers of streams, as far as the running batch knows them.
#[derive(Default)]
pub(super) struct Heads {
    pub(super) known: HashMap<Uuid, i64>,
    /// Streams the running closure moved, with what they were before.
    closure: Vec<(Uuid, Option<i64>)>,
    /// Streams the batch moved.
    batch: Vec<Uuid>,
}

impl Heads {
    pub(super) fn set(&mut self, stream: Uuid, head: i64) {
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

    /// What the batch moved, each stream once.
    pub(super) fn moved(&mut self) -> Vec<(Uuid, i64)> {
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
