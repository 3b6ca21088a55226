//! Counts the messages by which two agents woke each other in a conversation since a person spoke there. The attention
//! engine decides on the limits.
//!
//! Writers hold the lock of the conversation.

use crate::{StoreError, Tx, TxExt};
use chorus_protocol::ids::{AgentId, ConversationId};

/// The exchange of two agents in one conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenExchange {
    pub turns: u32,
    /// The time of its first turn.
    pub began_at: i64,
}

/// Decides which exchanges go on with the next turn. All others are over, and the next turn begins a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExchangeLifetime {
    /// An exchange goes on if its last turn is later than this.
    pub since: i64,
    /// An exchange of this many turns goes on however long it is quiet.
    pub kept_turns: i64,
}

/// Two agents, the one with the smaller id first.
fn ordered((one, other): (AgentId, AgentId)) -> (AgentId, AgentId) {
    (one.min(other), one.max(other))
}

/// Returns the exchange of two agents that goes on, if there is one.
pub fn of(
    tx: &mut dyn Tx,
    conversation: ConversationId,
    pair: (AgentId, AgentId),
    lifetime: ExchangeLifetime,
) -> Result<Option<OpenExchange>, StoreError> {
    let (one, other) = ordered(pair);
    let row = tx.first(
        "SELECT turns, began_at FROM loop_guards WHERE conversation_id = $1 AND one_id = $2 AND other_id = $3
             AND (counted_at > $4 OR turns >= $5)",
        &[
            (&conversation).into(),
            (&one).into(),
            (&other).into(),
            lifetime.since.into(),
            lifetime.kept_turns.into(),
        ],
    )?;
    let exchange = row.map(|mut row| {
        let turns = u32::try_from(row.int("turns")?).unwrap_or(u32::MAX);
        Ok(OpenExchange { turns, began_at: row.int("began_at")? })
    });
    exchange.transpose()
}

/// Counts one more turn of two agents. Exchanges of the conversation that are over are deleted when a new one begins.
pub fn count(
    tx: &mut dyn Tx,
    conversation: ConversationId,
    pair: (AgentId, AgentId),
    lifetime: ExchangeLifetime,
    now: i64,
) -> Result<(), StoreError> {
    let (one, other) = ordered(pair);
    let row = tx.first(
        "INSERT INTO loop_guards (conversation_id, one_id, other_id, turns, began_at, counted_at) VALUES ($1, $2, $3, 1, $6, $6)
         ON CONFLICT (conversation_id, one_id, other_id) DO UPDATE SET
             turns = CASE WHEN loop_guards.counted_at > $4 OR loop_guards.turns >= $5 THEN loop_guards.turns + 1 ELSE 1 END,
             began_at = CASE WHEN loop_guards.counted_at > $4 OR loop_guards.turns >= $5 THEN loop_guards.began_at ELSE $6 END,
             counted_at = $6
         RETURNING turns",
        &[
            (&conversation).into(),
            (&one).into(),
            (&other).into(),
            lifetime.since.into(),
            lifetime.kept_turns.into(),
            now.into(),
        ],
    )?;
    if row.map_or(Ok(0), |mut row| row.int("turns"))? == 1 {
        tx.execute(
            "DELETE FROM loop_guards WHERE conversation_id = $1 AND counted_at <= $2 AND turns < $3",
            &[(&conversation).into(), lifetime.since.into(), lifetime.kept_turns.into()],
        )?;
    }
    Ok(())
}

/// Deletes the exchanges of a conversation, because a person speaks.
pub fn reset(tx: &mut dyn Tx, conversation: ConversationId) -> Result<(), StoreError> {
    tx.execute("DELETE FROM loop_guards WHERE conversation_id = $1", &[(&conversation).into()])?;
    Ok(())
}

/// The number of an agent's newest jobs that are examined.
const RECENT_JOBS: i64 = 100;

/// Returns `true` if an agent works on something that a person gave it in this conversation by the time `by`: it must
/// answer a person's message, or has held the claim on one since then. What the agent has made of a message, such as a
/// deferral, makes no difference.
pub fn works_for_person(
    tx: &mut dyn Tx,
    conversation: ConversationId,
    worker: AgentId,
    by: i64,
) -> Result<bool, StoreError> {
    let found = tx.first(
        "SELECT 1 FROM chats c JOIN events e ON e.id = c.event_id
         WHERE c.agent_id = $1 AND c.next_at IS NOT NULL AND e.conversation_id = $2 AND e.author_kind = 'account'
           AND e.created_at <= $3
           AND (c.policy = 'must_respond'
                OR EXISTS (SELECT 1 FROM claims k WHERE k.event_id = COALESCE(c.supersedes, c.event_id)
                           AND k.holder = $1 AND k.state = 'held' AND k.since_at <= $3)) LIMIT 1",
        &[(&worker).into(), (&conversation).into(), by.into()],
    )?;
    Ok(found.is_some())
}

/// Returns `true` if an agent works on a job that the other gave it by the time `by`.
pub fn works_on_job(
    tx: &mut dyn Tx,
    (worker, asker): (AgentId, AgentId),
    by: i64,
) -> Result<bool, StoreError> {
    let found = tx.first(
        "SELECT 1 FROM (SELECT orchestrator_id, status, created_at FROM jobs WHERE agent_id = $1
                        ORDER BY created_at DESC, id DESC LIMIT $3) j
         WHERE j.orchestrator_id = $2 AND j.status = 'PENDING' AND j.created_at <= $4 LIMIT 1",
        &[(&worker).into(), (&asker).into(), RECENT_JOBS.into(), by.into()],
    )?;
    Ok(found.is_some())
}
