//! Changing what a message says, and taking it back.

use super::{act, is_member, kinds, masked, only};
use crate::app::AppState;
use crate::error::Error;
use crate::once::{Done, Once};
use crate::usage::event_bytes;
use chorus_protocol::api::messages::{Edit, Noted};
use chorus_protocol::ids::{ConversationId, EventId, Principal};
use chorus_store::{StoreError, Tx, chats, conversation};
use std::sync::Arc;

/// Changes what a message says; its author may. Whom it mentions now is not woken.
pub async fn edit(
    app: &AppState,
    who: Principal,
    (conversation, target): (ConversationId, EventId),
    new: Edit,
    once: Once,
) -> Result<Done<Noted>, Error> {
    let (masked, act, hub) = (masked(&new)?, act(app, who, conversation), Arc::clone(app));
    let body = masked.to_json();
    let work = move |tx: &mut dyn Tx| {
        let sequence = conversation::edit(tx, &act, target, &body, masked.text("content"))
            .map_err(only("the author of a message, and nobody else, changes it"))?;
        hub.count_bytes(tx, who, event_bytes(body.len()))?;
        forget_frames(&hub, tx, target)?;
        Ok(Noted { event_id: act.event, sequence, masked: kinds(&masked) })
    };
    app.once(once, is_member(who, conversation), work).await
}

/// Takes a message back; its author may, and the owner of the channel.
pub async fn delete(
    app: &AppState,
    who: Principal,
    (conversation, target): (ConversationId, EventId),
    once: Once,
) -> Result<Done<()>, Error> {
    let (act, hub) = (act(app, who, conversation), Arc::clone(app));
    let work = move |tx: &mut dyn Tx| {
        conversation::delete(tx, &act, target)
            .map_err(only("the author of a message and the owner of the channel take it back"))?;
        Ok(forget_frames(&hub, tx, target)?)
    };
    app.once(once, is_member(who, conversation), work).await
}

/// Once this is committed, an inbox that has not got the message yet gets it as it stands then.
fn forget_frames(app: &AppState, tx: &mut dyn Tx, message: EventId) -> Result<(), StoreError> {
    let (sent, live) = (chats::of_event(tx, message)?, Arc::clone(&app.live));
    tx.after_commit(Box::new(move || {
        for id in sent {
            live.frames.forget(id.agent.0, id.seq);
        }
    }));
    Ok(())
}
