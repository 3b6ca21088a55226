//! The status of a member.

use super::{act, kinds, masked};
use chorus_node::AppState;
use chorus_node::Error;
use chorus_protocol::api::messages::Noted;
use chorus_protocol::ids::{ConversationId, Principal};
use chorus_protocol::words::EventKind;
use chorus_store::Tx;
use chorus_store::conversation;
use serde_json::json;

/// Sets a member's status, a few words about its present work. It stands until the next one.
pub async fn set_status(
    app: &AppState,
    who: Principal,
    conversation: ConversationId,
    status: &str,
) -> Result<Noted, Error> {
    let (masked, act) = (masked(&json!({"status": status}))?, act(app, who, conversation));
    let work = move |tx: &mut dyn Tx| {
        let sequence = conversation::note(tx, &act, EventKind::Status, None, None, &masked)?;
        Ok(Noted { event_id: act.event, sequence, masked: kinds(&masked), unknown: vec![] })
    };
    app.store.write::<_, Error, _>(work).await
}
