//! What a change of a message means for those who were given it and are not done with it.
//!
//! A message that is taken back is nobody's any more, and a harness that is connected here is told. A message that is changed
//! comes to a harness under the change's own id, in place of what it has; who is reached otherwise finds it changed, as
//! everybody who looks does.

use super::{disposing, shows};
use crate::app::AppState;
use crate::delivery::dialect::{Dialect, delivery_id};
use chorus_attention::disposition::Cause;
use chorus_protocol::c2a::{Cancelled, Method};
use chorus_protocol::ids::{DeliveryId, EventId};
use chorus_protocol::rpc::Notification;
use chorus_protocol::words::EntryKind;
use chorus_store::conversation::{self, Draft, DraftKind};
use chorus_store::deliveries::Bringing;
use chorus_store::obligations::{self, Obligation};
use chorus_store::{StoreError, Tx};
use serde_json::{Value, json};
use std::sync::Arc;

/// The most agents that a change is told.
const MAX_TOLD: i64 = 200;

/// A message was changed or taken back, in this transaction.
pub fn remember(app: &AppState, tx: &mut dyn Tx, draft: &Draft<'_>) -> Result<(), StoreError> {
    let (DraftKind::Edit(target) | DraftKind::Deletion(target)) = draft.kind else { return Ok(()) };
    let now = draft.act.now;
    let mut open = vec![];
    for (event, agent) in obligations::of_message(tx, target, MAX_TOLD)? {
        let known = obligations::of(tx, event, agent, now)?;
        open.extend(known.filter(|known| !disposing::is_over(known.disposition)));
    }
    // The smaller inbox first, as everywhere.
    open.sort_by_key(|known| known.id.agent);
    for known in open {
        match draft.kind {
            DraftKind::Deletion(_) => {
                disposing::record_passively(tx, known.event, known.id.agent, Cause::Deleted, now)?;
                cancel(app, tx, &known)?;
            }
            _ => supersede(tx, draft, target, &known)?,
        }
    }
    Ok(())
}

/// Brings the change in place of what was given, to whom knows that.
fn supersede(
    tx: &mut dyn Tx,
    draft: &Draft<'_>,
    target: EventId,
    known: &Obligation,
) -> Result<(), StoreError> {
    let (act, agent) = (draft.act, known.id.agent);
    if !shows(tx, agent, act.now)?.notify {
        return Ok(());
    }
    let id = DeliveryId { agent, seq: tx.next_seq(agent.0)? };
    let bringing = Bringing { mentions: &known.mentions, supersedes: Some(target), ..Bringing::FIRST };
    if conversation::deliver(tx, act, id, EntryKind::Chat, known.attention, bringing)?.is_some() {
        disposing::record_passively(tx, known.event, agent, Cause::Edited, act.now)?;
    }
    Ok(())
}

/// Tells a harness that is connected here, once this is committed.
fn cancel(app: &AppState, tx: &mut dyn Tx, known: &Obligation) -> Result<(), StoreError> {
    let agent = known.id.agent;
    if app.live.dialect(agent) != Some(Dialect::C2a) {
        return Ok(());
    }
    let cancelled = Cancelled {
        request_id: json!(delivery_id(known.id.seq)),
        event_id: Some(known.event.into()),
        reason: Some("the message was deleted".into()),
    };
    let unexpected = |error: serde_json::Error| StoreError::Unexpected(error.into());
    let Value::Object(params) = serde_json::to_value(&cancelled).map_err(unexpected)? else { return Ok(()) };
    let notice = Notification { method: Method::Cancelled.as_str().to_owned(), params };
    let notice = serde_json::to_string(&notice).map_err(unexpected)?;
    let live = Arc::clone(&app.live);
    tx.after_commit(Box::new(move || live.tell(agent, notice.into())));
    Ok(())
}
