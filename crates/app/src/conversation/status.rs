//! Showing what one is doing.

use super::{act, kinds, masked};
use crate::app::AppState;
use crate::error::Error;
use crate::usage::event_bytes;
use chorus_protocol::api::messages::Noted;
use chorus_protocol::ids::{ConversationId, Principal};
use chorus_protocol::words::EventKind;
use chorus_store::Tx;
use chorus_store::conversation;
use serde_json::json;
use std::sync::Arc;

/// Shows in a few words what somebody is doing; it stands until the next one.
pub async fn set_status(
    app: &AppState,
    who: Principal,
    conversation: ConversationId,
    status: &str,
) -> Result<Noted, Error> {
    let (masked, act, hub) =
        (masked(&json!({"status": status}))?, act(app, who, conversation), Arc::clone(app));
    let work = move |tx: &mut dyn Tx| {
        let sequence = conversation::note(tx, &act, EventKind::Status, None, None, &masked)?;
        hub.count_bytes(tx, who, event_bytes(masked.json().len()))?;
        Ok(Noted { event_id: act.event, sequence, masked: kinds(&masked), unknown: vec![] })
    };
    app.store.write::<_, Error, _>(work).await
}
