//! Messages between nodes by NOTIFY and LISTEN: streams that advanced, and signs.
//!
//! A notification is a hint that saves waiting: if one is lost, other nodes notice at their next poll. A sign
//! is stored nowhere, so a lost sign is lost. Both are sent in batches by a thread of its own and outside the
//! message transactions, because a transaction that notifies takes a lock that all others wait for.

use super::target::Target;
use crate::queue::Queue;
use crate::streams::StreamKey;
use crate::{SignSlot, WakerSlot, show, wake};
use data_encoding::BASE64URL_NOPAD;
use postgres::fallible_iterator::FallibleIterator;
use postgres::{Client, Statement};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;
use uuid::Uuid;

/// The number of messages in one notification.
const NEWS_PER_NOTIFY: usize = 140;
/// PostgreSQL takes payloads of less than 8000 bytes.
const MAX_PAYLOAD: usize = 7900;
/// A node tells no sooner again, so that the next time tells of more.
const PAUSE: Duration = Duration::from_millis(5);
const RECONNECT_AFTER: Duration = Duration::from_millis(500);
const CHANNEL: &str = "chorus";

/// A message to other nodes.
pub(super) enum News {
    /// A stream ends there now.
    Moved(StreamKey, i64),
    /// A sign for whoever follows a stream.
    Sign(StreamKey, Vec<u8>),
}

/// Tells other nodes what there is: one NOTIFY for all that gathered meanwhile, or a few.
pub(super) fn notify_loop(target: &Target, news: &Queue<News>, node: Uuid) {
    let mut client = None;
    loop {
        let told = payloads(node, news.take(NEWS_PER_NOTIFY));
        if told.is_empty() {
            return;
        }
        let sent = match client.take().map_or_else(|| connect(target), Ok) {
            Ok((mut connected, notify)) => told
                .iter()
                .try_for_each(|payload| connected.execute(&notify, &[&CHANNEL, payload]).map(drop))
                .map(|()| (connected, notify)),
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

fn connect(target: &Target) -> Result<(Client, Statement), postgres::Error> {
    let mut client = target.connect_to_notify()?;
    let notify = client.prepare("SELECT pg_notify($1, $2)")?;
    Ok((client, notify))
}

/// News as payloads, each with the node that tells it and as many words as fit.
fn payloads(node: Uuid, news: Vec<News>) -> Vec<String> {
    let (mut moved, mut words) = (vec![], vec![]);
    for one in news {
        match one {
            News::Moved(stream, head) => moved.push((stream, head)),
            News::Sign(stream, sign) => {
                words.push(format!("{stream}={}", BASE64URL_NOPAD.encode(&sign)));
            }
        }
    }
    words.extend(highest(moved).into_iter().map(|(stream, head)| format!("{stream}:{head}")));
    let mut payloads: Vec<String> = vec![];
    for word in words {
        match payloads.last_mut() {
            Some(payload) if payload.len() + 1 + word.len() <= MAX_PAYLOAD => {
                // Writing to a string cannot fail.
                let _infallible = write!(payload, " {word}");
            }
            _ => payloads.push(format!("{} {word}", node.simple())),
        }
    }
    payloads
}

/// The last head of each stream: workers may report in another order than they committed in.
fn highest(moved: Vec<(StreamKey, i64)>) -> BTreeMap<StreamKey, i64> {
    let mut streams = BTreeMap::new();
    for (stream, head) in moved {
        let known = streams.entry(stream).or_insert(head);
        *known = head.max(*known);
    }
    streams
}

/// Hears what other nodes tell.
pub(super) fn listen_loop(
    target: &Target,
    node: Uuid,
    waker: &WakerSlot,
    signs: &SignSlot,
    stopping: &AtomicBool,
) {
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
                        words.filter_map(parse).for_each(|news| match news {
                            News::Moved(stream, head) => wake(waker, stream, head),
                            News::Sign(stream, sign) => show(signs, stream, &sign),
                        });
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

fn parse(word: &str) -> Option<News> {
    if let Some((stream, head)) = word.split_once(':') {
        return Some(News::Moved(StreamKey::parse(stream)?, head.parse().ok()?));
    }
    let (stream, sign) = word.split_once('=')?;
    Some(News::Sign(StreamKey::parse(stream)?, BASE64URL_NOPAD.decode(sign.as_bytes()).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use chorus_protocol::ids::AgentId;

    fn inbox(id: u128) -> StreamKey {
        AgentId(Uuid::from_u128(id)).into()
    }

    #[test]
    fn a_late_report_does_not_hide_a_newer_one() {
        let (one, other) = (inbox(1), inbox(2));
        let streams = highest(vec![(one, 1), (other, 7), (one, 3), (one, 2)]);
        assert_eq!(streams, BTreeMap::from([(one, 3), (other, 7)]));
    }

    #[test]
    fn what_is_told_is_heard_however_much_it_is() {
        let (node, most) = (Uuid::from_u128(9), crate::MAX_SIGN);
        let signs = (0..NEWS_PER_NOTIFY as u128 - 1).map(|n| News::Sign(inbox(n), vec![b' '; most]));
        let payloads = payloads(node, signs.chain([News::Moved(inbox(9), i64::MAX)]).collect());
        assert!(payloads.len() > 1 && payloads.iter().all(|payload| payload.len() <= MAX_PAYLOAD));
        let words = payloads.iter().flat_map(|payload| payload.split(' ').skip(1));
        let (mut signs, mut moved) = (0, vec![]);
        for news in words.map(|word| parse(word).unwrap()) {
            match news {
                News::Moved(stream, head) => moved.push((stream, head)),
                News::Sign(stream, sign) => {
                    assert_eq!((stream.id.as_u128(), sign), (signs, vec![b' '; most]));
                    signs += 1;
                }
            }
        }
        assert_eq!((signs, moved), (NEWS_PER_NOTIFY as u128 - 1, vec![(inbox(9), i64::MAX)]));
    }
}
