//! Limits open connections: in total, and per source.
//!
//! A source that has used up its share is refused. If the hub is full, a connection that has sent no request
//! yet is closed in favour of a new one: the oldest of the source with the most connections. If every
//! connection has sent a request, an idle one is closed, unless the new connection's source has more
//! connections than the idle one's; then the new one is refused. If all connections are busy, the new one
//! waits, and later ones behind it, until one ends or becomes idle. A response is over when its last byte has
//! been written; no connection is closed before. Trusted proxies have no share, are never closed and never
//! refused, because many clients connect through them.

use axum::body::Body;
use bytes::Bytes;
use chorus_node::source::Source;
use hyper::body::{Frame, SizeHint};
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::Notify;

/// The interval at which a waiting connection checks whether another has become idle.
const LOOK: Duration = Duration::from_millis(50);

/// No request has arrived yet.
const SILENT: u8 = 0;
/// A request is being answered, the connection was upgraded, or it belongs to a proxy.
const BUSY: u8 = 1;
/// The last response is complete but not yet fully written.
const SAID: u8 = 2;
/// The last response was written completely.
const IDLE: u8 = 3;
/// The connection was told to close.
const ENDED: u8 = 4;

pub(crate) struct Connections {
    most: usize,
    most_of_one: usize,
    table: Mutex<Table>,
    /// Notified when a connection ends.
    freed: Notify,
}

#[derive(Default)]
struct Table {
    /// Open connections by number. A higher number is a younger connection.
    open: HashMap<u64, Arc<Connection>>,
    of: HashMap<Source, usize>,
    next: u64,
}

/// One connection, as the others see it.
pub(crate) struct Connection {
    source: Source,
    is_proxy: bool,
    state: AtomicU8,
    gives_way: Notify,
}

/// The slot of one connection. Dropping it frees the slot.
pub(crate) struct Slot {
    all: Arc<Connections>,
    number: u64,
    pub(crate) connection: Arc<Connection>,
}

impl Connections {
    pub(crate) fn new(most: usize, most_of_one: usize) -> Arc<Self> {
        Arc::new(Self { most, most_of_one, table: Mutex::default(), freed: Notify::new() })
    }

