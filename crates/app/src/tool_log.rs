//! Who called which tool, and what came of it: written down a moment later, many at once, so that reading costs nobody a commit.
//!
//! A hub that dies loses the last half a second of it; what a call changed is in the log it changed. A call is only said to have been
//! somewhere if its caller is there: strangers write nothing into others' trails.

use chorus_protocol::ids::{ConversationId, EventId, Principal};
use chorus_store::tool_calls::{self, ToolCall};
use chorus_store::{Store, StoreError, Tx, conversations, members};
use std::sync::{Mutex, PoisonError};
use uuid::Uuid;

/// So many wait to be written; what is called beyond them is written nowhere.
const MOST_WAITING: usize = 10_000;
/// So many are written in one transaction.
const TOGETHER: usize = 200;

/// What was called and is not written down yet.
#[derive(Default)]
pub struct ToolLog(Mutex<Vec<ToolCall>>);

/// What a call was about, as its caller says.
#[derive(Debug, Clone, Copy, Default)]
pub struct About {
    pub conversation: Option<ConversationId>,
    pub event: Option<EventId>,
}

impl ToolLog {
    /// Somebody called a tool. The call's new id says when.
    pub fn note(
        &self,
        id: Uuid,
        (door, caller): (&str, Principal),
        tool: &str,
        About { conversation, event }: About,
        outcome: &str,
    ) {
        let (door, tool, outcome) = (door.to_owned(), tool.to_owned(), outcome.to_owned());
        let call = ToolCall { id, caller, tool, door, conversation, event, outcome };
        let mut waiting = self.waiting();
        if waiting.len() < MOST_WAITING {
            waiting.push(call);
        }
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, Vec<ToolCall>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A reconciler: writes what was called since the last time.
    pub async fn flush(&self, store: &Store) -> Result<(), StoreError> {
        loop {
            let together: Vec<_> = {
                let mut waiting = self.waiting();
                let count = waiting.len().min(TOGETHER);
                waiting.drain(..count).collect()
            };
            if together.is_empty() {
                return Ok(());
            }
            let calls = together.clone();
            let write = move |tx: &mut dyn Tx| {
                let calls = calls.iter().map(|call| placed(tx, call)).collect::<Result<Vec<_>, _>>()?;
                tool_calls::record(tx, &calls)
            };
            if let Err(error) = store.write::<_, StoreError, _>(write).await {
                self.waiting().extend(together);
                return Err(error);
            }
        }
    }
}

/// The call, with the conversation it was about if its caller is there.
fn placed(tx: &mut dyn Tx, call: &ToolCall) -> Result<ToolCall, StoreError> {
    let said = call.event.map_or(Ok(None), |event| conversations::event_by_id(tx, event))?;
    let place = said.map(|said| said.conversation).or(call.conversation);
    let is_there =
        |tx: &mut dyn Tx, place| members::of(tx, place, call.caller).map(|member| member.is_some());
    let conversation = match place {
        Some(place) if is_there(tx, place)? => Some(place),
        _ => None,
    };
    Ok(ToolCall { conversation, ..call.clone() })
}
