//! What every act shares.

use crate::callers::Callers;
use crate::config::Config;
use crate::exclusive_work::ExclusiveWork;
use crate::harness_log::HarnessLog;
use crate::health::Health;
use crate::look_ups::LookUps;
use crate::mailer::Mailer;
use crate::market_memory::MarketMemory;
use crate::metrics::Metrics;
use crate::open_streams::OpenStreams;
use crate::rate::{Limiter, Source};
use crate::registrations::Registrations;
use crate::tool_log::ToolLog;
use crate::transport::challenges::Challenges;
use crate::transport::dialect::Dialect;
use crate::transport::live::Live;
use crate::transport::notices::Notices;
use crate::transport::outbound::Outbound;
use crate::transport::replies::Replies;
use crate::turns_saved::TurnsSaved;
use crate::usage::Usage;
use bytes::Bytes;
use chorus_environment::Environment;
use chorus_protocol::channel::MAX_MESSAGES;
use chorus_protocol::credentials::SecretKind;
use chorus_protocol::ids::{AgentId, ConversationId, Principal, ScoreId};
use chorus_store::directory::KeyHash;
use chorus_store::{Store, Tx, revocation};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Bundles a minute at one address for signed evidence, and at once.
const INGEST_PER_MINUTE: u64 = 60;
const INGEST_BURST: u64 = 20;

fn ingest_limiter<K: Eq + Hash>() -> Limiter<K> {
    Limiter::some_at_once(INGEST_BURST, INGEST_PER_MINUTE, Duration::from_mins(1))
}

/// The hub, as everybody holds it.
pub type AppState = Arc<App>;

/// The hub, as acts see it.
pub struct App {
    pub config: Config,
    pub environment: Environment,
    /// Whether it listens for this machine only.
    pub on_loopback: bool,
    pub store: Store,
    /// Shared with the store, which wakes it.
    pub live: Arc<Live>,
    pub replies: Arc<Replies>,
    pub callers: Arc<Callers>,
    pub outbound: Outbound,
    pub challenges: Challenges,
    /// What harnesses that are POSTed to are told in passing.
    pub notices: Arc<Notices>,
    pub mailer: Mailer,
    pub market: MarketMemory,
    /// Tells the pusher that something may be due.
    pub due: Arc<Notify>,
    pub keyed_rate: Option<Limiter<KeyHash>>,
    pub anonymous_rate: Option<Limiter<Source>>,
    /// What each agent says in each conversation.
    pub say_rate: Option<Limiter<(AgentId, ConversationId)>>,
    /// Who has how much stored.
    pub usage: Arc<Usage>,
    /// Which tools were called.
    pub tool_log: ToolLog,
    pub harness_log: HarnessLog,
    pub turns_saved: TurnsSaved,
    /// Of secrets that turned out to be nobody's.
    pub bad_secret_rate: Option<Limiter<Source>>,
    /// What comes from each source to each address for signed evidence, signed or not.
    pub ingest_rate: Option<Limiter<(KeyHash, Source)>>,
    /// What comes in for each Score and is signed.
    pub signed_rate: Option<Limiter<ScoreId>>,
    /// None for no limits.
    pub registrations: Option<Registrations>,
    /// Of secrets that are not known yet.
    pub look_ups: LookUps,
    pub searches: Arc<ExclusiveWork>,
    /// Of traces into evidence.
    pub conversions: Arc<ExclusiveWork>,
    /// What models wait for.
    pub open_streams: OpenStreams,
    pub metrics: Metrics,
    pub health: Health,
    /// Work that must end even if whoever asked for it has gone.
    pub tasks: TaskTracker,
    /// Cancelled when the hub stops; streams end on it.
    pub stopping: CancellationToken,
}

impl App {
    pub fn new(
        store: Store,
        config: Config,
        environment: Environment,
        stopping: CancellationToken,
        on_loopback: bool,
    ) -> Result<Self, reqwest::Error> {
        let (live, callers, replies) =
            (Arc::new(Live::default()), Arc::new(Callers::default()), Arc::new(Replies::default()));
        let metrics = Metrics::default();
        store.on_commit(Box::new({
            let (live, callers, replies) = (Arc::clone(&live), Arc::clone(&callers), Arc::clone(&replies));
            move |stream, head| {
                // A look at one byte, for all other streams.
                if let Some(who) = revocation::whose(stream) {
                    // Before those who are woken look again.
                    callers.forget(who);
                    replies.end(AgentId(who));
                    live.doubt(AgentId(who));
                }
                live.wake(stream, head);
            }
        }));
        store.on_sign(Box::new({
            let live = Arc::clone(&live);
            move |stream, sign| {
                let sign = Bytes::copy_from_slice(sign);
                live.tell(AgentId(stream), Dialect::C2a, sign.clone());
                live.show(stream, sign);
            }
        }));
        Ok(Self {
            outbound: Outbound::new(&config, environment.clone())?,
            challenges: Challenges::default(),
            notices: Arc::default(),
            keyed_rate: config.rate_limit.map(Limiter::per_minute),
            anonymous_rate: config.rate_limit_anonymous.map(Limiter::per_minute),
            say_rate: config.rate_limit.map(|_| Limiter::per_minute_at_once(MAX_MESSAGES as u32)),
            bad_secret_rate: config.rate_limit_anonymous.map(Limiter::per_minute),
            ingest_rate: config.rate_limit.map(|_| ingest_limiter()),
            signed_rate: config.rate_limit.map(|_| ingest_limiter()),
            usage: Arc::new(Usage::new(&config.quotas)),
            tool_log: ToolLog::default(),
            harness_log: HarnessLog::default(),
            turns_saved: TurnsSaved::default(),
            look_ups: LookUps::default(),
            searches: ExclusiveWork::of("search"),
            conversions: ExclusiveWork::of("conversion"),
            open_streams: OpenStreams::default(),
            health: Health::new(environment.elapsed()),
            mailer: Mailer::new(&config, environment.clone(), metrics.mails_dropped.clone()),
            market: MarketMemory::default(),
            registrations: config.rate_limit.map(|_| Registrations::new(&config.quotas)),
            metrics,
            replies,
            due: Arc::default(),
            callers,
            tasks: TaskTracker::new(),
            config,
            environment,
            store,
            live,
            on_loopback,
            stopping,
        })
    }

    /// Moves whenever something that lets `who` in may have been taken back, from now on. What still holds is looked up.
    pub fn revocations(&self, who: impl Into<Principal>) -> watch::Receiver<i64> {
        self.live.follow(revocation::stream(who)).0
    }

    /// If this transaction is committed, the pusher looks at once for what it made due.
    pub fn push_after(&self, tx: &mut dyn Tx) {
        let due = Arc::clone(&self.due);
        tx.after_commit(Box::new(move || due.notify_one()));
    }

    /// If this transaction is committed, an agent's harness that is POSTed to is told something in passing.
    pub fn tell_harness_after(&self, tx: &mut dyn Tx, agent: AgentId, notice: Bytes) {
        let (notices, due) = (Arc::clone(&self.notices), Arc::clone(&self.due));
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

    /// How much time has passed, whatever is done to the clock.
    pub fn elapsed(&self) -> i64 {
        self.environment.elapsed()
    }

    /// The address of an agent of this hub.
    pub fn address(&self, name: &str) -> String {
        format!("{name}@{}", self.config.host_name)
    }

    /// Where an agent may answer message `seq` of its inbox with a stream.
    pub fn reply_stream(&self, agent: AgentId, seq: i64) -> String {
        let token = self.config.master_key.reply_token(agent, seq);
        format!("{}/agent/replies/{token}", self.config.public_url)
    }
}
