//! The unacknowledged deliveries of a connection: a bounded window over an inbox.
//!
//! Acknowledgements come in any order. The watermark is the last position up to which everything sent is
//! acknowledged, so nothing before it is lost, and everything after it is sent again. A delivery without an
//! acknowledgement is repeated with exponential backoff.
//!
//! Times are elapsed milliseconds: nothing here reads a clock.

use std::collections::VecDeque;

/// Deliveries that may be unacknowledged at a time.
pub const MAX_UNACKED: usize = 32;
/// Acknowledged deliveries that are remembered behind an unacknowledged one. After a reconnect all of them are
/// sent again.
const MAX_BEHIND: usize = 256;
/// The number of times that the backoff doubles.
const MAX_DOUBLINGS: i64 = 4;

/// A window of unacknowledged deliveries. See the [module](self).
#[derive(Debug)]
pub struct Window {
    /// Sent deliveries, in the order of the inbox.
    sent: VecDeque<Sent>,
    /// The number of unacknowledged deliveries in `sent`.
    unacked: usize,
    /// The first backoff and the longest one.
    waits_ms: (i64, i64),
}

#[derive(Debug)]
struct Sent {
    seq: i64,
    acked: bool,
    /// The number of times it was sent.
    attempts: i64,
    due_at: i64,
}

impl Window {
    pub fn new(first_ms: i64, longest_ms: i64) -> Self {
        Self { sent: VecDeque::new(), unacked: 0, waits_ms: (first_ms, longest_ms) }
    }

    /// Returns whether more may be sent.
    pub fn has_room(&self) -> bool {
        self.unacked < MAX_UNACKED && self.sent.len() < MAX_BEHIND
    }

    /// The entry at this place was sent.
    pub fn send(&mut self, seq: i64, now: i64) {
        self.unacked += 1;
        self.sent.push_back(Sent { seq, acked: false, attempts: 1, due_at: now + self.waits_ms.0 });
    }

    /// Acknowledges an entry and returns the new watermark if it moved. An unknown or repeated acknowledgement
    /// changes nothing.
    pub fn ack(&mut self, seq: i64) -> Option<i64> {
        self.sent.iter_mut().find(|sent| sent.seq == seq && !sent.acked)?.acked = true;
        self.unacked -= 1;
        let mut through = None;
        while self.sent.front().is_some_and(|sent| sent.acked) {
            through = self.sent.pop_front().map(|sent| sent.seq);
        }
        through
    }

    /// Returns whether the entry was sent and is not acknowledged.
    pub fn awaits(&self, seq: i64) -> bool {
        self.sent.iter().any(|sent| sent.seq == seq && !sent.acked)
    }

    /// Returns the time of the next redelivery.
    pub fn next_due(&self) -> Option<i64> {
        self.sent.iter().filter(|sent| !sent.acked).map(|sent| sent.due_at).min()
    }

    /// Takes the next entry whose redelivery is due.
    pub fn take_due(&mut self, now: i64) -> Option<i64> {
        let (first, longest) = self.waits_ms;
        let sent = self.sent.iter_mut().find(|sent| !sent.acked && sent.due_at <= now)?;
        sent.due_at = now + (first << sent.attempts.min(MAX_DOUBLINGS)).min(longest);
        sent.attempts += 1;
        Some(sent.seq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn window() -> Window {
        Window::new(30_000, 300_000)
    }

    #[test]
    fn acknowledged_in_any_order() {
        let mut window = window();
        for seq in [3, 5, 6] {
            window.send(seq, 0);
        }
        assert!(window.awaits(5) && !window.awaits(4));
        assert_eq!([window.ack(5), window.ack(5), window.ack(4)], [None; 3]);
        assert!(!window.awaits(5));
        assert_eq!(window.ack(3), Some(5));
        assert_eq!(window.ack(3), None);
        assert_eq!(window.ack(6), Some(6));
        assert!(window.sent.is_empty());
    }

    #[test]
    fn it_is_bounded() {
        let mut window = window();
        for seq in 0..MAX_UNACKED as i64 {
            assert!(window.has_room());
            window.send(seq, 0);
        }
        assert!(!window.has_room());
        // One that is stuck holds up nobody for long.
        assert_eq!(window.ack(1), None);
        for seq in MAX_UNACKED as i64..MAX_BEHIND as i64 {
            assert!(window.has_room());
            window.send(seq, 0);
            assert!(!window.has_room());
            assert_eq!(window.ack(seq - 1), None);
        }
        assert!(!window.has_room());
        assert_eq!(window.ack(0), Some(1));
        assert!(window.has_room());
    }

    #[test]
    fn what_is_not_acknowledged_is_due_again_less_and_less_often() {
        let mut window = window();
        assert_eq!(window.next_due(), None);
        window.send(7, 1_000);
        assert_eq!((window.next_due(), window.take_due(30_999)), (Some(31_000), None));
        let mut times = vec![];
        let mut now = 0;
        for _ in 2..9 {
            let due = window.next_due().unwrap();
            assert_eq!(window.take_due(due), Some(7));
            times.push((due - now) / 1_000);
            now = due;
        }
        assert_eq!(times, [31, 60, 120, 240, 300, 300, 300]);
        window.ack(7);
        assert_eq!((window.next_due(), window.take_due(i64::MAX / 2)), (None, None));
    }

    proptest! {
        #[test]
        fn what_counts_as_handed_was_all_acknowledged(
            order in Just((0..20_i64).collect::<Vec<_>>()).prop_shuffle(),
            taken in 0..20_usize,
        ) {
            let mut window = window();
            (0..20).for_each(|seq| window.send(seq, 0));
            let mut through = -1;
            for seq in &order[..taken] {
                through = window.ack(*seq).unwrap_or(through);
            }
            prop_assert!((0..=through).all(|seq| order[..taken].contains(&seq)));
            prop_assert!(!order[..taken].contains(&(through + 1)));
        }
    }
}
