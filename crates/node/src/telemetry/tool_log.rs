//! The log of tool calls and their outcomes, written in batches a moment later, so that a read costs no
//! commit.
//!
//! Changes by a call are in the log of the conversation, so a crash loses none of them. A call is attributed
//! to a conversation only if its caller is a member, so that strangers cannot write into others' trails.

use super::write_behind::{UnwrittenLimits, WriteBehind};
use chorus_protocol::ids::{ConversationId, EventId, Principal};
use chorus_store::tool_calls::{self, ToolCall};
use chorus_store::{Store, StoreError, Tx, conversations, members};
use uuid::Uuid;

/// Unwritten calls.
const MOST_WAITING: usize = 10_000;

/// Tool calls that are not written yet.
pub struct ToolLog(WriteBehind<ToolCall>);

impl Default for ToolLog {
    fn default() -> Self {
        let limits = UnwrittenLimits { all: MOST_WAITING, of_one_writer: MOST_WAITING };
        Self(WriteBehind::new(limits, |tx, calls| {
            let calls = calls.iter().map(|call| placed(tx, call)).collect::<Result<Vec<_>, _>>()?;
            tool_calls::record(tx, &calls)
        }))
    }
}

/// The subject of a call, as its caller states it.
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
        self.0.push(caller.uuid(), || ToolCall { id, caller, tool, door, conversation, event, outcome });
    }

    /// Writes the calls since the last flush.
    pub async fn flush(&self, store: &Store) -> Result<(), StoreError> {
        self.0.flush(store).await
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
