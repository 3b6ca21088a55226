//! The hub of the week: its real acts, sessions and background work on an in-place store that survives every
//! process.
//!
//! Sessions are the real readers, polled without waiting. Of the WebSocket loop only the window is used. A
//! crash drops the runtime with everything on it, so nothing of a dead process is ever finished.

use crate::hub::app;
use chorus_app::c2a::{self, Harness};
use chorus_app::delivery::REDELIVERY_MS;
use chorus_app::delivery::reader::{Holds, Piece, Reader};
use chorus_app::market::reconcile::end_overdue;
use chorus_app::reconcilers::steps::{self, Settings};
use chorus_app::reconcilers::ticks::Ticks;
use chorus_attention::digest::EVERY_MS;
use chorus_environment::{Environment, ManualClock};
use chorus_node::AppState;
use chorus_node::caller::Identity;
use chorus_node::transport::dialect::Dialect;
use chorus_node::transport::window::Window;
use chorus_protocol::c2a::Capabilities;
use chorus_protocol::ids::AgentId;
use chorus_store::directory::KeyHash;
use chorus_store::{Store, StoreError, Tx, TxExt};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use tokio::runtime::{Builder, Runtime};
use tokio::task::yield_now;

/// The oldest lease of an open inbox when a step runs. The real hub ticks more often than it does here.
const RENEW_MS: i64 = 30_000;

pub(crate) struct Host {
    clock: ManualClock,
    seed: u64,
    pub(crate) life: u64,
    pub(crate) store: Store,
    process: Option<Process>,
}

/// The state that a crash destroys. Sessions are dropped first: they hand their last work to the runtime,
/// which discards it.
struct Process {
    sessions: BTreeMap<AgentId, Session>,
    ticks: Ticks,
    renewed_at: i64,
    app: AppState,
    runtime: Runtime,
}

struct Session {
    reader: Reader,
    /// The deliveries that a harness has not acknowledged; `None` for a streamed inbox.
    window: Option<Window>,
}

/// The identity of a connecting agent.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    pub(crate) identity: Identity,
    pub(crate) hash: KeyHash,
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().build().unwrap()
}

impl Drop for Process {
    fn drop(&mut self) {
        let _inside = self.runtime.enter();
        self.sessions.clear();
    }
}

impl Host {
    pub(crate) fn new(seed: u64, clock: &ManualClock, rerun_every: u32) -> Self {
        let store = Store::in_place(NonZeroU32::new(rerun_every)).unwrap();
        let mut host = Self { clock: clock.clone(), seed, life: 0, store, process: None };
        host.start();
        host
    }

    pub(crate) fn start(&mut self) {
        self.life += 1;
        let environment = Environment::seeded(self.seed.wrapping_add(self.life << 32), &self.clock);
        let runtime = runtime();
        let app = {
            let _inside = runtime.enter();
            app(self.store.clone(), environment)
        };
        let (ticks, renewed_at) = (Ticks::new(&app), self.clock.now());
        self.process = Some(Process { sessions: BTreeMap::new(), ticks, renewed_at, app, runtime });
    }

    pub(crate) fn crash(&mut self) {
        self.process = None;
        self.store = self.store.reopen().unwrap();
    }

    pub(crate) fn is_up(&self) -> bool {
        self.process.is_some()
    }

    fn process(&mut self) -> &mut Process {
        self.process.as_mut().expect("the hub runs")
    }

    /// Runs an act, after renewing the leases of open inboxes.
    pub(crate) fn run<T>(&mut self, act: impl AsyncFnOnce(&AppState) -> T) -> T {
        let now = self.clock.now();
        let process = self.process();
        let app = Arc::clone(&process.app);
        let stale = now - process.renewed_at > RENEW_MS;
        process.renewed_at = if stale { now } else { process.renewed_at };
        process.runtime.block_on(async {
            if stale {
                let settings = Settings::new(&app.config);
                let renew = move |tx: &mut dyn Tx| steps::renew(tx, now, &settings);
                app.store.write::<_, StoreError, _>(renew).await.unwrap();
            }
            act(&app).await
        })
    }

    /// Opens a session. Returns the position after which it begins.
    pub(crate) fn connect(&mut self, key: &Key, dialect: Dialect, place: Option<i64>) -> i64 {
        let Key { identity, hash } = key.clone();
        let agent = identity.id;
        let (reader, window) = self.run(async |app| {
            if dialect == Dialect::Sse {
                let opened = Reader::open(Arc::clone(app), identity, hash, dialect, None, place).await;
                return (opened.unwrap(), None);
            }
            let harness = Harness { app: Arc::clone(app), identity, key: hash, can: Capabilities::ALL, bound: None };
            let asked = json!({"protocolVersion": "2026-06-02", "clientInfo": {"name": "week", "version": "1"},
                "capabilities": {"injection": {"immediate": true, "buffered": true, "notify": true,
                    "toolMailbox": true, "digest": true, "interrupt": false}}});
            let Value::Object(asked) = asked else { unreachable!() };
            let (reader, _) = c2a::initialize(&harness, asked).await.unwrap();
            let first = app.config.times.redelivery.as_millis() as i64;
            (reader, Some(Window::new(first, *REDELIVERY_MS.end())))
        });
        let begins = reader.handed();
        self.disconnect(agent);
        self.process().sessions.insert(agent, Session { reader, window });
        begins
    }

