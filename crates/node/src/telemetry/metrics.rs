//! The hub's Prometheus metrics. Each hub has its own registry, so that several can live in one process.

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use std::borrow::Cow;

/// The labels of a series. They are made for each count, so what is known beforehand is not copied.
type Labels<const N: usize> = [(&'static str, Cow<'static, str>); N];

/// Methods by their names; those that clients make up are without number, and counted as one.
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

pub struct Metrics {
    registry: Registry,
    requests: Family<Labels<3>, Counter>,
    seconds: Family<Labels<1>, Histogram, fn() -> Histogram>,
    deliveries: Family<Labels<1>, Counter>,
    pushes: Family<Labels<2>, Counter>,
    pub connections: Gauge,
    pub inboxes: Gauge,
    pub queued: Gauge,
    pub writes: Counter,
    pub rate_limited: Counter,
    quota_refused: Family<Labels<1>, Counter>,
    pub stored_bytes: Gauge,
    pub mails_dropped: Counter,
    attention: Family<Labels<1>, Counter>,
    pub injected: Counter,
    pub digested: Counter,
    pub turns_saved: Counter,
    pub schemas_compiled: Counter,
    tool_calls: Family<Labels<1>, Counter>,
    rounds: Family<Labels<1>, Counter>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("chorus"),
            requests: Family::default(),
            seconds: Family::new_with_constructor(|| {
                Histogram::new([0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0])
            }),
            deliveries: Family::default(),
            pushes: Family::default(),
            connections: Gauge::default(),
            inboxes: Gauge::default(),
            queued: Gauge::default(),
            writes: Counter::default(),
            rate_limited: Counter::default(),
            quota_refused: Family::default(),
            stored_bytes: Gauge::default(),
            mails_dropped: Counter::default(),
            attention: Family::default(),
            injected: Counter::default(),
            digested: Counter::default(),
            turns_saved: Counter::default(),
            schemas_compiled: Counter::default(),
            tool_calls: Family::default(),
            rounds: Family::default(),
        };
        let registry = &mut metrics.registry;
        registry.register("requests", "Requests answered", metrics.requests.clone());
        registry.register_with_unit(
            "request_duration",
            "Time from a request's headers to its answer's",
            Unit::Seconds,
            metrics.seconds.clone(),
        );
        registry.register("deliveries", "Relay sends, by outcome", metrics.deliveries.clone());
        registry.register(
            "pushes",
            "Tries to POST what is pushed until it arrives, by transport and outcome",
            metrics.pushes.clone(),
        );
        registry.register("connections", "Open connections", metrics.connections.clone());
        registry.register("inboxes_open", "Open inboxes on this node", metrics.inboxes.clone());
        registry.register("store_queue", "Writes that wait for the store", metrics.queued.clone());
        registry.register(
            "store_writes",
            "Transactions that may write; several may share a commit",
            metrics.writes.clone(),
        );
        registry.register("rate_limited", "Requests refused for their number", metrics.rate_limited.clone());
        registry.register("quota_refused", "What quotas refused, by quota", metrics.quota_refused.clone());
        registry.register_with_unit(
            "stored",
            "What is stored of what everybody said, wrote and sent, as quotas count it",
            Unit::Bytes,
            metrics.stored_bytes.clone(),
        );
        registry.register("mails_dropped", "Mails not sent for their number", metrics.mails_dropped.clone());
        registry.register(
            "attention",
            "Agents that messages were for, by what became of it: woken, knocked, or stored",
            metrics.attention.clone(),
        );
        registry.register("injected", "Events that entered a turn of a model", metrics.injected.clone());
        registry.register(
            "digested",
            "Events that leads were told of in digests, which saved a turn of a model for each",
            metrics.digested.clone(),
        );
        registry.register(
            "model_turns_saved",
            "Messages, for each agent in their conversations that did not say them and was not shown them in full when they were said",
            metrics.turns_saved.clone(),
        );
        registry.register(
            "market_schemas_compiled",
            "Schemas of skills that were compiled to check data; those in the cache are not compiled again",
            metrics.schemas_compiled.clone(),
        );
        registry.register("tool_calls", "Chat tools called by C2A harnesses", metrics.tool_calls.clone());
        registry.register(
            "background_rounds",
            "Times that background work looked for something due, by kind of work; a figure that stands still means trouble",
            metrics.rounds.clone(),
        );
        metrics
    }
}

impl Metrics {
    /// `route` is the path's pattern, never the path: paths may hold secrets and are without number.
    pub fn request(&self, method: &str, route: &str, status: u16, seconds: f64) {
        let method = METHODS.into_iter().find(|known| *known == method).unwrap_or("other");
        let (route, status): (Cow<'static, str>, _) = (route.to_owned().into(), status.to_string().into());
        self.seconds.get_or_create(&[("route", route.clone())]).observe(seconds);
        self.requests.get_or_create(&[("method", method.into()), ("route", route), ("status", status)]).inc();
    }

    pub fn delivery(&self, outcome: &'static str) {
        self.deliveries.get_or_create(&[("outcome", outcome.into())]).inc();
    }

    pub fn push(&self, transport: &'static str, outcome: &'static str) {
        self.pushes.get_or_create(&[("transport", transport.into()), ("outcome", outcome.into())]).inc();
    }

    /// Counts the outcome of messages for agents.
    pub fn attended(&self, outcome: &'static str, agents: usize) {
        if agents > 0 {
            self.attention.get_or_create(&[("outcome", outcome.into())]).inc_by(agents as u64);
        }
    }

    pub fn tool_called(&self, tool: &'static str) {
        self.tool_calls.get_or_create(&[("tool", tool.into())]).inc();
    }

    /// Counts one look of background work at what is due.
    pub fn background_round(&self, work: &'static str) {
        self.rounds.get_or_create(&[("work", work.into())]).inc();
    }

    pub fn quota_refused(&self, quota: &str) {
        self.quota_refused.get_or_create(&[("quota", quota.to_owned().into())]).inc();
    }

    pub fn render(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}
