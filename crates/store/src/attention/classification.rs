//! The intents that messages are taken for, by which their recipients were decided.

use super::audience::event_of;
use super::handling::kind_of;
use super::stored_message::StoredMessage;
use crate::conversation::Draft;
use crate::conversations::{self, Event};
use crate::{StoreError, Tx, members};
use chorus_attention::classify;
use chorus_protocol::attention::Classification;
use chorus_protocol::ids::EventId;
use chorus_protocol::words::{EventKind, Intent};

/// Returns what a message is taken for that is about to be posted.
pub fn classify_draft(draft: &Draft<'_>) -> Result<Classification, StoreError> {
    Ok(classify(event_of(draft)?).classification())
}

/// Returns what a message was taken for when it was posted. Returns `None` for other events.
pub fn classify_stored(tx: &mut dyn Tx, event: EventId) -> Result<Option<Classification>, StoreError> {
    let Some(said) = conversations::event_by_id(tx, event)? else { return Ok(None) };
    if said.kind != EventKind::Message || said.seq == conversations::UNPLACED {
        return Ok(None);
    }
    let body = StoredMessage::read(&said.body)?;
    let mut names_somebody = !body.recipients().is_empty();
    for name in body.names() {
        names_somebody = names_somebody
            || members::by_handle(tx, said.conversation, name)?.is_some()
            || !members::in_role(tx, said.conversation, name, 1)?.is_empty();
    }
    let answered = match said.target.or_else(|| body.answered()) {
        Some(answered) => conversations::event_by_id(tx, answered)?,
        None => None,
    };
    let event = body.declared(chorus_attention::Event {
        author: kind_of(said.author),
        in_thread: said.thread.is_some(),
        text: body.text(),
        names_somebody,
        answers: answered.map(|answered| intent_for(&said, &answered)).transpose()?.flatten(),
        ..chorus_attention::Event::EMPTY
    });
    Ok(Some(classify(event).classification()))
}

/// Returns the intent of an answered message for the author of an answer. What one person asks another waits for no
/// agent.
fn intent_for(answer: &Event, answered: &Event) -> Result<Option<Intent>, StoreError> {
    let is_between_people = answer.author.agent().is_none() && answered.author.agent().is_none();
    let said = StoredMessage::read(&answered.body)?;
    Ok((!is_between_people).then(|| said.answered_intent()))
}
