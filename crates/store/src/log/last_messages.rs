//! The last messages of a conversation or a thread, for rules about what was said, and for nobody to read.

use crate::conversations::{self, Event, event, select_event};
use crate::{StoreError, Tx, TxExt};
use chorus_protocol::ids::{ConversationId, EventId, Principal};
use chorus_protocol::words::EventKind;

const LAST_MESSAGES: &str = select_event!(
    "WHERE e.conversation_id = $1 AND e.kind = 'message' AND e.seq <> 0 ORDER BY e.seq DESC LIMIT $2"
);
// The subquery looks no further back than it says, whatever else agents note in a thread.
const LAST_OF_THREAD: &str = select_event!(
    "WHERE e.kind = 'message' AND e.conversation_id = $1 AND e.id IN
         (SELECT t.id FROM events t WHERE t.thread_id = $3 ORDER BY t.seq DESC LIMIT 100)
     ORDER BY e.seq DESC LIMIT $2"
);

// Both look no further back than they say.
const LAST_BY: &str = select_event!(
    "WHERE e.author_id = $2 AND e.kind = 'message' AND e.id IN
         (SELECT m.id FROM events m WHERE m.conversation_id = $1 AND m.kind = 'message' AND m.seq <> 0 AND m.seq < $3
          ORDER BY m.seq DESC LIMIT 50)
     ORDER BY e.seq DESC LIMIT 1"
);
const LAST_OF_THREAD_BY: &str = select_event!(
    "WHERE e.author_id = $2 AND e.kind = 'message' AND e.id IN
         (SELECT t.id FROM events t WHERE t.thread_id = $1 AND t.seq < $3 ORDER BY t.seq DESC LIMIT 100)
     ORDER BY e.seq DESC LIMIT 1"
);

/// Returns the last of the latest messages in a conversation, or in a thread with the message that began it, that an
/// author said before a position, as it was said.
pub fn last_message_by(
    tx: &mut dyn Tx,
    conversation: ConversationId,
    thread: Option<EventId>,
    author: Principal,
    before: i64,
) -> Result<Option<Event>, StoreError> {
    let (sql, place) = match &thread {
        None => (LAST_BY, (&conversation).into()),
        Some(thread) => (LAST_OF_THREAD_BY, thread.into()),
    };
    match (tx.first(sql, &[place, (&author.uuid()).into(), before.into()])?, thread) {
        (Some(row), _) => event(row).map(Some),
        (None, None) => Ok(None),
        (None, Some(thread)) => {
            let first = conversations::event_by_id(tx, thread)?;
            Ok(first.filter(|first| first.author == author && first.kind == EventKind::Message))
        }
    }
}

/// The last messages of a conversation, or those of a thread with the one that began it, as they were said; the last first,
/// but before all of them the one that began the thread. For rules about what was said, and for nobody to read.
pub fn last_messages(
    tx: &mut dyn Tx,
    conversation: ConversationId,
    thread: Option<EventId>,
    limit: i64,
) -> Result<Vec<Event>, StoreError> {
    let (mut messages, rows) = match thread {
        None => (vec![], tx.query(LAST_MESSAGES, &[(&conversation).into(), limit.into()])?),
        Some(thread) => {
            let first = conversations::event_by_id(tx, thread)?;
            let rest = limit - i64::from(first.is_some());
            let page = [(&conversation).into(), rest.into(), (&thread).into()];
            (Vec::from_iter(first), tx.query(LAST_OF_THREAD, &page)?)
        }
    };
    for row in rows {
        messages.push(event(row)?);
    }
    Ok(messages)
}

#[cfg(test)]
mod tests {
    use super::{LAST_BY, LAST_MESSAGES, LAST_OF_THREAD, LAST_OF_THREAD_BY};

    /// The last messages are found without scanning others.
    #[tokio::test]
    async fn the_last_messages_are_found_by_their_indexes() {
        let plan = crate::push::plan_of(LAST_MESSAGES, 2).await;
        assert!(plan.contains("events_by_kind (conversation_id=? AND kind=?"), "{plan}");
        let plan = crate::push::plan_of(LAST_OF_THREAD, 3).await;
        assert!(plan.contains("events_by_thread (thread_id=?)") && !plan.contains("SCAN e"), "{plan}");
        assert!(plan.contains("events_by_id (id=?)"), "{plan}");
        let plan = crate::push::plan_of(LAST_BY, 3).await;
        assert!(plan.contains("events_by_kind (conversation_id=? AND kind=?"), "{plan}");
        assert!(plan.contains("events_by_id (id=?)") && !plan.contains("SCAN e"), "{plan}");
        let plan = crate::push::plan_of(LAST_OF_THREAD_BY, 3).await;
        assert!(plan.contains("events_by_thread (thread_id=?") && !plan.contains("SCAN e"), "{plan}");
    }
}
