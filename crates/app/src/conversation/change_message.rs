//! Edits and deletions of messages.
//!
//! An approval is for one text. An edit of an approved message is held for approval, as the message was.

use super::hold::hold_edit;
use super::post::post_planned;
use super::{act, count_message, is_member, kinds, masked, only, post};
use crate::attention;
use crate::views;
use chorus_node::AppState;
use chorus_node::Error;
use chorus_node::idempotency::{Done, Once};
use chorus_protocol::api::messages::{Edit, EditResult, Noted};
use chorus_protocol::ids::{ApprovalId, ConversationId, EventId, Principal};
use chorus_store::conversation::{self, Post};
use chorus_store::{Tx, conversations};
use serde_json::{Map, Value};
use std::sync::{Arc, OnceLock};

/// Edits a message. Only its author may.
pub async fn edit(
    app: &AppState,
    who: Principal,
    (conversation, target): (ConversationId, EventId),
    new: Edit,
    once: Once,
) -> Result<Done<EditResult>, Error> {
    let (new, act, hub) = (Post::new(masked(&new)?), act(app, who, conversation), Arc::clone(app));
    let (counted, approval) = (OnceLock::new(), ApprovalId(app.environment.uuid_v7()));
    let work = move |tx: &mut dyn Tx| {
        let draft = conversation::draft_edit(tx, &act, target, &new)
            .map_err(only("the author of a message, and nobody else, changes it"))?;
        if was_approved(tx, target)? {
            count_message(&hub, tx, &act, &counted)?;
            return hold_edit(&hub, tx, &draft, approval, target, &new).map(EditResult::Held);
        }
        let effects = attention::decide(tx, &draft)?;
        // An edit that wakes somebody counts like a message. The cell keeps the decision when the transaction
        // is retried.
        if effects.iter().any(|effect| effect.wakes().is_some()) {
            counted.get_or_init(|| hub.limits.may_say(who, conversation, 1)).clone()?;
        }
        let posted = post_planned(&hub, tx, &draft, &effects)?;
        Ok(EditResult::Changed(Noted {
            event_id: act.event,
            sequence: posted.seq,
            masked: kinds(&new.body),
            unknown: posted.unknown,
        }))
    };
    app.once(once, is_member(who, conversation), work).await
}

/// Returns `true` if a person approved a message before it was said.
fn was_approved(tx: &mut dyn Tx, message: EventId) -> Result<bool, Error> {
    let Some(said) = conversations::event_by_id(tx, message)? else { return Ok(false) };
    let body: Map<String, Value> = serde_json::from_str(&said.body).map_err(Error::internal)?;
    Ok(body.contains_key(views::APPROVED_BY))
}

/// Deletes a message. Its author and the owner of the channel may do this.
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
