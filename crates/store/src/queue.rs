//! A bounded queue from async callers to the store's own threads.
//!
//! Pushing never blocks: a full queue is an error the caller passes on as "try later". Taking blocks, because the
//! takers are threads of their own. No timer: what waits when a taker comes is its batch, or its share of that when other takers
//! are idle.

use crate::StoreError;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

pub(crate) struct Queue<T> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    filled: Condvar,
    capacity: usize,
}

struct State<T> {
    items: VecDeque<T>,
    closed: bool,
    /// Takers that have nothing to do.
    idle: usize,
}

impl<T> Clone for Queue<T> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<T> Queue<T> {
    pub(crate) fn new(capacity: usize) -> Self {
        let state = Mutex::new(State { items: VecDeque::new(), closed: false, idle: 0 });
        Self { shared: Arc::new(Shared { state, filled: Condvar::new(), capacity }) }
    }

    pub(crate) fn push(&self, item: T) -> Result<(), StoreError> {
        let mut state = self.state();
        if state.closed {
            return Err(StoreError::Closed);
        }
        if state.items.len() >= self.shared.capacity {
            return Err(StoreError::Overloaded);
        }
        state.items.push_back(item);
        let is_awaited = state.idle > 0;
        drop(state);
        // To call nobody costs a system call all the same.
        if is_awaited {
            self.shared.filled.notify_one();
        }
        Ok(())
    }

    /// At least one and at most `most` items; nothing once the queue is closed and empty.
    pub(crate) fn take(&self, most: usize) -> Vec<T> {
        let mut state = self.state();
        state.idle += 1;
        while state.items.is_empty() && !state.closed {
            state = self.shared.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        // Each item that is left has called one of the idle ones already.
        let count = state.items.len().div_ceil(state.idle).min(most);
        state.idle -= 1;
        state.items.drain(..count).collect()
    }

    /// No more pushes; what is queued is still taken.
    pub(crate) fn close(&self) {
        self.state().closed = true;
        self.shared.filled.notify_all();
    }

    pub(crate) fn len(&self) -> usize {
        self.state().items.len()
    }

    /// A panic cannot leave the deque half changed, so a poisoned lock is still good.
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounded_batched_closed() {
        let queue = Queue::new(3);
        for n in 0..3 {
            queue.push(n).unwrap();
        }
        assert!(matches!(queue.push(9), Err(StoreError::Overloaded)));
        assert_eq!(queue.take(2), [0, 1]);
        queue.close();
        assert!(matches!(queue.push(9), Err(StoreError::Closed)));
        assert_eq!(queue.take(2), [2]);
        assert_eq!(queue.take(2), [0; 0]);
    }

    #[test]
    fn idle_takers_share() {
        let (queue, told) = (Queue::new(8), std::sync::mpsc::channel());
        let takers: Vec<_> = (0..4)
            .map(|_| {
                let (queue, told) = (queue.clone(), told.0.clone());
                std::thread::spawn(move || told.send(queue.take(8)).unwrap())
            })
            .collect();
        while queue.state().idle < 4 {
            std::thread::yield_now();
        }
        queue.state().items.extend(0..7);
        queue.shared.filled.notify_all();
        let mut counts: Vec<usize> = told.1.iter().take(4).map(|items| items.len()).collect();
        counts.sort_unstable();
        assert_eq!(counts, [1, 2, 2, 2]);
        for taker in takers {
            taker.join().unwrap();
        }
    }

    #[test]
    fn a_taker_waits_for_a_push() {
        let queue = Queue::new(1);
        let taker = std::thread::spawn({
            let queue = queue.clone();
            move || queue.take(8)
        });
        queue.push(7).unwrap();
        assert_eq!(taker.join().unwrap(), [7]);
    }
}
