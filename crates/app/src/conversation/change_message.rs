//! Changing what a message says, and taking it back.

use super::post::post_decided;
use super::{act, is_member, kinds, masked, only, post};
use crate::app::AppState;
use crate::attention;
use crate::charge::may_say;
use crate::error::Error;
use crate::once::{Done, Once};
use chorus_protocol::api::messages::{Edit, Noted};
use chorus_protocol::ids::{ConversationId, EventId, Principal};
use chorus_store::Tx;
use chorus_store::conversation::{self, Post};
use std::sync::{Arc, OnceLock};

/// Changes what a message says; its author may.
pub async fn edit(
    app: &AppState,
    who: Principal,
    (conversation, target): (ConversationId, EventId),
    new: Edit,
    once: Once,
) -> Result<Done<Noted>, Error> {
    let (new, act, hub) = (Post::new(masked(&new)?), act(app, who, conversation), Arc::clone(app));
    let counted = OnceLock::new();
    let work = move |tx: &mut dyn Tx| {
        let draft = conversation::draft_edit(tx, &act, target, &new)
            .map_err(only("the author of a message, and nobody else, changes it"))?;
        let decided = attention::decide(tx, &draft)?;
        // What comes to somebody is sent, however it came about. The transaction may run again: what was decided stands.
        if decided.wakes() {
            counted.get_or_init(|| may_say(&hub, who, conversation, 1)).clone()?;
        }
        let posted = post_decided(&hub, tx, &draft, decided)?;
        Ok(Noted {
            event_id: act.event,
            sequence: posted.seq,
            masked: kinds(&new.body),
            unknown: posted.unknown,
        })
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
        let draft = conversation::draft_deletion(tx, &act, target)
            .map_err(only("the author of a message and the owner of the channel take it back"))?;
        post(&hub, tx, &draft).map(drop)
    };
    app.once(once, is_member(who, conversation), work).await
}
