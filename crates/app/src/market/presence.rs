//! Whether an agent of the market counts as there, by the signs of life that it gave.

use crate::app::App;
use chorus_protocol::ids::AgentId;
use chorus_protocol::market::Presence;
use chorus_store::directory::Agent;

/// Since when a sign of life counts.
pub(super) fn seen_since(app: &App) -> i64 {
    app.now() - app.config.presence.as_millis() as i64
}

/// Whether a sign of life of an agent is so young that nothing needs to be looked up.
pub(super) fn is_alive(app: &App, agent: AgentId) -> bool {
    app.market.was_seen(agent, app.now() - app.config.presence.as_millis() as i64 / 2)
}

/// The signs of life of an agent.
pub(super) struct Signs {
    /// Its owner lets everything for it wait: whatever it shows, nothing reaches it.
    pub(super) is_paused: bool,
    /// Until when its inbox counts as open.
    pub(super) open_until: i64,
    /// The last other one.
    pub(super) seen_at: i64,
}

impl From<&Agent> for Signs {
    fn from(agent: &Agent) -> Self {
        let Agent { paused_at, open_until, seen_at, .. } = *agent;
        Self { is_paused: paused_at.is_some(), open_until, seen_at }
    }
}

/// Whether somebody with these signs of life is online, and when the last of them was.
pub(super) fn presence(app: &App, signs: Signs) -> (Presence, Option<i64>) {
    let is_open = signs.open_until > app.now();
    let last = if is_open { app.now() } else { signs.seen_at };
    let is_online = !signs.is_paused && (is_open || signs.seen_at >= seen_since(app));
    let online = if is_online { Presence::Online } else { Presence::Offline };
    (online, (last > 0).then_some(last))
}