    /// Waits for a free slot. Returns `None` if the source has used up its share, or has more connections than
    /// any idle one's source.
    pub(crate) async fn take_slot(self: &Arc<Self>, source: Source, is_proxy: bool) -> Option<Slot> {
        loop {
            {
                let mut table = self.table();
                if !is_proxy && table.count(source) >= self.most_of_one {
                    return None;
                }
                if table.open.len() < self.most {
                    return Some(table.add(self, source, is_proxy));
                }
                let newcomers = if is_proxy { 0 } else { table.count(source) };
                if !table.make_way(newcomers) {
                    return None;
                }
            }
            tokio::select! {
                () = self.freed.notified() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn count(&self, source: Source) -> usize {
        self.of.get(&source).copied().unwrap_or_default()
    }

    fn add(&mut self, all: &Arc<Connections>, source: Source, is_proxy: bool) -> Slot {
        let (state, number) = (AtomicU8::new(SILENT), self.next);
        let connection = Arc::new(Connection { source, is_proxy, state, gives_way: Notify::new() });
        self.next += 1;
        self.open.insert(number, Arc::clone(&connection));
        *self.of.entry(source).or_default() += 1;
        Slot { all: Arc::clone(all), number, connection }
    }

    /// Tells one connection to close, if one may be closed. Returns whether a source with `newcomers`
    /// connections should wait for a slot.
    fn make_way(&self, newcomers: usize) -> bool {
        for state in [SILENT, IDLE] {
            let found = self
                .open
                .iter()
                .filter(|(_, one)| !one.is_proxy && one.state.load(Ordering::Acquire) == state)
                .max_by_key(|(number, one)| (self.count(one.source), u64::MAX - **number));
            let Some((_, one)) = found else { continue };
            if state == IDLE && self.count(one.source) < newcomers {
                return false;
            }
            if one.state.compare_exchange(state, ENDED, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                one.gives_way.notify_one();
            }
            return true;
        }
        true
    }
}

impl Connection {
    /// Marks the beginning of a request. Returns `false` if the connection was told to close just before; the
    /// request must not be executed then, because its response may not arrive.
    pub(crate) fn begin(&self) -> bool {
        let begun = self
            .state
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| (state != ENDED).then_some(BUSY));
        begun.is_ok()
    }

    /// Returns whether a request is in progress.
    pub(crate) fn is_answering(&self) -> bool {
        matches!(self.state.load(Ordering::Acquire), BUSY | SAID)
    }

    /// Records that everything written so far has been sent.
    pub(crate) fn flushed(&self) {
        // While a response is being written, more bytes will follow.
        self.state.compare_exchange(SAID, IDLE, Ordering::AcqRel, Ordering::Acquire).ok();
    }

    /// Resolves when the connection must close to make room for another.
    pub(crate) async fn gives_way(&self) {
        self.gives_way.notified().await;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut table = self.all.table();
        table.open.remove(&self.number);
        let source = self.connection.source;
        if let Some(count) = table.of.get_mut(&source) {
            *count -= 1;
            if *count == 0 {
                table.of.remove(&source);
            }
        }
        drop(table);
        self.all.freed.notify_one();
    }
}

/// A response body that marks its connection as idle once it is complete and sent. It marks nothing if the
/// connection was upgraded.
pub(crate) struct Answering {
    body: Body,
    connection: Option<Arc<Connection>>,
}

impl Answering {
    pub(crate) fn new(body: Body, connection: Option<Arc<Connection>>) -> Self {
        Self { body, connection }
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        if let Some(connection) = &self.connection {
            connection.state.compare_exchange(BUSY, SAID, Ordering::AcqRel, Ordering::Acquire).ok();
        }
    }
}

impl hyper::body::Body for Answering {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chorus_node::source::rate_key;
    use futures_util::FutureExt;

    fn source(last: u8) -> Source {
        rate_key([192, 0, 2, last].into())
    }

    async fn take_slot(all: &Arc<Connections>, last: u8) -> Slot {
        all.take_slot(source(last), false).await.expect("it has not had its share")
    }

    fn gave_way(slot: &Slot) -> bool {
        slot.connection.state.load(Ordering::Acquire) == ENDED
    }

    /// Completes a response, and optionally marks it as sent.
    fn answer(slot: &Slot, gone_out: bool) {
        drop(Answering::new(Body::empty(), Some(Arc::clone(&slot.connection))));
        if gone_out {
            slot.connection.flushed();
        }
    }

    #[tokio::test]
    async fn each_source_has_its_share() {
        let all = Connections::new(10, 2);
        let held = (take_slot(&all, 1).await, take_slot(&all, 1).await);
        assert!(all.take_slot(source(1), false).await.is_none());
        let others = (all.take_slot(source(1), true).await.unwrap(), take_slot(&all, 2).await);
        drop((held, others));
        assert!(all.table().of.is_empty() && all.table().open.is_empty());
    }

    #[tokio::test]
    async fn who_says_nothing_gives_way() {
        let all = Connections::new(4, 10);
        let (lone, first, second, asking) = (
            take_slot(&all, 1).await,
            take_slot(&all, 2).await,
            take_slot(&all, 2).await,
            take_slot(&all, 2).await,
        );
        assert!(asking.connection.begin());
        let mut waiting = Box::pin(all.take_slot(source(3), false));
        assert!(waiting.as_mut().now_or_never().is_none());
        assert!(gave_way(&first) && !gave_way(&second) && !gave_way(&lone) && !gave_way(&asking));
        // A request that arrives at this moment is not started any more.
        assert!(!first.connection.begin() && gave_way(&first));
        drop(first);
        waiting.await.expect("there is room");
    }

    #[tokio::test]
    async fn who_is_idle_gives_way_unless_to_one_that_has_more() {
        let all = Connections::new(3, 10);
        let (one, other, lone) =
            (take_slot(&all, 1).await, take_slot(&all, 1).await, take_slot(&all, 2).await);
        for slot in [&one, &other, &lone] {
            assert!(slot.connection.begin());
        }
        assert!(all.take_slot(source(3), false).now_or_never().is_none(), "it waits for one to end");
        answer(&lone, false);
        assert!(all.take_slot(source(3), false).now_or_never().is_none());
        assert!(!gave_way(&lone) && lone.connection.is_answering(), "not before its answer has gone out");
        lone.connection.flushed();
        assert!(all.take_slot(source(1), false).await.is_none(), "it has more, and holds nobody up");
        assert!(!gave_way(&lone));
        answer(&one, true);
        assert!(all.take_slot(source(3), false).now_or_never().is_none());
        assert!(gave_way(&one) && !gave_way(&other) && !gave_way(&lone));
    }

    /// A proxy displaces an idle connection no matter how many connections it has.
    #[tokio::test]
    async fn who_is_idle_gives_way_to_a_proxy() {
        let all = Connections::new(3, 10);
        let proxied = (all.take_slot(source(1), true).await, all.take_slot(source(1), true).await);
        let lone = take_slot(&all, 2).await;
        assert!(lone.connection.begin());
        answer(&lone, true);
        let mut waiting = Box::pin(all.take_slot(source(1), true));
        assert!(waiting.as_mut().now_or_never().is_none());
        assert!(gave_way(&lone));
        drop(lone);
        assert!(waiting.await.is_some());
        drop(proxied);
    }
}
