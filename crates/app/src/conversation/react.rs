//! Reacting to a message.

use super::{act, is_member, kinds, masked, post};
use crate::app::AppState;
use crate::error::Error;
use crate::once::{Done, Once};
use chorus_protocol::api::messages::{NewReaction, Noted};
use chorus_protocol::ids::{ConversationId, EventId, Principal};
use chorus_store::Tx;
use chorus_store::conversation::{self, Reaction};
use std::sync::Arc;

/// Reacts to a message. The same reaction again, while it stands, changes nothing: the result names the one there is.
pub async fn react(
    app: &AppState,
    who: Principal,
    (conversation, target): (ConversationId, EventId),
    new: NewReaction,
    once: Once,
) -> Result<Done<Noted>, Error> {
    let (body, act, hub) = (masked(&new)?, act(app, who, conversation), Arc::clone(app));
    let work = move |tx: &mut dyn Tx| {
        let (event_id, sequence) = match conversation::draft_reaction(tx, &act, target, new.signal, &body)? {
            Reaction::New(draft) => (act.event, post(&hub, tx, &draft)?.seq),
            Reaction::Stands(event, seq) => (event, seq),
        };
        Ok(Noted { event_id, sequence, masked: kinds(&body), unknown: vec![] })
    };
    app.once(once, is_member(who, conversation), work).await
}
