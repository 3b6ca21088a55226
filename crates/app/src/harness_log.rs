//! What harnesses say for the log: written down a moment later, many at once, so that to say something costs nobody a commit.
//!
//! Who says too much at once is not heard for a moment, and does not keep others from being heard. A hub that dies loses the last
//! half a second of it.

use chorus_protocol::c2a::LogMessage;
use chorus_protocol::ids::AgentId;
use chorus_protocol::redact::MaskedText;
use chorus_store::harness_logs::{self, NewLine};
use chorus_store::{Store, StoreError, Tx};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use uuid::Uuid;

/// So much of one agent waits to be written.
const MOST_OF_ONE: usize = 20;
/// So many agents' lines do.
const MOST_AGENTS: usize = 1000;
/// So much of a line is kept, in characters, and of the name of what says it.
const MAX_TEXT: usize = 1000;
const MAX_LOGGER: usize = 64;

/// What was said and is not written down yet.
#[derive(Default)]
pub struct HarnessLog(Mutex<HashMap<AgentId, Vec<NewLine>>>);

impl HarnessLog {
    /// An agent's harness said something. The new id says when. Whether it is kept.
    pub fn note(&self, id: Uuid, agent: AgentId, said: &LogMessage) -> bool {
        let mut waiting = self.waiting();
        let has_room = waiting.get(&agent).map_or(waiting.len() < MOST_AGENTS, |own| own.len() < MOST_OF_ONE);
        if has_room {
            // Databases take no U+0000.
            let cut =
                |text: &str, most| text.chars().filter(|sign| *sign != '\0').take(most).collect::<String>();
            let logger = said.logger.as_deref().map(|name| cut(name, MAX_LOGGER));
            // What is cut could be half of a credential, and would not be known as one.
            let masked = MaskedText::new(said.text());
            let text = MaskedText::new(cut(masked.as_str(), MAX_TEXT));
            waiting.entry(agent).or_default().push(NewLine { id, agent, level: said.level, logger, text });
        }
        has_room
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<AgentId, Vec<NewLine>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A reconciler: writes what was said since the last time. What cannot be written is lost: it is not worth a full memory.
    pub async fn flush(&self, store: &Store) -> Result<(), StoreError> {
        let mut lines: Vec<_> = std::mem::take(&mut *self.waiting()).into_values().flatten().collect();
        if lines.is_empty() {
            return Ok(());
        }
        // Always the same order, so that a simulation plays the same again.
        lines.sort_by_key(|line| line.id);
        store.write::<_, StoreError, _>(move |tx: &mut dyn Tx| harness_logs::record(tx, &lines)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chorus_protocol::c2a::LogLevel;
    use serde_json::json;

    #[test]
    fn who_says_too_much_is_not_heard_and_others_are() {
        let log = HarnessLog::default();
        let agent = |number: u128| AgentId(Uuid::from_u128(number));
        let said = LogMessage { level: LogLevel::Info, logger: None, data: json!("x\u{0}".repeat(5000)) };
        for n in 0..MOST_OF_ONE as u128 {
            assert!(log.note(Uuid::from_u128(n), agent(1), &said));
        }
        assert!(!log.note(Uuid::from_u128(100), agent(1), &said));
        assert!(log.note(Uuid::from_u128(101), agent(2), &said));
        let kept = &log.waiting()[&agent(2)][0];
        assert_eq!(kept.text.as_str(), "x".repeat(MAX_TEXT));
    }
}