    /// Records that a connection is gone.
    pub(crate) fn disconnect(&mut self, agent: AgentId) {
        let process = self.process();
        let session = process.sessions.remove(&agent);
        process.runtime.block_on(async {
            drop(session);
            // Its last work is done at once, because nothing here waits.
            for _ in 0..4 {
                yield_now().await;
            }
        });
    }

    /// Returns the pieces to send to a connection now.
    pub(crate) fn read(&mut self, agent: AgentId) -> Vec<Piece> {
        let now = self.clock.now();
        let Some(process) = &mut self.process else { return vec![] };
        let Some(Session { reader, window }) = process.sessions.get_mut(&agent) else { return vec![] };
        let _inside = process.runtime.enter();
        let mut pieces = vec![];
        loop {
            let has_room = window.as_ref().is_none_or(Window::has_room);
            let next = process.runtime.block_on(async {
                let mut next = pin!(reader.next_if(has_room));
                std::future::poll_fn(|context| Poll::Ready(next.as_mut().poll(context))).await
            });
            let Poll::Ready(piece) = next else { return pieces };
            let piece = piece.expect("an inbox can be read");
            if let (Holds::Entries, Some(window)) = (&piece.holds, window.as_mut()) {
                window.send(piece.through, now);
                reader.give(piece.through);
            }
            let is_last = matches!(piece.holds, Holds::Farewell(_));
            pieces.push(piece);
            if is_last {
                return pieces;
            }
        }
    }

    /// Returns unacknowledged deliveries that are due again.
    pub(crate) fn read_again(&mut self, agent: AgentId) -> Vec<Piece> {
        let now = self.clock.now();
        let Some(process) = &mut self.process else { return vec![] };
        let Some(Session { reader, window: Some(window) }) = process.sessions.get_mut(&agent) else {
            return vec![];
        };
        let mut pieces = vec![];
        while let Some(seq) = window.take_due(now) {
            let bytes = process.runtime.block_on(reader.again(seq)).unwrap();
            pieces.extend(bytes.map(|bytes| Piece { bytes, through: seq, holds: Holds::Entries }));
        }
        pieces
    }

    /// Records that a connection received everything up to this position.
    pub(crate) fn hand(&mut self, agent: AgentId, place: i64) {
        if let Some(session) = self.process.as_ref().and_then(|process| process.sessions.get(&agent)) {
            session.reader.hand(place);
        }
    }

    /// Records a harness's acknowledgement of this position.
    pub(crate) fn acknowledge(&mut self, agent: AgentId, place: i64) {
        let Some(process) = &mut self.process else { return };
        let Some(Session { reader, window: Some(window) }) = process.sessions.get_mut(&agent) else { return };
        if !window.awaits(place) {
            return;
        }
        reader.ack(place);
        if let Some(through) = window.ack(place) {
            reader.hand(through);
        }
    }

    /// Runs one turn of the background work, including the market's.
    pub(crate) fn take_turn(&mut self) {
        let process = self.process();
        let app = Arc::clone(&process.app);
        process.runtime.block_on(async {
            process.ticks.take(&app).await;
            end_overdue(&app).await.unwrap();
        });
    }

    /// Returns the time at which the background work has something to do.
    pub(crate) fn next_due(&mut self) -> Option<i64> {
        let windows = self.process.iter().flat_map(|process| process.sessions.values());
        let unacked = windows.filter_map(|session| session.window.as_ref()?.next_due()).min();
        let now = self.clock.now();
        let stored = self.query(move |tx| {
            let mut times = vec![];
            // A lead gets a digest when it connects, and nothing else.
            let told = tx.first(
                "SELECT MIN(d.since_at) AS at FROM digests d JOIN inboxes i ON i.agent_id = d.agent_id
                 WHERE i.open_until > $1 AND i.shows LIKE '%digest%'
                   AND (EXISTS (SELECT 1 FROM events e WHERE e.conversation_id = d.scope_id AND e.seq > d.through)
                     OR EXISTS (SELECT 1 FROM work_stream_events w WHERE w.stream_id = d.scope_id AND w.place > d.through))",
                &[now.into()],
            )?;
            times.extend(told.map_or(Ok(None), |mut row| row.opt_int("at"))?.map(|since| since + EVERY_MS));
            for sql in [
                "SELECT MIN(next_at) AS at FROM chats WHERE next_at IS NOT NULL",
                "SELECT MIN(next_at) AS at FROM claims WHERE next_at IS NOT NULL",
                "SELECT MIN(deadline_at) AS at FROM jobs WHERE status = 'PENDING'",
            ] {
                times.extend(tx.first(sql, &[])?.map_or(Ok(None), |mut row| row.opt_int("at"))?);
            }
            Ok(times)
        });
        stored.into_iter().chain(unacked).min()
    }

    /// Reads from the database, whether or not a hub runs on it.
    pub(crate) fn query<T: Send + 'static>(
        &self,
        query: impl Fn(&mut dyn Tx) -> Result<T, StoreError> + Send + 'static,
    ) -> T {
        let read = self.store.read(query);
        match &self.process {
            Some(process) => process.runtime.block_on(read).unwrap(),
            None => runtime().block_on(read).unwrap(),
        }
    }
}
