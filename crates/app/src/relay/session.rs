//! Opening an inbox without a header: a browser's `EventSource` sends none. A key is exchanged for a token that opens this
//! agent's inbox for a while, and nothing else; it ends with the key.

use crate::app::App;
use crate::authenticate;
use crate::caller::Identity;
use crate::error::Error;
use crate::secrets::InboxToken;
use chorus_protocol::ids::AgentId;
use chorus_protocol::relay::InboxSession;
use chorus_store::directory::KeyHash;

/// How long a token opens an inbox. Long enough for a browser that connects again by itself after a short break.
const LIFE_MS: i64 = 5 * 60 * 1000;

/// A token for the inbox of whoever shows this key.
pub fn open_session(app: &App, identity: &Identity, key: &KeyHash) -> InboxSession {
    let master = &app.config.master_key;
    let token =
        InboxToken { agent: identity.id, expires_at: app.now() + LIFE_MS, key_mark: master.key_mark(key) };
    InboxSession { session_token: master.inbox_token(token), expires_in_seconds: LIFE_MS / 1000 }
}

/// The agent whose inbox a token opens, if we made it: what is charged for looking it up.
pub fn session_agent(app: &App, token: &str) -> Option<AgentId> {
    Some(app.config.master_key.read_inbox_token(token)?.agent)
}

/// The agent whose inbox a token opens now, and its key.
pub async fn session_holder(app: &App, token: &str) -> Result<(Identity, KeyHash), Error> {
    let master = &app.config.master_key;
    let token = master.read_inbox_token(token).filter(|token| app.now() < token.expires_at);
    let holder = match token {
        Some(token) => authenticate::holder(app, token.agent).await?.filter(|(_, key)| {
            // Of the key it was exchanged for, or none.
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
