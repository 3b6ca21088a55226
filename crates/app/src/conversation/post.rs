//! Posting a draft, whatever it does: what saying, editing, deleting and reacting have in common.

use crate::app::AppState;
use crate::attention;
use crate::usage::event_bytes;
use crate::views::{EventView, event_frame};
use chorus_store::conversation::{self, ConversationError, Draft, DraftKind, Posted};
use chorus_store::conversations::Event;
use chorus_store::{StoreError, Tx};
use std::sync::Arc;

/// Appends a draft, delivered to whom attention decides. It is counted for its author, and published once it is committed.
pub(super) fn post(app: &AppState, tx: &mut dyn Tx, draft: &Draft<'_>) -> Result<Posted, ConversationError> {
    let reach = attention::decide(tx, draft)?;
    let posted = conversation::post(tx, draft, reach)?;
    // Who has no room left can still take back what he said.
    if !matches!(draft.kind, DraftKind::Deletion(_)) {
        app.count_bytes(tx, draft.act.author, event_bytes(draft.body.json().len()))?;
    }
    publish(app, tx, draft, &posted)?;
    Ok(posted)
}

/// Once it is committed: those who follow the conversation here get the one frame of a message, and what is to be pushed is
/// pushed.
fn publish(app: &AppState, tx: &mut dyn Tx, draft: &Draft<'_>, posted: &Posted) -> Result<(), StoreError> {
    if !posted.delivered.is_empty() {
        app.push_after(tx);
    }
    let (act, seq) = (draft.act, posted.seq);
    let stream = act.conversation.0;
    // What changes a message is shown as it stands when it is read.
    if !matches!(draft.kind, DraftKind::Message(_)) || !app.live.is_followed(stream) {
        return Ok(());
    }
    let event = Event {
        id: act.event,
        conversation: act.conversation,
        seq,
        kind: draft.kind.event(),
        author: act.author,
        handle: Some(draft.handle.clone()),
        trace: act.trace,
        created_at: act.now,
        thread: draft.thread,
        target: draft.kind.target(),
        body: draft.body.json().to_owned(),
    };
    let frame = event_frame(&EventView::new(&event)).map_err(|error| StoreError::Unexpected(error.into()))?;
    let app = Arc::clone(app);
    tx.after_commit(Box::new(move || app.live.frames.put(stream, seq, frame)));
    Ok(())
}
