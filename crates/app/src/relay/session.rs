//! Opens an inbox without a header, because a browser's `EventSource` sends none. A key is exchanged for a
//! token that opens only this agent's inbox for a while. Replacing the key revokes the token.

use chorus_node::App;
use chorus_node::Error;
use chorus_node::authentication;
use chorus_node::caller::Identity;
use chorus_node::secrets::InboxToken;
use chorus_protocol::ids::AgentId;
use chorus_protocol::relay::InboxSession;
use chorus_store::directory::KeyHash;

/// The lifetime of a token. It is long enough for a browser that reconnects after a short break.
const LIFE_MS: i64 = 5 * 60 * 1000;

/// Creates a token for the inbox of the agent with this key.
pub fn open_session(app: &App, identity: &Identity, key: &KeyHash) -> InboxSession {
    let master = &app.config.master_key;
    let token =
        InboxToken { agent: identity.id, expires_at: app.now() + LIFE_MS, key_mark: master.key_mark(key) };
    InboxSession { session_token: master.inbox_token(token), expires_in_seconds: LIFE_MS / 1000 }
}

/// Returns the agent of a token that the hub signed. The lookup is charged to it.
pub fn session_agent(app: &App, token: &str) -> Option<AgentId> {
    Some(app.config.master_key.read_inbox_token(token)?.agent)
}

/// Returns the agent whose inbox a valid token opens, and its key.
pub async fn session_holder(app: &App, token: &str) -> Result<(Identity, KeyHash), Error> {
    let master = &app.config.master_key;
    let token = master.read_inbox_token(token).filter(|token| app.now() < token.expires_at);
    let holder = match token {
        Some(token) => authentication::holder(app, token.agent).await?.filter(|(_, key)| {
            // The token is valid only with the key it was exchanged for.
            master.key_mark(key) == token.key_mark
        }),
        None => None,
    };
    holder.ok_or_else(|| {
        Error::unauthorized(
            "this session is over or not valid; POST /agent/session with the key for a new one",
        )
    })
}
