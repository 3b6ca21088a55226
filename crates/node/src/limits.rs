//! Limits of a node: how often, how much at a time, and how much in all a caller may use.
//!
//! Each file is one kind of limit. [`Limits`] holds them, and [`accounting`] counts calls against them. They are kept in memory, so each
//! node has its own; only [`usage`] is also written to the store.

pub mod accounting;
pub mod body_budget;
pub mod credential_lookups;
mod fair_share;
pub mod mail;
pub mod open_streams;
pub mod rate;
pub mod registrations;
pub mod shares;
pub mod usage;
pub mod work_queue;

use self::body_budget::BodyBudget;
use self::credential_lookups::CredentialLookups;
use self::open_streams::OpenStreams;
use self::rate::Limiter;
use self::registrations::Registrations;
use self::usage::Usage;
use self::work_queue::WorkQueue;
use crate::config::Config;
use crate::config::quotas::OFF;
use crate::source::Source;
use chorus_environment::Environment;
use chorus_protocol::channel::MAX_MESSAGES;
use chorus_protocol::ids::{AgentId, ConversationId, ScoreId};
use chorus_store::directory::KeyHash;
use prometheus_client::metrics::counter::Counter;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// Bundles a minute at one address for signed evidence, and at once.
const INGEST_PER_MINUTE: u64 = 60;
const INGEST_BURST: u64 = 20;

fn ingest_limiter<K: Eq + Hash>() -> Limiter<K> {
    Limiter::some_at_once(INGEST_BURST, INGEST_PER_MINUTE, Duration::from_mins(1))
}

/// All limits of a node. A rate is `None` if the operator switched rate limits off.
pub struct Limits {
    pub keyed_rate: Option<Limiter<KeyHash>>,
    pub anonymous_rate: Option<Limiter<Source>>,
    /// Messages of one agent in one conversation.
    pub say_rate: Option<Limiter<(AgentId, ConversationId)>>,
    /// Secrets that turned out to be invalid.
    pub bad_secret_rate: Option<Limiter<Source>>,
    /// Requests from one source to one address for signed evidence, before their signature is checked.
    pub ingest_rate: Option<Limiter<(KeyHash, Source)>>,
    /// Evidence for one Score whose signature is right.
    pub signed_rate: Option<Limiter<ScoreId>>,
    pub registrations: Option<Registrations>,
    /// Bytes a day of answers that are kept for one caller's idempotency keys.
    pub kept_answers: Option<Arc<Limiter<KeyHash>>>,
    pub usage: Arc<Usage>,
    pub credential_lookups: CredentialLookups,
    pub bodies: BodyBudget,
    pub searches: Arc<WorkQueue>,
    /// Conversions of traces into evidence.
    pub conversions: Arc<WorkQueue>,
    /// Receipts over much evidence.
    pub receipts: Arc<WorkQueue>,
    /// Long checks of data against the schemas of skills, by the mark or the id of a party.
    pub data_checks: Arc<WorkQueue<Uuid>>,
    /// Long polls and streams of notices that models wait for.
    pub open_streams: OpenStreams,
    /// The most channels of one owner.
    max_channels: u64,
    environment: Environment,
    refusals: Counter,
}

impl Limits {
    /// `refusals` counts requests that a rate limit refused.
    pub fn new(config: &Config, environment: Environment, refusals: Counter) -> Self {
        Self {
            keyed_rate: config.rate_limit.map(Limiter::per_minute),
            anonymous_rate: config.rate_limit_anonymous.map(Limiter::per_minute),
            say_rate: config.rate_limit.map(|_| Limiter::per_minute_at_once(MAX_MESSAGES as u32)),
            bad_secret_rate: config.rate_limit_anonymous.map(Limiter::per_minute),
            ingest_rate: config.rate_limit.map(|_| ingest_limiter()),
            signed_rate: config.rate_limit.map(|_| ingest_limiter()),
            registrations: config.rate_limit.map(|_| Registrations::new(&config.quotas)),
            kept_answers: (config.quotas.answer_bytes != OFF)
                .then(|| Arc::new(Limiter::at_once(config.quotas.answer_bytes, Duration::from_hours(24)))),
            usage: Arc::new(Usage::new(&config.quotas)),
            credential_lookups: CredentialLookups::default(),
            bodies: BodyBudget::new(config),
            searches: WorkQueue::of("search"),
            conversions: WorkQueue::of("conversion"),
            receipts: WorkQueue::of("large receipt"),
            data_checks: WorkQueue::of("long check of data"),
            open_streams: OpenStreams::default(),
            max_channels: config.quotas.channels,
            environment,
            refusals,
        }
    }
}
