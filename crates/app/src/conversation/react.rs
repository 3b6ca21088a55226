//! Reacting to a message.

use super::{act, is_member, kinds, masked};
use crate::app::AppState;
use crate::error::Error;
use crate::once::{Done, Once};
use crate::usage::event_bytes;
use chorus_protocol::api::messages::{NewReaction, Noted};
use chorus_protocol::ids::{ConversationId, EventId, Principal};
use chorus_store::Tx;
use chorus_store::conversation;
use std::sync::Arc;

/// Reacts to a message. The same reaction again, while it stands, changes nothing: the result names the one there is.
pub async fn react(
    app: &AppState,
    who: Principal,
    (conversation, target): (ConversationId, EventId),
    new: NewReaction,
    once: Once,
) -> Result<Done<Noted>, Error> {
    let (masked, act, hub) = (masked(&new)?, act(app, who, conversation), Arc::clone(app));
    let body = masked.to_json();
    let work = move |tx: &mut dyn Tx| {
        let (event_id, sequence) = conversation::react(tx, &act, target, new.signal, &body)?;
        if event_id == act.event {
            hub.count_bytes(tx, who, event_bytes(body.len()))?;
        }
        Ok(Noted { event_id, sequence, masked: kinds(&masked) })
    };
    app.once(once, is_member(who, conversation), work).await
}
