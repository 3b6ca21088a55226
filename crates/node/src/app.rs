//! The state of a node that every act works with.

use crate::caches::Caches;
use crate::config::Config;
use crate::limits::Limits;
use crate::tasks::Tasks;
use crate::telemetry::Telemetry;
use crate::transport::TransportState;
use crate::transport::dialect::Dialect;
use bytes::Bytes;
use chorus_environment::Environment;
use chorus_protocol::credentials::SecretKind;
use chorus_protocol::ids::{AgentId, Principal};
use chorus_store::{Store, StreamKey, StreamKind, Tx};
use std::sync::Arc;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// A node of the hub, shared by all its requests and tasks.
pub type AppState = Arc<App>;

/// A node of the hub, as acts see it.
pub struct App {
    pub config: Config,
    /// True if the hub listens on a loopback address only.
    pub on_loopback: bool,
    /// The clock and the source of random numbers.
    pub environment: Environment,
    pub store: Store,
    pub limits: Limits,
    pub transport: TransportState,
    pub caches: Caches,
    pub telemetry: Telemetry,
    pub tasks: Tasks,
}

impl App {
    pub fn new(
        store: Store,
        config: Config,
        environment: Environment,
        stopping: CancellationToken,
        on_loopback: bool,
    ) -> Result<Self, reqwest::Error> {
        let telemetry = Telemetry::new(environment.elapsed());
        let limits = Limits::new(&config, environment.clone(), telemetry.metrics.rate_limited.clone());
        let transport = TransportState::new(&config, &environment, telemetry.metrics.mails_dropped.clone())?;
        let (caches, tasks) = (Caches::default(), Tasks::new(stopping));
        store.count_with(Arc::clone(&limits.usage) as _);
        store.on_commit(Box::new({
            let (live, replies) = (Arc::clone(&transport.live), Arc::clone(&transport.replies));
            let callers = Arc::clone(&caches.callers);
            move |stream, head| {
                if stream.kind == StreamKind::Revocations {
                    // Before the streams that are woken look again.
                    callers.forget(stream.id);
                    replies.end(AgentId(stream.id));
                    live.doubt(AgentId(stream.id));
                }
                live.wake(stream, head);
            }
        }));
        store.on_sign(Box::new({
            let live = Arc::clone(&transport.live);
            move |stream, sign| {
                let sign = Bytes::copy_from_slice(sign);
                match stream.kind {
                    StreamKind::Inbox => live.tell(AgentId(stream.id), Dialect::C2a, sign),
                    _ => live.show(stream, sign),
                }
            }
        }));
        Ok(Self { config, on_loopback, environment, store, limits, transport, caches, telemetry, tasks })
    }

    /// Returns a receiver that changes whenever a credential of `who` may have been revoked. The caller then
    /// checks what is still valid.
    pub fn revocations(&self, who: impl Into<Principal>) -> watch::Receiver<i64> {
        self.transport.live.follow(StreamKey::revocations(who)).0
    }

    /// Wakes the pusher after the commit of this transaction, to look for due deliveries.
    pub fn push_after(&self, tx: &mut dyn Tx) {
        let due = Arc::clone(&self.tasks.push_due);
        tx.after_commit(Box::new(move || due.notify_one()));
    }

    /// Queues a notice for an agent's harness after the commit of this transaction.
    pub fn tell_harness_after(&self, tx: &mut dyn Tx, agent: AgentId, notice: Bytes) {
        let (notices, due) = (Arc::clone(&self.transport.notices), Arc::clone(&self.tasks.push_due));
        tx.after_commit(Box::new(move || {
            notices.put(agent, notice);
            due.notify_one();
        }));
    }

    pub fn now(&self) -> i64 {
        self.environment.now()
    }

    /// A new credential of this kind.
    pub fn secret(&self, kind: SecretKind) -> String {
        kind.secret(&self.environment.random_hex())
    }

    /// Returns the monotonic time since the start in milliseconds, independent of the clock.
    pub fn elapsed(&self) -> i64 {
        self.environment.elapsed()
    }

    /// The address of an agent of this hub.
    pub fn address(&self, name: &str) -> String {
        format!("{name}@{}", self.config.host_name)
    }

    /// Returns the URL at which an agent may answer message `seq` of its inbox with a stream.
    pub fn reply_stream(&self, agent: AgentId, seq: i64) -> String {
        let token = self.config.master_key.reply_token(agent, seq);
        format!("{}/agent/replies/{token}", self.config.public_url)
    }
}
