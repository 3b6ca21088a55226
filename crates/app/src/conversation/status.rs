//! The status of a member, and its end.

use super::{act, kinds, masked};
use chorus_node::AppState;
use chorus_node::Error;
use chorus_protocol::api::messages::Noted;
use chorus_protocol::channel::MAX_ERROR;
use chorus_protocol::ids::{ConversationId, Principal};
use chorus_protocol::words::{ConversationKind, EventKind};
use chorus_store::Tx;
use chorus_store::conversation::{self, Act};
use chorus_store::conversations::Event;
use chorus_store::fleet;
use serde_json::{Value, json};

/// The last events of an agent among which its status is looked up.
const LOOKED_BACK: i64 = 20;

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

/// Ends the status of an agent that is done with what it was about. A status of another conversation stays.
pub(crate) fn end_status(tx: &mut dyn Tx, act: &Act) -> Result<(), Error> {
    let last = fleet::last_done(tx, act.author, LOOKED_BACK)?;
    let step = last.iter().find(|event| {
        let is_step = matches!(
            event.kind,
            EventKind::Status | EventKind::Lifecycle | EventKind::Error | EventKind::Message
        );
        event.conversation == act.conversation && is_step
    });
    let Some(status) = step.filter(|event| event.kind == EventKind::Status) else { return Ok(()) };
    let body: Value = serde_json::from_str(&status.body).map_err(Error::internal)?;
    if conversation::as_speaker(tx, act.conversation, act.author).is_err() {
        return Ok(());
    }
    if body["status"].as_str().is_some_and(|text| !text.is_empty()) {
        let over = masked(&json!({"status": ""}))?;
        conversation::note(tx, act, EventKind::Status, status.thread, None, &over)?;
    }
    Ok(())
}

/// Tells in the thread of a message that an agent failed to answer it, as a callback does.
pub(crate) fn tell_failure(
    tx: &mut dyn Tx,
    act: &Act,
    message: &Event,
    why: Option<&str>,
) -> Result<(), Error> {
    // In an archived channel nothing is said any more.
    let Ok((place, _)) = conversation::as_speaker(tx, act.conversation, act.author) else { return Ok(()) };
    let thread = match place.kind {
        ConversationKind::Channel => Some(message.thread.unwrap_or(message.id)),
        ConversationKind::Dm => message.thread,
    };
    let why: String = why.unwrap_or("it failed").chars().take(MAX_ERROR).collect();
    let body = masked(&json!({"message": why.replace('\0', "")}))?;
    conversation::note(tx, act, EventKind::Error, thread, Some(message.id), &body)?;
    Ok(())
}
