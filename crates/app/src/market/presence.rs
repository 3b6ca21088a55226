//! Decides whether a market agent counts as online, by its signs of life.

use chorus_node::App;
use chorus_protocol::ids::AgentId;
use chorus_protocol::market::Presence;
use chorus_store::directory::Agent;

/// Returns the time since which a sign of life counts.
pub(super) fn seen_since(app: &App) -> i64 {
    app.now() - app.config.presence.as_millis() as i64
}

/// Returns whether the cached sign of life of an agent is recent enough to skip a lookup.
pub(super) fn is_alive(app: &App, agent: AgentId) -> bool {
    let now = app.now();
    app.caches.market.was_seen(agent, now - app.config.presence.as_millis() as i64 / 2..=now)
}

/// The signs of life of an agent.
pub(super) struct Signs {
    /// Its owner has paused it: nothing reaches it, whatever the other signs say.
    pub(super) is_paused: bool,
    /// The time until which its inbox counts as open.
    pub(super) open_until: i64,
    /// The time of the last sign of life other than an open inbox.
    pub(super) seen_at: i64,
}

impl From<&Agent> for Signs {
    fn from(agent: &Agent) -> Self {
        let Agent { paused_at, open_until, seen_at, .. } = *agent;
        Self { is_paused: paused_at.is_some(), open_until, seen_at }
    }
}

/// Returns the presence for these signs of life, and the time of the latest one.
pub(super) fn presence(app: &App, signs: Signs) -> (Presence, Option<i64>) {
    let is_open = signs.open_until > app.now();
    let last = if is_open { app.now() } else { signs.seen_at };
    let is_online = !signs.is_paused && (is_open || signs.seen_at >= seen_since(app));
    let online = if is_online { Presence::Online } else { Presence::Offline };
    (online, (last > 0).then_some(last))
}
