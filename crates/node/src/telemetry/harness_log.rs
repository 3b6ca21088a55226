//! The log lines of harnesses, written in batches a moment later, so that a line costs no commit.
//!
//! A harness that logs too much at once is ignored for a moment and does not displace others. A crash loses
//! the last half second.

use super::write_behind::{UnwrittenLimits, WriteBehind};
use chorus_protocol::c2a::LogMessage;
use chorus_protocol::ids::AgentId;
use chorus_protocol::redact::MaskedText;
use chorus_store::harness_logs::{self, NewLine};
use chorus_store::{Store, StoreError};
use uuid::Uuid;

/// Unwritten lines per agent.
const MOST_OF_ONE: usize = 20;
/// Unwritten lines of all agents.
const MOST_WAITING: usize = 20_000;
/// Characters that are kept of a line and of its logger's name.
const MAX_TEXT: usize = 1000;
const MAX_LOGGER: usize = 64;

/// Log lines that are not written yet.
pub struct HarnessLog(WriteBehind<NewLine>);

impl Default for HarnessLog {
    fn default() -> Self {
        let limits = UnwrittenLimits { all: MOST_WAITING, of_one_writer: MOST_OF_ONE };
        Self(WriteBehind::new(limits, harness_logs::record))
    }
}

impl HarnessLog {
    /// Adds a log line of an agent's harness and returns whether it is kept. The id contains the time.
    pub fn note(&self, id: Uuid, agent: AgentId, said: &LogMessage) -> bool {
        self.0.push(agent.0, || {
            // Databases take no U+0000.
            let cut =
                |text: &str, most| text.chars().filter(|sign| *sign != '\0').take(most).collect::<String>();
            let logger = said.logger.as_deref().map(|name| cut(name, MAX_LOGGER));
            // Masked before the cut, because half of a credential would not be recognised.
            let masked = MaskedText::new(said.text());
            let text = MaskedText::new(cut(masked.as_str(), MAX_TEXT));
            NewLine { id, agent, level: said.level, logger, text }
        })
    }

    /// Writes the lines since the last flush.
    pub async fn flush(&self, store: &Store) -> Result<(), StoreError> {
        self.0.flush(store).await
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
        let kept = &log.0.unwritten()[MOST_OF_ONE];
        assert_eq!(kept.agent, agent(2));
        assert_eq!(kept.text.as_str(), "x".repeat(MAX_TEXT));
    }
}
