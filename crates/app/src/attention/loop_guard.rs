//! The loop guard's seam: what is known of the past when an agent is about to wake another, and what is remembered of it.
//!
//! What was said lately is read from the log; only how often agents woke each other since a person spoke is counted. Of claims
//! and jobs nothing is known yet, so nobody is on a task.

use chorus_attention::loop_guard::{self, DEFAULT_TURNS, Exchange, RECENT, Spoken};
use chorus_protocol::ids::Principal;
use chorus_store::conversation::{Draft, DraftKind};
use chorus_store::{StoreError, Tx, log, loop_guards};

/// An exchange in which no agent woke another for so long is over: where there is no person, none could end it.
const FORGOTTEN_MS: i64 = 60 * 60 * 1000;

/// Whether a message of an agent goes on with a loop.
pub(super) fn is_loop(tx: &mut dyn Tx, draft: &Draft<'_>) -> Result<bool, StoreError> {
    let conversation = draft.act.conversation;
    let turns = loop_guards::turns(tx, conversation, draft.act.now - FORGOTTEN_MS)?;
    let messages = log::last_messages(tx, conversation, draft.thread, RECENT as i64)?;
    let mut recent = vec![];
    // Who mends a message says it again; that is no repetition.
    let changed = draft.changed_seq;
    for message in messages.iter().filter(|message| Some(message.seq) != changed) {
        let by_person = matches!(message.author, Principal::Account(_));
        recent.push((by_person, super::Earlier::read(&message.body)?.content));
    }
    let recent: Vec<_> =
        recent.iter().map(|(by_person, text)| Spoken { by_person: *by_person, text }).collect();
    let exchange = Exchange { turns, recent: &recent, on_task: false };
    Ok(loop_guard::is_loop(draft.body.text("content"), &exchange, Some(DEFAULT_TURNS)))
}

/// A message was posted or changed: an agent that woke another took a turn, a person who speaks ends the exchange.
pub fn remember(tx: &mut dyn Tx, draft: &Draft<'_>, wakes: bool) -> Result<(), StoreError> {
    match (draft.kind, draft.act.author) {
        (DraftKind::Message(_), Principal::Account(_)) => loop_guards::reset(tx, draft.act.conversation),
        (DraftKind::Message(_) | DraftKind::Edit(_), Principal::Agent(_)) if wakes => {
            let (conversation, now) = (draft.act.conversation, draft.act.now);
            loop_guards::count(tx, conversation, now - FORGOTTEN_MS, now)
        }
        _ => Ok(()),
    }
}
