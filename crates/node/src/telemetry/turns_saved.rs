//! Model turns that messages did not cost: a total for the operator and a figure per agent for the fleet, by
//! one definition.
//!
//! A message saves a turn of each agent that is in its conversation, did not write it, and did not get it in
//! full at once. These agents are counted a moment later and once for all messages since, so that posting
//! waits for no count of members.

use crate::telemetry::metrics::Metrics;
use chorus_protocol::ids::{ConversationId, Principal};
use chorus_store::{Store, StoreError, Tx, members};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Conversations that are remembered. Messages in others are not counted.
const MOST_CONVERSATIONS: usize = 10_000;

/// The messages of a conversation since the last count.
#[derive(Debug, Clone, Copy, Default)]
struct Lately {
    messages: i64,
    /// Those of them that agents said.
    by_agents: i64,
    /// Agents that were shown one in full.
    woken: i64,
}

/// Messages that are not counted yet.
#[derive(Default)]
pub struct TurnsSaved(Mutex<HashMap<ConversationId, Lately>>);

impl TurnsSaved {
    /// Records a message that woke this many agents.
    pub fn note(&self, conversation: ConversationId, author: Principal, woken: usize) {
        let mut lately = self.lately();
        if lately.len() >= MOST_CONVERSATIONS && !lately.contains_key(&conversation) {
            return;
        }
        let said = lately.entry(conversation).or_default();
        said.messages += 1;
        said.by_agents += i64::from(author.agent().is_some());
        said.woken += woken as i64;
    }

    fn lately(&self) -> MutexGuard<'_, HashMap<ConversationId, Lately>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts the turns saved since the last call.
    pub async fn flush(&self, store: &Store, metrics: &Metrics) -> Result<(), StoreError> {
        let lately = std::mem::take(&mut *self.lately());
        if lately.is_empty() {
            return Ok(());
        }
        let count = move |tx: &mut dyn Tx| {
            let mut saved = 0;
            for (conversation, said) in &lately {
                let agents = members::count_agents(tx, *conversation)?;
                saved += (said.messages * agents - said.by_agents - said.woken).max(0);
            }
            Ok(saved)
        };
        let saved = store.read::<_, StoreError, _>(count).await?;
        metrics.turns_saved.inc_by(u64::try_from(saved).unwrap_or_default());
        Ok(())
    }
}
