//! Whether an agent of the market counts as there, by the signs of life that it gave.

use crate::app::App;
use chorus_protocol::ids::AgentId;
use chorus_protocol::market::Presence;

/// Since when a sign of life counts.
pub(super) fn seen_since(app: &App) -> i64 {
    app.now() - app.config.presence.as_millis() as i64
}

/// Whether a sign of life of an agent is so young that nothing needs to be looked up.
pub(super) fn is_alive(app: &App, agent: AgentId) -> bool {
    app.market.was_seen(agent, app.now() - app.config.presence.as_millis() as i64 / 2)
}

/// Whether somebody with these signs of life is online, and when the last of them was.
pub(super) fn presence(app: &App, open_until: i64, seen_at: i64) -> (Presence, Option<i64>) {
    if open_until > app.now() {
        return (Presence::Online, Some(app.now()));
    }
    let online = if seen_at >= seen_since(app) { Presence::Online } else { Presence::Offline };
    (online, (seen_at > 0).then_some(seen_at))
}
