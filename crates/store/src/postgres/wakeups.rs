//! Wake-ups between nodes: which streams moved, told by NOTIFY and heard by LISTEN.
//!
//! A notification is a hint that saves waiting: one that is lost costs other nodes the time until their poll, nothing else.
//! They are sent in batches by a thread of their own and outside the message transactions, because a transaction that
//! notifies takes a lock all others wait for.

use super::target::Target;
use crate::queue::Queue;
use crate::{WakerSlot, wake};
use postgres::fallible_iterator::FallibleIterator;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;
use uuid::Uuid;

/// PostgreSQL takes 8000 bytes of NOTIFY payload; one stream is 33 to 52 of them.
const STREAMS_PER_NOTIFY: usize = 140;
/// A node tells no sooner again, so that the next time tells of more.
const PAUSE: Duration = Duration::from_millis(2);
const RECONNECT_AFTER: Duration = Duration::from_millis(500);
const CHANNEL: &str = "chorus";

/// Tells other nodes which streams moved: one NOTIFY for all that gathered meanwhile.
pub(super) fn notify_loop(target: &Target, moved: &Queue<(Uuid, i64)>, node: Uuid) {
    let mut client = None;
    loop {
        let streams = highest(moved.take(STREAMS_PER_NOTIFY));
        if streams.is_empty() {
            return;
        }
        let mut payload = node.simple().to_string();
        for (stream, head) in streams {
            // Writing to a string cannot fail.
            let _infallible = write!(payload, " {}:{head}", stream.simple());
        }
        let sent = match client.take().map_or_else(|| target.connect(), Ok) {
            Ok(mut connected) => {
                connected.execute("SELECT pg_notify($1, $2)", &[&CHANNEL, &payload]).map(|_| connected)
            }
            Err(error) => Err(error),
        };
        match sent {
            Ok(connected) => {
                client = Some(connected);
                sleep(PAUSE);
            }
            Err(error) => {
                tracing::warn!(%error, "other nodes were not woken; their poll will find it");
                sleep(RECONNECT_AFTER);
            }
        }
    }
}

/// The last head of each stream: workers may report in another order than they committed in.
fn highest(moved: Vec<(Uuid, i64)>) -> BTreeMap<Uuid, i64> {
    let mut streams = BTreeMap::new();
    for (stream, head) in moved {
        let known = streams.entry(stream).or_insert(head);
        *known = head.max(*known);
    }
    streams
}

/// Hears which streams moved on other nodes.
pub(super) fn listen_loop(target: &Target, node: Uuid, waker: &WakerSlot, stopping: &AtomicBool) {
    let own = node.simple().to_string();
    while !stopping.load(Ordering::Relaxed) {
        let listened = target.connect().and_then(|mut client| {
            client.batch_execute(&format!("LISTEN {CHANNEL}"))?;
            while !stopping.load(Ordering::Relaxed) {
                let mut notifications = client.notifications();
                let mut waiting = notifications.timeout_iter(Duration::from_millis(250));
                while let Some(notification) = waiting.next()? {
                    let mut words = notification.payload().split(' ');
                    if words.next() != Some(&own) {
                        words.filter_map(parse_moved).for_each(|(stream, head)| wake(waker, stream, head));
                    }
                }
                drop(waiting);
                drop(notifications);
                if client.is_closed() {
                    break;
                }
            }
            Ok(())
        });
        if let Err(error) = listened {
            tracing::warn!(%error, "not listening to other nodes; the poll covers it");
        }
        if !stopping.load(Ordering::Relaxed) {
            sleep(RECONNECT_AFTER);
        }
    }
}

fn parse_moved(word: &str) -> Option<(Uuid, i64)> {
    let (stream, head) = word.split_once(':')?;
    Some((Uuid::try_parse(stream).ok()?, head.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_report_does_not_hide_a_newer_one() {
        let (one, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let streams = highest(vec![(one, 1), (other, 7), (one, 3), (one, 2)]);
        assert_eq!(streams, BTreeMap::from([(one, 3), (other, 7)]));
    }
}
